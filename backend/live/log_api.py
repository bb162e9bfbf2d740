"""REST route of a job's log: the logs of its slots, and what JobManagers and TaskManagers log about it, as one."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.contract.operation import operation
from backend.live.answers import JobLog, JobLogQuery
from backend.live.log_query import JobLogSearch


class JobLogView(ProductView):
    """All logs of a job by time; a request searches for two seconds, or 2 GiB, and says where the next one goes on."""

    @operation(JobLog, query=JobLogQuery)
    def get(self, request: Request, job_id: str) -> Response:
        return Response(JobLogSearch.of(job_id, request.query_params).look())
