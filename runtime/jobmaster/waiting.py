"""Describes in one line what a job waits for, from what its JobMaster knows anyway. Pure.

A job that makes progress waits for nothing. Metrics are those of the last heartbeats; none of the texts has a number in
it that grows with time, so that a document which shows it does not change while nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runtime.checkpoint.statistics import CheckpointsSnapshot, CheckpointStats, CheckpointStatus
from runtime.core.ids import VertexId
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import DEPLOYED, RUNNING, Phase
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.jobmaster.status import SlotSnapshot, Stall, TaskSnapshot
from runtime.task.messages import TaskState

LONG_CHECKPOINT_MS = 10_000
"""A checkpoint is reported if it is under way for so long; most shorter ones end by themselves."""
HELD_MS = 500
"""Per second; a task that waits for its output for longer is held up."""
MAX_NAMES = 3
SHOWN_BYTES = 1_000_000
"""What has been read of a snapshot is told from here on; less is read in no time."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a job, as far as it explains what the job waits for."""

    state: JobState
    phase: Phase
    tasks: Sequence[TaskSnapshot]
    slots: Sequence[SlotSnapshot]
    checkpoints: CheckpointsSnapshot
    sources: frozenset[VertexId]
    wall_ms: int
    """Now, as the checkpoints' times."""
    recovery: str = ""
    """Why it is not known what the job restores."""
    storage: str = ""
    """Work that the storage was asked for and has not done, and why."""
    is_undecided: bool = False
    """Whether the storage has yet to say which checkpoint is the newest."""
    stalls: Sequence[Stall] = ()
    """Calls of user code that have not returned."""


def waiting_for(at: Standing) -> str:
    """Return what the job waits for; empty if it makes progress, or has ended."""
    if at.state.is_terminal:
        return ""
    if at.recovery:
        return at.recovery
    match at.phase:
        case Phase.IDLE:
            return "the delay of its restart strategy" if at.state is JobState.RESTARTING else ""
        case Phase.RECONCILING:
            return "the slots' reports to a new JobMaster"
        case Phase.REQUESTING:
            return _registrations(at.slots) or at.storage or _undecided(at)
        case Phase.DEPLOYING:
            return _restoring(at)
        case Phase.STARTED if at.state is JobState.RUNNING:
            return _running(at)
        case Phase.STARTED:
            return _registrations(at.slots) or _tasks(at.tasks, RUNNING, "to run")
        case Phase.COMMITTING:
            return "sinks to commit"
        case Phase.CANCELLING_TASKS:
            ended = tuple(state for state in TaskState if state.is_terminal)
            return _tasks(at.tasks, ended, "to stop")
        case Phase.LEAVING:
            return f"{_count(_of(at.slots, SlotStatus.LIVE), 'slot')} to end"


def _running(at: Standing) -> str:
    """Describe what a job waits for whose tasks all run."""
    return _stalled(at) or at.storage or _long_checkpoint(at) or ("" if _moves(at.tasks) else _still(at))


def _restoring(at: Standing) -> str:
    restored = sum(slot.restored_bytes for slot in at.slots)
    progress = f" ({restored / 1e6:,.0f} MB have been read)" if restored >= SHOWN_BYTES else ""
    return _tasks(at.tasks, DEPLOYED, f"to be deployed and restored{progress}")


def _undecided(at: Standing) -> str:
    return "the storage to report the latest checkpoint" if at.is_undecided else ""


def _stalled(at: Standing) -> str:
    names = [
        name
        for stall in at.stalls
        for name in ([stall.task_name] if stall.task_name else [t.name for t in at.tasks if t.slot == stall.slot])
    ]
    who = "user code" if any(stall.in_user_code for stall in at.stalls) else "a call of the runtime"
    return f"{who} that has not returned, in {_names(names)}" if names else ""


def _long_checkpoint(at: Standing) -> str:
    pending = [c for c in at.checkpoints.history if c.status is CheckpointStatus.IN_PROGRESS]
    late = [c for c in pending if at.wall_ms - c.trigger_timestamp_ms >= LONG_CHECKPOINT_MS]
    return _checkpoint(late[-1], at.tasks) if late else ""


def _checkpoint(checkpoint: CheckpointStats, tasks: Sequence[TaskSnapshot]) -> str:
    what = f"{'savepoint' if checkpoint.options.is_savepoint else 'checkpoint'} {checkpoint.checkpoint_id}"
    missing = [
        task.name
        for task in tasks
        if (vertex := checkpoint.vertices.get(task.task.vertex_id)) is not None
        and task.task.subtask_index not in vertex.subtasks
    ]
    return f"{_names(missing)} to acknowledge {what}" if missing else f"the storage to complete {what}"


def _moves(tasks: Iterable[TaskSnapshot]) -> bool:
    """Return whether records went in or out anywhere in the last minute, or nobody knows yet."""
    rates = [t.metrics.get(name) for t in tasks for name in ("numRecordsInPerSecond", "numRecordsOutPerSecond")]
    known = [rate for rate in rates if isinstance(rate, int | float)]
    return not known or any(rate > 0 for rate in known)


def _still(at: Standing) -> str:
    """Describe why no record of a job moves."""
    tasks = [task for task in at.tasks if task.state is TaskState.RUNNING]
    held = [t for t in tasks if _number(t.metrics.get("backPressuredTimeMsPerSecond")) >= HELD_MS]
    if held:
        return f"the consumers of {_names(_vertex_name(task) for task in held)}"
    sources = [task for task in tasks if task.task.vertex_id in at.sources]
    return f"data from {_names(_vertex_name(task) for task in sources)}" if sources else ""


def _registrations(slots: Sequence[SlotSnapshot]) -> str:
    missing = _of(slots, SlotStatus.EXPECTED)
    return f"{missing} of {_count(len(slots), 'slot')} to start" if missing else ""


def _tasks(tasks: Iterable[TaskSnapshot], states: Sequence[TaskState], what: str) -> str:
    names = [task.name for task in tasks if task.state not in states]
    return f"{_names(names)} {what}" if names else ""


def _of(slots: Iterable[SlotSnapshot], status: SlotStatus) -> int:
    return sum(slot.status is status for slot in slots)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _names(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - MAX_NAMES} more" if len(known) > MAX_NAMES else ""
    return ", ".join(known[:MAX_NAMES]) + more


def _vertex_name(task: TaskSnapshot) -> str:
    return task.name.rpartition(" (")[0] or task.name


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
