"""Newline-delimited JSON, one value a line, typed or not.

With a row type, lines are parsed by Arrow straight into columns; without one they become Python values, dicts as a
rule. Blank lines are no records. (Polars parses flat records 1.2 times as fast, but on threads of its own, and panics
on 16-bit columns.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.files.file_format import LineFormat, to_lines
from runtime.core.arrow import arrow_schema
from runtime.core.batch import RecordBatch

_WHITESPACE = b" \t\r"
#: the C scanner behind `json.loads`: value and end of a text's first JSON value
_scan_once: Callable[[str, int], tuple[Any, int]] = JSONDecoder().scan_once  # type: ignore[attr-defined]


class NdjsonFormat(LineFormat):
    """Records from lines of JSON.

    Args:
        row_type: names and types of the columns. A field that a line lacks is null, one that the type lacks is
            skipped. DATE and TIME are ISO texts, as are timestamps. None: every line's value as `json.loads` gives it.

    Raises:
        TypeError: a column has a type that JSON columns cannot be read as (maps, byte arrays, pickled objects).
    """

    def __init__(self, row_type: RowTypeInfo | None = None) -> None:
        self._row_type = row_type
        if row_type is None:
            return
        #: what the records have to look like, and as what Arrow's parser must read them to get there
        self._schema = arrow_schema(row_type)
        self._read_schema = pa.schema([(field.name, _readable(field)) for field in self._schema])

    def produced_type(self) -> TypeInformation | None:
        return self._row_type

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
                raise ValueError("more or less than one JSON value in a line")
        if table.num_rows == 0:
            return RecordBatch.of_arrow(pa.RecordBatch.from_pylist([], schema=self._schema), row_type)
        if self._read_schema is not self._schema:
            table = table.cast(self._schema)
        return RecordBatch.of_arrow(table.combine_chunks().to_batches()[0], row_type)

    def _decode_objects(self, data: bytes) -> RecordBatch:
        lines = [line.strip(" \t") for line in b"\n".join(to_lines(data)).decode().split("\n")]
        lines = [line for line in lines if line]
        try:
            # json.loads does the same with two more calls a line
            pairs = [_scan_once(line, 0) for line in lines]
        except StopIteration as error:
            raise JSONDecodeError("Expecting value", lines[0], 0) from error
        if [end for _, end in pairs] != list(map(len, lines)):
            for line in lines:
                json.loads(line)
        return RecordBatch.of_values([value for value, _ in pairs])


def _may_have_blank_lines(data: bytes) -> bool:
    """Whether a look at each line is needed: a blank line would make up for a line with two values."""
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
