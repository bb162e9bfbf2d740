"""Checkpoints on Spark, with real processes that die, freeze and hang: output and state are exact all the same."""

from __future__ import annotations

import os
import random
import signal
import statistics

import psutil
import pytest

import runtime.execution.continuous as continuous
from benchmarks.recovery import DEFAULTS, NO_DELAY, measure, quantile, table
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt, SlotId
from runtime.execution.session_health import session_defect
from runtime.execution.spark_session import acquire_context
from runtime.execution.spark_slot import SlotSpec
from runtime.execution.spark_stages import SparkStages
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.job_state import JobState
from tests.chaos.in_process import ProvingJob
from tests.execution.conftest import alive
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

NOTICED_WITHIN_S = 10.0
NEW_OUTPUT_S = 3.0


def test_kill_9_of_a_worker_leaves_no_gap_and_no_double(job: ProvingJob) -> None:
    job.start()
    job.wait_checkpoints()
    os.kill(job.workers[0], signal.SIGKILL)
    job.wait_attempt(1)
    job.wait_checkpoints()
    job.assert_exact(job.stop())
    assert job.status.checkpoints.counts.restored == 1
    assert list((job.directory / "checkpoints").iterdir()) == []


@pytest.mark.slow
def test_cancel_takes_2_seconds_and_leaves_no_process_and_no_working_files(job: ProvingJob) -> None:
    job.start(execution__checkpointing__externalized_checkpoint_retention="no_externalized_checkpoints")
    job.wait_checkpoints()
    pids = job.workers
    assert job.cancel() < 2.0
    assert job.status.state is JobState.CANCELED
    wait_until(lambda: not alive(pids), 5, "the end of the slots' processes")
    assert list((job.directory / "checkpoints").iterdir()) == []
    assert list((job.directory / "tmp").glob("*/*")) == []


@pytest.mark.slow
def test_a_worker_whose_user_code_hangs_is_replaced_within_10_seconds(job: ProvingJob) -> None:
    job.start()
    job.wait_checkpoints()
    pids = job.workers
    job.points.arm("keyed", "hang")
    wait_until(lambda: bool(job.points.hits()), 10, "the hang")
    took = wait_until(lambda: job.status.state is not JobState.RUNNING, 2 * NOTICED_WITHIN_S, "the loss of the slot")
    assert took < NOTICED_WITHIN_S
    job.wait_attempt(1)
    assert "user code has not returned for" in job.status.exceptions[-1].cause.message
    wait_until(lambda: not alive(pids), 10, "the end of the hung process")
    job.wait_checkpoints()
    job.assert_exact(job.stop())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_zombie_can_emit_snapshot_and_commit_nothing(job: ProvingJob, monkeypatch: pytest.MonkeyPatch) -> None:
    # as on another machine, where nobody can kill the frozen process: it has to be kept out by its attempt alone
    monkeypatch.setattr(continuous, "kill_worker", lambda host, pid: False)
    monkeypatch.setattr(SparkStages, "cancel", lambda self, group: None)
    job.start(task__cancellation__timeout="1 s")
    job.wait_checkpoints()
    zombie = job.workers[0]
    os.kill(zombie, signal.SIGSTOP)
    job.wait_attempt(1)
    job.wait_checkpoints(2)
    assert alive([zombie])
    os.kill(zombie, signal.SIGCONT)
    wait_until(lambda: not alive([zombie]), 10, "the zombie's own end")
    job.wait_checkpoints(2)
    assert job.status.attempt == 1
    job.assert_exact(job.stop())


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", [NO_DELAY, DEFAULTS], ids=["without delay", "default strategy"])
def test_new_output_comes_3_seconds_after_kill_9(strategy: dict[str, str]) -> None:
    """Visible in a transactional sink, so behind a checkpoint."""
    recoveries = measure(20, strategy)
    # others may want the processors, too: how much slower that makes things was measured before each kill
    slowed = max(1.0, statistics.fmean(recovery.slowdown for recovery in recoveries))
    outputs = [recovery.output for recovery in recoveries]
    assert quantile(outputs, 0.95) <= NEW_OUTPUT_S * slowed, table(str(strategy), recoveries)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("unaligned", ["false", "true"])
@pytest.mark.parametrize(
    "backends",
    [("hashmap", "hashmap"), ("rocksdb", "rocksdb"), ("hashmap", "rocksdb")],
    ids=["hashmap", "rocksdb", "both in turn"],
)
def test_state_of_every_kind_is_the_same_when_rescaled(
    job: ProvingJob, backends: tuple[str, str], unaligned: str
) -> None:
    """1 → 2 → 4 → 3 → 1 through savepoints: keyed, list, union and broadcast state and timers."""
    savepoint = None
    for index, parallelism in enumerate((1, 2, 4, 3, 1)):
        job.start(
            parallelism,
            savepoint,
            state__backend__type=backends[index % 2],
            execution__checkpointing__unaligned__enabled=unaligned,
        )
        job.wait_checkpoints(2)
        savepoint = job.stop()
        job.assert_exact(savepoint)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("unaligned", ["false", "true"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_is_the_same_when_a_running_job_is_rescaled(job: ProvingJob, backend: str, unaligned: str) -> None:
    job.start(1, state__backend__type=backend, execution__checkpointing__unaligned__enabled=unaligned)
    job.wait_checkpoints()
    assert job.client is not None
    for parallelism in (2, 4, 3, 1):
        job.client.handle.rescale(dict.fromkeys(job.status.parallelism, parallelism)).result(60)
        if random.Random(parallelism).random() < 0.5:
            attempt = job.status.attempt
            os.kill(job.workers[0], signal.SIGKILL)
            job.wait_attempt(attempt + 1)
        job.wait_checkpoints()
        assert set(job.status.parallelism.values()) == {parallelism}
        job.check_state()
    job.assert_exact(job.stop())


def kill_jvm() -> None:
    """kill -9 of this process's JVM."""
    [jvm] = [p for p in psutil.Process().children() if p.name() == "java"]
    jvm.kill()


def test_a_jvm_that_dies_is_replaced_and_the_job_goes_on_from_its_newest_checkpoint(job: ProvingJob) -> None:
    job.start()
    job.wait_checkpoints()
    pids = job.workers
    kill_jvm()
    job.wait_attempt(1)
    job.wait_checkpoints(2)
    wait_until(lambda: not alive(pids), 10, "the end of the processes behind the dead JVM")
    # and once more: the second JVM is no other than the first
    kill_jvm()
    job.wait_attempt(2)
    job.wait_checkpoints()
    job.assert_exact(job.stop())
    assert job.status.checkpoints.counts.restored == 2


def test_a_stage_that_a_dead_jvm_is_to_run_ends_with_the_cause() -> None:
    context = acquire_context(Configuration(), 1)
    kill_jvm()
    wait_until(lambda: session_defect(context) is not None, 10, "the end of the JVM")
    ends: list[str | None] = []
    spec = SlotSpec((SlotId(0),), Attempt(0), "grpc://127.0.0.1:1", "secret", True, 5_000.0, 1 << 20)
    SparkStages(context).start("dead", spec, ends.append)
    wait_until(lambda: bool(ends), 10, "the stage's end")
    assert ends[0] is not None
    assert "refused" in ends[0]


def test_a_jvm_that_dies_ends_a_job_that_is_not_restarted(job: ProvingJob) -> None:
    job.start(restart_strategy__type="none")
    job.wait_checkpoints()
    kill_jvm()
    wait_until(lambda: job.status.state is JobState.FAILED, 20, "the job's end")
    assert job.client is not None
    with pytest.raises(JobRequestError):
        job.client.stop_with_savepoint(False).result(10)
