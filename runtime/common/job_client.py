"""JobClient: a program's access to a job that it started. Source: PyFlink, common/job_client.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from runtime.common.completable_future import CompletableFuture
from runtime.common.job_execution_result import JobExecutionResult
from runtime.common.job_id import JobID
from runtime.common.job_status import JobStatus

__all__ = ["JobClient"]


class JobClient(ABC):
    """Watches and stops one job. `StreamExecutionEnvironment.execute_async` gives one; any thread may use it."""

    @abstractmethod
    def get_job_id(self) -> JobID: ...

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]: ...

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]: ...

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; the result is its path."""

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the result is its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]: ...

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]: ...
