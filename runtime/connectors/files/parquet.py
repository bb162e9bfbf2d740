"""Parquet files, read by row groups into columns."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.files.file_format import FileFormat, FileSplit, even_share
from runtime.connectors.files.parquet_rows import open_rows, row_bounds
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.arrow import type_from_arrow
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus, SourceError, SplitReader


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
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        if self._row_type is None:
            raise SourceError(f"{split.path}: the format was not resolved against a file")
        return _ParquetReader(split, self._row_type, position, limiter)


class _ParquetReader(SplitReader):
    """Reads row groups; its position is [row group, row in it]."""

    def __init__(
        self, split: FileSplit, row_type: RowTypeInfo, position: Sequence[int] | None, limiter: RateLimiter
    ) -> None:
        self._type = row_type
        self._limiter = limiter
        file = _open(split.path)
        self._bounds = row_bounds(file.metadata)
        group, row = (split.start, 0) if position is None else position
        #: number of the next row in the file
        self._next = self._bounds[group] + row
        end = file.num_row_groups if split.end is None else split.end
        self._rows = open_rows(split.path, file, row_type, self._next, self._bounds[end])
        #: decoded rows that are not emitted yet
        self._rest: pa.RecordBatch | None = None

    def prepare(self) -> bool:
        if self._rest is not None:
            return False
        self._rest = self._rows.next_batch()
        return self._rest is not None

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        self.prepare()
        rest = self._rest
        if rest is None:
            return ReadStatus.END_OF_SPLIT
        rows = self._limiter.take(even_share(rest.num_rows, max_rows))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        self._rest = rest.slice(rows) if rows < rest.num_rows else None
        self._next += rows
        return RecordBatch.of_arrow(rest.slice(0, rows), self._type)

    @property
    def position(self) -> Any:
        group = bisect.bisect_right(self._bounds, self._next) - 1
        return [group, self._next - self._bounds[group]]

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._rest = None
        self._rows.close()


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as Parquet: {error}") from error
