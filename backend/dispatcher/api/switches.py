"""/api/v1/jobs/:jobid/switch: a running job goes on in another execution."""

from __future__ import annotations

import re
from typing import Any

from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.accounts.views import ProductView
from backend.audit import trail
from backend.cluster.models import Job, new_id
from backend.contract.operation import operation
from backend.dispatcher import switches
from backend.dispatcher.answers import switches as answers
from backend.dispatcher.api.base import find_job
from backend.dispatcher.models import ExecutionSwitch
from backend.dispatcher.presence import has_left

_KEY = re.compile(r"[!-~]{8,100}")
State = ExecutionSwitch.State


class SwitchView(ProductView):
    """POST plans the job's program for the other execution; the leading jobmanager does the rest.

    It stops the job and starts its program, so it takes the role for both.
    """

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_programs = ("POST",)

    @operation(answers.JobSwitch)
    def get(self, request: Request, job_id: str) -> Response:
        row = switches.newest_switch(find_job(job_id).id)
        return Response({"switch": None if row is None else _answer(row)})

    @operation(answers.Switch, body=answers.NewSwitch, status=202)
    def post(self, request: Request, job_id: str) -> Response:
        job = find_job(job_id)
        body = request.data if isinstance(request.data, dict) else {}
        execution, key = body.get("execution"), body.get("key", new_id())
        if execution not in switches.EXECUTIONS:
            raise exceptions.ValidationError({"execution": f"Must be {' or '.join(switches.EXECUTIONS)}."})
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise exceptions.ValidationError({"key": "Must be 8 to 100 printable ASCII characters without blanks."})
        trail.note(request._request, execution=execution)
        row = switches.switch(job, execution, request.user, key, has_left(request))
        trail.note(request._request, switch=row.id, job=row.job_id)
        return Response(_answer(row), status=status.HTTP_202_ACCEPTED)


def _answer(row: ExecutionSwitch) -> dict[str, Any]:
    successor = {State.SUBMITTED: row.job_id, State.RUNNING: row.job_id, State.ROLLED_BACK: row.rollback_job_id}
    return {
        "id": row.id,
        "execution": row.execution,
        "state": row.state,
        "state_times": row.state_times,
        "message": row.message,
        "savepoint": row.savepoint or None,
        "old_job_id": row.old_job_id,
        "job_id": row.job_id if Job.objects.filter(id=row.job_id).exists() else None,
        "goes_on_as": successor.get(State(row.state)),
        "created_at": row.created_at,
        "created_by": None if row.created_by is None else row.created_by.get_username(),
    }
