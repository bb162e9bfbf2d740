"""A JobMaster's public view of its job: frozen snapshots, and the history of its failures.

Times are the machine's clock, monotonic milliseconds; the driver turns them into wall-clock time where one is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.assignment import RestoreReport
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.statistics import CheckpointsSnapshot
from runtime.core.ids import Attempt, JobId, SlotId, TaskId, VertexId
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.task.messages import FailureInfo, TaskState

MAX_HISTORY = 16
"""Failures that are remembered; Flink's `web.exception-history-size`."""
_FIRST = Attempt(0)
MAX_STATE_CHANGES = 100
"""Changes of state that are remembered: those of some 25 restarts."""
MAX_SUPPRESSED = 20
"""Later causes that are kept per failure: when one slot dies, every other one complains."""


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    task: TaskId
    name: str
    slot: SlotId
    state: TaskState
    metrics: Mapping[str, object]
    """Latest reported; metric name → value, those of operators as `<operator id>.<metric>`; see metric_names."""
    attempt: Attempt = _FIRST
    """The attempt of its region."""
    started_ms: float | None = None
    """When it was deployed; None = not yet."""
    ended_ms: float | None = None
    """When it ended, in whatever way; None = not yet."""


@dataclass(frozen=True, slots=True)
class SlotSnapshot:
    slot: SlotId
    status: SlotStatus
    pid: int | None
    host: str
    restored_bytes: int = 0
    """Share of its snapshots that it has read."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A call that has not returned for some seconds."""

    slot: SlotId
    attempt: Attempt
    task: TaskId | None
    """None: the call is a timer's or a checkpoint's, of any task of the slot."""
    task_name: str
    since_ms: float
    stack: str
    """The user's lines, as in a traceback, outermost first; the runtime's own if it has called no user code."""
    in_user_code: bool = True


@dataclass(frozen=True, slots=True)
class ExceptionEntry:
    """A failure of the job."""

    attempt: Attempt
    timestamp_ms: float
    cause: FailureInfo
    suppressed: Sequence[FailureInfo]
    """Later failures of the same attempt."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """A change of a job's state."""

    number: int
    """Of all changes under this JobMaster, from 1."""
    state: JobState
    attempt: Attempt
    at_ms: float
    cause: str = ""
    """Of a failure, its message; else empty."""


class StateHistory:
    """The newest changes of a job's state."""

    def __init__(self) -> None:
        self._count = 0
        self._changes: deque[StateChange] = deque(maxlen=MAX_STATE_CHANGES)

    def add(self, state: JobState, attempt: Attempt, now_ms: float, cause: str = "") -> None:
        """Add a change."""
        self._count += 1
        self._changes.append(StateChange(self._count, state, attempt, now_ms, cause))

    def changes(self) -> tuple[StateChange, ...]:
        """Return the changes, oldest first."""
        return tuple(self._changes)


@dataclass(frozen=True, slots=True)
class JobStatusSnapshot:
    """A snapshot of a job's status."""

    job_id: JobId
    name: str
    state: JobState
    attempt: Attempt
    """The current attempt, or the last one."""
    restarts: int
    tasks: Sequence[TaskSnapshot]
    """Of the current attempt or the last one; empty before the first."""
    slots: Sequence[SlotSnapshot]
    exceptions: Sequence[ExceptionEntry]
    """Oldest first, the newest `MAX_HISTORY`."""
    state_since_ms: Mapping[JobState, float]
    """When each state was last entered."""
    refused_messages: int
    """Messages of older attempts and of slots that had been given up."""
    checkpoints: CheckpointsSnapshot = field(default_factory=lambda: CheckpointsSnapshot(CheckpointSettings()))
    """Settings, counts, history and summaries; timestamps in it are wall-clock ms since the epoch."""
    parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    """Of each vertex: that of the graph, until the job is rescaled."""
    restored_from: RestoreReport | None = None
    """The operators that the restored state was matched with; None: the job started empty."""
    waiting_for: str = ""
    """Reason why the job makes no progress, see runtime.jobmaster.waiting; empty if it does."""
    failures: int = 0
    """Number of all failures; `exceptions` has the newest of them."""
    next_attempt_ms: float | None = None
    """When the next attempt, of the job or of a region, is due; None: none waits for its time."""
    stalls: Sequence[Stall] = ()
    """By slot."""
    last_rescale_ms: float | None = None
    """When all tasks ran after the last rescaling, or move to other slots, under this JobMaster; None: none has."""
    rescale_costs_ms: Sequence[float] = ()
    """Times of the last ones, oldest first, from the trigger of the checkpoint until all tasks ran."""
    leaves_checkpoints: bool = False
    """Whether the job has ended without restoring its checkpoints: they stay, whatever its retention."""
    state_changes: Sequence[StateChange] = ()
    """Oldest first, the newest `MAX_STATE_CHANGES`; without what a job that was adopted did before."""
    stops_with: str | None = None
    """URI of the recorded savepoint that the job stops with; None: it does not stop, or has ended."""


@dataclass(slots=True)
class Failure:
    """An entry of an ExceptionHistory, which alone changes it."""

    attempt: Attempt
    timestamp_ms: float
    cause: FailureInfo
    is_symptom: bool
    suppressed: list[FailureInfo] = field(default_factory=list)


class ExceptionHistory:
    """The failures of a job, with the cause told from its symptoms."""

    def __init__(self) -> None:
        self._failures: deque[Failure] = deque(maxlen=MAX_HISTORY)
        #: of all times
        self.count = 0

    def add(self, attempt: Attempt, now_ms: float, cause: FailureInfo, is_symptom: bool) -> Failure:
        """Add the first failure of an attempt; returns what `add_suppressed` knows it by."""
        self.count += 1
        self._failures.append(Failure(attempt, now_ms, cause.shortened(), is_symptom))
        return self._failures[-1]

    def add_suppressed(self, cause: FailureInfo, is_symptom: bool, failure: Failure | None = None) -> None:
        """Add a later failure of the same attempt; None = of the latest one.

        It takes the first one's place if that was a symptom only: when a process dies, its neighbours' broken
        connections are often heard of before the death itself.
        """
        failure = failure or self._failures[-1]
        cause = cause.shortened()
        if failure.is_symptom and not is_symptom:
            failure.cause, cause = cause, failure.cause
            failure.is_symptom = False
        if len(failure.suppressed) < MAX_SUPPRESSED:
            failure.suppressed.append(cause)

    @property
    def latest(self) -> FailureInfo | None:
        """Return the cause of the latest failure."""
        return self._failures[-1].cause if self._failures else None

    def entries(self) -> tuple[ExceptionEntry, ...]:
        return tuple(ExceptionEntry(f.attempt, f.timestamp_ms, f.cause, tuple(f.suppressed)) for f in self._failures)
