"""Messages that are one line of CSV each. Source: PyFlink, formats/csv.py.

A schema is a plain value: immutable, picklable, used by any number of subtasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.typeinfo import TypeInformation
from runtime.common.types import Row
from runtime.connectors.formats.csv.lines import CsvDialect, CsvLines, one_character
from runtime.connectors.formats.row_types import checked_row_type


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
            return self._write(delimiter=one_character(delimiter, "field delimiter"))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            return self._write(allow_comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(array_delimiter=delimiter)

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(quote=one_character(c, "quote character"))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._write(escape=one_character(c, "escape character"))

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
            return self._write(delimiter=one_character(c, "field delimiter"))

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
            return self._write(quote=one_character(c, "quote character"))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._write(escape=one_character(c, "escape character"))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            return self._write(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            return CsvRowSerializationSchema(CsvLines(self._row_type, self._dialect))

        def _write(self, **changes: Any) -> CsvRowSerializationSchema.Builder:
            self._dialect = replace(self._dialect, **changes)
            return self
