"""Types of the live documents, for the contract with clients. Times are epoch ms, sizes bytes, rates per second.

`live_document`, `checkpoint_document` and `cluster_document` build what these describe; the tests compare. Members that
are `NotRequired` are missing in documents that an earlier version has saved, unless a description says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, NotRequired, TypedDict

from backend.contract.schema import Named

JobState = Annotated[
    Literal[
        "INITIALIZING",
        "CREATED",
        "RUNNING",
        "FAILING",
        "FAILED",
        "CANCELLING",
        "CANCELED",
        "FINISHED",
        "RESTARTING",
        "SUSPENDED",
        "RECONCILING",
    ],
    Named("JobState"),
]
ExecutionState = Annotated[
    Literal[
        "CREATED",
        "SCHEDULED",
        "DEPLOYING",
        "INITIALIZING",
        "RUNNING",
        "FINISHED",
        "CANCELING",
        "CANCELED",
        "FAILED",
        "RECONCILING",
    ],
    Named("ExecutionState"),
]
Watermark = Annotated[
    int | Literal["max"] | None, Named("Watermark", 'Epoch ms; null: none yet; "max": the input has ended.')
]
CauseName = Annotated[
    Literal[
        "busy",
        "skew",
        "outside",
        "slow-sink",
        "stall",
        "alignment",
        "unknown",
        "pending-records",
        "late-data",
        "memory",
        "idle-input",
        "still-watermark",
    ],
    Named("CauseName", "What holds a job up."),
]
CauseTopic = Annotated[
    Literal["limit", "watermark", "late", "pending", "memory"],
    Named("CauseTopic", "In the order of their weight. limit: what limits the throughput."),
]
CheckpointState = Annotated[Literal["IN_PROGRESS", "COMPLETED", "FAILED"], Named("CheckpointState")]
CheckpointType = Annotated[
    Literal["CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT", "SYNC_SAVEPOINT"], Named("CheckpointType")
]
SummarisedQuantity = Annotated[
    Literal["checkpointed_size", "state_size", "end_to_end_duration", "processed_data", "persisted_data"],
    Named("SummarisedQuantity"),
]


class Freshness(TypedDict):
    """Age of a document at the time of the answer, measured by the server with one clock."""

    age_ms: int | None
    """null: no heartbeat since this web process started."""
    source: Literal["live", "kept", "database"]
    """live: from the jobmanager; kept: the last one read; database: saved at the last change of state."""
    is_stale: bool
    reason: str
    """Why it is stale, a sentence; empty if it is fresh."""


# --- a job ------------------------------------------------------------------------------------------------------------


class Metrics(TypedDict):
    """Figures of a subtask or, summed up, of a vertex."""

    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    records_in_per_second: float
    records_out_per_second: float
    bytes_in_per_second: float
    bytes_out_per_second: float
    busy: int
    """ms of the last second, 0..1000; this and the next two add up to 1000 for one subtask."""
    idle: int
    back_pressured: int
    accumulated_busy: NotRequired[int]
    """ms since the task's start, as the next two."""
    accumulated_idle: NotRequired[int]
    accumulated_back_pressured: NotRequired[int]
    watermark: Watermark
    watermark_lag: int | None
    """ms by which the watermark is behind the document's time."""
    state_size: NotRequired[int | None]
    """Bytes of state in the latest completed checkpoint or savepoint; null: there is none, or it had no part in it."""


class Subtask(TypedDict):
    index: int
    state: ExecutionState
    attempt: int
    slot: int | str | None
    taskmanager: str
    """Empty: it has no slot."""
    host: str
    pid: int | None
    start_time: int
    """-1: not started."""
    end_time: int
    """-1: not ended."""
    metrics: Metrics


class VertexInput(TypedDict):
    id: str
    """The vertex that it reads from."""
    edge: NotRequired[str]
    """Id of the edge, a number as text; documents of earlier releases have none."""
    ship_strategy: str
    side_output: NotRequired[str]
    """Id of the side output that it reads; empty: the main output."""
    operator: NotRequired[str]
    """Uid of the operator of that vertex whose output it reads."""


class EdgeMetrics(TypedDict):
    """Figures of an edge, of all its channels together."""

    records_sent: int
    """A record that is broadcast counts once for each consumer."""
    records_received: int
    """The same, and once the job has finished equal to it."""
    records_per_second: float
    bytes_per_second: float
    queued_buffers: int
    """Batches, or frames of them, that wait at either end."""
    queued_bytes: int
    watermark: Watermark
    """The lowest that has been sent."""


class OperatorInput(TypedDict):
    operator: str
    """Its uid."""
    side_output: str
    """Id of the side output that is read; empty: the main output."""


class OperatorMetrics(TypedDict):
    """Figures of an operator, of all its subtasks together."""

    records_in: int
    """Of a source: records read."""
    records_out: int
    """A record that goes several ways counts once."""
    records_in_per_second: float
    records_out_per_second: float
    watermark: Watermark
    """The lowest that has reached it; of a source: that it has sent."""


class Operator(TypedDict):
    name: str
    uid: str
    defined_at: NotRequired[str]
    """Place in the program, "file:line"."""
    input: NotRequired[OperatorInput]
    """The operator of the same chain whose records it takes; missing: it is the head of its chain."""


class Vertex(TypedDict):
    id: str
    name: str
    description: str
    parallelism: int
    max_parallelism: int
    lower_bound: NotRequired[int]
    """Bounds of the parallelism."""
    upper_bound: NotRequired[int]
    slot_sharing_group: str
    state: ExecutionState
    finished: NotRequired[int]
    """Number of subtasks that have finished, if some have and others have not."""
    inputs: list[VertexInput]
    is_source: bool
    is_sink: bool
    operators: list[Operator]
    start_time: int
    end_time: int
    metrics: Metrics
    subtasks: list[Subtask]


class SuppressedException(TypedDict):
    name: str
    message: str
    task_name: str


class JobException(TypedDict):
    timestamp: int
    name: str
    message: str
    stacktrace: str
    task_name: str
    vertex: NotRequired[str]
    """Id of the vertex that failed; empty: it is not known."""
    location: str
    taskmanager: NotRequired[str]
    attempt: int
    suppressed: list[SuppressedException]


class JobFailure(TypedDict):
    """Summary of a job's latest failure; `JobException` has the rest."""

    timestamp: int
    name: str
    message: str
    task_name: str
    attempt: int


class Stall(TypedDict):
    """A call that does not return; `vertex` is "" and `subtask` -1 if the task is unknown."""

    vertex: str
    subtask: int
    task_name: str
    slot: int
    since: int
    stack: str
    in_user_code: NotRequired[bool]
    """False: the runtime itself does not get on."""


class VertexScaling(TypedDict):
    wanted: int
    """Parallelism."""
    reason: str


class JobAutoscaler(TypedDict):
    """The present decision of a job's autoscaler; the rest only while it is enabled. {} once the job has ended."""

    enabled: NotRequired[bool]
    reason: NotRequired[str]
    """What it does, or why it does nothing."""
    vertices: NotRequired[dict[str, VertexScaling]]
    """By vertex id; empty while there are not enough samples."""
    last_decision: NotRequired[int | None]
    """Id of its last decision; null: there is none."""


class JobCause(TypedDict):
    """Something that holds a job up."""

    cause: CauseName
    vertex: str
    """Id of the culprit."""
    subtask: NotRequired[int]
    """Missing: the vertex as a whole."""
    split: NotRequired[str]
    """Id of a source's split."""
    text: str
    """Words that go on behind the name of the vertex: "is busy 98 % of the time …"."""
    figures: dict[str, float]
    """Figures behind the cause: times in ms or ms per second, rates per second."""
    waiting: list[str]
    """Ids of the back-pressured vertices above it."""


class WatermarkHolder(TypedDict):
    """The subtask of a source whose watermark is the lowest."""

    vertex: str
    subtask: int
    split: NotRequired[str]
    why: Literal["nothing-to-read", "no-watermark", "back-pressured", "behind"]
    watermark: NotRequired[int]
    """Missing: it has none yet."""
    behind: NotRequired[int]
    """ms of event time behind the newest watermark."""
    still: int
    """ms for which it has not risen although the newest has."""


class IdleInput(TypedDict):
    vertex: str
    subtask: int
    split: NotRequired[str]
    """Missing: the subtask as a whole is idle."""


class SkewFigures(NamedTuple):
    """How unevenly records are spread over the subtasks of a vertex; null: there are too few of them."""

    cv: float | None
    """Since the start of its tasks, as the next two: standard deviation / mean."""
    max_to_average: float | None
    subtask: int | None
    """The one that got most."""
    live_cv: float | None
    """Of the records per second at the moment, as the next two."""
    live_max_to_average: float | None
    live_subtask: int | None


class JobEventTime(TypedDict):
    newest: NotRequired[int]
    """The newest watermark of any source; missing: there is none."""
    speed: NotRequired[float]
    """Event time that passes in real time: 1 is as fast as the clock. Missing: not watched for long enough."""
    is_live: bool
    """Whether a source reads records of the last hour, or has done so since the job's start."""
    live: NotRequired[dict[str, bool]]
    """By id the vertices that get records of such sources only: the distance of the others to the wall clock is no
    lag."""
    idle: NotRequired[list[IdleInput]]
    """Inputs that are declared idle, and hold back no watermark; the first 20."""
    num_idle: NotRequired[int]
    """Number of all of them."""
    holder: NotRequired[WatermarkHolder]
    """Missing: all sources are equally far."""
    held_by: dict[str, str]
    """Of vertices with several inputs that differ: id of the one whose watermark is the lowest."""
    newest_of: NotRequired[dict[str, int]]
    """Of vertices whose streams never meet those of the newest watermark: the newest of theirs."""


class CheckpointEntry(TypedDict):
    """A checkpoint or savepoint without its vertices. Members without a value are missing."""

    id: int
    status: CheckpointState
    type: CheckpointType
    is_savepoint: bool
    format: NotRequired[Literal["CANONICAL", "NATIVE"]]
    """Of savepoints only."""
    trigger_timestamp: int
    latest_ack_timestamp: int
    """-1: none yet."""
    end_to_end_duration: int
    checkpointed_size: int
    """Newly written."""
    state_size: int
    """Everything it refers to."""
    processed_data: int
    """In-flight data processed during the alignment."""
    persisted_data: int
    """In-flight data persisted."""
    metadata_size: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    external_path: str
    discarded: bool
    """Its files have been deleted."""
    failure_timestamp: NotRequired[int]
    failure_message: NotRequired[str]


class CheckpointSummary(TypedDict):
    """Over all completed checkpoints; without any, members are missing."""

    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    p50: NotRequired[float]
    p90: NotRequired[float]
    p95: NotRequired[float]
    p99: NotRequired[float]
    p999: NotRequired[float]


class CheckpointConfig(TypedDict):
    interval: NotRequired[int]
    """Missing: no periodic checkpoints."""
    mode: Literal["exactly_once", "at_least_once"]
    timeout: int
    min_pause: int
    max_concurrent: int
    tolerable_failures: int
    num_retained: int
    retention: Literal["no_externalized_checkpoints", "delete_on_cancellation", "retain_on_cancellation"]
    unaligned: bool
    aligned_timeout: int
    incremental: bool
    after_tasks_finish: bool
    micro_batches: NotRequired[bool]
    """Whether each checkpoint is a batch; missing: the document is of an earlier release."""
    state_backend: str
    directory: NotRequired[str]
    savepoint_directory: NotRequired[str]


class CheckpointCounts(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class RestoredCheckpoint(TypedDict):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(TypedDict):
    completed: NotRequired[CheckpointEntry]
    failed: NotRequired[CheckpointEntry]
    savepoint: NotRequired[CheckpointEntry]
    restored: NotRequired[RestoredCheckpoint]


class RestoredOperator(TypedDict):
    uid: str
    name: str
    saved_parallelism: int | None
    """null: it is not in the snapshot."""
    parallelism: int | None
    """null: it is not in the job."""


class RestoreReport(TypedDict):
    """How the restored state was matched with operators."""

    location: str
    checkpoint_id: int
    is_savepoint: bool
    matched: list[RestoredOperator]
    dropped: list[RestoredOperator]
    new: list[RestoredOperator]


class JobCheckpoints(TypedDict):
    config: CheckpointConfig
    counts: CheckpointCounts
    summary: dict[SummarisedQuantity, CheckpointSummary]
    latest: LatestCheckpoints
    history: dict[str, CheckpointEntry]
    """By id, the last ones: `web.checkpoints.history`."""
    failures_since: NotRequired[int]
    """When the latest row of failed checkpoints began, those with no completed one between them; missing: none has
    failed."""
    failures_in_a_row: NotRequired[int]
    """Number of checkpoints in that row; savepoints do not count."""
    restore_report: NotRequired[RestoreReport]
    """Missing: no state was restored."""


class OpenOperation(TypedDict):
    """An operation on a job that is not completed."""

    trigger_id: str
    kind: Literal["cancel", "savepoint", "stop", "checkpoint", "rescale"]
    is_begun: bool
    """Whether the leader carries it out; false: it waits."""
    since: int
    """When it was requested, epoch ms."""
    requested_by: str
    """A user; empty: nobody in particular."""


class JobDocument(TypedDict):
    id: str
    name: str
    state: JobState
    attempt: int
    restarts: int
    start_time: int
    end_time: int
    """-1: not ended."""
    duration: int
    now: int
    """Time of the document, by the jobmanager's clock."""
    version: int
    """Grows with every change."""
    waiting_for: str
    scaling: NotRequired[str]
    """Why it runs with less than its upper bounds; empty: it does not."""
    has_autoscaler_bounds: NotRequired[bool]
    """Whether the vertices' bounds are those of its autoscaler: nobody has given any."""
    parallelism: int
    max_parallelism: int
    vertices: list[Vertex]
    edges: NotRequired[dict[str, EdgeMetrics]]
    """By id; missing in documents of earlier releases."""
    operators: NotRequired[dict[str, OperatorMetrics]]
    """By uid; missing in documents of earlier releases."""
    failure: NotRequired[JobFailure | None]
    """The newest cause since the submission; null: none."""
    failures: NotRequired[int]
    """Total number of failures; `exceptions` has the latest."""
    next_attempt_at: NotRequired[int]
    """-1: none is scheduled."""
    stalls: NotRequired[list[Stall]]
    """Calls of user code that have not returned for some seconds."""
    operations: NotRequired[list[OpenOperation]]
    """Those that are not completed, oldest first."""
    autoscaler: NotRequired[JobAutoscaler]
    causes: NotRequired[dict[CauseTopic, JobCause]]
    """Causes of which each limits the job, by topic: one for the throughput, one for the watermark … Missing: the job
    has not been watched for long enough, or does not run."""
    event_time: NotRequired[JobEventTime]
    late_records: NotRequired[dict[str, int]]
    """Dropped since the start of the tasks, by the uid of the operator; missing: none."""
    skew: NotRequired[dict[str, SkewFigures]]
    """By vertex id, those with the largest skew, the worst first; missing: there is none, or the job does not run."""
    exceptions: list[JobException]
    """The latest, newest first."""
    checkpoints: NotRequired[JobCheckpoints]
    freshness: Freshness


# --- the cluster ------------------------------------------------------------------------------------------------------


class TaskManagerSummary(TypedDict):
    id: str
    host: str
    pid: int
    slots: int
    free_slots: int
    last_heartbeat: int
    registered_at: int
    state: Literal["REGISTERED", "DRAINING", "LOST", "GONE"]
    spark_master: str
    cpu_cores: int
    physical_memory: int
    free_memory: int


class JobLimit(TypedDict):
    """The cause that limits a job, and the vertex that it is found at."""

    cause: CauseName
    vertex: str
    """Its id."""
    name: str
    """The vertex's."""


class FailedCheckpoint(TypedDict):
    id: int
    at: int
    message: str
    is_savepoint: NotRequired[bool]
    """This and the next two are missing in documents of earlier releases."""
    since: NotRequired[int | None]
    """When the latest row of failed checkpoints began, those with no completed one between them; null: none has
    failed."""
    in_a_row: NotRequired[int]
    """Number of checkpoints in that row; savepoints do not count."""


class JobSummary(TypedDict):
    id: str
    name: str
    state: JobState
    start_time: int
    end_time: int
    duration: int
    parallelism: int
    tasks: dict[ExecutionState, int]
    """Number of tasks by state."""
    tasks_total: int
    restarts: int
    waiting_for: str
    last_checkpoint: int | None
    """Completion time of the latest checkpoint; null: there is none."""
    failed_checkpoint: NotRequired[FailedCheckpoint | None]
    """The latest one; null: none has failed. Missing where an earlier release wrote it."""
    records_in_per_second: NotRequired[float]
    """Of its sources together; this and the next three are missing where an earlier release wrote them."""
    behind: NotRequired[int | None]
    """ms of event time by which its last vertex is behind the newest source; null: there is nothing to compare."""
    lag: NotRequired[int | None]
    """ms by which its watermark is behind the clock; null: its sources are not live."""
    limit: NotRequired[JobLimit | None]
    """The weightiest cause that limits it; null: nothing does as far as is known."""


class ClusterDocument(TypedDict):
    version: int
    now: int
    slots_total: int
    slots_available: int
    taskmanagers: list[TaskManagerSummary]
    jobs: list[JobSummary]
    """All that run and the last that ended, newest first."""
    freshness: Freshness


class JobManager(TypedDict):
    id: str
    """host:pid"""
    role: Literal["LEADER", "STANDBY"]
    epoch: int | None
    """null: it does not lead."""
    leading_since: int | None
    is_alive: bool | None
    """false: it has not been seen for 5 s; null: unknown."""


class JobManagers(TypedDict):
    jobmanagers: list[JobManager]
    """The leader first."""
    redis_answers: bool
