"""Types of the routes of metrics and accumulators."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Figure = float | Literal["NaN", "Infinity", "-Infinity"]


class Metric(TypedDict):
    id: str
    value: NotRequired[str]
    """Missing if the query names no metric."""


class AggregatedMetric(TypedDict):
    """Figures that the query asks for; none if it names no metric."""

    id: str
    min: NotRequired[Figure]
    max: NotRequired[Figure]
    avg: NotRequired[Figure]
    sum: NotRequired[Figure]
    skew: NotRequired[Figure]


class MetricQuery(TypedDict, total=False):
    get: str
    """Ids, with commas between them."""


class AggregatedQuery(TypedDict, total=False):
    get: str
    """Ids, with commas between them."""
    agg: str
    """Some of min, max, avg, sum and, of subtasks, skew; all if it is missing."""


class JobsMetricsQuery(AggregatedQuery, total=False):
    jobs: str
    """Job ids, with commas between them; all if it is missing."""


class TaskManagersMetricsQuery(AggregatedQuery, total=False):
    taskmanagers: str
    """TaskManager ids, with commas between them; all if it is missing."""


class SubtasksMetricsQuery(AggregatedQuery, total=False):
    subtasks: str
    """Indexes and ranges such as 0-2, with commas between them; all if it is missing."""


class Accumulator(TypedDict):
    name: str
    type: str
    value: str


JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[Any],
        "user-task-accumulators": list[Accumulator],
        "serialized-user-task-accumulators": dict[str, Any],
    },
)
VertexAccumulators = TypedDict("VertexAccumulators", {"id": str, "user-accumulators": list[Accumulator]})
SubtaskAccumulators = TypedDict(
    "SubtaskAccumulators",
    {"subtask": int, "attempt": int, "endpoint": str, "user-accumulators": list[Accumulator]},
)


class SubtasksAccumulators(TypedDict):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


AttemptAccumulators = TypedDict(
    "AttemptAccumulators", {"subtask": int, "attempt": int, "id": str, "user-accumulators": list[Accumulator]}
)
