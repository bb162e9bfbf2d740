"""What can happen to a job, as the driver tells its machine. Frozen; every one carries its cause."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.messages import NotStored, Stored
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import Attempt, SlotId, VertexId
from runtime.task.messages import SlotMessage


@dataclass(frozen=True, slots=True)
class Submitted:
    """Start the job. Once."""

    retained: Sequence[CompletedCheckpoint] = ()
    """Completed checkpoints that an earlier JobMaster of the job has left, oldest first: the newest is gone on from."""
    initial: CompletedCheckpoint | None = None
    """What the job was told to start from: gone on from if there are none, or none of them can be read; beside some
    only what the job has claimed and not replaced yet."""
    outcome: JobOutcome | None = None
    """How an earlier JobMaster has ended the job already; None: it has not, as far as is known."""
    refusal: str | None = None
    """Why what the job should start from cannot be had: the job fails, whatever its restart strategy."""


@dataclass(frozen=True, slots=True)
class RecoveryDelayed:
    """What the job should go on from cannot be read yet, for its storage is away; Submitted follows."""

    cause: str


@dataclass(frozen=True, slots=True)
class SlotMessageReceived:
    """A message came in over an authenticated control stream."""

    message: SlotMessage
    slot: SlotId | None = None
    """The slot that the stream belongs to, if the driver knows; fences messages that do not name their slot."""


@dataclass(frozen=True, slots=True)
class SlotLost:
    """A slot's control stream ended without SlotLeaving, or its process is known to be dead."""

    slot: SlotId
    attempt: Attempt
    cause: str


@dataclass(frozen=True, slots=True)
class StageEnded:
    """The barrier stage that hosted a region's slots is over, and with it their processes."""

    region: int
    attempt: Attempt
    error: str | None
    """None: it returned in good order."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user wants the job to stop now."""


class AfterSavepoint(enum.Enum):
    """What a job does behind a savepoint."""

    GO_ON = "go on"
    CANCEL = "cancel"
    """Once it is complete; what sinks have not committed by then is left to whoever starts from the savepoint."""
    SUSPEND = "suspend"
    """Nothing is emitted behind it; sinks commit; the job is FINISHED."""
    DRAIN = "drain"
    """As SUSPEND, after the end of the input has gone through: windows fire."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """Somebody wants a savepoint; answered by RequestAnswered."""

    request_id: str
    target_directory: str | None = None
    """URI; None: execution.checkpointing.savepoint-dir."""
    kind: SnapshotKind = SnapshotKind.CANONICAL
    """CANONICAL, or FULL for the backend's own form."""
    after: AfterSavepoint = AfterSavepoint.GO_ON


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """Somebody wants a checkpoint now; answered by RequestAnswered."""

    request_id: str
    kind: SnapshotKind | None = None
    """FULL or INCREMENTAL; None: as configured."""


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """Somebody wants other parallelisms; answered by RequestAnswered when the job runs with them."""

    request_id: str
    parallelism: Mapping[VertexId, int]
    """Of the vertices that are to change."""


@dataclass(frozen=True, slots=True)
class StorageAnswered:
    """A StoreCheckpoint has been performed, or could not be."""

    answer: Stored | NotStored


@dataclass(frozen=True, slots=True)
class Tick:
    """`JobMasterMachine.next_deadline_ms` has come. More ticks do no harm."""


JobMasterEvent = (
    Submitted
    | RecoveryDelayed
    | SlotMessageReceived
    | SlotLost
    | StageEnded
    | CancelRequested
    | SavepointRequested
    | CheckpointRequested
    | RescaleRequested
    | StorageAnswered
    | Tick
)
