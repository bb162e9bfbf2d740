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
from tests.simulation.files import ROOT
from tests.simulation.scenario import Barriers, Scenario, scenario_of
from tests.simulation.simulate import simulate, story_of
from tests.simulation.workload import JOB

NUM_SEEDS = 200
NUM_SLOW_SEEDS = 10_000
NUM_ROCKSDB_SEEDS = 8
NUM_SLOW_ROCKSDB_SEEDS = 300
CHUNK = 25
FAILED = "python -m tests.simulation --seed"


def failures(seeds: range, backend: str) -> list[str]:
    """Reports of the seeds that fail."""
    logging.disable(logging.CRITICAL)
    verdicts = (simulate(scenario_of(seed, backend)) for seed in seeds)
    return [f"{FAILED} {v.scenario.seed} --backend {backend}\n{v.report()}" for v in verdicts if v.violations]


def run_all(count: int, backend: str) -> None:
    size = min(CHUNK, -(-count // 4))
    chunks = [range(first, min(first + size, count)) for first in range(0, count, size)]
    # spawned: a forked child has this process's threads only in part
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        reports = [report for found in pool.map(failures, chunks, [backend] * len(chunks)) for report in found]
    assert not reports, f"{len(reports)} of {count} seeds fail; the first:\n{reports[0]}"


def test_every_seed_ends_as_the_model_says() -> None:
    run_all(NUM_SEEDS, "hashmap")


def test_every_seed_ends_as_the_model_says_with_rocksdb() -> None:
    run_all(NUM_ROCKSDB_SEEDS, "rocksdb")


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_ten_thousand_seeds() -> None:
    run_all(NUM_SLOW_SEEDS, "hashmap")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_seeds_with_rocksdb() -> None:
    run_all(NUM_SLOW_ROCKSDB_SEEDS, "rocksdb")


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
    verdict = simulate(Scenario(1, barriers, faults=tuple(faults)))
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


def test_an_incremental_checkpoint_builds_on_the_one_before_it() -> None:
    verdict = simulate(Scenario(4, is_incremental=True, checkpoint_interval_ms=30, pace_ms=20))
    assert not verdict.violations, verdict.report()
    storage = MemoryFileSystem()
    storage.files = verdict.world.files.at_last_record
    newest = FileCompletedStore(ROOT, JOB, 0, storage, "").retained()[-1]
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
