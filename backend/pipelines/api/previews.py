"""Routes of previews. What a preview tells is also the live topic "preview:<id>"."""

from __future__ import annotations

import re
from typing import Any

from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.errors import Unavailable
from backend.accounts.roles import Role
from backend.cluster.services import PreviewUnknownError
from backend.contract.operation import operation
from backend.pipelines import previews
from backend.pipelines.answers import previews as answers
from backend.pipelines.api.base import PipelinesView, body_of, document_of
from runtime.client.preview import DEFAULT_ROWS, MAX_ROWS

_ID = re.compile(r"[0-9a-f]{32}")


class PreviewsView(PipelinesView):
    """Runs a document over the first rows of its sources; the user's former preview is stopped. A preview is code."""

    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012
    runs_drafts = ("POST",)

    @operation(answers.PreviewAnswer, body=answers.PreviewRequest, status=202)
    def post(self, request: Request) -> Response:
        body = body_of(request)
        rows = body.get("rows", DEFAULT_ROWS)
        if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= MAX_ROWS:
            raise exceptions.ValidationError({"rows": f"Must be a whole number from 1 to {MAX_ROWS}."})
        try:
            started = previews.start_preview(self.user, document_of(body), rows)
        except (previews.PreviewsBusyError, previews.PreviewsAwayError) as error:
            raise Unavailable(str(error)) from error
        return Response(_shown(started), status=status.HTTP_202_ACCEPTED)


class PreviewView(PipelinesView):
    """The user's own preview; DELETE stops it."""

    roles = {"GET": Role.DEVELOPER, "DELETE": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.PreviewAnswer)
    def get(self, request: Request, preview_id: str) -> Response:
        _check(preview_id)
        try:
            return Response(_shown(previews.get_preview(preview_id, self.user)))
        except PreviewUnknownError as error:
            raise exceptions.NotFound(str(error)) from error
        except previews.PreviewsAwayError as error:
            raise Unavailable(str(error)) from error

    @operation(Nothing)
    def delete(self, request: Request, preview_id: str) -> Response:
        _check(preview_id)
        try:
            previews.stop_preview(preview_id, self.user)
        except PreviewUnknownError as error:
            raise exceptions.NotFound(str(error)) from error
        except previews.PreviewsAwayError as error:
            raise Unavailable(str(error)) from error
        return Response({})


def _check(preview_id: str) -> None:
    if not _ID.fullmatch(preview_id):
        raise exceptions.ValidationError({"preview_id": "A preview's id is 32 lower-case hex digits."})


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "owner"}
