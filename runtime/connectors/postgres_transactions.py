"""Exactly-once rows in PostgreSQL: one transaction per subtask and checkpoint, prepared, then committed by its name.

A thread copies rows as they come, into a transaction that the server keeps open. The snapshot waits for it and says
PREPARE TRANSACTION; the completed checkpoint, or whoever restores it, says COMMIT PREPARED. If an answer is lost the
server still knows: the committable holds the transaction's number too, whose fate can be asked for.
Source: PostgreSQL, PREPARE TRANSACTION, txid_status; Flink, JdbcXaSinkFunction.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from runtime.common import options
from runtime.common.secrets import SecretRef
from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.background import BackgroundWriter
from runtime.connectors.postgres_rows import RowCopier, Statements, check_inserts
from runtime.connectors.postgres_table import connect, table_identifier
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    CommitTally,
    Committer,
    SinkError,
    SinkSetupError,
    SinkWriter,
    SnapshotUnusableError,
    Sweeper,
    WriterContext,
)
from runtime.operators.two_phase_commit import Leftovers, TransactionId, TransactionIds, transaction_prefix

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

#: Limits on open transactions: between two batches one is idle, and it lives as long as a checkpoint takes to come.
_LIMITS = ["idle_in_transaction_session_timeout", "transaction_timeout"]
_COMMITTED, _ABORTED = "committed", "aborted"

MAX_FAILURES_COUNTED = 5
"""Failed checkpoints in a row that the server must have room for, where so many or more are tolerated. Above, servers
would be refused for something that hardly happens; below, a storage that is away for a moment fails the job.
"""
_MAX_NAMED = 3
"""Transactions of other jobs that an error names."""


@dataclass(frozen=True, slots=True)
class TransactionTarget:
    """Table that transactions write to."""

    url: str | SecretRef
    table: str
    max_retries: int
    retry_interval_s: float
    lock_timeout_ms: int

    def error(self, error: object) -> SinkError:
        """Return the sink's error for an error of the server."""
        return SinkError(f"PostgreSQL table {self.table}: {error}")


class _Session:
    """A connection for short statements, made when there is something to say. Used by one thread."""

    def __init__(self, target: TransactionTarget) -> None:
        self._target = target
        self._connection: Connection | None = None

    def run(self, action: Callable[[Connection], T]) -> tuple[T, int]:
        """Run an action, again while the server cannot be reached or is busy with it.

        Returns:
            What the action returned, and how often it was tried again.

        Raises:
            SinkError: the server refuses, or is away for too long.
        """
        target = self._target
        for attempt in itertools.count():
            try:
                if self._connection is None:
                    self._connection = connect(target.url)
                return action(self._connection), attempt
            except psycopg.OperationalError as error:
                self.close()
                if attempt >= target.max_retries:
                    raise target.error(error) from error
                # the task waits: it could do nothing else, and not for long
                time.sleep(target.retry_interval_s)
            except psycopg.Error as error:
                raise target.error(error) from error
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Disconnect; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class TransactionWriter(SinkWriter):
    """Writes transactions. Its committables are {"gid": the prepared transaction's name, "xid": its number}."""

    def __init__(self, target: TransactionTarget, row_type: RowTypeInfo, context: WriterContext) -> None:
        self._target = target
        self._context = context
        self._copier = RowCopier(row_type, Statements(target.table, row_type.get_field_names(), ()))
        self._ids = TransactionIds(context)
        #: of the transaction that rows go to; None until there is a first row
        self._gid: str | None = None
        #: prepared at the end of the input, so in no snapshot yet
        self._unheld: list[str] = []
        self._has_ended = False
        self._stop = threading.Event()
        #: used by the writer's thread, and by the task's while that has nothing to do
        self._connection: Connection | None = None
        self._is_begun = False
        self._session = _Session(target)
        try:
            self._session.run(self._check_server)
        finally:
            self._session.close()
        self._writer = BackgroundWriter(f"postgres-{target.table}", self._write_all, close=self._disconnect)

    def _check_server(self, connection: Connection) -> None:
        allowed = int(_only(connection, "SHOW max_prepared_transactions"))
        configuration = self._context.configuration
        concurrent = configuration.get(options.MAX_CONCURRENT_CHECKPOINTS)
        failed = min(configuration.get(options.TOLERABLE_FAILED_CHECKPOINTS), MAX_FAILURES_COUNTED)
        # each subtask has one that is being committed, one for each checkpoint under way, and those of checkpoints that
        # failed and of a savepoint, which the next checkpoint commits
        needed = self._context.parallelism * (concurrent + failed + 2)
        if allowed < needed:
            raise SinkSetupError(
                f"PostgreSQL table {self._target.table}: the server keeps {allowed} prepared transactions, and "
                f"{self._context.parallelism} subtasks need {needed} to write exactly once; set "
                f"max_prepared_transactions to {needed} or more and restart the server, or lower the parallelism"
            )

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            check_inserts(batch)
            if self._gid is None:
                self._gid = str(self._ids.next())
            self._writer.submit(batch)

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = end_of_input
        self._writer.drain()

    def prepare_commit(self) -> Sequence[Any]:
        gid, self._gid = self._gid, None
        if gid is None:
            return ()
        connection = self._connection
        assert connection is not None
        try:
            xid = str(_only(connection, "SELECT txid_current()"))
        except psycopg.Error as error:
            raise self._target.error(error) from error
        self._prepare(connection, gid, xid)
        self._is_begun = False
        if self._has_ended:
            self._unheld.append(gid)
        return [{"gid": gid, "xid": xid}]

    def snapshot_state(self) -> Sequence[Any]:
        self._unheld = []
        return ()

    def committed(self, committables: Sequence[Any]) -> None:
        self._unheld = []

    def close(self) -> None:
        self._stop.set()
        # the server rolls back what is not prepared when the connection ends
        self._writer.close()
        self._session.close()
        unheld, self._unheld = self._unheld, []
        if unheld:
            # what this does not reach is left to the next attempt
            with suppress(psycopg.Error), connect(self._target.url) as connection:
                for gid in unheld:
                    _roll_back(connection, gid)

    def _prepare(self, connection: Connection, gid: str, xid: str) -> None:
        try:
            connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
        except psycopg.OperationalError as error:
            self._disconnect()
            if not isinstance(error, psycopg.errors.OperatorIntervention) and error.sqlstate is not None:
                raise self._target.error(error) from error
            # the connection is gone, the transaction need not be
            cause = error
            self._session.run(lambda other: self._await_prepared(other, gid, xid, cause))
            self._session.close()
        except psycopg.Error as error:
            raise self._target.error(error) from error

    def _await_prepared(self, connection: Connection, gid: str, xid: str, cause: Exception) -> None:
        if _is_prepared(connection, gid):
            return
        if _status(connection, xid) == _ABORTED:
            raise self._target.error(cause) from cause
        # the server has not noticed yet that nobody is there, or is still at it
        raise psycopg.OperationalError(f"transaction {gid} is not prepared: {cause}")

    # --- on the writer's thread ---------------------------------------------------------------------------------------

    def _write_all(self, batches: list[RecordBatch]) -> None:
        for attempt in itertools.count():
            was_begun = self._is_begun
            try:
                connection = self._connection = self._connection or self._connect()
                if not was_begun:
                    connection.execute("BEGIN")
                    self._is_begun = True
                with connection.cursor() as cursor:
                    self._copier.copy(cursor, batches)
                return
            except psycopg.errors.LockNotAvailable as error:
                raise self._target.error(self._describe_wait(connection, error)) from error
            except psycopg.OperationalError as error:
                self._disconnect()
                self._is_begun = False
                # rows that were written before are gone with the transaction: only the source has them still
                if was_begun or attempt >= self._target.max_retries or self._stop.wait(self._target.retry_interval_s):
                    raise self._target.error(error) from error
            except psycopg.Error as error:
                raise self._target.error(error) from error

    def _describe_wait(self, connection: Connection, error: Exception) -> str:
        target, others = self._target, list[str]()
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
            others = _prepared_by_others(connection, target.table, self._context.job_id)
        advice = "rows of one key must come to one subtask, once in a checkpoint"
        if others:
            named = ", ".join(others[:_MAX_NAMED])
            more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
            advice = (
                f"transactions that other jobs have prepared in this table: {named}{more}; if those jobs do not run, "
                f"start from their newest checkpoint with {options.RECOVERY_CLAIM_MODE.key}: CLAIM, which ends them, "
                "or, where that checkpoint has been restored, run ROLLBACK PREPARED yourself"
            )
        return (
            f"a row waited for {target.lock_timeout_ms} ms for a transaction that has written the same unique value; "
            f"{advice}: {error}"
        )

    def _connect(self) -> Connection:
        connection = connect(self._target.url)
        connection.execute("SELECT set_config(name, '0', false) FROM pg_settings WHERE name = ANY(%s)", [_LIMITS])
        connection.execute("SELECT set_config('lock_timeout', %s, false)", [str(self._target.lock_timeout_ms)])
        name = f"{_session_prefix(self._context)}{self._context.owner}-{self._context.attempt}"
        connection.execute("SELECT set_config('application_name', %s, false)", [name])
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class TransactionCommitter(Committer):
    """Commits prepared transactions."""

    def __init__(self, target: TransactionTarget) -> None:
        self._target = target
        self._session = _Session(target)

    def commit(self, committables: Sequence[Any]) -> CommitTally:
        left = list(committables)
        already_committed = 0

        def commit_left(connection: Connection) -> None:
            nonlocal already_committed
            while left:
                already_committed += not self._commit(connection, left[0])
                del left[0]

        _, retried = self._session.run(commit_left)
        return CommitTally(already_committed, retried)

    def check(self, committables: Sequence[Any]) -> None:
        self._session.run(lambda connection: self._check(connection, committables))

    def _check(self, connection: Connection, committables: Sequence[Any]) -> None:
        gids = [item["gid"] for item in committables]
        found = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE gid = ANY(%s)", [gids]).fetchall()
        prepared = {gid for (gid,) in found}
        for item in committables:
            if item["gid"] not in prepared and _status(connection, item["xid"]) == _ABORTED:
                raise self._lost(item["gid"])

    def _lost(self, gid: str) -> SnapshotUnusableError:
        return SnapshotUnusableError(
            f"PostgreSQL table {self._target.table}: transaction {gid} was rolled back, by hand or by a job that went "
            "back behind the snapshot which holds it; its rows are lost"
        )

    def _commit(self, connection: Connection, item: Any) -> bool:
        """Commit a transaction; returns whether it was not committed before."""
        gid, xid = item["gid"], item["xid"]
        try:
            connection.execute(sql.SQL("COMMIT PREPARED {}").format(gid))
            return True
        except psycopg.errors.UndefinedObject:
            # nobody knows any more what became of a very old one; it was in a completed checkpoint, so it was committed
            if _status(connection, xid) != _ABORTED:
                return False
        raise self._lost(gid)

    def close(self) -> None:
        self._session.close()


class TransactionSweeper(Sweeper):
    """Ends older attempts' sessions, and rolls back what they have prepared."""

    def __init__(self, target: TransactionTarget, context: WriterContext) -> None:
        self._context = context
        self._session = _Session(target)
        self._leftovers = Leftovers(context)

    def sweep(self, held: Sequence[Any]) -> None:
        spared = {item["gid"] for item in held}
        self._session.run(lambda connection: self._sweep(connection, spared))
        self._leftovers.predecessors.seal()

    def _sweep(self, connection: Connection, spared: set[str]) -> None:
        context, prefix = self._context, _session_prefix(self._context)
        sessions = connection.execute(
            "SELECT pid, application_name FROM pg_stat_activity WHERE starts_with(application_name, %s)", [prefix]
        ).fetchall()
        for pid, name in sessions:
            owner, _, attempt = name.removeprefix(prefix).partition("-")
            if self._leftovers.predecessors.has_left(owner, int(attempt)):
                # a frozen process holds locks on the rows that it has written
                connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        prepared = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)",
            [transaction_prefix(context.origin_job_id, context.operator_id)],
        ).fetchall()
        for gid in self._leftovers.among([gid for (gid,) in prepared], spared):
            _roll_back(connection, gid)

    def close(self) -> None:
        self._session.close()


def _session_prefix(context: WriterContext) -> str:
    # a session's name has 63 characters at most
    return f"tidemark-{context.origin}-"


def _prepared_by_others(connection: Connection, table: str, job_id: str) -> list[str]:
    """Return the prepared transactions that have written to a table, and are not of that job; oldest first."""
    found = connection.execute(
        # each holds a lock on its own number, and what says so names the transaction as its other locks do
        "SELECT gid FROM pg_prepared_xacts AS p JOIN pg_locks AS own ON own.transactionid = p.transaction "
        "WHERE own.pid IS NULL AND p.database = current_database() AND own.virtualtransaction IN "
        "(SELECT virtualtransaction FROM pg_locks WHERE pid IS NULL AND relation = to_regclass(%s)) ORDER BY prepared",
        [table_identifier(table).as_string(connection)],
    ).fetchall()
    ids = {gid: TransactionId.parse(gid) for (gid,) in found}
    return [gid for gid, known in ids.items() if known is None or known.job_id != job_id]


def _only(connection: Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def _is_prepared(connection: Connection, gid: str) -> bool:
    return connection.execute("SELECT FROM pg_prepared_xacts WHERE gid = %s", [gid]).fetchone() is not None


def _status(connection: Connection, xid: str) -> str | None:
    """Return committed | aborted | in progress; None: it is too long ago."""
    row = connection.execute("SELECT txid_status(%s::bigint)", [xid]).fetchone()
    return None if row is None else row[0]


def _roll_back(connection: Connection, gid: str) -> None:
    with suppress(psycopg.errors.UndefinedObject):
        connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))
