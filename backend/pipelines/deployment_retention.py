"""DeploymentRetention: the leading jobmanager deletes deployments beyond the newest ones of each pipeline.

Never deleted is one that is under way, one that another replaces meanwhile, and one whose job has a row: the page of
the job links to it. Versions stay: they are what users have written. Part of the leader's poll.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from django.db.models import Count

from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation
from backend.cluster.models import Job
from backend.pipelines.models import OPEN_STATES, Deployment
from runtime.core.clock import Clock

logger = logging.getLogger(__name__)

LOOK_MS: Final = 60_000.0
"""Interval of looks. Shorter: queries for nothing; longer: a burst of deployments stays longer."""
KEPT: Final = 100
"""Of a pipeline: as many as the page lists."""
MAX_AT_ONCE: Final = 50
"""Deleted by one transaction; each has the graph of a job."""


class DeploymentRetention:
    """The deployments of one cluster; see `backend.cluster.jobmanager.FurtherWork` for the arguments."""

    def __init__(
        self, leadership: Leadership, clock: Clock, containment: Containment, check: CheckLocation | None = None
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._look_due_ms = 0.0

    def poll(self) -> None:
        """Delete what is due, `MAX_AT_ONCE` at a time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_due_ms:
            return
        due = _beyond_those_kept()
        if due:
            batch = due[:MAX_AT_ONCE]
            with self._leadership.fenced():
                Deployment.objects.filter(id__in=batch).exclude(state__in=OPEN_STATES).delete()
            logger.info("deleted %d old deployments", len(batch))
        if len(due) <= MAX_AT_ONCE:
            self._look_due_ms = now_ms + LOOK_MS

    def needed_jobs(self) -> Collection[str]:
        """Return no job: those of deployments that are under way are named by `LedDeployments`."""
        return ()


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
