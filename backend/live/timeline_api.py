"""REST route of a job's timeline."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster import services
from backend.cluster.state_history import STATES
from backend.cluster.vertex_runs import earlier_runs
from backend.contract.operation import operation
from backend.live.answers import JobTimeline
from backend.live.api import check_job
from backend.live.job_events import failures_of, operations_of
from backend.live.timeline import timeline


class TimelineView(ProductView):
    """States and attempts of a job, runs of its vertices, operations, rescalings and failures; oldest first."""

    @operation(JobTimeline)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        job = services.get_job(job_id)
        document, _ = services.read_job(job_id)
        changes = (job.document or {}).get(STATES, [])
        events = [*operations_of(job, document), *failures_of(job, document)]
        told = timeline(document, changes, job.state_times, events, services.now_ms())
        runs = earlier_runs(job.document, document)
        return Response(told | {"runs": [run for run in runs if (run["end"] or told["now"]) >= told["begin"]]})
