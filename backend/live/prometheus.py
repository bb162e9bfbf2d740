"""/metrics: what Prometheus watches. Flink's names where Flink has one, as its Prometheus reporter writes them.

Read from SQL and from the live documents in Redis, in few queries; never from the storage. Without the database nobody
is let in, and Prometheus notes that it is down. While Redis is silent the answer comes after its time limit for
readers, with `tidemark_redis_up 0` and without the figures of jobs, as old ones would look like new ones. The number of
series is bounded: so many jobs, so many vertices of each, no subtasks.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import redis
from django.db.models import Count, Max, Min, Q
from django.http import HttpResponse
from rest_framework.request import Request

from backend.accounts.views import ProductView
from backend.cluster import bus, services
from backend.cluster.freshness import as_of_the_beat
from backend.cluster.jobmanager_list import jobmanager_entries
from backend.cluster.leadership import ROLE
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job, LeaderEpoch, Operation
from backend.cluster.process_report import figures_of_process, read_processes
from backend.live.exposition import CONTENT_TYPE, Exposition

MAX_JOBS: Final = 200
"""Running jobs with figures of their own, newest first; the others are counted only."""
MAX_VERTICES: Final = 100
"""Of a job."""
MAX_PROCESSES: Final = 200
"""TaskManagers whose processes have figures of their own, oldest first."""
PORTION: Final = 20
"""Documents that are read, and held in memory, at once."""
MAX_LABEL_CHARS: Final = 200
STATES: Final = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "CANCELLING",
    "RESTARTING",
    "RECONCILING",
    *TERMINAL_STATES,
)

LATELY_MS: Final = 600_000
TAKEN_MS: Final = 30_000
"""A leader takes a job within a second, and writes its document at once."""

FAMILIES: Final[Mapping[str, str]] = {
    "tidemark_redis_up": "1 if Redis has answered.",
    "tidemark_jobs": "Jobs by state, as far as their rows are kept.",
    "tidemark_jobs_failed_lately": "Jobs that have failed for good within the last 10 minutes.",
    "tidemark_operations_open": "Operations that were asked for and are not completed.",
    "tidemark_oldest_operation_age_seconds": "Time since the oldest open operation was asked for; 0 if there is none.",
    "tidemark_leader_epoch": "Epoch of the leading JobManager; it grows when another one takes over.",
    "tidemark_leader_present": "1 if a JobManager leads.",
    "tidemark_jobmanagers": "JobManagers that live, by role.",
    "tidemark_leader_beat_age_seconds": "Time since the leader's last beat, which vouches for all figures of jobs.",
    "tidemark_jobs_not_exposed": "Running jobs without figures of their own, because there are too many.",
    "tidemark_jobs_stranded": "Jobs that nobody runs though a JobManager leads: none of its documents has them.",
    "tidemark_processes_silent": "JobManagers and TaskManagers that live and have not reported their process.",
    "tidemark_process_resident_bytes": "Memory of the process of a JobManager, a TaskManager, or this web process.",
    "tidemark_process_cpu_seconds": "CPU time of the process since its start.",
    "tidemark_process_open_descriptors": "Descriptors that the process has open.",
    "tidemark_process_max_descriptors": "Descriptors that the process may have open.",
    "tidemark_process_threads": "Python threads of the process.",
    "tidemark_process_collection_seconds": "Time of the process in garbage collections since its start.",
    "tidemark_process_late_seconds": "How late the process's reporter ran last, as other threads kept it from running.",
    "tidemark_process_log_warnings": "Warnings that the process has logged since its start.",
    "tidemark_process_log_errors": "Errors that the process has logged since its start.",
    "tidemark_process_refused": "What the process has refused since its start: streams of strangers, messages, "
    "commands and events.",
    "tidemark_process_disk_free_bytes": "Bytes that are free where TIDEMARK_HOME of the process is.",
    "flink_jobmanager_numRegisteredTaskManagers": "TaskManagers that are registered.",
    "flink_jobmanager_taskSlotsTotal": "Task slots of all TaskManagers.",
    "flink_jobmanager_taskSlotsAvailable": "Task slots that are free.",
    "flink_jobmanager_numRunningJobs": "Jobs that run.",
    "flink_jobmanager_job_numRestarts": "Restarts of the job since its submission.",
    "flink_jobmanager_job_uptime": "Time since the job began to run, ms; 0 while it does not.",
    "flink_jobmanager_job_numberOfCompletedCheckpoints": "Completed checkpoints.",
    "flink_jobmanager_job_numberOfFailedCheckpoints": "Failed checkpoints.",
    "flink_jobmanager_job_numberOfInProgressCheckpoints": "Checkpoints under way.",
    "flink_jobmanager_job_lastCheckpointDuration": "Duration of the newest completed checkpoint, ms.",
    "flink_jobmanager_job_lastCheckpointSize": "Bytes that the newest completed checkpoint has written.",
    "flink_jobmanager_job_lastCheckpointFullSize": "Bytes that the newest completed checkpoint refers to.",
    "tidemark_job_last_checkpoint_age_seconds": "Time since the newest checkpoint was completed.",
    "tidemark_job_since_checkpoint_seconds": "The same; before the first one, time since the job began to run.",
    "tidemark_job_checkpoint_interval_seconds": "Interval of periodic checkpoints; none without them.",
    "tidemark_job_watermark_lag_seconds": "How far the slowest vertex is behind the clock; none of old data.",
    "tidemark_job_event_time_behind_seconds": "Event time by which the last source is behind the newest that it meets.",
    "tidemark_job_watermark_still_seconds": "For how long the last source has not risen while others have.",
    "tidemark_job_causes": "1 for each cause that holds the job up, by topic.",
    "flink_taskmanager_job_task_numRecordsIn": "Records that a vertex has received, all subtasks.",
    "flink_taskmanager_job_task_numRecordsOut": "Records that a vertex has sent, all subtasks.",
    "flink_taskmanager_job_task_numRecordsInPerSecond": "Records a vertex receives per second, all subtasks.",
    "flink_taskmanager_job_task_numRecordsOutPerSecond": "Records a vertex sends per second, all subtasks.",
    "flink_taskmanager_job_task_busyTimeMsPerSecond": "ms of a second; of the busiest subtask.",
    "flink_taskmanager_job_task_backPressuredTimeMsPerSecond": "ms of a second; of the most back-pressured subtask.",
    "flink_taskmanager_job_task_idleTimeMsPerSecond": "ms of a second; of the least idle subtask.",
}

#: family → figure of a process's report
_PROCESS_FIGURES: Final = {
    "resident_bytes": "resident_bytes",
    "cpu_seconds": "cpu_s",
    "open_descriptors": "descriptors",
    "max_descriptors": "max_descriptors",
    "threads": "threads",
    "late_seconds": "late_s",
    "log_warnings": "log_warnings",
    "log_errors": "log_errors",
    "disk_free_bytes": "disk_free_bytes",
}
_TASK_METRICS: Final = {
    "records_in": "numRecordsIn",
    "records_out": "numRecordsOut",
    "records_in_per_second": "numRecordsInPerSecond",
    "records_out_per_second": "numRecordsOutPerSecond",
    "busy": "busyTimeMsPerSecond",
    "back_pressured": "backPressuredTimeMsPerSecond",
    "idle": "idleTimeMsPerSecond",
}
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _JobRow:
    """A job that has not ended, as in SQL; times are epoch ms, None: never."""

    id: str
    created_at: int
    running_since: int | None
    checkpointed_at: int | None


class _Rows(NamedTuple):
    """Rows of SQL that more than one family of figures needs.

    Attributes:
        jobs: those that have not ended, newest first.
        lease: the leader's row; None: nobody has led yet.
        taskmanagers: ids of those that are registered, oldest first.
    """

    jobs: Sequence[_JobRow]
    lease: LeaderEpoch | None
    taskmanagers: Sequence[str]


class MetricsView(ProductView):
    """For whoever may look: Prometheus sends the token of a viewer. Not open on loopback, where a proxy may be."""

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(exposed().text(), content_type=CONTENT_TYPE)


def exposed() -> Exposition:
    """Return all families, as far as their sources answer."""
    out = Exposition(FAMILIES)
    rows = _of_rows(out)
    _of_process(out, "web", f"{socket.gethostname()}:{os.getpid()}", figures_of_process())
    try:
        jobmanagers = bus.jobmanagers()
        _of_documents(out, rows, jobmanagers)
        _of_processes(out, jobmanagers, rows.taskmanagers[:MAX_PROCESSES])
        out.add("tidemark_redis_up", 1)
    except redis.RedisError as error:
        logger.warning("metrics without Redis: %s", error)
        out.add("tidemark_redis_up", 0)
    return out


def _of_rows(out: Exposition) -> _Rows:
    """Add what SQL says."""
    # rows are kept for longer than that; a count of all falls when old ones go
    lately = Count("id", filter=Q(state="FAILED", ended_at__gte=services.now_ms() - LATELY_MS))
    counted = list(Job.objects.order_by().values_list("state").annotate(Count("id"), lately=lately))
    counts = {state: number for state, number, _ in counted}
    for state in (*STATES, *sorted(set(counts) - set(STATES))):
        out.add("tidemark_jobs", counts.get(state, 0), state=state)
    out.add("tidemark_jobs_failed_lately", sum(failed for _, _, failed in counted))
    out.add("flink_jobmanager_numRunningJobs", counts.get("RUNNING", 0))
    open_ones = Operation.objects.exclude(state=Operation.State.COMPLETED)
    found = open_ones.aggregate(number=Count("trigger_id"), oldest=Min("created_at"))
    out.add("tidemark_operations_open", found["number"])
    oldest = found["oldest"]
    age_ms = 0 if oldest is None else max(0, services.now_ms() - oldest)
    out.add("tidemark_oldest_operation_age_seconds", age_ms / 1000)
    taskmanagers = dict(services.list_taskmanagers().values_list("id", "slots"))
    out.add("flink_jobmanager_numRegisteredTaskManagers", len(taskmanagers))
    out.add("flink_jobmanager_taskSlotsTotal", sum(taskmanagers.values()))
    lease = LeaderEpoch.objects.filter(name=ROLE).first()
    out.add("tidemark_leader_epoch", 0 if lease is None else lease.epoch)
    running = Job.objects.exclude(state__in=TERMINAL_STATES)
    rows = list(running.order_by("-created_at").values_list("id", "created_at", "state_times"))
    out.add("tidemark_jobs_not_exposed", max(0, len(rows) - MAX_JOBS))
    # the documents of a new leader know only the checkpoints since
    checkpoints = Checkpoint.objects.filter(job__in=running).order_by().values_list("job")
    newest = dict(checkpoints.annotate(Max("completed_at")))
    jobs = [_JobRow(row, created_at, times.get("RUNNING"), newest.get(row)) for row, created_at, times in rows]
    return _Rows(jobs, lease, list(taskmanagers))


def _of_documents(out: Exposition, rows: _Rows, jobmanagers: Sequence[str]) -> None:
    """Add what the live documents in Redis say."""
    jobs = rows.jobs[:MAX_JOBS]
    entries = jobmanager_entries(rows.lease, jobmanagers)
    alive = [entry for entry in entries if entry["is_alive"]]
    out.add("tidemark_leader_present", int(any(entry["role"] == "LEADER" for entry in alive)))
    for role in ("LEADER", "STANDBY"):
        out.add("tidemark_jobmanagers", sum(entry["role"] == role for entry in alive), role=role.lower())
    cluster = bus.read_document(bus.CLUSTER_KEY)
    age_ms = cluster.beat_age_ms
    out.add("tidemark_leader_beat_age_seconds", None if age_ms is None else age_ms / 1000)
    if cluster.document is None or age_ms is None or age_ms >= services.ABANDONED_MS:
        # left behind by a leader that is gone
        return
    out.add("flink_jobmanager_taskSlotsAvailable", cluster.document["slots_available"])
    stranded = 0
    for begin in range(0, len(jobs), PORTION):
        portion = jobs[begin : begin + PORTION]
        for row, read in zip(portion, bus.read_documents([bus.JOB_KEY.format(row.id) for row in portion]), strict=True):
            if read.document is not None:
                _of_job(out, as_of_the_beat(read.document, read.vouched_for_ms), row)
            elif services.now_ms() - row.created_at > TAKEN_MS:
                stranded += 1
    out.add("tidemark_jobs_stranded", stranded)


def _of_processes(out: Exposition, jobmanagers: Sequence[str], taskmanagers: Sequence[str]) -> None:
    """Add what the processes of the cluster say of themselves."""
    living = [("jobmanager", name) for name in jobmanagers] + [("taskmanager", name) for name in taskmanagers]
    reports = read_processes([name for _, name in living])
    out.add("tidemark_processes_silent", sum(report is None for report in reports))
    for (kind, name), report in zip(living, reports, strict=True):
        if report is not None:
            _of_process(out, kind, name, report["figures"])


def _of_process(out: Exposition, kind: str, name: str, figures: Mapping[str, float]) -> None:
    labels = {"kind": kind, "process": name[:MAX_LABEL_CHARS]}
    for family, figure in _PROCESS_FIGURES.items():
        out.add(f"tidemark_process_{family}", figures.get(figure), **labels)
    for figure, count in figures.items():
        if figure.startswith("refused_"):
            out.add("tidemark_process_refused", count, what=figure.removeprefix("refused_"), **labels)
    collections = [ms for figure, ms in figures.items() if figure.startswith("gc") and figure.endswith("_ms")]
    if collections:
        out.add("tidemark_process_collection_seconds", sum(collections) / 1000, **labels)


def _of_job(out: Exposition, document: Mapping[str, Any], row: _JobRow) -> None:
    now: int = document["now"]
    job = {"job_id": document["id"], "job_name": document["name"][:MAX_LABEL_CHARS]}
    out.add("flink_jobmanager_job_numRestarts", document["restarts"], **job)
    since = row.running_since if document["state"] == "RUNNING" else None
    out.add("flink_jobmanager_job_uptime", 0 if since is None else max(0, now - since), **job)
    _of_checkpoints(out, document.get("checkpoints") or {}, now, job, row)
    names = {vertex["id"]: vertex["name"][:MAX_LABEL_CHARS] for vertex in document["vertices"]}
    _of_event_time(out, document, job)
    for topic, cause in (document.get("causes") or {}).items():
        place = {"task_id": cause["vertex"], "task_name": names.get(cause["vertex"], "")}
        out.add("tidemark_job_causes", 1, topic=topic, cause=cause["cause"], **job, **place)
    for vertex in document["vertices"][:MAX_VERTICES]:
        labels = job | {"task_id": vertex["id"], "task_name": names[vertex["id"]]}
        for name, flinks in _TASK_METRICS.items():
            out.add(f"flink_taskmanager_job_task_{flinks}", vertex["metrics"].get(name), **labels)


def _of_event_time(out: Exposition, document: Mapping[str, Any], job: Mapping[str, str]) -> None:
    time = document.get("event_time") or {}
    if "newest" not in time:
        return
    holder = time.get("holder")
    # of one without a watermark it is not known
    out.add("tidemark_job_event_time_behind_seconds", _seconds(0 if holder is None else holder.get("behind")), **job)
    out.add("tidemark_job_watermark_still_seconds", _seconds(0 if holder is None else holder["still"]), **job)
    # of old data that is replayed it is the age
    live = [vertex for vertex in document["vertices"] if vertex["id"] in time.get("live", {})]
    known = [lag for vertex in live if (lag := vertex["metrics"].get("watermark_lag")) is not None]
    if known:
        out.add("tidemark_job_watermark_lag_seconds", max(known) / 1000, **job)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _of_checkpoints(
    out: Exposition, checkpoints: Mapping[str, Any], now: int, job: Mapping[str, str], row: _JobRow
) -> None:
    counts = checkpoints.get("counts", {})
    out.add("flink_jobmanager_job_numberOfCompletedCheckpoints", counts.get("completed"), **job)
    out.add("flink_jobmanager_job_numberOfFailedCheckpoints", counts.get("failed"), **job)
    out.add("flink_jobmanager_job_numberOfInProgressCheckpoints", counts.get("in_progress"), **job)
    interval = checkpoints.get("config", {}).get("interval")
    out.add("tidemark_job_checkpoint_interval_seconds", None if interval is None else interval / 1000, **job)
    latest = checkpoints.get("latest", {}).get("completed")
    if latest is not None:
        out.add("flink_jobmanager_job_lastCheckpointDuration", latest["end_to_end_duration"], **job)
        out.add("flink_jobmanager_job_lastCheckpointSize", latest["checkpointed_size"], **job)
        out.add("flink_jobmanager_job_lastCheckpointFullSize", latest["state_size"], **job)
    ends = [row.checkpointed_at, None if latest is None else latest["latest_ack_timestamp"]]
    known = [end for end in ends if end is not None]
    if known:
        out.add("tidemark_job_last_checkpoint_age_seconds", max(0, now - max(known)) / 1000, **job)
    since = max(known) if known else row.running_since
    out.add("tidemark_job_since_checkpoint_seconds", None if since is None else max(0, now - since) / 1000, **job)
