"""CompletableFuture: a result that comes later, with PyFlink's methods over a `concurrent.futures.Future`.

Any thread may wait; the creator of the future completes it. Source: PyFlink, common/completable_future.py.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A result that comes later.

    Args:
        future: where the result comes from.
    """

    __slots__ = ("_future",)

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def cancel(self) -> bool:
        """Give up waiting; returns whether that was still possible."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result.

        Args:
            timeout: seconds; None = for ever.

        Raises:
            TimeoutError: it is not there in time.
            Exception: what it failed with.
        """
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return what it failed with, None if it did not."""
        return self._future.exception(timeout)

    def add_done_callback(self, callback: Any) -> None:
        """Call `callback(future)` when the result is there, on the thread that brings it."""
        self._future.add_done_callback(lambda _: callback(self))
