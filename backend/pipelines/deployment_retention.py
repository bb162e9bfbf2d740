"""DeploymentRetention: the leading jobmanager deletes deployments beyond the newest ones of each pipeline.

Never deleted is one that is under way, one that another replaces meanwhile, and one whose job has a row: the page of
the job links to it. Versions stay: they are what users have written. Part of the leader's poll.
"""

from __future__ import annotations

import logging
from typing import ClassVar, Final

from django.db.models import Count

from backend.cluster.further_work import Upkeep
from backend.cluster.models import Job
from backend.pipelines.models import OPEN_STATES, Deployment

logger = logging.getLogger(__name__)

LOOK_MS: Final = 60_000.0
"""Interval of looks. Shorter: queries for nothing; longer: a burst of deployments stays longer."""
KEPT: Final = 100
"""Of a pipeline: as many as the page lists."""
MAX_AT_ONCE: Final = 50
"""Deleted by one transaction; each has the graph of a job."""


class DeploymentRetention(Upkeep):
    """The deployments of one cluster; jobs of those that are under way are named by `LedDeployments`."""

    look_ms: ClassVar[float] = LOOK_MS

    def delete(self) -> bool:
        due = _beyond_those_kept()
        if due:
            batch = due[:MAX_AT_ONCE]
            with self._leadership.fenced():
                # only the ids: graphs are large
                Deployment.objects.filter(id__in=batch).exclude(state__in=OPEN_STATES).only("pk").delete()
            logger.info("deleted %d old deployments", len(batch))
        return len(due) <= MAX_AT_ONCE


def _beyond_those_kept() -> list[str]:
    many = Deployment.objects.values("pipeline_id").annotate(number=Count("pk")).filter(number__gt=KEPT)
    due: list[str] = []
    for pipeline_id in list(many.values_list("pipeline_id", flat=True)):
        rows = Deployment.objects.filter(pipeline_id=pipeline_id).order_by("-created_at", "-id")
        closed = list(rows.exclude(state__in=OPEN_STATES).values_list("id", "job_id")[KEPT:])
        replaced = set(rows.filter(state__in=OPEN_STATES).values_list("previous_id", flat=True))
        known = set(Job.objects.filter(id__in=[job_id for _, job_id in closed]).values_list("id", flat=True))
        due += [row_id for row_id, job_id in reversed(closed) if row_id not in replaced and job_id not in known]
    return due
