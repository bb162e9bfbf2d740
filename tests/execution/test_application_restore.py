"""An application that is started again with another job's snapshot: it resumes its own state and leaves that alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.common import Types
from runtime.connectors import BlackHoleSink
from runtime.execution import tenure as tenures
from runtime.execution.application import JobHandle, submit
from runtime.execution.errors import ExecutionError, JobExecutionError
from runtime.jobmaster.job_state import JobState
from tests.datastream.running import environment
from tests.execution.jobs import Hooked, ticks
from tests.job_runs import record_run
from tests.support.waiting import wait_until

WAIT_S = 20.0
ID = {"high-availability.cluster-id": "app"}


class Jobs:
    """Starts the same endless program, with different options."""

    def __init__(self, directory: Path) -> None:
        self.checkpoints, self.savepoints = directory / "checkpoints", directory / "savepoints"
        self._handles: list[JobHandle] = []

    def start(self, options: dict[str, str]) -> JobHandle:
        fixed = {
            "execution.checkpointing.dir": self.checkpoints.as_uri(),
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.savepoint-dir": self.savepoints.as_uri(),
        }
        env = environment(1, fixed | options)
        ticks(env, 100.0).uid("ticks").map(Hooked(), Types.LONG()).uid("work").sink_to(BlackHoleSink()).uid("sink")
        record_run("mini-cluster")
        self._handles.append(submit(env.create_job_graph("job")))
        return self._handles[-1]

    def savepoint_of_another_job(self) -> Path:
        job = self.start({})
        wait_until(lambda: job.status().state is JobState.RUNNING, WAIT_S, "the job runs")
        path = Path(job.stop_with_savepoint().result(WAIT_S).removeprefix("file://"))
        job.wait(WAIT_S)
        return path

    def leave_with_checkpoints(self, job: JobHandle, count: int) -> None:
        """Interrupt the job when it has completed so many more checkpoints."""
        wait_until(lambda: job.status().checkpoints.counts.completed >= count, WAIT_S, "checkpoints")
        job.interrupt()
        with pytest.raises(ExecutionError):
            job.wait(WAIT_S)

    def close(self) -> None:
        for job in self._handles:
            if not job.result.done():
                job.interrupt()
                job.result.exception(WAIT_S)
        tenures._served.clear()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    jobs = Jobs(tmp_path)
    yield jobs
    jobs.close()


def claim(path: Path) -> dict[str, str]:
    return ID | {"execution.state-recovery.path": path.as_uri(), "execution.state-recovery.claim-mode": "CLAIM"}


def no_path(path: Path) -> dict[str, str]:
    return ID


def no_claim(path: Path) -> dict[str, str]:
    return ID | {"execution.state-recovery.path": path.as_uri()}


@pytest.mark.parametrize("begin", [no_path, no_claim])
def test_a_snapshot_that_was_not_claimed_at_the_first_start_is_not_deleted(
    jobs: Jobs, begin: Callable[[Path], dict[str, str]]
) -> None:
    saved = jobs.savepoint_of_another_job()
    files = sorted(saved.rglob("*"))
    first = jobs.start(begin(saved))
    jobs.leave_with_checkpoints(first, 2)
    again = jobs.start(claim(saved))
    assert again.job_id == first.job_id
    # one is retained: what the job owns besides has been replaced by then
    jobs.leave_with_checkpoints(again, 2)
    restored = again.status().checkpoints.latest_restored
    assert restored is not None
    assert str(jobs.checkpoints / first.job_id) in restored.external_path
    assert sorted(saved.rglob("*")) == files


def test_a_snapshot_that_was_claimed_at_the_first_start_is_deleted_in_the_end(jobs: Jobs) -> None:
    saved = jobs.savepoint_of_another_job()
    jobs.leave_with_checkpoints(jobs.start(claim(saved) | {"execution.checkpointing.num-retained": "9"}), 1)
    assert saved.exists()
    jobs.leave_with_checkpoints(jobs.start(claim(saved)), 2)
    assert not saved.exists()


def test_a_job_whose_checkpoints_are_damaged_does_not_go_on_from_another_jobs(jobs: Jobs) -> None:
    saved = jobs.savepoint_of_another_job()
    first = jobs.start(ID)
    jobs.leave_with_checkpoints(first, 2)
    for metadata in (jobs.checkpoints / first.job_id).glob("chk-*/_metadata"):
        metadata.write_bytes(b"garbage")
    with pytest.raises(JobExecutionError, match="checkpoints can be read"):
        jobs.start(claim(saved)).wait(WAIT_S)
    assert saved.exists()
