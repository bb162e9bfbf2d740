"""What the faces (REST, WebSocket, supervisor) may ask of the cluster. Any process, any thread; plain SQL and Redis.

Nothing here starts or stops anything: jobs and operations are rows that the leading jobmanager carries out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import redis
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.db.models import QuerySet

from backend.cluster import bus
from backend.cluster.cluster_document import cluster_document_from_rows
from backend.cluster.live_document import planned_document
from backend.cluster.models import TERMINAL_STATES, Artifact, Job, JobException, Operation, TaskManager
from backend.cluster.task_metrics import ACCUMULATORS, JOB_METRICS, Metrics, subtask_field
from runtime.core.ids import Attempt, new_job_id
from runtime.graph.codec import job_graph_from_json, job_graph_to_json
from runtime.graph.plan import job_plan
from runtime.jobmaster.execution_graph import ExecutionGraph

logger = logging.getLogger(__name__)
#: a cluster document that is older was left behind by a jobmanager that is gone
STALE_MS = 10_000

User = AbstractBaseUser | AnonymousUser | None


class ClusterError(Exception):
    """Base of this module's errors; the message may be shown to the user."""


class JobUnknownError(ClusterError):
    """There is no such job."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id} not found")


class JobEndedError(ClusterError):
    """The job has ended: nothing about it can be changed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        super().__init__(f"Job {job.id} is already in state {job.state}")


def now_ms() -> int:
    """Wall-clock time, epoch ms."""
    return time.time_ns() // 1_000_000


def submit_job(
    graph_json: Mapping[str, Any],
    artifact: Artifact | None,
    args: Sequence[str],
    configuration: Mapping[str, str],
    user: User,
) -> Job:
    """Queue a job; a jobmanager takes it within a second.

    Args:
        graph_json: of `runtime.graph.codec`. Its job id is kept unless a job has it already.
        artifact: the program it was extracted from.
        args: the program's arguments, shown to users.
        configuration: what the submitter set, shown to users; the graph carries what is run.
        user: who submits.

    Raises:
        runtime.graph.codec.GraphFormatError: the graph cannot be read.
    """
    graph = job_graph_from_json(dict(graph_json))
    if Job.objects.filter(id=graph.job_id).exists():
        graph = replace(graph, job_id=new_job_id())
    now = now_ms()
    job = Job(
        id=graph.job_id,
        name=graph.name,
        state="INITIALIZING",
        state_times={"INITIALIZING": now},
        created_at=now,
        submitted_by_id=_user_id(user),
        artifact=artifact,
        program_args=list(args),
        configuration=dict(configuration),
        graph=job_graph_to_json(graph),
        plan=job_plan(graph),
        parallelism=max(vertex.parallelism for vertex in graph.vertices),
        slots_required=ExecutionGraph(graph, Attempt(0)).slot_count,
        waiting_for="a jobmanager",
    )
    job.document = planned_document(job, graph, now)
    job.save(force_insert=True)
    transaction.on_commit(lambda: _wake({"type": "job_submitted", "job": job.id}))
    return job


def request_cancel(job: Job, user: User) -> Operation:
    """Ask for the job's cancellation; asking again gives the same operation.

    Raises:
        JobEndedError: the job has ended.
    """
    with transaction.atomic():
        job.refresh_from_db(fields=["state"])
        if job.is_terminal:
            raise JobEndedError(job)
        waiting = job.operations.filter(kind="cancel").exclude(state=Operation.State.COMPLETED).first()
        if waiting is not None:
            return waiting
        operation = Operation.objects.create(
            job=job, kind="cancel", created_at=now_ms(), requested_by_id=_user_id(user)
        )
    transaction.on_commit(lambda: _wake({"type": "operation", "operation": operation.trigger_id}))
    return operation


def get_job(job_id: str) -> Job:
    """A job, without its graph (which is large and only the jobmanager needs).

    Raises:
        JobUnknownError: there is none of that id.
    """
    job = list_jobs().filter(id=job_id).first()
    if job is None:
        raise JobUnknownError(job_id)
    return job


def list_jobs() -> QuerySet[Job]:
    """All jobs, newest first, without their graphs."""
    return Job.objects.defer("graph").order_by("-created_at")


def list_exceptions(job: Job) -> QuerySet[JobException]:
    """A job's failures, newest first."""
    return job.exceptions.order_by("-timestamp")


def list_taskmanagers() -> QuerySet[TaskManager]:
    """TaskManagers that offer slots, oldest first."""
    return TaskManager.objects.filter(state=TaskManager.State.REGISTERED).order_by("registered_at")


def any_job_active() -> bool:
    """Whether a job has not ended yet."""
    return Job.objects.exclude(state__in=TERMINAL_STATES).exists()


def job_document(job_id: str) -> dict[str, Any]:
    """A job's live document: Redis's if it is there, else the one of its last change of state.

    Raises:
        JobUnknownError: there is no such job.
    """
    live = _live(bus.JOB_KEY.format(job_id))
    if live is not None:
        return live
    job = get_job(job_id)
    return {name: value for name, value in (job.document or {}).items() if name != ACCUMULATORS} | {"now": now_ms()}


def task_metrics(job_id: str, vertex_id: str, subtasks: Sequence[int]) -> list[Metrics]:
    """What subtasks have reported last, by their slots' names; {} of those that nobody knows (any more).

    Args:
        job_id: a job's.
        vertex_id: one of its vertices'.
        subtasks: their indexes; the answer has their order.
    """
    return _fields(job_id, [subtask_field(vertex_id, index) for index in subtasks])


def job_level_metrics(job_id: str) -> Metrics:
    """What a job's subtasks have reported that is the job's own: latencies."""
    return _fields(job_id, [JOB_METRICS])[0]


def job_accumulators(job: Job) -> dict[str, Any]:
    """An `accumulators_document`: as reported while the job runs, as saved once it has ended."""
    saved = dict((job.document or {}).get(ACCUMULATORS, {}))
    if job.is_terminal:
        return saved
    return _fields(job.id, [ACCUMULATORS])[0] or saved


def cluster_document() -> dict[str, Any]:
    """The cluster's live document: Redis's if a jobmanager keeps it, else one made from SQL."""
    live = _live(bus.CLUSTER_KEY)
    now = now_ms()
    if live is not None and now - live["now"] < STALE_MS:
        return live
    return cluster_document_from_rows(now)


def _live(key: str) -> dict[str, Any] | None:
    try:
        return bus.get_document(key)
    except redis.RedisError as error:
        logger.warning("live documents cannot be read: %s", error)
        return None


def _fields(job_id: str, names: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return bus.get_fields(bus.METRICS_KEY.format(job_id), names)
    except redis.RedisError as error:
        logger.warning("metrics cannot be read: %s", error)
        return [{} for _ in names]


def _wake(event: dict[str, Any]) -> None:
    """Have the jobmanager look at once; it would by itself within a second."""
    try:
        bus.post_event(event)
    except redis.RedisError as error:
        logger.warning("the jobmanager could not be told: %s", error)


def _user_id(user: User) -> int | None:
    return None if user is None else user.pk
