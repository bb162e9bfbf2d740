"""PostgresLookup: looks up a table's rows for the key of each record, as an asynchronous function with a cache.

For `AsyncDataStream`. Keys that are wanted at the same time go into one query. Everything but `open` runs in the
operator's asyncio loop; nothing connects before the first record. What is in the cache may be as old as its time to
live.
Source: Flink, the lookup joins of the JDBC connector.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from runtime.common.secrets import SecretRef, secret_text
from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import Row, row_of
from runtime.connectors.postgres_table import CONNECT_TIMEOUT_S, TableShape, connection_string, describe_table
from runtime.operators.async_functions import AsyncFunction
from runtime.operators.functions import RuntimeContext

Key = tuple[Any, ...]


class PostgresLookup(AsyncFunction[Any, Any]):
    """Returns `join(record, row)` for each row that has the record's key.

    Args:
        url: postgresql://user:password@host/database, or any other connection string of libpq; or a secret that is
            one.
        table: its name, with a schema if it is not in the search path.
        key_columns: the columns that a key is compared with.
        key: record → key: a value, or a tuple of as many values as there are key columns. None matches nothing.
        join: (record, row or None) → result; None: the pair itself.
        columns: those of a row; None = all.
        is_left: whether a record without a row gives `join(record, None)`; else it gives nothing.
        cache_rows: number of keys that are remembered, also those without a row; 0 = none.
        cache_ttl_ms: for how long.
        batch_keys: keys of one query.
        row_type: names and types of a row's columns, instead of `columns`; the lookup fails if a column is not of its
            type. Whole numbers and floats may be declared wider than they are, and everything may be a STRING.

    Raises:
        ValueError: no key column, columns and a row type, or a number is out of range.
    """

    def __init__(
        self,
        url: str | SecretRef,
        table: str,
        key_columns: Sequence[str],
        key: Callable[[Any], Any],
        join: Callable[[Any, Row | None], Any] | None = None,
        columns: Sequence[str] | None = None,
        is_left: bool = False,
        cache_rows: int = 10_000,
        cache_ttl_ms: int = 60_000,
        batch_keys: int = 500,
        row_type: RowTypeInfo | None = None,
    ) -> None:
        if not key_columns:
            raise ValueError("a lookup needs at least one key column")
        if cache_rows < 0 or cache_ttl_ms < 0 or batch_keys < 1:
            raise ValueError("cache_rows and cache_ttl_ms must not be negative, batch_keys must be at least 1")
        if columns is not None and row_type is not None:
            raise ValueError("the columns are those of the row type: leave out one of the two")
        self._url = secret_text(url)
        self._table = table
        self._key_columns = list(key_columns)
        self._columns = None if columns is None else list(columns)
        self._row_type = row_type
        self._key = key
        self._join = join
        self._is_left = is_left
        self._cache_rows = cache_rows
        self._cache_ttl_s = cache_ttl_ms / 1000.0
        self._batch_keys = batch_keys

    @staticmethod
    def by_columns(
        url: str | SecretRef,
        table: str,
        input_type: RowTypeInfo,
        on: Mapping[str, str],
        row_type: RowTypeInfo,
        suffix: str = "_right",
        is_left: bool = False,
        cache_rows: int = 10_000,
        cache_ttl_ms: int = 60_000,
        batch_keys: int = 500,
    ) -> PostgresColumnLookup:
        """Return a lookup that makes one row of a record and each of its rows; nothing connects before the job runs.

        Its `output_type` goes to the AsyncDataStream's call: the record's columns, then the row's; where both have one
        of a name, the row's gets the suffix.

        Args:
            url, table, cache_rows, cache_ttl_ms, batch_keys: as above.
            input_type: of the records.
            on: column of the record → column of the table that it is compared with; null matches nothing.
            row_type: names and types of the table's columns that are wanted.
            suffix: see above.
            is_left: whether a record without a row gives a row with nulls; else it gives nothing.

        Raises:
            ValueError: a column does not exist or its name is taken, none is compared, or a number is out of range.
        """
        return PostgresColumnLookup(
            url, table, input_type, dict(on), row_type, suffix, is_left, cache_rows, cache_ttl_ms, batch_keys
        )

    @property
    def row_type(self) -> RowTypeInfo:
        """Return the type of the rows: the declared one, else the server is asked for it.

        Raises:
            ValueError: there is no such table or column, or a secret is the address: declare the row type.
            psycopg.OperationalError: there is no server, or it refuses.
        """
        if self._row_type is not None:
            return self._row_type
        if isinstance(self._url, SecretRef):
            raise ValueError(
                f"declare the row_type of {self._table!r}: the program itself has no value for {self._url}"
            )
        return self._described().shape.row_type

    def open(self, runtime_context: RuntimeContext) -> None:
        self._address = connection_string(self._url)
        #: key → rows and when they expire, the least recently used first
        self._cache: OrderedDict[Key, tuple[float, list[Row]]] = OrderedDict()
        self._wanted: dict[Key, asyncio.Future[list[Row]]] = {}
        self._has_wanted = asyncio.Event()
        self._server: asyncio.Task[None] | None = None
        #: once it has been asked for
        self._known: _Described | None = None
        group = runtime_context.get_metrics_group()
        self._hits = group.counter("lookupCacheHits")
        self._misses = group.counter("lookupCacheMisses")

    async def async_invoke(self, value: Any) -> list[Any]:
        key = self._key(value)
        key = key if isinstance(key, tuple) else (key,)
        if len(key) != len(self._key_columns):
            raise ValueError(f"the key {key!r} has {len(key)} values for {len(self._key_columns)} key columns")
        rows = [] if None in key else await self._rows_of(key)
        joined: list[Row | None] = [None] if not rows and self._is_left else list(rows)
        join = self._join
        return [(value, row) for row in joined] if join is None else [join(value, row) for row in joined]

    async def _rows_of(self, key: Key) -> list[Row]:
        now = asyncio.get_running_loop().time()
        cached = self._cache.get(key)
        if cached is not None and cached[0] > now:
            self._hits.count += 1
            self._cache.move_to_end(key)
            return cached[1]
        self._misses.count += 1
        future = self._wanted.get(key)
        if future is None:
            future = self._wanted[key] = asyncio.get_running_loop().create_future()
            self._has_wanted.set()
            if self._server is None or self._server.done():
                self._server = asyncio.get_running_loop().create_task(self._serve())
        # one caller's cancellation must not be the others'
        return await asyncio.shield(future)

    async def _serve(self) -> None:
        """Answer the wanted keys over one connection; ends with an error of it, and is then started anew."""
        batch: dict[Key, asyncio.Future[list[Row]]] = {}
        try:
            known = self._known
            if known is None:
                # other records' lookups, and the slot's loop, go on meanwhile
                known = self._known = await asyncio.to_thread(self._described)
            connection = await psycopg.AsyncConnection.connect(
                self._address, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
            )
            async with connection:
                while True:
                    await self._has_wanted.wait()
                    keys = list(self._wanted)[: self._batch_keys]
                    batch = {key: self._wanted.pop(key) for key in keys}
                    if not self._wanted:
                        self._has_wanted.clear()
                    await self._answer(connection, known, batch)
                    batch = {}
        except (psycopg.Error, OSError, ValueError) as error:
            kind = ValueError if isinstance(error, ValueError) else ConnectionError
            failed = batch or self._wanted
            for future in failed.values():
                if not future.done():
                    future.set_exception(kind(f"PostgreSQL table {self._table}: {error}"))
                    # those that asked may be gone
                    future.exception()
            failed.clear()

    async def _answer(
        self, connection: psycopg.AsyncConnection[Any], known: _Described, batch: dict[Key, asyncio.Future[list[Row]]]
    ) -> None:
        keys = list(batch)
        found: list[list[Row]] = [[] for _ in keys]
        names = tuple(known.shape.row_type.get_field_names())
        convert = known.shape.row_reader()
        cursor = await connection.execute(known.query, [list(column) for column in zip(*keys, strict=True)])
        for number, *values in await cursor.fetchall():
            found[number - 1].append(row_of(convert(values) if convert else tuple(values), names))
        expires = asyncio.get_running_loop().time() + self._cache_ttl_s
        for key, rows in zip(keys, found, strict=True):
            if self._cache_rows:
                self._cache[key] = (expires, rows)
                self._cache.move_to_end(key)
            if not batch[key].done():
                batch[key].set_result(rows)
        while len(self._cache) > self._cache_rows:
            self._cache.popitem(last=False)

    def _described(self) -> _Described:
        """Ask the server about the table.

        Raises:
            ValueError: there is no such table or column, a column is not of its declared type, or a name has a percent
                sign.
            psycopg.OperationalError: there is no server, or it refuses.
        """
        shape = describe_table(self._url, self._table, self._columns, None, self._row_type)
        if any("%" in name for name in (self._table, *self._key_columns, *shape.row_type.get_field_names())):
            raise ValueError("a name with a percent sign cannot be looked up")
        return _Described(shape, _query(shape, describe_table(self._url, self._table, self._key_columns, None)))


class PostgresColumnLookup(PostgresLookup):
    """A lookup whose results are rows; made by `PostgresLookup.by_columns`."""

    def __init__(
        self,
        url: str | SecretRef,
        table: str,
        input_type: RowTypeInfo,
        on: Mapping[str, str],
        row_type: RowTypeInfo,
        suffix: str,
        is_left: bool,
        cache_rows: int,
        cache_ttl_ms: int,
        batch_keys: int,
    ) -> None:
        names = list(input_type.get_field_names())
        for name in on:
            if name not in names:
                raise ValueError(f"the records have no column {name!r}; they have {names}")
        looked_up = [name + suffix if name in names else name for name in row_type.get_field_names()]
        taken = [name for name in looked_up if [*names, *looked_up].count(name) > 1]
        if taken:
            raise ValueError(f"there is a column {taken[0]!r} already: choose another suffix")
        self.output_type = RowTypeInfo(
            [*input_type.get_field_types(), *row_type.get_field_types()], [*names, *looked_up]
        )
        self._names = (*names, *looked_up)
        self._compared = tuple(on)
        self._nothing = (None,) * len(looked_up)
        super().__init__(
            url,
            table,
            list(on.values()),
            self._key_of,
            self._joined,
            is_left=is_left,
            cache_rows=cache_rows,
            cache_ttl_ms=cache_ttl_ms,
            batch_keys=batch_keys,
            row_type=row_type,
        )

    def _key_of(self, record: Row) -> Key:
        return tuple([record[name] for name in self._compared])

    def _joined(self, record: Row, row: Row | None) -> Row:
        return row_of((*record, *(self._nothing if row is None else row)), self._names)


@dataclass(frozen=True, slots=True)
class _Described:
    """The table, as the server describes it."""

    shape: TableShape
    query: sql.Composed


def _query(shape: TableShape, keys: TableShape) -> sql.Composed:
    """Return the rows for arrays of keys, each with its key's number, from 1."""
    names = [sql.Identifier(f"tidemark_key_{i}") for i in range(len(keys.columns))]
    arrays = [sql.SQL("%s::{}[]").format(sql.Identifier(column.pg_type)) for column in keys.columns]
    matches = [
        sql.SQL("{} = {}").format(sql.Identifier(column.name), name)
        for column, name in zip(keys.columns, names, strict=True)
    ]
    return sql.SQL(
        "SELECT tidemark_number, {columns} FROM unnest({arrays}) WITH ORDINALITY AS wanted({names}, tidemark_number) "
        "JOIN {table} ON {matches}"
    ).format(
        columns=shape.selected,
        arrays=sql.SQL(", ").join(arrays),
        names=sql.SQL(", ").join(names),
        table=shape.identifier,
        matches=sql.SQL(" AND ").join(matches),
    )
