"""RateLimiter: limits the rows that a reader may emit, so that a source keeps to rows per second.

Pure arithmetic on an injected clock; one limiter per reader, each with its subtask's share of the source's rate.
"""

from __future__ import annotations

import math

from runtime.core.clock import Clock

#: Rows are let through in portions of this time's worth: finer ones cost wake-ups, coarser ones make the rate lumpy.
PORTION_MS = 10.0
#: A reader that was held up catches up at most this much; more would be a burst that nobody asked for.
MAX_CATCH_UP_MS = 1000.0


class RateLimiter:
    """Lets rows through at a rate; unlimited if the rate is None.

    Args:
        rows_per_second: rate of the whole source, > 0, or None.
        parallelism: number of subtasks that share it evenly.
        clock: its monotonic time is used, and its wall clock for `next_ms`.
    """

    __slots__ = ("_clock", "_credit", "_last_ms", "_portion", "_rows_per_ms")

    def __init__(self, rows_per_second: float | None, parallelism: int, clock: Clock) -> None:
        self._clock = clock
        self._rows_per_ms = None if rows_per_second is None else rows_per_second / parallelism / 1000.0
        self._portion = 1.0 if self._rows_per_ms is None else max(1.0, self._rows_per_ms * PORTION_MS)
        self._credit = 0.0
        self._last_ms = clock.monotonic_ms()

    def take(self, max_rows: int) -> int:
        """Take rows: a number in [0, max_rows] that may be emitted now. They count as emitted, see `give_back`."""
        if self._rows_per_ms is None:
            return max_rows
        self._refill(self._rows_per_ms)
        if self._credit < min(self._portion, max_rows):
            return 0
        taken = min(max_rows, int(self._credit))
        self._credit -= taken
        return taken

    def give_back(self, rows: int) -> None:
        """Give back rows that were taken and not emitted after all."""
        self._credit += rows

    def next_ms(self) -> int:
        """Return the wall-clock time at which the next rows may be taken."""
        now_ms = self._clock.now_ms()
        if self._rows_per_ms is None:
            return now_ms
        self._refill(self._rows_per_ms)
        missing = self._portion - self._credit
        return now_ms + max(0, math.ceil(missing / self._rows_per_ms))

    def _refill(self, rows_per_ms: float) -> None:
        now = self._clock.monotonic_ms()
        limit = max(self._portion, rows_per_ms * MAX_CATCH_UP_MS)
        self._credit = min(limit, self._credit + (now - self._last_ms) * rows_per_ms)
        self._last_ms = now


def check_rate(rows_per_second: float | None) -> float | None:
    """Return the rate itself.

    Raises:
        ValueError: it is not above 0.
    """
    if rows_per_second is not None and not rows_per_second > 0:
        raise ValueError(f"rows per second must be above 0, not {rows_per_second!r}")
    return rows_per_second
