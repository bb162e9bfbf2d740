"""REST routes for a job's operations and for the snapshots that it can be restored from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.audit.redaction import HIDDEN, redacted, redacted_arguments
from backend.cluster import services
from backend.cluster.models import Job, Operation
from backend.cluster.snapshot_users import left_of_start
from backend.contract.operation import operation
from backend.live import answers
from backend.live.answers import Operations, RestorePoints
from backend.live.api import check_job

MAX_OPERATIONS = 100
"""Number of operations listed, newest first."""
SNAPSHOTS = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)


class OperationsView(ProductView):
    @operation(Operations)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        rows = services.list_operations(services.get_job(job_id)).select_related("requested_by")[:MAX_OPERATIONS]
        return Response({"operations": [_operation(row) for row in rows]})


class OperationView(ProductView):
    @operation(answers.Operation)
    def get(self, request: Request, job_id: str, trigger_id: str) -> Response:
        check_job(job_id)
        try:
            return Response(_operation(services.get_operation(trigger_id, services.get_job(job_id))))
        except services.OperationUnknownError as error:
            raise exceptions.NotFound(str(error)) from error


class RestorePointsView(ProductView):
    """Savepoints and checkpoints of a job, newest first, and the snapshot it was started from; some may be deleted."""

    @operation(RestorePoints)
    def get(self, request: Request, job_id: str) -> Response:
        job = check_job(job_id)
        return Response({"program": _program(job), "points": restore_points(job)})


def restore_points(job: Job) -> list[dict[str, Any]]:
    """Return what a job can be restored from, newest first: kind, location, checkpoint_id, timestamp and size."""
    points = sorted([*checkpoint_points(job), *_savepoints(job), *_start(job)], key=lambda point: -point["timestamp"])
    # the savepoint of a stop-with-savepoint is in both lists
    unique = {point["location"]: point for point in reversed(points)}
    return list(reversed(unique.values()))


def checkpoint_points(job: Job) -> Iterator[dict[str, Any]]:
    """Yield those of its completed checkpoints, likewise."""
    for row in services.list_checkpoints(job):
        yield {
            "kind": "savepoint" if row.is_savepoint else "checkpoint",
            "location": row.location,
            "checkpoint_id": row.checkpoint_id,
            "timestamp": row.completed_at,
            "size": row.size,
        }


def _program(job: Job) -> dict[str, Any] | None:
    """Return the job's program and its submission parameters, without what looks like a secret; None if the program has
    been deleted.
    """
    if job.artifact is None:
        return None
    given = job.submission
    configuration = dict(given.get("configuration", {}))
    shown = redacted(configuration)
    hidden = {key for key, value in configuration.items() if shown[key] != value or HIDDEN in value}
    return {
        "id": job.artifact.public_id,
        "name": job.artifact.file_name,
        "args": redacted_arguments(job.program_args),
        "entry": given.get("entry"),
        "parallelism": given.get("parallelism"),
        "configuration": {key: value for key, value in configuration.items() if key not in hidden},
        # secrets, which the user must enter again
        "hidden": sorted(hidden),
    }


def _savepoints(job: Job) -> Iterator[dict[str, Any]]:
    for row in services.list_operations(job).filter(kind__in=SNAPSHOTS, state=Operation.State.COMPLETED):
        result = row.result or {}
        if result.get("location"):
            yield {
                "kind": "savepoint",
                "location": result["location"],
                "checkpoint_id": result.get("checkpoint_id"),
                "timestamp": row.finished_at,
                "size": None,
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
        }


def _operation(row: Operation) -> dict[str, Any]:
    return {
        "trigger_id": row.trigger_id,
        "kind": row.kind,
        "parameters": row.parameters,
        "state": row.state,
        "created_at": row.created_at,
        "finished_at": row.finished_at,
        "result": row.result,
        "requested_by": None if row.requested_by is None else row.requested_by.get_username(),
    }
