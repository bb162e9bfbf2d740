"""PostgresSink: rows into a table, at least once: appended, or by key inserted, updated and deleted.

A thread writes; what waits for it goes into one transaction. Rows travel as COPY in CSV, made from columns in one
call. By key they go into a temporary table first, from which one statement merges them: the last row of each key
counts. What was written behind the last snapshot is written again after a restart, which by key changes nothing.
Source: Flink, the JDBC connector's at-least-once and upsert modes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import Row, RowKind
from runtime.connectors.background import BackgroundWriter
from runtime.connectors.files.writer_formats import CsvWriterFormat
from runtime.connectors.postgres_table import connect, table_identifier
from runtime.core.batch import RecordBatch
from runtime.operators.sink import Sink, SinkError, SinkWriter, WriterContext

_STAGE = sql.Identifier("tidemark_stage")
_ORDER = sql.Identifier("tidemark_order")


class PostgresSink(Sink):
    """Writes rows; their field names are the names of columns.

    Args:
        url: postgresql://user:password@host/database, or any other connection string of libpq.
        table: its name, with a schema if it is not in the search path.
        key_columns: columns with a unique index; rows then replace those of the same key, and rows of kind DELETE
            delete them. None: rows are appended, and must all be of kind INSERT.
        max_retries: how often a transaction is tried again when the connection breaks.
        retry_interval_ms: time before it is tried again.

    Raises:
        ValueError: a number is negative.
    """

    def __init__(
        self,
        url: str,
        table: str,
        key_columns: Sequence[str] | None = None,
        max_retries: int = 3,
        retry_interval_ms: int = 500,
    ) -> None:
        if max_retries < 0 or retry_interval_ms < 0:
            raise ValueError("max_retries and retry_interval_ms must not be negative")
        self.url = url
        self.table = table
        self.key_columns = list(key_columns or ())
        self.max_retries = max_retries
        self.retry_interval_ms = retry_interval_ms

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        row_type = context.input_type
        if not isinstance(row_type, RowTypeInfo):
            raise SinkError("PostgreSQL needs rows of a known type; give the stream in front an output_type")
        missing = [name for name in self.key_columns if name not in row_type.get_field_names()]
        if missing:
            raise SinkError(f"the rows have no field {missing[0]!r}; they have {row_type.get_field_names()}")
        return _TableWriter(self, row_type)


class _Run(NamedTuple):
    """Rows that follow each other and are all to be written, or all to be deleted."""

    is_delete: bool
    batch: RecordBatch


class _TableWriter(SinkWriter):
    def __init__(self, sink: PostgresSink, row_type: RowTypeInfo) -> None:
        self._sink = sink
        self._type = row_type
        self._csv: CsvWriterFormat | None = CsvWriterFormat(has_header=False)
        try:
            self._csv.check(row_type)
        except SinkError:
            # arrays, bytes: value by value
            self._csv = None
        self._statements = _Statements(sink.table, row_type.get_field_names(), sink.key_columns)
        self._connection: psycopg.Connection[Any] | None = None
        self._stop = threading.Event()
        self._writer = BackgroundWriter(f"postgres-{sink.table}", self._write_all, close=self._disconnect)

    def write(self, batch: RecordBatch) -> None:
        for run in self._runs(batch):
            self._writer.submit(run)

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._writer.drain()

    def close(self) -> None:
        self._stop.set()
        self._writer.close()

    def _runs(self, batch: RecordBatch) -> list[_Run]:
        if not batch.num_rows:
            return []
        if not batch.has_values:
            # kinds of rows exist in rows only
            return [_Run(False, batch)]
        runs = []
        rows = batch.values()
        if not self._sink.key_columns:
            other = next((row for row in rows if row.get_row_kind() is not RowKind.INSERT), None)
            if other is not None:
                raise SinkError(f"a row of kind {other.get_row_kind().short_string} needs key_columns: {other!r:.200}")
            return [_Run(False, batch)]
        for kind, group in itertools.groupby(rows, _effect):
            if kind is not None:
                runs.append(_Run(kind, RecordBatch.of_values(list(group), type_info=self._type)))
        return runs

    # --- on the writer's thread ---------------------------------------------------------------------------------------

    def _write_all(self, runs: list[_Run]) -> None:
        for attempt in itertools.count():
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    for is_delete, group in itertools.groupby(runs, lambda run: run.is_delete):
                        self._write_group(cursor, is_delete, [run.batch for run in group])
                return
            except psycopg.OperationalError as error:
                self._disconnect()
                if attempt >= self._sink.max_retries or self._stop.wait(self._sink.retry_interval_ms / 1000.0):
                    raise SinkError(f"PostgreSQL table {self._sink.table}: {error}") from error
            except psycopg.Error as error:
                raise SinkError(f"PostgreSQL table {self._sink.table}: {error}") from error

    def _write_group(self, cursor: psycopg.Cursor[Any], is_delete: bool, batches: list[RecordBatch]) -> None:
        statements = self._statements
        if is_delete:
            keys = [tuple(row.get_fields_by_names(statements.keys)) for b in batches for row in b.values()]
            cursor.executemany(statements.delete, keys)
            return
        with cursor.copy(statements.copy if self._csv is None else statements.copy_csv) as copy:
            for batch in batches:
                if self._csv is not None:
                    copy.write(self._csv.render(batch, self._type))
                else:
                    for row in batch.values():
                        copy.write_row(tuple(row))
        if statements.keys:
            cursor.execute(statements.merge)
            cursor.execute(statements.clear)

    def _connect(self) -> psycopg.Connection[Any]:
        connection = connect(self._sink.url)
        if self._statements.keys:
            connection.execute(self._statements.create_stage)
            connection.execute(self._statements.number_stage)
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _effect(row: Row) -> bool | None:
    """Whether a row deletes; None if it does nothing: the row behind it has the same key."""
    kind = row.get_row_kind()
    return None if kind is RowKind.UPDATE_BEFORE else kind is RowKind.DELETE


class _Statements:
    """The statements of one table."""

    def __init__(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> None:
        self.keys = list(keys)
        names = {"table": table_identifier(table), "stage": _STAGE, "order": _ORDER}
        columns_sql, keys_sql = _list(columns), _list(keys)
        target = _STAGE if keys else table_identifier(table)
        self.copy = sql.SQL("COPY {target} ({columns}) FROM STDIN").format(target=target, columns=columns_sql)
        self.copy_csv = self.copy + sql.SQL(" (FORMAT csv)")
        self.create_stage = sql.SQL(
            "CREATE TEMPORARY TABLE {stage} AS SELECT {columns} FROM {table} WITH NO DATA"
        ).format(columns=columns_sql, **names)
        self.number_stage = sql.SQL("ALTER TABLE {stage} ADD {order} bigint GENERATED ALWAYS AS IDENTITY").format(
            **names
        )
        self.clear = sql.SQL("TRUNCATE {stage}").format(**names)
        updates = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(c)) for c in columns if c not in keys]
        action = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if updates else sql.SQL("NOTHING")
        self.merge = sql.SQL(
            "INSERT INTO {table} ({columns}) SELECT DISTINCT ON ({keys}) {columns} FROM {stage} "
            "ORDER BY {keys}, {order} DESC ON CONFLICT ({keys}) DO {action}"
        ).format(columns=columns_sql, keys=keys_sql, action=action, **names)
        # the only statement with parameters: in it, a percent sign of a name is doubled
        matches = [sql.SQL("{} = %s").format(sql.Identifier(key.replace("%", "%%"))) for key in keys]
        self.delete = sql.SQL("DELETE FROM {table} WHERE {matches}").format(
            table=table_identifier(table.replace("%", "%%")), matches=sql.SQL(" AND ").join(matches)
        )


def _list(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(list(map(sql.Identifier, names)))
