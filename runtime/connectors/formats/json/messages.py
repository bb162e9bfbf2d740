"""Rows as JSON objects: schemas of connectors that carry messages. Source: PyFlink, formats/json.py.

A schema is a plain value: immutable, picklable, used by any number of subtasks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import (
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
    _SequenceTypeInfo,
)
from runtime.common.types import Row, row_of
from runtime.connectors.formats.text_values import text_of, text_reader
from runtime.core.shortest_floats import with_shortest_floats

Reader = Callable[[Any], Any]


class JsonRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from JSON objects: fields by name; others are skipped, missing ones null. See `builder()`."""

    def __init__(self, type_info: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._options = (type_info, fail_on_missing_field, ignore_parse_errors)
        self._read = _row_reader(type_info, fail_on_missing_field)
        coerce = type_info.coercer()
        assert coerce is not None
        self._coerce = coerce

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of one message; None if it cannot be read and parse errors are ignored.

        Raises:
            ValueError: it is not a JSON object with such fields.
        """
        try:
            row: Row = self._coerce(self._read(json.loads(message, parse_float=Decimal)))
        except (ValueError, TypeError, OverflowError) as error:
            if self._options[2]:
                return None
            raise ValueError(f"JSON message cannot be read: {error}: {message!r:.200}") from error
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._options[0]

    def __reduce__(self) -> tuple[Any, ...]:
        # readers are closures
        return type(self), self._options

    class Builder:
        """Makes a JsonRowDeserializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set names and types of the fields, from `Types.ROW_NAMED`."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set names and types of the fields, as a JSON schema.

            Raises:
                TypeError: it is None.
                ValueError: it describes no object, or something that has no type here.
            """
            if json_schema is None:
                raise TypeError("the JSON schema must not be None")
            self._type_info = type_of_json_schema(json.loads(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Return None for a message that cannot be read."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                TypeError: there is no row type.
                ValueError: missing fields are to fail and parse errors to be ignored.
            """
            if not isinstance(self._type_info, RowTypeInfo):
                raise TypeError(f"a JSON schema of rows needs a row type, not {self._type_info!r}")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("a JSON schema cannot fail on missing fields and ignore parse errors")
            return JsonRowDeserializationSchema(self._type_info, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Serializes rows to JSON objects. Made by `builder()`."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        coerce = type_info.coercer()
        assert coerce is not None
        self._coerce = coerce
        self._shorten = with_shortest_floats(type_info)

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, value: Any) -> bytes:
        """Return the JSON object of a row, UTF-8.

        Raises:
            TypeError: it does not fit the type.
            OverflowError: a number is beyond its type's range.
        """
        row = self._coerce(value)
        if self._shorten is not None:
            row = self._shorten(row)
        return _json_text(row, self._type_info).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type_info,)

    class Builder:
        """Makes a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set names and types of the fields, from `Types.ROW_NAMED`."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema.

            Raises:
                TypeError: there is no row type.
            """
            if not isinstance(self._type_info, RowTypeInfo):
                raise TypeError(f"a JSON schema of rows needs a row type, not {self._type_info!r}")
            return JsonRowSerializationSchema(self._type_info)


def type_of_json_schema(schema: Mapping[str, Any]) -> RowTypeInfo:
    """Return the row type of a JSON schema whose root is an object. Source: Flink, JsonRowSchemaConverter.

    Raises:
        ValueError: the root is not an object, or a part has no type here.
    """
    found = _schema_type(schema, schema)
    if not isinstance(found, RowTypeInfo):
        raise ValueError("the root of a JSON schema of rows must be an object with properties")
    return found


def _schema_type(schema: Mapping[str, Any], root: Mapping[str, Any]) -> TypeInformation:
    if "$ref" in schema:
        node: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            node = node[part]
        return _schema_type(node, root)
    kinds = schema.get("type")
    kind = next((k for k in kinds if k != "null"), "null") if isinstance(kinds, list) else kinds
    if kind == "object" and schema.get("properties"):
        properties = schema["properties"]
        return Types.ROW_NAMED(list(properties), [_schema_type(part, root) for part in properties.values()])
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return Types.OBJECT_ARRAY(_schema_type(schema["items"], root))
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        formats = {"date-time": Types.SQL_TIMESTAMP, "date": Types.SQL_DATE, "time": Types.SQL_TIME}
        return formats.get(str(schema.get("format")), Types.STRING)()
    simple = {"number": Types.BIG_DEC, "integer": Types.BIG_INT, "boolean": Types.BOOLEAN}
    if kind in simple:
        return simple[kind]()
    raise ValueError(f"this part of a JSON schema has no type here: {json.dumps(schema):.200}")


def _reader(type_info: TypeInformation, strict: bool) -> Reader:
    """Return a function from a JSON value to a value of the type, before coercion."""
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(type_info, strict)
    if isinstance(type_info, MapTypeInfo):
        read_value = _reader(type_info.value_type, strict)
        return lambda value: None if value is None else {key: read_value(item) for key, item in value.items()}
    is_bytes = isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.is_bytes
    if isinstance(type_info, _SequenceTypeInfo) and not is_bytes:
        read_element = _reader(type_info.element_type, strict)
        return lambda value: None if value is None else [read_element(item) for item in value]
    parse = text_reader(type_info)

    def read(value: Any) -> Any:
        if isinstance(value, (dict, list)):
            raise ValueError(f"{value!r:.100} is not a value of {type_info}")
        return None if value is None else parse(text_of(value))

    return read


def _row_reader(type_info: RowTypeInfo, strict: bool) -> Reader:
    names = tuple(type_info.get_field_names())
    readers = [_reader(field_type, strict) for field_type in type_info.get_field_types()]

    def read(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"an object with the fields {list(names)} is needed, not a {type(value).__name__}")
        if strict:
            missing = [name for name in names if name not in value]
            if missing:
                raise ValueError(f"no field {missing[0]!r}")
        return row_of([reader(value.get(name)) for name, reader in zip(names, readers, strict=True)], names)

    return read


def _json_text(value: Any, type_info: TypeInformation) -> str:
    """Return a coerced value as JSON; written here because `json` has no way to write a decimal with all its digits."""
    if value is None:
        return "null"
    if isinstance(type_info, RowTypeInfo):
        pairs = zip(type_info.get_field_names(), value, type_info.get_field_types(), strict=True)
        return _object((name, _json_text(item, field_type)) for name, item, field_type in pairs)
    if isinstance(type_info, MapTypeInfo):
        return _object((str(key), _json_text(item, type_info.value_type)) for key, item in value.items())
    if isinstance(type_info, _SequenceTypeInfo) and not isinstance(value, (bytes, bytearray)):
        return "[" + ",".join([_json_text(item, type_info.element_type) for item in value]) + "]"
    text = text_of(value)
    is_number = isinstance(value, (int, float, Decimal)) and math.isfinite(value)
    return text if is_number else _quoted(text)


def _object(members: Iterable[tuple[str, str]]) -> str:
    return "{" + ",".join([f"{_quoted(name)}:{text}" for name, text in members]) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
