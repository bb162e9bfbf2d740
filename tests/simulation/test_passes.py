"""Seeds of jobs in micro-batches, with what can go wrong in passes; `python -m tests.simulation --passes --seed N`.

Drivers end at every moment of a batch, workers freeze, are cut off and go on with what nobody wants any more,
checkpoints are damaged; jobs are rescaled, stopped, resumed, some of them continuously. Output and state are exact.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation.faults import PASS_ACTIONS, PASS_POINTS, Action, Fault, Point
from tests.simulation.mutated_runs import finds
from tests.simulation.mutations import Mutation
from tests.simulation.pass_mutations import PASS_MUTATIONS
from tests.simulation.passes import pass_scenario_of
from tests.simulation.scenario import Passes, Scenario
from tests.simulation.simulate import simulate
from tests.simulation.tally import Tally

pytestmark = pytest.mark.timeout(1200)

SEEDS = range(12)
SLOW_SEEDS = {"hashmap": range(500), "rocksdb": range(5_000, 5_060)}
CHUNK = 20
FAILED = "python -m tests.simulation --passes --seed"


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run_chunk(seeds: range, backend: str) -> tuple[Tally, list[str]]:
    """Return the tally of some seeds' runs, and reports of failed ones."""
    logging.disable(logging.CRITICAL)
    tally, reports = Tally(), []
    for seed in seeds:
        verdict = simulate(pass_scenario_of(seed, backend))
        tally.add(verdict)
        tally.others.update({f"passes {what}": count for what, count in verdict.world.num_passes.items()})
        if verdict.violations:
            reports.append(f"{FAILED} {seed} --backend {backend}\n{verdict.report()}")
    return tally, reports


def test_every_seed_ends_as_the_model_says() -> None:
    tally, reports = run_chunk(SEEDS, "hashmap")
    assert not reports, f"{len(reports)} of {len(SEEDS)} seeds fail; the first:\n{reports[0]}"
    assert not [point for point in PASS_POINTS if not tally.passed[point]]
    assert tally.others["passes given up"]


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("backend", list(SLOW_SEEDS))
def test_hundreds_of_seeds_with_each_state_backend(backend: str) -> None:
    seeds = SLOW_SEEDS[backend]
    chunks = [range(first, min(first + CHUNK, seeds.stop)) for first in range(seeds.start, seeds.stop, CHUNK)]
    tally, reports = Tally(), list[str]()
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for of_chunk, found in pool.map(run_chunk, chunks, [backend] * len(chunks)):
            tally.merge(of_chunk)
            reports += found
    print(tally)
    assert not reports, f"{len(reports)} of {len(seeds)} seeds fail; the first:\n{reports[0]}"
    if backend == "hashmap":
        assert not [point for point in PASS_POINTS if not tally.points[point]], "nothing went wrong there"
        assert not [action for action in PASS_ACTIONS if not tally.actions[action]], "that never went wrong"
        # what nobody waited for any more was reported all the same
        assert tally.others["passes answered too late"]
        assert tally.others["resumed behind a suspension"] and tally.others["resumed behind a drain"]


# --- a batch's moments, one at a time ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [Passes.HERE, pytest.param(Passes.ELSEWHERE, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("point", "nth"),
    [
        pytest.param(Point.ACKNOWLEDGE, 30, id="some acknowledgements have come"),
        pytest.param(Point.METADATA, 3, id="all have come"),
        pytest.param(Point.METADATA_WRITTEN, 3, id="the metadata are written"),
        pytest.param(Point.RECORDED, 4, id="the checkpoint is recorded"),
        pytest.param(Point.COMMIT, 5, id="in the middle of the commits"),
        pytest.param(Point.COMMITTED, 6, id="all is committed"),
    ],
)
def test_a_driver_that_ends_at_any_moment_of_a_batch_loses_and_repeats_nothing(
    point: Point, nth: int, place: Passes
) -> None:
    faults = (Fault(point, nth, Action.KILL_DRIVER),)
    verdict = simulate(Scenario(1, passes=place, max_rows=8, faults=faults))
    assert not verdict.violations, verdict.report()
    assert verdict.world.happened == list(faults), verdict.report()


@pytest.mark.parametrize("action", [Action.KILL_DRIVER, pytest.param(Action.KILL, marks=pytest.mark.slow)])
@pytest.mark.parametrize("point", [point for point in Point if point in PASS_POINTS])
def test_a_process_that_ends_at_any_point_of_a_pass_on_spark_loses_and_repeats_nothing(
    point: Point, action: Action
) -> None:
    verdict = simulate(Scenario(1, passes=Passes.ELSEWHERE, max_rows=8, faults=(Fault(point, 4, action),)))
    assert not verdict.violations, verdict.report()
    assert len(verdict.world.happened) == 1, verdict.report()


@pytest.mark.slow
@pytest.mark.parametrize("writes_files", [False, True])
@pytest.mark.parametrize(("action", "ms"), [(Action.ISOLATE, 0), (Action.FREEZE, 9_000)])
@pytest.mark.parametrize("point", [Point.LEVEL, Point.UPLOADED, Point.PREPARED, Point.COMMIT])
def test_a_worker_that_goes_on_when_nobody_waits_for_it_changes_nothing(
    point: Point, action: Action, ms: int, writes_files: bool
) -> None:
    faults = (Fault(point, 7, action, ms),)
    scenario = Scenario(2, passes=Passes.ELSEWHERE, max_rows=8, faults=faults, writes_files=writes_files)
    verdict = simulate(scenario)
    assert not verdict.violations, verdict.report()
    assert verdict.world.happened == list(faults), verdict.report()
    # nothing limits how long commits take
    assert verdict.world.last_attempt == 1 or point is Point.COMMIT, verdict.report()


@pytest.mark.parametrize("passes", list(Passes))
def test_a_job_that_is_resumed_continuously_goes_on_where_its_batches_ended(passes: Passes) -> None:
    faults = (Fault(Point.PROCESS, 60, Action.STOP), Fault(Point.PROCESS, 200, Action.STOP))
    scenario = Scenario(5, passes=passes, max_rows=8, changes_mode=True, faults=faults, next_backend="rocksdb")
    verdict = simulate(scenario)
    assert not verdict.violations, verdict.report()
    assert verdict.world.resumed == {False: 2}, verdict.report()


# --- mutations: what is broken on purpose is found --------------------------------------------------------------------


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(m, id=m.name, marks=[pytest.mark.slow] if m.hangs else []) for m in PASS_MUTATIONS],
)
def test_a_mistake_is_found(mutation: Mutation) -> None:
    assert mutation.found_as
    assert any(finds(mutation, scenario) for scenario in mutation.scenarios), f"nothing fails although {mutation.name}"
