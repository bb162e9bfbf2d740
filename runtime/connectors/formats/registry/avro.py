"""Avro messages with their schema's id: Flink's format `avro-confluent`.

A message is read by the schema with which it was written, which the registry has, and resolved to the reader's by the
rules of Avro. It is written with one schema, which belongs to a subject. A plain value; fastavro encodes and decodes.
Source: Flink, ConfluentSchemaRegistryCoder and RegistryAvroDeserializationSchema.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.formats.avro.types import AvroTypes, avro_schema
from runtime.connectors.formats.registry.client import AVRO, SchemaRegistry
from runtime.connectors.formats.registry.wire import HEADER_BYTES, header, schema_id_of


class AvroConfluentSchema(SerializationSchema, DeserializationSchema):
    """Rows from and to Avro messages in Confluent's wire format.

    Args:
        registry: that has the schemas.
        schema: of the rows, as JSON text; or a row type, from which one is made. Writers' schemas may have other
            fields, and with a row type other names of records.
        subject: to which the schema belongs; needed for writing. By the strategy of topic names, `<topic>-value`.
        auto_register: whether the schema is added to the subject if it is not there.

    Raises:
        TypeError: a part of the schema has no type here, or one of the type no Avro form.
        ValueError: it is no schema.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: str | RowTypeInfo,
        subject: str | None = None,
        auto_register: bool = True,
    ) -> None:
        self._registry = registry
        self._given = schema
        self._subject = subject
        self._auto_register = auto_register
        self._json = json.loads(schema) if isinstance(schema, str) else avro_schema(schema)
        self._types = AvroTypes(self._json)
        if not isinstance(self._types.type_info, RowTypeInfo):
            raise TypeError(f"a schema of Avro messages must be a record, not {self._types.type_info!r}")
        #: by id: the writer's schema and the reader's, as fastavro takes them
        self._pairs: dict[int, tuple[Any, Any]] = {}
        self._header: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # readers and writers are closures
        return AvroConfluentSchema, (self._registry, self._given, self._subject, self._auto_register)

    def get_produced_type(self) -> TypeInformation:
        return self._types.type_info

    def deserialize(self, message: bytes) -> Any:
        schema_id = schema_id_of(message)
        pair = self._pairs.get(schema_id)
        if pair is None:
            pair = self._pairs[schema_id] = self._pair(schema_id)
        buffer = io.BytesIO(message)
        buffer.seek(HEADER_BYTES)
        try:
            value = self._types.read(fastavro.schemaless_reader(buffer, *pair, return_record_name=True))
        except fastavro.read.SchemaResolutionError:
            # whose message is both schemas
            raise ValueError(f"records of schema {schema_id} cannot be read by the format's schema") from None
        # fastavro raises whatever the bytes lead it to: EOFError, IndexError, OverflowError, …
        except Exception as error:
            raise ValueError(f"not an Avro datum of schema {schema_id}: {type(error).__name__}: {error}") from error
        if buffer.tell() != len(message):
            raise ValueError(f"not an Avro datum of schema {schema_id}: {len(message) - buffer.tell()} bytes are left")
        return value

    def serialize(self, value: Any) -> bytes:
        if self._header is None:
            if self._subject is None:
                raise TypeError("a subject is needed to write: of a topic's values, '<topic>-value'")
            text = self._given if isinstance(self._given, str) else json.dumps(self._json)
            found = self._registry.id_of(self._subject, text, AVRO, auto_register=self._auto_register)
            self._header = header(found)
        buffer = io.BytesIO(self._header)
        buffer.seek(HEADER_BYTES)
        try:
            fastavro.schemaless_writer(buffer, self._types.parsed, self._types.write(value))
        except Exception as error:
            raise TypeError(f"{value!r:.100} does not fit the Avro schema: {error}") from error
        return buffer.getvalue()

    def _pair(self, schema_id: int) -> tuple[Any, Any]:
        found = self._registry.schema(schema_id)
        if found.kind != AVRO:
            raise ValueError(f"schema {schema_id} is of type {found.kind}, not {AVRO}")
        if found.has_references:
            raise ValueError(f"schema {schema_id} has references to other subjects, which are not followed")
        try:
            written = json.loads(found.text)
            reader = self._json if isinstance(self._given, str) else _named_after(self._json, written)
            return fastavro.parse_schema(written), fastavro.parse_schema(reader)
        except Exception as error:
            raise ValueError(f"schema {schema_id} cannot be used: {type(error).__name__}: {error}") from error


def _named_after(reader: Any, writer: Any, space: str = "", known: dict[str, Any] | None = None) -> Any:
    """Return a schema that was made of a row type, whose records have the names of those that they are read from.

    Args:
        reader: the schema.
        writer: that of the records.
        space: the namespace of names without one.
        known: records so far, by the full name that they were given.
    """
    known = {} if known is None else known
    writer = _only_branch(writer)
    if isinstance(reader, list):
        return [_named_after(branch, writer, space, known) for branch in reader]
    if isinstance(writer, str) and (full := _full_name(writer, space)) in known:
        # Avro describes each record once
        return full if _shape(known[full]) == _shape(reader) else reader
    if not isinstance(reader, dict) or not isinstance(writer, dict):
        return reader
    if isinstance(writer["type"], dict | list):
        return _named_after(reader, writer["type"], space, known)
    if writer["type"] != reader["type"]:
        return reader
    if reader["type"] == "array":
        return {**reader, "items": _named_after(reader["items"], writer["items"], space, known)}
    if reader["type"] == "map":
        return {**reader, "values": _named_after(reader["values"], writer["values"], space, known)}
    if reader["type"] != "record":
        return reader
    name = str(writer["name"])
    space = name.rpartition(".")[0] if "." in name else str(writer.get("namespace", space))
    full = _full_name(name, space)
    known[full] = reader
    fields = {field["name"]: field["type"] for field in writer["fields"]}
    named = [
        {**field, "type": _named_after(field["type"], fields.get(field["name"], "null"), space, known)}
        for field in reader["fields"]
    ]
    return {**reader, "name": full, "fields": named}


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _shape(schema: Any) -> Any:
    """Return a schema without the names of its records."""
    if isinstance(schema, list):
        return [_shape(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "record":
        return [(field["name"], _shape(field["type"])) for field in schema["fields"]]
    return {name: _shape(part) for name, part in schema.items()}


def _only_branch(schema: Any) -> Any:
    """Return the branch of a union with null; any other schema as it is."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return branches[0] if len(branches) == 1 else schema
    return schema
