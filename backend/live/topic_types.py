"""Types of the documents that a job's topics send, for the contract with clients. Times are epoch ms, sizes bytes.

What changes by itself has a key of its own, so that a merge patch carries that alone. Figures are rows: a row is sent
as a whole, and is shorter than the names of the figures that have changed. No member is null, which a merge patch
cannot carry: a member without a value is missing. In rows, rates of 1000 and more are whole.
"""

from __future__ import annotations

from typing import NamedTuple, NotRequired, TypedDict

from backend.cluster.document_types import (
    CauseTopic,
    ExecutionState,
    Freshness,
    JobAutoscaler,
    JobCause,
    JobCheckpoints,
    JobEventTime,
    JobException,
    JobFailure,
    JobLimit,
    JobState,
    OpenOperation,
    OperatorInput,
    SkewFigures,
    Stall,
    TaskManagerSummary,
    VertexInput,
    Watermark,
)


class Figures(NamedTuple):
    """Figures of a subtask or, summed up, of a vertex; rates are per second."""

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
    watermark: Watermark
    """Its lag is the document's `now` minus this."""
    state_size: int | None
    """Bytes in the latest completed checkpoint or savepoint; null: unknown."""


class EdgeFigures(NamedTuple):
    """Figures of an edge, of all its channels together; see `EdgeMetrics`."""

    records_sent: int
    records_received: int
    records_per_second: float
    bytes_per_second: float
    queued_buffers: int
    queued_bytes: int
    watermark: Watermark


class OperatorFigures(NamedTuple):
    """Figures of an operator, of all its subtasks together; see `OperatorMetrics`."""

    records_in: int
    records_out: int
    records_in_per_second: float
    records_out_per_second: float
    watermark: Watermark


# --- what never changes -----------------------------------------------------------------------------------------------


class LiveOperator(TypedDict):
    id: str
    """Operator id, 32 hex digits; by it go the operators of a pipeline's nodes."""
    name: str
    defined_at: NotRequired[str]
    """Place in the program, "file:line"."""
    input: NotRequired[OperatorInput]
    """The operator of the same chain whose records it takes; missing: it is the head of its chain."""


class StaticVertex(TypedDict):
    name: str
    description: str
    max_parallelism: int
    slot_sharing_group: str
    is_source: bool
    is_sink: bool
    inputs: list[VertexInput]
    operators: list[str]
    """Their uids, in the order of the chain."""


class StaticJob(TypedDict):
    """Fields that stay as they are for as long as the job exists."""

    id: str
    name: str
    start_time: int
    max_parallelism: int
    order: list[str]
    """Ids of the vertices, sources first."""
    vertices: dict[str, StaticVertex]
    """By id."""
    operators: dict[str, LiveOperator]
    """By uid."""


# --- what moves -------------------------------------------------------------------------------------------------------


class LiveJobStatus(TypedDict):
    state: JobState
    attempt: int
    restarts: int
    end_time: int
    """-1: not ended."""
    waiting_for: str
    parallelism: int
    scaling: NotRequired[str]
    """Why it runs with less than its upper bounds; empty: it does not."""
    has_autoscaler_bounds: NotRequired[bool]
    """Whether the vertices' bounds are those of its autoscaler: nobody has given any."""
    failure: NotRequired[JobFailure]
    """The newest cause since the submission."""
    failures: NotRequired[int]
    """Total number of failures; `exceptions` has the latest."""
    next_attempt_at: NotRequired[int]
    """-1: none is scheduled."""


class LiveVertexStatus(TypedDict):
    state: ExecutionState
    parallelism: int
    lower_bound: NotRequired[int]
    """Bounds of the parallelism."""
    upper_bound: NotRequired[int]
    finished: NotRequired[int]
    """Number of subtasks that have finished, if some have and others have not."""
    start_time: int
    """-1: not started."""
    end_time: int
    """-1: not ended."""


class MovingJob(TypedDict):
    job: LiveJobStatus
    vertices: dict[str, LiveVertexStatus]
    """By id."""
    figures: dict[str, Figures]
    """By the vertex's id."""
    edges: dict[str, EdgeFigures]
    """By the edge's id."""
    exceptions: dict[str, JobException]
    """The latest; a newer one has a greater timestamp in its key or, if they are equal, a greater number after it."""
    stalls: dict[str, Stall]
    """Calls of user code that have not returned for some seconds, by task."""
    operations: dict[str, OpenOperation]
    """Those that are not completed, by trigger id."""
    autoscaler: NotRequired[JobAutoscaler]
    checkpoints: NotRequired[JobCheckpoints]


class DerivedJob(TypedDict):
    """Findings that the server derives from the rest."""

    causes: NotRequired[dict[CauseTopic, JobCause]]
    """Causes of which each limits the job, by topic. Missing: it has not been watched for long enough."""
    event_time: NotRequired[JobEventTime]
    late_records: NotRequired[dict[str, int]]
    """Dropped since the start of the tasks, by the uid of the operator; missing: none."""
    skew: NotRequired[dict[str, SkewFigures]]
    """By vertex id, those with the largest skew; missing: there is none, or the job does not run."""


class LiveJob(TypedDict):
    """The document of the topic "job:<id>"."""

    version: int
    """Grows with every change."""
    now: int
    """Time of the document, by the jobmanager's clock."""
    static: StaticJob
    moving: MovingJob
    derived: DerivedJob
    freshness: NotRequired[Freshness]
    """In answers of REST; the WebSocket's messages have it beside the document."""


# --- the subtasks of a vertex -----------------------------------------------------------------------------------------


class LiveSubtaskStatus(TypedDict):
    state: ExecutionState
    attempt: int
    slot: NotRequired[int | str]
    taskmanager: str
    """Empty: it has no slot."""
    host: str
    pid: NotRequired[int]
    start_time: int
    """-1: not started."""
    end_time: int
    """-1: not ended."""


class LiveVertex(TypedDict):
    """The document of the topic "job:<id>/vertex:<id>": the vertex's subtasks, by index."""

    version: int
    """Of the job's document."""
    now: int
    subtasks: dict[str, LiveSubtaskStatus]
    figures: dict[str, Figures]
    freshness: NotRequired[Freshness]
    """In answers of REST; the WebSocket's messages have it beside the document."""


# --- the operators of a job -------------------------------------------------------------------------------------------


class LiveOperators(TypedDict):
    """The document of the topic "job:<id>/operators": figures of the operators inside the chains, too."""

    version: int
    """Of the job's document."""
    now: int
    figures: dict[str, OperatorFigures]
    """By the operator's uid."""
    freshness: NotRequired[Freshness]
    """In answers of REST; the WebSocket's messages have it beside the document."""


# --- the cluster ------------------------------------------------------------------------------------------------------


class LiveJobFigures(NamedTuple):
    """Figures of a job; see `JobSummary`."""

    records_in_per_second: float
    behind: int | None
    lag: int | None


class LiveJobSummary(TypedDict):
    """A job in the list of all; see `JobSummary`."""

    name: str
    state: JobState
    start_time: int
    end_time: int
    """-1: not ended."""
    parallelism: int
    tasks: dict[ExecutionState, int]
    """Number of tasks by state."""
    restarts: int
    waiting_for: str
    last_checkpoint: NotRequired[int]
    limit: NotRequired[JobLimit]
    figures: LiveJobFigures


class LiveCluster(TypedDict):
    """The document of the topic "cluster"."""

    version: int
    """Grows with every change."""
    now: int
    """Time of the document, by the jobmanager's clock."""
    slots_total: int
    slots_available: int
    taskmanagers: dict[str, TaskManagerSummary]
    """By id."""
    jobs: dict[str, LiveJobSummary]
    """All that run and the last that ended, by id."""
    freshness: NotRequired[Freshness]
    """In answers of REST; the WebSocket's messages have it beside the document."""
