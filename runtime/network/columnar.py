"""Splits a batch of columns over channels without making Python values of it.

Rows keep their order within a channel, and every channel gets every mark at its place between its own rows, as
`runtime.network.partitioners` has it for values. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.network.frames import without_views
from runtime.state.key_groups import assign_key_groups


def channels_of_keys(
    columns: pa.RecordBatch, keys: ColumnKeys, max_parallelism: int, num_channels: int
) -> npt.NDArray[np.int64]:
    """The subtask that owns each row's key.

    Returns:
        Shape (num_rows,), each in [0, num_channels).
    """
    groups = assign_key_groups(keys.hashes(columns), max_parallelism).astype(np.int64)
    return groups * num_channels // max_parallelism


def split_columns(
    batch: RecordBatch, channels: npt.NDArray[np.int64], num_channels: int
) -> list[RecordBatch | Watermark | None]:
    """The part of each channel; where a channel gets no row, the last mark as a Watermark, or None.

    Args:
        batch: has columns and a type.
        channels: shape (num_rows,), each in [0, num_channels).
    """
    type_info = batch.type_info
    assert type_info is not None
    columns, timestamps = without_views(batch.arrow()), batch.timestamps_array()
    counts = np.bincount(channels, minlength=num_channels)
    # stable, so that rows keep their order; on int16 it is a radix sort
    order = np.argsort(channels.astype(np.int16), kind="stable")
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
    """The marks with their offsets counted in `rows` (ascending) only; of several at one place the last one stays."""
    if not marks:
        return []
    offsets = np.searchsorted(rows, [offset for offset, _ in marks]).tolist()
    last = dict(zip(offsets, (watermark for _, watermark in marks), strict=True))
    return [Mark(offset, watermark) for offset, watermark in last.items()]
