"""Happenings on the cluster, read from the rows in which they are: failures, operations, deployments, switches of the
execution, TaskManagers, the audit trail; and the latest failed checkpoint of each job.

Nothing is written here, so nothing has to be deleted: what rows are not kept (`backend.cluster.row_retention`) has not
happened any more. Reads the database, and the cluster's document from Redis. Times are epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from backend.audit.models import AuditEvent
from backend.cluster import services
from backend.cluster.models import Job, JobException, Operation, TaskManager
from backend.dispatcher.models import ExecutionSwitch
from backend.inbox.answers import Happening
from backend.live.failure_groups import class_of
from backend.pipelines.models import Deployment

MAX_HAPPENINGS: Final = 100
MAX_FAILURES_OF_JOB: Final = 3
"""Failures of attempts of one job, the newest ones: more, and one that restarts every few seconds hides all others."""
KEPT_MS: Final = 7 * 24 * 3_600_000
MAX_TEXT_CHARS: Final = 300
_ENDED_BADLY: Final = ("ROLLED_BACK", "FAILED")
"""States of deployments and switches."""


class Happenings(NamedTuple):
    """Lists the happenings on the cluster."""

    newest: list[Happening]
    """Newest first."""
    is_cut: bool
    """Whether more has happened since than is told."""


def happenings(now: int) -> Happenings:
    """Return the happenings of the last days; jobs that have failed are told before all others."""
    since = now - KEPT_MS
    sources = (
        _ended(since),
        _failures(since),
        _savepoints(since),
        _deployments(since),
        _switches(since),
        _leaders(since),
        _taskmanagers(since),
    )
    found = sorted(chain(*sources, _checkpoints(since)), key=lambda each: (each["kind"] != "failed", -each["at"]))
    told = sorted(found[:MAX_HAPPENINGS], key=lambda each: -each["at"])
    return Happenings(told, len(found) > MAX_HAPPENINGS)


def _ended(since: int) -> Iterator[Happening]:
    jobs = Job.objects.filter(state="FAILED", ended_at__gt=since).order_by("-ended_at")
    for row in jobs.values("id", "name", "ended_at", "failure")[: MAX_HAPPENINGS + 1]:
        why = (row["failure"] or {}).get("message", "")
        yield _happening("failed", row["ended_at"] or 0, row["id"], row["name"], f"FAILED: {why}" if why else "FAILED")


def _failures(since: int) -> Iterator[Happening]:
    of_job = F("job_id")
    rows = JobException.objects.filter(timestamp__gt=since).annotate(
        rank=Window(RowNumber(), partition_by=of_job, order_by=F("timestamp").desc()),
        number=Window(Count("id"), partition_by=of_job),
    )
    rows = rows.filter(rank__lte=MAX_FAILURES_OF_JOB).order_by("-timestamp")
    wanted = ("name", "stacktrace", "timestamp", "attempt", "task_name", "job_id", "job__name", "job__state_times")
    for row in rows.values("rank", "number", "job__failure", *wanted)[: MAX_HAPPENINGS + 1]:
        if (row["job__failure"] or {}).get("timestamp") == row["timestamp"]:
            # it has ended the job, and is told as its end
            continue
        where = f" in {row['task_name']}" if row["task_name"] else ""
        text = f"attempt {row['attempt']} failed: {class_of(row)}{where}"
        # it may have been cancelled while it was to be restarted
        is_over = row["job__state_times"].get("RUNNING", 0) > row["timestamp"]
        kind, text = ("restart", f"{text}; the job was restarted") if is_over else ("failure", text)
        older = row["number"] - row["rank"]
        if row["rank"] == MAX_FAILURES_OF_JOB and older:
            text = f"{text}; {older} earlier {'failure' if older == 1 else 'failures'} of the job"
        yield _happening(kind, row["timestamp"], row["job_id"], row["job__name"], text)


def _savepoints(since: int) -> Iterator[Happening]:
    # whoever asks for one that is being taken shares its result
    rows = Operation.objects.filter(
        kind__in=(Operation.Kind.SAVEPOINT, Operation.Kind.STOP),
        state=Operation.State.COMPLETED,
        follows=None,
        finished_at__gt=since,
    ).exclude(job=None)
    wanted = ("kind", "finished_at", "result", "job_id", "job__name")
    for row in rows.order_by("-finished_at").values(*wanted)[: MAX_HAPPENINGS + 1]:
        result = row["result"] or {}
        what = "stopped with savepoint" if row["kind"] == Operation.Kind.STOP else "savepoint"
        error = result.get("error")
        text = f"{what} {result.get('location', '')}" if not error else f"{what} failed: {error}"
        yield _happening("savepoint", row["finished_at"], row["job_id"], row["job__name"], text, is_bad=bool(error))


def _deployments(since: int) -> Iterator[Happening]:
    rows = Deployment.objects.filter(state__in=_ENDED_BADLY, created_at__gt=since).order_by("-created_at")
    wanted = ("state", "state_times", "message", "created_at", "version__number", "pipeline_id", "pipeline__name")
    for row in rows.values(*wanted)[: MAX_HAPPENINGS + 1]:
        what = "was rolled back" if row["state"] == Deployment.State.ROLLED_BACK else "failed"
        at = row["state_times"].get(row["state"], row["created_at"])
        text = f"deployment of version {row['version__number']} {what}: {row['message']}"
        yield _happening("deployment", at, row["pipeline_id"], row["pipeline__name"], text)


def _switches(since: int) -> Iterator[Happening]:
    rows = ExecutionSwitch.objects.filter(state__in=_ENDED_BADLY, created_at__gt=since).order_by("-created_at")
    wanted = ("state", "state_times", "message", "created_at", "execution", "old_job_id")
    found = list(rows.values(*wanted)[: MAX_HAPPENINGS + 1])
    names = dict(Job.objects.filter(id__in=[row["old_job_id"] for row in found]).values_list("id", "name"))
    for row in found:
        what = "was rolled back" if row["state"] == ExecutionSwitch.State.ROLLED_BACK else "failed"
        at = row["state_times"].get(row["state"], row["created_at"])
        text = f"switch to the execution {row['execution']} {what}: {row['message']}"
        yield _happening("switch", at, row["old_job_id"], names.get(row["old_job_id"], row["old_job_id"]), text)


def _leaders(since: int) -> Iterator[Happening]:
    rows = AuditEvent.objects.filter(action="leader.elected", at__gt=since).order_by("-at")
    for at, detail in rows.values_list("at", "detail")[: MAX_HAPPENINGS + 1]:
        name = str(detail.get("jobmanager", ""))
        yield _happening("leader", at, name, name, "leads the cluster now", is_bad=False)


def _taskmanagers(since: int) -> Iterator[Happening]:
    rows = TaskManager.objects.filter(state=TaskManager.State.LOST, last_heartbeat__gt=since)
    for name, host, at in rows.order_by("-last_heartbeat").values_list("id", "host", "last_heartbeat")[:MAX_HAPPENINGS]:
        yield _happening("taskmanager", at, name, name, f"was lost: no sign of it from {host}")


def _checkpoints(since: int) -> Iterator[Happening]:
    for job in services.cluster_document()["jobs"]:
        failed = job.get("failed_checkpoint")
        # a savepoint's failure is told as the result of its operation
        if failed is not None and failed["at"] > since and not failed.get("is_savepoint"):
            text, number = f"checkpoint {failed['id']} failed: {failed['message']}", failed.get("in_a_row", 0)
            if number > 1:
                text = f"{number} in a row have failed; the latest: {text}"
            # a row of failures is one piece of news, from its first one
            yield _happening("checkpoint", failed.get("since") or failed["at"], job["id"], job["name"], text)


def _happening(kind: Any, at: int, subject: Any, name: str, text: str, *, is_bad: bool = True) -> Happening:
    shown = " ".join(text.split())
    if len(shown) > MAX_TEXT_CHARS:
        shown = f"{shown[:MAX_TEXT_CHARS]} …"
    return {"kind": kind, "at": at, "subject": str(subject), "name": name, "text": shown, "is_bad": is_bad}
