"""Types of the product's own routes, for the contract with clients. Times are epoch ms, sizes bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from backend.cluster.document_types import CheckpointState, CheckpointType, JobState, VertexScaling
from backend.contract.schema import Named


class LogFile(TypedDict):
    name: str
    attempt: int
    slot: int
    kind: Literal["out", "log"]
    size: int
    mtime: int


class LogFiles(TypedDict):
    files: list[LogFile]


class LogQuery(TypedDict, total=False):
    offset: int
    """First byte; negative: counted from the end of the file."""
    limit: int
    """Maximum number of bytes."""


class LogText(TypedDict):
    name: str
    offset: int
    next_offset: int
    begin: int
    """Offset of the first byte that is kept."""
    size: int
    """Offset after the last byte."""
    text: str
    first_line: int
    """Number of the text's first line, from 1."""
    lines: int
    """Of all that is kept."""


class LogSearchQuery(TypedDict):
    name: str
    """The file."""
    query: str
    """The text to look for, in one line."""
    # "from" is not a name in Python
    limit: NotRequired[int]
    """Maximum number of matches."""
    case: NotRequired[Literal["true", "false"]]
    """Whether case matters."""


LogSearchFrom = TypedDict("LogSearchFrom", {"from": NotRequired[int]})


class LogSearchParameters(LogSearchQuery, LogSearchFrom):
    """`from`: the byte at which the search begins."""


class LogMatch(TypedDict):
    line: int
    """From 1."""
    offset: int
    """Of the line."""
    text: str


class LogSearch(TypedDict):
    """Lines of a whole file that contain a text."""

    name: str
    query: str
    size: int
    lines: int
    matches: list[LogMatch]
    searched_to: int
    is_complete: bool
    """false: continue from `searched_to`."""


class MetricOperator(TypedDict):
    """An operator of a chain; its metrics' ids begin with the scope and a dot."""

    id: str
    name: str
    scope: str
    """The name as ids have it, followed by a number if an earlier operator has the same."""


MetricValue = Annotated[
    float | bool | str, Named("MetricValue", "Integers that JavaScript's numbers cannot represent are strings.")
]


class MetricValues(TypedDict):
    id: str
    values: dict[str, MetricValue]
    """By index of the subtasks that report it."""


class VertexMetrics(TypedDict):
    """All metrics of a vertex, by Flink's ids."""

    subtasks: list[int]
    operators: list[MetricOperator]
    metrics: list[MetricValues]


class OperationResult(TypedDict):
    error: NotRequired[str]
    """Why it failed."""
    location: NotRequired[str | None]
    """Of a snapshot."""
    checkpoint_id: NotRequired[int | None]
    state: NotRequired[str]
    """Of a job that was cancelled."""


class Operation(TypedDict):
    """An operation requested by a user; the leading jobmanager carries it out."""

    trigger_id: str
    kind: Literal["cancel", "savepoint", "stop", "checkpoint", "rescale"]
    parameters: dict[str, Any]
    state: Literal["PENDING", "IN_PROGRESS", "COMPLETED"]
    created_at: int
    finished_at: int | None
    result: OperationResult | None
    requested_by: str | None


class Operations(TypedDict):
    operations: list[Operation]
    """The newest first."""


class AutoscalerSwitch(TypedDict):
    enabled: bool | None
    """null: as the job's configuration says."""


class ScalingChange(TypedDict):
    name: str
    before: int
    after: int
    reason: str


class ScalingDecision(TypedDict):
    id: int
    decided_at: int
    reason: str
    cost_ms: int | None
    """From the trigger of the checkpoint until all tasks ran; null: it was not carried out, or not yet."""
    changes: dict[str, ScalingChange]
    """By vertex id."""


class Autoscaler(TypedDict):
    """A job's autoscaler, with what it has decided, newest first."""

    enabled: bool
    switched: bool | None
    """What a user has switched it to; null: its configuration counts."""
    reason: str
    vertices: dict[str, VertexScaling]
    decisions: list[ScalingDecision]


class RestoreProgram(TypedDict):
    id: str
    name: str
    args: list[str]
    entry: str | None
    parallelism: int | None
    configuration: dict[str, str]
    hidden: list[str]
    """Secret options, which must be entered again."""


class RestorePoint(TypedDict):
    kind: Literal["checkpoint", "savepoint", "start"]
    """start: the snapshot that the job itself was started from."""
    location: str
    checkpoint_id: int | None
    timestamp: int
    size: int | None


class RestorePoints(TypedDict):
    """Snapshots from which a job can be started again, newest first, and its program's settings."""

    program: RestoreProgram | None
    """null: it has been deleted."""
    points: list[RestorePoint]


class StateSpan(TypedDict):
    state: JobState
    attempt: int | None
    """null: no attempt had begun."""
    begin: int
    end: int | None
    """null: it lasts."""
    cause: str
    """Of a failure; else empty."""


class TimelineEvent(TypedDict):
    kind: Literal["savepoint", "stop", "cancel", "checkpoint", "rescale", "autoscaler", "dispose", "failure"]
    begin: int
    end: int | None
    """null: it goes on."""
    text: str
    is_failed: bool


class JobTimeline(TypedDict):
    """The states and events of a job, oldest first."""

    begin: int
    """Its submission, or the oldest change of state that is kept."""
    is_cut: bool
    """Earlier changes of its state are no longer kept: its attempts are not all of them."""
    now: int
    """Its end, or the server's time."""
    states: list[StateSpan]
    """At most 200, the newest."""
    events: list[TimelineEvent]
    """Operations, rescalings by the autoscaler and failures; at most 200, the newest."""


class FailureNeighbour(TypedDict):
    """Something that went on in the attempt that failed."""

    kind: Literal["checkpoint", "savepoint", "stop", "cancel", "rescale", "autoscaler", "slot-lost", "dispose"]
    timestamp: int
    """When it began."""
    text: str


class FailureOccurrence(TypedDict):
    timestamp: int
    attempt: int
    task_name: str
    location: str
    message: str
    """Its first line."""
    others: int
    """Number of further failures of the same attempt."""
    beside: list[FailureNeighbour]
    """The newest first, at most 8: checkpoints under way when it failed, what else went on in the attempt."""


class FailureGroup(TypedDict):
    """Failures with the same class, vertex and line of the program."""

    name: str
    """Class of the user's error."""
    message: str
    """First line of the newest one's."""
    vertex: str
    """Id; empty: it is not known."""
    vertex_name: str
    """Or that of the task; empty: it was not in a task."""
    place: str
    """Line of the program, "file:line", else that of the operator's definition; empty: neither is known."""
    count: int
    first: int
    last: int
    occurrences: list[FailureOccurrence]
    """The newest first, at most 20."""


class FailureGroups(TypedDict):
    groups: list[FailureGroup]
    """The one that failed last first."""
    kept: int
    """Number of failures in the groups, the newest."""
    total: int
    """Number of failures of the job."""


CheckpointPhase = Annotated[
    Literal["start-delay", "alignment", "sync", "async", "rest", "commit"],
    Named("CheckpointPhase", "In their order; rest: until the acknowledgement, which nobody measures."),
]


class PhaseTime(TypedDict):
    phase: CheckpointPhase
    duration: float


class SubtaskTrace(TypedDict):
    """A subtask's part of a checkpoint; its phases, ms, follow each other."""

    vertex: str
    name: str
    """The vertex's name, and which of its subtasks it is."""
    index: int
    end_to_end_duration: NotRequired[int]
    """From the trigger to the acknowledgement; missing: it has not acknowledged."""
    is_unaligned: bool
    phases: dict[CheckpointPhase, float]
    """{}: it has not acknowledged."""


class CheckpointTrace(TypedDict):
    """The time of a checkpoint, by phase."""

    id: int
    status: CheckpointState
    type: CheckpointType
    trigger_timestamp: int
    duration: NotRequired[int]
    """From the trigger to its end; missing: it is in progress."""
    num_subtasks: int
    num_acknowledged_subtasks: int
    commit_duration: NotRequired[int]
    """From the last acknowledgement until its metadata was written and it was recorded; missing: it is not complete."""
    lost_in: NotRequired[PhaseTime]
    """The longest phase of the slowest subtask, or the commit; missing: it is unknown."""
    text: str
    """The same as a sentence."""
    failure_message: NotRequired[str]
    subtasks: list[SubtaskTrace]
    """The slowest first, at most 16: those that have not acknowledged, then those that did so last."""


class CheckpointGantt(TypedDict):
    checkpoints: list[CheckpointTrace]
    """The newest first, at most 60; a new leader knows its own only."""


class CheckpointGanttQuery(TypedDict, total=False):
    last: int
    """Number of checkpoints."""


class SavepointUser(TypedDict):
    job_id: str
    job_name: str
    job_state: JobState
    claim_mode: str


class Savepoint(TypedDict):
    location: str
    job_id: str
    job_name: str
    job_state: JobState
    created_at: int
    size: int | None
    kind: Literal["savepoint", "stop"]
    """stop: the job ended with it."""
    format: Literal["CANONICAL", "NATIVE"]
    checkpoint_id: int | None
    requested_by: str | None
    exists: bool | None
    """null: unknown at present."""
    used_by: list[SavepointUser]
    needed_by: str | None
    """The job that needs it and prevents disposing of or claiming it."""


class SavepointsQuery(TypedDict, total=False):
    job: str
    """Id of the job whose savepoints are listed; missing: of all jobs."""


class Savepoints(TypedDict):
    savepoints: list[Savepoint]
