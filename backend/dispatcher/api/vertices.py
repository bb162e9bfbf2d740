"""/jobs/:jobid/vertices/:vertexid and its subroutes."""

from __future__ import annotations

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.cluster import services
from backend.cluster.task_metrics import Metrics, flink_metrics, metric_scopes
from backend.dispatcher.api.base import Document, VertexView, aggregations, bad_parameter, names
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.shapes import accumulators
from backend.dispatcher.shapes import vertices as shapes
from backend.dispatcher.shapes.metrics import aggregated, listed, subtask_metrics, vertex_metrics
from backend.dispatcher.shapes.statistics import AGGREGATIONS

MAX_SUBTASKS = 32768


class VertexDetailView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.vertex_detail(self.vertex, self.document["now"]))


class MetricsOfVertexView(VertexView):
    """Base of routes that read metrics of subtasks."""

    def metrics_of(self, subtasks: list[Document]) -> dict[int, Metrics]:
        """Return subtask index → its metrics by Flink's ids."""
        indexes = [subtask["index"] for subtask in subtasks]
        scopes = metric_scopes(self.vertex["operators"])
        reported = services.task_metrics(self.job.id, self.vertex["id"], indexes)
        is_source = not self.vertex["inputs"]
        return {
            subtask["index"]: subtask_metrics(subtask, flink_metrics(own, scopes), is_source)
            for subtask, own in zip(subtasks, reported, strict=True)
        }


class VertexMetricsView(MetricsOfVertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        values = vertex_metrics(self.metrics_of(self.vertex["subtasks"]))
        return Response(listed(values, names(request, "get")))


class SubtasksMetricsView(MetricsOfVertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        chosen = _ranges(names(request, "subtasks"))
        subtasks = [s for s in self.vertex["subtasks"] if chosen is None or s["index"] in chosen]
        rows = self.metrics_of(subtasks).values()
        return Response(aggregated(rows, names(request, "get"), aggregations(request, AGGREGATIONS)))


class SubtaskView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        return Response(shapes.subtask_detail(self.vertex, self.subtask(index), self.document["now"]))


class SubtaskAttemptView(VertexView):
    """Details of the current attempt, the only one known; failures of earlier ones are in the exception history."""

    def get(self, request: Request, job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        subtask = self.subtask(index)
        if not attempt.isdecimal():
            raise bad_parameter("attempt", attempt)
        if subtask["attempt"] != int(attempt):
            raise exceptions.NotFound(f"Could not find attempt {attempt} in subtask {index}.")
        return Response(shapes.subtask_detail(self.vertex, subtask, self.document["now"]))


class SubtaskAttemptAccumulatorsView(SubtaskAttemptView):
    def get(self, request: Request, job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        found = super().get(request, job_id, vertex_id, index, attempt).data
        document = services.job_accumulators(self.job)
        return Response(
            {
                "subtask": found["subtask"],
                "attempt": found["attempt"],
                "id": f"{job_id}_{vertex_id}_{index}_{attempt}",
                "user-accumulators": accumulators.subtask_accumulators(document, self.vertex, self.subtask(index)),
            }
        )


class SubtaskMetricsView(MetricsOfVertexView):
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        [values] = self.metrics_of([self.subtask(index)]).values()
        return Response(listed(values, names(request, "get")))


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
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(accumulators.vertex_accumulators(services.job_accumulators(self.job), self.vertex))


class SubtasksAccumulatorsView(VertexView):
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(accumulators.subtasks_accumulators(services.job_accumulators(self.job), self.vertex))


def _ranges(texts: list[str]) -> set[int] | None:
    """Parse index ranges such as "0-2" and "5"; None if there are none."""
    if not texts:
        return None
    chosen: set[int] = set()
    for text in texts:
        low, dash, high = text.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or int(high or low) >= MAX_SUBTASKS:
            raise BadRequest(f"Query parameter subtasks: {text[:40]!r} is not an index or a range of indexes.")
        chosen.update(range(int(low), int(high or low) + 1))
    return chosen
