"""The live document of the cluster: TaskManagers and jobs for the overview. Times are epoch ms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.db.models import F

from backend.cluster.models import TERMINAL_STATES, Job, TaskManager
from runtime.jobmaster.findings import Topic
from runtime.jobmaster.job_state import JobState

Document = dict[str, Any]

#: number of ended jobs in the overview; REST lists all
MAX_MESSAGE_CHARS = 300
"""Of a failed checkpoint."""
MAX_ENDED_JOBS = 100
#: state of a TaskManager that gets no more slots because it is about to end; no state of its row
DRAINING = "DRAINING"
#: fields of a job's entry that change all the time; see `JobSummary`
JOB_FIGURES = ("records_in_per_second", "behind", "lag")


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
    """Return the part of the document whose changes are news at once: neither times that only advance, nor figures."""
    return {
        "slots": (document["slots_total"], document["slots_available"]),
        "taskmanagers": [_without(entry, "last_heartbeat", "free_memory") for entry in document["taskmanagers"]],
        "jobs": [_without(entry, "duration", *JOB_FIGURES) for entry in document["jobs"]],
    }


def figures_of(document: Document) -> list[tuple[Any, ...]]:
    """Return the figures of the document's jobs, which change all the time."""
    return [tuple(entry.get(name) for name in JOB_FIGURES) for entry in document["jobs"]]


def _without(entry: Document, *names: str) -> Document:
    return {name: value for name, value in entry.items() if name not in names}


def job_entry(document: Document) -> Document:
    """Return a job's entry, made from its live document."""
    tasks = Counter(subtask["state"] for vertex in document["vertices"] for subtask in vertex["subtasks"])
    kept = ("id", "name", "state", "start_time", "end_time", "duration", "parallelism", "restarts", "waiting_for")
    entry = {name: document[name] for name in kept} | {"tasks": dict(tasks), "tasks_total": tasks.total()}
    # documents of earlier releases have no checkpoints
    checkpoints = document.get("checkpoints", {})
    latest = checkpoints.get("latest", {})
    completed = latest.get("completed")
    entry["last_checkpoint"] = None if completed is None else completed["latest_ack_timestamp"]
    entry["failed_checkpoint"] = _failed(latest.get("failed"), checkpoints)
    return entry | _performance(document)


def _failed(checkpoint: Document | None, section: Document) -> Document | None:
    if checkpoint is None:
        return None
    return {
        "id": checkpoint["id"],
        "at": checkpoint.get("failure_timestamp", checkpoint["trigger_timestamp"]),
        "message": checkpoint.get("failure_message", "")[:MAX_MESSAGE_CHARS],
        "is_savepoint": checkpoint["is_savepoint"],
        "since": section.get("failures_since"),
        "in_a_row": section.get("failures_in_a_row", 0),
    }


def _performance(document: Document) -> Document:
    """Return how fast a job reads, how far it is behind, and what holds it up; of one that does not run, nothing."""
    if document["state"] != JobState.RUNNING.value:
        return {"records_in_per_second": 0.0, "behind": None, "lag": None, "limit": None}
    rate = sum(vertex["metrics"]["records_in_per_second"] for vertex in document["vertices"] if vertex["is_source"])
    behind, lag = _distances(document)
    return {
        # a decimal of a large rate is noise that every reader would be sent
        "records_in_per_second": round(rate, 1) if rate < 100 else float(round(rate)),
        "behind": behind,
        "lag": lag,
        "limit": _limit(document),
    }


def _distances(document: Document) -> tuple[int | None, int | None]:
    """Return by how many ms the watermark that is furthest behind is behind the newest, and behind the clock.

    The first is None if there is nothing to compare, the second of vertices that get records of live sources
    only: of old data it is its age.
    """
    # documents of earlier releases have none
    time = document.get("event_time", {})
    reached = {v["id"]: v["metrics"]["watermark"] for v in document["vertices"]}
    known = {vertex: watermark for vertex, watermark in reached.items() if isinstance(watermark, int)}
    if not known:
        return None, None
    live = [watermark for vertex, watermark in known.items() if vertex in time.get("live", {})]
    lag = document["now"] - min(live) if live else None
    if "newest" not in time:
        return None, lag
    # the vertices' are newer than the newest, which is measured once a second
    newest = max(time["newest"], *known.values())
    newest_of = time.get("newest_of", {})
    return max(0, *(newest_of.get(vertex, newest) - watermark for vertex, watermark in known.items())), lag


def _limit(document: Document) -> Document | None:
    """Return the weightiest cause that holds a job up; None: nothing is known to."""
    causes = document.get("causes", {})
    cause = next((causes[topic.value] for topic in Topic if topic.value in causes), None)
    if cause is None:
        return None
    name = next((vertex["name"] for vertex in document["vertices"] if vertex["id"] == cause["vertex"]), "")
    # without its text, whose figures change all the time
    return {"cause": cause["cause"], "vertex": cause["vertex"], "name": name}


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
