"""Routes that look closer at a draft: its tests, its job graph, and the rename of a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Unavailable
from backend.accounts.roles import Role
from backend.audit import trail
from backend.cluster.services import now_ms
from backend.contract.operation import operation
from backend.dispatcher.presence import has_left
from backend.pipelines import checking, schemas
from backend.pipelines.answers import checks as answers
from backend.pipelines.answers.building import DocumentBody
from backend.pipelines.api.base import PipelinesView, body_of, document_of
from backend.pipelines.connections import OutsideRefusedError

MAX_NAME_CHARS = 200


class TestsView(PipelinesView):
    """Runs tests of a document, each in a child, over the rows that it gives. Tests are code."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_drafts = ("POST",)

    @operation(answers.TestsAnswer, body=answers.TestsRequest)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        only = body.get("only")
        if only is not None and not (isinstance(only, list) and all(isinstance(name, str) for name in only)):
            raise exceptions.ValidationError({"only": "Must be a list of names."})
        try:
            results = checking.test_results(document_of(body).document, only, has_left(request))
        except checking.RefusedError as error:
            raise exceptions.ValidationError({"tests": str(error)}) from error
        except checking.TurnRefusedError as error:
            raise Unavailable(str(error)) from error
        return Response({"results": results})


class PlanView(PipelinesView):
    """The job graph of a document, by running its program up to `execute()`. A program is code."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_drafts = ("POST",)

    @operation(answers.DraftPlanAnswer, body=DocumentBody)
    def post(self, request: Request) -> Response:
        return Response(checking.draft_plan(document_of(body_of(request)).document, has_left(request)))


class ReadSchemaView(PipelinesView):
    """The columns of the table or the files that a node reads. The node, which may be unfinished, stays as it is.

    What programs may read, this may, so it is refused where the cluster takes none.
    """

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_drafts = ("POST",)

    @operation(answers.ReadSchemaAnswer, body=answers.ReadSchemaRequest)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        node = _name_in(body, "node")
        try:
            found = schemas.read_schema(document_of(body).document, node, has_left(request))
        except checking.RefusedError as error:
            if isinstance(error.__cause__, OutsideRefusedError):
                trail.note(request._request, refused=str(error))
            raise exceptions.ValidationError({"node": str(error)}) from error
        except checking.TurnRefusedError as error:
            raise Unavailable(str(error)) from error
        answer: answers.ReadSchemaAnswer = {
            "origin": found.origin,
            "field": found.field,
            "row": found.row,
            "columns": [list(column) for column in found.columns],
            "fingerprint": found.fingerprint,
            "read_at": now_ms(),
        }
        return Response(answer)


class RenameView(PipelinesView):
    """Tells what the rename of a column changes, in the node that names it and in all below. Runs nothing."""

    @operation(answers.RenameAnswer, body=answers.RenameRequest)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        given = {field: _name_in(body, field) for field in ("node", "port", "column", "to")}
        try:
            found = checking.renamed(document_of(body).document, **given)
        except checking.RefusedError as error:
            raise exceptions.ValidationError({"to": str(error)}) from error
        return Response(found)


def _name_in(body: Mapping[str, Any], field: str) -> str:
    value = body.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS:
        raise exceptions.ValidationError({field: f"Must be a text of 1 to {MAX_NAME_CHARS} characters."})
    return value
