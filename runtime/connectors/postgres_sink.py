"""PostgresSink: rows into a table: appended at least or exactly once, or by key inserted, updated and deleted.

A thread writes. At least once, what waits for it goes into one transaction. By key, rows go into a temporary table
first, from which two statements merge them: the last row of each key counts. If it takes an earlier one back, the key
is deleted: an UPDATE_BEFORE costs nothing where its UPDATE_AFTER comes in the same transaction, and is not lost where a
filter has dropped that one. What was written behind the last snapshot is written again after a restart, which by key
changes nothing in the end. Exactly once, all rows between two checkpoints go into one transaction, see
`postgres_transactions`. Source: Flink, the JDBC connector's three modes and its TableBufferReducedStatementExecutor.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import psycopg

from runtime.common.secrets import SecretRef, secret_text
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.background import BackgroundWriter
from runtime.connectors.postgres_rows import Changes, RowCopier, Statements, check_inserts
from runtime.connectors.postgres_table import connect
from runtime.connectors.postgres_transactions import (
    TransactionCommitter,
    TransactionSweeper,
    TransactionTarget,
    TransactionWriter,
)
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    Committer,
    DeliveryGuarantee,
    Sink,
    SinkError,
    SinkWriter,
    Sweeper,
    WriterContext,
)


class PostgresSink(Sink):
    """Writes rows; their field names are the names of columns.

    Args:
        url: postgresql://user:password@host/database, or any other connection string of libpq; or a secret that is
            one.
        table: its name, with a schema if it is not in the search path.
        key_columns: columns with a unique index; rows then replace those of the same key, and rows of kind DELETE or
            UPDATE_BEFORE delete them. All rows of a key have to come from one subtask: key the stream by these columns
            where it is not. None: rows are appended, and must all be of kind INSERT.
        max_retries: how often a transaction is tried again when the connection breaks.
        retry_interval_ms: time before it is tried again.
        delivery_guarantee: EXACTLY_ONCE, without key_columns only: rows appear when the checkpoint behind them is
            complete. The server has to allow prepared transactions (max_prepared_transactions).
        lock_timeout_ms: EXACTLY_ONCE: how long a row may wait for another transaction that has written the same unique
            value, before the job fails; between two subtasks that wait would have no end.

    Raises:
        ValueError: a number is negative, or rows with keys are to be written exactly once.
    """

    state_format = "transactions of PostgreSQL"

    def __init__(
        self,
        url: str | SecretRef,
        table: str,
        key_columns: Sequence[str] | None = None,
        max_retries: int = 3,
        retry_interval_ms: int = 500,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        lock_timeout_ms: int = 5_000,
    ) -> None:
        if max_retries < 0 or retry_interval_ms < 0 or lock_timeout_ms < 0:
            raise ValueError("max_retries, retry_interval_ms and lock_timeout_ms must not be negative")
        if key_columns and delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ValueError(
                "rows with key_columns are not written in transactions of their own: writing them again changes nothing"
            )
        self.url = secret_text(url)
        self.table = table
        self.key_columns = list(key_columns or ())
        self.max_retries = max_retries
        self.retry_interval_ms = retry_interval_ms
        self.delivery_guarantee = delivery_guarantee
        self.lock_timeout_ms = lock_timeout_ms

    @property
    def _is_transactional(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def _target(self) -> TransactionTarget:
        return TransactionTarget(
            self.url, self.table, self.max_retries, self.retry_interval_ms / 1000.0, self.lock_timeout_ms
        )

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        row_type = context.input_type
        if not isinstance(row_type, RowTypeInfo):
            raise SinkError("PostgreSQL needs rows of a known type; give the stream before it an output_type")
        missing = [name for name in self.key_columns if name not in row_type.get_field_names()]
        if missing:
            raise SinkError(f"the rows have no field {missing[0]!r}; they have {row_type.get_field_names()}")
        if self._is_transactional:
            return TransactionWriter(self._target, row_type, context)
        return _TableWriter(self, row_type)

    def accepts_changelog(self) -> bool:
        return bool(self.key_columns)

    def keeps_state(self) -> bool:
        return self._is_transactional

    def create_committer(self) -> Committer | None:
        # also at least once: a snapshot may hold transactions, which were written exactly once. Without any it does not
        # connect
        return TransactionCommitter(self._target)

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        return TransactionSweeper(self._target, context) if self._is_transactional or context.held else None


class _TableWriter(SinkWriter):
    def __init__(self, sink: PostgresSink, row_type: RowTypeInfo) -> None:
        self._sink = sink
        self._statements = Statements(sink.table, row_type.get_field_names(), sink.key_columns)
        self._copier = RowCopier(row_type, self._statements)
        self._connection: psycopg.Connection[Any] | None = None
        self._stop = threading.Event()
        self._writer = BackgroundWriter(f"postgres-{sink.table}", self._write_all, close=self._disconnect)

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            if not self._sink.key_columns:
                check_inserts(batch)
                self._writer.submit(Changes(batch, None))
            else:
                self._writer.submit(Changes.of(batch))

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._writer.drain()

    def close(self) -> None:
        self._stop.set()
        self._writer.close()

    # --- on the writer's thread ---------------------------------------------------------------------------------------

    def _write_all(self, changes: list[Changes]) -> None:
        for attempt in itertools.count():
            try:
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    self._write_transaction(cursor, changes)
                return
            except psycopg.OperationalError as error:
                self._disconnect()
                if attempt >= self._sink.max_retries or self._stop.wait(self._sink.retry_interval_ms / 1000.0):
                    raise SinkError(f"PostgreSQL table {self._sink.table}: {error}") from error
            except psycopg.Error as error:
                raise SinkError(f"PostgreSQL table {self._sink.table}: {error}") from error

    def _write_transaction(self, cursor: psycopg.Cursor[Any], changes: list[Changes]) -> None:
        statements = self._statements
        if all(change.takes_back is None for change in changes):
            self._copier.copy(cursor, [change.batch for change in changes])
        else:
            self._copier.copy_changes(cursor, changes)
            # before the others are written: one of them may have a unique value that another key had
            cursor.execute(statements.delete)
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
