"""Parquet files, read and written by row groups as columns; and PyFlink's names for that.

Where PyFlink takes a table row type, these take `Types.ROW_NAMED(...)`. Source: PyFlink, formats/parquet.py.
"""

from __future__ import annotations

import bisect
import copy
from collections import deque
from collections.abc import Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.common.configuration import Configuration
from runtime.common.serialization import RowDataBulkWriterFactory
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.file_format import FileFormat, FileSplit, even_ranges, even_share
from runtime.connectors.formats.parquet.pruning import ranges_of_rows, read_type
from runtime.connectors.formats.parquet.rows import ParquetRows, open_rows, row_bounds
from runtime.connectors.formats.row_types import check_fits, checked_row_type
from runtime.connectors.formats.unread_columns import with_nulls
from runtime.connectors.formats.writer_format import ColumnWriterFormat, FormatWriter, columns_of
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.arrow import arrow_schema, type_from_arrow
from runtime.core.batch import RecordBatch
from runtime.core.column_condition import ColumnCondition
from runtime.operators.source import ReadStatus, SourceError, SplitReader


class ParquetFormat(FileFormat):
    """Records from Parquet files.

    Args:
        columns: the columns to read, in this order; None = all of the first file.
        row_type: their names and types where they are not to be taken from the first file.
    """

    position_of = "row groups"
    formerly = ("ParquetFormat", "ParquetColumnarRowInputFormat")

    def __init__(self, columns: Sequence[str] | None = None, row_type: RowTypeInfo | None = None) -> None:
        self._columns = None if columns is None else list(columns)
        self._row_type = row_type
        #: columns that are read; None = all
        self._read: frozenset[str] | None = None
        self._conditions: tuple[ColumnCondition, ...] = ()

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

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> ParquetFormat:
        """Leave out columns, and row groups in which no row can meet the conditions."""
        if self._row_type is None or (not conditions and columns.issuperset(self._row_type.get_field_names())):
            return self
        reading = copy.copy(self)
        reading._read = columns
        reading._conditions = tuple(conditions)
        return reading

    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        with _open(path) as file:
            groups = file.num_row_groups
        return even_ranges(groups, parts) if groups else []

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
        return _ParquetReader(split, self._row_type, self._read, self._conditions, position, limiter)


class _ParquetReader(SplitReader):
    """Reads row groups; its position is [row group, row in it]."""

    def __init__(
        self,
        split: FileSplit,
        row_type: RowTypeInfo,
        read: frozenset[str] | None,
        conditions: Sequence[ColumnCondition],
        position: Sequence[int] | None,
        limiter: RateLimiter,
    ) -> None:
        self._path = split.path
        self._type = row_type
        self._schema = arrow_schema(row_type)
        self._limiter = limiter
        file = _open(split.path)
        self._bounds = row_bounds(file.metadata)
        group, row = (split.start, 0) if position is None else position
        #: number of the next row in the file
        self._next = self._bounds[group] + row
        end = file.num_row_groups if split.end is None else split.end
        self._read_type = row_type if read is None else read_type(file.schema_arrow, row_type, read)
        #: of rows that are still to be read, behind those that are being read
        self._ranges = deque(
            ranges_of_rows(file.metadata, self._schema, self._bounds, conditions, self._next, self._bounds[end])
        )
        self._end = self._bounds[end]
        self._rows = self._open_next(file)
        #: decoded rows that are not emitted yet
        self._rest: pa.RecordBatch | None = None

    def prepare(self) -> bool:
        if self._rest is not None:
            return False
        while self._rows is not None:
            self._rest = self._rows.next_batch()
            if self._rest is not None:
                return True
            self._rows.close()
            self._rows = self._open_next(None)
        return False

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
        return RecordBatch.of_arrow(with_nulls(rest.slice(0, rows), self._schema), self._type)

    @property
    def position(self) -> Any:
        group = bisect.bisect_right(self._bounds, self._next) - 1
        return [group, self._next - self._bounds[group]]

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._rest = None
        if self._rows is not None:
            self._rows.close()

    def _open_next(self, file: pq.ParquetFile | None) -> ParquetRows | None:
        """Open the next range of rows; None: there is no further one. `file` now belongs to the rows."""
        if not self._ranges:
            self._next = self._end
            if file is not None:
                file.close()
            return None
        start, stop = self._ranges.popleft()
        self._next = start
        return open_rows(self._path, file or _open(self._path), self._read_type, start, stop)


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=False)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{path} cannot be read as Parquet: {error}") from error


class ParquetWriterFormat(ColumnWriterFormat):
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
        self._gathered.append(columns_of(batch, self._type).cast(self._schema))
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


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads columns of Parquet files; for `FileSource.for_bulk_file_format`.

    Args:
        row_type: names and types of the columns to read, from `Types.ROW_NAMED`.
        hadoop_config: not used: files are read without Hadoop.
        batch_size: not used: batches are as large as the stream's.
        is_utc_timestamp: not used: timestamps have no zone.
        is_case_sensitive: only True can be used.

    Raises:
        TypeError: the row type is none.
        ValueError: names are to be found whatever their case.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: Configuration | None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if not is_case_sensitive:
            raise ValueError("columns are found by their exact names: is_case_sensitive=False cannot be used")
        super().__init__(checked_row_type(row_type).get_field_names(), row_type)


class ParquetBulkWriters:
    """Makes writers of Parquet files."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo,
        hadoop_config: Configuration | None = None,  # noqa: ARG004 (PyFlink's)
        utc_timestamp: bool = False,  # noqa: ARG004 (PyFlink's)
    ) -> ParquetBulkWriterFactory:
        """Return a writer for `FileSink.for_bulk_format`.

        Args:
            row_type: columns of the files and type of the stream, from `Types.ROW_NAMED`.
            hadoop_config: not used.
            utc_timestamp: not used: timestamps have no zone.

        Raises:
            TypeError: the row type is none.
        """
        return ParquetBulkWriterFactory(checked_row_type(row_type))


class ParquetBulkWriterFactory(RowDataBulkWriterFactory, ParquetWriterFormat):
    """Writes rows of one type; made by `ParquetBulkWriters`."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        RowDataBulkWriterFactory.__init__(self, row_type)
        ParquetWriterFormat.__init__(self)

    def check(self, input_type: TypeInformation | None) -> None:
        check_fits(self._row_type, input_type)

    def open(self, file: IO[bytes], input_type: TypeInformation | None, is_new: bool) -> FormatWriter:
        return super().open(file, self._row_type, is_new)
