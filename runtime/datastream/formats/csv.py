"""Rows as lines of CSV: schemas of files and of messages. Source: PyFlink, formats/csv.py.

A CsvSchema says how lines look and what their columns are; `CsvReaderFormat` and `CsvBulkWriters` take one. Where
PyFlink takes data types of the Table API, these take `Types`. Line ends inside quotes are not supported in files,
which are cut at line ends without being read from the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from runtime.common.serialization import (
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row
from runtime.connectors.files.file_format import UTF8_BOM, FileFormat, LineFormat, to_lines
from runtime.connectors.files.line_blocks import BLOCK_BYTES, open_unpacked
from runtime.connectors.files.writer_formats import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.datastream.formats.csv_lines import CsvDialect, CsvLines
from runtime.datastream.formats.parquet import check_fits, checked_row_type
from runtime.operators.sink import SinkError
from runtime.operators.source import SourceError

__all__ = [
    "CsvBulkWriterFactory",
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


@dataclass(frozen=True, slots=True)
class CsvSchema:
    """Columns and writing of CSV lines. Made by `builder()`."""

    row_type: RowTypeInfo
    dialect: CsvDialect
    array_delimiters: tuple[str | None, ...]
    use_header: bool
    strict_headers: bool
    skip_first_data_row: bool

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.row_type.get_field_types())

    def __len__(self) -> int:
        return self.size()

    def codec(self) -> CsvLines:
        return CsvLines(self.row_type, self.dialect, self.array_delimiters)


@dataclass(slots=True)
class _Column:
    name: str
    type_info: TypeInformation
    array_delimiter: str | None = None


@dataclass(slots=True)
class CsvSchemaBuilder:
    """Makes a CsvSchema: columns in the order in which they are added, then how lines are written."""

    _columns: list[_Column] = field(default_factory=list)
    _dialect: CsvDialect = field(default_factory=lambda: CsvDialect(strips_decimals=True))
    _use_header: bool = False
    _strict_headers: bool = False
    _skip_first_data_row: bool = False

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            ValueError: it has no columns, or two of one name.
        """
        names = [column.name for column in self._columns]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a CSV schema needs columns of different names, it has {names}")
        return CsvSchema(
            Types.ROW_NAMED(names, [column.type_info for column in self._columns]),
            self._dialect,
            tuple(column.array_delimiter or self._dialect.array_delimiter for column in self._columns),
            self._use_header,
            self._strict_headers,
            self._skip_first_data_row,
        )

    def add_array_column(
        self, name: str, separator: str | None = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists; elements are STRING unless said otherwise."""
        return self._add(name, Types.OBJECT_ARRAY(element_type or Types.STRING()), separator)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers: LONG unless said otherwise."""
        return self._add(name, number_type or Types.LONG())

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        return self._add(name, Types.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        types = zip(
            schema.row_type.get_field_names(), schema.row_type.get_field_types(), schema.array_delimiters, strict=True
        )
        for name, type_info, delimiter in types:
            self._add(name, type_info, delimiter)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that begin with `#`."""
        return self._write(allow_comments=allow)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Refuse, since lines have no fields without a column.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("a line with more fields than columns is refused; there is no name for the rest")

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read every array as one element."""
        return self._write(array_delimiter="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Let the column use the separator that holds for all."""
        self._columns[index].array_delimiter = None
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        return self._write(array_delimiter=separator)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the character between fields.

        Raises:
            ValueError: it is none, or several.
        """
        return self._write(delimiter=_one_character(char, "column separator"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._write(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._write(escape=_one_character(char, "escape character"))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the end of written lines; both LF and CR LF are read."""
        if separator not in ("\n", "\r\n"):
            raise ValueError(f"the line separator must be LF or CR LF, not {separator!r}")
        return self._write(line_end=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for null."""
        return self._write(null_literal=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._write(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._write(quote=_one_character(char, "quote character"))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Leave out each file's first line, or the one behind the header."""
        self._skip_first_data_row = skip
        return self

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Refuse a file whose header is not the list of the columns, in order."""
        self._strict_headers = strict
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Begin files with a line that names the columns."""
        self._use_header = use
        return self

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, type_info: TypeInformation, delimiter: str | None = None) -> CsvSchemaBuilder:
        self._columns.append(_Column(name, type_info, delimiter))
        return self

    def _write(self, **changes: Any) -> CsvSchemaBuilder:
        self._dialect = replace(self._dialect, **changes)
        return self


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


class CsvRowDeserializationSchema(DeserializationSchema):
    """Deserializes rows from messages that are one line of CSV. Made by
    `CsvRowDeserializationSchema.Builder(type_info)`.
    """

    def __init__(self, codec: CsvLines, ignore_parse_errors: bool) -> None:
        self._codec = codec
        self._ignore_parse_errors = ignore_parse_errors

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of one message; None for a comment, and for what cannot be read if parse errors are ignored.

        Raises:
            ValueError: it is no such line.
        """
        try:
            line = message.decode("utf-8-sig").rstrip("\r\n")
            return None if self._codec.is_comment(line) else self._codec.read(line)
        except ValueError as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"CSV message cannot be read: {error}: {message!r:.200}") from error

    def get_produced_type(self) -> TypeInformation:
        return self._codec.row_type

    class Builder:
        """Makes a CsvRowDeserializationSchema.

        Args:
            type_info: names and types of the fields, from `Types.ROW_NAMED`.

        Raises:
            TypeError: it is no row type.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._row_type = checked_row_type(type_info)
            self._dialect = CsvDialect()
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(delimiter=_one_character(delimiter, "field delimiter"))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            return self._write(allow_comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(array_delimiter=delimiter)

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(quote=_one_character(c, "quote character"))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(escape=_one_character(c, "escape character"))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            self._ignore_parse_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema:
            return CsvRowDeserializationSchema(CsvLines(self._row_type, self._dialect), self._ignore_parse_errors)

        def _write(self, **changes: Any) -> CsvRowDeserializationSchema.Builder:
            self._dialect = replace(self._dialect, **changes)
            return self


class CsvRowSerializationSchema(SerializationSchema):
    """Serializes rows to messages that are one line of CSV. Made by `CsvRowSerializationSchema.Builder(type_info)`."""

    def __init__(self, codec: CsvLines) -> None:
        self._codec = codec

    def serialize(self, value: Any) -> bytes:
        """Return the line of a row, with its end, UTF-8.

        Raises:
            TypeError: it does not fit the type.
        """
        return self._codec.write(value).encode()

    class Builder:
        """Makes a CsvRowSerializationSchema.

        Args:
            type_info: names and types of the fields, from `Types.ROW_NAMED`.

        Raises:
            TypeError: it is no row type.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._row_type = checked_row_type(type_info)
            self._dialect = CsvDialect()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._write(delimiter=_one_character(c, "field delimiter"))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the line end: LF, CR LF, CR or nothing.

            Raises:
                ValueError: it is something else.
            """
            if delimiter not in ("\n", "\r\n", "\r", ""):
                raise ValueError(f"the line delimiter must be LF, CR LF, CR or nothing, not {delimiter!r}")
            return self._write(line_end=delimiter)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            return self._write(array_delimiter=delimiter)

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            return self._write(quote=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._write(quote=_one_character(c, "quote character"))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._write(escape=_one_character(c, "escape character"))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            return self._write(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(CsvLines(self._row_type, self._dialect))

        def _write(self, **changes: Any) -> CsvRowSerializationSchema.Builder:
            self._dialect = replace(self._dialect, **changes)
            return self


def _one_character(text: str, what: str) -> str:
    if len(text) != 1:
        raise ValueError(f"the {what} must be one character, not {text!r}")
    return text
