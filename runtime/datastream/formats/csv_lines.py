"""One line of CSV to a row and back: what files and messages share.

Pure; made once per schema. Source: Flink, CsvRowDeserializationSchema and CsvRowSerializationSchema.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, _SequenceTypeInfo
from runtime.common.types import Row, row_of
from runtime.core.shortest_floats import with_shortest_floats
from runtime.datastream.formats.text_values import text_of, text_reader

__all__ = ["CsvDialect", "CsvLines"]


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How a line is written."""

    delimiter: str = ","
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    line_end: str = "\n"
    allow_comments: bool = False


class CsvLines:
    """Fields of one line to a row's values and back."""

    def __init__(
        self, row_type: RowTypeInfo, dialect: CsvDialect, array_delimiters: tuple[str | None, ...] = ()
    ) -> None:
        self._options = (row_type, dialect, array_delimiters)
        self._dialect = dialect
        self.row_type = row_type
        self._names = tuple(row_type.get_field_names())
        types = row_type.get_field_types()
        self._delimiters = array_delimiters or (dialect.array_delimiter,) * len(types)
        self._readers = [
            text_reader(t.element_type if isinstance(t, _SequenceTypeInfo) and not _is_bytes(t) else t) for t in types
        ]
        self._is_array = [isinstance(t, _SequenceTypeInfo) and not _is_bytes(t) for t in types]
        coerce = row_type.coercer()
        assert coerce is not None
        self.coerce = coerce
        self._shorten = with_shortest_floats(row_type)
        quoting = csv.QUOTE_NONE if dialect.quote is None else csv.QUOTE_MINIMAL
        self._format: dict[str, Any] = {
            "delimiter": dialect.delimiter,
            "quotechar": dialect.quote,
            "quoting": quoting,
            "escapechar": dialect.escape,
            # a doubled quote is one quote, unless an escape character says so instead
            "doublequote": dialect.escape is None,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._options

    def split(self, line: str) -> list[str]:
        """The fields of a line."""
        return next(csv.reader([line], strict=True, **self._format), [""])

    def is_comment(self, line: str) -> bool:
        return self._dialect.allow_comments and line.startswith("#")

    def read(self, line: str) -> Row:
        """The row of a line.

        Raises:
            ValueError: it has other fields, or one that does not fit its type.
        """
        try:
            fields = self.split(line)
        except csv.Error as error:
            raise ValueError(f"no line of CSV: {error}") from error
        if len(fields) != len(self._names):
            raise ValueError(f"{len(fields)} fields instead of {len(self._names)}")
        values = [self._value(index, text) for index, text in enumerate(fields)]
        try:
            row: Row = self.coerce(row_of(values, self._names))
        except (TypeError, OverflowError) as error:
            raise ValueError(str(error)) from error
        return row

    def _value(self, index: int, text: str) -> Any:
        if text == self._dialect.null_literal:
            return None
        read = self._readers[index]
        if not self._is_array[index]:
            return read(text)
        delimiter = self._delimiters[index]
        parts = text.split(delimiter) if delimiter and text else [text] if text else []
        return [None if part == self._dialect.null_literal else read(part) for part in parts]

    def write(self, row: Any) -> str:
        """The line of a row, with its end.

        Raises:
            TypeError: the row does not fit the type, or holds something that has no text.
            OverflowError: a number is beyond its type's range.
        """
        row = self.coerce(row)
        if self._shorten is not None:
            row = self._shorten(row)
        return self.line([self._text(index, value) for index, value in enumerate(row)])

    def line(self, fields: list[str]) -> str:
        """The line of texts, with its end."""
        out = io.StringIO()
        try:
            csv.writer(out, lineterminator=self._dialect.line_end, **self._format).writerow(fields)
        except csv.Error as error:
            raise TypeError(f"a field cannot be written without quotes: {error}") from error
        return out.getvalue()

    def _text(self, index: int, value: Any) -> str:
        null = self._dialect.null_literal or ""
        if value is None:
            return null
        if self._is_array[index]:
            return (self._delimiters[index] or "").join(null if item is None else text_of(item) for item in value)
        return text_of(value)


def _is_bytes(type_info: TypeInformation) -> bool:
    return bool(getattr(type_info, "is_bytes", False))
