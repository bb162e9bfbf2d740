"""NumberSequenceSource: the whole numbers of a range. Source: PyFlink, connectors/number_seq.py."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.common.typeinfo import TypeInformation, Types
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch

_LONG = Types.LONG()


class NumberSequenceSource(IndexSource):
    """Emits the numbers start..end, both included, as LONG; within a subtask in ascending order.

    Raises:
        ValueError: `start` is above `end`.
    """

    split_format = "a sequence of numbers"

    def __init__(self, start: int, end: int) -> None:
        if start > end:
            raise ValueError(f"the start {start} must not be above the end {end}")
        super().__init__(end - start + 1, None)
        self._start = start

    def produced_type(self) -> TypeInformation | None:
        return _LONG

    def generate(self, start: int, stop: int) -> RecordBatch:
        numbers = np.arange(self._start + start, self._start + stop, dtype=np.int64)
        return RecordBatch.of_arrow(pa.RecordBatch.from_arrays([pa.array(numbers)], names=["value"]), _LONG)
