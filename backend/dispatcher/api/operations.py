"""What the routes of asynchronous operations share: trigger ids, bodies, formats, places."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rest_framework import exceptions
from rest_framework.request import Request

from backend.accounts.errors import Conflict
from backend.accounts.views import is_clean_text
from backend.cluster import services
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import Job, Operation
from backend.dispatcher.api.base import check_id
from backend.dispatcher.errors import BadRequest
from runtime.checkpoint.errors import CheckpointStorageError


def body_of(request: Request) -> Mapping[str, Any]:
    """The body as an object; none at all is an empty one.

    Raises:
        BadRequest: it is something else.
    """
    if not isinstance(request.data, dict):
        raise BadRequest("The body must be a JSON object.")
    return request.data


def ask(
    request: Request, job: Job | None, kind: Operation.Kind, parameters: Mapping[str, Any], trigger_id: str | None
) -> Operation:
    """Write the operation down; the leading jobmanager carries it out.

    Raises:
        Conflict: the job has ended, or the trigger id is another operation's.
    """
    try:
        return services.request_operation(job, kind, parameters, request.user, trigger_id)
    except (services.JobEndedError, services.TriggerTakenError) as error:
        raise Conflict(str(error)) from error


def result_of(trigger_id: str, job: Job | None, kinds: Collection[Operation.Kind]) -> Mapping[str, Any] | None:
    """How an operation ended; None: it has not.

    Raises:
        BadRequest: no operation can have that id.
        NotFound: none has it.
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
    """The first of these fields that is there and not empty.

    Raises:
        BadRequest: it is no text.
    """
    for name in names:
        value = body.get(name)
        if value in (None, ""):
            continue
        if not is_clean_text(value):
            raise BadRequest(f"{name} must be a text.")
        return str(value)
    return None


def flag(body: Mapping[str, Any], name: str) -> bool:
    """A field that is true or false; false if it is not there.

    Raises:
        BadRequest: it is neither.
    """
    value = body.get(name)
    if not isinstance(value, bool | None):
        raise BadRequest(f"{name} must be true or false.")
    return bool(value)


def choice(body: Mapping[str, Any], name: str, allowed: Collection[str], default: str) -> str:
    """A field that is one of some words.

    Raises:
        BadRequest: it is none of them.
    """
    value = text(body, name) or default
    if value.upper() not in allowed:
        raise BadRequest(f"{name} must be one of {', '.join(allowed)}, not {value[:40]!r}.")
    return value.upper()


def trigger_id_of(body: Mapping[str, Any]) -> str | None:
    """The client's own id for what it asks, if it has given one.

    Raises:
        BadRequest: it is not 32 hex digits.
    """
    trigger_id = text(body, "triggerId")
    if trigger_id is not None:
        check_id("triggerId", trigger_id)
    return trigger_id


def place(name: str, location: str | None) -> str | None:
    """A place that a user names, resolved.

    Raises:
        BadRequest: it is not allowed, or can never be one.
    """
    if location is None:
        return None
    try:
        return cluster_storage().allowed.check(location)
    except CheckpointStorageError as error:
        raise BadRequest(f"{name}: {error}") from error
