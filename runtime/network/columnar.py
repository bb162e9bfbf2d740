"""Splits a batch of columns over channels without making Python values of it.

Rows keep their order within a channel, and every channel gets every mark at its place between its own rows, as
`runtime.network.partitioners` has it for values. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import BasicType, BasicTypeInfo
from runtime.core.arrow_views import without_views
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.state.key_groups import assign_key_groups

MAX_KNOWN = 1 << 17
"""Numbers whose channels are remembered, two bytes each: an array that the processor's cache still holds."""
Channels = npt.NDArray[np.integer[Any]]
_WHOLE = frozenset(BasicTypeInfo(kind) for kind in (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG))


def channels_of_keys(
    columns: pa.RecordBatch, keys: ColumnKeys, max_parallelism: int, num_channels: int
) -> npt.NDArray[np.int64]:
    """Return the subtask that owns each row's key.

    Returns:
        Shape (num_rows,), each in [0, num_channels).
    """
    groups = assign_key_groups(keys.hashes(columns), max_parallelism).astype(np.int64)
    return groups * num_channels // max_parallelism


class KeyChannels:
    """The subtasks that own keys; remembers them where the key is one whole number and numbers lie close together.

    Args:
        keys: how the stream is keyed.
        max_parallelism: number of key groups.
        num_channels: the consumer's parallelism.
    """

    def __init__(self, keys: ColumnKeys, max_parallelism: int, num_channels: int) -> None:
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._num_channels = num_channels
        self._is_whole = len(keys.types) == 1 and keys.types[0] in _WHOLE
        #: channels of the numbers from `_lowest` on
        self._table = np.empty(0, dtype=np.int16)
        self._lowest = 0
        self._num_rows = 0
        self._num_hashed = 0

    def of(self, columns: pa.RecordBatch) -> Channels:
        """Return the channels of a batch that is not empty, like `channels_of_keys`."""
        if self._is_whole:
            column = columns.column(columns.schema.get_field_index(self._keys.names[0]))
            if pa.types.is_signed_integer(column.type) and not column.null_count:
                numbers = column.to_numpy()
                self._num_rows += len(numbers)
                lowest, highest = int(numbers.min()), int(numbers.max())
                if self._knows(lowest, highest) or self._learn(lowest, highest):
                    known: Channels = self._table[np.subtract(numbers, self._lowest, dtype=np.int64)]
                    return known
        return channels_of_keys(columns, self._keys, self._max_parallelism, self._num_channels)

    def _knows(self, lowest: int, highest: int) -> bool:
        return self._lowest <= lowest and highest < self._lowest + len(self._table)

    def _learn(self, lowest: int, highest: int) -> bool:
        """Fill the table with these numbers, and those already there if all fit; returns False if not worth it."""
        if len(self._table):
            first, last = min(lowest, self._lowest), max(highest, self._lowest + len(self._table) - 1)
            if last - first < MAX_KNOWN:
                lowest, highest = first, last
        count = highest - lowest + 1
        # numbers that lie apart, or change with every batch, may as well be hashed row by row
        if count > MAX_KNOWN or self._num_hashed + count > self._num_rows:
            return False
        self._num_hashed += count
        numbers = pa.array(np.arange(count, dtype=np.int64) + lowest)
        columns = pa.RecordBatch.from_arrays([numbers], [self._keys.names[0]])
        found = channels_of_keys(columns, self._keys, self._max_parallelism, self._num_channels)
        self._table, self._lowest = found.astype(np.int16), lowest
        return True


def split_columns(batch: RecordBatch, channels: Channels, num_channels: int) -> list[RecordBatch | Watermark | None]:
    """Return the part of each channel; where a channel gets no row, the last mark as a Watermark, or None.

    Args:
        batch: has columns and a type.
        channels: shape (num_rows,), each in [0, num_channels).
    """
    type_info = batch.type_info
    assert type_info is not None
    columns, timestamps = without_views(batch.arrow()), batch.timestamps_array()
    counts = np.bincount(channels, minlength=num_channels)
    # stable, so that rows keep their order; on int16 it is a radix sort
    order = np.argsort(channels.astype(np.int16, copy=False), kind="stable")
    parts: list[RecordBatch | Watermark | None] = []
    stop = 0
    for count in counts.tolist():
        start, stop = stop, stop + count
        if count == 0:
            parts.append(Watermark(batch.marks[-1].watermark) if batch.marks else None)
        elif count == batch.num_rows:
            parts.append(RecordBatch.of_arrow(columns, type_info, timestamps, batch.marks))
        else:
            rows = order[start:stop]
            parts.append(
                RecordBatch.of_arrow(
                    columns.take(pa.array(rows)),
                    type_info,
                    None if timestamps is None else timestamps[rows],
                    marks_between(batch.marks, rows),
                )
            )
    return parts


def marks_between(marks: Sequence[Mark], rows: npt.NDArray[np.int64]) -> list[Mark]:
    """Return the marks with offsets counted in `rows` (ascending) only; of several at one place the last stays."""
    if not marks:
        return []
    offsets = np.searchsorted(rows, [offset for offset, _ in marks]).tolist()
    last = dict(zip(offsets, (watermark for _, watermark in marks), strict=True))
    return [Mark(offset, watermark) for offset, watermark in last.items()]
