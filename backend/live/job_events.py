"""What went on in a job, for display: its operations, its autoscaler's decisions, its checkpoints and savepoints.

Read from SQL and Redis, bounded. Times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.cluster import services
from backend.cluster.job_store import KEPT_EXCEPTIONS
from backend.cluster.models import Job, JobException, Operation, Scaling
from backend.live.failure_groups import Event, class_of

MAX_OPERATIONS = 100
_OPERATIONS = {
    Operation.Kind.CANCEL: "cancellation",
    Operation.Kind.SAVEPOINT: "savepoint",
    Operation.Kind.STOP: "stop with a savepoint",
    Operation.Kind.CHECKPOINT: "checkpoint on demand",
    Operation.Kind.RESCALE: "rescaling",
    Operation.Kind.DISPOSE: "disposal of a savepoint",
}


def events_of(job: Job, document: Mapping[str, Any]) -> list[Event]:
    """Return what went on in a job beside its attempts; oldest first."""
    # savepoints are operations
    traces = [trace for trace in services.checkpoint_traces(job) if "SAVEPOINT" not in trace["type"]]
    events = [*operations_of(job, document), *map(_checkpoint, traces)]
    return sorted(events, key=lambda event: event.begun)


def operations_of(job: Job, document: Mapping[str, Any]) -> list[Event]:
    """Return what was asked of a job, and what its autoscaler has decided; in any order."""
    names = {vertex["id"]: vertex["name"] for vertex in document.get("vertices", ())}
    rows = services.list_operations(job).select_related("requested_by")[:MAX_OPERATIONS]
    events = [operation_event(row, names) for row in rows]
    return [*events, *map(_scaling, Scaling.objects.filter(job=job).order_by("-id"))]


def failures_of(job: Job, document: Mapping[str, Any]) -> list[Event]:
    """Return the failures of a job that are kept, and those in its document that are in no row yet; in any order."""
    rows = JobException.objects.filter(job=job).order_by("-timestamp")
    kept = list(rows.values("name", "stacktrace", "timestamp", "attempt", "task_name")[:KEPT_EXCEPTIONS])
    newest = max((row["timestamp"] for row in kept), default=-1)
    return [
        *map(_failure, kept),
        *(_failure(failure) for failure in document.get("exceptions", ()) if failure["timestamp"] > newest),
    ]


def _failure(failure: Mapping[str, Any]) -> Event:
    task = f" in {failure['task_name']}" if failure["task_name"] else ""
    text = f"attempt {failure['attempt']} failed: {class_of(failure)}{task}"
    return Event("failure", failure["timestamp"], failure["timestamp"], text, is_failed=True)


def operation_event(row: Operation, names: Mapping[str, str]) -> Event:
    """Return an operation as an event.

    Args:
        row: the operation.
        names: of the job's vertices, by id.
    """
    text = _OPERATIONS.get(Operation.Kind(row.kind), row.kind)
    if row.kind == Operation.Kind.RESCALE:
        wanted, before = row.parameters.get("parallelism", {}), row.parameters.get("before", {})
        changes = [
            f"{names.get(vertex, vertex)} {f'from {before[vertex]} ' if vertex in before else ''}to {parallelism}"
            for vertex, parallelism in wanted.items()
        ]
        text += f" of {', '.join(changes[:4])}{' …' if len(changes) > 4 else ''}"
    if row.requested_by is not None:
        text += f", asked for by {row.requested_by.get_username()}"
    error = (row.result or {}).get("error")
    if row.state != Operation.State.COMPLETED:
        text += ", goes on"
    elif error:
        text += f", failed: {str(error)[:300]}"
    return Event(row.kind, row.created_at, row.finished_at, text, is_failed=bool(error))


def _scaling(row: Scaling) -> Event:
    changes = [f"{change['name']} from {change['before']} to {change['after']}" for change in row.changes.values()]
    text = f"autoscaler: {', '.join(changes[:4])}{' …' if len(changes) > 4 else ''}"
    if row.cost_ms is None:
        text += ", not carried out so far"
    return Event("autoscaler", row.decided_at, round(row.decided_at + (row.cost_ms or 0)), text)


def _checkpoint(trace: Mapping[str, Any]) -> Event:
    state = {"IN_PROGRESS": "in progress", "COMPLETED": "completed", "FAILED": "failed"}[trace["status"]]
    acknowledged = f"{trace['num_acknowledged_subtasks']} of {trace['num_subtasks']} subtasks had acknowledged"
    duration = trace.get("duration")
    begun = trace["trigger_timestamp"]
    return Event(
        "checkpoint",
        begun,
        None if duration is None else begun + duration,
        f"checkpoint {trace['id']} {state}" + ("" if state == "completed" else f", {acknowledged}"),
        is_failed=state == "failed",
    )
