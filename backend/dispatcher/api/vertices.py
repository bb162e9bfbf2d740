"""/jobs/:jobid/vertices/:vertexid and its subroutes."""

from __future__ import annotations

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.cluster import services
from backend.cluster.stack_document import flame_tree
from backend.cluster.task_metrics import Metrics, flink_metrics, metric_scopes
from backend.contract.operation import operation
from backend.dispatcher.answers import vertices as answers
from backend.dispatcher.answers.metrics import (
    AggregatedMetric,
    AttemptAccumulators,
    Metric,
    MetricQuery,
    SubtasksAccumulators,
    SubtasksMetricsQuery,
    VertexAccumulators,
)
from backend.dispatcher.api.base import Document, VertexView, aggregations, is_number, names, path_number
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.shapes import accumulators
from backend.dispatcher.shapes import vertices as shapes
from backend.dispatcher.shapes.metrics import aggregated, listed, subtask_metrics, vertex_metrics
from backend.dispatcher.shapes.statistics import AGGREGATIONS

MAX_SUBTASKS = 32768
FLAME_GRAPHS = ("full", "on_cpu", "off_cpu")
FLAME_GRAPH_MS = 5_000
FLAME_GRAPH_AGE_MS = 60_000
#: Flink's, in place of a time
ENDED, WAITING = -1, -3


class VertexDetailView(VertexView):
    @operation(answers.VertexDetail)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.vertex_detail(self.vertex, self.document["now"]))


class FlameGraphView(VertexView):
    """Flink's: the answer is that of the last samples, and new ones are taken if they are older than a minute."""

    @operation(answers.FlameGraph, query=answers.FlameGraphQuery)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        kind = request.query_params.get("type", "FULL").lower()
        if kind not in FLAME_GRAPHS:
            raise BadRequest("type must be one of FULL, ON_CPU, OFF_CPU.")
        index = request.query_params.get("subtaskindex")
        subtask = None if index is None else self.subtask(index)["index"]
        if self.vertex["state"] in ("FINISHED", "CANCELED", "FAILED"):
            return Response({"endTimestamp": ENDED})
        stacks = services.vertex_stacks(job_id, vertex_id)
        has_samples = stacks is not None and stacks["duration"] > 0
        if stacks is None or not has_samples or services.now_ms() - stacks["ended_at"] > FLAME_GRAPH_AGE_MS:
            services.want_stacks(job_id, vertex_id, FLAME_GRAPH_MS)
        if stacks is None or not has_samples:
            return Response({"endTimestamp": WAITING})
        return Response({"endTimestamp": stacks["ended_at"], "data": flame_tree(stacks, kind, subtask)})


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
    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        values = vertex_metrics(self.metrics_of(self.vertex["subtasks"]))
        return Response(listed(values, names(request, "get")))


class CoordinatorMetricsView(VertexView):
    """Metrics of coordinators in the JobManager: they are in the slots here, where they have none of their own."""

    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response([])


class SubtasksMetricsView(MetricsOfVertexView):
    @operation(list[AggregatedMetric], query=SubtasksMetricsQuery)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        chosen = _ranges(names(request, "subtasks"))
        subtasks = [s for s in self.vertex["subtasks"] if chosen is None or s["index"] in chosen]
        rows = self.metrics_of(subtasks).values()
        return Response(aggregated(rows, names(request, "get"), aggregations(request, AGGREGATIONS)))


class SubtaskView(VertexView):
    @operation(answers.SubtaskDetail)
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        return Response(shapes.subtask_detail(self.vertex, self.subtask(index), self.document["now"]))


class SubtaskAttemptView(VertexView):
    """Details of the current attempt, the only one known; failures of earlier ones are in the exception history."""

    @operation(answers.SubtaskDetail)
    def get(self, request: Request, job_id: str, vertex_id: str, index: str, attempt: str) -> Response:
        subtask = self.subtask(index)
        number = path_number("attempt", attempt)
        if subtask["attempt"] != number:
            raise exceptions.NotFound(f"Could not find attempt {number} in subtask {index}.")
        return Response(shapes.subtask_detail(self.vertex, subtask, self.document["now"]))


class SubtaskAttemptAccumulatorsView(SubtaskAttemptView):
    @operation(AttemptAccumulators)
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
    @operation(list[Metric], query=MetricQuery)
    def get(self, request: Request, job_id: str, vertex_id: str, index: str) -> Response:
        [values] = self.metrics_of([self.subtask(index)]).values()
        return Response(listed(values, names(request, "get")))


class SubtaskTimesView(VertexView):
    @operation(answers.SubtaskTimes)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.subtask_times(self.vertex, self.document["now"]))


class VertexTaskManagersView(VertexView):
    @operation(answers.VertexTaskManagers)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.by_taskmanager(self.vertex, self.document["now"]))


class WatermarksView(VertexView):
    @operation(list[answers.SubtaskWatermark])
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.watermarks(self.vertex))


class BackPressureView(VertexView):
    @operation(answers.BackPressure)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(shapes.back_pressure(self.vertex, self.document["now"]))


class VertexAccumulatorsView(VertexView):
    @operation(VertexAccumulators)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(accumulators.vertex_accumulators(services.job_accumulators(self.job), self.vertex))


class SubtasksAccumulatorsView(VertexView):
    @operation(SubtasksAccumulators)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        return Response(accumulators.subtasks_accumulators(services.job_accumulators(self.job), self.vertex))


def _ranges(texts: list[str]) -> set[int] | None:
    """Parse index ranges such as "0-2" and "5"; None if there are none."""
    if not texts:
        return None
    chosen: set[int] = set()
    for text in texts:
        low, dash, high = text.partition("-")
        if not is_number(low) or (dash and not is_number(high)) or int(high or low) >= MAX_SUBTASKS:
            raise BadRequest(f"Query parameter subtasks: {text[:40]!r} is not an index or a range of indexes.")
        chosen.update(range(int(low), int(high or low) + 1))
    return chosen
