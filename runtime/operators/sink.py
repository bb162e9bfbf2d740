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

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.metrics import MetricGroup
from runtime.operators.operator import ClientChannel, ProcessingTimeService


class DeliveryGuarantee(enum.Enum):
    """How often a sink may write a record when a job is restored."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a sink writer is told."""

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
    origin_job_id: str = ""
    """Of the first of the jobs that have claimed one another's snapshots, down to this one; `job_id` if it has claimed
    none."""

    @property
    def owner(self) -> str:
        """16 hex digits: this sink of this job, the same in every attempt and at every parallelism."""
        return hashlib.blake2b(f"{self.job_id}/{self.operator_id}".encode(), digest_size=8).hexdigest()


class SinkWriter(ABC):
    """Writes the records of one subtask."""

    @abstractmethod
    def write(self, batch: RecordBatch) -> None:
        """Take records. Marks in the batch mean nothing to a sink."""

    def write_watermark(self, watermark: int) -> None:
        """Event time has reached `watermark` (ms)."""

    def is_available(self) -> bool:
        """Whether another slice can be taken now without blocking."""
        return True

    def flush(self, end_of_input: bool) -> None:
        """Hand over everything that is buffered.

        Args:
            end_of_input: nothing more will be written: the input has ended, or the job stops with a savepoint.
        """

    def prepare_commit(self) -> Sequence[Any]:
        """Make what was written durable but not visible; return what a committer needs to make it visible:
        JSON-serializable values."""
        return ()

    def snapshot_state(self) -> Sequence[Any]:
        """State items (JSON-serializable) from which `Sink.create_writer` continues; any subtask may get any item."""
        return ()

    def committed(self, committables: Sequence[Any]) -> None:
        """What this writer, or one before it, prepared is visible: release what is held for it."""

    def close(self) -> None:
        """Release everything and remove what was neither committed nor snapshotted; idempotent."""


@dataclass(frozen=True, slots=True)
class CommitTally:
    """What became of committables."""

    already_committed: int = 0
    """Those that were visible before."""
    retried: int = 0
    """How often one had to be tried again."""


class Committer(ABC):
    """Makes committables visible."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> CommitTally | None:
        """Make them visible, in order. Idempotent: what is visible already is skipped.

        Returns:
            For the metrics; None: all of them are visible only now.
        """

    def close(self) -> None:
        """Release everything; idempotent."""


class Sweeper(ABC):
    """Gives up what older attempts left behind in a sink's target, of the job and of those whose snapshots it claims.
    Used by subtask 0 only."""

    @abstractmethod
    def sweep(self, held: Sequence[Any]) -> None:
        """Abort or remove what attempts before this one prepared for this sink.

        Called when the attempt begins and after each completed checkpoint: a process of an older attempt that was
        frozen may prepare something at any time. It cannot commit, for nobody tells it to.

        Args:
            held: state items and committables, of all subtasks, that the restored checkpoint holds; these stay.

        Raises:
            SinkError: the target does not answer.
        """

    def close(self) -> None:
        """Release everything; idempotent."""


class Sink(ABC):
    """A stream's end. Instances are immutable and picklable."""

    @abstractmethod
    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        """Make the writer of one subtask from state items of former writers.

        Raises:
            SinkError: the target cannot be written to; the message says what and where.
        """

    def keeps_state(self) -> bool:
        """Whether snapshots hold something of this sink, so that its operator needs a uid. A sink whose writers keep
        nothing, and that has no committer, says no."""
        return True

    def create_committer(self) -> Committer | None:
        """None if writing makes visible at once. Called after `create_writer`, in the same process."""
        return None

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        """None if a dead writer leaves nothing behind. Called after `create_writer`, of later attempts only, and of the
        first one of a job that has claimed another job's snapshot."""
        return None


class SinkError(Exception):
    """A sink cannot be opened or written to; the message names it."""


class SinkSetupError(SinkError):
    """A sink cannot do what it promises as it is set up, and a restart of the job would change nothing."""

    #: the job fails at once
    is_fatal = True
