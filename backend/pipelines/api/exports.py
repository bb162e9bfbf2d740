"""Routes of export and import. A file holds no secrets: neither what leaves as one, nor what is taken from one."""

from __future__ import annotations

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
from backend.pipelines.documents import check, refuse_secrets, without_secrets
from runtime.pipeline.document import canonical_text

_SUFFIXES = {"json": ".json", "python": ".py"}


class ExportView(PipelineView):
    """A version as a file: the document, or the program that it becomes; without users and passwords of URLs."""

    @operation(answers.Export, query=answers.ExportQuery)
    def get(self, request: Request, pipeline_id: str) -> Response:
        version = services.get_version(self.pipeline, number_in_query(request, "version"))
        kind = request.query_params.get("format", "json")
        if kind not in _SUFFIXES:
            raise exceptions.ValidationError({"format": f"Must be one of {', '.join(_SUFFIXES)}."})
        value, stripped = without_secrets(version.value)
        document = check(value).document
        if kind == "python":
            text = building.compiled(document, version.number).source
        else:
            text = canonical_text(document, building.catalog().param_orders)
        name = f"{file_stem(self.pipeline.name)}-v{version.number}{_SUFFIXES[kind]}"
        return Response({"file_name": name, "text": text, "stripped": stripped})


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
