"""Events and actions of the CheckpointCoordinator. Frozen values; pure.

Whoever owns the coordinator turns what tasks and storage say into these events, and its actions into messages to slots
and work for the storage. Every event of a task names its attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.checkpoint.handles import CheckpointMetadata, CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId, TaskId
from runtime.graph.job_graph import JobGraph
from runtime.state.snapshot import OperatorStateSnapshot

# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptRunning:
    """Every task of an attempt is RUNNING or FINISHED: checkpoints may begin."""

    attempt: Attempt
    graph: JobGraph
    """With the attempt's parallelisms."""
    coordinator_slots: frozenset[SlotId]
    """Slots that host source coordinators."""
    oldest: Attempt | None = None
    """Oldest attempt that a region still belongs to; None = `attempt`, as all others."""


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A task of the attempt has ended its output."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The attempt is being torn down: the checkpoints under way are given up."""

    cause: str


@dataclass(frozen=True, slots=True)
class AttemptInterrupted:
    """Some regions are being restarted: checkpoints under way are given up, and AttemptRunning follows."""

    cause: str


@dataclass(frozen=True, slots=True)
class TriggerRequested:
    """A snapshot was requested; answered by RequestDone."""

    request_id: str
    kind: SnapshotKind | None = None
    """None: as the settings say; CANONICAL for savepoints."""
    is_savepoint: bool = False
    target_directory: str | None = None
    """Where the savepoint goes; None: where the settings say."""
    after: AfterSnapshot = AfterSnapshot.GO_ON
    is_last: bool = False
    """Whether nothing else is to be taken once this one is under way, unless it fails."""
    counts_as_failure: bool = False
    """Whether its failure counts against the tolerable number, as that of a periodic checkpoint does."""


@dataclass(frozen=True, slots=True)
class CoordinatorsAnswered:
    """A slot has taken the snapshots of its source coordinators."""

    slot: SlotId
    attempt: Attempt
    checkpoint_id: CheckpointId
    states: Mapping[OperatorId, OperatorStateSnapshot]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A task's part is stored."""

    attempt: Attempt
    task: TaskId
    checkpoint_id: CheckpointId
    state: TaskStateHandle
    metrics: CheckpointMetrics


@dataclass(frozen=True, slots=True)
class Declined:
    """A task, or a source coordinator, cannot take part."""

    attempt: Attempt
    checkpoint_id: CheckpointId
    cause: str
    counts_as_failure: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """The answer to StoreCheckpoint that it is complete, for ever."""

    checkpoint_id: CheckpointId
    metadata_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NotStored:
    """The answer to StoreCheckpoint that it is not complete, and never will be."""

    checkpoint_id: CheckpointId
    cause: str
    is_fenced: bool = False
    """Whether another JobMaster has taken over: nothing may be written or deleted any more."""


@dataclass(frozen=True, slots=True)
class DamageFound:
    """A completed checkpoint cannot be read back."""

    checkpoint_id: CheckpointId
    cause: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Nothing of the job runs any more."""

    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_deadline_ms` has come. Extra events do no harm."""


CoordinatorEvent = (
    AttemptRunning
    | TaskFinished
    | AttemptEnded
    | AttemptInterrupted
    | TriggerRequested
    | CoordinatorsAnswered
    | Acknowledged
    | Declined
    | Stored
    | NotStored
    | DamageFound
    | JobEnded
    | TimePassed
)

# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotSources:
    """Have these slots take the snapshots of their source coordinators; hold back what coordinators send to readers
    until TriggerTasks or ReleaseSources."""

    checkpoint_id: CheckpointId
    slots: frozenset[SlotId]


@dataclass(frozen=True, slots=True)
class TriggerTasks:
    """Tell every slot to begin; then release what was held back."""

    checkpoint_id: CheckpointId
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class ReleaseSources:
    """Release what was held back: the checkpoint was given up before TriggerTasks."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """Write the metadata, then make the checkpoint the newest one; answered by Stored or NotStored, always."""

    metadata: CheckpointMetadata
    is_owned: bool
    """Whether it is deleted when newer ones take its place."""
    is_recorded: bool
    """Whether recovery may start from it: not so for a savepoint after which the job continues."""


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell every slot that the checkpoint is complete."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell every slot that the checkpoint was given up."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Record how the job ended, before any of its checkpoints is forgotten."""

    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class ForgetCheckpoints:
    """Hide these from recovery."""

    checkpoint_ids: Sequence[CheckpointId]


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete what nothing refers to; what is gone already is no error."""

    files: Sequence[str]
    """URIs."""
    directories: Sequence[str]
    """URIs; with all that is in them."""


@dataclass(frozen=True, slots=True)
class SweepOrphans:
    """Delete what older attempts have written and nothing refers to."""

    attempt: Attempt
    """The attempt that runs now."""
    retained: Sequence[CheckpointMetadata]
    """The checkpoints whose files are referred to."""


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints have failed, or another JobMaster has taken over."""

    cause: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The answer to TriggerRequested."""

    request_id: str
    checkpoint_id: CheckpointId | None
    """None: none was begun."""
    location: str | None
    """URI of the completed snapshot's directory; None: it failed."""
    error: str | None
    has_drained: bool = False
    """Whether sources may have ended their input for it: then only another attempt brings them back."""
    is_premature: bool = False
    """Whether nothing was begun because the job does not run: it may be requested again when it does."""


CoordinatorAction = (
    SnapshotSources
    | TriggerTasks
    | ReleaseSources
    | StoreCheckpoint
    | NotifyComplete
    | NotifyAborted
    | RecordEnd
    | ForgetCheckpoints
    | DeleteFiles
    | SweepOrphans
    | FailJob
    | RequestDone
)
