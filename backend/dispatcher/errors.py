"""Errors in the form that Flink's clients expect: always {"errors": ["…"]} with a status that is not 2xx.

Flink's Java client takes any other JSON with a 4xx for success, so every error must have this form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework import exceptions
from rest_framework.response import Response

from backend.accounts.errors import as_api_exception, headers_of


class BadRequest(exceptions.ParseError):
    """A parameter or body is invalid. Lines after the first are details, such as a traceback."""


def flink_errors(error: Exception, context: dict[str, Any]) -> Response:
    """Handle exceptions of Flink's routes (DRF exception handler)."""
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
