"""LedDeployments: deployments that replace a job, for the leading jobmanager's poll; see `led_replacements`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from backend.cluster.led_replacements import LedReplacements
from backend.cluster.planned_jobs import PlannedJob
from backend.pipelines.deployments import planned_job
from backend.pipelines.models import OPEN_STATES, Deployment


class LedDeployments(LedReplacements[Deployment]):
    """The open deployments of one leader."""

    what: ClassVar[str] = "deployment"

    def needed_jobs(self) -> Collection[str]:
        """Return the jobs of deployments that are under way, and of those that they replace."""
        rows = Deployment.objects.filter(state__in=OPEN_STATES)
        found = rows.values_list("job_id", "rollback_job_id", "previous__job_id", "previous__rollback_job_id")
        return {job_id for ids in found for job_id in ids if job_id}

    def open_rows(self) -> Sequence[Deployment]:
        found = Deployment.objects.filter(state__in=OPEN_STATES).select_related("previous", "created_by")
        return list(found.defer("graph", "previous__graph").order_by("created_at"))

    def replaced_job(self, row: Deployment) -> str | None:
        return None if row.previous is None else row.previous.job_id

    def savepoint_of(self, row: Deployment) -> str:
        return str(row.restore.get("savepoint", ""))

    def with_savepoint(self, row: Deployment, location: str) -> Mapping[str, Any]:
        return {"restore": {**row.restore, "savepoint": location}}

    def new_job(self, row: Deployment, savepoint: str) -> PlannedJob:
        keeps_state = row.restore.get("keeps_state", True)
        return planned_job(row, (row.restore.get("location") or savepoint) if keeps_state else "")

    def comes_back(self, row: Deployment) -> None:
        Deployment.objects.filter(id=row.previous_id).update(job_id=row.rollback_job_id)
