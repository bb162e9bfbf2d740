"""Events of a job, which the driver hands to its machine. Frozen; every one carries its cause."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.messages import Forgotten, NotStored, Stored
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, SlotId, VertexId
from runtime.task.messages import SlotMessage


@dataclass(frozen=True, slots=True)
class Submitted:
    """Start the job. Once."""

    retained: Sequence[CompletedCheckpoint] = ()
    """Completed checkpoints that an earlier JobMaster of the job has left, oldest first; the newest is restored."""
    initial: CompletedCheckpoint | None = None
    """The snapshot that the job was told to start from. Restored if there are no completed checkpoints, or none can be
    read; beside some, set only if the job has claimed it and not replaced it yet.
    """
    outcome: JobOutcome | None = None
    """How an earlier JobMaster has ended the job already; None: it has not, as far as is known."""
    is_newest_damaged: bool = False
    """Whether the newest completed checkpoint is recorded and cannot be read."""
    refusal: str | None = None
    """Why the snapshot to start from is not available: the job fails, whatever its restart strategy."""


@dataclass(frozen=True, slots=True)
class RecoveryDelayed:
    """The state to restore cannot be read yet because its storage does not answer; Submitted follows."""

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
    """None: the stage ended in good order."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The user asked for the job to stop now."""


class AfterSavepoint(enum.Enum):
    """Action of a job after a savepoint."""

    GO_ON = "go on"
    CANCEL = "cancel"
    """Cancel once the savepoint is complete; what sinks have not committed is left to the job that starts from it."""
    SUSPEND = "suspend"
    """Emit nothing after the savepoint; sinks commit; the job becomes FINISHED."""
    DRAIN = "drain"
    """Like SUSPEND, after the end of the input has gone through: windows fire."""


@dataclass(frozen=True, slots=True)
class SavepointRequested:
    """A savepoint was requested; answered by RequestAnswered."""

    request_id: str
    target_directory: str | None = None
    """URI; None: execution.checkpointing.savepoint-dir."""
    kind: SnapshotKind = SnapshotKind.CANONICAL
    """CANONICAL, or FULL for the backend's own form."""
    after: AfterSavepoint = AfterSavepoint.GO_ON
    directory: str | None = None
    """URI of the directory of its own, in `target_directory`; None: one with a new name."""


@dataclass(frozen=True, slots=True)
class SavepointLeft:
    """An earlier JobMaster was asked for a savepoint after which the job is cancelled; it is complete, but was not
    answered. Answered by RequestAnswered.
    """

    request_id: str
    location: str
    """URI of its directory."""
    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointRequested:
    """A checkpoint was requested; answered by RequestAnswered."""

    request_id: str
    kind: SnapshotKind | None = None
    """FULL or INCREMENTAL; None: as configured."""


@dataclass(frozen=True, slots=True)
class RescaleRequested:
    """A rescaling was requested; answered by RequestAnswered when the job runs with the new parallelisms."""

    request_id: str
    parallelism: Mapping[VertexId, int]
    """New parallelisms of the vertices that are to change."""
    at_once: bool = False
    """Whether it does not matter when the job was rescaled last: a person asks for it, or its slots are about to go."""
    is_move: bool = False
    """Whether the job is redeployed, and at once, even if no parallelism changes: on other slots."""


@dataclass(frozen=True, slots=True)
class ParallelismOffered:
    """The next attempt is to have other parallelisms, for which there are slots. An attempt whose slots have been
    requested and did not come begins anew with them; one that runs goes on as it is.
    """

    parallelism: Mapping[VertexId, int]
    """New parallelisms of the vertices that are to change."""


@dataclass(frozen=True, slots=True)
class StorageAnswered:
    """A StoreCheckpoint or a ForgetDamaged has been performed, or could not be."""

    answer: Stored | NotStored | Forgotten


@dataclass(frozen=True, slots=True)
class Tick:
    """`JobMasterMachine.next_deadline_ms` has come. Extra ticks do no harm."""


JobMasterEvent = (
    Submitted
    | RecoveryDelayed
    | SlotMessageReceived
    | SlotLost
    | StageEnded
    | CancelRequested
    | SavepointRequested
    | SavepointLeft
    | CheckpointRequested
    | RescaleRequested
    | ParallelismOffered
    | StorageAnswered
    | Tick
)
