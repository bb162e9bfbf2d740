"""Converts Avro schemas to types and types to Avro schemas, and the values of one to those of the other.

A union is read if it is one type or null. Timestamps become INSTANT, local ones SQL_TIMESTAMP (Flink's mapping with
`avro.timestamp_mapping.legacy` = false); enums, UUIDs and decimals become STRING, STRING and BIG_DEC.
Source: Avro 1.12 specification; Flink, AvroSchemaConverter.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

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
from runtime.common.types import row_of

Converter = Callable[[Any], Any]

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
_LOGICAL: dict[str, TypeInformation] = {
    "date": Types.SQL_DATE(),
    "time-millis": Types.SQL_TIME(),
    "time-micros": Types.SQL_TIME(),
    "timestamp-millis": Types.INSTANT(),
    "timestamp-micros": Types.INSTANT(),
    "local-timestamp-millis": Types.SQL_TIMESTAMP(),
    "local-timestamp-micros": Types.SQL_TIMESTAMP(),
    "decimal": Types.BIG_DEC(),
    "uuid": Types.STRING(),
}
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
_MICROSECOND = datetime.timedelta(microseconds=1)
#: as Arrow columns of BIG_DEC hold
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18}


class AvroTypes:
    """The type of an Avro schema, and the conversion of its values.

    Args:
        schema: as `json.loads` gives it.

    Raises:
        TypeError: a part has no type here; the message names it.
    """

    def __init__(self, schema: Any) -> None:
        self._named: dict[str, Any] = {}
        self.type_info, self.read = self._convert(schema, "schema")

    def _convert(self, schema: Any, where: str) -> tuple[TypeInformation, Converter]:
        if isinstance(schema, list):
            branches = [branch for branch in schema if branch != "null"]
            if len(branches) != 1:
                raise TypeError(f"{where}: a union must be one type or null, not {schema}")
            return self._convert(branches[0], where)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema], _same
            if schema not in self._named:
                raise TypeError(f"{where}: unknown or recursive Avro type {schema!r}")
            return self._convert(self._named[schema], where)
        kind, logical = schema["type"], schema.get("logicalType")
        name = schema.get("name", where)
        if logical in _LOGICAL:
            return _LOGICAL[logical], _READ_LOGICAL.get(logical, _same)
        if isinstance(kind, (dict, list)):
            return self._convert(kind, where)
        if kind in ("record", "error"):
            return self._record(schema, name)
        if kind == "array":
            item_type, read = self._convert(schema["items"], f"{where} items")
            return ListTypeInfo(item_type), _of_list(read)
        if kind == "map":
            value_type, read = self._convert(schema["values"], f"{where} values")
            return MapTypeInfo(Types.STRING(), value_type), _of_map(read)
        if kind not in _PRIMITIVES:
            raise TypeError(f"{where}: unknown Avro type {kind!r}")
        if kind in ("enum", "fixed"):
            self._name(schema, kind)
        return _PRIMITIVES[kind], _same

    def _record(self, schema: Mapping[str, Any], name: str) -> tuple[TypeInformation, Converter]:
        fields = [
            (field["name"], *self._convert(field["type"], f"{name}.{field['name']}")) for field in schema["fields"]
        ]
        self._name(schema, schema)
        names = tuple(field for field, _, _ in fields)
        readers = [(field, read) for field, _, read in fields]

        def read_record(value: Any) -> Any:
            if value is None:
                return None
            return row_of([read(value[field]) for field, read in readers], names)

        return RowTypeInfo([field_type for _, field_type, _ in fields], list(names)), read_record

    def _name(self, schema: Mapping[str, Any], meaning: Any) -> None:
        name = schema["name"]
        self._named[name] = meaning
        if schema.get("namespace"):
            self._named[f"{schema['namespace']}.{name}"] = meaning


def avro_schema(type_info: TypeInformation, name: str = "record") -> Any:
    """Return the Avro schema of a type, every part of it nullable but the outermost.

    Raises:
        TypeError: values of a part cannot be written as Avro.
    """
    return _schema(type_info, name)


def to_avro(type_info: TypeInformation) -> Converter:
    """Return a function from values of a type to what fastavro writes."""
    if isinstance(type_info, RowTypeInfo):
        writers = list(zip(type_info.get_field_names(), map(to_avro, type_info.get_field_types()), strict=True))

        def write_row(row: Any) -> Any:
            if row is None:
                return None
            return {name: write(item) for (name, write), item in zip(writers, row, strict=True)}

        return write_row
    if isinstance(type_info, MapTypeInfo):
        return _of_map(to_avro(type_info.value_type))
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return _same
    if isinstance(type_info, _SequenceTypeInfo):
        return _of_list(to_avro(type_info.element_type))
    if isinstance(type_info, BasicTypeInfo):
        if type_info.basic_type is BasicType.INSTANT:
            return lambda value: None if value is None else value.seconds * 1_000_000 + value.nanos // 1000
        if type_info.basic_type is BasicType.BIG_INT:
            return lambda value: None if value is None else Decimal(value)
    return _same


def _schema(type_info: TypeInformation, name: str) -> Any:
    if isinstance(type_info, RowTypeInfo):
        fields = zip(type_info.get_field_names(), type_info.get_field_types(), strict=True)
        return {
            "type": "record",
            # names of records must differ
            "name": name,
            "fields": [{"name": n, "type": ["null", _schema(t, f"{name}_{n}")], "default": None} for n, t in fields],
        }
    if isinstance(type_info, MapTypeInfo):
        if type_info.key_type != Types.STRING():
            raise TypeError(f"{name}: keys of an Avro map must be strings, not {type_info.key_type!r}")
        return {"type": "map", "values": ["null", _schema(type_info.value_type, f"{name}_value")]}
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes:
        return "bytes"
    if isinstance(type_info, _SequenceTypeInfo):
        return {"type": "array", "items": ["null", _schema(type_info.element_type, f"{name}_item")]}
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


def _same(value: Any) -> Any:
    return value


def _instant(value: Any) -> Any:
    if value is None:
        return None
    seconds, micros = divmod((value - _EPOCH) // _MICROSECOND, 1_000_000)
    return Instant(seconds, micros * 1000)


def _of_list(convert: Converter) -> Converter:
    return lambda value: None if value is None else [convert(item) for item in value]


def _of_map(convert: Converter) -> Converter:
    return lambda value: None if value is None else {key: convert(item) for key, item in value.items()}


_READ_LOGICAL: dict[str, Converter] = {
    "timestamp-millis": _instant,
    "timestamp-micros": _instant,
    "uuid": lambda value: None if value is None else str(value),
}
