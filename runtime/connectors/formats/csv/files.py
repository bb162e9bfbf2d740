"""CSV files in every way that a CsvSchema can say, line by line. Source: PyFlink, formats/csv.py.

Line ends inside quotes are not supported: files are cut at line ends without being read from the start.
"""

from __future__ import annotations

from runtime.common.serialization import RowDataBulkWriterFactory
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.csv.schema import CsvSchema
from runtime.connectors.formats.file_format import UTF8_BOM, FileFormat, LineFormat, to_lines
from runtime.connectors.formats.line_blocks import BLOCK_BYTES, open_unpacked
from runtime.connectors.formats.row_types import check_fits
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError


class CsvReaderFormat:
    """Makes formats for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> FileFormat:
        """Read the rows of CSV files. With a header, columns are found by position unless headers are strict."""
        return _CsvSchemaFormat(schema)


class _CsvSchemaFormat(LineFormat):
    """Reads line by line, for all that a CsvSchema can say; `CsvFormat` reads plain files many times as fast."""

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema
        self._codec = schema.codec()

    def produced_type(self) -> TypeInformation | None:
        return self._schema.row_type

    def skips(self, line: bytes) -> bool:
        return line in (b"", b"\r") or self._codec.is_comment(line.decode())

    def first_record_offset(self, path: str) -> int:
        skipped = self._schema.use_header + self._schema.skip_first_data_row
        if not skipped:
            return 0
        try:
            with open_unpacked(path) as file:
                head = file.read(BLOCK_BYTES)
        except (OSError, EOFError) as error:
            raise SourceError(f"{path} cannot be read: {error}") from error
        offset = 0
        for number in range(skipped):
            end = head.find(b"\n", offset) + 1 or len(head)
            if number == 0 and self._schema.use_header and self._schema.strict_headers:
                columns = self._codec.split(head[:end].removeprefix(UTF8_BOM).decode().rstrip("\r\n"))
                expected = self._schema.row_type.get_field_names()
                if columns != expected:
                    raise SourceError(f"{path}, line 1: the header is {columns}, the schema has {expected}")
            offset = end
        return offset

    def decode(self, data: bytes) -> RecordBatch:
        rows = []
        for raw in to_lines(data):
            if not self.skips(raw):
                rows.append(self._codec.read(raw.decode()))
        return RecordBatch.of_values(rows, type_info=self._schema.row_type)


class CsvBulkWriters:
    """Makes writers for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvBulkWriterFactory:
        """Return a writer of CSV files of that schema."""
        return CsvBulkWriterFactory(schema)


class CsvBulkWriterFactory(RowDataBulkWriterFactory, RowWriterFormat):
    """Writes rows of one schema; made by `CsvBulkWriters`."""

    suffix = ".csv"

    def __init__(self, schema: CsvSchema) -> None:
        RowDataBulkWriterFactory.__init__(self, schema.row_type)
        self._schema = schema
        self._codec = schema.codec()

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def header(self, input_type: TypeInformation | None) -> bytes:
        return self._codec.header().encode() if self._schema.use_header else b""

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        try:
            return "".join(map(self._codec.write, batch.values())).encode()
        except (TypeError, OverflowError) as error:
            raise SinkError(f"a record cannot be written as CSV: {error}") from error
