"""REST route of the stacks of a vertex: what its subtasks do, sampled on demand, and what all threads there do."""

from __future__ import annotations

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Conflict
from backend.accounts.views import ProductView
from backend.cluster import services
from backend.cluster.events import MAX_SAMPLED_MS
from backend.cluster.models import Job
from backend.contract.operation import operation
from backend.live.answers import StacksAnswer, StacksRequest, StacksWanted
from backend.live.api import check_job
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import runs_in_passes


class StacksView(ProductView):
    """The last samples, which are kept for ten minutes. Viewers may have new ones taken."""

    @operation(StacksAnswer)
    def get(self, request: Request, job_id: str, vertex_id: str) -> Response:
        _check(job_id, vertex_id)
        return Response({"stacks": services.vertex_stacks(job_id, vertex_id)})

    @operation(StacksWanted, body=StacksRequest, status=202)
    def post(self, request: Request, job_id: str, vertex_id: str) -> Response:
        _check(job_id, vertex_id)
        for options in Job.objects.filter(id=job_id).values_list("graph__configuration", flat=True):
            if runs_in_passes(Configuration.from_dict(options), blocks_by_default=False):
                raise Conflict("The tasks of this job run in passes, in processes that cannot be sampled.")
        body = request.data
        duration = body.get("duration") if isinstance(body, dict) else None
        if type(duration) is not int or not 0 <= duration <= MAX_SAMPLED_MS:
            raise exceptions.ValidationError({"duration": f"Must be a number of ms, 0 to {MAX_SAMPLED_MS}."})
        services.want_stacks(job_id, vertex_id, duration)
        return Response({"duration": duration}, status=202)


def _check(job_id: str, vertex_id: str) -> None:
    """Raise NotFound unless there is such a vertex."""
    check_job(job_id)
    document, _ = services.read_job(job_id)
    if all(vertex["id"] != vertex_id for vertex in document["vertices"]):
        raise exceptions.NotFound(f"The job has no vertex {vertex_id[:100]}.")
