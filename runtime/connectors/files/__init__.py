"""File source and file sink, with their formats.

`FileSource` cuts files into splits and reads them through a `FileFormat`; `FileSink` writes part files through a
`FileWriterFormat` and gives them their final names in a second step. Local file systems only: paths or `file:` URIs.
"""

from runtime.connectors.files.avro import AvroFormat as AvroFormat
from runtime.connectors.files.avro import AvroWriterFormat as AvroWriterFormat
from runtime.connectors.files.csv import CsvFormat as CsvFormat
from runtime.connectors.files.file_sink import FileSink as FileSink
from runtime.connectors.files.file_sink import FileSinkBuilder as FileSinkBuilder
from runtime.connectors.files.file_source import FileSource as FileSource
from runtime.connectors.files.file_source import FileSourceBuilder as FileSourceBuilder
from runtime.connectors.files.file_source import StreamFormat as StreamFormat
from runtime.connectors.files.ndjson import NdjsonFormat as NdjsonFormat
from runtime.connectors.files.parquet import ParquetFormat as ParquetFormat
from runtime.connectors.files.raw import RawLineFormat as RawLineFormat
from runtime.connectors.files.raw import RawWriterFormat as RawWriterFormat
from runtime.connectors.files.sink_config import BucketAssigner as BucketAssigner
from runtime.connectors.files.sink_config import OutputFileConfig as OutputFileConfig
from runtime.connectors.files.sink_config import RollingPolicy as RollingPolicy
from runtime.connectors.files.text import TextLineFormat as TextLineFormat
from runtime.connectors.files.writer_formats import CsvWriterFormat as CsvWriterFormat
from runtime.connectors.files.writer_formats import FileWriterFormat as FileWriterFormat
from runtime.connectors.files.writer_formats import NdjsonWriterFormat as NdjsonWriterFormat
from runtime.connectors.files.writer_formats import ParquetWriterFormat as ParquetWriterFormat
from runtime.connectors.files.writer_formats import RowWriterFormat as RowWriterFormat
from runtime.connectors.files.writer_formats import TextWriterFormat as TextWriterFormat
