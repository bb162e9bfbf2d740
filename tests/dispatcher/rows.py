"""Rows and live documents as the jobmanager writes them: a job of two vertices, and a TaskManager that runs it."""

from __future__ import annotations

from typing import Any

from backend.cluster import cluster_document, services
from backend.cluster.checkpoint_document import DETAILS, TRACES, all_details, all_traces, checkpoints_document
from backend.cluster.models import Job, JobException, TaskManager
from runtime.common.typeinfo import Types
from runtime.core.ids import OperatorId, VertexId, new_job_id
from runtime.graph.codec import job_graph_to_json
from runtime.graph.job_graph import ChainEdge, ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from tests.cluster.snapshots import statistics

SOURCE, SINK = VertexId("a" * 32), VertexId("b" * 32)
TASKMANAGER = "localhost:4711-0a1b2c"
PARALLELISM = 2


def _operator(digit: str, name: str) -> ChainedOperator:
    return ChainedOperator(OperatorId(digit * 32), f"uid-{digit}", name, name, b"", Types.LONG())


def job_graph(name: str = "flights") -> JobGraph:
    """Source: flights -> parse, hashed to window: count -> sink."""
    source = JobVertex(
        SOURCE,
        "Source: flights -> parse",
        PARALLELISM,
        128,
        "default",
        (_operator("1", "Source: flights"), _operator("2", "parse")),
        (ChainEdge(0, 1),),
    )
    sink = JobVertex(
        SINK,
        "window: count -> sink",
        PARALLELISM,
        128,
        "default",
        (_operator("3", "window: count"), _operator("4", "sink")),
        (ChainEdge(0, 1),),
    )
    edge = JobEdge(0, SOURCE, 1, SINK, 0, Partitioning.KEY_GROUP, b"", None, Types.LONG(), 100)
    return JobGraph(
        new_job_id(), name, (source, sink), (edge,), {"parallelism.default": "2", "s3.secret-key": "hunter2"}
    )


def submitted_job(name: str = "flights") -> Job:
    """A job that no jobmanager has taken yet."""
    graph = job_graph(name)
    return services.submit_job(job_graph_to_json(graph), None, [], graph.configuration, None)


def running_job(name: str = "flights") -> Job:
    """A job whose tasks run on `TASKMANAGER`."""
    job = submitted_job(name)
    now = services.now_ms()
    job.state = "RUNNING"
    job.state_times = {"INITIALIZING": now - 3000, "CREATED": now - 2000, "RUNNING": now - 1000}
    job.created_at = now - 3000
    job.waiting_for = ""
    job.document = running_document(job.document or {}, now)
    job.save()
    return job


def ended_job(state: str, name: str = "flights") -> Job:
    """A job that has ended."""
    job = running_job(name)
    job.state = state
    job.ended_at = services.now_ms()
    job.state_times = {**job.state_times, state: job.ended_at}
    if state == "FAILED":
        job.failure = {"message": "ValueError: no year", "stacktrace": "Traceback …", "timestamp": job.ended_at}
    job.save()
    return job


def running_document(document: dict[str, Any], now: int) -> dict[str, Any]:
    """A planned document as it is when all its tasks run."""
    document = dict(document) | {"state": "RUNNING", "version": document["version"] + 1, "now": now, "waiting_for": ""}
    document["vertices"] = [_running_vertex(vertex, now) for vertex in document["vertices"]]
    told = statistics()
    return document | {
        "checkpoints": checkpoints_document(told),
        DETAILS: all_details(told),
        TRACES: all_traces(told),
    }


def _running_vertex(vertex: dict[str, Any], now: int) -> dict[str, Any]:
    metrics = {
        "records_in": 100,
        "records_out": 50,
        "bytes_in": 1000,
        "bytes_out": 500,
        "records_in_per_second": 10.0,
        "records_out_per_second": 5.0,
        "bytes_in_per_second": 100.0,
        "bytes_out_per_second": 50.0,
        "busy": 200,
        "idle": 650,
        "back_pressured": 150,
        "watermark": now - 5000,
        "watermark_lag": 5000,
    }
    place = {"slot": 0, "taskmanager": TASKMANAGER, "host": "localhost", "pid": 4712}
    times = {"start_time": now - 900, "end_time": -1}
    subtasks = [
        {**subtask, **place, **times, "slot": subtask["index"], "state": "RUNNING", "metrics": metrics}
        for subtask in vertex["subtasks"]
    ]
    subtasks[0] = subtasks[0] | {"metrics": metrics | {"records_in": 300}}
    return vertex | times | {"state": "RUNNING", "subtasks": subtasks, "metrics": metrics | {"records_in": 400}}


def failure_of(job: Job, attempt: int, message: str = "year is missing") -> JobException:
    """An entry of the job's exception history."""
    return JobException.objects.create(
        job=job,
        timestamp=services.now_ms() + attempt,
        name="ValueError",
        message=message,
        stacktrace=f"Traceback (most recent call last):\nValueError: {message}",
        task_name="window: count -> sink (1/2)",
        location="localhost:4712",
        taskmanager=TASKMANAGER,
        attempt=attempt,
        suppressed=[{"name": "SlotLost", "message": "slot 1 was lost", "task_name": "Source: flights (2/2)"}],
    )


def taskmanager() -> TaskManager:
    """A TaskManager with four slots."""
    now = services.now_ms()
    return TaskManager.objects.create(
        id=TASKMANAGER,
        worker_name="taskmanager@localhost",
        host="localhost",
        pid=4711,
        slots=4,
        spark_master="local[4,1]",
        registered_at=now,
        last_heartbeat=now,
        hardware={"cpu_cores": 2, "physical_memory": 24 << 30, "free_memory": 12 << 30},
    )


def taskmanager_entry(now: int) -> dict[str, Any]:
    """The entry of that TaskManager in the cluster's document, with a heartbeat of this time."""
    row = TaskManager(
        id=TASKMANAGER,
        host="localhost",
        pid=4711,
        slots=4,
        state=TaskManager.State.REGISTERED,
        registered_at=now,
        last_heartbeat=now,
        hardware={"cpu_cores": 2, "physical_memory": 24 << 30, "free_memory": 12 << 30},
    )
    return cluster_document.taskmanager_entry(row, 4)
