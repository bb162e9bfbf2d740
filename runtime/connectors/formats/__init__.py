"""The formats of files and of messages, one package or module each, and what they share.

- `csv`, `avro`, `json`, `parquet`, `text`, `raw`: a format's files, its messages, and PyFlink's names for both.
- `registry`: messages whose schema is in a registry, Avro and JSON.
- `file_format` and `line_blocks` read a file's records, `writer_format` writes them, `messages` are entries of a log.
- `bad_records` decides about records that cannot be read; `text_values` are the texts of values, `row_types` checks.

Formats know nothing of the sources and sinks that use them.
"""

from runtime.connectors.formats.avro.files import AvroFormat as AvroFormat
from runtime.connectors.formats.avro.files import AvroWriterFormat as AvroWriterFormat
from runtime.connectors.formats.avro.messages import AvroMessageSchema as AvroMessageSchema
from runtime.connectors.formats.bad_records import DEAD_LETTER_TYPE as DEAD_LETTER_TYPE
from runtime.connectors.formats.bad_records import DEAD_LETTERS as DEAD_LETTERS
from runtime.connectors.formats.bad_records import BadRecords as BadRecords
from runtime.connectors.formats.csv.columns import CsvFormat as CsvFormat
from runtime.connectors.formats.csv.columns import CsvWriterFormat as CsvWriterFormat
from runtime.connectors.formats.json.ndjson import NdjsonFormat as NdjsonFormat
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat as NdjsonWriterFormat
from runtime.connectors.formats.parquet.files import ParquetFormat as ParquetFormat
from runtime.connectors.formats.parquet.files import ParquetWriterFormat as ParquetWriterFormat
from runtime.connectors.formats.raw import RawLineFormat as RawLineFormat
from runtime.connectors.formats.raw import RawMessageSchema as RawMessageSchema
from runtime.connectors.formats.raw import RawWriterFormat as RawWriterFormat
from runtime.connectors.formats.registry.avro import AvroConfluentSchema as AvroConfluentSchema
from runtime.connectors.formats.registry.client import SchemaRegistry as SchemaRegistry
from runtime.connectors.formats.registry.json import JsonConfluentFormat as JsonConfluentFormat
from runtime.connectors.formats.registry.json import JsonConfluentWriterFormat as JsonConfluentWriterFormat
from runtime.connectors.formats.text import TextLineFormat as TextLineFormat
from runtime.connectors.formats.text import TextWriterFormat as TextWriterFormat
from runtime.connectors.formats.writer_format import FileWriterFormat as FileWriterFormat
from runtime.connectors.formats.writer_format import RowWriterFormat as RowWriterFormat
