"""The live document of the cluster: TaskManagers and jobs for the overview. Times are epoch ms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import F

from backend.cluster.models import TERMINAL_STATES, Job, TaskManager

Document = dict[str, Any]

#: number of ended jobs in the overview; REST lists all
MAX_ENDED_JOBS = 100
#: state of a TaskManager that gets no more slots because it is about to end; no state of its row
DRAINING = "DRAINING"


def cluster_document(taskmanagers: Sequence[Document], jobs: Sequence[Document], now: int, version: int) -> Document:
    """Build the document.

    Args:
        taskmanagers: entries of `taskmanager_entry`.
        jobs: entries of `job_entry`, newest first.
        now: epoch ms.
        version: the document's version.
    """
    usable = [t for t in taskmanagers if t["state"] == TaskManager.State.REGISTERED]
    return {
        "version": version,
        "now": now,
        "slots_total": sum(t["slots"] for t in usable),
        "slots_available": sum(t["free_slots"] for t in usable),
        "taskmanagers": list(taskmanagers),
        "jobs": list(jobs),
    }


def lasting_part(document: Document) -> Document:
    """Return the part of the document whose changes are news: neither times that only advance, nor free memory."""
    return {
        "slots": (document["slots_total"], document["slots_available"]),
        "taskmanagers": [_without(entry, "last_heartbeat", "free_memory") for entry in document["taskmanagers"]],
        "jobs": [_without(entry, "duration") for entry in document["jobs"]],
    }


def _without(entry: Document, *names: str) -> Document:
    return {name: value for name, value in entry.items() if name not in names}


def job_entry(document: Document) -> Document:
    """Return a job's entry, made from its live document."""
    tasks = Counter(subtask["state"] for vertex in document["vertices"] for subtask in vertex["subtasks"])
    kept = ("id", "name", "state", "start_time", "end_time", "duration", "parallelism", "restarts", "waiting_for")
    entry = {name: document[name] for name in kept} | {"tasks": dict(tasks), "tasks_total": tasks.total()}
    # documents of earlier releases have no checkpoints
    latest = document.get("checkpoints", {}).get("latest", {}).get("completed")
    return entry | {"last_checkpoint": None if latest is None else latest["latest_ack_timestamp"]}


def taskmanager_entry(row: TaskManager, free_slots: int, *, is_draining: bool = False) -> Document:
    """Return a TaskManager's entry."""
    return {
        "id": row.id,
        "host": row.host,
        "pid": row.pid,
        "slots": row.slots,
        "free_slots": free_slots,
        "last_heartbeat": row.last_heartbeat,
        "registered_at": row.registered_at,
        "state": DRAINING if is_draining else row.state,
        "spark_master": row.spark_master,
        "cpu_cores": row.hardware.get("cpu_cores", 0),
        "physical_memory": row.hardware.get("physical_memory", 0),
        "free_memory": row.hardware.get("free_memory", 0),
    }


def listed_jobs() -> list[Job]:
    """Return the rows of the jobs in the overview, newest first, without graphs: all that run, and the last to end."""
    rows = Job.objects.defer("graph", "plan").order_by("-created_at")
    active = list(rows.exclude(state__in=TERMINAL_STATES))
    ended = list(rows.filter(state__in=TERMINAL_STATES).order_by(F("ended_at").desc(nulls_last=True))[:MAX_ENDED_JOBS])
    return sorted([*active, *ended], key=lambda job: -job.created_at)


def cluster_document_from_rows(now: int) -> Document:
    """Build the document from SQL when no jobmanager keeps a live one; no slot counts as free."""
    rows = TaskManager.objects.filter(state=TaskManager.State.REGISTERED).order_by("registered_at")
    entries = [job_entry(job.document) for job in listed_jobs() if job.document]
    return cluster_document([taskmanager_entry(row, 0) for row in rows], entries, now, now)
