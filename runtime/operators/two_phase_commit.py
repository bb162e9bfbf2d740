"""TwoPhaseCommitSink: exactly-once output into any system that has transactions, from a handful of functions.

A transaction takes the records between two checkpoints of one subtask. It is pre-committed in the snapshot, committed
once the checkpoint is complete, and committed again, which must do no harm, by whoever restores that checkpoint. Its id
says which attempt of which job's sink began it, so that each attempt can abort what older ones left behind, even what
an old process that was frozen prepares later. Jobs that claim one another's snapshots share the beginning of their ids,
the origin. Source: Flink, TwoPhaseCommitSinkFunction; KafkaSink, whose jobs share a transactional id prefix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.time import Duration
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    Committer,
    Predecessors,
    Sink,
    SinkSetupError,
    SinkWriter,
    Sweeper,
    WriterContext,
    owner_of,
)

T = TypeVar("T")

DEFAULT_ALLOWED_DOWNTIME = Duration.of_hours(1)
"""Time that a job may be down before it commits what it prepared; more asks for a longer transaction timeout."""
_SCHEME = "tidemark"


@dataclass(frozen=True, slots=True)
class TransactionId:
    """Names one transaction. As text, `tidemark-<origin>-<operator>-<job>-<attempt>-<subtask>-<number>`: at most 160
    characters of ASCII letters, digits and hyphens."""

    origin_job_id: str
    """See WriterContext."""
    operator_id: str
    job_id: str
    attempt: int
    subtask_index: int
    number: int
    """Counts the transactions of one subtask in one attempt."""

    def __str__(self) -> str:
        prefix = transaction_prefix(self.origin_job_id, self.operator_id)
        return f"{prefix}{self.job_id}-{self.attempt}-{self.subtask_index}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the id of a text; None if it is not one."""
        parts = text.split("-")
        if len(parts) != 7 or parts[0] != _SCHEME or not all(part.isdecimal() for part in parts[4:]):
            return None
        return cls(parts[1], parts[2], parts[3], int(parts[4]), int(parts[5]), int(parts[6]))


def transaction_prefix(origin_job_id: str, operator_id: str) -> str:
    """Return the common prefix of the ids of all transactions of a sink, of every attempt and subtask."""
    return f"{_SCHEME}-{origin_job_id}-{operator_id}-"


class Leftovers:
    """Tells which transactions of a sink an older attempt began, or an earlier job.

    Args:
        context: of the sink's writer.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self.predecessors = Predecessors(context)

    def among(self, transaction_ids: Iterable[str], held: Collection[str]) -> list[str]:
        """Return the leftovers among transactions that are neither committed nor aborted.

        Args:
            transaction_ids: as text; of any process.
            held: those that the restored checkpoint holds: none of them is a leftover, but all are predecessors'.
        """
        left = set(filter(self._is_predecessors, {*transaction_ids, *held}))
        return sorted(left.difference(held))

    def _is_predecessors(self, transaction_id: str) -> bool:
        known, context = TransactionId.parse(transaction_id), self._context
        if known is None or (known.origin_job_id, known.operator_id) != (context.origin_job_id, context.operator_id):
            return False
        return self.predecessors.has_left(owner_of(known.job_id, known.operator_id), known.attempt)


_TRANSACTIONS_OF_A_PASS = 1 << 20
"""More than one writer begins in one batch: one for each time that it rolls."""


class TransactionIds:
    """Makes the ids of one writer's transactions."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        # several writers of a subtask follow each other within an attempt, one for each batch
        self._number = context.pass_number * _TRANSACTIONS_OF_A_PASS

    def next(self) -> TransactionId:
        """Return an id that has never been used."""
        context = self._context
        self._number += 1
        return TransactionId(
            context.origin_job_id,
            context.operator_id,
            context.job_id,
            context.attempt,
            context.subtask_index,
            self._number,
        )


def check_transaction_timeout(
    timeout: Duration | None, allowed_downtime: Duration, configuration: Configuration
) -> None:
    """Refuse a timeout that might end a transaction on which a completed checkpoint relies.

    Args:
        timeout: after which the system aborts a transaction by itself; None = never.
        allowed_downtime: how long the job may be down.
        configuration: of the job.

    Raises:
        SinkSetupError: the timeout is shorter than the checkpoint interval and the allowed downtime together.
    """
    interval = configuration.get(options.CHECKPOINTING_INTERVAL)
    interval_ms = 0 if interval is None else interval.to_millis()
    downtime_ms = allowed_downtime.to_millis()
    if timeout is not None and timeout.to_millis() < interval_ms + downtime_ms:
        raise SinkSetupError(
            f"transactions would time out after {timeout.to_millis() / 1000:g} s, before they are committed: that must "
            f"not be less than the checkpoint interval and the allowed downtime together, {interval_ms / 1000:g} s + "
            f"{downtime_ms / 1000:g} s; make transaction_timeout longer or allowed_downtime shorter"
        )


class TwoPhaseCommitFunction(ABC, Generic[T]):
    """The functions that a system with transactions has to offer.

    A transaction is any value that JSON can express (a dict, a string): whatever it takes to find the
    transaction again from another process. Everything is called by the task's thread; what takes long holds up the
    task. `commit`, `abort` and the two `recover_…` are idempotent: each may be called again, in another process, for a
    transaction that was committed, was aborted or never came to be.
    """

    def open(self, context: WriterContext) -> None:
        """Connect. Called once in the process that runs the subtask, before everything else."""

    @abstractmethod
    def begin(self, transaction_id: str) -> T:
        """Begin a transaction; called when there is a first record for it.

        Args:
            transaction_id: unique; see TransactionId. It should be part of the transaction's name in the system.
        """

    @abstractmethod
    def write(self, transaction: T, batch: RecordBatch) -> None:
        """Take records into the transaction."""

    @abstractmethod
    def pre_commit(self, transaction: T) -> None:
        """Make everything durable that was written, so that `commit` cannot fail for what is in it; nothing more is
        written. The transaction's value goes into the snapshot as it is after this."""

    @abstractmethod
    def commit(self, transaction: T) -> None:
        """Make it visible. Nothing happens if that is so already.

        Raises:
            Exception: it is not sure to be visible; the job restarts and tries again.
        """

    @abstractmethod
    def abort(self, transaction: T) -> None:
        """Drop what was written. Nothing happens if there is nothing."""

    def recover_and_commit(self, transaction: T) -> None:
        """Commit a transaction that another process pre-committed and that may be visible already, like `commit`."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: T) -> None:
        """Abort a transaction that an older attempt left behind, like `abort`."""
        self.abort(transaction)

    @abstractmethod
    def list_unfinished(self, prefix: str) -> Mapping[str, T]:
        """Return the transactions of any process that are neither committed nor aborted, by transaction id.

        Those that older attempts began and that no checkpoint holds are then aborted. Empty if the system aborts by
        itself what nobody commits.

        Args:
            prefix: of the ids of this sink's transactions.
        """

    def close(self) -> None:
        """Disconnect; idempotent, also called after a failure."""


class TwoPhaseCommitSink(Sink):
    """Writes with transactions. Without checkpoints there is one per subtask, committed when the job has finished.

    Args:
        function: what to do; picklable, each subtask has its own copy.
        transaction_timeout: after which the system aborts a transaction by itself; None = never.
        allowed_downtime: how long the job may be down and still commit what it has prepared.
    """

    def __init__(
        self,
        function: TwoPhaseCommitFunction[Any],
        transaction_timeout: Duration | None = None,
        allowed_downtime: Duration = DEFAULT_ALLOWED_DOWNTIME,
    ) -> None:
        self._function = function
        self._timeout = transaction_timeout
        self._downtime = allowed_downtime
        #: ids of what this subtask has pre-committed and not committed; empty until there is a writer
        self._prepared: set[str] = set()

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        check_transaction_timeout(self._timeout, self._downtime, context.configuration)
        self._function.open(context)
        return _TransactionWriter(self._function, context, self._prepared)

    def create_committer(self) -> Committer:
        return _TransactionCommitter(self._function, self._prepared)

    def create_sweeper(self, context: WriterContext) -> Sweeper:
        return _TransactionSweeper(self._function, context)


class _TransactionWriter(SinkWriter):
    """Writes transactions. Committables are {"id": the transaction's id, "transaction": the function's own value}."""

    def __init__(self, function: TwoPhaseCommitFunction[Any], context: WriterContext, prepared: set[str]) -> None:
        self._function = function
        self._ids = TransactionIds(context)
        self._prepared = prepared
        self._current: tuple[str, Any] | None = None
        #: pre-committed by `finish`, so in no snapshot yet
        self._unheld: list[Any] = []
        self._has_ended = False

    def write(self, batch: RecordBatch) -> None:
        if not batch.num_rows:
            return
        if self._current is None:
            transaction_id = str(self._ids.next())
            self._current = transaction_id, self._function.begin(transaction_id)
        self._function.write(self._current[1], batch)

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = end_of_input

    def prepare_commit(self) -> Sequence[Any]:
        if self._current is None:
            return ()
        transaction_id, transaction = self._current
        # first: what fails here is aborted by `close`
        self._function.pre_commit(transaction)
        self._current = None
        self._prepared.add(transaction_id)
        if self._has_ended:
            self._unheld.append(transaction)
        return [{"id": transaction_id, "transaction": transaction}]

    def snapshot_state(self) -> Sequence[Any]:
        self._unheld = []
        return ()

    def committed(self, committables: Sequence[Any]) -> None:
        self._unheld = []

    def close(self) -> None:
        given_up = [*self._unheld, *(() if self._current is None else (self._current[1],))]
        self._unheld, self._current = [], None
        try:
            for transaction in given_up:
                self._function.abort(transaction)
        finally:
            self._function.close()


class _TransactionCommitter(Committer):
    def __init__(self, function: TwoPhaseCommitFunction[Any], prepared: set[str]) -> None:
        self._function = function
        self._prepared = prepared

    def commit(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            transaction_id, transaction = committable["id"], committable["transaction"]
            if transaction_id in self._prepared:
                self._function.commit(transaction)
                self._prepared.discard(transaction_id)
            else:
                # another process prepared it, or committing it has failed before
                self._function.recover_and_commit(transaction)


class _TransactionSweeper(Sweeper):
    def __init__(self, function: TwoPhaseCommitFunction[Any], context: WriterContext) -> None:
        self._function = function
        self._context = context
        self._leftovers = Leftovers(context)

    def sweep(self, held: Sequence[Any]) -> None:
        prefix = transaction_prefix(self._context.origin_job_id, self._context.operator_id)
        unfinished = self._function.list_unfinished(prefix)
        for transaction_id in self._leftovers.among(unfinished, {item["id"] for item in held}):
            self._function.recover_and_abort(unfinished[transaction_id])
        self._leftovers.predecessors.seal()
