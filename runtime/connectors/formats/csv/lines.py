"""Lines of CSV to rows and back, as CSV files and messages share them.

Texts are quoted by the rule of Jackson, which Flink writes with: it asks only whether a text might need quotes. Pure;
made once per schema. Source: Flink, CsvRowDeserializationSchema and CsvRowSerializationSchema; Jackson, CsvEncoder.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, _SequenceTypeInfo
from runtime.common.types import Row, row_of
from runtime.connectors.formats.text_values import text_of, text_reader
from runtime.core.shortest_floats import with_shortest_floats

#: Jackson looks into texts of up to so many UTF-16 units; longer ones it quotes unseen.
_LOOKED_INTO = 24
_TEXTS = (BasicType.STRING, BasicType.CHAR, BasicType.INSTANT)
#: what a letter behind the escape character stands for; every other character stands for itself
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """Says how a line is written."""

    delimiter: str = ","
    array_delimiter: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    line_end: str = "\n"
    allow_comments: bool = False
    strips_decimals: bool = False
    """Whether decimals go without trailing zeros (10.0 as 1E+1): in files, not in messages."""


def one_character(text: str, what: str) -> str:
    """Return the text itself.

    Raises:
        ValueError: it is not one character.
    """
    if len(text) != 1:
        raise ValueError(f"the {what} must be one character, not {text!r}")
    return text


class CsvLines:
    """Converts the fields of one line to a row's values and back."""

    def __init__(
        self, row_type: RowTypeInfo, dialect: CsvDialect, array_delimiters: tuple[str | None, ...] = ()
    ) -> None:
        self._options = (row_type, dialect, array_delimiters)
        self._dialect = dialect
        self.row_type = row_type
        self._names = tuple(row_type.get_field_names())
        types = row_type.get_field_types()
        self._delimiters = array_delimiters or (dialect.array_delimiter,) * len(types)
        self._is_array = [isinstance(t, _SequenceTypeInfo) and not _is_bytes(t) for t in types]
        self._readers = [
            text_reader(t.element_type if isinstance(t, _SequenceTypeInfo) and not _is_bytes(t) else t) for t in types
        ]
        self._is_text = [not isinstance(t, BasicTypeInfo) or t.basic_type in _TEXTS for t in types]
        coerce = row_type.coercer()
        assert coerce is not None
        self.coerce = coerce
        self._shorten = with_shortest_floats(row_type)
        self._quoted = _quoting(dialect)
        self._split = _splitter(dialect)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._options

    def split(self, line: str) -> list[str]:
        """The fields of a line without its end.

        Raises:
            ValueError: it is no such line, or more than one.
        """
        return self._split(line)

    def is_comment(self, line: str) -> bool:
        return self._dialect.allow_comments and line.startswith("#")

    def read(self, line: str) -> Row:
        """Return the row of a line.

        Raises:
            ValueError: it has other fields, or one that does not fit its type.
        """
        fields = self.split(line)
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
        """Return the line of a row, with its end.

        Raises:
            TypeError: the row does not fit the type, or holds something that has no text.
            OverflowError: a number is beyond its type's range.
        """
        row = self.coerce(row)
        if self._shorten is not None:
            row = self._shorten(row)
        fields = [self._field(index, value) for index, value in enumerate(row)]
        return self._dialect.delimiter.join(fields) + self._dialect.line_end

    def header(self) -> str:
        """The line of the columns' names, with its end."""
        return self._dialect.delimiter.join(map(self._quoted, self._names)) + self._dialect.line_end

    def _field(self, index: int, value: Any) -> str:
        null = self._dialect.null_literal or ""
        if value is None:
            return null
        if self._is_array[index]:
            items = (null if item is None else self._text(item) for item in value)
            return self._quoted((self._delimiters[index] or "").join(items))
        text = self._text(value)
        return self._quoted(text) if self._is_text[index] else text

    def _text(self, value: Any) -> str:
        """The text of a value that is neither None nor a collection, as Java's `toString` gives it."""
        if isinstance(value, str):
            return value
        if isinstance(value, Decimal):
            return str(_stripped(value) if self._dialect.strips_decimals else value)
        if isinstance(value, datetime.datetime):
            fraction = f"{value.microsecond:06d}".rstrip("0") or "0"
            return f"{value.replace(microsecond=0).isoformat(sep=' ')}.{fraction}"
        return text_of(value)


def _stripped(value: Decimal) -> Decimal:
    """The same number without trailing zeros."""
    return value.normalize(Context(prec=max(1, len(value.as_tuple().digits)))) if value else Decimal(0)


def _quoting(dialect: CsvDialect) -> Callable[[str], str]:
    """A function that puts quotes around a text which might need them."""
    quote, escape = dialect.quote, dialect.escape
    if quote is None:
        return lambda text: text
    last = max(dialect.delimiter, quote, *dialect.line_end)
    is_odd = re.compile("[\0-" + re.escape(last) + re.escape(escape or "\\") + "]").search

    def quoted(text: str) -> str:
        is_long = len(text) > _LOOKED_INTO or (len(text) > _LOOKED_INTO // 2 and _utf16_units(text) > _LOOKED_INTO)
        if not is_long and not is_odd(text):
            return text
        if escape is not None and escape != quote:
            text = text.replace(escape, escape * 2)
        return f"{quote}{text.replace(quote, quote * 2)}{quote}"

    return quoted


def _utf16_units(text: str) -> int:
    return len(text) + sum(character > "\uffff" for character in text)


def _splitter(dialect: CsvDialect) -> Callable[[str], list[str]]:
    """A function that takes a line apart, as Jackson's CsvDecoder does."""
    delimiter, quote, escape = dialect.delimiter, dialect.quote, dialect.escape
    special = re.compile("[\r\n" + re.escape(quote or "") + re.escape(escape or "") + "]").search
    by_escape = rf"|{re.escape(escape)}." if escape else ""
    stops = re.escape(delimiter) + "\r\n" + re.escape(escape or "")
    plain = re.compile(rf"((?:[^{stops}]++{by_escape})*+)({re.escape(delimiter)}|\Z)", re.DOTALL).match
    in_quotes = None
    if quote is not None:
        mark = re.escape(quote)
        inner = rf"[^{mark}{re.escape(escape or '')}]++|{mark}{mark}{by_escape}"
        # blanks behind the closing quote are no part of the field
        pattern = rf"{mark}((?:{inner})*+){mark}[ \t]*({re.escape(delimiter)}|\Z)"
        in_quotes = re.compile(pattern, re.DOTALL).match
    escaped = re.compile(rf"{re.escape(escape)}(.)", re.DOTALL) if escape else None

    def unescaped(text: str) -> str:
        return escaped.sub(lambda found: _ESCAPED.get(found[1], found[1]), text) if escaped else text

    def split(line: str) -> list[str]:
        if not special(line):
            return line.split(delimiter)
        fields: list[str] = []
        start, separator = 0, delimiter
        while separator:
            has_quotes = quote is not None and line.startswith(quote, start)
            found = in_quotes(line, start) if in_quotes is not None and has_quotes else plain(line, start)
            if found is None:
                what = "a quote is not closed, or something follows it" if has_quotes else "a line end without quotes"
                raise ValueError(f"not a line of CSV: {what} in field {len(fields) + 1}")
            text, separator = found.groups()
            if has_quotes and quote is not None:
                text = text.replace(quote * 2, quote)
            fields.append(unescaped(text))
            start = found.end()
        return fields

    return split


def _is_bytes(type_info: TypeInformation) -> bool:
    return bool(getattr(type_info, "is_bytes", False))
