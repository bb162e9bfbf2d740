"""SliceSize: number of records that a task takes through its chain before it checks for timers, mail and barriers.

A task begins with one record, so that a slow function holds up nothing but itself, and goes on by what the records have
cost. A slice is the least that timers, watermarks and results of a slow function wait for. Pure.
Source: Flink bounds the same wait by `python.fn-execution.bundle.size` and `.time`.
"""

from __future__ import annotations

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.state.timer_slice import TimerSlice

#: Shorter slices cost more per record, longer ones delay timers, cancellation and barriers.
SLICE_MS = 20.0
#: Larger slices gain nothing, and no batch is that long.
MAX_SLICE_ROWS = 1 << 16
#: A slice that is too small to be timed says nothing about the speed.
_MEASURABLE_MS = 0.5


class SliceSize:
    """The size of a task's next slice.

    Args:
        max_ms: what a slice may take.
        max_rows: what it may have, at least 1.
    """

    __slots__ = ("_max_ms", "_max_rows", "rows")

    def __init__(self, max_ms: float = SLICE_MS, max_rows: int = MAX_SLICE_ROWS) -> None:
        self._max_ms = max_ms
        self._max_rows = max_rows
        self.rows = 1

    @classmethod
    def of(cls, configuration: Configuration) -> SliceSize:
        """Return a SliceSize within the bounds that a job sets for its bundles; one that is not positive is the
        default, as in Flink.
        """
        return cls(*_bounds(configuration))

    def adapt(self, rows: int, took_ms: float) -> None:
        """Adapt to what a slice has cost.

        Args:
            rows: how many records it had; fewer than `self.rows` if there were no more.
            took_ms: through the whole chain.
        """
        if rows == 0:
            return
        # readers give a little less than they are asked for; far beyond what was tried nothing is known
        fitting = max(self.rows, rows * 2)
        if took_ms >= min(_MEASURABLE_MS, self._max_ms):
            fitting = min(fitting, int(rows * self._max_ms / took_ms))
        self.rows = max(1, min(fitting, self._max_rows))

    def halve(self, rows: int) -> None:
        """Make the next slice half as long as one of `rows` records, whatever that one took."""
        self.rows = max(1, rows // 2)


def timer_slice_of(configuration: Configuration, clock: Clock) -> TimerSlice:
    """Return the slice of a task's timers, within the same bounds."""
    return TimerSlice(clock, *_bounds(configuration))


def _bounds(configuration: Configuration) -> tuple[float, int]:
    """Return what a slice may take, ms, and how many records or timers it may have."""
    size, time_ms = options.BUNDLE_SIZE, options.BUNDLE_TIME_MS
    max_rows, max_ms = configuration.get(size), configuration.get(time_ms)
    return (
        min(SLICE_MS, max_ms if max_ms > 0 else time_ms.default),
        min(MAX_SLICE_ROWS, max_rows if max_rows > 0 else size.default),
    )
