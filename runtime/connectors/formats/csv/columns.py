"""Plain CSV files with or without a header line, read and written by Arrow as columns.

UTF-8. An empty field without quotes is null, an empty one in quotes is the empty text. A line end inside quotes is not
supported: files are cut at line ends without being read from the start.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.file_format import UTF8_BOM, FileSplit, LineFormat, LineReader
from runtime.connectors.formats.line_blocks import BLOCK_BYTES, open_unpacked
from runtime.connectors.formats.unread_columns import texts_left_out, with_nulls
from runtime.connectors.formats.writer_format import ColumnWriterFormat, RowWriterFormat, columns_of
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.arrow import arrow_schema
from runtime.core.arrow_views import without_views
from runtime.core.batch import RecordBatch
from runtime.core.column_condition import ColumnCondition
from runtime.core.shortest_floats import shortest_doubles
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError, SplitReader


class CsvFormat(LineFormat):
    """Records from lines of comma-separated values.

    Args:
        row_type: names and types of the columns to read. With a header they are found by name, in each file by its
            own, and no file is opened before the job runs; without one they are all columns of the file in order.
            None: all columns that the first file's header names, as STRING; the other files must have the same header.
        has_header: whether the first line of every file names the columns.
        delimiter: one ASCII character between fields.
        quote_char: the character around fields, doubled inside one.

    Raises:
        ValueError: neither a row type nor a header.
        TypeError: a column has a type that text cannot be read as (arrays, maps, rows, pickled objects).
    """

    def __init__(
        self,
        row_type: RowTypeInfo | None = None,
        has_header: bool = True,
        delimiter: str = ",",
        quote_char: str = '"',
    ) -> None:
        if row_type is None and not has_header:
            raise ValueError("a CSV format needs a row type or a header")
        self._row_type = row_type
        self._has_header = has_header
        self._delimiter = delimiter
        self._quote_char = quote_char
        self._file_columns = None if row_type is None else row_type.get_field_names()
        #: of the first file, if the row type was taken from it
        self._first_header: list[str] | None = None
        self._schema = None if row_type is None else arrow_schema(row_type)
        #: columns that nobody reads and that no line is judged by
        self._unread: frozenset[str] = frozenset()
        for field in self._schema or ():
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise TypeError(f"CSV column {field.name!r} cannot be read as {field.type}")

    @property
    def takes_from_file(self) -> bool:
        return self._row_type is None

    def resolve(self, path: str) -> CsvFormat:
        if self._row_type is not None:
            return self
        columns, _ = self._read_header(path)
        if not columns:
            raise SourceError(f"{path} has no CSV header")
        row_type = RowTypeInfo([Types.STRING()] * len(columns), columns)
        resolved = CsvFormat(row_type, True, self._delimiter, self._quote_char)
        resolved._first_header = columns
        return resolved

    def open(
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        return LineReader(self._with_header_of(split.path), split, position, limiter, bad_records, max_record_bytes)

    def produced_type(self) -> TypeInformation | None:
        return self._row_type

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> CsvFormat:
        """Return a format that leaves out texts which nobody reads."""
        left_out = frozenset[str]() if self._schema is None else texts_left_out(self._schema, columns)
        if not left_out:
            return self
        reading = copy.copy(self)
        reading._unread = left_out
        return reading

    def skips(self, line: bytes) -> bool:
        # with one column, an empty line is a null
        return self._file_columns is not None and len(self._file_columns) > 1 and line in (b"", b"\r")

    def first_record_offset(self, path: str) -> int:
        if not self._has_header:
            return 0
        return self._read_header(path)[1]

    def decode(self, data: bytes) -> RecordBatch:
        assert self._schema is not None and self._row_type is not None and self._file_columns is not None
        if not data.strip(b"\r\n") and len(self._file_columns) > 1:
            return RecordBatch.of_arrow(pa.RecordBatch.from_pylist([], schema=self._schema), self._row_type)
        names = self._schema.names
        # a text that is not UTF-8 makes a bad line, even if nobody reads it
        if self._unread and (data.isascii() or _is_utf8(data)):
            names = [name for name in names if name not in self._unread]
        table = pa_csv.read_csv(
            io.BytesIO(data),
            pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self._file_columns),
            pa_csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=self._quote_char,
                ignore_empty_lines=len(self._file_columns) > 1,
            ),
            pa_csv.ConvertOptions(
                column_types=self._schema,
                include_columns=names,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        found = table.combine_chunks().to_batches()[0]
        return RecordBatch.of_arrow(with_nulls(found, self._schema), self._row_type)

    def _read_header(self, path: str) -> tuple[list[str], int]:
        """Return the column names of a file and the length of its header line in bytes; ([], 0) if it is empty."""
        try:
            with open_unpacked(path) as file:
                line = file.read(BLOCK_BYTES)
        except (OSError, EOFError) as error:
            raise SourceError(f"{path} cannot be read: {error}") from error
        length = line.find(b"\n") + 1 or len(line)
        try:
            text = line[:length].removeprefix(UTF8_BOM).decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise SourceError(f"{path}, line 1: the header is not UTF-8") from error
        rows = list(csv.reader([text], delimiter=self._delimiter, quotechar=self._quote_char)) if text else []
        return (rows[0] if rows else []), length

    def _with_header_of(self, path: str) -> CsvFormat:
        """Return the format with the columns of a file in the file's order."""
        if not self._has_header or self._row_type is None:
            return self
        columns, length = self._read_header(path)
        if not length:
            # an empty file has no records either
            return self
        if self._first_header is not None and columns != self._first_header:
            raise SourceError(
                f"{path}, line 1: the header is {columns}, that of the first file was {self._first_header}"
            )
        missing = [name for name in self._row_type.get_field_names() if name not in columns]
        if missing:
            raise SourceError(f"{path}, line 1: no column {missing[0]!r}; the header has {columns}")
        of_file = copy.copy(self)
        of_file._file_columns = columns
        return of_file


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class CsvWriterFormat(ColumnWriterFormat, RowWriterFormat):
    """Comma-separated values with a header. Texts are quoted; null is an empty field without quotes.

    Args:
        has_header: whether a file begins with the names of the columns.
        delimiter: one ASCII character.
    """

    suffix = ".csv"
    kind = "CSV"

    def __init__(self, has_header: bool = True, delimiter: str = ",") -> None:
        self._has_header = has_header
        self._options = {"include_header": False, "delimiter": delimiter, "quoting_style": "needed"}

    def check(self, input_type: TypeInformation | None) -> None:
        super().check(input_type)
        assert input_type is not None
        for field in arrow_schema(input_type):
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise SinkError(f"column {field.name!r} of type {field.type} cannot be written as CSV")

    def header(self, input_type: TypeInformation | None) -> bytes:
        if not self._has_header or input_type is None:
            return b""
        names = ['"' + name.replace('"', '""') + '"' for name in arrow_schema(input_type).names]
        return (str(self._options["delimiter"]).join(names) + "\n").encode()

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        buffer = io.BytesIO()
        # Arrow cannot write the texts that Polars gives
        columns = _with_shortest_floats(without_views(columns_of(batch, input_type)))
        pa_csv.write_csv(columns, buffer, pa_csv.WriteOptions(**self._options))
        return buffer.getvalue()


def _with_shortest_floats(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns with FLOAT ones as DOUBLE of the same text: Arrow would write the digits of the float32."""
    for index, field in enumerate(columns.schema):
        if pa.types.is_float32(field.type):
            column = columns.column(index)
            doubles = shortest_doubles(column.fill_null(0).to_numpy(zero_copy_only=False))
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            columns = columns.set_column(index, field.name, pa.array(doubles, mask=nulls))
    return columns
