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
#: Sizes differ if one is that many times the other; closer ones differ in cost by chance.
_DIFFERENT = 1.25
#: After so many long slices of one size, one of twice that size is tried; behind the last, once in that many.
_TRIED_AFTER = (4, 16, 64, 256)


class SliceSize:
    """The size of a task's next slice.

    A slice costs something whatever its size, and something for each record. Operators by column have high fixed costs:
    a join searches its buffers once per slice. Shorter slices would not make these lower, but the task as slow as one
    record per slice. So only what the records cost is limited, and it may always be as much as the fixed cost. Sizes
    that differ show which is which; where all are the same, one of twice that size is tried now and then, but not where
    user code is called for each record and nothing has costs by slice: there the records are what costs, and timers
    must not wait for two of them.

    Args:
        max_ms: what the records of a slice may take.
        max_rows: what it may have, at least 1.
        tries_longer: whether longer slices are tried.
    """

    __slots__ = ("_before", "_fixed_ms", "_max_ms", "_max_rows", "_num_alike", "_tries_longer", "rows")

    def __init__(self, max_ms: float = SLICE_MS, max_rows: int = MAX_SLICE_ROWS, tries_longer: bool = True) -> None:
        self._tries_longer = tries_longer
        self._max_ms = max_ms
        self._max_rows = max_rows
        self._fixed_ms = 0.0
        #: records and cost of slices of the previous size
        self._before: tuple[int, float] | None = None
        #: slices in a row that took longer than the limit and were no longer than the one before
        self._num_alike = 0
        self.rows = 1

    @classmethod
    def of(cls, configuration: Configuration, tries_longer: bool = True) -> SliceSize:
        """Return a SliceSize within the bounds that a job sets for its bundles; one that is not positive is the
        default, as in Flink.
        """
        return cls(*_bounds(configuration), tries_longer)

    def adapt(self, rows: int, took_ms: float) -> None:
        """Adapt to what a slice has cost.

        Args:
            rows: how many records it had; fewer than `self.rows` if there were no more.
            took_ms: through the whole chain.
        """
        if rows == 0:
            return
        self._learn(rows, took_ms)
        # readers give a little less than they are asked for; far beyond what was tried nothing is known
        fitting = max(self.rows, rows * 2)
        of_records_ms = took_ms - self._fixed_ms
        if of_records_ms >= min(_MEASURABLE_MS, self._max_ms):
            fitting = min(fitting, int(rows * max(self._max_ms, self._fixed_ms) / of_records_ms))
        self.rows = max(1, min(fitting, self._max_rows))
        if not self._tries_longer or took_ms <= self._max_ms or self.rows > rows * _DIFFERENT:
            self._num_alike = 0
            return
        # nothing can be learned from slices that are all of one size
        self._num_alike += 1
        if self._num_alike in _TRIED_AFTER or self._num_alike % _TRIED_AFTER[-1] == 0:
            self.rows = min(2 * rows, self._max_rows)

    def halve(self, rows: int) -> None:
        """Make the next slice half as long as one of `rows` records, whatever that one took."""
        self.rows = max(1, rows // 2)

    def _learn(self, rows: int, took_ms: float) -> None:
        """Estimate the fixed cost of a slice from this one and those of another size before."""
        if self._before is None:
            self._before = rows, took_ms
            return
        known, cost_ms = self._before
        if max(rows, known) < _DIFFERENT * min(rows, known):
            self._before = known, cost_ms + (took_ms - cost_ms) / 4
            return
        least_ms = min(took_ms, cost_ms)
        per_record_ms = max(0.0, (took_ms - cost_ms) / (rows - known))
        fixed_ms = least_ms - per_record_ms * min(rows, known)
        if fixed_ms < least_ms / 8:
            # hardly anything: a clock's inaccuracy, or records that have become slower
            fixed_ms = 0.0
        self._fixed_ms += (fixed_ms - self._fixed_ms) / 2
        self._before = rows, took_ms


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
