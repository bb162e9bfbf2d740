"""The types of Avro schemas, and the conversion of values between Tidemark and fastavro, made once per schema.

A union of one type and null is that type: every type has nulls here. Values of any other union and of `null` alone
are pickled, each as its own branch has it. Timestamps become INSTANT, local ones SQL_TIMESTAMP (Flink's mapping with
`avro.timestamp_mapping.legacy` = false); enums, UUIDs and decimals become STRING, STRING and BIG_DEC.
Source: Avro 1.12 specification; Flink, AvroSchemaConverter.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import fastavro

from runtime.common.time import Instant
from runtime.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
    _SequenceTypeInfo,
)
from runtime.common.types import Row, row_of

Converter = Callable[[Any], Any]

_PICKLED = Types.PICKLED_BYTE_ARRAY()
_PRIMITIVES: dict[str, TypeInformation] = {
    "boolean": Types.BOOLEAN(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "fixed": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "enum": Types.STRING(),
}
#: by kind and logical type; on another kind, a logical type says nothing
_LOGICAL: dict[tuple[str, str], TypeInformation] = {
    ("int", "date"): Types.SQL_DATE(),
    ("int", "time-millis"): Types.SQL_TIME(),
    ("long", "time-micros"): Types.SQL_TIME(),
    ("bytes", "decimal"): Types.BIG_DEC(),
    ("fixed", "decimal"): Types.BIG_DEC(),
    ("string", "uuid"): Types.STRING(),
}
#: logical types of a long → microseconds of its unit
_TIMESTAMPS = {"timestamp-millis": 1_000, "timestamp-micros": 1}
_LOCAL_TIMESTAMPS = {f"local-{name}": micros for name, micros in _TIMESTAMPS.items()}
_BASIC_NAMES: dict[BasicType, str] = {
    BasicType.BOOLEAN: "boolean",
    BasicType.BYTE: "int",
    BasicType.SHORT: "int",
    BasicType.INT: "int",
    BasicType.LONG: "long",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double",
    BasicType.STRING: "string",
    BasicType.CHAR: "string",
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOCAL_EPOCH = _EPOCH.replace(tzinfo=None)
_MICROSECOND = datetime.timedelta(microseconds=1)
#: the class in which fastavro gives values of these branches where they need a conversion
_CLASSES: dict[str, type] = {"array": list, "map": dict, "long": datetime.datetime, "string": uuid.UUID}
#: as Arrow columns of BIG_DEC hold
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}


class _Part(NamedTuple):
    """The type of one part of a schema, and its conversions: from what fastavro gives, and to what it takes.

    Both take None, as every part may stand in a union with null.
    """

    type_info: TypeInformation
    read: Converter
    write: Converter


class AvroTypes:
    """The type of an Avro schema, and the conversion of its values.

    fastavro has to read with `return_record_name=True`, and then gives a named type in a union as (name, value).

    Args:
        schema: as `json.loads` gives it.
        legacy_timestamps: whether timestamps are SQL_TIMESTAMP and local ones LONG: Flink's older mapping, which its
            row schemas and generic records keep to.

    Raises:
        ValueError: it is no schema.
        TypeError: a part has no type here; the message names it.
    """

    def __init__(self, schema: Any, *, legacy_timestamps: bool = False) -> None:
        try:
            #: as fastavro takes it: every name with its namespace
            self.parsed = fastavro.parse_schema(schema)
        # fastavro raises whatever it stumbles over: KeyError, TypeError, …
        except Exception as error:
            raise ValueError(f"not an Avro schema: {type(error).__name__}: {error}") from error
        self._legacy = legacy_timestamps
        self._named: dict[str, _Part] = {}
        self.type_info, self.read, self.write = self._part(self.parsed, "schema")

    def _part(self, schema: Any, where: str) -> _Part:
        if isinstance(schema, list):
            return self._union(schema, where)
        if isinstance(schema, str):
            if schema == "null":
                return _Part(_PICKLED, _same, _only_null)
            if schema in _PRIMITIVES:
                return _Part(_PRIMITIVES[schema], _same, _same)
            if schema not in self._named:
                raise TypeError(f"{where}: the Avro type {schema!r} is recursive")
            return self._named[schema]
        kind, logical = schema["type"], str(schema.get("logicalType"))
        if kind in ("record", "error"):
            return self._name(schema, self._record(schema))
        if kind == "array":
            item = self._part(schema["items"], f"{where} items")
            return _Part(ListTypeInfo(item.type_info), _of_list(item.read), _of_list(item.write))
        if kind == "map":
            value = self._part(schema["values"], f"{where} values")
            return _Part(MapTypeInfo(Types.STRING(), value.type_info), _of_map(value.read), _of_map(value.write))
        if kind in ("enum", "fixed"):
            return self._name(schema, self._simple(kind, logical))
        return self._simple(kind, logical) if kind in _PRIMITIVES else self._part(kind, where)

    def _simple(self, kind: str, logical: str) -> _Part:
        if kind == "long" and logical in _TIMESTAMPS:
            write = _timestamp_writer(_TIMESTAMPS[logical])
            if self._legacy:
                return _Part(Types.SQL_TIMESTAMP(), _zoneless, write)
            return _Part(Types.INSTANT(), _instant, write)
        if kind == "long" and logical in _LOCAL_TIMESTAMPS:
            if self._legacy:
                return _Part(Types.LONG(), _local_ticks(_LOCAL_TIMESTAMPS[logical]), _same)
            return _Part(Types.SQL_TIMESTAMP(), _same, _same)
        type_info = _LOGICAL.get((kind, logical), _PRIMITIVES[kind])
        if type_info == Types.BIG_DEC():
            return _Part(type_info, _same, _decimal)
        return _Part(type_info, _text if logical == "uuid" else _same, _same)

    def _record(self, schema: Mapping[str, Any]) -> _Part:
        name = schema["name"]
        fields = {field["name"]: self._part(field["type"], f"{name}.{field['name']}") for field in schema["fields"]}
        names = tuple(fields)
        readers = [(field, part.read) for field, part in fields.items()]
        writers = [(field, part.write) for field, part in fields.items()]

        def read_record(value: Any) -> Any:
            if value is None:
                return None
            return row_of([read(value[field]) for field, read in readers], names)

        def write_record(value: Any) -> Any:
            if value is None:
                return None
            if isinstance(value, dict):
                return {field: write(value.get(field)) for field, write in writers}
            return {field: write(item) for (field, write), item in zip(writers, value, strict=True)}

        return _Part(RowTypeInfo([part.type_info for part in fields.values()], list(names)), read_record, write_record)

    def _union(self, schema: Sequence[Any], where: str) -> _Part:
        branches = {_branch_name(branch): self._part(branch, where) for branch in schema if branch != "null"}
        if not branches:
            return _Part(_PICKLED, _same, _only_null)
        if len(branches) == 1:
            [part] = branches.values()
            return part._replace(read=_unnamed(part.read))
        records = [part for part in branches.values() if isinstance(part.type_info, RowTypeInfo)]
        readers = {_CLASSES[name]: part.read for name, part in branches.items() if name in _CLASSES}
        zone = datetime.UTC if any(_is_timestamp(branch) for branch in schema) else None

        def read_branch(value: Any) -> Any:
            if isinstance(value, tuple):
                name, named = value
                return branches[name].read(named)
            return readers.get(value.__class__, _same)(value)

        def write_branch(value: Any) -> Any:
            if isinstance(value, Row) and len(records) == 1:
                return records[0].write(value)
            return _plain(value, zone)

        return _Part(_PICKLED, read_branch, write_branch)

    def _name(self, schema: Mapping[str, Any], part: _Part) -> _Part:
        self._named[schema["name"]] = part
        return part


def avro_schema(type_info: TypeInformation, name: str = "record") -> Any:
    """Return the Avro schema of a type, every part of it nullable but the outermost.

    Raises:
        TypeError: values of a part cannot be written as Avro.
    """
    if isinstance(type_info, RowTypeInfo):
        # names of records must differ
        fields = {
            field: ["null", avro_schema(field_type, f"{name}_{field}")]
            for field, field_type in zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
        }
        described = [{"name": field, "type": union, "default": None} for field, union in fields.items()]
        return {"type": "record", "name": name, "fields": described}
    if isinstance(type_info, MapTypeInfo):
        if type_info.key_type != Types.STRING():
            raise TypeError(f"{name}: keys of an Avro map must be strings, not {type_info.key_type!r}")
        return {"type": "map", "values": ["null", avro_schema(type_info.value_type, f"{name}_value")]}
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return "bytes"
    if isinstance(type_info, _SequenceTypeInfo):
        return {"type": "array", "items": ["null", avro_schema(type_info.element_type, f"{name}_item")]}
    if isinstance(type_info, DateTypeInfo):
        return {"type": "int", "logicalType": "date"}
    if isinstance(type_info, TimeTypeInfo):
        return {"type": "int", "logicalType": "time-millis"}
    if isinstance(type_info, TimestampTypeInfo):
        return {"type": "long", "logicalType": "local-timestamp-micros"}
    if isinstance(type_info, BasicTypeInfo):
        basic = type_info.basic_type
        if basic in _BASIC_NAMES:
            return _BASIC_NAMES[basic]
        if basic is BasicType.INSTANT:
            return {"type": "long", "logicalType": "timestamp-micros"}
        if basic is BasicType.BIG_DEC:
            return _DECIMAL
        if basic is BasicType.BIG_INT:
            return {**_DECIMAL, "scale": 0}
    raise TypeError(f"{name}: values of type {type_info!r} cannot be written as Avro")


def _branch_name(branch: Any) -> str:
    """Return the name of a union's branch, which no other branch has: of its type if that is named, else its kind."""
    return branch if isinstance(branch, str) else str(branch.get("name", branch["type"]))


def _is_timestamp(branch: Any) -> bool:
    return isinstance(branch, dict) and branch["type"] == "long" and branch.get("logicalType") in _TIMESTAMPS


def _same(value: Any) -> Any:
    return value


def _unnamed(read: Converter) -> Converter:
    """Return a reader for a union's only branch: fastavro gives a value of a named type as (name, value)."""
    return lambda value: read(value[1] if isinstance(value, tuple) else value)


def _only_null(value: Any) -> None:
    if value is not None:
        raise TypeError(f"the type is null, the value {value!r:.100}")


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _decimal(value: Any) -> Any:
    return Decimal(value) if value.__class__ is int else value


def _instant(value: Any) -> Instant | None:
    if value is None:
        return None
    seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
    return Instant(seconds, micros * 1000)


def _zoneless(value: Any) -> Any:
    return None if value is None else value.replace(tzinfo=None)


def _local_ticks(unit_micros: int) -> Converter:
    return lambda value: None if value is None else (value - _LOCAL_EPOCH) // _MICROSECOND // unit_micros


def _timestamp_writer(unit_micros: int) -> Converter:
    """Return a function from instants, and from date-times, which are in UTC without a zone, to ticks since 1970."""

    def ticks(value: Any) -> int | None:
        if value is None:
            return None
        if isinstance(value, Instant):
            return (value.seconds * 1_000_000 + value.nanos // 1_000) // unit_micros
        moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return int((moment - _EPOCH) // _MICROSECOND // unit_micros)

    return ticks


def _of_list(convert: Converter) -> Converter:
    return lambda value: None if value is None else [convert(item) for item in value]


def _of_map(convert: Converter) -> Converter:
    return lambda value: None if value is None else {key: convert(item) for key, item in value.items()}


def _plain(value: Any, zone: datetime.tzinfo | None) -> Any:
    """Return a value of one of several branches as fastavro takes it, which finds the branch.

    Args:
        value: any value.
        zone: of date-times that have none; None: they are local.
    """
    if isinstance(value, Row):
        value = value.as_dict()
    if isinstance(value, dict):
        return {key: _plain(item, zone) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, zone) for item in value]
    if isinstance(value, Instant):
        return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=zone)
    return value
