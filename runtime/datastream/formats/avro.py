"""Avro as PyFlink names it, over `runtime.connectors`. Source: PyFlink, formats/avro.py.

PyFlink's generic records are dicts; here they are rows of named fields, which are read by name as dicts are, and which
take dicts where an output type is `GenericRecordAvroTypeInfo`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from runtime.common.exclusions import refusing_module
from runtime.common.serialization import (
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.connectors.files.avro import AvroWriterFormat
from runtime.connectors.files.writer_formats import FormatWriter
from runtime.connectors.formats.avro_messages import AvroMessageSchema
from runtime.connectors.formats.avro_types import AvroTypes
from runtime.datastream.formats.parquet import check_fits

__all__ = [
    "AvroBulkWriterFactory",
    "AvroBulkWriters",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


class AvroSchema:
    """The schema of records. Made by `parse_string` or `parse_file`."""

    def __init__(self, json_schema: str) -> None:
        self._json = json_schema
        row_type = AvroTypes(json.loads(json_schema)).type_info
        if not isinstance(row_type, RowTypeInfo):
            raise TypeError(f"an Avro schema of records is needed, not one of {row_type}")
        self.row_type = row_type

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse a schema from JSON.

        Raises:
            ValueError: it is no JSON.
            TypeError: it describes no record, or something that has no type here.
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a schema from a file with JSON. Raises as `parse_string`, and OSError."""
        return AvroSchema(Path(file_path).read_text(encoding="utf-8"))

    def __str__(self) -> str:
        return self._json


class GenericRecordAvroTypeInfo(RowTypeInfo):
    """The type of an Avro schema's records.

    Args:
        schema: the schema.
    """

    __slots__ = ()

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(schema.row_type.get_field_types(), schema.row_type.get_field_names())

    def __reduce__(self) -> tuple[Any, ...]:
        # a row type like any other once it travels
        return RowTypeInfo, (self.get_field_types(), self.get_field_names())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowTypeInfo) and self._identity() == other._identity()

    __hash__ = RowTypeInfo.__hash__


class AvroBulkWriters:
    """Makes writers of Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroBulkWriterFactory:
        """Return a writer for `FileSink.for_bulk_format`."""
        return AvroBulkWriterFactory(schema)


class AvroBulkWriterFactory(RowDataBulkWriterFactory, AvroWriterFormat):
    """Writes records of one schema; made by `AvroBulkWriters`."""

    def __init__(self, schema: AvroSchema) -> None:
        RowDataBulkWriterFactory.__init__(self, schema.row_type)
        AvroWriterFormat.__init__(self, str(schema))

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return super().open(file, self._row_type, is_new)


class AvroRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from Avro messages.

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
    return AvroMessageSchema(avro_schema_string)


if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
