"""CSV at PyFlink's module path. The code is in `runtime.connectors.formats.csv`."""

from runtime.connectors.formats.csv.files import CsvBulkWriterFactory as CsvBulkWriterFactory
from runtime.connectors.formats.csv.files import CsvBulkWriters as CsvBulkWriters
from runtime.connectors.formats.csv.files import CsvReaderFormat as CsvReaderFormat
from runtime.connectors.formats.csv.messages import CsvRowDeserializationSchema as CsvRowDeserializationSchema
from runtime.connectors.formats.csv.messages import CsvRowSerializationSchema as CsvRowSerializationSchema
from runtime.connectors.formats.csv.schema import CsvSchema as CsvSchema
from runtime.connectors.formats.csv.schema import CsvSchemaBuilder as CsvSchemaBuilder

__all__ = [
    "CsvBulkWriterFactory",
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
