"""Columns that nobody reads, as nulls in the place of what is left out. Pure; any thread."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import pyarrow as pa


def texts_left_out(schema: pa.Schema, read: Collection[str]) -> frozenset[str]:
    """Return the texts that a format of lines need not decode, given the columns that are read.

    Every field can be a text, while a number that nobody reads may still be none, which makes its line a bad one. One
    column is always left: a table without columns has no rows.
    """
    left_out = [field.name for field in schema if field.type == pa.string() and field.name not in read]
    if len(left_out) == len(schema):
        left_out.pop()
    return frozenset(left_out)


def with_nulls(found: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a schema in its order: those that were found, and nulls for the others."""
    if found.schema.names == schema.names:
        return found
    places = {name: index for index, name in enumerate(found.schema.names)}
    columns = [
        found.column(places[field.name]) if field.name in places else _nulls(field.type, found.num_rows)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _nulls(data_type: pa.DataType, rows: int) -> pa.Array:
    # made once for all batches up to a size: they share the memory
    size = 1 << max(10, (rows - 1).bit_length())
    return _made(data_type, size).slice(0, rows)


@lru_cache(maxsize=64)
def _made(data_type: pa.DataType, rows: int) -> pa.Array:
    return pa.nulls(rows, data_type)
