"""REST routes for a job's operations and for the snapshots that it can be restored from."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.accounts.views import ProductView, is_clean_text
from backend.audit.redaction import HIDDEN, redacted, redacted_arguments
from backend.cluster import services
from backend.cluster.models import Job, Operation
from backend.contract.operation import operation
from backend.live import answers
from backend.live.answers import Operations, RestoreCheckQuery, RestorePoints
from backend.live.api import check_job
from backend.live.restore_points import check_restore_point, restore_points

MAX_OPERATIONS = 100
"""Number of operations listed, newest first."""
MAX_LOCATION_CHARS = 4_096


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


class RestoreCheckView(ProductView):
    """Says whether a snapshot can be restored once a job has been ended: it is asked before that. Reads the storage."""

    roles = {"GET": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.RestoreCheck, query=RestoreCheckQuery)
    def get(self, request: Request, job_id: str) -> Response:
        job = check_job(job_id)
        location = request.query_params.get("location", "")
        if not is_clean_text(location) or not 0 < len(location) <= MAX_LOCATION_CHARS:
            raise exceptions.ValidationError(
                {"location": f"Must be a path of at most {MAX_LOCATION_CHARS} characters."}
            )
        return Response(check_restore_point(job, location))


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
