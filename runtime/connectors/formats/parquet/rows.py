"""Rows of a Parquet file as batches of columns, from any row on: by Polars where it can, else by Arrow.

Polars decodes six flat columns in 45 ns a row, strings as its own views; Arrow takes 75, and 25 more to turn its
strings into such views. Polars has no reader that goes on where it was: each batch is a slice, and a slice passes over
the pages of its row group that come before. So files of flat columns in row groups of usual size are left to it, and
all others to Arrow. Memory: one batch, of at most 2^17 rows and about 64 MiB. Used by the task's thread.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.formats.file_format import even_share
from runtime.core.arrow import arrow_schema
from runtime.operators.columnar.frames import arrow_of
from runtime.operators.source import SourceError

#: Rows decoded at a time: slices of records are cut from them, and a decoded batch stays in memory.
BATCH_ROWS = 1 << 17
#: The same in bytes, as they lie in the file's pages unpacked.
BATCH_BYTES = 64 << 20
#: What Polars may have to pass over again: with 8 batches a row group, half as much as it decodes.
BATCHES_PER_GROUP = 8
_FLAT_TYPES = frozenset(
    {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.date32()}
    | {pa.timestamp("us")}
)
_LENGTH_BYTES = 4
"""Of a string's length in Parquet's plain encoding."""


class ParquetRows(Protocol):
    """Gives a file's rows in order."""

    def next_batch(self) -> pa.RecordBatch | None:
        """Return the next rows; None after the last.

        Raises:
            SourceError: they cannot be decoded.
        """

    def close(self) -> None:
        """Release everything; idempotent."""


def row_bounds(metadata: pq.FileMetaData) -> list[int]:
    """Return the number of the first row of each row group, and after the last the number of rows."""
    sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return list(itertools.accumulate(sizes, initial=0))


def open_rows(path: str, file: pq.ParquetFile, row_type: RowTypeInfo, start: int, stop: int) -> ParquetRows:
    """Return the rows [start, stop) of a file.

    Args:
        path: of the file.
        file: it, opened; now belongs to the rows.
        row_type: names and types of the columns to read; if the file lacks one, `next_batch` fails.
        start: number of the first row.
        stop: the number behind the last.
    """
    schema = arrow_schema(row_type)
    bounds = row_bounds(file.metadata)
    step = _rows_at_a_time(file.metadata, schema.names)
    largest = max((after - before for before, after in itertools.pairwise(bounds)), default=0)
    if largest <= BATCHES_PER_GROUP * step and _is_flat(file.schema_arrow, schema):
        scan = _scanned(path, schema)
        if scan is not None:
            file.close()
            return _PolarsRows(path, scan, bounds, start, stop, step)
    return _ArrowRows(path, file, schema, bounds, start, stop, step)


class _PolarsRows:
    def __init__(self, path: str, scan: pl.LazyFrame, bounds: Sequence[int], start: int, stop: int, step: int) -> None:
        self._path = path
        self._scan = scan
        self._bounds = bounds
        self._next = start
        self._stop = stop
        self._step = step
        # it is opened anew for each slice
        self._version = _version(path)

    def next_batch(self) -> pa.RecordBatch | None:
        if self._next >= self._stop:
            return None
        start, stop = self._next, self._batch_end()
        try:
            frame = self._scan.slice(start, stop - start).collect()
        except (PolarsError, OSError) as error:
            self._check_unchanged()
            raise _undecodable(self._path, start, error) from error
        self._check_unchanged()
        self._next = stop
        return arrow_of(frame)

    def _batch_end(self) -> int:
        """Return the end of a row group if one is near (if one is cut, dictionaries are decoded twice); else a
        share.
        """
        furthest = min(self._next + self._step, self._stop)
        group = bisect.bisect_right(self._bounds, furthest) - 1
        if self._bounds[group] > self._next:
            return self._bounds[group]
        return self._next + even_share(min(self._bounds[group + 1], self._stop) - self._next, self._step)

    def _check_unchanged(self) -> None:
        try:
            is_unchanged = _version(self._path) == self._version
        except OSError:
            is_unchanged = False
        if not is_unchanged:
            raise SourceError(f"{self._path} was changed while it was read")

    def close(self) -> None:
        self._next = self._stop


class _ArrowRows:
    def __init__(
        self,
        path: str,
        file: pq.ParquetFile,
        schema: pa.Schema,
        bounds: Sequence[int],
        start: int,
        stop: int,
        step: int,
    ) -> None:
        self._path = path
        self._file = file
        texts = [field.name for field in schema if field.type == pa.string()]
        repeating = repeating_texts(file.metadata, texts)
        if repeating:
            # strings that repeat are then decoded once each, which takes a tenth off, cast included
            file.close()
            self._file = pq.ParquetFile(path, memory_map=False, read_dictionary=repeating)
        self._next = start
        self._batches = self._decoded(schema, bounds, start, stop, step)

    def next_batch(self) -> pa.RecordBatch | None:
        try:
            batch = next(self._batches, None)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise _undecodable(self._path, self._next, error) from error
        if batch is not None:
            self._next += batch.num_rows
        return batch

    def close(self) -> None:
        self._batches = iter(())
        self._file.close()

    def _decoded(
        self, schema: pa.Schema, bounds: Sequence[int], start: int, stop: int, step: int
    ) -> Iterator[pa.RecordBatch]:
        first = bisect.bisect_right(bounds, start) - 1
        last = bisect.bisect_left(bounds, stop)
        for group in range(first, last):
            skip = max(0, start - bounds[group])
            for batch in self._file.iter_batches(step, [group], columns=schema.names, use_threads=False):
                if batch.num_rows > skip:
                    yield batch.slice(skip).select(schema.names).cast(schema)
                skip = max(0, skip - batch.num_rows)


def repeating_texts(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return those of the columns that are stored as dictionaries almost everywhere.

    A string that is written out takes at least 4 bytes; a column of fewer bytes a value holds numbers of dictionary
    entries. To make a dictionary of the others would cost more than it saves.
    """
    sizes = dict.fromkeys(names, 0)
    values = dict.fromkeys(names, 0)
    for _, name, size, count in _chunks(metadata):
        if name in sizes:
            sizes[name] += size
            values[name] += count
    return [name for name in names if sizes[name] < _LENGTH_BYTES * values[name]]


def _rows_at_a_time(metadata: pq.FileMetaData, names: Sequence[str]) -> int:
    """Return how many rows a batch may have, for the row group with the largest rows."""
    wanted = frozenset(names)
    sizes = [0] * metadata.num_row_groups
    for group, name, size, _ in _chunks(metadata):
        if name.partition(".")[0] in wanted:
            sizes[group] += size
    rows = BATCH_ROWS
    for group, size in enumerate(sizes):
        if size:
            rows = min(rows, BATCH_BYTES * metadata.row_group(group).num_rows // size)
    return max(1, rows)


def _chunks(metadata: pq.FileMetaData) -> Iterator[tuple[int, str, int, int]]:
    """Yield (row group, path of the column, bytes unpacked, values) for everything in a file."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            yield number, column.path_in_schema, column.total_uncompressed_size, column.num_values


def _is_flat(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Return whether the columns are of simple types, and in the file exactly as wanted."""
    if len(set(found.names)) < len(found.names):
        return False
    for field in wanted:
        if field.name not in found.names:
            return False
        stored = pa.string() if pa.types.is_large_string(found.field(field.name).type) else found.field(field.name).type
        if field.type not in _FLAT_TYPES or stored != field.type:
            return False
    return True


def _scanned(path: str, schema: pa.Schema) -> pl.LazyFrame | None:
    """Return a query for the columns, if Polars reads them as they are wanted."""
    try:
        scan = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(schema.names)
        return scan if scan.collect_schema() == pl.Schema(schema) else None
    except PolarsError:
        return None


def _version(path: str) -> tuple[int, int, int]:
    status = Path(path).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _undecodable(path: str, row: int, error: Exception) -> SourceError:
    return SourceError(f"{path}, from row {row} on: {error}")
