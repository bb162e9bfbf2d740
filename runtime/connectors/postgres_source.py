"""PostgresSource: the rows of a table as a bounded stream, in splits that go on where a snapshot left them.

A split is a range of a unique whole-number key, or without one a range of the table's pages. Each chunk is a query of
its own, in the order of the key or of the rows' places: no transaction is held open, and a position is the key or the
place of the last row. The chunks see the table as it is when they are read; by pages it must not be changed meanwhile.
The program that makes a source of a declared row type needs no server: the slots ask it for the rest.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from runtime.common.secrets import SecretRef, secret_text
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
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
    key: str | None
    """Column with the key; None: it is the page."""


class PostgresSource(Source):
    """Reads a table once. Made by `for_table`."""

    is_outside = True
    #: the table was not part of it
    former_split_formats = ("ranges of a table",)

    def __init__(
        self,
        url: str | SecretRef,
        table: str,
        row_type: RowTypeInfo,
        split_column: str | None,
        where: str | None,
        splits: int | None,
        rate: float | None,
    ) -> None:
        self.url = secret_text(url)
        self.table = table
        # what was read of one table says nothing of another
        self.split_format = f"ranges of the table {table}"
        self.row_type = row_type
        self.where = where
        self._split_column = split_column
        self._splits = splits
        self._rate = check_rate(rate)

    @staticmethod
    def for_table(
        url: str | SecretRef,
        table: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        split_column: str | None = None,
        splits: int | None = None,
        rows_per_second: float | None = None,
        row_type: RowTypeInfo | None = None,
    ) -> PostgresSource:
        """Return a source of a table's rows; asks the server for the columns' types, unless they are declared.

        Args:
            url: postgresql://user:password@host/database, or any other connection string of libpq; or a secret that is
                one: the row type must then be declared, since the program has no value for it.
            table: its name, with a schema if it is not in the search path.
            columns: those to be read, in this order; None = all.
            where: a condition in SQL; goes into the queries as it is.
            split_column: a unique column of whole numbers; None: the primary key if it is one, else the table's pages.
            splits: about how many parts to cut the table into; None: by its size, at least one a subtask.
            rows_per_second: of all subtasks together; None = as fast as possible.
            row_type: names and types of the columns to be read, instead of `columns`. The server is then asked for
                nothing before the job runs, and the job fails if a column is not of its type. Whole numbers and floats
                may be declared wider than they are, and everything may be a STRING.

        Raises:
            SourceError: there is no such server, table or column, or no way to cut it; the message says which. With a
                row type, the job fails with it.
            ValueError: a number is out of range, there are columns and a row type, or a secret and no row type.
        """
        if splits is not None and splits < 1:
            raise ValueError(f"the number of splits must be at least 1, not {splits}")
        url = secret_text(url)
        if row_type is None and isinstance(url, SecretRef):
            raise ValueError(f"declare the row_type of {table!r}: the program itself has no value for {url}")
        if row_type is None:
            row_type = described(url, table, columns, split_column).row_type
        elif columns is not None:
            raise ValueError("the columns are those of the row type: leave out one of the two")
        return PostgresSource(url, table, row_type, split_column, where, splits, rows_per_second)

    def produced_type(self) -> TypeInformation | None:
        return self.row_type

    def create_enumerator(self, parallelism: int, restored: Any | None) -> PlannedSplits:
        if restored is not None:
            return PlannedSplits(None, self.split_to_json, [self.split_from_json(item) for item in restored])
        return PlannedSplits(lambda: self._plan(parallelism), self.split_to_json)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, TableSplit)
        return _TableReader(self, split, position, self._rate, context)

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, TableSplit)
        return [split.start, split.stop, split.key]

    def split_from_json(self, value: Any) -> SourceSplit:
        if len(value) == 2:
            # snapshots of earlier versions do not name the key: it is what the table has now
            value = [*value, self.shape().key]
        return TableSplit(f"{self.table}:{value[0]}", *value)

    def shape(self) -> TableShape:
        """Ask the server for the table.

        Raises:
            SourceError: see `for_table`.
        """
        return described(self.url, self.table, None, self._split_column, self.row_type)

    def _plan(self, parallelism: int) -> list[SourceSplit]:
        shape = self.shape()
        try:
            with connect(self.url) as connection:
                start, stop, wanted = _extent(shape, connection)
        except psycopg.Error as error:
            raise SourceError(f"PostgreSQL table {self.table}: {error}") from error
        parts = self._splits or max(parallelism, wanted)
        parts = max(1, min(parts, MAX_SPLITS, stop - start))
        bounds = [start + (stop - start) * part // parts for part in range(parts + 1)]
        ranges = [(bounds[i], bounds[i + 1]) for i in range(parts) if bounds[i] < bounds[i + 1]]
        return [self.split_from_json([*bound, shape.key]) for bound in ranges]


def described(
    url: str | SecretRef,
    table: str,
    columns: Sequence[str] | None,
    split_column: str | None,
    row_type: RowTypeInfo | None = None,
) -> TableShape:
    """Return what the server says of a table that is to be read in parts; arguments as of `describe_table`.

    Raises:
        SourceError: there is no such server, table or column, no way to cut it, or a column is not of its type.
    """
    try:
        shape = describe_table(url, table, columns, split_column, row_type)
    except (psycopg.Error, ValueError) as error:
        raise SourceError(f"PostgreSQL: {error}") from error
    if shape.key is None and not shape.has_pages:
        raise SourceError(f"PostgreSQL: {table!r} is not a plain table; name a unique split_column")
    return shape


def _extent(shape: TableShape, connection: psycopg.Connection[Any]) -> tuple[int, int, int]:
    """Return the first key or page, the one after the last, and the number of splits that the size calls for."""
    table = shape.identifier
    if shape.key is None:
        pages = connection.execute(
            "SELECT pg_relation_size(to_regclass(%s)) / current_setting('block_size')::int",
            [table.as_string(connection)],
        ).fetchone()
        assert pages is not None
        return 0, pages[0], math.ceil(pages[0] / SPLIT_PAGES)
    key = sql.Identifier(shape.key)
    query = sql.SQL(
        "SELECT min({key}), max({key}), (SELECT reltuples FROM pg_class WHERE oid = to_regclass({name})) FROM {table}"
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
        self._type = source.row_type
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

    def is_looking(self) -> bool:
        # a rate is another reason to have nothing
        return self._next == len(self._rows) and not self._read_ahead.is_exhausted

    def close(self) -> None:
        self._read_ahead.close()


def _read(
    source: PostgresSource, split: TableSplit, position: Any, stop: threading.Event
) -> Iterator[tuple[list[tuple[Any, ...]], list[Any]]]:
    """Yield chunks of rows with their keys or places; runs on the reader's thread."""
    shape = source.shape()
    convert = shape.row_reader()
    chunks = _by_key if split.key is not None else _by_page
    try:
        with connect(source.url) as connection, connection.cursor(binary=True) as cursor:
            for rows in chunks(_Table(shape, source.where, cursor), split, position):
                if stop.is_set():
                    return
                places = [row[-1] for row in rows]
                if split.key is None:
                    places = [[int(n) for n in place[1:-1].split(",")] for place in places]
                values = [row[:-1] for row in rows]
                yield ([convert(row) for row in values] if convert else values), places
    except psycopg.Error as error:
        raise SourceError(f"PostgreSQL table {source.table}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Table:
    """The query."""

    shape: TableShape
    where: str | None
    cursor: psycopg.Cursor[Any]


def _by_key(table: _Table, split: TableSplit, position: Any) -> Iterator[list[tuple[Any, ...]]]:
    assert split.key is not None
    start = split.start if position is None else position + 1
    while start < split.stop:
        rows = _select(table, sql.Identifier(split.key), start, split.stop, CHUNK_ROWS)
        if rows:
            yield rows
        if len(rows) < CHUNK_ROWS:
            return
        start = rows[-1][-1] + 1


def _by_page(table: _Table, split: TableSplit, position: Any) -> Iterator[list[tuple[Any, ...]]]:
    # items of a page are numbered from 1
    page, item = (split.start, 1) if position is None else (position[0], position[1] + 1)
    while page < split.stop:
        end = min(split.stop, page + CHUNK_PAGES)
        rows = _select(table, sql.SQL("ctid"), f"({page},{item})", f"({end},0)", None)
        if rows:
            yield rows
        page, item = end, 1


def _select(table: _Table, place: sql.Composable, start: Any, stop: Any, limit: int | None) -> list[tuple[Any, ...]]:
    """Return the rows whose key or place is in [start, stop), ordered by it, with it as last value; at most `limit`."""
    # literals: with parameters, percent signs in names and conditions would mean something
    query = sql.SQL(
        "SELECT {columns}, {shown} AS tidemark_place FROM {table} "
        "WHERE {place} >= {start} AND {place} < {stop}{where} ORDER BY {table}.{place} LIMIT {limit}"
    ).format(
        columns=table.shape.selected,
        shown=place if limit else sql.SQL("ctid::text"),
        table=table.shape.identifier,
        place=place,
        start=sql.Literal(start),
        stop=sql.Literal(stop),
        where=sql.SQL("" if table.where is None else f" AND ({table.where})"),
        limit=sql.SQL("ALL") if limit is None else sql.Literal(limit),
    )
    return table.cursor.execute(query).fetchall()
