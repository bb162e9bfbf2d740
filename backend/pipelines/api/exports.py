"""Routes of export and import. A file holds no secrets: neither what leaves as one, nor what is taken from one."""

from __future__ import annotations

from typing import Any

from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role
from backend.contract.operation import operation
from backend.pipelines import building, services
from backend.pipelines.answers import exports as answers
from backend.pipelines.answers.pipelines import NewPipeline
from backend.pipelines.api.base import PipelinesView, PipelineView, body_of, document_of, key_of, message_of, tags_of
from backend.pipelines.api.pipelines import number_in_query, pipeline_answer
from backend.pipelines.deployments import file_stem
from backend.pipelines.documents import check, for_export, refuse_secrets, without_secrets
from runtime.pipeline.document import canonical_text

_SUFFIXES = {"json": ".json", "python": ".py"}


class ExportView(PipelineView):
    """A version as a file: the document, or the program that it becomes; without secrets."""

    @operation(answers.Export, query=answers.ExportQuery)
    def get(self, request: Request, pipeline_id: str) -> Response:
        version = services.get_version(self.pipeline, number_in_query(request, "version"))
        kind = _kind(request.query_params.get("format", "json"))
        return _exported(version.value, kind, f"{file_stem(self.pipeline.name)}-v{version.number}", version.number)


class DocumentExportView(PipelinesView):
    """A document that need not be saved, as a file; without secrets."""

    @operation(answers.Export, body=answers.ExportBody)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        checked = document_of(body)
        kind = _kind(body.get("format", "json"))
        return _exported(checked.document.value, kind, file_stem(checked.name), None)


class ImportView(PipelinesView):
    """Creates a pipeline from an exported document. Users and passwords of URLs are left out; secrets are refused."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.ImportedPipeline, body=NewPipeline, status=201)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        document_of(body)
        value, stripped = without_secrets(body["document"])
        refuse_secrets(value)
        pipeline, _ = services.create_pipeline(
            check(value),
            self.user,
            message=message_of(body) or "Imported",
            tags=tags_of(body) or (),
            key=key_of(request),
        )
        answer = {"pipeline": pipeline_answer(pipeline, self), "stripped": stripped}
        return Response(answer, status=status.HTTP_201_CREATED)


def _kind(given: Any) -> str:
    if given not in tuple(_SUFFIXES):
        raise exceptions.ValidationError({"format": f"Must be one of {', '.join(_SUFFIXES)}."})
    return str(given)


def _exported(value: Any, kind: str, stem: str, version: int | None) -> Response:
    shown, stripped = for_export(value)
    document = check(shown).document
    if kind == "python":
        text = building.compiled(document, version).source
    else:
        text = canonical_text(document, building.catalog().param_orders)
    return Response({"file_name": stem + _SUFFIXES[kind], "text": text, "stripped": stripped})
