"""TaskFigures: what the tasks of a job have reported, as the figures that its diagnosis rests on. Pure.

One sample is one moment of a job. Times are milliseconds per second unless their names say otherwise, and rates are
per second, as in docs/metrics.md; what a task has not reported is 0, or None where that would mean something else.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.checkpoint.statistics import CheckpointStatus
from runtime.core.checkpoint_options import Alignment
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot
from runtime.task.messages import TaskState


class SplitFigures(NamedTuple):
    """A split that is being read."""

    watermark: int
    idle: float = 0.0
    is_waiting: bool = False
    """Whether its last read has found nothing."""


@dataclass(frozen=True, slots=True)
class SubtaskFigures:
    """A running subtask."""

    index: int
    busy: float = 0.0
    running: float = 0.0
    """Part of `busy` in which the task itself ran; during the rest it waited for its slot's loop."""
    idle: float = 0.0
    back_pressured: float = 0.0
    outside: float = 0.0
    """Part of `back_pressured` in which there was room for output."""
    sending: float = 0.0
    """Part of `running` that writes and commits of sinks took."""
    records_in: float = 0.0
    """Of a source: records read."""
    late: float = 0.0
    """Records dropped as late."""
    pending: int | None = None
    """Of a source: records that are not read yet; None: unknown."""
    resident_bytes: int | None = None
    available_bytes: int | None = None
    """By which its process can grow."""
    memory_limit_bytes: int | None = None
    """Of all processes there together: of the container, or what the host has."""
    input_watermark: int = MIN_WATERMARK
    output_watermark: int = MIN_WATERMARK
    is_watermark_idle: bool = False
    source_idle_ms: float = 0.0
    """For how long there has been nothing to read."""
    event_time_lag_ms: float | None = None
    """Of a source: time at which its last record was emitted − that record's event time; None: it has none."""
    splits: Mapping[str, SplitFigures] = field(default_factory=dict)
    """Of a source that reads several at once, by id."""

    @property
    def held(self) -> float:
        """Back-pressured time in which there was no room for output."""
        return max(0.0, self.back_pressured - self.outside)


@dataclass(frozen=True, slots=True)
class VertexFigures:
    """A vertex with its running subtasks, by index; those that have finished are left out."""

    vertex_id: VertexId
    name: str
    inputs: Sequence[VertexId]
    """By input of its head."""
    subtasks: Sequence[SubtaskFigures]
    received: Mapping[int, int] = field(default_factory=dict)
    """Records since the start of each subtask, by index; those that have finished are in it."""

    @property
    def is_source(self) -> bool:
        return not self.inputs


@dataclass(frozen=True, slots=True)
class StalledTask:
    """A call that has not returned."""

    vertex_id: VertexId
    subtask: int
    since_ms: float


@dataclass(frozen=True, slots=True)
class JobFigures:
    """A job at one moment."""

    at_ms: float
    """Monotonic."""
    vertices: Sequence[VertexFigures]
    """Sources first; only those with running subtasks."""
    generation: Hashable = None
    """Another one after any task was restarted."""
    is_running: bool = True
    """Whether every task runs or has finished; else nothing can be measured."""
    stalls: Sequence[StalledTask] = ()
    checkpoint: tuple[int, float] | None = None
    """Number of the oldest aligned checkpoint in progress, and for how many ms it has been; None: there is none."""
    unacknowledged: Collection[VertexId] = ()
    """Vertices with subtasks that have not acknowledged it."""


class FigureReader:
    """Reads figures out of a job's status.

    Args:
        graph: the job; its parallelisms do not matter.
    """

    def __init__(self, graph: JobGraph) -> None:
        self._vertices = graph.vertices
        self._inputs = {
            v.vertex_id: [edge.source for edge in sorted(graph.in_edges(v.vertex_id), key=lambda e: e.input_index)]
            for v in graph.vertices
        }

    def read(self, status: JobStatusSnapshot, at_ms: float, wall_ms: float) -> JobFigures:
        """Return the figures of this moment.

        Args:
            status: of the job; metrics of operators by their ids.
            at_ms: monotonic time.
            wall_ms: wall-clock time, epoch ms.
        """
        by_vertex: dict[VertexId, list[TaskSnapshot]] = {}
        for task in status.tasks:
            by_vertex.setdefault(task.task.vertex_id, []).append(task)
        started = [
            c
            for c in status.checkpoints.history
            if c.status is CheckpointStatus.IN_PROGRESS and c.options.alignment is Alignment.ALIGNED
        ]
        oldest = min(started, key=lambda c: c.trigger_timestamp_ms, default=None)
        return JobFigures(
            at_ms,
            [v for vertex in self._vertices if (v := self._vertex(vertex, by_vertex)).subtasks],
            tuple((task.task, task.attempt) for task in status.tasks),
            status.state is JobState.RUNNING
            and bool(status.tasks)
            and all(task.state in (TaskState.RUNNING, TaskState.FINISHED) for task in status.tasks),
            [
                StalledTask(stall.task.vertex_id, stall.task.subtask_index, stall.since_ms)
                for stall in status.stalls
                if stall.task is not None
            ],
            None if oldest is None else (int(oldest.checkpoint_id), wall_ms - oldest.trigger_timestamp_ms),
            ()
            if oldest is None
            else {v.vertex_id for v in oldest.vertices.values() if len(v.subtasks) < v.parallelism},
        )

    def _vertex(self, vertex: JobVertex, by_vertex: Mapping[VertexId, Sequence[TaskSnapshot]]) -> VertexFigures:
        vertex_id = vertex.vertex_id
        operators = [operator.operator_id for operator in vertex.operators]
        running = [
            _subtask(task, operators, is_source=not self._inputs[vertex_id])
            for task in sorted(by_vertex.get(vertex_id, ()), key=lambda task: task.task.subtask_index)
            # a task that has not reported says nothing about itself
            if task.state is TaskState.RUNNING and "busyTimeMsPerSecond" in task.metrics
        ]
        received = {
            task.task.subtask_index: count
            for task in by_vertex.get(vertex_id, ())
            if task.state in (TaskState.RUNNING, TaskState.FINISHED)
            and (count := _whole(task.metrics.get("numRecordsIn"))) is not None
        }
        return VertexFigures(vertex_id, vertex.name, self._inputs[vertex_id], running, received)


def _subtask(task: TaskSnapshot, operators: Sequence[str], is_source: bool) -> SubtaskFigures:
    metrics = task.metrics
    head = operators[0]

    def added_up(name: str) -> float:
        return sum(number_of(metrics.get(f"{operator}.{name}")) or 0.0 for operator in operators)

    busy = number_of(metrics["busyTimeMsPerSecond"]) or 0.0
    running = number_of(metrics.get("runningTimeMsPerSecond"))
    running = busy if running is None else min(busy, running)
    return SubtaskFigures(
        index=task.task.subtask_index,
        busy=busy,
        running=running,
        idle=number_of(metrics.get("idleTimeMsPerSecond")) or 0.0,
        back_pressured=number_of(metrics.get("backPressuredTimeMsPerSecond")) or 0.0,
        outside=number_of(metrics.get("outsideTimeMsPerSecond")) or 0.0,
        sending=min(running, added_up("totalSendTimePerSecond")),
        records_in=number_of(metrics.get("numRecordsInPerSecond")) or 0.0,
        late=added_up("lateRecordsDroppedRate"),
        # elsewhere it is a user's metric of that name
        pending=_whole(metrics.get(f"{head}.pendingRecords")) if is_source else None,
        resident_bytes=_whole(metrics.get("Status.Process.Memory.Resident")),
        available_bytes=_whole(metrics.get("Status.Process.Memory.Available")),
        memory_limit_bytes=_whole(metrics.get("Status.Process.Memory.Limit")),
        input_watermark=_watermark(metrics.get("currentInputWatermark")),
        output_watermark=_watermark(metrics.get("currentOutputWatermark")),
        is_watermark_idle=metrics.get("isWatermarkIdle") is True,
        source_idle_ms=number_of(metrics.get(f"{head}.sourceIdleTime")) or 0.0,
        event_time_lag_ms=number_of(metrics.get(f"{head}.currentEmitEventTimeLag")),
        splits=_splits(metrics, f"{head}.split.") if is_source else {},
    )


_SPLIT_WATERMARK = ".watermark.currentWatermark"
_LARGEST = 1e18
"""Larger values are no measurements; sums and products of these stay finite."""


def _splits(metrics: Mapping[str, object], prefix: str) -> dict[str, SplitFigures]:
    found: dict[str, SplitFigures] = {}
    for name, value in metrics.items():
        if name.startswith(prefix) and name.endswith(_SPLIT_WATERMARK):
            split = name.removeprefix(prefix).removesuffix(_SPLIT_WATERMARK)
            idle = number_of(metrics.get(f"{prefix}{split}.watermark.idleTimeMsPerSecond")) or 0.0
            found[split] = SplitFigures(_watermark(value), idle, metrics.get(f"{prefix}{split}.isWaiting") is True)
    return found


def number_of(value: object) -> float | None:
    """Return a metric's value; None for what is no number, NaN and infinity: some metrics are users' gauges."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def _whole(value: object) -> int | None:
    number = number_of(value)
    return None if number is None else int(number)


def _watermark(value: object) -> int:
    return max(MIN_WATERMARK, min(MAX_WATERMARK, value)) if isinstance(value, int) else MIN_WATERMARK
