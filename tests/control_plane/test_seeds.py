"""Runs of the whole control plane from seeds: no job is stranded, no operation unanswered, nothing is used twice.

A seed that fails is told with its whole story, and is repeated by `python -m tests.control_plane --seed N`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

import pytest

from backend.cluster.models import Operation
from tests.control_plane.scenario import Action, Event, Point, TimedFault, scenario_of, without_faults
from tests.control_plane.simulate import Verdict, check, simulate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

#: 619: a checkpoint is recorded after its job's end; 2012: a slot of a leader that was frozen writes a checkpoint of a
#: job that its successor has ended
SEEDS = (*range(200), 619, 2012)
SLOW_SEEDS = range(200, 2_200)
#: shares of the runs in which a leader is lost, two are, and one while it takes over from another, at least
LOST, LOST_TWICE, LOST_TAKING_OVER = 0.6, 0.4, 0.25
Kind = Operation.Kind


def run_all(seeds: Iterable[int]) -> None:
    """Run seeds; nothing is violated, and nothing that can go wrong is left untried."""
    failed: list[Verdict] = []
    happened: Counter[object] = Counter()
    #: number of runs in which it happened
    runs: Counter[str] = Counter()
    for seed in seeds:
        verdict = simulate(scenario_of(seed))
        if verdict.violations:
            failed.append(verdict)
        world = verdict.world
        counts = world.oracle.counts
        happened.update(counts)
        runs["all"] += 1
        runs["a leader is lost"] += counts["leaders lost"] > 0
        runs["two are"] += counts["leaders lost"] > 1
        runs["one is that takes over from another"] += counts["leaders lost as they took over"] > 0
        happened.update({f"refused by {who}": count for who, count in world.refused.items()})
        for fault in world.happened:
            happened[fault.event if isinstance(fault, TimedFault) else (fault.point, fault.action)] += 1
    print(f"{len(failed)} seeds fail; of {dict(runs)}; {dict(happened)}")
    assert not failed, f"{len(failed)} seeds fail; the first:\n{failed[0].report()}"
    assert not [event for event in Event if not happened[event]], "that never went wrong"
    calls = [(Point.SQL, action) for action in Action if action is not Action.TWICE]
    assert not [call for call in calls if not happened[call]], "that never went wrong"
    assert not [kind for kind in Kind if not happened[f"{kind} done"]], "that was never done"
    # what happened, not what was drawn: leaders are lost in other ways, too, and some losses meet nobody
    assert runs["a leader is lost"] >= LOST * runs["all"], runs
    assert runs["two are"] >= LOST_TWICE * runs["all"], runs
    assert runs["one is that takes over from another"] >= LOST_TAKING_OVER * runs["all"], runs
    # else nothing would be known of leaders that go on after their epoch
    assert happened["refused by sql"] and happened["restored"] and happened["adopted"]
    assert happened["grown"] and happened["shrunk"] and happened["waited"]


def test_every_seed_comes_to_rest_with_every_job_run_and_every_operation_answered() -> None:
    run_all(SEEDS)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_two_thousand_seeds() -> None:
    run_all(SLOW_SEEDS)


# --- the simulation itself --------------------------------------------------------------------------------------------


def test_a_run_is_the_same_each_time_and_in_every_process() -> None:
    verdict = simulate(scenario_of(5))
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run(
        [sys.executable, "-m", "tests.control_plane", "--seed", "5"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    expected, told = verdict.report().splitlines(), other.stdout.splitlines()[:-1]
    home = str(verdict.world.home)
    assert [_without_home(line, home) for line in expected] == [_without_home(line, "") for line in told]


def _without_home(line: str, home: str) -> str:
    # the directory has a random name
    return line.partition("file://")[0]


def test_a_scenario_without_faults_has_none() -> None:
    verdict = simulate(without_faults(scenario_of(0)))
    check(verdict)
    assert verdict.world.happened == []
