"""/jars: uploading, planning and running programs. A "jar" is a .py, a zip or a wheel."""

from __future__ import annotations

import logging
from typing import Any

from django.core.files.uploadhandler import TemporaryFileUploadHandler
from rest_framework import exceptions, status
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.errors import Conflict
from backend.accounts.ownership import check_owner, owned_program
from backend.accounts.roles import Role
from backend.audit import trail
from backend.audit.middleware import audited
from backend.cluster.models import Artifact
from backend.cluster.program_files import storage_problems
from backend.contract.operation import operation
from backend.dispatcher import artifacts
from backend.dispatcher.answers import jars as answers
from backend.dispatcher.api.base import FlinkView
from backend.dispatcher.archives import ArchiveError
from backend.dispatcher.errors import BadRequest
from backend.dispatcher.presence import has_left
from backend.dispatcher.programs import ProgramRequest, extract, read_program_request
from backend.dispatcher.submissions import find_artifact, run_program
from backend.dispatcher.uploads import pending_of
from runtime.client.extract import ExtractedJob
from runtime.graph.plan import operator_plan

logger = logging.getLogger(__name__)


class PayloadTooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"


class JarsView(FlinkView):
    @operation(answers.JarList)
    def get(self, request: Request) -> Response:
        rows = Artifact.objects.select_related("uploaded_by").order_by("-uploaded_at")
        return Response(
            {"address": f"{request.scheme}://{request.get_host()}", "files": [_listed(artifact) for artifact in rows]}
        )


class JarUploadView(FlinkView):
    parser_classes = (MultiPartParser,)
    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_programs = ("POST",)

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        request.upload_handlers = [TemporaryFileUploadHandler(request)]
        return super().initialize_request(request, *args, **kwargs)

    @operation(answers.JarUploaded, body=answers.JarUpload, media_type="multipart/form-data")
    def post(self, request: Request) -> Response:
        with storage_problems("uploads that are being received"):
            files = [file for name in request.FILES for file in request.FILES.getlist(name)]
        if len(files) != 1:
            raise BadRequest(f"Exactly one file must be sent, not {len(files)}.")
        try:
            artifact = artifacts.store(files[0], request.user, pending_of(request))
        except artifacts.FileTooLarge as error:
            raise PayloadTooLarge(str(error)) from error
        except (artifacts.RefusedFile, ArchiveError) as error:
            raise BadRequest(str(error)) from error
        trail.note(request._request, sha256=artifact.id, file=artifact.file_name, bytes=artifact.size)
        logger.info("%s uploaded %s (%s)", request.user, artifact.file_name, artifact.id)
        return Response({"filename": f"artifacts/{artifacts.public_id(artifact)}", "status": "success"})


class JarView(FlinkView):
    roles = {"DELETE": Role.DEVELOPER}  # noqa: RUF012

    @operation(Nothing)
    def delete(self, request: Request, jar_id: str) -> Response:
        artifact = artifacts.find_row(jar_id)
        if artifact is None:
            raise exceptions.NotFound(f"File {jar_id} does not exist.")
        check_owner(request.user, owned_program(artifact))
        try:
            artifacts.delete(artifact)
        except artifacts.ArtifactInUse as error:
            raise Conflict(str(error)) from error
        return Response({})


@audited
class JarPlanView(FlinkView):
    """The plan of a program; planning runs it in a child process, and so requires the right to run programs."""

    roles = {"GET": Role.DEVELOPER, "POST": Role.DEVELOPER}  # noqa: RUF012
    runs_programs = ("GET", "POST")
    instead_of_get = "POST"

    @operation(answers.PlanAnswer, query=answers.ProgramQuery)
    def get(self, request: Request, jar_id: str) -> Response:
        return self._plan(request, jar_id, {})

    @operation(answers.PlanAnswer, body=answers.RunRequest, query=answers.ProgramQuery)
    def post(self, request: Request, jar_id: str) -> Response:
        return self._plan(request, jar_id, request.data)

    def _plan(self, request: Request, jar_id: str, body: Any) -> Response:
        artifact = find_artifact(jar_id)
        wanted = read_program_request(body, request.query_params)
        _note(request, artifact, wanted)
        extracted = extract(artifact, wanted, has_left(request))
        operators = operator_plan(extracted.graph) | {"files": dict(extracted.texts)}
        return Response({"plan": extracted.plan_json, "operators": operators, **_told(extracted)})


class JarRunView(FlinkView):
    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_programs = ("POST",)

    @operation(answers.RunAnswer, body=answers.RunRequest, query=answers.ProgramQuery)
    def post(self, request: Request, jar_id: str) -> Response:
        artifact = find_artifact(jar_id)
        wanted = read_program_request(request.data, request.query_params)
        _note(request, artifact, wanted)
        job, extracted = run_program(artifact, wanted, request.user, has_left(request))
        trail.note(request._request, job=job.id)
        return Response({"jobid": job.id, "applicationid": job.id, **_told(extracted)})


def _listed(artifact: Artifact) -> dict[str, Any]:
    entry = artifact.entry.get("module") or artifact.file_name
    return {
        "id": artifacts.public_id(artifact),
        "name": artifact.file_name,
        "uploaded": artifact.uploaded_at,
        "entry": [{"name": entry, "description": None}],
        "size": artifact.size,
        "owner": None if artifact.uploaded_by is None else artifact.uploaded_by.get_username(),
    }


def _note(request: Request, artifact: Artifact, wanted: ProgramRequest) -> None:
    """Say in the audit event what is run, and how."""
    given = {"arguments": list(wanted.args), "options": {**wanted.configuration, **wanted.restore}}
    trail.note(request._request, sha256=artifact.id, **{name: value for name, value in given.items() if value})


def _told(extracted: ExtractedJob) -> dict[str, Any]:
    """Return messages of a program that its user should see, whether it is planned or run."""
    return {"warnings": list(extracted.warnings), "output": extracted.stdout_tail}
