"""Errors of Tidemark's own REST API, always as {"errors": [{"code", "field", "message"}]}."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response

from backend.cluster.location_checks import StorageSilentError
from backend.cluster.program_files import StorageProblem
from backend.cluster.services import JobUnknownError

logger = logging.getLogger(__name__)


def as_api_exception(error: Exception) -> exceptions.APIException:
    """Map any exception of a view to one with a status code; unexpected ones become a 500 with an id for the log."""
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, JobUnknownError):
        return exceptions.NotFound(str(error))
    if isinstance(error, ObjectDoesNotExist):
        # routes look first: it was deleted between two queries
        logger.warning("a row is gone: %s", error, exc_info=error)
        return exceptions.NotFound("It does not exist any more.")
    if isinstance(error, Http404):
        return exceptions.NotFound(*error.args)
    if isinstance(error, PermissionDenied):
        return exceptions.PermissionDenied(*error.args)
    if isinstance(error, SuspiciousOperation):
        return exceptions.ParseError(str(error) or "Bad request.")
    if isinstance(error, OperationalError):
        logger.warning("the database cannot be used: %s", error)
        return DatabaseAway()
    if isinstance(error, StorageProblem):
        logger.warning("%s: %s", error, error.__cause__)
        return StorageFull(str(error)) if error.is_full else StorageAway(str(error))
    if isinstance(error, StorageSilentError):
        logger.warning("%s", error)
        return StorageAway(f"The storage of {error.location} does not answer; try again.")
    reference = secrets.token_hex(4)
    logger.error("internal error %s", reference, exc_info=error)
    # the user gets the id only: the stack trace may show more than a user should see
    return exceptions.APIException(f"Internal server error; the server's log has it under {reference}.")


def headers_of(error: exceptions.APIException) -> dict[str, str]:
    """Return the headers of an error: WWW-Authenticate and Retry-After where they apply."""
    headers: dict[str, str] = {}
    challenge = getattr(error, "auth_header", None)
    if challenge:
        headers["WWW-Authenticate"] = challenge
    wait = getattr(error, "wait", None)
    if wait is not None:
        headers["Retry-After"] = str(int(wait))
    return headers


def product_errors(error: Exception, context: dict[str, Any]) -> Response:
    """Handle exceptions of Tidemark's own routes (DRF exception handler)."""
    known = as_api_exception(error)
    return Response(
        {"errors": list(_flat(known.get_full_details(), ""))}, status=known.status_code, headers=headers_of(known)
    )


def _flat(details: Any, field: str) -> Iterator[dict[str, str]]:
    if isinstance(details, list):
        for entry in details:
            yield from _flat(entry, field)
    elif "message" in details and "code" in details and not isinstance(details["message"], (dict, list)):
        yield {"code": str(details["code"]), "field": field, "message": str(details["message"])}
    else:
        for name, entry in details.items():
            yield from _flat(entry, f"{field}.{name}" if field else str(name))


class Conflict(exceptions.APIException):
    """The request conflicts with the current state."""

    status_code = status.HTTP_409_CONFLICT
    default_detail = "Conflict."
    default_code = "conflict"


class Unavailable(exceptions.APIException):
    """Something that the response needs is temporarily unavailable."""

    status_code = status.HTTP_503_SERVICE_UNAVAILABLE
    default_detail = "Not available now; try again."
    default_code = "unavailable"


class DatabaseAway(Unavailable):
    """The database is unreachable or stays locked: jobs keep running, and clients should retry."""

    default_detail = "The database is unavailable at the moment; try again."
    default_code = "database_away"
    #: seconds, for Retry-After
    wait = 2


class StorageAway(Unavailable):
    """The storage of programs and logs cannot be used."""

    default_code = "storage_away"
    #: seconds, for Retry-After
    wait = 5


class StorageFull(exceptions.APIException):
    """The storage has no space left."""

    status_code = status.HTTP_507_INSUFFICIENT_STORAGE
    default_detail = "The storage is full."
    default_code = "storage_full"
