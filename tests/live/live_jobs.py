"""Jobs of any size whose documents the jobmanager's own code builds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

from backend.cluster.live_document import LiveDocument, Placement
from backend.cluster.models import Job
from backend.cluster.wall_dates import WallDates
from runtime.common.typeinfo import Types
from runtime.core.ids import OperatorId, SlotId, TaskId, VertexId, new_job_id, operator_id_of
from runtime.graph.job_graph import ChainEdge, ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.events import Submitted
from runtime.jobmaster.life_cycle import JobMasterMachine
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot
from runtime.task.io_metrics import EDGE
from runtime.task.messages import TaskState

NOW = 1_700_000_000_000


def uid_of(number: int, operator: int) -> str:
    """Return the uid of an operator of the vertex of that number; as long as one that nobody has given."""
    return f"{2 * number + operator:032x}"


def chain_graph(vertices: int, parallelism: int) -> JobGraph:
    """Vertices of two operators each, one behind the other, hashed."""
    ids = [VertexId(f"{number:032x}") for number in range(vertices)]
    nodes = tuple(
        JobVertex(
            vertex_id,
            f"step {number} -> step {number} again",
            parallelism,
            128,
            "default",
            tuple(
                ChainedOperator(operator_id_of(uid_of(number, n)), uid_of(number, n), f"op {n}", "", b"", Types.LONG())
                for n in (0, 1)
            ),
            (ChainEdge(0, 1),),
        )
        for number, vertex_id in enumerate(ids)
    )
    edges = tuple(
        JobEdge(number, source, 1, target, 0, Partitioning.KEY_GROUP, b"", None, Types.LONG(), 100)
        for number, (source, target) in enumerate(pairwise(ids))
    )
    return JobGraph(new_job_id(), "chain", nodes, edges, {})


class RunningJob:
    """A job of a chain of vertices whose documents can be built as often as wanted.

    Args:
        vertices: their number.
        parallelism: of each.
    """

    def __init__(self, vertices: int, parallelism: int) -> None:
        self.graph = chain_graph(vertices, parallelism)
        self.row = Job(id=str(self.graph.job_id), name="chain", state="RUNNING", created_at=NOW - 3_600_000)
        self.row.parallelism = self.row.slots_required = parallelism
        self._live = LiveDocument(self.row, self.graph)
        machine = JobMasterMachine(self.graph)
        machine.handle(Submitted(), 0.0)
        self.status = machine.status()
        self.places = {
            SlotId(slot): Placement("host-1:4711-0a1b2c", "host-1", 4711 + slot) for slot in range(parallelism)
        }

    @property
    def topic(self) -> str:
        return f"job:{self.row.id}"

    @property
    def vertices(self) -> list[VertexId]:
        return [vertex.vertex_id for vertex in self.graph.vertices]

    def tasks(self, after_ms: int, random: Random) -> list[TaskSnapshot]:
        """All tasks as they run that long after the start: about 100,000 records a second each."""
        return [
            TaskSnapshot(
                TaskId(vertex.vertex_id, index),
                vertex.name,
                SlotId(index),
                TaskState.RUNNING,
                self._metrics(vertex, after_ms, random),
                started_ms=0.0,
            )
            for vertex in self.graph.vertices
            for index in range(vertex.parallelism)
        ]

    def _metrics(self, vertex: JobVertex, after_ms: int, random: Random) -> dict[str, object]:
        """All that a task reports which its job's document tells of."""
        metrics = _task_metrics(after_ms, random)
        for edge in self.graph.edges:
            if edge.source == vertex.vertex_id:
                metrics |= _sent(edge.edge_id, after_ms, random)
            elif edge.target == vertex.vertex_id:
                metrics |= _received(edge.edge_id, after_ms, random)
        for operator in vertex.operators:
            metrics |= _operator_metrics(operator.operator_id, after_ms, random)
        return metrics

    def document(self, now: int, status: JobStatusSnapshot, **more: Any) -> dict[str, Any]:
        """Build the next document."""
        return self._live.build(status, self.places, now, dates=WallDates(NOW), **more)

    def running(self, after_ms: int, random: Random) -> dict[str, Any]:
        """Build the document of that long after the start, when all tasks run."""
        return self.document(NOW + after_ms, replace(self.status, tasks=self.tasks(after_ms, random)))


def _task_metrics(after_ms: int, random: Random) -> dict[str, object]:
    rate = 100_000 * random.uniform(0.9, 1.1)
    busy, held = random.uniform(300, 600), random.uniform(0, 90)
    seconds = 3_600 + after_ms / 1000
    return {
        "numRecordsIn": round(100_000 * seconds),
        "numRecordsOut": round(90_000 * seconds),
        "numBytesIn": round(7_400_000 * seconds),
        "numBytesOut": round(6_600_000 * seconds),
        "numRecordsInPerSecond": rate,
        "numRecordsOutPerSecond": rate * 0.9,
        "numBytesInPerSecond": rate * 74.0,
        "numBytesOutPerSecond": rate * 66.0,
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": held,
        "idleTimeMsPerSecond": 1000 - busy - held,
        "accumulateBusyTimeMs": busy * seconds,
        "currentInputWatermark": NOW + after_ms - random.randrange(5_000),
        "currentOutputWatermark": NOW + after_ms - random.randrange(5_000),
    }


def _sent(edge_id: int, after_ms: int, random: Random) -> dict[str, object]:
    rate, seconds = 90_000 * random.uniform(0.9, 1.1), 3_600 + after_ms / 1000
    name = f"{EDGE}{edge_id}."
    return {
        f"{name}numRecordsOut": round(90_000 * seconds),
        f"{name}numRecordsOutPerSecond": rate,
        f"{name}numBytesOutPerSecond": rate * 74.0,
        f"{name}outputQueueLength": random.randrange(8),
        f"{name}outputQueueSize": random.randrange(256_000),
        f"{name}currentOutputWatermark": NOW + after_ms - random.randrange(5_000),
    }


def _received(edge_id: int, after_ms: int, random: Random) -> dict[str, object]:
    name = f"{EDGE}{edge_id}."
    return {
        f"{name}numRecordsIn": round(89_000 * (3_600 + after_ms / 1000)),
        f"{name}inputQueueLength": random.randrange(8),
        f"{name}inputQueueSize": random.randrange(256_000),
    }


def _operator_metrics(operator_id: OperatorId, after_ms: int, random: Random) -> dict[str, object]:
    rate, seconds = 100_000 * random.uniform(0.9, 1.1), 3_600 + after_ms / 1000
    return {
        f"{operator_id}.numRecordsIn": round(100_000 * seconds),
        f"{operator_id}.numRecordsOut": round(90_000 * seconds),
        f"{operator_id}.numRecordsInPerSecond": rate,
        f"{operator_id}.numRecordsOutPerSecond": rate * 0.9,
        f"{operator_id}.currentInputWatermark": NOW + after_ms - random.randrange(5_000),
        f"{operator_id}.currentOutputWatermark": NOW + after_ms - random.randrange(5_000),
    }
