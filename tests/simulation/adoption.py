"""Scenarios in which slots outlive their JobMaster and another one adopts them, while this and that goes wrong."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.simulation.faults import Action, Fault, Point
from tests.simulation.regions import region_scenario_of
from tests.simulation.scenario import Scenario, scenario_of

ORPHAN_TIMEOUT_MS = 4_000
#: points about which the phases of a checkpoint, a stop and the end of a job turn
_PHASES = (
    *(Point.SOURCES, Point.TRIGGER, Point.ACKNOWLEDGE, Point.UPLOADED, Point.METADATA, Point.METADATA_WRITTEN),
    *(Point.RECORD, Point.RECORDED, Point.NOTIFY, Point.NOTIFY, Point.COMMITTED, Point.END, Point.STEP, Point.STEP),
)
_SPREAD = {Point.STEP: 600, Point.ACKNOWLEDGE: 80, Point.UPLOADED: 40, Point.END: 2}


def adoption_scenario_of(seed: int, backend: str = "hashmap") -> Scenario:
    """The scenario of a seed with a JobMaster that is lost in the middle of it, and often another one soon after."""
    draw = random.Random(f"adoption {seed}")
    scenario = replace(scenario_of(seed, backend), orphan_timeout_ms=ORPHAN_TIMEOUT_MS, next_parallelism=())
    if draw.random() < 0.4:
        faults = _losses(draw, draw.choice([1, 2, 3, 5]))
        return replace(scenario, faults=faults, only_leaders_fail=True)
    return replace(scenario, faults=(*scenario.faults, *_losses(draw, 1)))


def adoption_of_regions_scenario_of(seed: int) -> Scenario:
    """The scenario of a seed for a job of two regions: what can be adopted of it is, and the rest restarts alone."""
    faults = adoption_scenario_of(seed).faults
    return replace(region_scenario_of(seed), faults=faults, orphan_timeout_ms=ORPHAN_TIMEOUT_MS, next_parallelism=())


def _losses(draw: random.Random, count: int) -> tuple[Fault, ...]:
    """JobMasters that end or stand still; some of them soon after another."""
    faults: dict[tuple[Point, int], Fault] = {}
    for _ in range(count):
        point = draw.choice(_PHASES)
        nth = 1 + int(_SPREAD.get(point, 12) * draw.random() ** 1.5)
        faults[point, nth] = _loss(draw, point, nth)
        if draw.random() < 0.3:
            # while the slots come over, or soon after
            again = draw.randrange(20, 500)
            faults[Point.STEP, again] = _loss(draw, Point.STEP, again)
            faults[Point.STEP, again + 5] = _loss(draw, Point.STEP, again + draw.randrange(2, 60))
    return tuple({(fault.point, fault.nth): fault for fault in faults.values()}.values())


def _loss(draw: random.Random, point: Point, nth: int) -> Fault:
    if draw.random() < 0.5:
        return Fault(point, nth, Action.KILL_JOBMASTER)
    return Fault(point, nth, Action.FREEZE_JOBMASTER, draw.choice([300, 600, 1_500, 3_000, 8_000]))
