"""What of a Parquet file is not read: columns that nobody looks at, and row groups whose rows nobody wants. Pure.

Source: Parquet, format specification, Statistics.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.arrow import arrow_schema
from runtime.core.column_condition import ColumnCondition

_WHOLE_NUMBERS = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()})
_TEXTS = frozenset({pa.string(), pa.large_string()})


def read_type(found: pa.Schema, row_type: RowTypeInfo, read: frozenset[str]) -> RowTypeInfo:
    """Return the type of what is read of a file: columns that are looked at, and those that the file may not give.

    Args:
        found: schema of the file. A column that it lacks, or that has to be converted, is read all the same, since that
            may be an error.
        row_type: of the records.
        read: columns that are looked at.
    """
    wanted = arrow_schema(row_type)
    types = dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))
    names = [name for name in wanted.names if name in read or not _is_stored_as(found, wanted.field(name))]
    if not names:
        # rows have to be counted; the first column that takes little, if there is one
        numbers = [field.name for field in wanted if pa.types.is_primitive(field.type)]
        names = (numbers or wanted.names)[:1]
    return RowTypeInfo([types[name] for name in names], names)


def ranges_of_rows(
    metadata: pq.FileMetaData,
    wanted: pa.Schema,
    bounds: Sequence[int],
    conditions: Sequence[ColumnCondition],
    start: int,
    stop: int,
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows, within [start, stop), of row groups in which a row may meet all conditions.

    Args:
        metadata: of the file.
        wanted: columns of the records.
        bounds: number of the first row of each row group, and the number of rows.
        conditions: on columns.
        start: number of the first row.
        stop: the number behind the last.
    """
    found = metadata.schema.to_arrow_schema()
    if not all(_is_stored_as(found, field) for field in wanted):
        # what has to be converted may be an error, in any row
        conditions = ()
    places = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    known = [(places[c.column], c) for c in conditions if _is_comparable(found.field(c.column).type, c)]
    begin = end = start
    for group, (first, last) in enumerate(itertools.pairwise(bounds)):
        low, high = max(first, start), min(last, stop)
        if low >= high or any(_has_none(metadata.row_group(group).column(index), c) for index, c in known):
            continue
        if low > end and end > begin:
            yield begin, end
            begin = low
        elif end == begin:
            begin = low
        end = high
    if end > begin:
        yield begin, end


def _is_stored_as(found: pa.Schema, wanted: pa.Field) -> bool:
    """Return whether a file has a column exactly as it is wanted: no value of it can be an error."""
    if found.names.count(wanted.name) != 1:
        return False
    stored = found.field(wanted.name).type
    return bool(stored == wanted.type or (stored in _TEXTS and wanted.type in _TEXTS))


def _is_comparable(stored: pa.DataType, condition: ColumnCondition) -> bool:
    """Return whether the bounds of a column's values are in the order of the condition."""
    return stored in (_TEXTS if isinstance(condition.value, str) else _WHOLE_NUMBERS)


def _has_none(column: pq.ColumnChunkMetaData, condition: ColumnCondition) -> bool:
    """Return whether no value of a column in a row group meets a condition."""
    bounds = column.statistics if column.is_stats_set else None
    if bounds is None:
        return False
    if bounds.has_null_count and bounds.null_count == column.num_values:
        return True
    return bool(bounds.has_min_max and condition.excludes(bounds.min, bounds.max))
