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
from backend.dispatcher.api.base import JobView, bad_parameter, check_id
from backend.dispatcher.api.operations import ask, body_of, choice, result_of, trigger_id_of
from backend.dispatcher.shapes import checkpoints as shapes
from backend.dispatcher.shapes import operations


class CheckpointsView(JobView):
    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    def get(self, request: Request, job_id: str) -> Response:
        return Response(shapes.checkpoints(self.document.get("checkpoints", {})))

    def post(self, request: Request, job_id: str) -> Response:
        body = body_of(request)
        parameters = {"type": choice(body, "checkpointType", CHECKPOINT_TYPES, "CONFIGURED")}
        operation = ask(request, self.job, Operation.Kind.CHECKPOINT, parameters, trigger_id_of(body))
        return Response({"request-id": operation.trigger_id}, status=202)


class CheckpointTriggerView(JobView):
    def get(self, request: Request, job_id: str, trigger_id: str) -> Response:
        return Response(operations.checkpoint(result_of(trigger_id, self.job, (Operation.Kind.CHECKPOINT,))))


class CheckpointConfigView(JobView):
    def get(self, request: Request, job_id: str) -> Response:
        return Response(shapes.checkpoint_config(self.document.get("checkpoints", {}).get("config", {})))


class CheckpointView(JobView):
    def get(self, request: Request, job_id: str, checkpoint_id: str) -> Response:
        details = self._details(checkpoint_id)
        return Response(shapes.checkpoint(details, details["vertices"]))

    def _details(self, checkpoint_id: str) -> dict[str, Any]:
        if not checkpoint_id.isdecimal() or len(checkpoint_id) > 18:
            raise bad_parameter("checkpointid", checkpoint_id)
        details = services.checkpoint_details(self.job, int(checkpoint_id))
        if details is None:
            raise exceptions.NotFound(f"Could not find checkpointing statistics for checkpoint {checkpoint_id}.")
        return details


class CheckpointSubtasksView(CheckpointView):
    def get(self, request: Request, job_id: str, checkpoint_id: str, vertex_id: str = "") -> Response:
        check_id("vertexid", vertex_id)
        details = self._details(checkpoint_id)
        vertex = details["vertices"].get(vertex_id)
        if vertex is None:
            raise exceptions.NotFound(f"There is no task with id {vertex_id} in checkpoint {checkpoint_id}.")
        return Response(shapes.subtasks(details, vertex))
