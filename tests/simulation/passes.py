"""Scenarios of jobs in micro-batches: the same faults, and some where only passes can be hit.

Half of the seeds run their tasks in the process that hosts them, half in workers of Spark. Some become continuous jobs,
or come from them, when they are resumed from a savepoint.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.faults import Action, Fault, Point
from tests.simulation.scenario import Barriers, Passes, Scenario, scenario_of

#: how often each point is passed in a run without faults, roughly
_PASSAGES = {
    Point.BATCH: 12,
    Point.BATCH_OVER: 12,
    Point.LEVEL: 70,
    Point.REPORTED: 24,
    Point.REPEAT: 20,
    Point.STEP: 200,
    Point.PROCESS: 300,
    Point.ACKNOWLEDGE: 100,
    Point.NOTIFY: 16,
    Point.PREPARED: 20,
    Point.METADATA_WRITTEN: 10,
    Point.RECORDED: 20,
    Point.COMMIT: 20,
    Point.COMMITTED: 20,
    Point.UPLOADED: 80,
}
_ELSEWHERE = (Point.BATCH, Point.BATCH_OVER, Point.LEVEL, Point.REPORTED, Point.REPEAT)
#: where a worker can be, in the middle of its work
_AT_WORK = (Point.LEVEL, Point.PROCESS, Point.UPLOADED, Point.PREPARED, Point.REPEAT, Point.COMMIT, Point.COMMITTED)


def pass_scenario_of(seed: int, backend: str = "hashmap") -> Scenario:
    """The scenario of a seed.

    Args:
        seed: any number; even ones run their tasks where they are hosted.
        backend: hashmap or rocksdb.
    """
    draw = random.Random(f"passes {seed}")
    place = Passes.ELSEWHERE if seed % 2 else Passes.HERE
    scenario = scenario_of(seed, backend)
    faults = {(fault.point, fault.nth): fault for fault in scenario.faults}
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        fault = _fault(draw, place)
        faults[fault.point, fault.nth] = fault
    return replace(
        scenario,
        # nothing overtakes in passes, and nothing is lost in them
        barriers=Barriers.ALIGNED,
        faults=tuple(faults.values()),
        passes=place,
        changes_mode=draw.random() < 0.4,
        max_rows=draw.choice([3, 8, 20, 1_000]),
        # a worker is one step of the world: who waits for it must not take it for lost
        record_ms=min(scenario.record_ms, 1.0),
        per_slice=0,
    )


def _fault(draw: random.Random, place: Passes) -> Fault:
    point = draw.choice([*(_ELSEWHERE if place is Passes.ELSEWHERE else ()), *_PASSAGES])
    if place is Passes.HERE and point in _ELSEWHERE:
        point = Point.STEP
    nth = 1 + int(_PASSAGES[point] * draw.random() ** 1.5)
    actions = [Action.KILL_DRIVER, Action.KILL_DRIVER, Action.KILL_JOBMASTER]
    if point is not Point.ACKNOWLEDGE:
        actions += [Action.KILL] * 2
    if point in _AT_WORK:
        # who does not hear that its work is not wanted any more goes on with it
        actions += [Action.FREEZE] * 3 + [Action.ISOLATE] * 2
    action = draw.choice(actions)
    return Fault(point, nth, action, draw.choice([200, 1_500, 6_000, 9_000]) if action is Action.FREEZE else 0)
