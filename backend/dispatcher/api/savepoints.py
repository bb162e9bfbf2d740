"""/jobs/:jobid/savepoints, /jobs/:jobid/stop and /savepoint-disposal."""

from __future__ import annotations

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.ownership import check_owner, owned_snapshot
from backend.accounts.roles import Role
from backend.cluster.job_requests import SAVEPOINT_FORMATS
from backend.cluster.models import Operation
from backend.contract.operation import operation
from backend.dispatcher.answers import operations as answers
from backend.dispatcher.api.base import FlinkView, JobView
from backend.dispatcher.api.operations import ask, body_of, choice, flag, place, result_of, text, trigger_id_of
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.shapes import operations

SNAPSHOTS = (Operation.Kind.SAVEPOINT, Operation.Kind.STOP)


class SavepointsView(JobView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.Triggered, body=answers.SavepointRequest, status=202)
    def post(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        parameters = {
            "target_directory": place("target-directory", text(body, "target-directory", "targetDirectory")),
            "cancel_job": flag(body, "cancel-job"),
            "format": choice(body, "formatType", SAVEPOINT_FORMATS, "CANONICAL"),
        }
        operation = ask(request, self.job, Operation.Kind.SAVEPOINT, parameters, trigger_id_of(body))
        return Response({"request-id": operation.trigger_id}, status=202)


class StopView(JobView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.Triggered, body=answers.StopRequest, status=202)
    def post(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        parameters = {
            "target_directory": place("targetDirectory", text(body, "targetDirectory", "target-directory")),
            "drain": flag(body, "drain"),
            "format": choice(body, "formatType", SAVEPOINT_FORMATS, "CANONICAL"),
        }
        operation = ask(request, self.job, Operation.Kind.STOP, parameters, trigger_id_of(body))
        return Response({"request-id": operation.trigger_id}, status=202)


class SavepointTriggerView(JobView):
    """Status of a savepoint, or of a stop, for which Flink's clients also ask here."""

    @operation(answers.SavepointStatus)
    def get(self, request: Request, job_id: str, trigger_id: str) -> Response:
        return Response(operations.savepoint(result_of(trigger_id, self.job, SNAPSHOTS)))


class DisposalsView(FlinkView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.Triggered, body=answers.DisposalRequest)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        path = place("savepoint-path", text(body, "savepoint-path"))
        if path is None:
            raise BadRequest("savepoint-path is missing.")
        check_owner(request.user, owned_snapshot(path) if settings.TIDEMARK_OWNERS_ONLY else None)
        operation = ask(request, None, Operation.Kind.DISPOSE, {"path": path}, trigger_id_of(body))
        return Response({"request-id": operation.trigger_id})


class DisposalView(FlinkView):
    @operation(answers.DisposalStatus)
    def get(self, request: Request, trigger_id: str) -> Response:
        return Response(operations.disposal(result_of(trigger_id, None, (Operation.Kind.DISPOSE,))))
