"""Newline-delimited JSON, one value a line, typed or not.

With a row type, lines are parsed straight into columns; without one they become Python values, dicts as a rule. Blank
lines are no records. Flat records of whole numbers, floats, booleans and texts are parsed by Polars, which takes 0.4 µs
for 100 bytes; all others by Arrow, which takes 0.65 µs and says what is wrong with a line that Polars does not take.
"""

from __future__ import annotations

import base64
import copy
import datetime
import json
import math
import operator
import re
import secrets
from collections.abc import Callable, Sequence
from decimal import Decimal
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.json as pa_json
from polars.exceptions import PolarsError

from runtime.common.time import Instant
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.common.types import Row
from runtime.connectors.formats.file_format import LineFormat
from runtime.connectors.formats.text_values import text_of
from runtime.connectors.formats.unread_columns import texts_left_out, with_nulls
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.arrow import arrow_schema
from runtime.core.batch import RecordBatch
from runtime.core.column_condition import ColumnCondition
from runtime.core.shortest_floats import with_shortest_floats
from runtime.operators.columnar.frames import arrow_of
from runtime.operators.sink import SinkError

_WHITESPACE = b" \t\r"
_POLARS_TYPES = (pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.bool_(), pa.string())
_MAY_BE_NULL = re.compile(rb"(?:^|[}\]\"\w])[ \t\r]*null", re.MULTILINE)
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
#: see `line_blocks.BLOCK_BYTES`; a block of columns takes 16 ms
COLUMN_BLOCK_BYTES = 4 << 20
#: of Python values, some 2,500 records: what is made of more does not stay in the processor's cache until it is used
#: (measured with dicts of six fields: 1 MiB takes a fifth more time in all)
VALUE_BLOCK_BYTES = 256 << 10
#: the C scanner behind `json.loads`: value and end of a text's first JSON value
_scan_once: Callable[[str, int], tuple[Any, int]] = JSONDecoder().scan_once  # type: ignore[attr-defined]
#: see `_values_of_clean_lines`
_SEPARATOR = 10**15 + secrets.randbelow(10**15)
_BETWEEN_LINES = f",{_SEPARATOR},"


class NdjsonFormat(LineFormat):
    """Records from lines of JSON.

    As in Flink, a text column takes a number, a boolean or a nested value as its text, if the columns are flat.

    Args:
        row_type: names and types of the columns. A field that a line lacks is null, one that the type lacks is
            skipped. DATE and TIME are ISO texts, as are timestamps. None: every line's value as `json.loads` gives it.

    Raises:
        TypeError: a column has a type that JSON columns cannot be read as (maps, byte arrays, pickled objects).
    """

    def __init__(self, row_type: RowTypeInfo | None = None) -> None:
        self._row_type = row_type
        if row_type is None:
            self.block_bytes = VALUE_BLOCK_BYTES
            return
        #: what the records have to look like, and as what Arrow's parser must read them to get there
        self._schema = arrow_schema(row_type)
        self._read_schema = pa.schema([(field.name, _readable(field)) for field in self._schema])
        #: columns that nobody reads and that no line is judged by
        self._unread: frozenset[str] = frozenset()
        self._is_flat = all(field.type in _POLARS_TYPES for field in self._schema)
        if self._is_flat:
            # a bigger block than of other lines, which become Python values: the fixed cost per call shows at 1 MiB
            self.block_bytes = COLUMN_BLOCK_BYTES

    def produced_type(self) -> TypeInformation | None:
        return self._row_type

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> NdjsonFormat:
        """Return a format that leaves out texts which nobody reads."""
        is_by_column = self._row_type is not None and self._is_flat
        left_out = texts_left_out(self._schema, columns) if is_by_column else frozenset[str]()
        if not left_out:
            return self
        reading = copy.copy(self)
        reading._unread = left_out
        return reading

    def skips(self, line: bytes) -> bool:
        return not line.strip(_WHITESPACE)

    def decode_messages(self, messages: Sequence[bytes]) -> RecordBatch:
        data = b"\n".join(messages) + b"\n"
        if data.count(b"\n") != len(messages):
            # outside of texts a line end is white space, inside of one it is not allowed
            data = b"\n".join([message.replace(b"\n", b" ") for message in messages]) + b"\n"
        return self.decode(data)

    def decode(self, data: bytes) -> RecordBatch:
        return self._decode_objects(data) if self._row_type is None else self._decode_columns(data, self._row_type)

    def _decode_columns(self, data: bytes, row_type: RowTypeInfo) -> RecordBatch:
        # Polars makes a NUL of half a surrogate pair, which Arrow refuses
        if self._is_flat and not (b"\\" in data and _HALF_PAIR.search(data)):
            try:
                # the dtypes are made here: a format travels to the slots, and is compared, without them
                read = self._schema
                if self._unread:
                    read = pa.schema([field for field in read if field.name not in self._unread])
                frame = pl.read_ndjson(data, schema=pl.Schema(read))
            except PolarsError:
                # below, the error is found again and told in the same words for all columns
                frame = None
            if frame is not None and frame.height:
                return RecordBatch.of_arrow(with_nulls(arrow_of(frame), self._schema), row_type)
        return self._decode_by_arrow(data, row_type)

    def _decode_by_arrow(self, data: bytes, row_type: RowTypeInfo) -> RecordBatch:
        if _MAY_BE_NULL.search(data) and any(map(_holds_null, data.split(b"\n"))):
            raise ValueError("each line must be a JSON object, not null")
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        table = pa_json.read_json(
            pa.BufferReader(data),
            # one block: the caller has cut the file already
            pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            pa_json.ParseOptions(explicit_schema=self._read_schema, unexpected_field_behavior="ignore"),
        )
        if table.num_rows != lines or _may_have_blank_lines(data):
            records = sum(not self.skips(line) for line in data.split(b"\n"))
            if table.num_rows != records:
                raise ValueError("a line must hold exactly one JSON value")
        if table.num_rows == 0:
            return RecordBatch.of_arrow(pa.RecordBatch.from_pylist([], schema=self._schema), row_type)
        if not data.isascii():
            # Arrow's parser takes any bytes for text
            table.validate(full=True)
        if self._read_schema is not self._schema:
            table = table.cast(self._schema)
        return RecordBatch.of_arrow(table.combine_chunks().to_batches()[0], row_type)

    def _decode_objects(self, data: bytes) -> RecordBatch:
        values = _values_of_clean_lines(data.decode())
        return RecordBatch.of_values(_values_of_lines(data) if values is None else values)


def _values_of_clean_lines(text: str) -> list[Any] | None:
    """Return the value of each line, if every line has exactly one.

    One array of all lines is parsed, so that equal keys of its objects are one string: parsing takes 0.7 of the time,
    and pickling the records a third. A number that nobody can know stands between the lines: where it turns up as every
    second element, and nothing else is left over, no line has given more or less than one value.
    """
    text = text.rstrip("\r\n")
    ends = text.count("\n")
    try:
        array = "[" + text.replace("\n", _BETWEEN_LINES) + "]"
        joined, end = _scan_once(array, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    if end != len(array) or len(joined) != 2 * ends + 1 or joined[1::2].count(_SEPARATOR) != ends:
        return None
    values: list[Any] = joined[::2]
    return values


def _values_of_lines(data: bytes) -> list[Any]:
    """Return the value of each line that is not blank.

    Raises:
        JSONDecodeError: a line has more or less than one.
    """
    lines = [line.strip(" \t\r") for line in data.decode().split("\n")]
    lines = [line for line in lines if line]
    try:
        # json.loads does the same with two more calls a line
        pairs = [_scan_once(line, 0) for line in lines]
    except StopIteration as error:
        raise JSONDecodeError("Expecting value", lines[0], 0) from error
    if [end for _, end in pairs] != list(map(len, lines)):
        for line in lines:
            json.loads(line)
    return [value for value, _ in pairs]


def _holds_null(line: bytes) -> bool:
    """Return whether one of a line's values is null, which ends Arrow's parser together with its process (Arrow 26)."""
    text, at = line.decode(errors="replace"), 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r"))
        try:
            value, at = _scan_once(text, at)
        except (StopIteration, ValueError):
            return False
        if value is None:
            return True


def _may_have_blank_lines(data: bytes) -> bool:
    """Return whether each line must be checked: a blank line would make up for a line with two values."""
    return data.startswith(b"\n") or any(blank in data for blank in (b"\n\n", b" \n", b"\t\n", b"\n\r"))


def _readable(field: pa.Field) -> pa.DataType:
    if pa.types.is_date(field.type) or pa.types.is_time(field.type):
        return pa.string()
    _check_readable(field.name, field.type)
    return field.type


def _check_readable(name: str, data_type: pa.DataType) -> None:
    if pa.types.is_list(data_type):
        _check_readable(name, data_type.value_type)
    elif pa.types.is_struct(data_type):
        for index in range(data_type.num_fields):
            _check_readable(name, data_type.field(index).type)
    elif not (
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_timestamp(data_type)
    ):
        raise TypeError(
            f"NDJSON column {name!r} cannot be read as {data_type}; read the lines untyped and convert them"
        )


class NdjsonWriterFormat(RowWriterFormat):
    """A line of JSON per record.

    Rows with field names and dicts become objects; tuples, lists and rows without names arrays. Dates and times are
    ISO texts, decimals texts, bytes Base64; NaN and the infinities, which JSON lacks, the texts "NaN", "Infinity" and
    "-Infinity", as Flink writes them.
    """

    suffix = ".ndjson"

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        values = batch.values()
        shorten = with_shortest_floats(input_type)
        if shorten is not None:
            values = list(map(shorten, values))
        encode = _ENCODER.encode
        rows = iter(values)
        try:
            lines = list(map(encode, rows))
        except ValueError:
            lines = self._render_slowly(values)
        except TypeError as error:
            record = values[len(values) - operator.length_hint(rows) - 1]
            raise SinkError(f"a record cannot be written as JSON: {error}: {record!r:.200}") from error
        lines.append("")
        try:
            return "\n".join(lines).encode()
        except UnicodeEncodeError as error:
            raise SinkError(f"a record has text that is not valid Unicode: {error}") from error

    def _render_slowly(self, values: list[Any]) -> list[str]:
        lines = []
        for value in values:
            try:
                lines.append(_ENCODER.encode(_finite(value)))
            except (TypeError, ValueError) as error:
                raise SinkError(f"a record cannot be written as JSON: {error}: {value!r:.200}") from error
        return lines


def _jsonable(value: Any) -> Any:
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Instant):
        return text_of(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(value: Any) -> Any:
    """Return the value with NaN and infinities as texts, for what the encoder refuses."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Row):
        return _finite(_jsonable(value))
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_jsonable)
