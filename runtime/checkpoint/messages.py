"""Events and actions of the CheckpointCoordinator. Frozen values; pure.

The coordinator's owner turns reports of tasks and the storage into these events, and actions into messages to slots and
work for the storage. Every event of a task names its attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.handles import CheckpointMetadata, CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import StatisticsRecord
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
    attempts: frozenset[Attempt] = frozenset()
    """Attempts that the regions belong to; empty: `attempt` alone."""
    oldest_epoch: int | None = None
    """Oldest leader epoch that has deployed a region which still runs; None = this JobMaster's own."""


@dataclass(frozen=True, slots=True)
class SlotsAdopted:
    """Slots of an earlier JobMaster go on under this one. Once, after `recover`; AttemptRunning follows."""

    pending: Mapping[CheckpointId, CheckpointOptions]
    """Checkpoints of which at least one of the slots does not know how they ended."""
    last_seen: CheckpointId
    """The highest checkpoint id that any of them has heard of."""


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A task of the attempt has ended its output."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """The attempt is being torn down: checkpoints in progress are aborted."""

    cause: str


@dataclass(frozen=True, slots=True)
class AttemptInterrupted:
    """Some regions are being restarted: checkpoints in progress are aborted, and AttemptRunning follows."""

    cause: str


@dataclass(frozen=True, slots=True)
class TriggerRequested:
    """A snapshot was requested; answered by RequestDone."""

    request_id: str
    kind: SnapshotKind | None = None
    """None: according to the settings; CANONICAL for savepoints."""
    is_savepoint: bool = False
    target_directory: str | None = None
    """Directory of the savepoint; None: that of the settings."""
    directory: str | None = None
    """The savepoint's own directory; None: one with a new name in `target_directory`."""
    after: AfterSnapshot = AfterSnapshot.GO_ON
    is_last: bool = False
    """Whether no other snapshot is taken once this one is in progress, unless it fails."""
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
    """Answer to StoreCheckpoint: the checkpoint is complete, for ever."""

    checkpoint_id: CheckpointId
    metadata_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NotStored:
    """Answer to StoreCheckpoint: the checkpoint is not complete, and never will be."""

    checkpoint_id: CheckpointId
    cause: str
    is_fenced: bool = False
    """Whether another JobMaster has taken over: nothing may be written or deleted any more."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Answer to ForgetDamaged: no JobMaster will restore the checkpoint."""

    checkpoint_id: CheckpointId
    is_fenced: bool = False
    """Whether another JobMaster has taken over, and decides."""


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
    | SlotsAdopted
    | TaskFinished
    | AttemptEnded
    | AttemptInterrupted
    | TriggerRequested
    | CoordinatorsAnswered
    | Acknowledged
    | Declined
    | Stored
    | NotStored
    | Forgotten
    | DamageFound
    | JobEnded
    | TimePassed
)

# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotSources:
    """Let these slots take the snapshots of their source coordinators; hold back messages from coordinators to readers
    until TriggerTasks or ReleaseSources."""

    checkpoint_id: CheckpointId
    slots: frozenset[SlotId]


@dataclass(frozen=True, slots=True)
class TriggerTasks:
    """Tell every slot to begin; then release the messages held back."""

    checkpoint_id: CheckpointId
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class ReleaseSources:
    """Release the messages held back: the checkpoint was aborted before TriggerTasks."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """Write the metadata, then make the checkpoint the latest one; always answered by Stored or NotStored."""

    metadata: CheckpointMetadata
    is_owned: bool
    """Whether it is deleted when newer ones replace it."""
    is_recorded: bool
    """Whether recovery may start from it: false for a savepoint after which the job continues."""
    statistics: StatisticsRecord | None = field(default=None, compare=False)
    """Those of the job once it is complete, to be recorded together with it."""


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell every slot that the checkpoint is complete."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell every slot that the checkpoint was aborted."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class SavepointsFailed:
    """Tell every slot of an attempt that savepoints of earlier attempts have failed."""

    savepoints: Sequence[tuple[Attempt, CheckpointId]]


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Record how the job ended, before any of its checkpoints is dropped."""

    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class ForgetCheckpoints:
    """Hide these from recovery."""

    checkpoint_ids: Sequence[CheckpointId]


@dataclass(frozen=True, slots=True)
class ForgetDamaged:
    """Hide this one from recovery before anything begins from an older one; always answered by Forgotten."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Delete unreferenced files; missing ones are no error."""

    files: Sequence[str]
    """URIs."""
    directories: Sequence[str]
    """URIs; deleted with their contents."""


@dataclass(frozen=True, slots=True)
class SweepOrphans:
    """Delete unreferenced files that older attempts have written."""

    attempt: Attempt
    """The oldest attempt that a region still belongs to."""
    retained: Sequence[CheckpointMetadata]
    """The checkpoints that refer to files."""
    leader_epoch: int | None = None
    """Oldest epoch that has deployed such a region, whose tasks may refer to what they wrote under it; None = this
    JobMaster's own."""


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints have failed, or another JobMaster has taken over."""

    cause: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class RequestDone:
    """Answer to TriggerRequested."""

    request_id: str
    checkpoint_id: CheckpointId | None
    """None: no snapshot was begun."""
    location: str | None
    """URI of the completed snapshot's directory; None: it failed."""
    error: str | None
    has_drained: bool = False
    """Whether sources may have ended their input for it: then only another attempt restarts them."""
    is_premature: bool = False
    """Whether no snapshot was begun because the job does not run: the request may be repeated when it does."""


CoordinatorAction = (
    SnapshotSources
    | TriggerTasks
    | ReleaseSources
    | StoreCheckpoint
    | NotifyComplete
    | NotifyAborted
    | SavepointsFailed
    | RecordEnd
    | ForgetCheckpoints
    | ForgetDamaged
    | DeleteFiles
    | SweepOrphans
    | FailJob
    | RequestDone
)
