"""Formats in which a file sink writes records: text lines, NDJSON, CSV and Parquet.

A FileWriterFormat is a picklable description; a FormatWriter belongs to one part file. Row formats can go on with a
file that was cut at a snapshot, Parquet cannot and begins a new one.
"""

from __future__ import annotations

import base64
import datetime
import io
import json
import math
import operator
from abc import ABC, abstractmethod
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation
from runtime.common.types import Row
from runtime.core.arrow import arrow_schema, has_columns, to_arrow
from runtime.core.batch import RecordBatch
from runtime.core.formatting import flink_formatter
from runtime.core.shortest_floats import shortest_doubles, with_shortest_floats
from runtime.operators.sink import SinkError


class FormatWriter(ABC):
    """Writes the records of one part file."""

    @abstractmethod
    def write(self, batch: RecordBatch) -> None:
        """Append records.

        Raises:
            SinkError: a record cannot be written in this format.
        """

    def finish(self) -> None:
        """Write the end of the file; the file itself stays open."""

    def abandon(self) -> None:
        """Let go of the file, which will be removed or cut; idempotent, and nothing after `finish`."""


class FileWriterFormat(ABC):
    """Writes one kind of file."""

    suffix: str = ""
    """Suffix of the part files, unless the user chooses one."""
    can_resume: bool = True
    """Whether a file can be continued after any record."""

    def check(self, input_type: TypeInformation | None) -> None:
        """Refuse a type that cannot be written.

        Raises:
            SinkError: what is missing.
        """

    @abstractmethod
    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        """Return a writer at the end of `file`, which is empty if `is_new`."""


class RowWriterFormat(FileWriterFormat):
    """A format in which records are bytes one after the other."""

    @abstractmethod
    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        """Return the bytes of some records.

        Raises:
            SinkError: a record cannot be written in this format.
        """

    def header(self, input_type: TypeInformation | None) -> bytes:
        """Return the beginning of a file."""
        return b""

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        if is_new:
            file.write(self.header(input_type))
        return _RowWriter(self, file, input_type)


class _RowWriter(FormatWriter):
    def __init__(self, row_format: RowWriterFormat, file: IO[bytes], input_type: TypeInformation | None) -> None:
        self._format = row_format
        self._file = file
        self._type = input_type

    def write(self, batch: RecordBatch) -> None:
        self._file.write(self._format.render(batch, self._type))


class TextWriterFormat(RowWriterFormat):
    """A line per record, shown as Flink shows it. Source: Flink, SimpleStringEncoder.

    Args:
        charset_name: encoding of the file.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        try:
            "".encode(charset_name)
        except LookupError as error:
            raise ValueError(f"unknown charset {charset_name!r}") from error
        self._charset = charset_name

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        lines = list(map(flink_formatter(input_type), batch.values()))
        lines.append("")
        try:
            return "\n".join(lines).encode(self._charset)
        except UnicodeEncodeError as error:
            raise SinkError(f"a record has a character that {self._charset} cannot encode: {error}") from error


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
        return _instant_text(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _instant_text(instant: Instant) -> str:
    second = datetime.datetime.fromtimestamp(instant.seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{instant.nanos:09d}Z"


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


class _ColumnFormat(FileWriterFormat):
    """The common part of CSV and Parquet: they need a type with columns."""

    kind: str

    def check(self, input_type: TypeInformation | None) -> None:
        if input_type is None or not has_columns(input_type):
            raise SinkError(f"{self.kind} needs records of a known type; give the stream before it an output_type")


def _columns(batch: RecordBatch, input_type: TypeInformation | None) -> pa.RecordBatch:
    try:
        if batch.has_arrow or input_type is None:
            return batch.arrow()
        return to_arrow(batch.values(), input_type)
    except TypeError as error:
        raise SinkError(f"a record does not fit the type of the sink's input: {error}") from error


def _with_shortest_floats(columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns with FLOAT ones as DOUBLE of the same text: Arrow would write the digits of the float32."""
    for index, field in enumerate(columns.schema):
        if pa.types.is_float32(field.type):
            column = columns.column(index)
            doubles = shortest_doubles(column.fill_null(0).to_numpy(zero_copy_only=False))
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            columns = columns.set_column(index, field.name, pa.array(doubles, mask=nulls))
    return columns


class CsvWriterFormat(_ColumnFormat, RowWriterFormat):
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
        columns = _with_shortest_floats(_columns(batch, input_type))
        pa_csv.write_csv(columns, buffer, pa_csv.WriteOptions(**self._options))
        return buffer.getvalue()


class ParquetWriterFormat(_ColumnFormat):
    """Parquet files.

    Args:
        compression: of the columns: "zstd", "snappy", "gzip", "none".
        row_group_rows: rows are gathered up to this number, which bounds memory, before they are written.
    """

    suffix = ".parquet"
    kind = "Parquet"
    can_resume = False

    def __init__(self, compression: str = "zstd", row_group_rows: int = 1 << 17) -> None:
        self._compression = compression
        self._row_group_rows = row_group_rows

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        assert input_type is not None and is_new
        return _ParquetWriter(file, input_type, self._compression, self._row_group_rows)


class _ParquetWriter(FormatWriter):
    def __init__(self, file: IO[bytes], input_type: TypeInformation, compression: str, row_group_rows: int) -> None:
        self._type = input_type
        self._schema = arrow_schema(input_type)
        self._writer = pq.ParquetWriter(file, self._schema, compression=compression)
        self._row_group_rows = row_group_rows
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: RecordBatch) -> None:
        self._gathered.append(_columns(batch, self._type).cast(self._schema))
        self._rows += batch.num_rows
        if self._rows >= self._row_group_rows:
            self._write_group()

    def finish(self) -> None:
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        self._gathered, self._rows = [], 0
        self._writer.close()

    def _write_group(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_batches(self._gathered), row_group_size=self._rows)
            self._gathered, self._rows = [], 0
