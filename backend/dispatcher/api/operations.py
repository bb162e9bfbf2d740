"""Common parts of the routes of asynchronous operations: trigger ids, bodies, formats, locations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request

from backend.accounts.errors import Conflict
from backend.accounts.savepoint_rate import note_savepoint
from backend.accounts.views import is_clean_text
from backend.audit import trail
from backend.cluster import services
from backend.cluster.models import Job, Operation
from backend.cluster.storage_calls import check_in_time
from backend.dispatcher.api.base import check_id
from backend.dispatcher.errors import BadRequest
from runtime.checkpoint.errors import CheckpointStorageError

LIMITED = (Operation.Kind.SAVEPOINT, Operation.Kind.CHECKPOINT)


def body_of(request: Request) -> Mapping[str, Any]:
    """Return the body as an object; a missing one is an empty object.

    Raises:
        BadRequest: the body is not an object.
    """
    if not isinstance(request.data, dict):
        raise BadRequest("The body must be a JSON object.")
    return request.data


def ask(
    request: Request, job: Job | None, kind: Operation.Kind, parameters: Mapping[str, Any], trigger_id: str | None
) -> Operation:
    """Request an operation, which the leading jobmanager carries out.

    Raises:
        Conflict: the job has ended, another operation has the trigger id, or is open with other parameters.
        TooManySavepoints: the user has asked for too many.
    """
    trail.note(request._request, operation=str(kind), parameters=dict(parameters))
    if kind in LIMITED:
        note_savepoint(request.user)
    try:
        return services.request_operation(job, kind, parameters, request.user, trigger_id)
    except (services.JobEndedError, services.TriggerTakenError, services.OperationOpenError) as error:
        raise Conflict(str(error)) from error


def result_of(trigger_id: str, job: Job | None, kinds: Collection[Operation.Kind]) -> Mapping[str, Any] | None:
    """Return the result of an operation; None while it is not completed.

    Raises:
        BadRequest: the id is malformed.
        NotFound: no such operation has this id.
    """
    check_id("triggerid", trigger_id)
    try:
        operation = services.get_operation(trigger_id, job, kinds)
    except services.OperationUnknownError as error:
        raise exceptions.NotFound(str(error)) from error
    if operation.state != Operation.State.COMPLETED:
        return None
    return operation.result or {}


def text(body: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is present and not empty; None if there is none.

    Raises:
        BadRequest: it is not a text.
    """
    for name in names:
        value = body.get(name)
        if value in (None, ""):
            continue
        if not is_clean_text(value):
            raise BadRequest(f"{name} must be a string.")
        return str(value)
    return None


def flag(body: Mapping[str, Any], name: str) -> bool:
    """Return a boolean field; false if it is missing.

    Raises:
        BadRequest: it is not a boolean.
    """
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise BadRequest(f"{name} must be true or false.")
    return bool(value)


def choice(body: Mapping[str, Any], name: str, allowed: Collection[str], default: str) -> str:
    """Return a field in upper case whose value must be one of `allowed`.

    Raises:
        BadRequest: it has another value.
    """
    value = text(body, name) or default
    if value.upper() not in allowed:
        raise BadRequest(f"{name} must be one of {', '.join(allowed)}, not {value[:40]!r}.")
    return value.upper()


def trigger_id_of(body: Mapping[str, Any]) -> str | None:
    """Return the client's trigger id; None if there is none.

    Raises:
        BadRequest: it is not 32 hex digits.
    """
    trigger_id = text(body, "triggerId")
    if trigger_id is not None:
        check_id("triggerId", trigger_id)
    return trigger_id


def place(name: str, location: str | None) -> str | None:
    """Check and resolve a location that a user names.

    Raises:
        BadRequest: it is not allowed, or is not a location.
    """
    if location is None:
        return None
    try:
        return check_in_time(location)
    except CheckpointStorageError as error:
        raise BadRequest(f"{name}: {error}") from error
