"""RecordBatch: the unit in which records travel.

A batch holds its records as a list of Python values, as Arrow columns, or both: each form is made from the other once,
when first asked for. A batch is immutable once it was handed on; whoever makes one gives up its lists. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import RowKind
from runtime.core.arrow import from_arrow, to_arrow
from runtime.core.arrow_views import without_views

NO_TIMESTAMP = -(2**63)
"""The event time of a record that has none (Flink's Long.MIN_VALUE)."""

DEFAULT_BATCH_ROWS = 8192
"""Rows at which a batch is cut. Below ~1,000 the fixed cost per batch shows; above ~50,000 latency and memory do."""
DEFAULT_BATCH_BYTES = 1 << 20
"""Bytes at which a batch is cut; one channel's credit window holds one such batch."""


class Mark(NamedTuple):
    """A watermark inside a batch: it takes effect after the first `offset` rows."""

    offset: int
    """In [0, num_rows]; marks of a batch ascend in offset and rise in watermark."""
    watermark: int


class Segment(NamedTuple):
    """Rows [start, stop) of a batch, and the watermark that follows them, if any."""

    start: int
    stop: int
    watermark: int | None


class RecordBatch:
    """An immutable run of records with event times and watermark marks.

    An operator must behave exactly as if the batch were cut at each mark and the mark's watermark came between.
    """

    __slots__ = ("_arrow", "_timestamps", "_ts_array", "_values", "keys", "marks", "num_rows", "type_info")

    def __init__(
        self,
        num_rows: int,
        values: list[Any] | None,
        arrow: pa.RecordBatch | None,
        timestamps: list[int] | None,
        ts_array: npt.NDArray[np.int64] | None,
        marks: Sequence[Mark] = (),
        type_info: TypeInformation | None = None,
        keys: list[Any] | None = None,
    ) -> None:
        self.num_rows = num_rows
        self._values = values
        self._arrow = arrow
        self._timestamps = timestamps
        self._ts_array = ts_array
        self.marks = marks
        self.type_info = type_info
        #: keys of the records where the partitioner has computed them already; never sent to another process
        self.keys = keys

    @classmethod
    def of_values(
        cls,
        values: list[Any],
        timestamps: list[int] | None = None,
        marks: Sequence[Mark] = (),
        type_info: TypeInformation | None = None,
        keys: list[Any] | None = None,
    ) -> RecordBatch:
        """Return a batch of Python values.

        Args:
            values: the records; the list now belongs to the batch.
            timestamps: event times in ms, as long as `values`; None if no record has one.
            marks: ascending by offset.
            type_info: type of the records; None or a pickled type means that they stay Python objects.
            keys: as long as `values`; see the attribute.
        """
        return cls(len(values), values, None, timestamps, None, marks, type_info, keys)

    @classmethod
    def of_arrow(
        cls,
        arrow: pa.RecordBatch,
        type_info: TypeInformation,
        ts_array: npt.NDArray[np.int64] | None = None,
        marks: Sequence[Mark] = (),
    ) -> RecordBatch:
        """Return a batch of columns: `arrow` has one column per field of `type_info`, or the one column `value`."""
        return cls(arrow.num_rows, None, arrow, None, ts_array, marks, type_info)

    @property
    def has_values(self) -> bool:
        """Return whether the records exist as Python values already."""
        return self._values is not None

    @property
    def has_arrow(self) -> bool:
        """Return whether the records exist as columns already."""
        return self._arrow is not None

    @property
    def has_timestamps(self) -> bool:
        return self._timestamps is not None or self._ts_array is not None

    def values(self) -> list[Any]:
        """Return the records as Python values; do not modify the list."""
        if self._values is None:
            assert self._arrow is not None and self.type_info is not None
            self._values = from_arrow(self._arrow, self.type_info)
        return self._values

    def arrow(self) -> pa.RecordBatch:
        """Return the records as columns.

        Raises:
            TypeError: the batch has no type, or a value does not fit it.
        """
        if self._arrow is None:
            if self.type_info is None:
                raise TypeError("a batch without a type cannot be turned into columns; give the stream an output_type")
            assert self._values is not None
            arrow = to_arrow(self._values, self.type_info)
            # columns hold no kinds: whoever found them beside values would take all rows for new ones
            if isinstance(self.type_info, RowTypeInfo) and has_changes(self._values):
                return arrow
            self._arrow = arrow
        return self._arrow

    def timestamps(self) -> list[int] | None:
        """Return event times in ms (NO_TIMESTAMP where a record has none), or None if no record has one."""
        if self._timestamps is None and self._ts_array is not None:
            self._timestamps = self._ts_array.tolist()
        return self._timestamps

    def timestamps_array(self) -> npt.NDArray[np.int64] | None:
        """Return `timestamps` as an array, shape (num_rows,)."""
        if self._ts_array is None and self._timestamps is not None:
            self._ts_array = np.array(self._timestamps, dtype=np.int64)
        return self._ts_array

    def segments(self) -> Iterator[Segment]:
        """Yield the batch cut at its marks, in order; the last segment has no watermark and may be missing if empty."""
        start = 0
        for offset, watermark in self.marks:
            yield Segment(start, offset, watermark)
            start = offset
        if start < self.num_rows:
            yield Segment(start, self.num_rows, None)

    def slice(self, start: int, stop: int) -> RecordBatch:
        """Return rows [start, stop); a mark at a cut belongs to the part before it, one at offset 0 to the first."""
        marks = [
            Mark(offset - start, watermark)
            for offset, watermark in self.marks
            if start < offset <= stop or (offset == start == 0)
        ]
        return RecordBatch(
            stop - start,
            None if self._values is None else self._values[start:stop],
            None if self._arrow is None else self._arrow.slice(start, stop - start),
            None if self._timestamps is None else self._timestamps[start:stop],
            None if self._ts_array is None else self._ts_array[start:stop],
            marks,
            self.type_info,
            None if self.keys is None else self.keys[start:stop],
        )

    def behind_mark(self, number: int) -> RecordBatch | None:
        """Return the rows and marks behind the mark of that number, counted from 0; None if there are none."""
        start = self.marks[number].offset
        marks = [Mark(offset - start, watermark) for offset, watermark in self.marks[number + 1 :]]
        if start == self.num_rows and not marks:
            return None
        return self.slice(start, self.num_rows).with_marks(marks)

    def take(self, indices: npt.NDArray[np.int64]) -> RecordBatch:
        """Return the rows at `indices`, in that order, without marks. Shape of `indices`: (m,), in [0, num_rows)."""
        pick = _picker(indices.tolist())
        values, timestamps, keys = self._values, self._timestamps, self.keys
        return RecordBatch(
            len(indices),
            None if values is None else pick(values),
            None if self._arrow is None else without_views(self._arrow).take(pa.array(indices)),
            None if timestamps is None else pick(timestamps),
            None if self._ts_array is None else self._ts_array[indices],
            (),
            self.type_info,
            None if keys is None else pick(keys),
        )

    def with_timestamps(self, timestamps: list[int], marks: Sequence[Mark]) -> RecordBatch:
        """Return the same records with other event times and marks."""
        return RecordBatch(self.num_rows, self._values, self._arrow, timestamps, None, marks, self.type_info, self.keys)

    def with_marks(self, marks: Sequence[Mark]) -> RecordBatch:
        """Return the same records with other marks."""
        return RecordBatch(
            self.num_rows, self._values, self._arrow, self._timestamps, self._ts_array, marks, self.type_info, self.keys
        )

    def with_values(self, values: list[Any], type_info: TypeInformation | None) -> RecordBatch:
        """Return other records, one for each of these, with the same event times and marks; keys are left out."""
        return RecordBatch(len(values), values, None, self._timestamps, self._ts_array, self.marks, type_info, None)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        form = "+".join(name for name, there in (("values", self.has_values), ("arrow", self.has_arrow)) if there)
        return f"RecordBatch({self.num_rows} rows, {form}, {len(self.marks)} marks)"


def has_changes(rows: Sequence[Any]) -> bool:
    """Return whether one of the rows is of another kind than INSERT; what is no Row has none."""
    return any(getattr(row, "_row_kind", RowKind.INSERT) is not RowKind.INSERT for row in rows)


def _picker(indices: list[int]) -> Callable[[list[Any]], list[Any]]:
    """Return a function from a list to its items at `indices`, in a third of the time of a comprehension."""
    if len(indices) < 2:
        # an itemgetter of one index gives the item alone
        return lambda items: [items[index] for index in indices]
    pick = itemgetter(*indices)
    return lambda items: list(pick(items))
