"""Serializers: values of a declared type to compact bytes and back, and copies of records.

A serializer's name is stored in snapshots and finds it again (`serializer_by_name`): it is its type's `type_string()`.
Typed serializers never use pickle. All of them write column by column (`runtime.core.column_codec`), so that a list of
rows costs little more than its columns; single values have a short form of their own where it matters. Without state:
any thread may call them.
"""

from __future__ import annotations

import datetime
import decimal
import pickle
import struct
from collections.abc import Callable
from itertools import chain
from typing import Any, Final, Protocol

import cloudpickle

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    _SequenceTypeInfo,
    parse_type,
)
from runtime.common.types import Row, row_of
from runtime.core.column_codec import ColumnCodec, codec_for

__all__ = [
    "SerializationError",
    "Serializer",
    "are_immutable",
    "deep_copier",
    "is_immutable",
    "pickle_dumps",
    "serializer_by_name",
    "serializer_for",
]


class SerializationError(TypeError):
    """A value is not of its serializer's type, or bytes were not written by that serializer.

    Attributes:
        serializer: the serializer's name.
    """

    def __init__(self, serializer: str, reason: str) -> None:
        super().__init__(serializer, reason)
        self.serializer = serializer
        self.reason = reason

    def __str__(self) -> str:
        return f"serializer {self.serializer}: {self.reason}"


class Serializer(Protocol):
    """Converts values of one type to bytes and back. None is a value of every type.

    All four methods raise SerializationError for what is not of the type.
    """

    @property
    def name(self) -> str:
        """Return the stable name that `serializer_by_name` takes."""

    def serialize(self, value: Any) -> bytes: ...

    def deserialize(self, data: bytes) -> Any: ...

    def serialize_many(self, values: list[Any]) -> bytes: ...

    def deserialize_many(self, data: bytes, n: int) -> list[Any]:
        """Return the `n` values that `serialize_many` was given."""


class PickleSerializer:
    """Any Python object; cloudpickle only for what pickle refuses (lambdas, classes of `__main__`)."""

    __slots__ = ()
    name: Final = "pickle"

    def serialize(self, value: Any) -> bytes:
        return pickle_dumps(value)

    def deserialize(self, data: bytes) -> Any:
        try:
            return pickle.loads(data)
        except Exception as error:  # unpickling runs the classes' own code: anything may come
            raise SerializationError(self.name, f"{type(error).__name__}: {error}") from error

    def serialize_many(self, values: list[Any]) -> bytes:
        return pickle_dumps(values)

    def deserialize_many(self, data: bytes, n: int) -> list[Any]:
        values: list[Any] = self.deserialize(data)
        return values


class TypedSerializer:
    """Values of one declared type, by its column codec."""

    __slots__ = ("_codec", "name", "type_info")

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.name = type_info.type_string()
        self._codec: ColumnCodec = codec_for(type_info)

    def serialize(self, value: Any) -> bytes:
        return self.serialize_many([value])

    def deserialize(self, data: bytes) -> Any:
        return self.deserialize_many(data, 1)[0]

    def serialize_many(self, values: list[Any]) -> bytes:
        out = bytearray()
        try:
            self._codec.write(values, out)
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise SerializationError(self.name, f"{error} in {values!r:.200}") from error
        return bytes(out)

    def deserialize_many(self, data: bytes, n: int) -> list[Any]:
        try:
            values, end = self._codec.read(data, 0, n)
        except (TypeError, ValueError, IndexError, OverflowError, struct.error, ArithmeticError) as error:
            raise SerializationError(self.name, f"{len(data)} bytes are not {n} values: {error}") from error
        if end != len(data):
            left = len(data) - end
            raise SerializationError(self.name, f"{len(data)} bytes are not {n} values: {left} are left over")
        return values


_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_NULL_STRING: Final = b"\xff"
"""No UTF-8 text begins with that byte."""


class LongSerializer(TypedSerializer):
    """LONG: one value is its 8 bytes, None is no bytes."""

    __slots__ = ()

    def serialize(self, value: Any) -> bytes:
        try:
            return b"" if value is None else _I64.pack(value)
        except struct.error as error:
            raise SerializationError(self.name, f"{value!r:.100}: {error}") from error

    def deserialize(self, data: bytes) -> Any:
        try:
            return _I64.unpack(data)[0] if data else None
        except struct.error as error:
            raise SerializationError(self.name, str(error)) from error


class DoubleSerializer(TypedSerializer):
    """DOUBLE: one value is its 8 bytes, None is no bytes."""

    __slots__ = ()

    def serialize(self, value: Any) -> bytes:
        try:
            return b"" if value is None else _F64.pack(value)
        except struct.error as error:
            raise SerializationError(self.name, f"{value!r:.100}: {error}") from error

    def deserialize(self, data: bytes) -> Any:
        try:
            return _F64.unpack(data)[0] if data else None
        except struct.error as error:
            raise SerializationError(self.name, str(error)) from error


class StringSerializer(TypedSerializer):
    """STRING: one value is its UTF-8 bytes."""

    __slots__ = ()

    def serialize(self, value: Any) -> bytes:
        if value is None:
            return _NULL_STRING
        try:
            encoded: bytes = str.encode(value, "utf-8", "surrogatepass")
        except TypeError as error:
            raise SerializationError(self.name, f"{value!r:.100}: {error}") from error
        return encoded

    def deserialize(self, data: bytes) -> Any:
        if data == _NULL_STRING:
            return None
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise SerializationError(self.name, str(error)) from error


_SHORT_FORMS: dict[TypeInformation, type[TypedSerializer]] = {
    BasicTypeInfo(BasicType.LONG): LongSerializer,
    BasicTypeInfo(BasicType.DOUBLE): DoubleSerializer,
    BasicTypeInfo(BasicType.STRING): StringSerializer,
}
_PICKLE = PickleSerializer()


def serializer_for(type_info: TypeInformation | None) -> Serializer:
    """Return the serializer of a type; pickle for None and for pickled values."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return _PICKLE
    return _SHORT_FORMS.get(type_info, TypedSerializer)(type_info)


def serializer_by_name(name: str) -> Serializer:
    """Return the serializer that has this name.

    Raises:
        SerializationError: no serializer has it.
    """
    try:
        return serializer_for(parse_type(name))
    except ValueError as error:
        raise SerializationError(name, str(error)) from None


def pickle_dumps(value: Any) -> bytes:
    """Pickle with protocol 5; with cloudpickle where pickle cannot.

    Raises:
        SerializationError: neither can.
    """
    try:
        return pickle.dumps(value, 5)
    except Exception:  # a class's own __reduce__ may raise anything; cloudpickle decides
        try:
            data: bytes = cloudpickle.dumps(value, 5)
        except Exception as error:
            raise SerializationError("pickle", f"{value!r:.200}: {error}") from error
        return data


# --- copies -----------------------------------------------------------------------------------------------------------

_IMMUTABLE: frozenset[type] = frozenset(
    (
        *(int, str, float, bool, bytes, type(None), complex, decimal.Decimal, Instant),
        *(datetime.date, datetime.time, datetime.datetime, datetime.timedelta),
    )
)
Copier = Callable[[list[Any]], list[Any]]


def is_immutable(value: Any) -> bool:
    """Return whether a value can be shared: a number, text, bytes, None, a date or time, or a tuple of such."""
    cls = value.__class__
    return cls in _IMMUTABLE or (cls is tuple and all(map(is_immutable, value)))


def are_immutable(values: list[Any]) -> bool:
    """Return whether all values can be shared, like `is_immutable`; the cost is that of listing their types."""
    classes = list(map(type, values))
    if not classes:
        return True
    first = classes[0]
    # most batches hold values of one class: to count it takes half as long as to make a set
    if classes.count(first) == len(classes):
        return first in _IMMUTABLE or (first is tuple and are_immutable(list(chain.from_iterable(values))))
    found = set(classes)
    if tuple not in found:
        return found <= _IMMUTABLE
    found.remove(tuple)
    return found <= _IMMUTABLE and are_immutable(
        list(chain.from_iterable([value for value in values if value.__class__ is tuple]))
    )


def deep_copier(type_info: TypeInformation | None) -> Copier | None:
    """Return a function that copies a list of records, sharing nothing that can change; None if no copy is needed.

    Values without a type are copied through pickle one by one, unless they are immutable.
    """
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return _copy_unknown
    if type_info.is_immutable:
        return None
    if isinstance(type_info, RowTypeInfo):
        return _row_copier([deep_copier(t) for t in type_info.field_types])
    if isinstance(type_info, TupleTypeInfo):
        return _tuple_copier([deep_copier(t) for t in type_info.field_types])
    if isinstance(type_info, _SequenceTypeInfo):
        return _list_copier(deep_copier(type_info.element_type))
    assert isinstance(type_info, MapTypeInfo)
    return _map_copier(deep_copier(type_info.key_type), deep_copier(type_info.value_type))


def _copy_unknown(values: list[Any]) -> list[Any]:
    if are_immutable(values):
        return values
    classes = set(map(type, values))
    if classes == {dict}:
        # records have a few keys in common, a union of dicts is quick, and one key per equal ones is enough to look at
        found = set(map(type, chain.from_iterable(map(dict.values, values))))
        if (
            found <= _IMMUTABLE
            or (tuple in found and are_immutable(list(chain.from_iterable(map(dict.values, values)))))
        ) and are_immutable(list(set().union(*values))):
            return list(map(dict.copy, values))
    elif classes == {list} and are_immutable(list(chain.from_iterable(values))):
        return list(map(list.copy, values))
    elif classes == {Row} and are_immutable(list(chain.from_iterable([row._values for row in values]))):
        return list(map(_copy_row, values))
    return [_copy_value(value) for value in values]


def _copy_value(value: Any) -> Any:
    cls = value.__class__
    if is_immutable(value):
        return value
    if cls is dict and set(map(type, value.values())) <= _IMMUTABLE and all(map(is_immutable, value)):
        return value.copy()
    if cls is list and set(map(type, value)) <= _IMMUTABLE:
        return value.copy()
    if cls is Row and set(map(type, value._values)) <= _IMMUTABLE:
        return _copy_row(value)
    # one by one: records that were the same object become different ones, as they would behind a network
    return pickle.loads(pickle_dumps(value))


def _copy_row(row: Row) -> Row:
    copied = row_of(list(row._values), row._fields)
    copied._row_kind = row._row_kind
    return copied


def _columns_copied(records: list[Any], copiers: list[Copier | None]) -> list[Any]:
    """Return the records' values, copied by columns; `records` are sequences of the fields' number."""
    if not any(copiers) or not records:
        return records
    columns = [
        column if copier is None else copier(list(column))
        for column, copier in zip(zip(*records, strict=True), copiers, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _without_nulls(copy: Copier) -> Copier:
    """Return a copier that lets None through."""

    def copy_all(values: list[Any]) -> list[Any]:
        if not any(value is None for value in values):
            return copy(values)
        copied = iter(copy([value for value in values if value is not None]))
        return [None if value is None else next(copied) for value in values]

    return copy_all


def _row_copier(copiers: list[Copier | None]) -> Copier:
    def copy(rows: list[Any]) -> list[Any]:
        if not any(copiers):
            return list(map(_copy_row, rows))
        copied = _columns_copied([row._values for row in rows], copiers)
        made = [row_of(list(values), row._fields) for row, values in zip(rows, copied, strict=True)]
        for row, original in zip(made, rows, strict=True):
            row._row_kind = original._row_kind
        return made

    return _without_nulls(copy)


def _tuple_copier(copiers: list[Copier | None]) -> Copier:
    return _without_nulls(lambda tuples: _columns_copied(tuples, copiers))


def _list_copier(element: Copier | None) -> Copier:
    if element is None:
        return _without_nulls(lambda lists: [items.copy() for items in lists])
    return _without_nulls(lambda lists: [element(items.copy()) for items in lists])


def _map_copier(key: Copier | None, item: Copier | None) -> Copier:
    def copy_one(value: dict[Any, Any]) -> dict[Any, Any]:
        keys, items = list(value), list(value.values())
        return dict(zip(key(keys) if key else keys, item(items) if item else items, strict=True))

    if key is None and item is None:
        return _without_nulls(lambda maps: [value.copy() for value in maps])
    return _without_nulls(lambda maps: [copy_one(value) for value in maps])
