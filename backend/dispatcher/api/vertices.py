"""/jobs/:jobid/vertices/:vertexid and what hangs on it."""

from __future__ import annotations

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.dispatcher.api.base import VertexView, aggregations, bad_parameter, names
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.shapes import vertices as shapes
from backend.dispatcher.shapes.metrics import aggregated, listed, subtask_metrics, vertex_metrics
from backend.dispatcher.shapes.statistics import AGGREGATIONS

MAX_SUBTASKS = 32768


class VertexDetailView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.vertex_detail(self.vertex, self.document["now"]))


class VertexMetricsView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(listed(vertex_metrics(self.vertex), names(request, "get")))


class SubtasksMetricsView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        chosen = _ranges(names(request, "subtasks"))
        subtasks = [s for s in self.vertex["subtasks"] if chosen is None or s["index"] in chosen]
        rows = [subtask_metrics(subtask) for subtask in subtasks]
        return Response(aggregated(rows, names(request, "get"), aggregations(request, AGGREGATIONS)))


class SubtaskView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        return Response(shapes.subtask_detail(self.vertex, self.subtask(index), self.document["now"]))


class SubtaskAttemptView(VertexView):
    """Only the current attempt is known here; what ended earlier ones is in the exception history."""

    def get(self, request: Request, job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        subtask = self.subtask(index)
        if not attempt.isdecimal():
            raise bad_parameter("attempt", attempt)
        if subtask["attempt"] != int(attempt):
            raise exceptions.NotFound(f"Could not find attempt {attempt} in subtask {index}.")
        return Response(shapes.subtask_detail(self.vertex, subtask, self.document["now"]))


class SubtaskAttemptAccumulatorsView(SubtaskAttemptView):
    """The engine has no accumulators: the list is empty."""

    def get(self, request: Request, job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        found = super().get(request, job_id, vertex_id, index, attempt).data
        execution = f"{job_id}_{vertex_id}_{index}_{attempt}"
        return Response(
            {"subtask": found["subtask"], "attempt": found["attempt"], "id": execution, "user-accumulators": []}
        )


class SubtaskMetricsView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        return Response(listed(subtask_metrics(self.subtask(index)), names(request, "get")))


class SubtaskTimesView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.subtask_times(self.vertex, self.document["now"]))


class VertexTaskManagersView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.by_taskmanager(self.vertex, self.document["now"]))


class WatermarksView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.watermarks(self.vertex))


class BackPressureView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.back_pressure(self.vertex, self.document["now"]))


class VertexAccumulatorsView(VertexView):
    """The engine has no accumulators: the list is empty."""

    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response({"id": self.vertex["id"], "user-accumulators": []})


class SubtasksAccumulatorsView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        subtasks = [
            {
                "subtask": subtask["index"],
                "attempt": subtask["attempt"],
                "endpoint": shapes.endpoint(subtask),
                "user-accumulators": [],
            }
            for subtask in self.vertex["subtasks"]
        ]
        return Response({"id": self.vertex["id"], "parallelism": self.vertex["parallelism"], "subtasks": subtasks})


def _ranges(texts: list[str]) -> set[int] | None:
    """ "0-2", "5" as the numbers they stand for; None if there are none."""
    if not texts:
        return None
    chosen: set[int] = set()
    for text in texts:
        low, dash, high = text.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or int(high or low) >= MAX_SUBTASKS:
            raise BadRequest(f"Query parameter subtasks: {text[:40]!r} is no index or range of indexes.")
        chosen.update(range(int(low), int(high or low) + 1))
    return chosen
