"""/jobs/:jobid/checkpoints: statistics of checkpoints, and triggering one."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.cluster import services
from backend.cluster.job_requests import CHECKPOINT_TYPES
from backend.cluster.models import Operation
from backend.contract.operation import operation
from backend.dispatcher.answers import checkpoints as answers
from backend.dispatcher.answers.operations import CheckpointRequest, CheckpointStatus, Triggered
from backend.dispatcher.api.base import JobView, check_id, path_number
from backend.dispatcher.api.operations import ask, body_of, choice, result_of, trigger_id_of
from backend.dispatcher.shapes import checkpoints as shapes
from backend.dispatcher.shapes import operations


class CheckpointsView(JobView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.CheckpointStatistics)
    def get(self, request: Request, job_id: str) -> Response:
        return Response(shapes.checkpoints(self.document.get("checkpoints", {})))

    @operation(Triggered, body=CheckpointRequest, status=202)
    def post(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        parameters = {"type": choice(body, "checkpointType", CHECKPOINT_TYPES, "CONFIGURED")}
        operation = ask(request, self.job, Operation.Kind.CHECKPOINT, parameters, trigger_id_of(body))
        return Response({"request-id": operation.trigger_id}, status=202)


class CheckpointTriggerView(JobView):
    @operation(CheckpointStatus)
    def get(self, request: Request, job_id: str, trigger_id: str) -> Response:
        return Response(operations.checkpoint(result_of(trigger_id, self.job, (Operation.Kind.CHECKPOINT,))))


class CheckpointConfigView(JobView):
    @operation(answers.CheckpointConfigAnswer)
    def get(self, request: Request, job_id: str) -> Response:
        return Response(shapes.checkpoint_config(self.document.get("checkpoints", {}).get("config", {})))


class CheckpointView(JobView):
    @operation(answers.CheckpointDetails)
    def get(self, request: Request, job_id: str, checkpoint_id: str) -> Response:
        details = self._details(checkpoint_id)
        return Response(shapes.checkpoint(details, details["vertices"]))

    def _details(self, checkpoint_id: str) -> dict[str, Any]:
        number = path_number("checkpointid", checkpoint_id)
        details = services.checkpoint_details(self.job, number)
        if details is None:
            raise exceptions.NotFound(f"Could not find checkpointing statistics for checkpoint {number}.")
        return details


class CheckpointSubtasksView(CheckpointView):
    @operation(answers.CheckpointSubtasks)
    def get(self, request: Request, job_id: str, checkpoint_id: str, vertex_id: str = "") -> Response:
        check_id("vertexid", vertex_id)
        details = self._details(checkpoint_id)
        vertex = details["vertices"].get(vertex_id)
        if vertex is None:
            raise exceptions.NotFound(f"There is no task with id {vertex_id} in checkpoint {checkpoint_id}.")
        return Response(shapes.subtasks(details, vertex))
