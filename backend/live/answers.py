"""Types of the product's own routes, for the contract with clients. Times are epoch ms, sizes bytes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from backend.cluster.document_types import CheckpointState, CheckpointType, ExecutionState, JobState, VertexScaling
from backend.cluster.peek_document import SeenByPeek
from backend.cluster.stack_document import VertexStacks
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


LogLevel = Annotated[Literal["DEBUG", "INFO", "WARN", "ERROR", "FATAL"], Named("LogLevel", "Ascending.")]

JobLogFrom = TypedDict("JobLogFrom", {"from": NotRequired[int]})


class JobLogQuery(JobLogFrom):
    """`from`: epoch ms; earlier entries are left out."""

    q: NotRequired[str]
    """A text in one line that is in the entry, in any case; missing: all entries."""
    level: NotRequired[LogLevel]
    """The lowest one. What was printed has none."""
    attempt: NotRequired[int]
    slot: NotRequired[int]
    vertex: NotRequired[str]
    """Id of the vertex whose tasks have logged it. It is not known of what was printed."""
    operator: NotRequired[str]
    """Uid of the operator whose code has logged it."""
    kind: NotRequired[Literal["out", "log", "jobmanager", "taskmanager"]]
    """Lines that slots have printed or logged, or a JobManager or TaskManager has logged about the job.
    Missing: all, of processes only without `attempt` and `slot`."""
    order: NotRequired[Literal["newest", "oldest"]]
    """Which entries come first; by default the newest."""
    cursor: NotRequired[str]
    """Of the answer before, with the same order."""
    limit: NotRequired[int]
    """Maximum number of entries, at most 1,000; by default 200."""


class JobLogEntry(TypedDict):
    """A record of a log with all its lines, or a line that belongs to none, as what was printed."""

    time: int | None
    """When it was logged; of what was printed, when it arrived; null: nobody knows."""
    level: LogLevel | Literal[""]
    attempt: int | None
    """null, as `slot`: a JobManager or TaskManager has logged it."""
    slot: int | None
    kind: Literal["out", "log", "jobmanager", "taskmanager"]
    vertex: str
    """Id of the vertex whose task has logged it; empty: none, or it is not known."""
    subtask: int | None
    operator: str
    """Uid of the operator whose code has logged it; empty: none, or it is not known."""
    name: str
    """The file; of a process, its kind and id: "taskmanager/host:4711-0a1b2c"."""
    offset: int
    """Of its first byte in the file."""
    text: str
    """Without time and level: logger and message."""
    is_cut: bool
    """Only the part around what was looked for is here."""


class JobLog(TypedDict):
    """Entries of all logs of a job by time, and how far the server has looked for them in this request."""

    entries: list[JobLogEntry]
    cursor: str | None
    """Where the next request goes on. Oldest first, also for what is written later; newest first null: that is all."""
    follow: str
    """A cursor, oldest first, for what is written after this answer."""
    is_complete: bool
    """All that is there was searched, and is among the entries or was so before."""
    searched_to: int | None
    """What is not searched is not newer than this; or, oldest first, not older. null: nothing is left, or unknown."""
    left: int
    """Bytes that are not searched yet."""
    size: int
    """Of all the logs."""
    logs: int
    """Number of logs that are searched."""
    left_out: int
    """Number of logs that are not searched unless `attempt` or `slot` says so: of earlier attempts, or of too many
    slots."""


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


class Tags(TypedDict):
    tags: list[str]
    """In the order in which they were given."""


class TagsChange(TypedDict):
    tags: list[str]
    """Those that the job is to have."""
    was: NotRequired[list[str]]
    """Those that it had when they were edited. Given: only what differs from them is added and removed, so that nobody
    undoes what somebody else has tagged meanwhile.
    """


class AllTags(TypedDict):
    jobs: dict[str, list[str]]
    """By job, of those in the overview that have any."""


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
    deleted_by: list[Literal["stop", "cancel"]]
    """Endings of the job that delete it: stop with savepoint, cancel."""


class RestoreCheckQuery(TypedDict):
    location: str
    """Directory of a snapshot, or path of its metadata."""


class RestoreCheck(TypedDict):
    """Whether a snapshot can be restored once the job has been ended."""

    deleted_by: list[Literal["stop", "cancel"]]
    """See `RestorePoint`."""
    problem: str
    """Reason why it cannot be restored as it is; else empty."""


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


HistoryFrom = TypedDict("HistoryFrom", {"from": NotRequired[int]})


class HistoryWindow(HistoryFrom):
    """`from`: the beginning, ten minutes before the end if it is not given."""

    to: NotRequired[int]
    """The end; now if it is not given."""
    step: NotRequired[int]
    """Over so many ms samples are averaged; more if a series would have more than 1,000 points."""


class HistoryQuery(HistoryWindow):
    series: str
    """Their names, at most 64, with commas between them: "v.<vertex id>.<metric>", "e.<edge id>.<metric>", and of any
    metric of a vertex "p.<vertex id>.<Flink's id>.<statistic>", where the statistic of the subtasks is "least",
    "average" or "greatest". The last ones are kept from when they are first asked for, at most 64 metrics of a job."""


class HistoryCurves(TypedDict):
    is_available: bool
    """false: Redis does not answer in time, or others are reading, so that nothing is known."""
    begin: int
    end: int
    step: int
    times: list[int]
    """Ascending, the same for all series."""
    series: dict[str, list[float | None]]
    """Name → its values at these times; null: nobody knows it."""


class TaskManagerHistory(HistoryCurves):
    """`memory_used`, bytes of the machine; `slots_memory`, resident bytes of the processes of slots; `slots_used`."""


class MetricHistory(HistoryCurves):
    events: list[TimelineEvent]
    """Checkpoints, operations, rescalings and failures in this time, oldest first; at most 200, the newest."""


class StacksAnswer(TypedDict):
    stacks: VertexStacks | None
    """null: nothing was sampled in the last ten minutes."""


class StacksRequest(TypedDict):
    duration: int
    """ms, at most 60,000; 0: only the stacks of all threads are wanted."""


class StacksWanted(TypedDict):
    """Samples are being taken, unless that is so already; they are there a moment after that time."""

    duration: int


class PeekRequest(TypedDict):
    """Names an edge, or an operator."""

    edge: NotRequired[str]
    """Id of an edge, as an input of a vertex has it."""
    operator: NotRequired[str]
    """Uid of the operator that an edge within a chain leads to."""
    late: NotRequired[str]
    """Uid of the operator whose dropped late records are to be seen, those of before, too."""
    subtasks: NotRequired[list[int]]
    """Those that write to the edge; missing or empty: all."""
    rows: NotRequired[int]
    """Shown in a second, of all subtasks together; at most 20, which is the default."""


class PeekBegun(TypedDict):
    id: str
    lease: int
    """ms; the peek ends if nobody looks for so long."""


class PeekPosition(TypedDict, total=False):
    after: int
    """Number of the last element that is known; missing: none is."""


class PeekAnswer(SeenByPeek):
    """Elements that were seen after that position, as far as they are kept."""


class StateQuery(TypedDict, total=False):
    snapshot: str
    """Id of a checkpoint, or trigger id or location of a savepoint of the job; missing: its newest checkpoint."""


class StateSnapshot(TypedDict):
    kind: Literal["checkpoint", "savepoint"]
    checkpoint_id: int | None
    timestamp: int
    """When it was completed."""
    location: str


class KeyField(TypedDict):
    name: str
    """Empty: the key is one value."""
    type: str


class KeyedState(TypedDict):
    name: str
    kind: Literal["value", "list", "map", "reducing", "aggregating", "columnar"]
    """columnar: rows of a vectorised operator."""
    type: str
    """Of its values."""
    is_namespaced: bool
    """It has a value for each window."""
    has_ttl: bool
    is_pickled: bool
    """Its values are pickled, and not decoded."""


class StateOperator(TypedDict):
    id: str
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    key_type: str
    """Empty: the program has not declared it."""
    key_fields: list[KeyField]
    """Fields of a key; none: its type is unknown."""
    window_type: str
    """Empty: none."""
    formats: list[str]
    """Formats of its state: canonical, hashmap, rocksdb."""
    size: int
    """Bytes of its files."""
    has_timers: bool
    states: list[KeyedState] | None
    """null: they are not recorded, as by earlier versions."""


class StateContents(TypedDict):
    """The operators of a snapshot that have state per key, from sources to sinks."""

    snapshot: StateSnapshot | None
    """null: the job has completed no checkpoint that is kept."""
    operators: list[StateOperator]


class StateKeysRequest(TypedDict):
    snapshot: NotRequired[str]
    """See `StateQuery`."""
    operator: str
    """Its id."""
    state: str
    limit: NotRequired[int]
    """At most 100, which is the default."""


class StateKey(TypedDict):
    key: Any
    encoded_key: str
    """Stands for exactly this key."""


class StateKeys(TypedDict):
    """Keys that have a state, in no order."""

    snapshot: StateSnapshot
    keys: list[StateKey]
    is_all: bool
    """There are no others."""


class StateLookupRequest(TypedDict):
    snapshot: NotRequired[str]
    """See `StateQuery`."""
    operator: str
    """Its id."""
    state: str
    key: NotRequired[Any]
    """Of the type of the operator's keys, an array of several fields; numbers may be texts, dates are ISO texts."""
    key_type: NotRequired[str]
    """Of `key`, if the program has declared none."""
    encoded_key: NotRequired[str]
    """In place of `key`, as `StateKey` has it."""


class StateExportRequest(TypedDict):
    """Without `key` and `encoded_key`, keys that have the state are exported, else what the key has."""

    snapshot: NotRequired[str]
    """See `StateQuery`."""
    operator: str
    """Its id."""
    state: str
    key: NotRequired[Any]
    """This and the next two: see `StateLookupRequest`."""
    key_type: NotRequired[str]
    encoded_key: NotRequired[str]


class StateExport(TypedDict):
    snapshot: StateSnapshot
    csv: str
    """A file with a header. What a spreadsheet would take for a formula has an apostrophe before it."""
    num_rows: int
    """At most 10,000."""
    is_cut: bool
    """There is more than that."""


class StateValue(TypedDict):
    namespace: Any
    """The window; null: none."""
    value: Any
    """A map is an array of {"key", "value"}; null if it is not decoded."""
    touched: int | list[int] | None
    """When it was last touched, ms, of state with time to live; of lists and maps for each item."""
    is_decoded: bool
    """Otherwise it is pickled."""
    num_items: int | None
    """Of lists and maps."""
    is_cut: bool
    """Parts of it are left out."""


class StateTimer(TypedDict):
    service: str
    is_event_time: bool
    timestamp: int
    namespace: Any


class StateLookup(TypedDict):
    """State and timers of one key in a snapshot."""

    snapshot: StateSnapshot
    key: Any
    encoded_key: str
    key_group: int
    subtask: int
    values: list[StateValue]
    """One for each namespace, the first 100."""
    num_values: int
    timers: list[StateTimer]
    """Of the key, of all states of the operator; the first 100."""
    num_timers: int
    read_bytes: int
    """Bytes of the snapshot that were read for it."""


class VertexRun(TypedDict):
    """Run of a vertex in one attempt."""

    vertex: str
    attempt: int
    state: ExecutionState
    """As it ended."""
    begin: int
    end: int | None


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
    runs: list[VertexRun]
    """Of attempts before the newest one of each vertex, which the live document has; at most 300, the newest."""


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


BatchKind = Annotated[
    Literal["data", "idle", "snapshot", "drain"],
    Named(
        "BatchKind", "idle: of a checkpoint that is no batch; snapshot: of a savepoint; drain: of a stop that drains."
    ),
]


class BatchPhases(TypedDict):
    """The time of a batch, ms; the phases follow each other."""

    plan: float
    """Until its splits were dealt and its tasks began."""
    run: float
    """In the tasks, until all of them had stored their state."""
    store: float
    """Until the checkpoint was recorded."""
    commit: float
    """Until the sinks had committed."""


class BatchPosition(TypedDict):
    """How far a split has been read."""

    vertex: str
    name: str
    """The vertex's."""
    index: int
    split: str
    position: str
    """As JSON; what it means is the source's own matter."""


class Batch(TypedDict):
    """A batch of a job in micro-batches, or of one of its regions if these restart alone."""

    checkpoint: int
    """The checkpoint that it ends with."""
    region: str
    """The first of its vertices."""
    name: str
    """The vertex's."""
    number: NotRequired[int]
    """Spark's number of it; missing: it is none of a query, and has read nothing."""
    kind: BatchKind
    time: int
    """The time that all of it has for the present."""
    read_records: int
    write_records: int
    splits: int
    """Number of splits that its sources have begun."""
    caught_up: bool
    """Whether there was nothing more to read."""
    duration: float
    """The sum of its phases, ms."""
    phases: BatchPhases
    spark_phases: dict[str, float]
    """Spark's own phases, ms, by its names for them; {} until the next batch begins."""
    positions: list[BatchPosition]
    """Of splits that are being read, at most 16."""


class Batches(TypedDict):
    micro_batches: bool
    """Whether the job is executed in micro-batches."""
    batches: list[Batch]
    """Complete ones, the newest first, of the last 60 checkpoints; a new leader knows its own only."""


class BatchesQuery(TypedDict, total=False):
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
    needed_for: str | None
    """Who that is, in words: the job, or a deployment that may have to go back to it."""


class SavepointsQuery(TypedDict, total=False):
    job: str
    """Id of the job whose savepoints are listed; missing: of all jobs."""
    search: str
    """Lists those with this in their location, or in the name or id of their job, or the name of who asked for them."""
    limit: int
    """At most 200, which is the default."""
    offset: int
    """Number of newer ones to leave out; missing: 0."""


class Savepoints(TypedDict):
    savepoints: list[Savepoint]
    """Newest first."""
    total: int
    """Number of those that the query finds, listed or not."""
