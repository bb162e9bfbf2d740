"""ExecutionGraph: one attempt of a job, unfolded into tasks, slots and regions.

Owns which task runs in which slot and what state each task is in. Pure; used by the JobMaster's machine only.
Source: Flink, ExecutionGraph, SlotSharingStrategy, SchedulingPipelinedRegion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.checkpoint.handles import TaskRestore
from runtime.core.ids import Attempt, OperatorId, SlotId, TaskId, VertexId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.network.partitioners import connected_consumers, connected_producers
from runtime.task.messages import FailureInfo, TaskDeployment, TaskState

_ORDER = {
    state: rank
    for rank, state in enumerate(
        (
            TaskState.CREATED,
            TaskState.SCHEDULED,
            TaskState.DEPLOYING,
            TaskState.INITIALIZING,
            TaskState.RUNNING,
            TaskState.CANCELING,
        )
    )
}


@dataclass(frozen=True, slots=True)
class Region:
    """Tasks that can only run together, and the slots that one barrier stage hosts for them.

    Vertices belong together if records flow between them, or if a shared slot hosts both: a slot is one process, so
    what shares it fails with it.
    """

    index: int
    slots: Sequence[SlotId]
    """Ascending."""
    tasks: Sequence[TaskId]


@dataclass(slots=True)
class ExecutionTask:
    """A task of the attempt."""

    task: TaskId
    name: str
    """ "vertex name (2/4)", as Flink numbers subtasks."""
    slot: SlotId
    state: TaskState = TaskState.CREATED
    failure: FailureInfo | None = None
    metrics: Mapping[str, object] = field(default_factory=dict)
    """Latest that the slot reported."""
    started_ms: float | None = None
    """When it was deployed; None = not yet."""
    ended_ms: float | None = None
    """When it reached a terminal state; None = not yet."""


class ExecutionGraph:
    """The tasks, slots and regions of one attempt of a job.

    Slots are numbered 0..n-1. A slot-sharing group takes as many as its widest vertex has subtasks; subtask i of each
    of its vertices runs in the group's i-th slot. Vertices of different groups share no slot.
    """

    def __init__(self, graph: JobGraph, attempt: Attempt) -> None:
        self.graph = graph
        self.attempt = attempt
        #: monotonic; the time of transitions
        self._vertices = {v.vertex_id: v for v in graph.vertices}
        self._in_edges = {v.vertex_id: graph.in_edges(v.vertex_id) for v in graph.vertices}
        self._out_edges = {v.vertex_id: graph.out_edges(v.vertex_id) for v in graph.vertices}
        components = _components(graph)
        self._first_slot, self.slot_count = _assign_slots(components)
        self.tasks: dict[TaskId, ExecutionTask] = {}
        for vertex in graph.vertices:
            for subtask in range(vertex.parallelism):
                task = TaskId(vertex.vertex_id, subtask)
                name = f"{vertex.name} ({subtask + 1}/{vertex.parallelism})"
                self.tasks[task] = ExecutionTask(task, name, self.slot_of(vertex.vertex_id, subtask))
        self.regions = tuple(self._region(i, vertices) for i, vertices in enumerate(components))
        self._operator_vertex = {op.operator_id: v.vertex_id for v in graph.vertices for op in v.operators}
        self.coordinator_slots: Mapping[OperatorId, SlotId] = {
            v.head.operator_id: self.slot_of(v.vertex_id, 0) for v in graph.vertices if not self._in_edges[v.vertex_id]
        }
        self._by_slot: dict[SlotId, list[ExecutionTask]] = {slot: [] for slot in self.slots}
        for task_ in self.tasks.values():
            self._by_slot[task_.slot].append(task_)
        self._region_of = {slot: region for region in self.regions for slot in region.slots}

    @property
    def slots(self) -> tuple[SlotId, ...]:
        """Return all slot ids, ascending."""
        return tuple(SlotId(i) for i in range(self.slot_count))

    def slot_of(self, vertex_id: VertexId, subtask: int) -> SlotId:
        """Return the slot that hosts a subtask."""
        return SlotId(self._first_slot[self._vertices[vertex_id].slot_sharing_group] + subtask)

    def tasks_in(self, slot: SlotId) -> Sequence[ExecutionTask]:
        """Return the tasks of a slot, in topological order."""
        return self._by_slot[slot]

    def operator_slot(self, operator_id: OperatorId, subtask: int | None) -> SlotId | None:
        """Return the slot of an operator's subtask, or of its coordinator (None); None if there is no such thing."""
        if subtask is None:
            return self.coordinator_slots.get(operator_id)
        vertex_id = self._operator_vertex.get(operator_id)
        if vertex_id is None or not 0 <= subtask < self._vertices[vertex_id].parallelism:
            return None
        return self.slot_of(vertex_id, subtask)

    def transition(self, task: TaskId, state: TaskState, now_ms: float) -> bool:
        """Move a task forward; returns whether that was legal. States may be skipped but never gone back to."""
        current = self.tasks[task]
        if current.state.is_terminal or (not state.is_terminal and _ORDER[state] <= _ORDER[current.state]):
            return False
        current.state = state
        if state is TaskState.DEPLOYING:
            current.started_ms = now_ms
        elif state.is_terminal:
            current.ended_ms = now_ms
        return True

    def all_in(self, states: Collection[TaskState], slots: Iterable[SlotId] | None = None) -> bool:
        """Return whether every task, or every one of these slots, is in one of these states."""
        return all(t.state in states for t in self.tasks_of(slots))

    def tasks_of(self, slots: Iterable[SlotId] | None = None) -> Iterable[ExecutionTask]:
        """Yield the tasks of these slots; None = all."""
        if slots is None:
            return self.tasks.values()
        return [task for slot in slots for task in self._by_slot[slot]]

    def region_of(self, slot: SlotId) -> Region:
        """Return the region that a slot belongs to."""
        return self._region_of[slot]

    def reset(self, slots: Iterable[SlotId]) -> None:
        """Set the tasks of these slots back to CREATED, to run again."""
        for task in self.tasks_of(slots):
            task.state, task.failure, task.metrics = TaskState.CREATED, None, {}
            task.started_ms = task.ended_ms = None

    def deployments(
        self, slot: SlotId, restore: Mapping[TaskId, TaskRestore] | None = None
    ) -> tuple[TaskDeployment, ...]:
        """Return what a slot needs to run its tasks.

        Args:
            slot: which one.
            restore: what each task's operators start from; None = empty.
        """
        return tuple(self._deployment(t.task, (restore or {}).get(t.task)) for t in self._by_slot[slot])

    def _deployment(self, task: TaskId, restore: TaskRestore | None) -> TaskDeployment:
        vertex = self._vertices[task.vertex_id]
        in_edges, out_edges = self._in_edges[task.vertex_id], self._out_edges[task.vertex_id]
        return TaskDeployment(
            task=task,
            vertex=vertex,
            in_edges=in_edges,
            out_edges=out_edges,
            upstream_slots={e.edge_id: self._upstream(e, task.subtask_index) for e in in_edges},
            downstream_slots={e.edge_id: self._downstream(e, task.subtask_index) for e in out_edges},
            downstream_parallelism={e.edge_id: self._vertices[e.target].parallelism for e in out_edges},
            downstream_max_parallelism={e.edge_id: self._vertices[e.target].max_parallelism for e in out_edges},
            restore=restore,
        )

    def _upstream(self, edge: JobEdge, consumer: int) -> dict[int, SlotId]:
        producers, consumers = self._vertices[edge.source].parallelism, self._vertices[edge.target].parallelism
        connected = connected_producers(edge.partitioning, consumer, producers, consumers)
        return {i: self.slot_of(edge.source, i) for i in connected}

    def _downstream(self, edge: JobEdge, producer: int) -> dict[int, SlotId]:
        producers, consumers = self._vertices[edge.source].parallelism, self._vertices[edge.target].parallelism
        connected = connected_consumers(edge.partitioning, producer, producers, consumers)
        return {i: self.slot_of(edge.target, i) for i in connected}

    def _region(self, index: int, vertices: Iterable[JobVertex]) -> Region:
        tasks = [TaskId(v.vertex_id, i) for v in vertices for i in range(v.parallelism)]
        return Region(index, tuple(sorted({self.tasks[task].slot for task in tasks})), tuple(tasks))


def num_slots(graph: JobGraph) -> int:
    """Return how many slots a job needs."""
    return _assign_slots(_components(graph))[1]


def _components(graph: JobGraph) -> list[list[JobVertex]]:
    """Return the vertices, joined by edges and shared slots; components and their members in the graph's order.

    Whole vertices are joined, not subtasks: the subtasks of a source hang together by their coordinator, and every
    other task by its source.
    """
    parent = {v.vertex_id: v.vertex_id for v in graph.vertices}

    def root(vertex_id: VertexId) -> VertexId:
        while parent[vertex_id] != vertex_id:
            vertex_id = parent[vertex_id]
        return vertex_id

    for edge in graph.edges:
        parent[root(edge.target)] = root(edge.source)
    first_of_group: dict[str, VertexId] = {}
    for vertex in graph.vertices:
        first = first_of_group.setdefault(vertex.slot_sharing_group, vertex.vertex_id)
        parent[root(vertex.vertex_id)] = root(first)
    components: dict[VertexId, list[JobVertex]] = {}
    for vertex in graph.vertices:
        components.setdefault(root(vertex.vertex_id), []).append(vertex)
    return list(components.values())


def _assign_slots(components: Iterable[Iterable[JobVertex]]) -> tuple[dict[str, int], int]:
    """Return the first slot of each slot-sharing group, and the number of slots. A region's slots are consecutive."""
    first: dict[str, int] = {}
    count = 0
    for vertices in components:
        widths: dict[str, int] = {}
        for vertex in vertices:
            group = vertex.slot_sharing_group
            widths[group] = max(widths.get(group, 0), vertex.parallelism)
        for group, width in widths.items():
            first[group] = count
            count += width
    return first, count
