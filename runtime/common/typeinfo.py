"""Type information: what a stream's records are, declared with `Types`.

Pure Python values: picklable, hashable, compared by content. A type decides how values are coerced (`coercer`), stored
(`runtime.core.serializers`) and laid out in columns (`runtime.core.arrow`). `str` and `repr` show a type as PyFlink
does; `type_string()` is a stable text that `parse_type` reads back, and snapshots name serializers by it.
Source: PyFlink, common/typeinfo.py.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runtime.common import coercion
from runtime.common.coercion import Coercer
from runtime.common.exclusions import refusing_module
from runtime.common.time import Instant
from runtime.common.types import Row

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
    "parse_type",
]


class TypeInformation(ABC):
    """A type of records or of their fields. Immutable. `str` and `repr` are what PyFlink shows."""

    __slots__ = ()

    @abstractmethod
    def coercer(self) -> Coercer | None:
        """Return a function that turns a Python value into this type's form; None if every value is in it already.

        The function raises TypeError where a value does not fit, OverflowError where a number is beyond the type's
        range; both name the field and the value. None always fits.
        Ask once and keep it: making it costs more than calling it.
        """

    @property
    @abstractmethod
    def python_class(self) -> type | None:
        """Return the exact class of values after coercion, if there is one. Having it does not make a value fit."""

    @property
    def is_immutable(self) -> bool:
        """Return whether values can be shared without copies."""
        return False

    @abstractmethod
    def type_string(self) -> str:
        """The text from which `parse_type` makes an equal type. Snapshots and job graphs hold it: it never changes."""

    @abstractmethod
    def _identity(self) -> tuple[Any, ...]:
        """The parts that tell two types of the same class apart."""

    @abstractmethod
    def __str__(self) -> str:
        """The type's name as PyFlink shows it."""

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._identity() == self._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))


class BasicType(enum.Enum):
    """The types without structure; the value is the name used in texts."""

    STRING = "string"
    BYTE = "byte"
    BOOLEAN = "boolean"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    CHAR = "char"
    BIG_INT = "big_int"
    BIG_DEC = "big_dec"
    INSTANT = "instant"


_COERCERS: dict[BasicType, Coercer] = {
    BasicType.STRING: coercion.coerce_string,
    BasicType.BYTE: coercion.coerce_byte,
    BasicType.BOOLEAN: coercion.coerce_boolean,
    BasicType.SHORT: coercion.coerce_short,
    BasicType.INT: coercion.coerce_int,
    BasicType.LONG: coercion.coerce_long,
    BasicType.FLOAT: coercion.coerce_float,
    BasicType.DOUBLE: coercion.coerce_double,
    BasicType.CHAR: coercion.coerce_char,
    BasicType.BIG_INT: coercion.coerce_big_int,
    BasicType.BIG_DEC: coercion.coerce_big_dec,
    BasicType.INSTANT: coercion.coerce_instant,
}
_CLASSES: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.CHAR: str,
    BasicType.BIG_DEC: decimal.Decimal,
    BasicType.INSTANT: Instant,
}


_NAMES = {BasicType.INT: "Integer", BasicType.BIG_INT: "BigInteger", BasicType.BIG_DEC: "BigDecimal"}
"""PyFlink's names where they are not the values with a capital."""


class BasicTypeInfo(TypeInformation):
    """Type of numbers, strings, booleans and instants."""

    __slots__ = ("basic_type",)

    def __init__(self, basic_type: BasicType) -> None:
        self.basic_type = basic_type

    def coercer(self) -> Coercer | None:
        return _COERCERS[self.basic_type]

    @property
    def python_class(self) -> type:
        return _CLASSES.get(self.basic_type, int)

    @property
    def is_immutable(self) -> bool:
        return True

    def _identity(self) -> tuple[Any, ...]:
        return (self.basic_type,)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.basic_type is self.basic_type

    def __hash__(self) -> int:
        # a row of hundreds of columns hashes as many; that of an enum is Python's
        return hash(self.basic_type._value_)

    def type_string(self) -> str:
        return self.basic_type.value

    def __str__(self) -> str:
        return _NAMES.get(self.basic_type, self.basic_type.value.title())

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802 (Flink's names)
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:  # noqa: N802
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """Type of `Instant`."""

    __slots__ = ()


class SqlTimeTypeInfo(TypeInformation):
    """Types of dates, times of day and date-times without a zone."""

    __slots__ = ()

    @property
    def is_immutable(self) -> bool:
        return True

    def _identity(self) -> tuple[Any, ...]:
        return ()

    @staticmethod
    def DATE() -> DateTypeInfo:  # noqa: N802
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:  # noqa: N802
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:  # noqa: N802
        return TimestampTypeInfo()


class DateTypeInfo(SqlTimeTypeInfo):
    """Type of `datetime.date`."""

    __slots__ = ()

    def coercer(self) -> Coercer | None:
        return coercion.coerce_date

    @property
    def python_class(self) -> type:
        return datetime.date

    def type_string(self) -> str:
        return "sql_date"

    def __str__(self) -> str:
        return "DateTypeInfo"


class TimeTypeInfo(SqlTimeTypeInfo):
    """Type of `datetime.time`, in milliseconds."""

    __slots__ = ()

    def coercer(self) -> Coercer | None:
        return coercion.coerce_time

    @property
    def python_class(self) -> type:
        return datetime.time

    def type_string(self) -> str:
        return "sql_time"

    def __str__(self) -> str:
        return "TimeTypeInfo"


class TimestampTypeInfo(SqlTimeTypeInfo):
    """Type of `datetime.datetime` without a zone, in microseconds."""

    __slots__ = ()

    def coercer(self) -> Coercer | None:
        return coercion.coerce_timestamp

    @property
    def python_class(self) -> type:
        return datetime.datetime

    def type_string(self) -> str:
        return "sql_timestamp"

    def __str__(self) -> str:
        return "TimestampTypeInfo"


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; the type of a stream whose type was not declared."""

    __slots__ = ()

    def coercer(self) -> Coercer | None:
        return None

    @property
    def python_class(self) -> None:
        return None

    def _identity(self) -> tuple[Any, ...]:
        return ()

    def type_string(self) -> str:
        return "pickle"

    def __str__(self) -> str:
        return "PickledByteArrayTypeInfo"

    @staticmethod
    def PICKLED_BYTE_ARRAY_TYPE_INFO() -> PickledBytesTypeInfo:  # noqa: N802
        return PickledBytesTypeInfo()


class _SequenceTypeInfo(TypeInformation):
    """Common to lists and arrays: one element type, values are Python lists."""

    __slots__ = ("element_type",)
    _text: str

    def __init__(self, element_type: TypeInformation) -> None:
        if not isinstance(element_type, TypeInformation):
            raise TypeError(f"{type(self).__name__}: the element type must be a type, not {element_type!r}")
        self.element_type = element_type

    def coercer(self) -> Coercer | None:
        return coercion.list_coercer(self.element_type.coercer(), self._text.upper())

    @property
    def python_class(self) -> type | None:
        return list

    def _identity(self) -> tuple[Any, ...]:
        return (self.element_type,)

    def type_string(self) -> str:
        return f"{self._text}<{self.element_type.type_string()}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.element_type}>"


class ListTypeInfo(_SequenceTypeInfo):
    """Type of lists."""

    __slots__ = ()
    _text = "list"

    @property
    def elem_type(self) -> TypeInformation:
        """Return `element_type`, under PyFlink's name."""
        return self.element_type


class PrimitiveArrayTypeInfo(_SequenceTypeInfo):
    """Type of arrays of numbers, booleans or chars without nulls; of BYTE, values are `bytes`."""

    __slots__ = ()
    _text = "primitive_array"

    def coercer(self) -> Coercer | None:
        return coercion.coerce_bytes if self.is_bytes else super().coercer()

    @property
    def is_bytes(self) -> bool:
        """Return whether values are `bytes`."""
        return isinstance(self.element_type, BasicTypeInfo) and self.element_type.basic_type is BasicType.BYTE

    @property
    def python_class(self) -> type | None:
        return bytes if self.is_bytes else list

    @property
    def is_immutable(self) -> bool:
        return self.is_bytes


class BasicArrayTypeInfo(_SequenceTypeInfo):
    """Type of arrays of numbers, booleans or strings that may hold nulls."""

    __slots__ = ()
    _text = "basic_array"


class ObjectArrayTypeInfo(_SequenceTypeInfo):
    """Type of arrays of anything."""

    __slots__ = ()
    _text = "object_array"


class MapTypeInfo(TypeInformation):
    """Type of dicts."""

    __slots__ = ("key_type", "value_type")

    def __init__(self, key_type: TypeInformation, value_type: TypeInformation) -> None:
        for part in (key_type, value_type):
            if not isinstance(part, TypeInformation):
                raise TypeError(f"MAP: key and value type must be types, not {part!r}")
        self.key_type = key_type
        self.value_type = value_type

    def coercer(self) -> Coercer | None:
        return coercion.map_coercer(self.key_type.coercer(), self.value_type.coercer())

    @property
    def python_class(self) -> type:
        return dict

    def _identity(self) -> tuple[Any, ...]:
        return (self.key_type, self.value_type)

    def type_string(self) -> str:
        return f"map<{self.key_type.type_string()}, {self.value_type.type_string()}>"

    def __str__(self) -> str:
        return f"MapTypeInfo<{self.key_type}, {self.value_type}>"


class TupleTypeInfo(TypeInformation):
    """Type of tuples."""

    __slots__ = ("field_types",)

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self.field_types = _checked_types("TUPLE", field_types)

    def get_field_types(self) -> list[TypeInformation]:
        return list(self.field_types)

    def coercer(self) -> Coercer | None:
        types = self.field_types
        return coercion.tuple_coercer([t.coercer() for t in types], [t.python_class for t in types])

    @property
    def python_class(self) -> type:
        return tuple

    @property
    def is_immutable(self) -> bool:
        return all(t.is_immutable for t in self.field_types)

    def _identity(self) -> tuple[Any, ...]:
        return self.field_types

    def type_string(self) -> str:
        return f"tuple<{', '.join(t.type_string() for t in self.field_types)}>"

    def __str__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self.field_types))})"


class RowTypeInfo(TypeInformation):
    """Type of rows.

    Args:
        field_types: one a field.
        field_names: as many, all different; None = f0, f1, ...

    Raises:
        ValueError: wrong number of names, or one twice.
    """

    __slots__ = ("_hash", "field_names", "field_types", "is_named")

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        self.field_types = _checked_types("ROW", field_types)
        self.is_named = field_names is not None
        if field_names is None:
            self.field_names = tuple(f"f{i}" for i in range(len(self.field_types)))
            return
        self.field_names = tuple(field_names)
        if len(self.field_names) != len(self.field_types):
            raise ValueError(f"ROW_NAMED: {len(self.field_names)} names for {len(self.field_types)} types")
        if len(set(self.field_names)) != len(self.field_names):
            raise ValueError(f"ROW_NAMED: a field name occurs twice in {list(self.field_names)}")

    def get_field_names(self) -> list[str]:
        return list(self.field_names)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field, -1 if there is none of that name."""
        return self.field_names.index(field_name) if field_name in self.field_names else -1

    def get_field_types(self) -> list[TypeInformation]:
        return list(self.field_types)

    def coercer(self) -> Coercer | None:
        types = self.field_types
        return coercion.row_coercer(
            self.field_names, self.is_named, [t.coercer() for t in types], [t.python_class for t in types]
        )

    @property
    def python_class(self) -> type:
        return Row

    def _identity(self) -> tuple[Any, ...]:
        return (self.field_types, self.field_names)

    def __eq__(self, other: object) -> bool:
        return other is self or super().__eq__(other)

    def __hash__(self) -> int:
        # a row may have hundreds of columns, and is a key of several caches
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash((RowTypeInfo, self._identity()))
            return self._hash

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # another process hashes texts in another way
        return None, {name: getattr(self, name) for name in self.__slots__ if name != "_hash"}

    def type_string(self) -> str:
        if not self.is_named:
            return f"row<{', '.join(t.type_string() for t in self.field_types)}>"
        named = zip(self.field_names, self.field_types, strict=True)
        return f"row<{', '.join(f'{json.dumps(name)}: {t.type_string()}' for name, t in named)}>"

    def __str__(self) -> str:
        if not self.is_named:
            return f"RowTypeInfo({', '.join(map(str, self.field_types))})"
        named = zip(self.get_field_names(), self.field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in named)})"


def _checked_types(what: str, types: Sequence[TypeInformation]) -> tuple[TypeInformation, ...]:
    for part in types:
        if not isinstance(part, TypeInformation):
            raise TypeError(f"{what}: field types must be types such as Types.INT(), not {part!r}")
    return tuple(types)


class Types:
    """Makes every type. Source: PyFlink, Types."""

    @staticmethod
    def STRING() -> TypeInformation:  # noqa: N802
        """`str`."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:  # noqa: N802
        """`int` of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:  # noqa: N802
        """`bool`."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:  # noqa: N802
        """`int` of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT() -> TypeInformation:  # noqa: N802
        """`int` of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG() -> TypeInformation:  # noqa: N802
        """`int` of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:  # noqa: N802
        """`float`, rounded to 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:  # noqa: N802
        """`float`."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:  # noqa: N802
        """`str` of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT() -> TypeInformation:  # noqa: N802
        """`int` of any size; in columns at most 38 digits."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:  # noqa: N802
        """`decimal.Decimal` with all its digits; in columns DECIMAL(38, 18), which refuse what has more."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT() -> TypeInformation:  # noqa: N802
        """`Instant`."""
        return InstantTypeInfo(BasicType.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:  # noqa: N802
        """`datetime.date`."""
        return DateTypeInfo()

    @staticmethod
    def SQL_TIME() -> TypeInformation:  # noqa: N802
        """`datetime.time`, in milliseconds."""
        return TimeTypeInfo()

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:  # noqa: N802
        """`datetime.datetime` without a zone."""
        return TimestampTypeInfo()

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:  # noqa: N802
        """Any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """`Row` with fields f0, f1, ..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """`Row` with these fields."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """`tuple`."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """`list` of numbers, booleans or chars; `bytes` for BYTE.

        Raises:
            TypeError: arrays of that type are not primitive.
        """
        if not isinstance(element_type, BasicTypeInfo) or element_type.basic_type not in _PRIMITIVES:
            raise TypeError(f"PRIMITIVE_ARRAY: elements are numbers, booleans or chars, not {element_type!r}")
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """`list` of numbers, booleans, strings; may hold None.

        Raises:
            TypeError: arrays of that type are not basic.
        """
        if not isinstance(element_type, BasicTypeInfo):
            raise TypeError(f"BASIC_ARRAY: elements are of a basic type, not {element_type!r}")
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """`list` of anything."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation, value_type_info: TypeInformation) -> TypeInformation:  # noqa: N802
        """`dict`."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:  # noqa: N802
        """`list`."""
        return ListTypeInfo(element_type_info)


MAX_NESTING = 64
"""Depth of a type's text. Deeper ones, which a snapshot may hold, would exhaust Python's stack."""
_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}

_PLAIN: dict[str, TypeInformation] = {
    **{basic.value: BasicTypeInfo(basic) for basic in BasicType},
    "instant": InstantTypeInfo(BasicType.INSTANT),
    **{t.type_string(): t for t in (DateTypeInfo(), TimeTypeInfo(), TimestampTypeInfo(), PickledBytesTypeInfo())},
}
_SEQUENCES: dict[str, type[_SequenceTypeInfo]] = {
    cls._text: cls for cls in (ListTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)
}


def parse_type(text: str) -> TypeInformation:
    """The type whose `type_string()` is `text`.

    Raises:
        ValueError: the text is not that of a type.
    """
    parsed, end = _parse(text, 0, MAX_NESTING)
    if end != len(text):
        raise ValueError(f"not a type: {text!r} (at {end})")
    return parsed


def _parse(text: str, start: int, nesting: int) -> tuple[TypeInformation, int]:
    if not nesting:
        raise ValueError(f"not a type: it is nested more than {MAX_NESTING} deep")
    end = start
    while end < len(text) and (text[end].isalpha() or text[end] == "_"):
        end += 1
    word = text[start:end]
    if word in _PLAIN:
        return _PLAIN[word], end
    if text[end : end + 1] != "<":
        raise ValueError(f"not a type: {text!r} (at {start})")
    names: list[str] = []
    types: list[TypeInformation] = []
    end += 1
    while text[end : end + 1] != ">":
        if types:
            if text[end : end + 2] != ", ":
                raise ValueError(f"not a type: {text!r} (at {end})")
            end += 2
        if text[end : end + 1] == '"':
            name, end = json.JSONDecoder().raw_decode(text, end)
            names.append(name)
            end += 2  # ": "
        part, end = _parse(text, end, nesting - 1)
        types.append(part)
    end += 1
    if word == "row":
        return RowTypeInfo(types, names if names else None), end
    if word == "tuple":
        return TupleTypeInfo(types), end
    if word == "map" and len(types) == 2:
        return MapTypeInfo(*types), end
    if word in _SEQUENCES and len(types) == 1:
        return _SEQUENCES[word](*types), end
    raise ValueError(f"not a type: {text!r} (at {start})")


if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
