"""Sources for measurements: records that are in memory already, and records on a schedule that carry their time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.reference.memory import BATCH_ROWS, Pool, pool_rows, values_of
from runtime.common.typeinfo import TypeInformation, Types
from runtime.connectors.index_source import IndexSource, IndexSplit
from runtime.core.arrow import to_arrow
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReaderContext, ReadStatus, SourceSplit, SplitReader

PAIRS = Types.TUPLE([Types.LONG(), Types.LONG()])


class MemorySource(IndexSource):
    """Emits the batches of a pool repeatedly; they are created when the source is opened in its slot.

    Args:
        pool: what is emitted.
        rows: how many records in all; a multiple of the batch size.
        as_columns: whether the batches hold columns; else Python values.
    """

    def __init__(self, pool: Pool, rows: int, as_columns: bool = False) -> None:
        super().__init__(rows // BATCH_ROWS, None)
        self._pool = pool
        self._as_columns = as_columns
        self._batches: list[RecordBatch] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._batches = [self._made(number) for number in range(pool_rows(self._pool) // BATCH_ROWS)]

    def produced_type(self) -> TypeInformation | None:
        return PAIRS if self._pool.is_pairs else Types.LONG()

    def generate(self, start: int, stop: int) -> RecordBatch:
        """Emit one batch: indexes of this source are numbers of batches."""
        return self._batches[start % len(self._batches)]

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, IndexSplit)
        return _BatchReader(self, split.start if position is None else position, split.stop)

    def _made(self, number: int) -> RecordBatch:
        values = values_of(self._pool, number)
        type_info = self.produced_type()
        assert type_info is not None
        if self._as_columns:
            return RecordBatch.of_arrow(to_arrow(values, type_info), type_info)
        return RecordBatch.of_values(values, type_info=type_info)


class _BatchReader(SplitReader):
    """Hands on whole batches. A batch that was handed on before may hold what was made of it; each gets its own."""

    def __init__(self, source: MemorySource, start: int, stop: int) -> None:
        self._source = source
        self._next = start
        self._stop = stop

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._next >= self._stop:
            return ReadStatus.END_OF_SPLIT
        batch = self._source.generate(self._next, self._next + 1)
        self._next += 1
        return batch.with_marks(())

    @property
    def position(self) -> Any:
        return self._next


class ScheduledSource(IndexSource):
    """Emits records (key, time in ns since the epoch at which it was due) at a rate.

    A record that is emitted late still carries the time at which it was due: what waits in the source is latency too.

    Args:
        rows_per_second: of all subtasks together.
        seconds: for how long.
        keys: number of keys.
    """

    def __init__(self, rows_per_second: float, seconds: float, keys: int) -> None:
        super().__init__(int(rows_per_second * seconds), None)
        self.rate = rows_per_second
        self.keys = keys

    def produced_type(self) -> TypeInformation | None:
        return PAIRS

    def generate(self, start: int, stop: int) -> RecordBatch:
        raise NotImplementedError("records depend on the time at which they are due: a reader makes them")

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, IndexSplit)
        return _ScheduledReader(split.start, split.stop, self.rate / context.parallelism, self.keys)


class _ScheduledReader(SplitReader):
    def __init__(self, start: int, stop: int, rows_per_second: float, keys: int) -> None:
        self._first = self._next = start
        self._stop = stop
        self._ns_per_row = 1e9 / rows_per_second
        self._keys = keys
        self._started_ns: int | None = None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._next >= self._stop:
            return ReadStatus.END_OF_SPLIT
        now_ns = time.time_ns()
        if self._started_ns is None:
            self._started_ns = now_ns
        due = min(self._stop, self._first + int((now_ns - self._started_ns) / self._ns_per_row) + 1)
        stop = min(due, self._next + max_rows)
        if stop <= self._next:
            return ReadStatus.NOTHING_YET
        numbers = np.arange(self._next, stop, dtype=np.int64)
        times = self._started_ns + ((numbers - self._first) * self._ns_per_row).astype(np.int64)
        self._next = stop
        values: Sequence[tuple[int, int]] = list(zip((numbers % self._keys).tolist(), times.tolist(), strict=True))
        return RecordBatch.of_values(list(values), type_info=PAIRS)

    @property
    def position(self) -> Any:
        return self._next

    def next_read_ms(self) -> int | None:
        return time.time_ns() // 1_000_000 + 1
