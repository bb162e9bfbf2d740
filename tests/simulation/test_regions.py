"""Seeds with two regions in the job; one that fails is repeated by `python -m tests.simulation --regions --seed N`."""

from __future__ import annotations

import logging
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.faults import Action, Fault, Point
from tests.simulation.regions import num_restarts_alone, region_scenario_of, simulate_regions
from tests.simulation.scenario import Scenario


def run_chunk(seeds: range) -> tuple[int, list[str]]:
    """Return how often a region was restarted alone, and reports of failed runs."""
    logging.disable(logging.CRITICAL)
    verdicts = [simulate_regions(region_scenario_of(seed)) for seed in seeds]
    return sum(map(num_restarts_alone, verdicts)), [v.report() for v in verdicts if v.violations]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_seed_ends_as_the_model_says_for_both_regions() -> None:
    chunks = [range(first, first + 25) for first in range(0, 500, 25)]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        results = list(pool.map(run_chunk, chunks))
    reports = [report for _, of_chunk in results for report in of_chunk]
    assert not reports, f"{len(reports)} seeds fail; the first:\n{reports[0]}"
    assert sum(alone for alone, _ in results) > 50


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(89, id="a drained job ends without a checkpoint behind its savepoint"),
        pytest.param(156, id="a JobMaster that stood still completes a savepoint that the job has gone on without"),
        pytest.param(160, id="a JobMaster that was replaced and may not give its stop up"),
        pytest.param(206, id="directories of a JobMaster that was killed before it had synced their names"),
    ],
)
def test_a_seed_that_has_failed_ends_as_the_model_says(seed: int) -> None:
    verdict = simulate_regions(region_scenario_of(seed))
    assert not verdict.violations, verdict.report()


@pytest.mark.parametrize(
    ("point", "nth", "action"),
    [
        (Point.PROCESS, 150, Action.KILL),
        (Point.PROCESS, 250, Action.RAISE),
        (Point.PROCESS, 120, Action.FREEZE),
        (Point.SNAPSHOT, 9, Action.KILL),
        (Point.PREPARED, 9, Action.KILL),
        (Point.COMMIT, 4, Action.KILL),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_region_that_breaks_restarts_alone(point: Point, nth: int, action: Action) -> None:
    ms = 8_000 if action is Action.FREEZE else 0
    verdict = simulate_regions(Scenario(1, faults=(Fault(point, nth, action, ms),), max_turns=50_000))
    assert not verdict.violations, verdict.report()
    assert num_restarts_alone(verdict) == 1, verdict.report()
