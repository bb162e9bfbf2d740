"""Stops that are not answered: where their savepoints were to go, and that a job goes on without one."""

from __future__ import annotations

from collections.abc import Collection

from backend.cluster.models import Operation


def left_stop(job_id: str) -> str | None:
    """Return where the savepoint of a job's stop was to go; None: there is no such stop, or the job has gone on."""
    left = _newest_open_stop(job_id)
    progress = {} if left is None or left.progress is None else left.progress
    return None if "is_given_up" in progress else progress.get("directory")


def give_up_stop(job_id: str, among: Collection[str] | None = None) -> None:
    """Record that a job goes on without the savepoint that it was to stop with, even if that is completed later.

    Called in a transaction that holds the leader's epoch.

    Args:
        job_id: the job.
        among: only if it was to go to one of these directories; None: wherever it was to go.
    """
    left = _newest_open_stop(job_id)
    if left is None or left.progress is None or (among is not None and left.progress.get("directory") not in among):
        return
    Operation.objects.filter(pk=left.pk).update(progress={**left.progress, "is_given_up": True})


def _newest_open_stop(job_id: str) -> Operation | None:
    """Return the newest stop of a job that has begun its savepoint and is not answered."""
    stops = Operation.objects.filter(job_id=job_id, kind=Operation.Kind.STOP, progress__directory__isnull=False)
    return stops.exclude(state=Operation.State.COMPLETED).order_by("created_at").last()
