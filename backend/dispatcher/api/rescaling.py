"""/jobs/:jobid/resource-requirements: the bounds of a job's parallelisms; and its predecessor, /rescaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Unavailable
from backend.accounts.roles import Role
from backend.audit import trail
from backend.cluster.job_requirements import changed, requirements_of
from backend.cluster.models import Job, Operation
from backend.contract.operation import operation
from backend.dispatcher.answers import operations as answers
from backend.dispatcher.api.base import JobView, whole_number
from backend.dispatcher.api.operations import ask, body_of, trigger_id_of
from backend.dispatcher.errors import BadRequest
from runtime.graph.codec import job_graph_from_json
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.requirements import check_requirements
from runtime.jobmaster.rescaling import RescaleError, rescaled

MAX_PARALLELISM = 32768
#: Flink's clients send it for "unchanged"
UNCHANGED = -1


class ResourceRequirementsView(JobView):
    """The bounds of each vertex's parallelism.

    A lower bound that is not given stays; without room between the bounds, it is the new upper bound.
    """

    roles = {"PUT": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.Requirements)
    def get(self, request: Request, job_id: str) -> Response:
        return Response({vertex: {"parallelism": of_vertex} for vertex, of_vertex in self._bounds().items()})

    @operation(answers.Triggered, body=answers.RequirementsRequest)
    def put(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        vertices = {name: value for name, value in body.items() if name != "triggerId"}
        given = {vertex_id: _bounds(vertex_id, value) for vertex_id, value in vertices.items()}
        if not given:
            raise BadRequest("No vertex is given.")
        wanted: dict[str, dict[str, int]] = {"parallelism": {v: upper for v, (_, upper) in given.items()}}
        lower = {vertex_id: bound for vertex_id, (bound, _) in given.items() if bound is not None}
        if lower:
            wanted["lower"] = lower
        graph = _check(self.job, wanted)
        bounds = {vertex: bounds for vertex, bounds in self._bounds().items() if vertex in given}
        trail.note(request._request, before=bounds)
        before = {vertex.vertex_id: vertex.parallelism for vertex in graph.vertices if vertex.vertex_id in given}
        operation = ask(request, self.job, Operation.Kind.RESCALE, {**wanted, "before": before}, trigger_id_of(body))
        # Flink answers {}; its clients ignore unknown fields
        return Response({"request-id": operation.trigger_id})

    def _bounds(self) -> dict[str, dict[str, int]]:
        requirements = requirements_of(*_job_and_graph(self.job))
        return {v: {"lowerBound": b.lower, "upperBound": b.upper} for v, b in requirements.items()}


class RescalingView(JobView):
    """Answers as Flink does when rescaling is switched off."""

    roles = {"PATCH": Role.OPERATOR}  # noqa: RUF012

    @operation(None)
    def patch(self, request: Request, job_id: str) -> Response:
        raise Unavailable("Use PUT /jobs/:jobid/resource-requirements to rescale a job.")


def _bounds(vertex_id: str, value: Any) -> tuple[int | None, int]:
    """Return the lower bound, None if it is not given, and the upper bound."""
    bounds = value.get("parallelism") if isinstance(value, dict) else None
    if not isinstance(bounds, dict) or "upperBound" not in bounds:
        raise BadRequest(f'{vertex_id[:40]}: {{"parallelism": {{"lowerBound": …, "upperBound": …}}}} is expected.')
    upper = whole_number(f"upperBound of {vertex_id[:40]}", bounds["upperBound"], 1, MAX_PARALLELISM)
    if bounds.get("lowerBound") in (None, UNCHANGED):
        return None, upper
    return whole_number(f"lowerBound of {vertex_id[:40]}", bounds["lowerBound"], 1, MAX_PARALLELISM), upper


def _job_and_graph(job: Job) -> tuple[Job, JobGraph]:
    row = Job.objects.only("graph", "vertex_parallelism", "requirements").get(id=job.id)
    return row, rescaled(job_graph_from_json(row.graph), row.vertex_parallelism)


def _check(job: Job, wanted: Mapping[str, Any]) -> JobGraph:
    """Refuse bounds within which the job can never run; return its graph as it runs."""
    try:
        row, graph = _job_and_graph(job)
        check_requirements(graph, changed(requirements_of(row, graph), wanted))
        return graph
    except RescaleError as error:
        raise BadRequest(str(error)) from error
