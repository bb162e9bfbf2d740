"""REST route of a job's failures, grouped by their cause."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster import services
from backend.contract.operation import operation
from backend.live.answers import FailureGroups
from backend.live.api import check_job
from backend.live.failure_groups import failure_groups
from backend.live.job_events import events_of


class FailureGroupsView(ProductView):
    """Failures of a job, equal ones in one group, with what else went on in the attempt of each."""

    @operation(FailureGroups)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        document, _ = services.read_job(job_id)
        groups = failure_groups(document, events_of(services.get_job(job_id), document))
        kept = len(document["exceptions"])
        return Response({"groups": groups, "kept": kept, "total": max(kept, document.get("failures", 0))})
