"""Errors as Flink's clients want them: {"errors": ["…"]} with a status that is not 2xx, whatever went wrong.

Flink's Java client takes any other JSON under a 4xx for success, so that no error may leave in another shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework import exceptions
from rest_framework.response import Response

from backend.accounts.errors import as_api_exception, headers_of


class BadRequest(exceptions.ParseError):
    """A parameter or a body that cannot be used. Lines after the first are details, such as a traceback."""


def flink_errors(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler of Flink's routes."""
    known = as_api_exception(error)
    return Response({"errors": list(_texts(known.detail))}, status=known.status_code, headers=headers_of(known))


def _texts(detail: Any) -> Iterator[str]:
    if isinstance(detail, list):
        for entry in detail:
            yield from _texts(entry)
    elif isinstance(detail, dict):
        for name, entry in detail.items():
            for line in _texts(entry):
                yield f"{name}: {line}"
    else:
        yield str(detail)
