"""REST routes of the state browser: what state a snapshot of a job has, and what is in it for one key.

State may be personal data: names and types are for everybody, contents for operators, and each look leaves an audit
event with the key. Contents are read by a child with limits (`runtime.client.state_lookup`).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from django.conf import settings
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.errors import Conflict, StorageAway, Unavailable
from backend.accounts.roles import Role
from backend.accounts.views import ProductView, is_clean_text
from backend.audit import trail
from backend.cluster import services
from backend.cluster.checkpoint_home import cluster_storage, snapshot_keys
from backend.cluster.connections import without_connection
from backend.cluster.models import Job
from backend.cluster.storage_calls import ask_location
from backend.contract.operation import operation
from backend.live import answers
from backend.live.answers import (
    StateContents,
    StateExportRequest,
    StateKeys,
    StateKeysRequest,
    StateLookupRequest,
    StateQuery,
)
from backend.live.api import check_job
from backend.live.restore_points import checkpoint_points, restore_points
from backend.live.state_csv import MAX_ROWS, keys_table, lookup_table
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState
from runtime.checkpoint.state_frames import is_pickled
from runtime.client.state_lookup import MAX_KEYS, StateLookupError, StatePlace, first_keys, look_up
from runtime.common.options import PEEK_MASKED_COLUMNS
from runtime.common.typeinfo import RowTypeInfo, TupleTypeInfo
from runtime.graph.key_types import UNDECLARED, key_type_info
from runtime.state.handles import DamagedSnapshotError

MAX_LOOKS: Final = 2
"""At a time in this process: each is a Python process with Arrow."""
MAX_WAIT_S: Final = 10.0
"""Wait for one of these places."""
MAX_TRIES: Final = 4
"""Looks into the newest checkpoint, each of which may take as long as it is kept."""
MAX_NAME_CHARS: Final = 1_000
MAX_KEY_CHARS: Final = 20_000
MAX_NOTED_CHARS: Final = 1_000
"""Of a key in an audit event."""
_ENCODED_KEY: Final = re.compile(f"(?:[0-9a-f]{{2}}){{1,{MAX_KEY_CHARS // 2}}}")
TOO_LARGE: Final = "too_large"
"""Code of an answer."""
_places = threading.BoundedSemaphore(MAX_LOOKS)


class Unreadable(exceptions.APIException):
    """The state is there, but cannot be shown."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_code = "unreadable"


class StateView(ProductView):
    """The operators and states of a snapshot, from its metadata."""

    @operation(StateContents, query=StateQuery)
    def get(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        job = services.get_job(job_id)
        wanted = request.query_params.get("snapshot", "")
        _check_snapshot(wanted)
        return Response(_until_kept(job, wanted, _contents))


class StateKeysView(ProductView):
    """Some keys that have a state: a POST, because it leaves an audit event."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(StateKeys, body=StateKeysRequest)
    def post(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = _body(request)
        limit = body.get("limit", MAX_KEYS)
        if type(limit) is not int or not 1 <= limit <= MAX_KEYS:
            raise exceptions.ValidationError({"limit": f"Must be a number, 1 to {MAX_KEYS}."})
        look = partial(first_keys, limit=limit, confinement=settings.TIDEMARK_CONFINEMENT)
        return Response(_look_into(request, services.get_job(job_id), body, look))


class StateLookupView(ProductView):
    """The state of one key: a POST, because keys may be personal, and addresses end up in logs."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.StateLookup, body=StateLookupRequest)
    def post(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = _body(request)
        job = services.get_job(job_id)
        return Response(_look_into(request, job, body, _lookup(request, job, body)))


class StateExportView(ProductView):
    """Returns what the other two find, as CSV; a POST for the same reasons."""

    roles = {"POST": Role.OPERATOR}  # noqa: RUF012

    @operation(answers.StateExport, body=StateExportRequest)
    def post(self, request: Request, job_id: str) -> Response:
        check_job(job_id)
        body = _body(request)
        job = services.get_job(job_id)
        trail.note(request._request, is_export=True)
        if "key" in body or "encoded_key" in body:
            found = _look_into(request, job, body, _lookup(request, job, body))
            table = lookup_table(found)
        else:
            look = partial(first_keys, limit=MAX_ROWS, confinement=settings.TIDEMARK_CONFINEMENT)
            found = _look_into(request, job, body, look)
            table = keys_table(found)
        told = {"csv": table.text, "num_rows": table.num_rows, "is_cut": table.is_cut}
        return Response({"snapshot": found["snapshot"], **told})


# --- snapshots --------------------------------------------------------------------------------------------------------


def _snapshot(job: Job, wanted: str) -> dict[str, Any] | None:
    """Return a snapshot of a job, a `StateSnapshot`; None: it has no checkpoint.

    Raises:
        NotFound: it has no such snapshot.
    """
    if wanted:
        points = [point for point in restore_points(job) if point["kind"] != "start"]
        if len(wanted) == 32:
            operation = services.list_operations(job).filter(trigger_id=wanted).first()
            wanted = (operation.result or {}).get("location", wanted) if operation is not None else wanted
        found = next((point for point in points if wanted in (point["location"], str(point["checkpoint_id"]))), None)
        if found is None:
            raise exceptions.NotFound(f"The job has no checkpoint or savepoint {wanted[:200]!r}, or none that is kept.")
    else:
        # by one query: between two, another one may complete
        found = next(checkpoint_points(job), None)
    return (
        None if found is None else {name: value for name, value in found.items() if name not in ("size", "deleted_by")}
    )


def _until_kept(job: Job, wanted: str, read: Callable[[dict[str, Any] | None], dict[str, Any]]) -> dict[str, Any]:
    """Read the snapshot that is asked for; where the newest checkpoint is replaced meanwhile, its successor.

    Raises:
        APIException: there is no answer.
    """
    for _ in range(MAX_TRIES):
        snapshot = _snapshot(job, wanted)
        try:
            return read(snapshot)
        except Unreadable as error:
            is_kept = snapshot is None or any(
                point["location"] == snapshot["location"] for point in restore_points(job)
            )
            if wanted or is_kept or error.get_codes() == TOO_LARGE:
                raise
    raise Conflict(
        f"The newest checkpoint was replaced before it was read, {MAX_TRIES} times in a row: choose a savepoint, or "
        "retain more checkpoints with execution.checkpointing.num-retained."
    )


def _contents(snapshot: dict[str, Any] | None) -> dict[str, Any]:
    if snapshot is None:
        return {"snapshot": None, "operators": []}
    metadata = _metadata(snapshot["location"])
    keyed = [each for each in metadata.operators if any(subtask.keyed is not None for subtask in each.subtasks)]
    return {"snapshot": snapshot, "operators": [_operator(each) for each in keyed]}


def _metadata(location: str) -> CheckpointMetadata:
    files = cluster_storage().signed_files()
    try:
        return ask_location(location, lambda: files.load(location))
    except (CheckpointStorageError, DamagedSnapshotError, OSError) as error:
        raise Unreadable(str(error)) from error


def _operator(state: OperatorState) -> dict[str, Any]:
    keyed = [subtask.keyed for subtask in state.subtasks if subtask.keyed is not None]
    known = state.keyed_states
    key_type = "" if state.key_type == UNDECLARED else state.key_type
    return {
        "id": state.operator_id,
        "uid": state.uid,
        "name": state.name,
        "parallelism": state.parallelism,
        "max_parallelism": state.max_parallelism,
        "key_type": key_type,
        "key_fields": _key_fields(key_type),
        "window_type": state.window_type,
        "formats": sorted({handle.format for handle in keyed}),
        "size": sum(handle.size for handle in keyed),
        "has_timers": state.has_timers,
        "states": None
        if known is None
        else [
            {
                "name": meta.name,
                "kind": meta.kind,
                "type": meta.serializer,
                "is_namespaced": meta.namespaced,
                "has_ttl": meta.has_ttl,
                "is_pickled": is_pickled(meta.serializer),
            }
            for meta in known.values()
        ],
    }


def _key_fields(key_type: str) -> list[dict[str, str]]:
    declared = key_type_info(key_type)
    if declared is None:
        return []
    if not isinstance(declared, RowTypeInfo | TupleTypeInfo):
        return [{"name": "", "type": key_type}]
    types = declared.field_types
    names = declared.field_names if isinstance(declared, RowTypeInfo) else list(map(str, range(len(types))))
    return [{"name": name, "type": kind.type_string()} for name, kind in zip(names, types, strict=True)]


# --- looks ------------------------------------------------------------------------------------------------------------


def _body(request: Request) -> Mapping[str, Any]:
    body = request.data
    if not isinstance(body, dict):
        raise exceptions.ValidationError("Must be an object.")
    for name in ("operator", "state"):
        if not is_clean_text(body.get(name)) or not 0 < len(body[name]) <= MAX_NAME_CHARS:
            raise exceptions.ValidationError({name: "Must be a name."})
    _check_snapshot(body.get("snapshot", ""))
    return body


def _check_snapshot(wanted: object) -> None:
    if not is_clean_text(wanted):
        raise exceptions.ValidationError({"snapshot": "Must be a text."})


def _lookup(request: Request, job: Job, body: Mapping[str, Any]) -> Callable[[StatePlace], dict[str, Any]]:
    """Return the look for the key that a request names, which hides what a peek at the job does; note it for the audit
    event.

    Raises:
        ValidationError: it names none.
    """
    encoded = body.get("encoded_key")
    if encoded is None and "key" not in body:
        raise exceptions.ValidationError({"key": "Is missing."})
    if encoded is not None and not (isinstance(encoded, str) and _ENCODED_KEY.fullmatch(encoded)):
        raise exceptions.ValidationError({"encoded_key": "Must be as the first keys have it."})
    key_type = body.get("key_type", "")
    if not isinstance(key_type, str) or len(key_type) > MAX_NAME_CHARS:
        raise exceptions.ValidationError({"key_type": f"Must be a text of at most {MAX_NAME_CHARS} characters."})
    if key_type and key_type_info(key_type) is None:
        raise exceptions.ValidationError({"key_type": "There is no such type."})
    trail.note(request._request, key=_noted(body.get("key") if encoded is None else f"0x{encoded}"))
    return partial(
        look_up,
        key=body.get("key"),
        encoded_key=encoded,
        key_type=key_type,
        masked=(job.configuration.get(PEEK_MASKED_COLUMNS.key) or "").split(","),
        confinement=settings.TIDEMARK_CONFINEMENT,
    )


def _noted(key: Any) -> Any:
    """Return a key as the audit event has it: a long one by its beginning and the SHA-256 of its JSON.

    Raises:
        ValidationError: it is too long to be looked up.
    """
    key = key.strip() if isinstance(key, str) else key
    text = json.dumps(key, sort_keys=True)
    if len(text) > MAX_KEY_CHARS:
        raise exceptions.ValidationError({"key": f"Must have at most {MAX_KEY_CHARS} characters."})
    if len(text) <= MAX_NOTED_CHARS:
        return key
    return f"{text[:200]}… (sha256 {hashlib.sha256(text.encode()).hexdigest()})"


def _look_into(
    request: Request, job: Job, body: Mapping[str, Any], look: Callable[[StatePlace], dict[str, Any]]
) -> dict[str, Any]:
    """Look into the snapshot that is asked for, and note where for the audit event.

    Raises:
        APIException: there is no answer.
    """
    operator, state = body["operator"], body["state"]
    trail.note(request._request, operator=operator, state=state)

    def read(snapshot: dict[str, Any] | None) -> dict[str, Any]:
        if snapshot is None:
            raise Conflict("The job has completed no checkpoint that is kept.")
        location = snapshot["location"]
        trail.note(request._request, snapshot=location)
        roots = cluster_storage().allowed.roots or ()
        return {"snapshot": snapshot, **_look(StatePlace(location, roots, operator, state, snapshot_keys()), look)}

    return _until_kept(job, body.get("snapshot", ""), read)


def _look(place: StatePlace, look: Callable[[StatePlace], dict[str, Any]]) -> dict[str, Any]:
    with without_connection():
        if not _places.acquire(timeout=MAX_WAIT_S):
            raise Unavailable("Others are looking into state; try again.")
        try:
            return look(place)
        except StateLookupError as error:
            _refuse(place, error)
        finally:
            _places.release()


def _refuse(place: StatePlace, error: StateLookupError) -> NoReturn:
    if error.reason == "key":
        raise exceptions.ValidationError({"key": str(error)}) from error
    if error.reason == "missing":
        raise exceptions.NotFound(str(error)) from error
    if error.reason == "silent":
        raise StorageAway(f"{place.location} was not read: {error}; try again.") from error
    raise Unreadable(str(error), TOO_LARGE if error.reason == "too large" else "unreadable") from error
