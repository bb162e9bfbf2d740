"""Responses about whole jobs: overview, detail, configuration, exceptions, result, and Flink 2.3's applications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from backend.dispatcher.shapes.throwables import JOB_FAILED, throwable
from backend.dispatcher.shapes.vertices import job_vertex, state_counts
from runtime.common.configuration import Configuration
from runtime.common.execution_kind import ExecutionKind

Document = Mapping[str, Any]

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
APPLICATION_STATES = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
#: job state → state of the application that consists of it
_APPLICATION_STATE = {
    "INITIALIZING": "CREATED",
    "CREATED": "CREATED",
    "RESTARTING": "RUNNING",
    "CANCELLING": "CANCELING",
    "SUSPENDED": "RUNNING",
    "RECONCILING": "RUNNING",
}
_RESULT = {"FINISHED": "SUCCEEDED", "FAILED": "FAILED", "CANCELED": "CANCELED"}
DEFAULT_MAX_EXCEPTIONS = 20
"""Default number of entries in the exception history."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts from a job's row; the rest comes from its live document."""

    id: str
    name: str
    state: str
    state_times: Mapping[str, int]
    created_at: int
    ended_at: int | None
    parallelism: int
    restarts: int
    configuration: Mapping[str, str]
    plan: Mapping[str, Any]
    now: int

    @property
    def end_time(self) -> int:
        return -1 if self.ended_at is None else self.ended_at

    @property
    def duration(self) -> int:
        return max(0, (self.now if self.ended_at is None else self.ended_at) - self.created_at)

    @property
    def timestamps(self) -> dict[str, int]:
        times = {state: int(self.state_times.get(state, 0)) for state in JOB_STATES}
        times["INITIALIZING"] = times["INITIALIZING"] or self.created_at
        return times


@dataclass(frozen=True, slots=True)
class Failure:
    """An entry of a job's exception history."""

    timestamp: int
    name: str
    message: str
    stacktrace: str
    task_name: str
    location: str
    taskmanager: str
    suppressed: Sequence[Mapping[str, Any]]


def scheduler_type(document: Document) -> str:
    """Return Flink's name of the scheduler of a job: Adaptive if there is room between its bounds."""
    vertices = document["vertices"]
    # documents of earlier versions have no bounds
    has_room = any(v.get("lower_bound") != v.get("upper_bound") for v in vertices)
    return "Adaptive" if has_room else "Default"


def job_overview(job: JobFacts, document: Document) -> dict[str, Any]:
    """Return an entry of /jobs/overview."""
    counts = state_counts(s["state"] for v in document["vertices"] for s in v["subtasks"])
    return {
        "jid": job.id,
        "name": job.name,
        "jobType": job_type(job),
        "schedulerType": scheduler_type(document),
        "start-time": job.created_at,
        "end-time": job.end_time,
        "duration": job.duration,
        "state": job.state,
        "last-modification": max([job.created_at, *job.state_times.values()]),
        "tasks": {"total": sum(counts.values()), **{state.lower(): count for state, count in counts.items()}},
        "pending-operators": 0,
    }


def job_type(job: JobFacts) -> str:
    """Return Flink's JobType."""
    is_batch = ExecutionKind.of(Configuration.from_dict(dict(job.configuration))) is ExecutionKind.BATCH
    return "BATCH" if is_batch else "STREAMING"


def job_detail(job: JobFacts, document: Document) -> dict[str, Any]:
    """Return the response of /jobs/:jobid."""
    return {
        "jid": job.id,
        "application-id": job.id,
        "name": job.name,
        "isStoppable": False,
        "state": job.state,
        "job-type": job_type(job),
        "schedulerType": scheduler_type(document),
        "start-time": job.created_at,
        "end-time": job.end_time,
        "duration": job.duration,
        "maxParallelism": -1,
        "now": job.now,
        "timestamps": job.timestamps,
        "vertices": [job_vertex(vertex, job.now) for vertex in document["vertices"]],
        "status-counts": state_counts(vertex["state"] for vertex in document["vertices"]),
        "plan": plan(job),
        "pending-operators": 0,
        # Tidemark's own field
        "waiting-for": document["waiting_for"],
    }


def plan(job: JobFacts) -> dict[str, Any]:
    """Return the "plan" member: the program's plan with the job's own id and name."""
    return {**job.plan, "jid": job.id, "name": job.name}


def job_config(
    job: JobFacts, user_config: Mapping[str, str], restart_strategy: str, owner: User | None
) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/config, and the owner. `user_config` must have its secrets redacted."""
    options = job.configuration
    return {
        "jid": job.id,
        "name": job.name,
        "execution-config": {
            "restart-strategy": restart_strategy,
            "job-parallelism": job.parallelism,
            "object-reuse-mode": options.get("pipeline.object-reuse", "false").lower() == "true",
            "user-config": dict(user_config),
        },
        "owner": None if owner is None else owner.get_username(),
    }


def exception_history(failures: Sequence[Failure], limit: int, num_failures: int) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/exceptions.

    Args:
        failures: newest first.
        limit: number of those that are wanted.
        num_failures: of the job, with those that are no longer kept.
    """
    entries = [
        {
            **_exception(
                failure.name,
                failure.stacktrace or f"{failure.name}: {failure.message}",
                failure.timestamp,
                failure.task_name,
                failure.location,
                failure.taskmanager,
            ),
            "concurrentExceptions": [
                _exception(
                    str(other.get("name", "")),
                    f"{other.get('name', '')}: {other.get('message', '')}",
                    failure.timestamp,
                    str(other.get("task_name", "")),
                    "",
                    "",
                )
                for other in failure.suppressed
            ],
        }
        for failure in failures[:limit]
    ]
    return {"exceptionHistory": {"entries": entries, "truncated": max(len(failures), num_failures) > len(entries)}}


def _exception(
    name: str, stacktrace: str, timestamp: int, task_name: str, endpoint: str, taskmanager: str
) -> dict[str, Any]:
    return {
        "exceptionName": name,
        "stacktrace": stacktrace,
        "timestamp": timestamp,
        "failureLabels": {},
        "taskName": task_name or None,
        "endpoint": endpoint or None,
        "taskManagerId": taskmanager or None,
    }


def execution_result(
    job: JobFacts, failure: Mapping[str, Any] | None, error_class: str | None = None
) -> dict[str, Any]:
    """Return the response of /jobs/:jobid/execution-result.

    Args:
        job: the job.
        failure: "message" and "stacktrace" of the failure that ended it.
        error_class: the class of that error, if known.
    """
    if job.state not in _RESULT:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": job.id,
        "application-id": job.id,
        "name": job.name,
        "application-status": _RESULT[job.state],
        "accumulator-results": {},
        "net-runtime": job.duration,
        "start-time": job.created_at,
        "end-time": job.end_time,
    }
    if failure is not None:
        message = str(failure.get("message", ""))
        stack_trace = str(failure.get("stacktrace") or message)
        result["failure-cause"] = throwable(message, error_class or JOB_FAILED, stack_trace)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def application_overview(job: JobFacts) -> dict[str, Any]:
    """Return an entry of /applications/overview: here every job is its own application."""
    return {
        "id": job.id,
        "name": _application_name(job),
        "start-time": job.created_at,
        "end-time": job.end_time,
        "duration": job.duration,
        "status": _APPLICATION_STATE.get(job.state, job.state),
        "jobs": {job.state: 1},
    }


def application_detail(job: JobFacts, document: Document) -> dict[str, Any]:
    """Return the response of /applications/:applicationid."""
    times = dict.fromkeys(APPLICATION_STATES, 0)
    for state, time in job.timestamps.items():
        name = _APPLICATION_STATE.get(state, state)
        # the application is created when its job is initialised, and runs from its job's first run
        times[name] = min((t for t in (times[name], time) if t), default=0)
    return {
        "id": job.id,
        "name": _application_name(job),
        "status": _APPLICATION_STATE.get(job.state, job.state),
        "start-time": job.created_at,
        "end-time": job.end_time,
        "duration": job.duration,
        "timestamps": times,
        "jobs": [job_overview(job, document)],
    }


def _application_name(job: JobFacts) -> str:
    return f"SingleJobApplication({job.name})"


def jobs_by_kind(states: Iterable[str]) -> dict[str, int]:
    """Return the four job counters of /overview."""
    counts = Counter(states)
    ended = {"jobs-finished": "FINISHED", "jobs-cancelled": "CANCELED", "jobs-failed": "FAILED"}
    answer = {key: counts[state] for key, state in ended.items()}
    return {"jobs-running": sum(counts.values()) - sum(answer.values()), **answer}
