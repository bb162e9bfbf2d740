"""Traces of checkpoints: where the time of each went. Frozen values; pure.

A trace keeps the slowest subtasks of a checkpoint only, so that many of them can be kept. The phases of one subtask
follow each other: its part begins with the trigger, the first barrier reaches it after the start delay, the snapshot
begins after the alignment (at once if it is unaligned), and what remains of its time until the acknowledgement is not
measured by anybody. Timestamps are wall-clock ms since the epoch, durations ms. Source: Flink, FLINK-39566.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.handles import CheckpointMetrics
from runtime.core.ids import CheckpointId, TaskId

TRACES = 60
"""Number of checkpoints whose traces are kept, the newest."""
MAX_STRAGGLERS = 16
"""Subtasks in a trace: more of them would make the traces of a large job larger than its live document."""
MAX_CAUSE_CHARS = 300


class Phase(enum.Enum):
    """In their order."""

    START_DELAY = "start-delay"
    """From the trigger until the first barrier has reached the subtask, sources' coordinators included."""
    ALIGNMENT = "alignment"
    """Until the barriers of all inputs are there."""
    SYNC = "sync"
    ASYNC = "async"
    REST = "rest"
    """Until the acknowledgement; not measured by the subtask."""
    COMMIT = "commit"
    """From the last acknowledgement until the metadata is written and the checkpoint is recorded."""


@dataclass(frozen=True, slots=True)
class SubtaskTrace:
    """A subtask's part of a checkpoint."""

    task: TaskId
    end_to_end_ms: int | None
    """From the trigger to the acknowledgement; None: it has not acknowledged, and nothing of it is known."""
    start_delay_ms: float = 0.0
    alignment_ms: float = 0.0
    sync_ms: float = 0.0
    async_ms: float = 0.0
    is_unaligned: bool = False

    @classmethod
    def of(cls, task: TaskId, end_to_end_ms: int, metrics: CheckpointMetrics) -> SubtaskTrace:
        """Return the trace of a subtask that has acknowledged."""
        return cls(
            task,
            end_to_end_ms,
            metrics.start_delay_ms,
            metrics.alignment_ms,
            metrics.sync_ms,
            metrics.async_ms,
            metrics.is_unaligned,
        )

    @property
    def phases_ms(self) -> dict[Phase, float]:
        """Return the phases in their order; {} if it has not acknowledged."""
        if self.end_to_end_ms is None:
            return {}
        measured = {
            Phase.START_DELAY: self.start_delay_ms,
            Phase.ALIGNMENT: self.alignment_ms,
            Phase.SYNC: self.sync_ms,
            Phase.ASYNC: self.async_ms,
        }
        # the start delay is told by the JobMaster's clock, which the slot estimates
        return measured | {Phase.REST: max(0.0, self.end_to_end_ms - sum(measured.values()))}


@dataclass(frozen=True, slots=True)
class CheckpointTrace:
    """A checkpoint or savepoint; it is in progress if it has neither completed nor failed."""

    checkpoint_id: CheckpointId
    checkpoint_type: str
    """As CheckpointStats has it."""
    trigger_timestamp_ms: int
    latest_ack_timestamp_ms: int
    """-1: none yet."""
    num_subtasks: int
    num_acknowledged: int
    stragglers: Sequence[SubtaskTrace]
    """The slowest first, at most MAX_STRAGGLERS: those that have not acknowledged, then those that did so last."""
    completion_timestamp_ms: int | None = None
    failure_timestamp_ms: int | None = None
    cause: str = ""
    """Of the failure, at most MAX_CAUSE_CHARS."""
    batches: Sequence[BatchTrace] = ()
    """Of a job in micro-batches, one of each region that is through with it."""

    @property
    def commit_ms(self) -> int | None:
        """Return the time from the last acknowledgement until it was recorded; None: it is not complete."""
        if self.completion_timestamp_ms is None or self.latest_ack_timestamp_ms < 0:
            return None
        return max(0, self.completion_timestamp_ms - self.latest_ack_timestamp_ms)

    @property
    def duration_ms(self) -> int | None:
        """Return the time from the trigger to its end; None: it is in progress."""
        end_ms = self.failure_timestamp_ms if self.completion_timestamp_ms is None else self.completion_timestamp_ms
        return None if end_ms is None else max(0, end_ms - self.trigger_timestamp_ms)

    @property
    def lost_in(self) -> tuple[Phase, float] | None:
        """Return the longest phase of its slowest subtask, or the commit if that took longer, and its ms; None: it is
        not known, since the slowest has not acknowledged."""
        phases = self.stragglers[0].phases_ms if self.stragglers else {}
        if not phases:
            return None
        if self.commit_ms is not None:
            phases[Phase.COMMIT] = float(self.commit_ms)
        longest = max(phases, key=lambda phase: phases[phase])
        return longest, phases[longest]


def slowest(acknowledged: Iterable[SubtaskTrace], missing: Iterable[TaskId]) -> tuple[SubtaskTrace, ...]:
    """Return the `stragglers` of a trace."""
    late = [SubtaskTrace(task, None) for task in heapq.nsmallest(MAX_STRAGGLERS, missing)]
    last = heapq.nlargest(MAX_STRAGGLERS - len(late), acknowledged, key=_lateness)
    return (*late, *last)


def _lateness(trace: SubtaskTrace) -> tuple[float, float]:
    # acknowledgements that arrive in the same ms are told apart by what the subtasks have measured
    phases = trace.phases_ms
    return trace.end_to_end_ms or 0, sum(phases.values()) - phases.get(Phase.REST, 0.0)
