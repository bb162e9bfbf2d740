"""REST route of a job's autoscaler: whether it is on, what it decides at present and why, what it has decided."""

from __future__ import annotations

import logging
from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Conflict
from backend.accounts.roles import Role
from backend.accounts.views import ProductView
from backend.audit import trail
from backend.cluster import services
from backend.cluster.models import Job, Scaling
from backend.cluster.scaling_history import KEPT
from backend.contract.operation import operation
from backend.live.answers import Autoscaler, AutoscalerSwitch
from backend.live.api import check_job

logger = logging.getLogger(__name__)


class AutoscalerView(ProductView):
    """`enabled` is true, false, or in a request null: as the job's configuration says."""

    roles = {"PUT": Role.OPERATOR}  # noqa: RUF012

    @operation(Autoscaler)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        return Response(_autoscaler(services.get_job(job_id)))

    @operation(Autoscaler, body=AutoscalerSwitch)
    def put(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = request.data
        if not isinstance(body, dict) or "enabled" not in body or not isinstance(body["enabled"], bool | None):
            raise exceptions.ValidationError({"enabled": "Must be true, false or null."})
        job = services.get_job(job_id)
        # null: as the job's configuration says
        trail.note(request._request, before=job.autoscaler_enabled, after=body["enabled"])
        try:
            services.switch_autoscaler(job, body["enabled"])
        except services.JobEndedError as error:
            raise Conflict(str(error)) from error
        logger.info("the autoscaler of job %s was switched: %s, by %s", job_id, body["enabled"], request.user)
        return Response(_autoscaler(job))


def _autoscaler(job: Job) -> dict[str, Any]:
    document, _ = services.read_job(job.id)
    told = {} if job.is_terminal else document.get("autoscaler") or {}
    # a jobmanager that has not noticed the switch yet decides as before
    is_on = not job.is_terminal and (
        told.get("enabled", False) if job.autoscaler_enabled is None else job.autoscaler_enabled
    )
    is_told = is_on and told.get("enabled", False)
    return {
        "enabled": is_on,
        "switched": job.autoscaler_enabled,
        "reason": told["reason"] if is_told else "",
        "vertices": told["vertices"] if is_told else {},
        "decisions": [_decision(row) for row in services.list_scalings(job)[:KEPT]],
    }


def _decision(row: Scaling) -> dict[str, Any]:
    kept = ("name", "before", "after", "reason")
    return {
        "id": row.id,
        "decided_at": row.decided_at,
        "reason": row.reason,
        "cost_ms": row.cost_ms,
        "changes": {vertex: {name: change[name] for name in kept} for vertex, change in row.changes.items()},
    }
