"""CloseableIterator: the records of a running job, one after the other, in the program that started it.

Used by one thread. Source: PyFlink, CloseableIterator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from runtime.connectors.collect_sink import decode_collected
from runtime.execution.errors import JobExecutionError

__all__ = ["CloseableIterator"]

if TYPE_CHECKING:
    from runtime.datastream.job_client import JobClient
    from runtime.jobmaster.client_outputs import CollectedBatches


class CloseableIterator:
    """Iterates over collected records; a job that fails raises from here once its records have been given."""

    def __init__(
        self, client: JobClient, batches: CollectedBatches, convert: Callable[[Any], Any] | None = None
    ) -> None:
        self._client = client
        self._batches = batches
        self._records: deque[Any] = deque()
        self._closed = False
        self._convert = convert

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        while not self._records:
            payload = None if self._closed else self._batches.take()
            if payload is None:
                if not self._closed:
                    self._closed = True
                    self._client.handle.wait()
                raise StopIteration
            records = decode_collected(payload)
            self._records.extend(records if self._convert is None else map(self._convert, records))
        return self._records.popleft()

    def next(self) -> Any:
        """Return the next record.

        Raises:
            StopIteration: the job has ended and there is none.
            JobExecutionError: the job has failed.
        """
        return self.__next__()

    def close(self) -> None:
        """Stop the job if it still runs; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._records.clear()
        self._client.handle.cancel()
        # what the slots still send has to be taken, or they wait for it
        while self._batches.take() is not None:
            pass
        with suppress(JobExecutionError):
            self._client.handle.wait()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
