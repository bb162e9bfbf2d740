"""Parquet files, read by row groups into columns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.files.file_format import FileFormat, FileSplit
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.arrow import arrow_schema, type_from_arrow
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus, SourceError, SplitReader

#: Rows decoded at a time: a slice of records is cut from them, and a decoded batch stays in memory.
BATCH_ROWS = 1 << 17
_TEXT = Types.STRING()
_LENGTH_BYTES = 4
"""Of a string's length in Parquet's plain encoding."""


class ParquetFormat(FileFormat):
    """Records from Parquet files.

    Args:
        columns: the columns to read, in this order; None = all of the first file.
        row_type: their names and types where they are not to be taken from the first file.
    """

    def __init__(self, columns: Sequence[str] | None = None, row_type: RowTypeInfo | None = None) -> None:
        self._columns = None if columns is None else list(columns)
        self._row_type = row_type

    @property
    def takes_from_file(self) -> bool:
        return self._row_type is None

    def resolve(self, path: str) -> ParquetFormat:
        if self._row_type is not None:
            return self
        with _open(path) as file:
            schema = file.schema_arrow
        names = schema.names if self._columns is None else self._columns
        for name in names:
            if name not in schema.names:
                raise SourceError(f"{path}: no column {name!r}; the file has {schema.names}")
        row_type = type_from_arrow(pa.schema([schema.field(name) for name in names]))
        return ParquetFormat(names, row_type)

    def produced_type(self) -> TypeInformation | None:
        return self._row_type

    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        with _open(path) as file:
            groups = file.num_row_groups
        parts = min(parts, groups)
        bounds = [groups * part // parts for part in range(parts + 1)] if parts else [0]
        return list(itertools.pairwise(bounds))

    def open(
        self, split: FileSplit, position: Any | None, limiter: RateLimiter, bad_records: BadRecordHandler | None = None
    ) -> SplitReader:
        if self._row_type is None:
            raise SourceError(f"{split.path}: the format was not resolved against a file")
        return _ParquetReader(split, self._row_type, position, limiter)


class _ParquetReader(SplitReader):
    """Reads row groups; its position is [row group, row in it]."""

    def __init__(
        self, split: FileSplit, row_type: RowTypeInfo, position: Sequence[int] | None, limiter: RateLimiter
    ) -> None:
        self._path = split.path
        self._type = row_type
        self._schema = arrow_schema(row_type)
        self._limiter = limiter
        self._file = _with_dictionaries(split.path, row_type)
        self._end = self._file.num_row_groups if split.end is None else split.end
        self._group, self._row = (split.start, 0) if position is None else (position[0], position[1])
        self._batches: Iterator[pa.RecordBatch] | None = None
        #: decoded rows that are not emitted yet
        self._rest: pa.RecordBatch | None = None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        while self._rest is None:
            if self._group >= self._end:
                return ReadStatus.END_OF_SPLIT
            self._decode()
        rows = self._limiter.take(min(max_rows, self._rest.num_rows))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        batch = self._rest.slice(0, rows)
        self._rest = self._rest.slice(rows) if rows < self._rest.num_rows else None
        self._row += rows
        return RecordBatch.of_arrow(batch, self._type)

    @property
    def position(self) -> Any:
        return [self._group, self._row]

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._batches = self._rest = None
        self._file.close()

    def _decode(self) -> None:
        try:
            skip = 0
            if self._batches is None:
                self._batches = self._file.iter_batches(
                    BATCH_ROWS, [self._group], columns=self._schema.names, use_threads=False
                )
                skip = self._row
            for batch in self._batches:
                if batch.num_rows <= skip:
                    skip -= batch.num_rows
                    continue
                self._rest = batch.slice(skip).select(self._schema.names).cast(self._schema)
                return
        except (pa.ArrowException, OSError, KeyError) as error:
            raise SourceError(f"{self._path}, row group {self._group}: {error}") from error
        self._batches = None
        self._group, self._row = self._group + 1, 0


def _with_dictionaries(path: str, row_type: RowTypeInfo) -> pq.ParquetFile:
    """The file opened so that strings which repeat are decoded once each, which takes a tenth off, cast included."""
    file = _open(path)
    texts = [name for name, kind in zip(row_type.field_names, row_type.field_types, strict=True) if kind == _TEXT]
    repeating = _repeating(file.metadata, texts)
    if not repeating:
        return file
    file.close()
    return _open(path, repeating)


def _repeating(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Those of the columns that are stored as dictionaries almost everywhere.

    A string that is written out takes at least 4 bytes; a column of fewer bytes a value holds numbers of dictionary
    entries. To make a dictionary of the others would cost more than it saves.
    """
    sizes = dict.fromkeys(names, 0)
    values = dict.fromkeys(names, 0)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            name = column.path_in_schema
            if name in sizes:
                sizes[name] += column.total_uncompressed_size
                values[name] += column.num_values
    return [name for name in names if sizes[name] < _LENGTH_BYTES * values[name]]


def _open(path: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=False, read_dictionary=list(dictionaries))
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as Parquet: {error}") from error
