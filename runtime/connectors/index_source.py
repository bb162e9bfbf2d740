"""IndexSource: the part that generated sources share: records are functions of their index, splits are index ranges.

Because a record depends on its index and nothing else, a restore at any parallelism gives the same records. Ranges are
dealt out in ascending order; an unbounded source has ranges without end, each short, so that it can be rescaled.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.connectors.rate_limiter import RateLimiter, check_rate
from runtime.core.batch import RecordBatch
from runtime.operators.source import (
    Boundedness,
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

#: Rows of one range of an unbounded source: asking for a range costs a message each way, and a range that is being read
#: cannot be divided when the job is rescaled.
UNBOUNDED_RANGE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class IndexSplit(SourceSplit):
    """Indexes [start, stop)."""

    start: int
    stop: int


class IndexSource(Source):
    """A source of `count` records.

    Args:
        count: number of records >= 0, or None for no end.
        rows_per_second: of all subtasks together, > 0; None = as fast as possible.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(self, count: int | None, rows_per_second: float | None) -> None:
        if count is not None and count < 0:
            raise ValueError(f"the number of records must not be negative: {count}")
        self.count = count
        self.rows_per_second = check_rate(rows_per_second)
        self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED if count is None else Boundedness.BOUNDED

    @abstractmethod
    def generate(self, start: int, stop: int) -> RecordBatch:
        """Return the records with indexes [start, stop), at least one."""

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        if restored is not None:
            returned = [self.split_from_json(item) for item in restored["returned"]]
            return _RangeEnumerator(restored["next"], self.count, restored["rows"], returned)
        if self.count is not None:
            rows = max(1, math.ceil(self.count / parallelism))
        elif self.rows_per_second is not None:
            # about a second's worth, so that the subtasks stay close to each other in index and so in event time
            rows = min(UNBOUNDED_RANGE_ROWS, max(1, math.ceil(self.rows_per_second / parallelism)))
        else:
            rows = UNBOUNDED_RANGE_ROWS
        return _RangeEnumerator(0, self.count, rows, [])

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, IndexSplit)
        limiter = RateLimiter(self.rows_per_second, context.parallelism, context.clock)
        return _IndexReader(self, split.start if position is None else position, split.stop, limiter)

    def split_to_json(self, split: SourceSplit) -> Any:
        return _range_to_json(split)

    def split_from_json(self, value: Any) -> SourceSplit:
        return _range(*value)


def _range(start: int, stop: int) -> IndexSplit:
    return IndexSplit(f"{start}-{stop}", start, stop)


def _range_to_json(split: SourceSplit) -> list[int]:
    assert isinstance(split, IndexSplit)
    return [split.start, split.stop]


class _RangeEnumerator(SplitEnumerator):
    def __init__(self, next_index: int, count: int | None, rows: int, returned: Sequence[SourceSplit]) -> None:
        self._next = next_index
        self._count = count
        self._rows = rows
        self._returned = deque(returned)

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        if self._returned:
            return self._returned.popleft()
        start = self._next
        stop = start + self._rows if self._count is None else min(self._count, start + self._rows)
        if start >= stop:
            return NoSplit.NEVER
        self._next = stop
        return _range(start, stop)

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._returned.extend(splits)

    def snapshot(self) -> Any:
        return {"next": self._next, "rows": self._rows, "returned": [_range_to_json(s) for s in self._returned]}


class _IndexReader(SplitReader):
    def __init__(self, source: IndexSource, next_index: int, stop: int, limiter: RateLimiter) -> None:
        self._source = source
        self._next = next_index
        self._stop = stop
        self._limiter = limiter

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._next >= self._stop:
            return ReadStatus.END_OF_SPLIT
        rows = self._limiter.take(min(max_rows, self._stop - self._next))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        batch = self._source.generate(self._next, self._next + rows)
        self._next += rows
        return batch

    @property
    def position(self) -> Any:
        return self._next

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()
