"""REST route that lists the savepoints of all jobs: their location, whether they still exist, and their users."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from backend.accounts.views import ProductView
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.location_checks import StorageSilentError
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job, Operation
from backend.cluster.snapshot_users import Need, kept_by_apps, who_needs
from backend.cluster.storage_calls import ask_location
from backend.contract.operation import operation
from backend.live.answers import Savepoints, SavepointsQuery
from backend.live.restore_points import kept_savepoints
from runtime.checkpoint.errors import CheckpointStorageError, NewerSnapshotError, NotASnapshotError
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.common import options
from runtime.state.handles import DamagedSnapshotError

MAX_SAVEPOINTS: Final = 200
"""Number of savepoints in an answer."""
MAX_OFFSET: Final = 1_000_000
MAX_SEARCH_CHARS: Final = 300
"""Of what is looked for: SQLite fails on patterns of 50,000."""
LOOK_S: Final = 3.0
"""Time limit for reading the storage; whether savepoints beyond it still exist is reported as unknown."""
#: of a savepoint: a job's graph and document are large
_READ: Final = (
    *("kind", "parameters", "finished_at", "result", "requested_by__username"),
    *("job__id", "job__name", "job__state"),
)

logger = logging.getLogger(__name__)


class SavepointsView(ProductView):
    @operation(Savepoints, query=SavepointsQuery)
    def get(self, request: Request) -> Response:
        limit = _number(request, "limit", 1, MAX_SAVEPOINTS, MAX_SAVEPOINTS)
        offset = _number(request, "offset", 0, MAX_OFFSET, 0)
        done = _wanted(request)
        # with their jobs in one query: a job may be deleted between two
        rows = done.select_related("requested_by", "job").only(*_READ)[offset : offset + limit]
        operations = [(row, row.job) for row in rows if row.job is not None and (row.result or {}).get("location")]
        files = cluster_storage().files()
        users = _users(files)
        locations = [row.result["location"] for row, _ in operations if row.result]
        kept = {*_kept_by_jobs(locations), *kept_by_apps(locations)}
        deadline = time.monotonic() + LOOK_S
        listed = []
        for row, job in operations:
            location = (row.result or {})["location"]
            storage = _look(files, location, deadline - time.monotonic())
            used_by = users[location]
            is_used = location in kept or any(user["job_state"] not in TERMINAL_STATES for user in used_by)
            need = _needed_by(location, used_by) if is_used else None
            listed.append(
                _taken(row, job)
                | {
                    "exists": storage.exists,
                    "size": storage.size,
                    "used_by": used_by,
                    "needed_by": None if need is None else need.job_id,
                    "needed_for": None if need is None else need.who,
                }
            )
        return Response({"savepoints": listed, "total": done.count()})


def _wanted(request: Request) -> QuerySet[Operation]:
    """Return what has taken the savepoints that are asked for and were not disposed of, newest first."""
    done = kept_savepoints()
    if "job" in request.query_params:
        done = done.filter(job_id=_findable(request.query_params["job"]))
    text = _findable(request.query_params.get("search", "").strip())
    if text:
        is_found = Q(job__name__icontains=text) | Q(job__id__icontains=text) | Q(result__location__icontains=text)
        done = done.filter(is_found | Q(requested_by__username__icontains=text))
    # two may have ended in the same millisecond
    return done.order_by("-finished_at", "trigger_id")


def _findable(text: str) -> str:
    """Return a text that databases take; what they do not take is in no name."""
    return text.replace("\0", "\ufffd")[:MAX_SEARCH_CHARS]


def _number(request: Request, name: str, lowest: int, highest: int, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch("[0-9]{1,7}", text) or not lowest <= int(text) <= highest:
        raise exceptions.ValidationError({name: f"Must be a number, {lowest} to {highest}."})
    return int(text)


class _Storage(NamedTuple):
    """State of a savepoint in the storage; None: unknown."""

    exists: bool | None
    size: int | None
    """Total bytes of all files that it refers to."""


_UNKNOWN: Final = _Storage(None, None)


def _taken(row: Operation, job: Job) -> dict[str, Any]:
    result: Mapping[str, Any] = row.result or {}
    return {
        "location": result["location"],
        "checkpoint_id": result.get("checkpoint_id"),
        "kind": row.kind,
        "format": row.parameters.get("format", "CANONICAL"),
        "created_at": row.finished_at,
        "requested_by": None if row.requested_by is None else row.requested_by.get_username(),
        "job_id": job.id,
        "job_name": job.name,
        "job_state": job.state,
    }


def _look(files: SnapshotFiles, location: str, within_s: float) -> _Storage:
    if within_s <= 0:
        return _UNKNOWN
    try:
        metadata = ask_location(location, lambda: files.load(location), answer_s=within_s)
    except DamagedSnapshotError:
        return _Storage(True, None)
    except (NotASnapshotError, NewerSnapshotError) as error:
        return _Storage(isinstance(error, NewerSnapshotError), None)
    except (CheckpointStorageError, OSError, StorageSilentError) as error:
        logger.warning("savepoint %s cannot be read: %s", location, error)
        return _UNKNOWN
    return _Storage(True, sum(file.size for file in metadata.files()))


def _needed_by(location: str, used_by: Sequence[Mapping[str, Any]]) -> Need | None:
    try:
        return who_needs(location)
    except StorageSilentError:
        # of another job's snapshot: jobs that are known to have been started from this one count as needing it
        user = next((user["job_id"] for user in used_by if user["job_state"] not in TERMINAL_STATES), None)
        return None if user is None else Need(user, f"job {user}")


def _users(files: SnapshotFiles) -> Mapping[str, list[dict[str, Any]]]:
    """Return jobs by the snapshot that they were started from, newest first."""
    users: dict[str, list[dict[str, Any]]] = defaultdict(list)
    started = Job.objects.filter(configuration__has_key=options.RECOVERY_PATH.key).order_by("-created_at")
    for job in started.only("id", "name", "state", "configuration"):
        try:
            path = job.configuration[options.RECOVERY_PATH.key]
            directory = ask_location(path, partial(files.directory_of, path))
        except (CheckpointStorageError, StorageSilentError):
            continue
        mode = job.configuration.get(options.RECOVERY_CLAIM_MODE.key, "no_claim")
        users[directory].append(
            {"job_id": job.id, "job_name": job.name, "job_state": job.state, "claim_mode": mode.upper()}
        )
    return users


def _kept_by_jobs(locations: Sequence[str]) -> Iterable[str]:
    """Return the locations that a job which has not ended may restore from as from its own checkpoints."""
    own = Checkpoint.objects.filter(location__in=locations).exclude(job__state__in=TERMINAL_STATES)
    return set(own.values_list("location", flat=True))
