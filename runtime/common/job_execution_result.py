"""JobExecutionResult: the result of a job that has finished. Source: PyFlink, common/job_execution_result.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """Result of a finished job.

    Args:
        job_id: the job's id.
        net_runtime_ms: from the start of the first attempt to the end, ms.
        accumulator_results: name → final value.
    """

    __slots__ = ("_accumulators", "_job_id", "_net_runtime_ms")

    def __init__(
        self, job_id: JobID, net_runtime_ms: int, accumulator_results: Mapping[str, Any] | None = None
    ) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulator_results or {})

    def get_job_id(self) -> JobID:
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return milliseconds."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the accumulator's value, None if there is none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        return dict(self._accumulators)

    def __str__(self) -> str:
        return f"Job {self._job_id} has finished after {self._net_runtime_ms} ms."
