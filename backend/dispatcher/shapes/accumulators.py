"""Accumulators of a job, a vertex, its subtasks. Values are text, as Flink prints them. Source: Flink,
StringifiedAccumulatorResult."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backend.cluster.storable import storable
from backend.cluster.task_metrics import accumulator_reports
from backend.dispatcher.shapes.vertices import Subtask, Vertex, endpoint
from runtime.common.accumulators import AccumulatorReport, merge_accumulators

NOTHING = "null"
"""Text for an accumulator without a value."""


def job_accumulators(document: Mapping[str, Any], vertex_ids: Iterable[str]) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/accumulators, merged over all subtasks.

    Args:
        document: an `accumulators_document`.
        vertex_ids: the job's vertex ids, in order.
    """
    return {
        "job-accumulators": [],
        "user-task-accumulators": _described(_of_vertices(document, vertex_ids)),
        # serialized Java objects, which only Java can write or read
        "serialized-user-task-accumulators": {},
    }


def vertex_accumulators(document: Mapping[str, Any], vertex: Vertex) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/accumulators, merged over its subtasks."""
    return {"id": vertex["id"], "user-accumulators": _described(_of_vertices(document, [vertex["id"]]))}


def subtasks_accumulators(document: Mapping[str, Any], vertex: Vertex) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/vertices/:vertexid/subtasks/accumulators."""
    subtasks = [
        {
            "subtask": subtask["index"],
            "attempt": subtask["attempt"],
            "endpoint": endpoint(subtask),
            "user-accumulators": subtask_accumulators(document, vertex, subtask),
        }
        for subtask in vertex["subtasks"]
    ]
    return {"id": vertex["id"], "parallelism": vertex["parallelism"], "subtasks": subtasks}


def subtask_accumulators(document: Mapping[str, Any], vertex: Vertex, subtask: Subtask) -> list[dict[str, str]]:
    """Return the accumulators of one subtask."""
    return _described(accumulator_reports(document, vertex["id"]).get(subtask["index"], []))


def _of_vertices(document: Mapping[str, Any], vertex_ids: Iterable[str]) -> Iterable[AccumulatorReport]:
    for vertex_id in vertex_ids:
        for reports in accumulator_reports(document, vertex_id).values():
            yield from reports


def _described(reports: Iterable[AccumulatorReport]) -> list[dict[str, str]]:
    merged = merge_accumulators(reports)
    return [{"name": report.name, "type": report.kind, "value": _text(report.value)} for report in merged]


def _text(value: float | None) -> str:
    return NOTHING if value is None else str(storable(value))
