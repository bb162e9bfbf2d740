"""Runs of the whole cluster from seeds: nothing lost, nothing twice, nothing out of order, the state as a model says.

Seeds are run in two processes, in chunks; a seed that fails is told with its whole story, and is repeated by
`python -m tests.simulation --seed N`.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.simulation.faults import Action, Fault, Point
from tests.simulation.scenario import HOUR_MS, Barriers, Scenario, scenario_of
from tests.simulation.simulate import simulate, story_of
from tests.simulation.tally import Tally
from tests.simulation.workload import JOB

pytestmark = pytest.mark.timeout(1200)

SEEDS = range(200)
ROCKSDB_SEEDS = range(200, 208)
SLOW_SEEDS = range(5_000)
SLOW_ROCKSDB_SEEDS = range(5_000, 10_000)
CHUNK = 25
FAILED = "python -m tests.simulation --seed"


def run_chunk(seeds: range, backend: str) -> tuple[Tally, list[str]]:
    """What the runs of some seeds add up to, and reports of those that fail."""
    logging.disable(logging.CRITICAL)
    tally, reports = Tally(), []
    for seed in seeds:
        verdict = simulate(scenario_of(seed, backend))
        tally.add(verdict)
        if verdict.violations:
            reports.append(f"{FAILED} {seed} --backend {backend}\n{verdict.report()}")
    return tally, reports


def run_all(seeds: range, backend: str) -> Tally:
    size = min(CHUNK, -(-len(seeds) // 4))
    chunks = [seeds[first : first + size] for first in range(0, len(seeds), size)]
    tally, reports = Tally(), list[str]()
    # spawned: a forked child has this process's threads only in part
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for of_chunk, found in pool.map(run_chunk, chunks, [backend] * len(chunks)):
            tally.merge(of_chunk)
            reports += found
    print(tally)
    assert not reports, f"{len(reports)} of {len(seeds)} seeds fail; the first:\n{reports[0]}"
    return tally


def test_every_seed_ends_as_the_model_says_and_nothing_is_left_untried() -> None:
    tally = run_all(SEEDS, "hashmap")
    assert not [point for point in Point if not tally.passed[point]]
    assert not [point for point in Point if not tally.points[point]], "nothing went wrong there"
    assert not [action for action in Action if not tally.actions[action]], "that never went wrong"
    assert not [what for what, count in tally.others.items() if not count]


def test_every_seed_ends_as_the_model_says_with_rocksdb() -> None:
    run_all(ROCKSDB_SEEDS, "rocksdb")


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(
    ("seeds", "backend"), [(SLOW_SEEDS, "hashmap"), (SLOW_ROCKSDB_SEEDS, "rocksdb")], ids=["hashmap", "rocksdb"]
)
def test_ten_thousand_seeds(seeds: range, backend: str) -> None:
    run_all(seeds, backend)


# --- every named point, one at a time ---------------------------------------------------------------------------------


@pytest.mark.parametrize("barriers", [pytest.param(Barriers.ALIGNED, marks=pytest.mark.slow), Barriers.UNALIGNED])
@pytest.mark.parametrize("point", list(Point))
def test_a_process_that_ends_at_any_named_point_loses_and_repeats_nothing(point: Point, barriers: Barriers) -> None:
    action = Action.KILL_JOBMASTER if point is Point.ACKNOWLEDGE else Action.KILL
    nth = {Point.CLOSE: 1, Point.RESTORE: 1, Point.END: 1, Point.OPEN: 5}.get(point, 3)
    faults = [Fault(point, nth, action)]
    if point is Point.RESTORE:
        # something has to be restored from
        faults.append(Fault(Point.NOTIFY, 2, Action.KILL))
    if point is Point.CLOSE:
        faults.append(Fault(Point.PROCESS, 40, Action.RAISE))
    verdict = simulate(Scenario(1, barriers, faults=tuple(faults), storage_is_local=point is Point.SYNC))
    assert not verdict.violations, verdict.report()
    assert faults[0] in verdict.world.happened, verdict.report()


def test_a_second_failure_during_recovery_changes_nothing() -> None:
    faults = (
        Fault(Point.NOTIFY, 2, Action.KILL),
        Fault(Point.RESTORE, 1, Action.KILL),
        Fault(Point.RESTORE, 4, Action.RAISE),
        Fault(Point.OPEN, 20, Action.KILL),
        Fault(Point.COMMIT, 4, Action.RAISE),
    )
    verdict = simulate(Scenario(2, num_retained=2, faults=faults))
    assert not verdict.violations, verdict.report()
    assert len(verdict.world.happened) >= 4, verdict.report()


@pytest.mark.parametrize(
    "point",
    [
        *(Point.UPLOADED, Point.SYNC, Point.METADATA_WRITTEN, Point.RECORDED),
        *(Point.WRITE, Point.PRE_COMMIT, Point.PREPARED, Point.COMMIT, Point.COMMITTED, Point.NOTIFY),
    ],
)
def test_a_machine_that_loses_power_has_on_its_disk_what_is_relied_on(point: Point) -> None:
    faults = tuple(Fault(point, nth, Action.POWER_LOSS) for nth in (3, 7))
    verdict = simulate(Scenario(3, faults=faults, writes_files=True, storage_is_local=True))
    assert not verdict.violations, verdict.report()
    assert faults[0] in verdict.world.happened, verdict.report()


@pytest.mark.parametrize("writes_files", [False, True])
@pytest.mark.parametrize("drains", [0, 1])
def test_a_job_that_is_stopped_goes_on_from_its_savepoint(drains: int, writes_files: bool) -> None:
    faults = (
        Fault(Point.PROCESS, 100, Action.STOP, drains),
        Fault(Point.RESTORE, 3, Action.KILL),
        Fault(Point.COMMIT, 30, Action.KILL),
    )
    scenario = Scenario(5, faults=faults, writes_files=writes_files, next_parallelism=[3], next_backend="rocksdb")
    verdict = simulate(scenario)
    assert not verdict.violations, verdict.report()
    assert verdict.world.resumed == {bool(drains): 1}, verdict.report()


@pytest.mark.parametrize("ms", [HOUR_MS, -HOUR_MS])
def test_a_wall_clock_that_jumps_holds_up_nothing(ms: int) -> None:
    faults = tuple(Fault(Point.PROCESS, nth, Action.CLOCK_JUMP, ms) for nth in (20, 60, 200))
    verdict = simulate(Scenario(6, faults=faults, writes_files=True))
    assert not verdict.violations, verdict.report()
    assert verdict.world.last_attempt == 0, verdict.report()
    assert verdict.world.clock.monotonic_ms() < 10_000


def test_an_incremental_checkpoint_builds_on_the_one_before_it() -> None:
    verdict = simulate(Scenario(4, is_incremental=True, checkpoint_interval_ms=30, pace_ms=20))
    assert not verdict.violations, verdict.report()
    storage = MemoryFileSystem()
    storage.files = verdict.world.files.at_last_record
    newest = FileCompletedStore(verdict.world.files.root, JOB, 0, storage, "").retained()[-1]
    metadata = SnapshotFiles(storage).read_metadata(newest.location)
    handles = [subtask.keyed for operator in metadata.operators for subtask in operator.subtasks if subtask.keyed]
    assert handles
    assert all(len(handle.files) > 1 for handle in handles)


# --- the simulation itself --------------------------------------------------------------------------------------------


def test_a_run_is_the_same_each_time_and_in_every_process() -> None:
    program = "from tests.simulation.simulate import story_of; print(story_of(5))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=100
    )
    assert other.stdout.splitlines() == story_of(5).splitlines()
