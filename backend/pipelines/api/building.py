"""Routes of the editor: the catalog of nodes, what is wrong with a document, and the program that it becomes."""

from __future__ import annotations

from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.roles import Role, role_of
from backend.contract.operation import operation
from backend.pipelines import building, previews
from backend.pipelines.answers import building as answers
from backend.pipelines.api.base import PipelinesView, body_of, document_of, text_of
from runtime.pipeline.templates import templates

MAX_TAG_CHARS = 64


class CatalogView(PipelinesView):
    """All types of nodes, with the schemas of their forms. Its ETag changes with anything in it."""

    @operation(answers.CatalogAnswer)
    def get(self, request: Request) -> Response:
        catalog, tag = building.catalog_json()
        headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
        if request.headers.get("If-None-Match") == f'"{tag}"':
            return Response(status=status.HTTP_304_NOT_MODIFIED, headers=headers)
        return Response(catalog, headers=headers)


class TemplatesView(PipelinesView):
    """Pipelines to begin with, with their documents; a pipeline is created from one like from any document."""

    @operation(answers.TemplatesAnswer)
    def get(self, request: Request) -> Response:
        listed = [
            {
                "id": name,
                "name": template.name,
                "description": template.value["description"],
                "document": template.value,
            }
            for name, template in templates().items()
        ]
        return Response({"templates": listed})


class ValidateView(PipelinesView):
    """What is wrong with a document, and what flows at each of its ports. Nothing runs."""

    @operation(answers.ValidationAnswer, body=answers.ValidateBody)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        document = document_of(body).document
        known = text_of(body, "known", MAX_TAG_CHARS) or None
        if role_of(request.user) >= Role.DEVELOPER:
            # somebody edits, and is likely to look at rows
            previews.warm_up()
        return Response(building.validated(document, known))


class CompileView(PipelinesView):
    """The Python program that a document becomes, and which of its lines belong to which node."""

    @operation(answers.ProgramAnswer, body=answers.DocumentBody)
    def post(self, request: Request) -> Response:
        document = document_of(body_of(request)).document
        return Response(building.program_json(document, building.compiled(document)))
