"""Snapshots that a job can be restored from, and whether they outlive the job: most checkpoints end with it.

Reads the database; `check_restore_point` reads the storage, too. Called by web requests and by the admin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from django.db.models import QuerySet
from django.db.models.fields.json import KT

from backend.cluster import services
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import Job, Operation
from backend.cluster.snapshot_users import (
    SnapshotUses,
    deleting_endings,
    is_being_deleted,
    left_of_start,
)
from backend.cluster.storage_calls import ask_location, check_in_time
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import name_of, parent_of
from runtime.state.handles import DamagedSnapshotError

_SNAPSHOTS: Final = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)


def restore_points(job: Job) -> list[dict[str, Any]]:
    """Return what a job can be restored from, newest first: each an `answers.RestorePoint`."""
    endings = deleting_endings(job)
    found = [*checkpoint_points(job, endings), *_savepoints(job), *_start(job)]
    # the savepoint of a stop-with-savepoint is in both lists
    unique = {point["location"]: point for point in sorted(found, key=lambda point: point["timestamp"])}
    return sorted(unique.values(), key=lambda point: -point["timestamp"])


def checkpoint_points(job: Job, endings: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield those of its completed checkpoints, newest first.

    Args:
        job: the job.
        endings: of the job that delete its own checkpoints.
    """
    for row in services.list_checkpoints(job):
        yield {
            "kind": "savepoint" if row.is_savepoint else "checkpoint",
            "location": row.location,
            "checkpoint_id": row.checkpoint_id,
            "timestamp": row.completed_at,
            "size": row.size,
            "deleted_by": list(endings) if row.is_owned else [],
        }


def kept_savepoints() -> QuerySet[Operation]:
    """Return what has taken savepoints that were not disposed of; `location` is where they are."""
    taken = Operation.objects.filter(kind__in=_SNAPSHOTS, state=Operation.State.COMPLETED, result__has_key="location")
    return taken.annotate(location=KT("result__location")).exclude(location__in=_disposed())


def check_restore_point(job: Job, path: str) -> dict[str, Any]:
    """Return whether a snapshot can be restored once a job has been ended, an `answers.RestoreCheck`.

    Args:
        job: the job.
        path: of the snapshot's directory, or of its metadata.
    """
    files = cluster_storage().signed_files()
    try:
        directory = ask_location(path, lambda: files.load(path)).options.directory
        need = SnapshotUses.read(check_in_time).hindering_restore(directory)
    except (CheckpointStorageError, DamagedSnapshotError, StorageSilentError, OSError) as error:
        return {"deleted_by": [], "problem": str(error)}
    if need is not None and need.job_id == job.id:
        # a claimed one that it was started from outlives it, unless its own have taken that one's place
        is_own = name_of(parent_of(directory)) == job.id
        return {"deleted_by": list(deleting_endings(job)) if is_own else [], "problem": ""}
    if need is not None:
        return {"deleted_by": [], "problem": str(services.SnapshotNeededError(directory, need))}
    problem = str(services.SnapshotDisposedError(directory)) if is_being_deleted(directory) else ""
    return {"deleted_by": [], "problem": problem}


def _disposed() -> QuerySet[Operation, Any]:
    done = Operation.objects.filter(kind=Operation.Kind.DISPOSE, state=Operation.State.COMPLETED)
    done = done.filter(progress__has_key="directory").exclude(result__has_key="error")
    return done.values_list(KT("progress__directory"), flat=True)


def _savepoints(job: Job) -> Iterator[dict[str, Any]]:
    for row in kept_savepoints().filter(job=job):
        result = row.result or {}
        if result.get("location"):
            yield {
                "kind": "savepoint",
                "location": result["location"],
                "checkpoint_id": result.get("checkpoint_id"),
                "timestamp": row.finished_at,
                "size": None,
                "deleted_by": [],
            }


def _start(job: Job) -> Iterator[dict[str, Any]]:
    restore = left_of_start(job)
    if restore is not None:
        yield {
            "kind": "start",
            "location": restore.path,
            "checkpoint_id": None,
            "timestamp": job.created_at,
            "size": None,
            # claimed, it outlives a job that ends before its own have taken its place
            "deleted_by": [],
        }
