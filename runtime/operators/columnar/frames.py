"""Converts batches to Polars frames and back: without a copy on the way in, and copying only strings on the way out.

A frame has the dtypes of its declared type, whatever encoding the columns came in (dictionaries, narrower numbers,
other time units). Frames going out keep the dtypes that Polars gave them: `string_view` and `large_list`, which the
network converts to plain ones. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars.interchange import CompatLevel

from runtime.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation, Types
from runtime.common.types import Row, RowKind
from runtime.core.arrow import arrow_schema, from_arrow, type_from_arrow
from runtime.core.batch import Mark, RecordBatch, has_changes

_NEWEST = CompatLevel.newest()
#: dtypes without a Tidemark type → the dtypes that they are cast to; UInt64 is read as BIG_INT without a cast
_CASTS: dict[Any, pl.DataType] = {
    pl.UInt8: pl.Int16(),
    pl.UInt16: pl.Int32(),
    pl.UInt32: pl.Int64(),
    pl.Int128: pl.Decimal(38, 0),
    pl.Null: pl.String(),
    pl.Categorical: pl.String(),
}


class FrameReader:
    """Converts the batches of one stream to frames.

    Args:
        type_info: type of the records.

    Raises:
        TypeError: such records have no columns.
    """

    def __init__(self, type_info: TypeInformation | None) -> None:
        if type_info is None:
            raise TypeError("columns need a stream of a declared type: give it an output_type such as Types.ROW_NAMED")
        self.type_info = type_info
        self.schema = dict(_schema_of(type_info))
        #: the latest Arrow schema, and the dtypes that its columns are cast to
        self._seen: pa.Schema | None = None
        self._casts: list[pl.Expr] = []

    @property
    def empty(self) -> pl.DataFrame:
        """Return a frame of the type without rows."""
        return pl.DataFrame(schema=self.schema)

    def read(self, batch: RecordBatch, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the frame of a batch, or some of its columns, sharing their memory.

        Raises:
            TypeError: the batch does not have the type's columns.
        """
        arrow = batch.arrow()
        if self._seen is None or not self._seen.equals(arrow.schema):
            self._look_at(arrow.schema)
        if columns is not None:
            arrow = arrow.select(columns)
        frame = pl.DataFrame(arrow)
        if not self._casts:
            return frame
        casts = self._casts if columns is None else [c for c in self._casts if c.meta.output_name() in columns]
        return frame.with_columns(casts)

    def _look_at(self, schema: pa.Schema) -> None:
        if schema.names != list(self.schema):
            raise TypeError(f"the columns are {schema.names} where {list(self.schema)} were declared")
        found = pl.DataFrame(schema.empty_table()).schema
        self._casts = [
            pl.col(name).cast(self.schema[name]) for name, dtype in found.items() if dtype != self.schema[name]
        ]
        self._seen = schema


def arrow_of(frame: pl.DataFrame) -> pa.RecordBatch:
    """Return the columns of a frame as one Arrow batch."""
    frame = frame.rechunk()
    try:
        batches = frame.to_arrow(compat_level=_NEWEST).to_batches()
    except pa.ArrowInvalid:
        # lists of texts that are all empty may begin behind the end of their items, which Polars has dropped
        plain = frame.to_arrow(compat_level=CompatLevel.oldest())
        batches = pl.DataFrame(plain).to_arrow(compat_level=_NEWEST).to_batches()
    if batches:
        return batches[0]
    schema = frame.to_arrow(compat_level=_NEWEST).schema
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def batch_of(
    frame: pl.DataFrame,
    type_info: TypeInformation,
    timestamps: npt.NDArray[np.int64] | None = None,
    marks: Sequence[Mark] = (),
) -> RecordBatch:
    """Return a batch of a frame's rows."""
    return RecordBatch.of_arrow(arrow_of(frame), type_info, timestamps, marks)


def has_views(schema: pa.Schema) -> bool:
    """Return whether a column is, or contains, `string_view` or `binary_view`: pyarrow 26 cannot pick rows of these."""
    return any(map(_is_view, schema.types))


def _is_view(data_type: pa.DataType) -> bool:
    if pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type):
        return True
    return any(_is_view(data_type.field(i).type) for i in range(data_type.num_fields))


def supported_dtype(dtype: pl.DataType) -> pl.DataType:
    """Return `dtype`, or the one that its values are cast to because Tidemark has no type for it."""
    return _CASTS.get(type(dtype), dtype)


def supported(expression: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return `expression` of type `dtype`, cast if Tidemark has no type for it."""
    cast = _CASTS.get(type(dtype))
    return expression if cast is None else expression.cast(cast)


def type_of(frame: pl.DataFrame, known: dict[str, TypeInformation]) -> RowTypeInfo:
    """Return the row type of a frame.

    Args:
        frame: may be empty.
        known: types of columns that were declared; the others are derived from their dtypes.

    Raises:
        TypeError: a column's dtype has no type.
    """
    types = [known[name] if name in known else column_type(dtype, name) for name, dtype in frame.schema.items()]
    return RowTypeInfo(types, frame.columns)


@lru_cache(maxsize=4_096)
def _schema_of(type_info: TypeInformation) -> Mapping[str, pl.DataType]:
    return {name: _dtype_of(field, name) for name, field in fields_of(type_info).items()}


def _dtype_of(type_info: TypeInformation, name: str) -> pl.DataType:
    try:
        return _dtype(type_info)
    except TypeError:
        # once more, for a message that names the column
        return pl.DataFrame(arrow_schema(Types.ROW_NAMED([name], [type_info])).empty_table()).dtypes[0]


@lru_cache(maxsize=4_096)
def _dtype(type_info: TypeInformation) -> pl.DataType:
    return pl.DataFrame(arrow_schema(Types.ROW_NAMED(["value"], [type_info])).empty_table()).dtypes[0]


def column_type(dtype: pl.DataType, name: str) -> TypeInformation:
    """Return the type of a column of a dtype.

    Raises:
        TypeError: there is none for the dtype; the message names the column.
    """
    try:
        return _column_type(dtype)
    except TypeError as error:
        raise TypeError(f"column {name!r}: {str(error).partition(': ')[2]}") from None


@lru_cache(maxsize=4_096)
def _column_type(dtype: pl.DataType) -> TypeInformation:
    schema = pl.DataFrame(schema={"value": dtype}).to_arrow(compat_level=_NEWEST).schema
    return type_from_arrow(schema).field_types[0]


def fields_of(type_info: TypeInformation) -> dict[str, TypeInformation]:
    """Return the columns of records of a type, by name."""
    if isinstance(type_info, RowTypeInfo):
        return dict(zip(type_info.field_names, type_info.field_types, strict=True))
    if isinstance(type_info, TupleTypeInfo):
        return {f"f{i}": field_type for i, field_type in enumerate(type_info.field_types)}
    return {"value": type_info}


def tuples_of(frame: pl.DataFrame, types: Sequence[TypeInformation]) -> list[tuple[Any, ...]]:
    """Return a frame's rows as tuples of Python values, in the form of the types."""
    return from_arrow(arrow_of(frame), Types.TUPLE(list(types)))


def keys_of(frame: pl.DataFrame, types: Sequence[TypeInformation]) -> list[Any]:
    """Return the keys that a frame of key columns holds, as ColumnKeys gives them for records."""
    keys = tuples_of(frame, types)
    return [key for (key,) in keys] if len(types) == 1 else keys


def row_kinds(batch: RecordBatch) -> list[RowKind] | None:
    """Return the kinds of a batch's rows; None if all are INSERT, as columns always are."""
    if not batch.has_values or not isinstance(batch.type_info, RowTypeInfo):
        return None
    values = batch.values()
    if not has_changes(values):
        return None
    return [row._row_kind for row in values]


def with_kinds(batch: RecordBatch, kinds: Sequence[RowKind]) -> RecordBatch:
    """Return the batch with its rows' kinds set, as values: columns do not hold kinds."""
    rows: list[Row] = batch.values()
    for row, kind in zip(rows, kinds, strict=True):
        row._row_kind = kind
    return RecordBatch(batch.num_rows, rows, None, batch.timestamps(), None, batch.marks, batch.type_info)
