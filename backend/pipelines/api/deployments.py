"""Routes of deployments: what a version would do to the state of the job that runs, and the replacement of that job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role, role_of
from backend.audit import trail
from backend.cluster.storage_calls import check_in_time
from backend.contract.operation import operation
from backend.dispatcher.presence import has_left
from backend.live.restore_points import restore_points
from backend.pipelines import deployments, services
from backend.pipelines.answers import deployments as answers
from backend.pipelines.answers.deployments import DeploymentAnswer, DeploymentListed
from backend.pipelines.api.base import (
    PipelinesView,
    PipelineView,
    PreconditionRequired,
    body_of,
    key_of,
    name_of,
    number_of,
    text_of,
)
from backend.pipelines.deployments import Restore, Seen
from backend.pipelines.models import Deployment
from runtime.checkpoint.errors import CheckpointStorageError

MAX_LOCATION_CHARS = 4000
MAX_LISTED = 100
MAX_JOBS_WITH_POINTS = 20
"""Number of a pipeline's newest deployments whose snapshots are listed: each is some queries."""


class CompatibilityView(PipelineView):
    """Reports what would become of the running job's state; runs the version's program up to its execute() only."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012
    runs_programs = ("POST",)

    @operation(answers.CompatibilityAnswer, body=answers.CompatibilityRequest)
    def post(self, request: Request, pipeline_id: str) -> Response:
        body = body_of(request)
        version, location = services.get_version(self.pipeline, number_of(body, "version")), _location(body)
        planned = deployments.plan(version, self.user, has_left(request))
        running = deployments.running_deployment(self.pipeline)
        report = deployments.report_of(running, planned.extracted.graph, location)
        return Response(
            {
                "running": None if running is None else listed_deployment(running),
                "report": None if report is None else report.to_json(),
                "nodes": dict(planned.operators),
                "warnings": list(planned.extracted.warnings),
            }
        )


class DeploymentsView(PipelineView):
    """The deployments of a pipeline; POST deploys a version. A key makes one deployment, however often it is sent."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012
    runs_programs = ("POST",)

    @operation(answers.DeploymentsAnswer)
    def get(self, request: Request, pipeline_id: str) -> Response:
        rows = deployments.newest_and_running(self.pipeline, MAX_LISTED)
        states = deployments.job_states(rows)
        return Response({"deployments": [deployment_json(row, states) for row in rows]})

    @operation(answers.DeploymentAnswer, body=answers.NewDeployment, status=202)
    def post(self, request: Request, pipeline_id: str) -> Response:
        key = key_of(request)
        if key is None:
            raise PreconditionRequired("The header Idempotency-Key is required: one key makes one deployment.")
        body = body_of(request)
        version = services.get_version(self.pipeline, number_of(body, "version"))
        is_first = not self.pipeline.deployments.exists()
        if is_first and role_of(request.user) < Role.DEVELOPER:
            raise exceptions.PermissionDenied("The first deployment of a pipeline requires the role developer.")
        restore, seen = _restore(body), _seen(body)
        trail.note(request._request, version=version.number, restore=asdict(restore))
        row = deployments.deploy(self.pipeline, version, self.user, key, restore, has_left(request), seen)
        before = row.previous
        replaced = None if before is None else {"version": before.version.number, "job": before.job_id}
        trail.note(request._request, deployment=row.id, job=row.job_id, before=replaced)
        return Response(_answer(row), status=status.HTTP_202_ACCEPTED)


class DeploymentView(PipelineView):
    """One deployment, to be asked for until its state is RUNNING, ROLLED_BACK or FAILED."""

    @operation(answers.DeploymentAnswer)
    def get(self, request: Request, pipeline_id: str, deployment_id: str) -> Response:
        row = deployments.list_deployments(self.pipeline).filter(id=deployment_id).first()
        if row is None:
            raise exceptions.NotFound(f"There is no deployment {deployment_id[:40]!r}.")
        return Response(_answer(row))


class RestorePointsView(PipelineView):
    """The snapshots of the newest jobs of a pipeline, newest first."""

    @operation(answers.PipelineRestorePoints)
    def get(self, request: Request, pipeline_id: str) -> Response:
        found: dict[str, dict[str, Any]] = {}
        for row, job in deployments.jobs_of(self.pipeline, MAX_JOBS_WITH_POINTS):
            of_job = {"job_id": job.id, "job_state": job.state, "version": row.version.number}
            for point in restore_points(job):
                known = found.get(point["location"])
                # of the job that has taken it, rather than of one that was started from it
                if known is None or known["kind"] == "start":
                    found[point["location"]] = {**point, **of_job}
        return Response({"points": sorted(found.values(), key=lambda point: -point["timestamp"])})


class JobPipelineView(PipelinesView):
    """The pipeline that a job is of, and which of its operators are which nodes."""

    @operation(answers.JobOrigin)
    def get(self, request: Request, job_id: str) -> Response:
        row = deployments.deployment_of_job(job_id)
        return Response({"drawn": None if row is None else _drawn(row)})


def _drawn(row: Deployment) -> answers.JobPipeline:
    return {
        "pipeline": row.pipeline_id,
        "name": row.pipeline.name,
        "version": row.version.number,
        "deployment": row.id,
        "operators": row.operators,
        "outputs": row.outputs,
    }


def listed_deployment(row: Deployment, states: Mapping[str, str] | None = None) -> DeploymentListed:
    """Return a deployment as lists have it.

    Args:
        row: the deployment.
        states: job id → state, if many are asked for.
    """
    states = deployments.job_states([row]) if states is None else states
    return {
        "id": row.id,
        "version": row.version.number,
        "semantic_hash": row.version.semantic_hash,
        "state": row.state,
        "job_id": row.job_id if row.job_id in states else None,
        "job_state": states.get(row.job_id),
        "created_at": row.created_at,
    }


def deployment_json(row: Deployment, states: Mapping[str, str]) -> DeploymentAnswer:
    """Return a deployment with all that is known of it."""
    restore: Mapping[str, Any] = row.restore
    return {
        **listed_deployment(row, states),
        "state_times": row.state_times,
        "message": row.message,
        "previous": row.previous_id,
        "keeps_state": bool(restore.get("keeps_state", True)),
        "allows_loss": bool(restore.get("allows_loss", False)),
        "savepoint": restore.get("savepoint") or restore.get("location") or None,
        "starts_from": restore.get("location") or None,
        "report": row.report,
        "operators": row.operators,
        "created_by": name_of(row.created_by),
    }


def _answer(row: Deployment) -> DeploymentAnswer:
    return deployment_json(row, deployments.job_states([row]))


def _seen(body: Mapping[str, Any]) -> Seen | None:
    if "replaces" not in body:
        return None
    value = body["replaces"]
    if value is not None and not isinstance(value, str):
        raise exceptions.ValidationError({"replaces": "Must be the id of a deployment, or null."})
    return Seen(value)


def _restore(body: Mapping[str, Any]) -> Restore:
    flags = {}
    for name, default in (("keeps_state", True), ("allows_loss", False)):
        value = body.get(name, default)
        if not isinstance(value, bool):
            raise exceptions.ValidationError({name: "Must be true or false."})
        flags[name] = value
    return Restore(flags["keeps_state"], flags["allows_loss"], _location(body))


def _location(body: Mapping[str, Any]) -> str:
    """Return where the snapshot is that a request names; empty: it names none."""
    location = text_of(body, "location", MAX_LOCATION_CHARS)
    if not location:
        return ""
    try:
        return check_in_time(location)
    except CheckpointStorageError as error:
        raise exceptions.ValidationError({"location": str(error)}) from error
