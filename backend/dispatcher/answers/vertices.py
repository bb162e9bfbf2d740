"""Types of the routes of a job's vertices."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from backend.cluster.document_types import ExecutionState

StateCounts = dict[ExecutionState, int]
Level = Literal["ok", "low", "high"]
#: a ratio, or "NaN" if it is not measured
Ratio = float | Literal["NaN"]

IoMetrics = TypedDict(
    "IoMetrics",
    {
        "read-bytes": int,
        "read-bytes-complete": bool,
        "read-records": int,
        "read-records-complete": bool,
        "write-bytes": int,
        "write-bytes-complete": bool,
        "write-records": int,
        "write-records-complete": bool,
        "accumulated-backpressured-time": int,
        "accumulated-idle-time": int,
        "accumulated-busy-time": int | Literal["NaN"],
    },
)


class Summary(TypedDict):
    min: int
    max: int
    avg: int
    sum: int
    median: int
    p25: int
    p75: int
    p95: int


class FlameGraph(TypedDict):
    """Answers what the subtasks of a vertex were seen to do."""

    endTimestamp: int
    """Epoch ms; -1: the vertex does not run, -3: the first samples are being taken."""
    data: NotRequired[dict[str, Any]]
    """{"name", "value", "children": […]}, the root."""


class FlameGraphQuery(TypedDict):
    type: NotRequired[str]
    """FULL, ON_CPU or OFF_CPU."""
    subtaskindex: NotRequired[int]


Aggregated = TypedDict("Aggregated", {"metrics": dict[str, Summary], "status-duration": dict[str, Summary]})

JobVertex = TypedDict(
    "JobVertex",
    {
        "id": str,
        "slotSharingGroupId": str,
        "name": str,
        "maxParallelism": int,
        "parallelism": int,
        "status": ExecutionState,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "tasks": StateCounts,
        "metrics": IoMetrics,
    },
)

SubtaskDetail = TypedDict(
    "SubtaskDetail",
    {
        "subtask": int,
        "status": ExecutionState,
        "attempt": int,
        "endpoint": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IoMetrics,
        "taskmanager-id": str,
        "status-duration": dict[str, int],
        "start_time": int,
    },
)


class VertexDetail(TypedDict):
    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[SubtaskDetail]
    aggregated: Aggregated


VertexTaskManager = TypedDict(
    "VertexTaskManager",
    {
        "endpoint": str,
        "status": ExecutionState,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IoMetrics,
        "status-counts": StateCounts,
        "taskmanager-id": str,
        "aggregated": Aggregated,
    },
)


class VertexTaskManagers(TypedDict):
    id: str
    name: str
    now: int
    taskmanagers: list[VertexTaskManager]


class SubtaskTime(TypedDict):
    subtask: int
    endpoint: str
    duration: int
    timestamps: StateCounts
    """State → when it was entered; 0: never."""


class SubtaskTimes(TypedDict):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTime]


class SubtaskWatermark(TypedDict):
    id: str
    value: str


SubtaskBackPressure = TypedDict(
    "SubtaskBackPressure",
    {
        "subtask": int,
        "attempt-number": int,
        "backpressureLevel": Level,
        "backpressure-level": Level,
        "ratio": float,
        "idleRatio": Ratio,
        "busyRatio": Ratio,
    },
)
BackPressure = TypedDict(
    "BackPressure",
    {
        "status": Literal["ok", "deprecated"],
        "backpressureLevel": Level,
        "backpressure-level": Level,
        "end-timestamp": int,
        "subtasks": NotRequired[list[SubtaskBackPressure]],
    },
)
