"""JobClient: the program's handle on a job that it started. Source: PyFlink, common/job_client.py."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.common.accumulators import merged_accumulators
from runtime.common.completable_future import CompletableFuture
from runtime.common.job_client import JobClient as AnyJobClient
from runtime.common.job_execution_result import JobExecutionResult
from runtime.common.job_id import JobID
from runtime.common.job_status import JobStatus
from runtime.jobmaster.status import JobStatusSnapshot

if TYPE_CHECKING:
    from runtime.execution.application import JobHandle

__all__ = ["JobClient", "execution_result"]

T = TypeVar("T")


class JobClient(AnyJobClient):
    """Watches and stops one job.

    Args:
        handle: the job.
    """

    def __init__(self, handle: JobHandle) -> None:
        self.handle = handle

    def get_job_id(self) -> JobID:
        return JobID(self.handle.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the job's current state."""
        return _completed(JobStatus[self.handle.status().state.name])

    def cancel(self) -> CompletableFuture[None]:
        """Ask the job to stop; the result comes when it has ended, in whatever way."""
        ended: Future[None] = Future()
        self.handle.result.add_done_callback(lambda _: ended.set_result(None))
        self.handle.cancel()
        return CompletableFuture(ended)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint.

        Args:
            advance_to_end_of_event_time: whether the end of the input goes through first, so that windows fire.
            savepoint_directory: the savepoint becomes a directory in it; None = execution.checkpointing.savepoint-dir.

        Returns:
            The savepoint's URI, when the job has FINISHED. Fails with JobRequestError; the job then continues.
        """
        return CompletableFuture(
            self.handle.stop_with_savepoint(savepoint_directory, drain=advance_to_end_of_event_time)
        )

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint, then cancel the job; see `JobHandle.cancel_with_savepoint`."""
        return CompletableFuture(self.handle.cancel_with_savepoint(savepoint_directory))

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the job continues.

        Args:
            savepoint_directory: the savepoint becomes a directory in it; None = execution.checkpointing.savepoint-dir.

        Returns:
            The savepoint's URI. Fails with JobRequestError.
        """
        return CompletableFuture(self.handle.trigger_savepoint(savepoint_directory))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the job once it has finished; JobExecutionError if it does not."""
        result: Future[JobExecutionResult] = Future()

        def complete(ended: Future[JobStatusSnapshot]) -> None:
            error = ended.exception()
            if error is None:
                result.set_result(execution_result(ended.result()))
            else:
                result.set_exception(error)

        self.handle.result.add_done_callback(complete)
        return CompletableFuture(result)

    def get_status(self) -> JobStatusSnapshot:
        """Return state, tasks with their metrics, slots with their pids, and failures, as they are now."""
        return self.handle.status()

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return accumulators by name, as far as they have been reported; see `RuntimeContext.add_accumulator`."""
        return _completed(_accumulators(self.handle.status()))


def _completed(value: T) -> CompletableFuture[T]:
    future: Future[T] = Future()
    future.set_result(value)
    return CompletableFuture(future)


def execution_result(snapshot: JobStatusSnapshot) -> JobExecutionResult:
    """Return the reported result of a finished job."""
    times = snapshot.state_since_ms
    net_runtime_ms = int(max(times.values()) - min(times.values())) if times else 0
    return JobExecutionResult(JobID(snapshot.job_id), net_runtime_ms, _accumulators(snapshot))


def _accumulators(snapshot: JobStatusSnapshot) -> dict[str, Any]:
    return dict(merged_accumulators(task.metrics for task in snapshot.tasks))
