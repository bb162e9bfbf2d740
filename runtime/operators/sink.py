"""The public interface of sinks: writers that take batches, committables that become visible in a second step.

A Sink describes; it travels to the slots. A SinkWriter belongs to one subtask and is called by its task's thread.
Source: Flink, Sink V2 (FLIP-143, FLIP-191).
"""

from __future__ import annotations

import enum
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.metrics import MetricGroup
from runtime.network.channel import RecordLimit
from runtime.operators.operator import ClientChannel, ProcessingTimeService


class DeliveryGuarantee(enum.Enum):
    """Says how often a sink may write a record when a job is restored."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Tells a sink writer about its surroundings."""

    subtask_index: int
    parallelism: int
    attempt: int
    task_name: str
    input_type: TypeInformation | None
    configuration: Configuration
    clock: Clock
    processing_time: ProcessingTimeService
    metrics: MetricGroup
    client: ClientChannel
    job_id: str = ""
    operator_id: str = ""
    claimed_job_ids: Sequence[str] = ()
    """The jobs before this one, oldest first: each has claimed a snapshot of the one before it. Empty if this one has
    claimed none."""

    held: Sequence[Any] = ()
    """Everything that the snapshot which is gone on from holds of this sink, of all subtasks."""

    pass_number: int = 0
    """Number of the batch that the writer is made for, unique within the attempt; 0 = it lives as long as that."""

    @property
    def record_limit(self) -> RecordLimit:
        """Return the maximum size of the records that a writer sends to other processes."""
        return RecordLimit(self.task_name, self.configuration.get(options.MAX_RECORD_BYTES))

    @property
    def origin_job_id(self) -> str:
        """Return the first of the jobs that claimed one another's snapshots, down to this one."""
        return next(iter(self.claimed_job_ids), self.job_id)

    @property
    def owner(self) -> str:
        """Return 16 hex digits: this sink of this job, the same in every attempt and at every parallelism."""
        return owner_of(self.job_id, self.operator_id)

    @property
    def origin(self) -> str:
        """Return 16 hex digits: this sink of all jobs of the same origin; `owner` of the first of them."""
        return owner_of(self.origin_job_id, self.operator_id)


def owner_of(job_id: str, operator_id: str) -> str:
    """Return the owner, see `WriterContext.owner`."""
    return hashlib.blake2b(f"{job_id}/{operator_id}".encode(), digest_size=8).hexdigest()


class Predecessors:
    """Tells what earlier attempts, and earlier jobs, have left of a sink.

    Attempts have numbers. Before this job are those whose snapshots it has claimed, one behind the other. Between it
    and other jobs of the same origin there is no such order: before it are those of which there is something when the
    attempt begins. One that comes later has taken this job for dead, and must lose nothing to it.

    Args:
        context: of the sink's writer.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._older = {owner_of(job_id, context.operator_id) for job_id in context.claimed_job_ids}
        self._is_sealed = False

    def has_left(self, owner: str, attempt: int) -> bool:
        """Return whether something is a predecessor's.

        Args:
            owner: whose it is, among those of the same origin.
            attempt: that has made it.
        """
        if owner == self._context.owner:
            return attempt < self._context.attempt
        if not self._is_sealed:
            self._older.add(owner)
        return owner in self._older

    def seal(self) -> None:
        """Note that the attempt has begun, and has seen everything that was there before it."""
        self._is_sealed = True


class SinkWriter(ABC):
    """Writes the records of one subtask."""

    @abstractmethod
    def write(self, batch: RecordBatch) -> None:
        """Take records. Marks in the batch mean nothing to a sink."""

    def write_watermark(self, watermark: int) -> None:
        """Note that event time has reached `watermark` (ms)."""

    def is_available(self) -> bool:
        """Return whether another slice can be taken now without blocking."""
        return True

    def flush(self, end_of_input: bool) -> None:
        """Hand over everything that is buffered.

        Args:
            end_of_input: nothing more will be written: the input has ended, or the job stops with a savepoint.
        """

    def prepare_savepoint(self, checkpoint_id: int) -> None:
        """Prepare for a savepoint, before `prepare_commit`: it must not rely on anything that this writer, or one that
        takes its place, goes on to change or remove.

        Args:
            checkpoint_id: of the savepoint; see `Sweeper.savepoint_failed`.
        """

    def prepare_commit(self) -> Sequence[Any]:
        """Make what was written durable but not visible; returns what a committer needs to make it visible:
        JSON-serializable values.
        """
        return ()

    def snapshot_state(self) -> Sequence[Any]:
        """Return state items (JSON-serializable) for `Sink.create_writer` to continue from; any subtask may get any
        item.
        """
        return ()

    def committed(self, committables: Sequence[Any]) -> None:
        """Release what is held for something that this writer, or an earlier one, prepared and that is visible now."""

    def interrupt(self) -> None:
        """Have calls that wait for the other system end soon, with an error, also later ones: the task is cancelled,
        and `close` is called next. Any thread.
        """

    def close(self) -> None:
        """Release everything and remove what was neither committed nor snapshotted; idempotent."""


@dataclass(frozen=True, slots=True)
class CommitTally:
    """Result of a commit."""

    already_committed: int = 0
    """Number of committables that were visible before."""
    retried: int = 0
    """Number of retries."""


class Committer(ABC):
    """Makes committables visible."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> CommitTally | None:
        """Make committables visible, in order. Idempotent: what is visible already is skipped.

        Returns:
            For the metrics; None: all of them are visible only now.
        """

    def check(self, committables: Sequence[Any]) -> None:
        """Check that what was restored is visible, or can still be made so. Called before anything is committed.

        Raises:
            SnapshotUnusableError: something is gone for good.
        """

    def close(self) -> None:
        """Release everything; idempotent."""


class Sweeper(ABC):
    """Gives up what older attempts left behind in a sink's target, of the job and of those whose snapshots it claims.
    Used by subtask 0 only."""

    @abstractmethod
    def sweep(self, held: Sequence[Any]) -> None:
        """Abort or remove what attempts before this one prepared for this sink; see Predecessors.

        Called when the attempt begins and after each completed checkpoint: a process of an older attempt that was
        frozen may prepare something at any time. It cannot commit, for nobody tells it to.

        Args:
            held: state items and committables, of all subtasks, that the restored checkpoint holds; these stay.

        Raises:
            SinkError: the target does not answer.
        """

    def take_over(self) -> None:
        """Note that the job's own checkpoints have replaced what it has claimed: nobody goes back to that, or to what
        it relies on. Called before `sweep`.
        """

    def savepoint_failed(self, attempt: int, checkpoint_id: int) -> None:
        """Note that a savepoint that an earlier attempt of the job took part in has failed: nobody relies on what was
        prepared for it alone. Whatever is not said to have failed may be relied on.
        """

    def sweep_at_end(self, held: Sequence[Any]) -> None:
        """Sweep, like `sweep`, when the job has finished: nothing that it has made itself is needed any more.

        Args:
            held: what the restored checkpoint held; another job's may be needed still.
        """
        self.sweep(())

    def close(self) -> None:
        """Release everything; idempotent."""


class Sink(ABC):
    """A stream's end. Instances are immutable and picklable."""

    state_format: str = ""
    """Name of the form of state items and committables in snapshots: those of another form are refused. "" = it is not
    known, and not compared."""

    @abstractmethod
    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        """Make the writer of one subtask from state items of former writers.

        Raises:
            SinkError: the target cannot be written to; the message says what and where.
        """

    def paths(self) -> Sequence[str]:
        """Return the paths of directories that are written to where the tasks run, as the user wrote them."""
        return ()

    def keeps_state(self) -> bool:
        """Return whether snapshots hold something of this sink, so that its operator needs a uid. A sink whose writers
        keep nothing, and that has no committer, says no.
        """
        return True

    def accepts_changelog(self) -> bool:
        """Return whether the sink does, or shows, what a row's kind says: that it takes back, or replaces, an earlier
        one. A program that gives a changelog to another sink is refused.
        """
        return False

    def create_committer(self) -> Committer | None:
        """Make the committer; None if writing makes visible at once. Called after `create_writer`, in its process."""
        return None

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        """Make the sweeper; None if a dead writer leaves nothing behind. Called after `create_writer`, of later
        attempts only, and of the first one of a job that has claimed another job's snapshot.
        """
        return None


class SinkError(Exception):
    """A sink cannot be opened or written to; the message names it."""


class SnapshotUnusableError(SinkError):
    """Something that a snapshot relies on is not in the sink's target any more, and will not come back: an older
    snapshot is restored or, if there is none, the job fails at once, whatever its restart strategy.
    """

    #: as if a file of the snapshot were damaged
    is_damaged_snapshot = True


class SinkSetupError(SinkError):
    """A sink cannot do what it promises with its settings, and a restart of the job would change nothing."""

    #: the job fails at once
    is_fatal = True
