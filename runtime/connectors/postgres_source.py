"""PostgresSource: the rows of a table as a bounded stream, in splits that go on where a snapshot left them.

A split is a range of a unique whole-number key, or without one a range of the table's pages. Each chunk is a query of
its own, in the order of the key or of the rows' places: no transaction is held open, and a position is the key or the
place of the last row. The chunks see the table as it is when they are read; by pages it must not be changed meanwhile.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from runtime.common.typeinfo import TypeInformation
from runtime.common.types import rows_of
from runtime.connectors.background import ReadAhead
from runtime.connectors.planned_splits import PlannedSplits
from runtime.connectors.poll_interval import PollInterval
from runtime.connectors.postgres_table import TableShape, connect, describe_table
from runtime.connectors.rate_limiter import RateLimiter, check_rate
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReaderContext, ReadStatus, Source, SourceError, SourceSplit, SplitReader

#: Rows of a query: less, and its round trip shows; more, and `close` has to wait for it.
CHUNK_ROWS = 5000
#: Pages of a query: about as many rows, at a hundred bytes each.
CHUNK_PAGES = 64
#: A split is about so large, unless there would be fewer splits than subtasks.
SPLIT_ROWS = 100_000
SPLIT_PAGES = 2048
MAX_SPLITS = 10_000


@dataclass(frozen=True, slots=True)
class TableSplit(SourceSplit):
    """Rows whose key, or whose page, is in [start, stop)."""

    start: int
    stop: int


class PostgresSource(Source):
    """Reads a table once. Made by `for_table`."""

    def __init__(self, url: str, shape: TableShape, where: str | None, splits: int | None, rate: float | None) -> None:
        self.url = url
        self.shape = shape
        self.where = where
        self._splits = splits
        self._rate = check_rate(rate)

    @staticmethod
    def for_table(
        url: str,
        table: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        split_column: str | None = None,
        splits: int | None = None,
        rows_per_second: float | None = None,
    ) -> PostgresSource:
        """Return a source of a table's rows; asks the server for the columns' types.

        Args:
            url: postgresql://user:password@host/database, or any other connection string of libpq.
            table: its name, with a schema if it is not in the search path.
            columns: those to be read, in this order; None = all.
            where: a condition in SQL; goes into the queries as it is.
            split_column: a unique column of whole numbers; None: the primary key if it is one, else the table's pages.
            splits: about how many parts to cut the table into; None: by its size, at least one a subtask.
            rows_per_second: of all subtasks together; None = as fast as possible.

        Raises:
            SourceError: there is no such server, table or column, or no way to cut it; the message says which.
            ValueError: a number is out of range.
        """
        if splits is not None and splits < 1:
            raise ValueError(f"the number of splits must be at least 1, not {splits}")
        try:
            shape = describe_table(url, table, columns, split_column)
        except (psycopg.Error, ValueError) as error:
            raise SourceError(f"PostgreSQL: {error}") from error
        if shape.key is None and not shape.has_pages:
            raise SourceError(f"PostgreSQL: {table!r} is not a plain table; name a unique split_column")
        return PostgresSource(url, shape, where, splits, rows_per_second)

    def produced_type(self) -> TypeInformation | None:
        return self.shape.row_type

    def create_enumerator(self, parallelism: int, restored: Any | None) -> PlannedSplits:
        if restored is not None:
            return PlannedSplits(None, self.split_to_json, [self.split_from_json(item) for item in restored])
        return PlannedSplits(lambda: self._plan(parallelism), self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, TableSplit)
        return _TableReader(self, split, position, self._rate, context)

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, TableSplit)
        return [split.start, split.stop]

    def split_from_json(self, value: Any) -> SourceSplit:
        return TableSplit(f"{self.shape.name}:{value[0]}", *value)

    def _plan(self, parallelism: int) -> list[SourceSplit]:
        try:
            with connect(self.url) as connection:
                start, stop, wanted = self._extent(connection)
        except psycopg.Error as error:
            raise SourceError(f"PostgreSQL table {self.shape.name}: {error}") from error
        parts = self._splits or max(parallelism, wanted)
        parts = max(1, min(parts, MAX_SPLITS, stop - start))
        bounds = [start + (stop - start) * part // parts for part in range(parts + 1)]
        return [self.split_from_json([bounds[i], bounds[i + 1]]) for i in range(parts) if bounds[i] < bounds[i + 1]]

    def _extent(self, connection: psycopg.Connection[Any]) -> tuple[int, int, int]:
        """Return the first key or page, the one after the last, and the number of splits that the size calls for."""
        table = self.shape.identifier
        if self.shape.key is None:
            pages = connection.execute(
                "SELECT pg_relation_size(to_regclass(%s)) / current_setting('block_size')::int",
                [table.as_string(connection)],
            ).fetchone()
            assert pages is not None
            return 0, pages[0], math.ceil(pages[0] / SPLIT_PAGES)
        key = sql.Identifier(self.shape.key)
        query = sql.SQL(
            "SELECT min({key}), max({key}), (SELECT reltuples FROM pg_class WHERE oid = to_regclass({name})) "
            "FROM {table}"
        ).format(key=key, table=table, name=sql.Literal(table.as_string(connection)))
        found = connection.execute(query).fetchone()
        assert found is not None
        low, high, rows = found
        return (0, 0, 1) if low is None else (low, high + 1, math.ceil(max(0.0, rows) / SPLIT_ROWS))


#: Key or place of a row.
Place = int | tuple[int, int]


class _TableReader(SplitReader):
    """Reads a table; its position is the key of the last row that was emitted, or its [page, item]."""

    def __init__(
        self, source: PostgresSource, split: TableSplit, position: Any, rate: float | None, context: ReaderContext
    ) -> None:
        self._type = source.shape.row_type
        self._names = tuple(self._type.get_field_names())
        self._position = position
        self._limiter = RateLimiter(rate, context.parallelism, context.clock)
        self._is_limited = rate is not None
        self._poll = PollInterval(context.clock)
        #: values of the rows, and the key or place of each
        self._rows: list[tuple[Any, ...]] = []
        self._places: list[Any] = []
        self._next = 0
        self._read_ahead = ReadAhead(f"postgres-{split.split_id}", lambda stop: _read(source, split, position, stop))

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        if self._next == len(self._rows):
            chunk = self._read_ahead.take()
            if chunk is None:
                return ReadStatus.END_OF_SPLIT if self._read_ahead.is_exhausted else ReadStatus.NOTHING_YET
            self._poll.news()
            (self._rows, self._places), self._next = chunk, 0
        rows = self._limiter.take(min(max_rows, len(self._rows) - self._next))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        values = self._rows[self._next : self._next + rows]
        self._next += rows
        self._position = self._places[self._next - 1]
        return RecordBatch.of_values(rows_of(values, self._names), type_info=self._type)

    @property
    def position(self) -> Any:
        return self._position

    def next_read_ms(self) -> int | None:
        waits_for_rate = self._is_limited and self._next < len(self._rows)
        return self._limiter.next_ms() if waits_for_rate else self._poll.next_ms()

    def pending_records(self) -> int | None:
        return len(self._rows) - self._next

    def close(self) -> None:
        self._read_ahead.close()


def _read(
    source: PostgresSource, split: TableSplit, position: Any, stop: threading.Event
) -> Iterator[tuple[list[tuple[Any, ...]], list[Any]]]:
    """Yield chunks of rows with their keys or places; runs on the reader's thread."""
    shape = source.shape
    convert = shape.row_reader()
    chunks = _by_key if shape.key is not None else _by_page
    try:
        with connect(source.url) as connection, connection.cursor(binary=True) as cursor:
            for rows in chunks(source, split, position, cursor):
                if stop.is_set():
                    return
                places = [row[-1] for row in rows]
                if shape.key is None:
                    places = [[int(n) for n in place[1:-1].split(",")] for place in places]
                values = [row[:-1] for row in rows]
                yield ([convert(row) for row in values] if convert else values), places
    except psycopg.Error as error:
        raise SourceError(f"PostgreSQL table {shape.name}: {error}") from error


def _by_key(
    source: PostgresSource, split: TableSplit, position: Any, cursor: psycopg.Cursor[Any]
) -> Iterator[list[tuple[Any, ...]]]:
    assert source.shape.key is not None
    start = split.start if position is None else position + 1
    while start < split.stop:
        rows = _select(source, cursor, sql.Identifier(source.shape.key), start, split.stop, CHUNK_ROWS)
        if rows:
            yield rows
        if len(rows) < CHUNK_ROWS:
            return
        start = rows[-1][-1] + 1


def _by_page(
    source: PostgresSource, split: TableSplit, position: Any, cursor: psycopg.Cursor[Any]
) -> Iterator[list[tuple[Any, ...]]]:
    # items of a page are numbered from 1
    page, item = (split.start, 1) if position is None else (position[0], position[1] + 1)
    while page < split.stop:
        end = min(split.stop, page + CHUNK_PAGES)
        rows = _select(source, cursor, sql.SQL("ctid"), f"({page},{item})", f"({end},0)", None)
        if rows:
            yield rows
        page, item = end, 1


def _select(
    source: PostgresSource, cursor: psycopg.Cursor[Any], place: sql.Composable, start: Any, stop: Any, limit: int | None
) -> list[tuple[Any, ...]]:
    """Return the rows whose key or place is in [start, stop), ordered by it, with it as last value; at most `limit`."""
    shape = source.shape
    # literals: with parameters, percent signs in names and conditions would mean something
    query = sql.SQL(
        "SELECT {columns}, {shown} AS tidemark_place FROM {table} "
        "WHERE {place} >= {start} AND {place} < {stop}{where} ORDER BY {table}.{place} LIMIT {limit}"
    ).format(
        columns=shape.selected,
        shown=place if limit else sql.SQL("ctid::text"),
        table=shape.identifier,
        place=place,
        start=sql.Literal(start),
        stop=sql.Literal(stop),
        where=sql.SQL("" if source.where is None else f" AND ({source.where})"),
        limit=sql.SQL("ALL") if limit is None else sql.Literal(limit),
    )
    return cursor.execute(query).fetchall()
