"""Event times from a column of the records: taken as they are, a batch at a time. Used by the task's thread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.core.batch import RecordBatch

_PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}


def with_times_of_column(batch: RecordBatch, column: str) -> RecordBatch:
    """Return the same records, without marks, with a column's values as event times.

    Args:
        batch: of a declared type; not empty.
        column: LONG (ms since the epoch), SQL_TIMESTAMP or INSTANT.

    Raises:
        TypeError: the records have no columns, or the column no such type.
        ValueError: there is no such column, or a value is null.
    """
    return RecordBatch(
        batch.num_rows,
        batch.values() if batch.has_values else None,
        batch.arrow(),
        None,
        _times(batch.arrow(), column),
        (),
        batch.type_info,
        None,
    )


def _times(columns: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    index = columns.schema.get_field_index(name)
    if index < 0:
        raise ValueError(f"there is no column {name!r} for event times; there are {columns.schema.names}")
    column = columns.column(index)
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueError(f"the event time in column {name!r} is null in row {row} of the batch")
    if pa.types.is_timestamp(column.type):
        ticks: npt.NDArray[np.int64] = column.view(pa.int64()).to_numpy()
        # rounds down before 1970 too
        return ticks * 1000 if column.type.unit == "s" else ticks // _PER_MS[column.type.unit]
    if not pa.types.is_int64(column.type):
        raise TypeError(f"column {name!r} is {column.type}: an event time is LONG (ms), SQL_TIMESTAMP or INSTANT")
    times: npt.NDArray[np.int64] = column.to_numpy()
    return times
