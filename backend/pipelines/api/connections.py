"""Routes of connections: systems outside by name, without any secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.answers import Nothing
from backend.accounts.errors import Conflict
from backend.accounts.roles import Role
from backend.accounts.views import is_clean_text
from backend.audit import trail
from backend.contract.operation import operation
from backend.pipelines import connections
from backend.pipelines.answers import connections as answers
from backend.pipelines.answers.connections import ConnectionAnswer
from backend.pipelines.api.base import PipelinesView, body_of, name_of, text_of
from backend.pipelines.models import Connection
from runtime.common.secrets import variable_of

MAX_OPTIONS = 50
_KINDS: Final[Mapping[str, answers.ConnectionKind]] = {"postgres": "postgres", "redis": "redis", "kafka": "kafka"}
MAX_TABLE_CHARS = 200


class ConnectionsView(PipelinesView):
    """All connections."""

    @operation(answers.ConnectionsAnswer)
    def get(self, request: Request) -> Response:
        return Response({"connections": [_answer(row) for row in connections.list_connections()]})


class ConnectionView(PipelinesView):
    """One connection; PUT creates or replaces it."""

    roles = {"PUT": Role.ADMIN, "DELETE": Role.ADMIN}  # noqa: RUF012

    @operation(answers.ConnectionAnswer)
    def get(self, request: Request, name: str) -> Response:
        return Response(_answer(_find(name)))

    @operation(answers.ConnectionAnswer, body=answers.ConnectionChange)
    def put(self, request: Request, name: str) -> Response:
        body = body_of(request)
        options = body.get("options", {})
        is_texts = isinstance(options, dict) and all(map(is_clean_text, [*options, *options.values()]))
        if not is_texts or len(options) > MAX_OPTIONS:
            raise exceptions.ValidationError({"options": "Must be an object with texts."})
        trail.note(request._request, before=_before(name), after=_noted(str(body.get("kind")), options))
        try:
            row = connections.put_connection(name, str(body.get("kind")), options, self.user)
        except connections.ConnectionRefused as error:
            raise exceptions.ValidationError({error.field: str(error)}) from error
        return Response(_answer(row))

    @operation(Nothing)
    def delete(self, request: Request, name: str) -> Response:
        row = _find(name)
        trail.note(request._request, before=_noted(row.kind, row.options))
        connections.delete_connection(row.name)
        return Response({})


class ConnectionTestView(PipelinesView):
    """Asks the system outside for a sign of life, and records what came of it."""

    roles = {"POST": Role.ADMIN}  # noqa: RUF012

    @operation(answers.ConnectionAnswer)
    def post(self, request: Request, name: str) -> Response:
        connection = _find(name)
        failure = connections.test_connection(connection)
        trail.note(request._request, ok=failure is None)
        _note_refusal(request, failure)
        return Response(_answer(connection))


class ConnectionDescribeView(PipelinesView):
    """Lists the tables, streams or topics behind a connection, or a table's columns with the types of nodes."""

    # no GET, though it changes nothing here: it connects outside, with a secret, which no link of another site may do
    roles = {"POST": Role.DEVELOPER}  # noqa: RUF012

    @operation(answers.Description, body=answers.DescribeBody)
    def post(self, request: Request, name: str) -> Response:
        table = text_of(body_of(request), "table", MAX_TABLE_CHARS) or None
        trail.note(request._request, table=table)
        try:
            found = connections.describe_connection(_find(name), table)
        except connections.OutsideError as error:
            _note_refusal(request, error)
            raise Conflict(str(error), "outside") from error
        columns = [list(column) for column in found.columns]
        return Response({"names": found.names, "is_all": found.is_all, "row": found.row, "columns": columns})


def _note_refusal(request: Request, failure: connections.OutsideError | None) -> None:
    """Have the audit trail say that an address was refused, if that is why nothing was asked."""
    if isinstance(failure, connections.OutsideRefusedError):
        trail.note(request._request, refused=str(failure))


def _noted(kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Return a connection for the audit trail."""
    return {"kind": kind, "options": dict(options)}


def _before(name: str) -> dict[str, Any] | None:
    try:
        row = connections.get_connection(name)
    except connections.ConnectionUnknownError:
        return None
    return _noted(row.kind, row.options)


def _find(name: str) -> Connection:
    try:
        return connections.get_connection(name)
    except connections.ConnectionUnknownError as error:
        raise exceptions.NotFound(str(error)) from error


def _answer(row: Connection) -> ConnectionAnswer:
    secrets = connections.secrets_of(row)
    return {
        "name": row.name,
        "kind": _KINDS.get(row.kind, "postgres"),
        "options": row.options,
        "secrets": [
            {"key": name[1], "variable": variable_of(name), "is_known": connections.is_known(name)} for name in secrets
        ],
        "owner": name_of(row.created_by),
        "updated_at": row.updated_at,
        "tested_at": row.tested_at,
        "test": row.test_result,
    }
