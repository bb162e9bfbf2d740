"""Avro messages: one binary datum each, without a container, all of one schema.

A plain value: immutable, picklable, used by any number of subtasks. Encoding and decoding are fastavro's.
Source: Flink, AvroRowSerializationSchema.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.connectors.formats.avro.types import AvroTypes, avro_schema


class AvroMessageSchema(SerializationSchema, DeserializationSchema):
    """Rows from and to Avro messages.

    Args:
        schema: a record's schema as JSON text or as `json.loads` gives it; or a row type, from which one is made.
        legacy_timestamps: as in `AvroTypes`.

    Raises:
        TypeError: a part of the schema has no type here, or one of the type no Avro form.
        ValueError: it is no schema.
    """

    def __init__(self, schema: str | dict[str, Any] | RowTypeInfo, *, legacy_timestamps: bool = False) -> None:
        if isinstance(schema, RowTypeInfo):
            schema = avro_schema(schema)
        self._json = schema if isinstance(schema, str) else json.dumps(schema)
        self._legacy_timestamps = legacy_timestamps
        self._types = AvroTypes(json.loads(self._json), legacy_timestamps=legacy_timestamps)
        if not isinstance(self._types.type_info, RowTypeInfo):
            raise TypeError(f"a schema of Avro messages must be a record, not {self._types.type_info!r}")

    def get_produced_type(self) -> TypeInformation:
        return self._types.type_info

    def get_schema(self) -> str:
        """Return the schema as JSON."""
        return self._json

    def deserialize(self, message: bytes) -> Any:
        buffer = io.BytesIO(message)
        try:
            datum = fastavro.schemaless_reader(buffer, self._types.parsed, None, return_record_name=True)
            value = self._types.read(datum)
        # fastavro raises whatever the bytes lead it to: EOFError, IndexError, OverflowError, …
        except Exception as error:
            raise ValueError(f"not an Avro datum: {type(error).__name__}: {error}") from error
        if buffer.tell() != len(message):
            raise ValueError(f"not an Avro datum: {len(message) - buffer.tell()} bytes are left over")
        return value

    def serialize(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._types.parsed, self._types.write(value))
        except Exception as error:
            raise TypeError(f"{value!r:.100} does not fit the Avro schema: {error}") from error
        return buffer.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        # readers and writers are closures
        return _restored, (self._json, self._legacy_timestamps)


def _restored(schema: str, legacy_timestamps: bool) -> AvroMessageSchema:
    return AvroMessageSchema(schema, legacy_timestamps=legacy_timestamps)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from Avro messages. As in Flink, timestamps are SQL_TIMESTAMP, local ones LONG.

    Args:
        record_class: refused: it names a Java class.
        avro_schema_string: the schema as JSON.

    Raises:
        TypeError: there is no schema, or it describes no record.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._messages = _messages(record_class, avro_schema_string)

    def deserialize(self, message: bytes) -> Row:
        row: Row = self._messages.deserialize(message)
        return row

    def get_produced_type(self) -> TypeInformation:
        return self._messages.get_produced_type()


class AvroRowSerializationSchema(SerializationSchema):
    """Serializes rows to Avro messages. Arguments and errors as of `AvroRowDeserializationSchema`."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._messages = _messages(record_class, avro_schema_string)

    def serialize(self, value: Any) -> bytes:
        return self._messages.serialize(value)


def _messages(record_class: str | None, avro_schema_string: str | None) -> AvroMessageSchema:
    if record_class is not None:
        raise TypeError(f"record_class names a Java class ({record_class!r}); give an avro_schema_string")
    if avro_schema_string is None:
        raise TypeError("an Avro schema is needed: avro_schema_string")
    return AvroMessageSchema(avro_schema_string, legacy_timestamps=True)
