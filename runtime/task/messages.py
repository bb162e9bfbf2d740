"""Messages between slots and their JobMaster. Frozen values; every one from a slot names its attempt.

They travel over a stream both of whose ends have shown that they know the attempt's token: those from slots by a closed
codec (`slot_codec`: every field is annotated with what it may hold), those to slots pickled (`jobmaster_codec`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.handles import CheckpointMetrics, TaskRestore, TaskStateHandle
from runtime.common.secrets import SecretName
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import Attempt, CheckpointId, JobId, OperatorId, SlotId, TaskId, VertexId
from runtime.core.well_formed import shortened
from runtime.graph.job_graph import JobEdge, JobVertex
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot

MAX_CAUSE_CHARS = 4_000
"""Of the message of a failure. Fewer: the end of an error is missing; more: each page of the job gets them."""
MAX_TRACEBACK_CHARS = 32_000
PROTOCOL_VERSION = 10
"""Of these messages and of what slots and JobMasters expect of each other. A JobMaster does not adopt slots of another
version: raise it with every change that an older slot would misunderstand."""


class TaskState(enum.Enum):
    """States of a task. Source: Flink, ExecutionState."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_terminal(self) -> bool:
        return self in (TaskState.FINISHED, TaskState.CANCELED, TaskState.FAILED)


@dataclass(frozen=True, slots=True)
class FailureInfo:
    """Cause of a failure, in words for the user and in full for the log."""

    message: str
    """One line: operator, record, the user's own line, the error."""
    traceback: str = ""
    task: TaskId | None = None
    task_name: str = ""
    slot: SlotId | None = None
    is_damaged_snapshot: bool = False
    """Whether the restored state cannot be read: an older checkpoint may do."""
    is_fatal: bool = False
    """Whether another attempt would fail in the same way: no restart."""
    operator_id: OperatorId | None = None
    """The operator that failed, if it is known."""
    defined_at: str = ""
    """Place in the user's program where that operator is defined, "file:line"; "" = not known."""

    def shortened(self) -> FailureInfo:
        """Return the failure with texts of a bounded length: an error may quote all that a program has read.

        What nobody may see is taken out before: nobody finds half of a secret.
        """
        if len(self.message) <= MAX_CAUSE_CHARS and len(self.traceback) <= MAX_TRACEBACK_CHARS:
            return self
        message, trace = shortened(self.message, MAX_CAUSE_CHARS), shortened(self.traceback, MAX_TRACEBACK_CHARS)
        return replace(self, message=message, traceback=trace)


@dataclass(frozen=True, slots=True)
class TaskDeployment:
    """Everything a slot needs to run one task."""

    task: TaskId
    vertex: JobVertex
    in_edges: Sequence[JobEdge]
    out_edges: Sequence[JobEdge]
    upstream_slots: Mapping[int, Mapping[int, SlotId]]
    """edge id → producer subtask → slot; only the producers that this task is connected to."""
    downstream_slots: Mapping[int, Mapping[int, SlotId]]
    """edge id → consumer subtask → slot; only the consumers that this task is connected to."""
    downstream_parallelism: Mapping[int, int]
    """edge id → the consumer's parallelism."""
    downstream_max_parallelism: Mapping[int, int]
    """edge id → the consumer's max parallelism (number of key groups)."""
    restore: TaskRestore | None = None
    """None: start empty."""


# --- JobMaster → slot -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deploy:
    """Make the tasks and their channels; answered by DEPLOYING … then INITIALIZING of each task."""

    job_id: JobId
    job_name: str
    attempt: Attempt
    configuration: Mapping[str, str]
    job_parameters: Mapping[str, str]
    tasks: Sequence[TaskDeployment]
    coordinator_slots: Mapping[OperatorId, SlotId]
    """Source operators → the slot of their subtask 0."""
    coordinator_states: Mapping[OperatorId, OperatorSnapshot] = field(default_factory=dict)
    """State of restored source coordinators: what their `snapshot` returned, and the readers' RECEIVED_STATE."""
    secrets: Mapping[SecretName, str] = field(default_factory=dict, repr=False)
    """Values of the secrets that the job's code refers to; the driver adds them when it sends the message."""
    stopped_by: CheckpointId | None = None
    """The savepoint that the tasks restore, if the job stops with it: they end at once, and emit nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """All slots have made their channels: connect and run."""

    peers: Mapping[SlotId, str]
    """Data addresses of all slots of the attempt."""


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """Stop all tasks now, without finishing them."""


@dataclass(frozen=True, slots=True)
class CommitFinished:
    """Every task of the job has finished: commit what sinks hold, then answer SlotCommitted."""


@dataclass(frozen=True, slots=True)
class SnapshotCoordinators:
    """Take the snapshot of every source coordinator in this slot; answered by CoordinatorsSnapshotted.

    What coordinators send to readers from now on is held back by the JobMaster until TriggerCheckpoint has gone out, so
    that no reader gets a split before its barrier that the enumerator's snapshot still holds.
    """

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Begins a checkpoint in every slot: sources emit the barrier; every task acknowledges once, finished ones now."""

    checkpoint_id: CheckpointId
    timestamp_ms: int
    options: CheckpointOptions


@dataclass(frozen=True, slots=True)
class NotifyCheckpointComplete:
    """All that belongs to the checkpoint is stored: sinks commit. Suspended tasks end."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifyCheckpointAborted:
    """The checkpoint was given up; tasks forget its barriers and delete nothing (the JobMaster does)."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class NotifySavepointsFailed:
    """Savepoints that earlier attempts took part in have failed: nobody relies on what was prepared for them."""

    savepoints: Sequence[tuple[Attempt, CheckpointId]]


@dataclass(frozen=True, slots=True)
class ReleaseSlot:
    """Leave: close everything and return."""

    is_over: bool = False
    """Whether every slot has committed and the job has ended: it never goes back to an older checkpoint."""


@dataclass(frozen=True, slots=True)
class ClientAck:
    """The client has taken what the slot has sent on a channel, up to a position."""

    channel: str
    position: int
    """Number of the channel's bytes that are taken."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Renews the slot's lease; answered from the slot's loop."""

    sequence: int
    sent_ms: int
    """By the JobMaster's wall clock, which barriers tell their age by."""


@dataclass(frozen=True, slots=True)
class DeliverOperatorEvent:
    """An OperatorEvent that another slot sent."""

    event: OperatorEvent


@dataclass(frozen=True, slots=True)
class ResyncSources:
    """All slots of the region have come over to a new JobMaster: sources repeat what may have been lost with the old
    one, between readers and their coordinators and between coordinators."""


@dataclass(frozen=True, slots=True)
class SampleStacks:
    """Sample the stack of the slot's loop for a while; answered by StacksSampled, also while user code does not return.

    Answered by the slot's link. A slot that is sampled already, or that has no thread for it, does not answer.
    """

    request_id: int
    duration_ms: int
    """0: only the stacks of all threads are wanted."""
    interval_ms: int


@dataclass(frozen=True, slots=True)
class StartPeek:
    """Sample the rows that pass an edge, and the marks between them, until the lease ends; answered by EdgePeeked, time
    and again. With an id that is known already: go on, with a new lease and new bytes.
    """

    peek_id: str
    vertex_id: VertexId
    """Whose output it is."""
    edge: int | OperatorId
    """Id of an edge between chains, or the operator that an edge within the vertex's chain leads to."""
    of_late: bool
    """Whether `edge` is the operator of whose dropped late records there are samples to be sent."""
    subtasks: Sequence[int]
    """Those whose rows are sampled; others than the slot's are left out."""
    interval_ms: float
    """Time from one sampled row of a subtask to the next, on average."""
    max_bytes: int
    """What the slot may send during the lease; rows beyond that are dropped."""
    lease_ms: int


@dataclass(frozen=True, slots=True)
class StopPeek:
    """End a peek before its lease does."""

    peek_id: str


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """Nothing follows, from this JobMaster or another one: the slot has no business here. Its link takes it."""


JobMasterMessage = (
    Deploy
    | Start
    | CancelTasks
    | SnapshotCoordinators
    | TriggerCheckpoint
    | NotifyCheckpointComplete
    | NotifyCheckpointAborted
    | NotifySavepointsFailed
    | CommitFinished
    | ReleaseSlot
    | ClientAck
    | HeartbeatRequest
    | DeliverOperatorEvent
    | ResyncSources
    | SampleStacks
    | StartPeek
    | StopPeek
    | EndOfStream
)

# --- slot → JobMaster -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterSlot:
    """First message of a slot."""

    slot: SlotId
    attempt: Attempt
    pid: int
    host: str
    data_address: str


@dataclass(frozen=True, slots=True)
class StalledCall:
    """A call that does not return."""

    task: TaskId | None
    """None: the call is a timer's or a notification's of a checkpoint, of any task."""
    stack: str
    """The user's lines, as in a traceback, outermost first; the runtime's own if it has called no user code."""
    in_user_code: bool = True


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Answer to HeartbeatRequest. It proves that the process runs; `stalled_ms` describes its loop."""

    slot: SlotId
    attempt: Attempt
    sequence: int
    metrics: Mapping[TaskId, Mapping[str, object]]
    """Per task: metric name → value; see runtime.task.task."""
    stalled_ms: int = 0
    """Time that the slot's loop has been inside one step: user code that does not return."""
    stalled_in: StalledCall | None = None
    """The call of user code, once it has lasted for some seconds."""
    restored_bytes: int = 0
    """Share of the snapshots that the slot has read."""


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    slot: SlotId
    attempt: Attempt
    task: TaskId
    state: TaskState
    failure: FailureInfo | None = None
    metrics: Mapping[str, object] = field(default_factory=dict)
    """Final metrics, with a terminal state."""


@dataclass(frozen=True, slots=True)
class SlotFailed:
    """Something broke that does not belong to one task: a connection, the slot itself."""

    slot: SlotId
    attempt: Attempt
    failure: FailureInfo


@dataclass(frozen=True, slots=True)
class CoordinatorsSnapshotted:
    """Answer to SnapshotCoordinators."""

    slot: SlotId
    attempt: Attempt
    checkpoint_id: CheckpointId
    states: Mapping[OperatorId, OperatorStateSnapshot]
    """By source operator; stored with its subtask 0 under COORDINATOR_STATE."""


@dataclass(frozen=True, slots=True)
class AcknowledgeCheckpoint:
    """A task's part of a checkpoint is stored."""

    slot: SlotId
    attempt: Attempt
    task: TaskId
    checkpoint_id: CheckpointId
    state: TaskStateHandle
    metrics: CheckpointMetrics


@dataclass(frozen=True, slots=True)
class DeclineCheckpoint:
    """A task cannot take part in a checkpoint: it must be given up."""

    slot: SlotId
    attempt: Attempt
    task: TaskId | None
    """None: the slot as a whole, or a coordinator of it."""
    checkpoint_id: CheckpointId
    cause: FailureInfo
    counts_as_failure: bool = True
    """False: it was not ready, or has given the checkpoint up for a newer one."""


@dataclass(frozen=True, slots=True)
class SlotCommitted:
    """Answer to CommitFinished."""

    slot: SlotId
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class OperatorEvent:
    """Event between an operator's coordinator and its subtasks, by way of the JobMaster."""

    attempt: Attempt
    operator_id: OperatorId
    target_subtask: int | None
    """None: the coordinator."""
    source_subtask: int | None
    """None: the coordinator."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class ClientOutput:
    """Bytes for the program that started the job."""

    slot: SlotId
    attempt: Attempt
    channel: str
    """"stdout", "log" or "collect:<id>"."""
    position: int
    """Number of bytes that the slot has sent on the channel before; the same when it sends them again."""
    payload: bytes


@dataclass(frozen=True, slots=True)
class StackCount:
    """How often a stack was seen."""

    frames: Sequence[int]
    """Outermost first, as indices into the frames of the message; empty: some other one."""
    on_cpu: int
    off_cpu: int


@dataclass(frozen=True, slots=True)
class SampledStacks:
    """Tells what a slot did while it was sampled."""

    request_id: int
    count: int
    """Number of samples, also of those in which the loop stepped no task."""
    frames: Sequence[str]
    """"function (file:line)", the line at which the function begins."""
    stacks: Mapping[TaskId, Sequence[StackCount]]
    threads: Mapping[str, str]
    """All threads of the process at the end: name → stack as in a traceback."""


@dataclass(frozen=True, slots=True)
class StacksSampled:
    """Answer to SampleStacks."""

    slot: SlotId
    attempt: Attempt
    sampled: SampledStacks


@dataclass(frozen=True, slots=True)
class PeekedElement:
    """A row, or a mark between rows, that has passed an edge."""

    kind: str
    """"row", "watermark", "status", "barrier" or "end"; "late": a record that was dropped."""
    subtask: int
    passed_ms: int
    """Wall clock."""
    timestamp: int | None
    """Of a row its event time, None if it has none; of a watermark its own."""
    watermark: int | None
    """Of a record that was dropped as late: the watermark that had passed its time."""
    text: str
    """Of a row its value as JSON, shortened and masked; of a status "ACTIVE" or "IDLE"; of a barrier the number of the
    checkpoint; else empty."""
    row_kind: str
    """"+I", "-U", "+U" or "-D"; empty: the row has none, or this is none."""
    is_cut: bool
    """Whether a part of the value was left out."""


@dataclass(frozen=True, slots=True)
class EdgePeeked:
    """Answer to StartPeek: what has passed since the last one."""

    slot: SlotId
    attempt: Attempt
    peek_id: str
    elements: Sequence[PeekedElement]
    """In order, of each subtask."""
    num_rows: int
    """Rows that have passed, sampled or not."""
    num_dropped: int
    """Rows and marks that did not fit into the bytes."""


@dataclass(frozen=True, slots=True)
class CheckpointDue:
    """The job's next checkpoint may begin: what drives a job in micro-batches is ready for a batch. Repeated until it
    has begun.
    """

    slot: SlotId
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class StopDue:
    """The slot's tasks have taken all batches that `execution.micro-batch.trigger` asks for: the job is to stop with a
    savepoint once all slots say so. Repeated until they end.
    """

    slot: SlotId
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class BatchCompleted:
    """A batch of a job in micro-batches is complete, its sinks' commits included. Told again once Spark has said where
    its time went.
    """

    slot: SlotId
    attempt: Attempt
    checkpoint_id: CheckpointId
    batch: BatchTrace


@dataclass(frozen=True, slots=True)
class SlotLeaving:
    """Last message of a slot that ends in good order; a stream that ends without it is a lost slot."""

    slot: SlotId
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class TaskReport:
    """State of a task, as reported to a new JobMaster."""

    task: TaskId
    state: TaskState
    failure: FailureInfo | None
    metrics: Mapping[str, object]
    age_ms: float
    """Time since it was made."""
    ended_ms_ago: float | None
    """Time since it reached a terminal state; None: it has not."""


@dataclass(frozen=True, slots=True)
class SlotReport:
    """First message of a slot to a JobMaster that adopts it: everything that the earlier one may have known of it.

    Acknowledgements of checkpoints that are not decided, and client output that is not acknowledged, follow as
    messages of their own.
    """

    registration: RegisterSlot
    tasks: Sequence[TaskReport]
    failures: Sequence[FailureInfo]
    """Of the slot as a whole."""
    pending: Mapping[CheckpointId, CheckpointOptions]
    """Checkpoints that were begun, and of which the slot does not know how they ended."""
    last_seen: CheckpointId
    """The highest checkpoint id that the slot has heard of; 0: none."""
    stopped_by: CheckpointId | None
    """The savepoint that the job stops with, if the slot has heard that it is complete."""
    has_committed: bool
    """Whether it has answered CommitFinished."""

    @property
    def slot(self) -> SlotId:
        return self.registration.slot

    @property
    def attempt(self) -> Attempt:
        return self.registration.attempt


SlotMessage = (
    RegisterSlot
    | SlotReport
    | Heartbeat
    | TaskStateChanged
    | SlotFailed
    | CoordinatorsSnapshotted
    | AcknowledgeCheckpoint
    | DeclineCheckpoint
    | SlotCommitted
    | OperatorEvent
    | ClientOutput
    | StacksSampled
    | EdgePeeked
    | CheckpointDue
    | StopDue
    | SlotLeaving
    | BatchCompleted
)
