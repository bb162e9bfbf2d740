"""Avro at PyFlink's module path. The code is in `runtime.connectors.formats.avro`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.common.exclusions import refusing_module
from runtime.connectors.formats.avro.files import AvroBulkWriterFactory as AvroBulkWriterFactory
from runtime.connectors.formats.avro.files import AvroBulkWriters as AvroBulkWriters
from runtime.connectors.formats.avro.messages import AvroRowDeserializationSchema as AvroRowDeserializationSchema
from runtime.connectors.formats.avro.messages import AvroRowSerializationSchema as AvroRowSerializationSchema
from runtime.connectors.formats.avro.schema import AvroSchema as AvroSchema
from runtime.connectors.formats.avro.schema import GenericRecordAvroTypeInfo as GenericRecordAvroTypeInfo

__all__ = [
    "AvroBulkWriterFactory",
    "AvroBulkWriters",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]

if not TYPE_CHECKING:
    __getattr__ = refusing_module(__name__)
