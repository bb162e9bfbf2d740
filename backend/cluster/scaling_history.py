"""History of the autoscalers' decisions and of who switched them on or off: rows that a new leader continues from.

Ages are told by the database's clock alone: a cooldown is the same for every leader, whatever its own clock says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F
from django.db.models.functions import Now

from backend.cluster.leadership import Leadership
from backend.cluster.models import Job, Operation, Scaling

KEPT = 20
"""Decisions that are kept per job, newest first."""


@dataclass(frozen=True, slots=True)
class PastScaling:
    """A decision that was recorded."""

    scaling_id: int
    age_ms: float
    changes: Mapping[str, Mapping[str, Any]]
    """As `Scaling.changes` has them."""
    cost_ms: float | None


class ScalingHistory:
    """Reads and writes the rows for the leader.

    Args:
        leadership: fences all writes.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership

    def switches(self, job_ids: Collection[str]) -> dict[str, bool]:
        """Return those of the jobs whose autoscaler a user has switched, and whether it is on."""
        switched = Job.objects.filter(id__in=job_ids, autoscaler_enabled__isnull=False)
        return {job_id: bool(is_on) for job_id, is_on in switched.values_list("id", "autoscaler_enabled")}

    def past(self, job_id: str) -> list[PastScaling]:
        """Return the recorded decisions about a job, newest first."""
        age = ExpressionWrapper(Now() - F("stamp"), output_field=DurationField())
        rows = Scaling.objects.filter(job_id=job_id).annotate(age=age).order_by("-id")[:KEPT]
        millisecond = timedelta(milliseconds=1)
        return [PastScaling(row.id, max(0.0, row.age / millisecond), row.changes, row.cost_ms) for row in rows]

    def record(self, job_id: str, reason: str, changes: Mapping[str, Mapping[str, Any]], now: int) -> int:
        """Record a decision before it is acted on, and forget the oldest beyond `KEPT`; return its id.

        Args:
            job_id: the job.
            reason: in words for a user.
            changes: as `Scaling.changes` has them.
            now: epoch ms.
        """
        with self._leadership.fenced():
            row = Scaling.objects.create(
                job_id=job_id, decided_at=now, stamp=Now(), reason=reason, changes=dict(changes)
            )
            kept = Scaling.objects.filter(job_id=job_id).order_by("-id").values_list("id", flat=True)[:KEPT]
            Scaling.objects.filter(job_id=job_id, id__lt=list(kept)[-1]).delete()
        return int(row.id)

    def came_about(self, scaling_id: int, cost_ms: float | None) -> None:
        """Record that the job runs as was decided, and what that has cost."""
        with self._leadership.fenced():
            Scaling.objects.filter(id=scaling_id, cost_ms__isnull=True).update(cost_ms=cost_ms)


def numbers_of_rescales(job: Job | None = None) -> dict[str, int]:
    """Return job id → how often users and its autoscaler have rescaled it, as far as that is kept.

    Args:
        job: the only one that counts; None: all do.
    """
    asked = Operation.objects.filter(kind=Operation.Kind.RESCALE, state=Operation.State.COMPLETED)
    decided = Scaling.objects.filter(cost_ms__isnull=False)
    counts: Counter[str] = Counter()
    for rows in (asked.exclude(result__has_key="error"), decided):
        chosen = rows if job is None else rows.filter(job=job)
        counts.update(dict(chosen.order_by().values_list("job").annotate(Count("pk"))))
    return dict(counts)
