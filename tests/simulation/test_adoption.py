"""Slots that outlive their JobMaster: exact output, and the same attempt where nothing but JobMasters fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.jobmaster.operations import JobOperations
from runtime.operators.source_coordinator import SourceCoordinator
from runtime.operators.source_operator import SourceOperator
from tests.simulation.adoption import (
    ORPHAN_TIMEOUT_MS,
    adoption_of_regions_scenario_of,
    adoption_scenario_of,
)
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.regions import simulate_regions
from tests.simulation.scenario import Scenario
from tests.simulation.simulate import Verdict, simulate

pytestmark = pytest.mark.timeout(1200)

SEEDS = range(24)
SLOW_SEEDS = range(2_000)


def run_all(seeds: range) -> list[Verdict]:
    logging.disable(logging.CRITICAL)
    try:
        verdicts = [simulate(adoption_scenario_of(seed)) for seed in seeds]
    finally:
        logging.disable(logging.NOTSET)
    wrong = [verdict for verdict in verdicts if verdict.violations]
    assert not wrong, f"{len(wrong)} of {len(seeds)} seeds fail; the first:\n{wrong[0].report()}"
    return verdicts


def test_a_job_goes_on_whoever_leads_it() -> None:
    verdicts = run_all(SEEDS)
    assert sum(verdict.world.num_adopted > 0 for verdict in verdicts) >= len(SEEDS) // 2
    assert sum(verdict.scenario.only_leaders_fail for verdict in verdicts) >= len(SEEDS) // 4


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_two_thousand_seeds() -> None:
    tally = adoption_tally(run_all(SLOW_SEEDS))
    print(f"{len(SLOW_SEEDS)} seeds: {dict(tally)}")
    assert all(tally.values()), tally


def adoption_tally(verdicts: Iterable[Verdict]) -> Counter[str]:
    """Count the runs in which something happened that a change of leader has to withstand."""
    tally = Counter[str]()
    for verdict in verdicts:
        world = verdict.world
        tally["adopted"] += world.num_adopted > 0
        tally["lost while it adopted"] += world.num_lost_adopting > 0
        tally["a slot ended without a JobMaster"] += world.num_ended_orphaned > 0
        tally["a slot was cut off from the next JobMaster"] += world.num_isolated_from_next > 0
        tally["the storage refused a take-over"] += world.files.num_refused["take-over"] > 0
    return tally


def test_regions_are_adopted_each_by_itself() -> None:
    verdicts = [simulate_regions(adoption_of_regions_scenario_of(seed)) for seed in range(8)]
    wrong = [verdict for verdict in verdicts if verdict.violations]
    assert not wrong, wrong[0].report()
    assert sum(verdict.world.num_adopted > 0 for verdict in verdicts) >= 4


def leaders_lost(*faults: Fault, **settings: Any) -> Verdict:
    return simulate(Scenario(3, faults=faults, orphan_timeout_ms=ORPHAN_TIMEOUT_MS, only_leaders_fail=True, **settings))


@pytest.mark.parametrize("action", [Action.KILL_JOBMASTER, Action.FREEZE_JOBMASTER])
@pytest.mark.parametrize(
    "point",
    [
        *(Point.SOURCES, Point.TRIGGER, Point.ACKNOWLEDGE, Point.METADATA, Point.METADATA_WRITTEN),
        *(Point.RECORD, Point.RECORDED, Point.NOTIFY, Point.COMMITTED),
    ],
)
def test_a_leader_that_is_lost_in_any_phase_of_a_checkpoint_costs_no_attempt(point: Point, action: Action) -> None:
    fault = Fault(point, 3, action, 3_000 if action is Action.FREEZE_JOBMASTER else 0)
    verdict = leaders_lost(fault)
    assert not verdict.violations, verdict.report()
    assert verdict.world.happened == [fault]
    assert verdict.world.num_adopted, verdict.report()
    assert verdict.world.last_attempt == 0, verdict.report()


def test_a_leader_that_is_lost_while_it_adopts_is_followed_by_another() -> None:
    faults = (Fault(Point.STEP, 300, Action.KILL_JOBMASTER), Fault(Point.STEP, 330, Action.KILL_JOBMASTER))
    verdict = leaders_lost(*faults, Fault(Point.STEP, 345, Action.FREEZE_JOBMASTER, 1_500))
    assert not verdict.violations, verdict.report()
    assert verdict.world.last_attempt == 0, verdict.report()


def test_a_slot_that_dies_while_nobody_leads_restarts_its_job() -> None:
    faults = (Fault(Point.STEP, 300, Action.KILL_JOBMASTER), Fault(Point.STEP, 301, Action.KILL))
    verdict = simulate(Scenario(3, faults=faults, orphan_timeout_ms=ORPHAN_TIMEOUT_MS))
    assert not verdict.violations, verdict.report()
    assert verdict.world.last_attempt == 1, verdict.report()


# --- mutations: what is broken on purpose is found --------------------------------------------------------------------


def _gives_up_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint that is recorded is given up like the others."""
    original = CheckpointCoordinator._on_adopted

    def mutated(self: CheckpointCoordinator, event: Any) -> None:
        kept, self._completed = self._completed, []
        original(self, event)
        self._completed = kept

    monkeypatch.setattr(CheckpointCoordinator, "_on_adopted", mutated)


def _does_not_resync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers do not ask again for what was lost with the JobMaster."""
    monkeypatch.setattr(SourceOperator, "resync", lambda operator: None)


def _deals_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose assignment was lost gets another split."""
    monkeypatch.setattr(SourceCoordinator, "_resync", lambda self, subtask, known, reply: self._deal(subtask, reply))


def _takes_a_last_checkpoint_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that was committing takes the checkpoint at its end once more."""
    monkeypatch.setattr(JobOperations, "commit_adopted", lambda operations: None)


#: what is broken, the seed whose run finds it, and what is found; each run is clean without the mutation
MUTATIONS: list[tuple[Callable[[pytest.MonkeyPatch], None], int, str]] = [
    (_gives_up_the_newest, 3, "is complete and given up"),
    (_does_not_resync, 2, "has not ended"),
    (_deals_anew, 10, "lost"),
    (_takes_a_last_checkpoint_again, 0, "has not ended"),
]


@pytest.mark.parametrize(("mutate", "seed", "found"), MUTATIONS, ids=[mutate.__name__ for mutate, _, _ in MUTATIONS])
def test_what_is_broken_on_purpose_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], seed: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not simulate(adoption_scenario_of(seed)).violations
    mutate(monkeypatch)
    violations = simulate(adoption_scenario_of(seed)).violations
    assert any(found in violation for violation in violations), violations
