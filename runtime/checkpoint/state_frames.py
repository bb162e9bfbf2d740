"""Decodes state and converts Python values to columns of Polars frames. Pure.

Values of a declared type become a column of that type. Keys and pickled values are converted by their Python types:
rows and tuples become structs, values that fit no column stay Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    _SequenceTypeInfo,
    parse_type,
)
from runtime.common.types import Row
from runtime.core.arrow import has_columns, to_arrow
from runtime.core.serializers import serializer_for
from runtime.state.codecs import ListCodec, MapCodec, StateCodec, ValueCodec
from runtime.state.errors import StateError
from runtime.state.state_meta import StateMeta, is_json


def read_codec(meta: StateMeta) -> tuple[StateCodec, TypeInformation]:
    """Return the codec for a keyed state that has no descriptor, and the type of its values.

    Raises:
        StateError: its kind or type is unknown.
    """
    try:
        type_info = parse_type(meta.serializer)
    except ValueError as error:
        raise StateError(f"state {meta.name!r} was saved as {meta.describe()}, which is not known: {error}") from error
    if meta.kind == "list" and isinstance(type_info, _SequenceTypeInfo):
        return ListCodec(serializer_for(type_info.element_type)), type_info
    if meta.kind == "map" and isinstance(type_info, MapTypeInfo):
        return MapCodec(serializer_for(type_info.key_type), serializer_for(type_info.value_type)), type_info
    if meta.kind in ("value", "reducing", "aggregating"):
        return ValueCodec(meta.kind, serializer_for(type_info)), type_info
    raise StateError(f"state {meta.name!r} was saved as {meta.describe()}, which is not known")


def is_pickled(serializer: str) -> bool:
    """Return whether a serializer's values, or parts of them, are pickled."""
    if not serializer or is_json(serializer):
        return False
    try:
        return _has_pickle(parse_type(serializer))
    except ValueError:
        # nothing here can decode it, so it does not matter
        return True


def _has_pickle(type_info: TypeInformation) -> bool:
    if isinstance(type_info, _SequenceTypeInfo):
        return _has_pickle(type_info.element_type)
    if isinstance(type_info, MapTypeInfo):
        return _has_pickle(type_info.key_type) or _has_pickle(type_info.value_type)
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        return any(_has_pickle(field) for field in type_info.field_types)
    return isinstance(type_info, PickledBytesTypeInfo)


def column_of(name: str, values: Sequence[Any], type_info: TypeInformation | None) -> pl.Series:
    """Return a column of values of a declared type; of bytes if `type_info` is None."""
    if type_info is None:
        return pl.Series(name, values, pl.Binary)
    if not has_columns(type_info):
        return keys_column(name, values)
    # as a field of a row, so that rows and tuples become structs and None is allowed
    columns = to_arrow([(value,) for value in values], Types.TUPLE([type_info]))
    return pl.Series(name, pl.from_arrow(pa.table([columns.column(0)], names=[name])).get_column(name))  # type: ignore[union-attr]


def keys_column(name: str, values: Sequence[Any]) -> pl.Series:
    """Return a column of values without a declared type."""
    plain = [_plain(value) for value in values]
    try:
        return pl.Series(name, plain, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(name, list(values), pl.Object)


def _plain(value: Any) -> Any:
    """Return a value in a form that Polars accepts."""
    if isinstance(value, Row):
        try:
            return {name: _plain(part) for name, part in value.as_dict().items()}
        except TypeError:
            value = tuple(value)
    if isinstance(value, tuple):
        return {f"f{index}": _plain(part) for index, part in enumerate(value)}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, Instant):
        return value.to_epoch_milli()
    return value
