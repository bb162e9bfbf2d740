"""The public interface of sinks: writers that take batches, committables that become visible in a second step.

A Sink describes; it travels to the slots. A SinkWriter belongs to one subtask and is called by its task's thread.
Source: Flink, Sink V2 (FLIP-143, FLIP-191).
"""

from __future__ import annotations

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
        """Hand over everything that is buffered."""

    def prepare_commit(self) -> Sequence[Any]:
        """Make what was written durable but not visible; return what a committer needs to make it visible:
        JSON-serializable values."""
        return ()

    def snapshot_state(self) -> Sequence[Any]:
        """State items (JSON-serializable) from which `Sink.create_writer` continues; any subtask may get any item."""
        return ()

    def close(self) -> None:
        """Release everything and remove what was neither committed nor snapshotted; idempotent."""


class Committer(ABC):
    """Makes committables visible."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Make them visible, in order. Idempotent: what is visible already is skipped."""

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

    def create_committer(self) -> Committer | None:
        """None if writing makes visible at once."""
        return None


class SinkError(Exception):
    """A sink cannot be opened or written to; the message names it."""
