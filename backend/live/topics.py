"""Topics of the WebSocket, and the documents that they send. Pure.

The jobmanager writes one document per job and one of the cluster, in the form of REST. A page gets them by topic:
`cluster`, `job:<id>` without subtasks and the figures of operators, `job:<id>/vertex:<id>` with the subtasks of one
vertex, `job:<id>/operators` with the figures of all operators. `topic_types` describes them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from backend.live.topic_types import EdgeFigures, Figures, LiveJobFigures, OperatorFigures
from runtime.core.ids import operator_id_of

Document = dict[str, Any]

CLUSTER_TOPIC = "cluster"
_TOPIC = re.compile(
    r"cluster|(?P<kind>job|preview):(?P<id>[0-9a-f]{32})"
    r"|(?P<job>job:[0-9a-f]{32})/(?:vertex:(?P<vertex>[0-9a-f]{32})|operators)"
)

_STATIC = ("id", "name", "start_time", "max_parallelism")
_STATUS = (
    "state",
    "attempt",
    "restarts",
    "end_time",
    "waiting_for",
    "parallelism",
    "scaling",
    "has_autoscaler_bounds",
    "failure",
    "failures",
    "next_attempt_at",
)
#: what the jobmanager has found out from the rest
_DERIVED = ("causes", "event_time", "late_records", "skew")
_STATIC_VERTEX = ("name", "description", "max_parallelism", "slot_sharing_group", "is_source", "is_sink", "inputs")
_STATIC_OPERATOR = ("name", "defined_at", "input")
_VERTEX_STATUS = ("state", "parallelism", "lower_bound", "upper_bound", "finished", "start_time", "end_time")
_CLUSTER = ("version", "now", "slots_total", "slots_available")
_JOB_SUMMARY = (
    "name",
    "state",
    "start_time",
    "end_time",
    "parallelism",
    "tasks",
    "restarts",
    "waiting_for",
    "last_checkpoint",
    "limit",
)
_SUBTASK_STATUS = ("state", "attempt", "slot", "taskmanager", "host", "pid", "start_time", "end_time")


class VertexUnknownError(Exception):
    """A job has no such vertex."""

    def __init__(self, vertex_id: str) -> None:
        super().__init__(f"The job has no vertex {vertex_id[:100]}.")
        self.vertex_id = vertex_id


# --- names ------------------------------------------------------------------------------------------------------------


def is_topic(topic: object) -> bool:
    """Return whether this is a topic that clients can subscribe to."""
    return isinstance(topic, str) and _TOPIC.fullmatch(topic) is not None


def source_of(topic: str) -> str:
    """Return the topic whose document, and whose hints, this one's document is made of: the job's for parts of it."""
    match = _TOPIC.fullmatch(topic)
    return topic if match is None or match["job"] is None else match["job"]


def job_of_topic(topic: str) -> str | None:
    """Return the job id of a topic "job:<id>"; None for others."""
    return _id_of(topic, "job")


def preview_of_topic(topic: str) -> str | None:
    """Return the preview's id of a topic "preview:<id>"; None for others."""
    return _id_of(topic, "preview")


def _id_of(topic: str, kind: str) -> str | None:
    match = _TOPIC.fullmatch(topic)
    return None if match is None or match["kind"] != kind else match["id"]


def group_of(topic: str) -> str:
    """Return the channel layer's group for a topic's hints; its names must not contain colons."""
    return source_of(topic).replace(":", ".")


# --- documents --------------------------------------------------------------------------------------------------------


def topic_document(topic: str, source: Document) -> Document:
    """Return the document of a topic.

    Args:
        topic: its name.
        source: the document of `source_of(topic)`, as the jobmanager has written it.

    Raises:
        VertexUnknownError: the job has no such vertex.
    """
    match = _TOPIC.fullmatch(topic)
    if match is not None and match["job"] is not None:
        vertex_id = match["vertex"]
        return operators_document(source) if vertex_id is None else vertex_document(source, vertex_id)
    if topic == CLUSTER_TOPIC:
        return cluster_topic(source)
    return source if job_of_topic(topic) is None else job_document(source)


def cluster_topic(source: Document) -> Document:
    """Return the `LiveCluster` of the cluster's document."""
    return _picked(source, _CLUSTER) | {
        "taskmanagers": {taskmanager["id"]: taskmanager for taskmanager in source["taskmanagers"]},
        "jobs": {job["id"]: _job_summary(job) for job in source["jobs"]},
    }


def _job_summary(job: Document) -> Document:
    # entries of earlier releases have no figures
    figures = [job.get(name) for name in LiveJobFigures._fields]
    summary: Document = _without_nulls(_picked(job, _JOB_SUMMARY))
    return summary | {"figures": [figures[0] or 0.0, *figures[1:]]}


def job_document(source: Document) -> Document:
    """Return the `LiveJob` of a job's document."""
    vertices: Sequence[Document] = source["vertices"]
    moving = {
        "job": _picked(source, _STATUS),
        "vertices": {vertex["id"]: _picked(vertex, _VERTEX_STATUS) for vertex in vertices},
        "figures": {vertex["id"]: _row(vertex["metrics"], Figures) for vertex in vertices},
        # documents of earlier releases have none
        "edges": {edge: _row(each, EdgeFigures) for edge, each in source.get("edges", {}).items()},
        "exceptions": _by_time(source["exceptions"]),
        "stalls": {f"{s['slot']}/{s['vertex']}/{s['subtask']}": s for s in source.get("stalls", ())},
        "operations": {each["trigger_id"]: each for each in source.get("operations", ())},
        "autoscaler": source.get("autoscaler"),
        "checkpoints": source.get("checkpoints"),
    }
    static = _picked(source, _STATIC) | {
        "order": [vertex["id"] for vertex in vertices],
        "vertices": {
            vertex["id"]: _picked(vertex, _STATIC_VERTEX)
            | {"operators": [operator["uid"] for operator in vertex["operators"]]}
            for vertex in vertices
        },
        "operators": {
            operator["uid"]: {"id": operator_id_of(operator["uid"])} | _picked(operator, _STATIC_OPERATOR)
            for vertex in vertices
            for operator in vertex["operators"]
        },
    }
    return {
        "version": source["version"],
        "now": source["now"],
        "static": static,
        "moving": _without_nulls(moving),
        "derived": _picked(source, _DERIVED),
    }


def vertex_document(source: Document, vertex_id: str) -> Document:
    """Return the `LiveVertex` of a vertex in a job's document.

    Raises:
        VertexUnknownError: the job has no such vertex.
    """
    vertex = next((vertex for vertex in source["vertices"] if vertex["id"] == vertex_id), None)
    if vertex is None:
        raise VertexUnknownError(vertex_id)
    subtasks = {str(subtask["index"]): subtask for subtask in vertex["subtasks"]}
    return {
        "version": source["version"],
        "now": source["now"],
        "subtasks": {index: _without_nulls(_picked(each, _SUBTASK_STATUS)) for index, each in subtasks.items()},
        "figures": {index: _row(each["metrics"], Figures) for index, each in subtasks.items()},
    }


def operators_document(source: Document) -> Document:
    """Return the `LiveOperators` of a job's document."""
    return {
        "version": source["version"],
        "now": source["now"],
        # documents of earlier releases have none
        "figures": {uid: _row(each, OperatorFigures) for uid, each in source.get("operators", {}).items()},
    }


def _row(metrics: Mapping[str, Any], form: type[Figures | EdgeFigures | OperatorFigures]) -> list[Any]:
    # documents of earlier releases have no state size
    values = (metrics.get(name) if name == "state_size" else metrics[name] for name in form._fields)
    # a tenth of a thousand records is noise, and six in a row make a twentieth of a change
    return [round(value) if isinstance(value, float) and abs(value) >= 1000.0 else value for value in values]


def _by_time(exceptions: Sequence[Document]) -> dict[str, Document]:
    """Return exceptions, newest first, by keys that stay the same when a newer one comes."""
    seen: Counter[int] = Counter()
    keyed: dict[str, Document] = {}
    for exception in reversed(exceptions):
        timestamp = exception["timestamp"]
        keyed[f"{timestamp}-{seen[timestamp]}"] = exception
        seen[timestamp] += 1
    return keyed


def _picked(document: Mapping[str, Any], names: Sequence[str]) -> Document:
    return {name: document[name] for name in names if name in document}


def _without_nulls(value: Any) -> Any:
    """Return the document without members that are null, at any depth of its objects."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(member) for name, member in value.items() if member is not None}
