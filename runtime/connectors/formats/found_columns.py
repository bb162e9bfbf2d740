"""The columns of a file as they are found in it: what a pipeline may declare for its rows. Reads the head of the file.

A guess by a sample: what stands further down may be of another type. Every type that is found for text is one that the
format has read the whole sample with. Blocking; any thread.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.connectors.formats.csv.columns import CsvFormat
from runtime.connectors.formats.file_format import UTF8_BOM, LineFormat
from runtime.connectors.formats.json.ndjson import NdjsonFormat
from runtime.connectors.formats.line_blocks import open_unpacked
from runtime.connectors.formats.parquet.files import ParquetFormat
from runtime.core.arrow import type_from_arrow
from runtime.operators.source import SourceError

SAMPLE_BYTES: Final = 1 << 20
"""Of text. Less: a column that begins with nulls is taken for text; more: the user waits, for hardly a better guess."""
MAX_COLUMNS: Final = 1_000


class ColumnsNotFoundError(Exception):
    """The columns cannot be told; the message says why and names the file."""


def row_type_of_file(path: str, file_format: Mapping[str, Any]) -> RowTypeInfo:
    """Return the columns of a file.

    Args:
        path: of a file on this machine.
        file_format: {"kind": "parquet" | "csv" | "ndjson"}, for csv with "header", "delimiter" and "quote".

    Raises:
        ColumnsNotFoundError: the file cannot be read as this, has no columns, or has columns of unknown types.
    """
    kind = file_format["kind"]
    try:
        if kind == "parquet":
            found = ParquetFormat().resolve(path).produced_type()
        elif kind == "csv":
            found = _of_csv(_head(path), file_format)
        elif kind == "ndjson":
            found = _of_ndjson(_head(path))
        else:
            raise ColumnsNotFoundError(f"records of {kind} have no columns that could be read")
    except (OSError, EOFError, csv.Error, pa.ArrowException, SourceError, TypeError, ValueError) as error:
        raise ColumnsNotFoundError(_said(path, error)) from error
    if not isinstance(found, RowTypeInfo) or not found.field_names:
        raise ColumnsNotFoundError(f"{path} has no columns")
    if len(found.field_names) > MAX_COLUMNS:
        raise ColumnsNotFoundError(f"{path} has more than {MAX_COLUMNS:,} columns")
    return found


def _said(path: str, error: Exception) -> str:
    text = str(error)
    return text if path in text else f"{path}: {text}"


def _head(path: str) -> bytes:
    """Return whole lines from the start of a text file."""
    with open_unpacked(path) as file:
        data = file.read(SAMPLE_BYTES)
        is_all = not file.read(1)
    data = data.removeprefix(UTF8_BOM)
    if not is_all:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            raise ValueError(f"its first line has more than {SAMPLE_BYTES:,} bytes")
    if not data.strip():
        raise ValueError("it has no lines")
    return data


def _of_csv(data: bytes, file_format: Mapping[str, Any]) -> RowTypeInfo:
    has_header, delimiter, quote = file_format["header"], file_format["delimiter"], file_format["quote"]
    end = data.find(b"\n") + 1 or len(data)
    rows = data[end:] if has_header else data
    if not rows.strip():
        # Arrow infers no columns from a header alone
        names = next(csv.reader([data.decode()], delimiter=delimiter, quotechar=quote))
        return RowTypeInfo([Types.STRING()] * len(names), names)
    table = pa_csv.read_csv(
        io.BytesIO(data),
        pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, autogenerate_column_names=not has_header),
        pa_csv.ParseOptions(delimiter=delimiter, quote_char=quote),
        pa_csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False),
    )
    return _readable(table.schema, rows, lambda row: CsvFormat(row, has_header, delimiter, quote))


def _of_ndjson(data: bytes) -> RowTypeInfo:
    options = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return _readable(pa_json.read_json(io.BytesIO(data), options).schema, data, NdjsonFormat)


def _readable(schema: pa.Schema, data: bytes, format_of: Callable[[RowTypeInfo], LineFormat]) -> RowTypeInfo:
    """Return the types of columns with which a format reads the sample: those that were found, else times as texts."""
    known = pa.schema([pa.field(field.name, _known(field.type)) for field in schema])
    texts = pa.schema([pa.field(field.name, _with(field.type, _is_time, pa.string())) for field in known])
    for tried in (known, texts):
        row = type_from_arrow(tried)
        try:
            format_of(row).decode(data)
        except (SourceError, pa.ArrowException, TypeError, ValueError):
            if tried is texts:
                raise
            continue
        return row
    raise AssertionError


def _known(found: pa.DataType) -> pa.DataType:
    """Return a type that rows can have: a column of nulls only is one of texts."""
    return _with(found, pa.types.is_null, pa.string())


def _with(found: pa.DataType, is_meant: Callable[[pa.DataType], bool], other: pa.DataType) -> pa.DataType:
    if is_meant(found):
        return other
    if pa.types.is_list(found):
        return pa.list_(_with(found.value_type, is_meant, other))
    if pa.types.is_struct(found):
        return pa.struct([pa.field(field.name, _with(field.type, is_meant, other)) for field in found])
    return found


def _is_time(found: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(found))
