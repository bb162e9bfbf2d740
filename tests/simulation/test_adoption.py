"""Slots that outlive their JobMaster: exact output, and the same attempt where nothing but JobMasters fails."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from tests.simulation.adoption import (
    ORPHAN_TIMEOUT_MS,
    adoption_of_regions_scenario_of,
    adoption_scenario_of,
)
from tests.simulation.adoption_mutations import ADOPTION_MUTATIONS
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.mutated_runs import finds
from tests.simulation.mutations import Mutation
from tests.simulation.regions import simulate_regions
from tests.simulation.scenario import Scenario
from tests.simulation.simulate import Verdict, simulate

pytestmark = pytest.mark.timeout(1200)

SEEDS = range(24)
SLOW_SEEDS = range(300)
SOAK_SEEDS = range(2_000)


def run_all(seeds: range) -> Counter[str]:
    """Run seeds, none of which may fail. Return the number of runs in which things happened, see `note`."""
    tally, failed, first = Counter[str](), 0, ""
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            # a verdict holds its whole world: none is kept
            verdict = simulate(adoption_scenario_of(seed))
            note(verdict, tally)
            if verdict.violations:
                failed, first = failed + 1, first or verdict.report()
    finally:
        logging.disable(logging.NOTSET)
    assert not failed, f"{failed} of {len(seeds)} seeds fail; the first:\n{first}"
    return tally


def note(verdict: Verdict, tally: Counter[str]) -> None:
    """Note what happened in a run that a change of leader has to withstand."""
    world = verdict.world
    tally["adopted"] += world.num_adopted > 0
    tally["only leaders failed"] += verdict.scenario.only_leaders_fail
    tally["an offer was refused"] += world.num_offers_refused > 0
    tally["lost while it adopted"] += world.num_lost_adopting > 0
    tally["a slot ended without a JobMaster"] += world.num_ended_orphaned > 0
    tally["a slot was cut off from the next JobMaster"] += world.num_isolated_from_next > 0
    tally["the storage refused a take-over"] += world.files.num_refused["take-over"] > 0


def test_a_job_goes_on_whoever_leads_it() -> None:
    tally = run_all(SEEDS)
    assert tally["adopted"] >= len(SEEDS) // 2
    assert tally["an offer was refused"]
    assert tally["only leaders failed"] >= len(SEEDS) // 4


@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(SLOW_SEEDS, marks=pytest.mark.slow), pytest.param(SOAK_SEEDS, marks=pytest.mark.soak)],
    ids=len,
)
def test_many_seeds(seeds: range) -> None:
    tally = run_all(seeds)
    print(f"{len(seeds)} seeds: {dict(tally)}")
    assert all(tally.values()), tally
    # a leader that follows another is lost as well, in the middle of it
    assert tally["lost while it adopted"] >= len(seeds) // 10, tally


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


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.hangs else []) for m in ADOPTION_MUTATIONS],
)
def test_what_is_broken_on_purpose_is_found_as_what_it_is(mutation: Mutation) -> None:
    assert mutation.found_as
    [seed] = mutation.seeds
    assert finds(mutation, adoption_scenario_of(seed))
