"""/jobs/:jobid/resource-requirements, which changes a running job's parallelisms; and its predecessor, /rescaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Unavailable
from backend.accounts.roles import Role
from backend.cluster.models import Job, Operation
from backend.dispatcher.api.base import JobView, whole_number
from backend.dispatcher.api.operations import ask, body_of, trigger_id_of
from backend.dispatcher.errors import BadRequest
from runtime.core.ids import VertexId
from runtime.graph.codec import job_graph_from_json
from runtime.jobmaster.rescaling import RescaleError, rescaled

MAX_PARALLELISM = 32768


class ResourceRequirementsView(JobView):
    """The upper bound of each vertex is its new parallelism; the lower bound is only validated."""

    roles = {"PUT": Role.OPERATOR}  # noqa: RUF012

    def get(self, request: Request, job_id: str) -> Response:
        wanted = {vertex["id"]: vertex["parallelism"] for vertex in self.document["vertices"]}
        return Response({vertex: _requirement(parallelism) for vertex, parallelism in wanted.items()})

    def put(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        vertices = {name: value for name, value in body.items() if name != "triggerId"}
        wanted = {vertex_id: _upper_bound(vertex_id, value) for vertex_id, value in vertices.items()}
        if not wanted:
            raise BadRequest("No vertex is given.")
        _check(self.job, wanted)
        operation = ask(request, self.job, Operation.Kind.RESCALE, {"parallelism": wanted}, trigger_id_of(body))
        # Flink answers {}; its clients ignore unknown fields
        return Response({"request-id": operation.trigger_id})


class RescalingView(JobView):
    """Answers as Flink does when rescaling is switched off."""

    roles = {"PATCH": Role.OPERATOR}  # noqa: RUF012

    def patch(self, request: Request, job_id: str) -> Response:
        raise Unavailable("Use PUT /jobs/:jobid/resource-requirements to rescale a job.")


def _requirement(parallelism: int) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": 1, "upperBound": parallelism}}


def _upper_bound(vertex_id: str, value: Any) -> int:
    bounds = value.get("parallelism") if isinstance(value, dict) else None
    if not isinstance(bounds, dict) or "upperBound" not in bounds:
        raise BadRequest(f'{vertex_id[:40]}: {{"parallelism": {{"lowerBound": …, "upperBound": …}}}} is expected.')
    upper = whole_number(f"upperBound of {vertex_id[:40]}", bounds["upperBound"], 1, MAX_PARALLELISM)
    # Flink's client sends -1 for "unchanged"
    if bounds.get("lowerBound") not in (None, -1):
        lower = whole_number(f"lowerBound of {vertex_id[:40]}", bounds["lowerBound"], 1, MAX_PARALLELISM)
        if lower > upper:
            raise BadRequest(f"{vertex_id[:40]}: the lower bound {lower} is above the upper bound {upper}.")
    return upper


def _check(job: Job, wanted: Mapping[str, int]) -> None:
    """Refuse parallelisms with which the job can never run."""
    row = Job.objects.only("graph", "vertex_parallelism").get(id=job.id)
    try:
        graph = rescaled(job_graph_from_json(row.graph), row.vertex_parallelism)
        rescaled(graph, {VertexId(vertex_id): parallelism for vertex_id, parallelism in wanted.items()})
    except RescaleError as error:
        raise BadRequest(str(error)) from error
