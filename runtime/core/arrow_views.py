"""Arrow columns in plain layouts: Polars hands out views, which not everything here can take."""

from __future__ import annotations

import operator

import pyarrow as pa


def without_views(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same columns, with view types (`string_view`, `binary_view`) made plain.

    Polars hands out views; pyarrow 26 has no `take` for them, and a slice would carry all the batch's data along.
    """
    types = columns.schema.types
    plain = [_without_views(data_type) for data_type in types]
    if all(kept is data_type for kept, data_type in zip(plain, types, strict=True)):
        return columns
    arrays = [
        column if kept is data_type else column.cast(kept)
        for column, kept, data_type in zip(columns.columns, plain, types, strict=True)
    ]
    fields = [field.with_type(kept) for field, kept in zip(columns.schema, plain, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, columns.schema.metadata))


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """Return the type without views in it; the very same object if there are none."""
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type):
        return pa.binary()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        items = data_type.value_field
        kept = _without_views(items.type)
        make = pa.list_ if pa.types.is_list(data_type) else pa.large_list
        return data_type if kept is items.type else make(items.with_type(kept))
    if pa.types.is_map(data_type):
        parts = data_type.key_type, data_type.item_type
        plain = [_without_views(part) for part in parts]
        return data_type if all(map(operator.is_, plain, parts)) else pa.map_(*plain)
    if pa.types.is_struct(data_type):
        fields = list(data_type)
        types = [_without_views(field.type) for field in fields]
        if any(kept is not field.type for kept, field in zip(types, fields, strict=True)):
            return pa.struct([field.with_type(kept) for field, kept in zip(fields, types, strict=True)])
    return data_type
