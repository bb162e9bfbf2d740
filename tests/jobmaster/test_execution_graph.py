from __future__ import annotations

import pytest

from runtime.core.ids import Attempt, JobId, SlotId, TaskId
from runtime.graph.chaining import create_job_graph
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from runtime.jobmaster.execution_graph import ExecutionGraph
from runtime.task.messages import TaskState
from tests.jobmaster.simulation import keyed_job


def execution(
    nodes: list[tuple[str, int, str | None]], edges: list[tuple[int, int, Partitioning | None]]
) -> ExecutionGraph:
    """Nodes are (name, parallelism, slot-sharing group); those that no edge leads to are sources."""
    graph = StreamGraph("job", {}, buffer_timeout_ms=100, chaining_enabled=False)
    targets = {target for _, target, _ in edges}
    for i, (name, parallelism, group) in enumerate(nodes):
        graph.nodes[i] = StreamNode(i, name, None, parallelism, slot_sharing_group=group, is_source=i not in targets)
    graph.edges = [StreamEdge(source, target, how, partitioner=abs) for source, target, how in edges]
    return ExecutionGraph(create_job_graph(graph, JobId("0" * 32)), Attempt(3))


def layout(graph: ExecutionGraph) -> dict[str, int]:
    return {t.name: t.slot for t in graph.tasks.values()}


def test_subtasks_of_a_group_share_slots() -> None:
    graph = execution([("a", 2, None), ("b", 3, None)], [(0, 1, Partitioning.REBALANCE)])
    assert layout(graph) == {
        "Source: a (1/2)": 0,
        "Source: a (2/2)": 1,
        "b (1/3)": 0,
        "b (2/3)": 1,
        "b (3/3)": 2,
    }
    assert graph.slots == (0, 1, 2)
    assert [t.name for t in graph.tasks_in(SlotId(1))] == ["Source: a (2/2)", "b (2/3)"]


def test_groups_have_slots_of_their_own_in_one_region_if_records_flow_between_them() -> None:
    graph = execution([("a", 2, None), ("b", 2, "heavy")], [(0, 1, None)])
    assert layout(graph) == {"Source: a (1/2)": 0, "Source: a (2/2)": 1, "b (1/2)": 2, "b (2/2)": 3}
    (region,) = graph.regions
    assert (region.slots, len(region.tasks)) == ((0, 1, 2, 3), 4)


def test_pipelines_apart_are_regions_apart() -> None:
    nodes: list[tuple[str, int, str | None]] = [("a", 1, "x"), ("b", 2, "y"), ("c", 1, None), ("d", 2, None)]
    graph = execution(nodes, [(0, 2, Partitioning.KEY_GROUP), (1, 3, Partitioning.KEY_GROUP)])
    # c inherits x, d inherits y
    assert [(r.index, r.slots) for r in graph.regions] == [(0, (0,)), (1, (1, 2))]
    assert [{t.vertex_id for t in r.tasks} for r in graph.regions] == [
        {graph.graph.vertices[0].vertex_id, graph.graph.vertices[2].vertex_id},
        {graph.graph.vertices[1].vertex_id, graph.graph.vertices[3].vertex_id},
    ]


def test_pipelines_that_share_slots_are_one_region() -> None:
    graph = execution([("a", 1, None), ("b", 2, None)], [])
    assert [r.slots for r in graph.regions] == [(0, 1)]
    assert graph.slots == (0, 1)


def test_the_coordinator_of_a_source_is_in_the_slot_of_its_first_subtask() -> None:
    graph = execution([("a", 1, None), ("b", 2, "heavy")], [])
    a, b = graph.graph.vertices
    assert graph.coordinator_slots == {a.head.operator_id: 0, b.head.operator_id: 1}
    assert graph.operator_slot(b.head.operator_id, None) == 1
    assert graph.operator_slot(b.head.operator_id, 1) == 2
    assert graph.operator_slot(b.head.operator_id, 2) is None


@pytest.mark.parametrize(
    ("how", "producers", "consumers", "downstream"),
    [
        (Partitioning.KEY_GROUP, 2, 2, [{0: 2, 1: 3}, {0: 2, 1: 3}]),
        (Partitioning.FORWARD, 2, 2, [{0: 2}, {1: 3}]),
        (Partitioning.RESCALE, 2, 4, [{0: 2, 1: 3}, {2: 4, 3: 5}]),
        (Partitioning.RESCALE, 4, 2, [{0: 4}, {0: 4}, {1: 5}, {1: 5}]),
    ],
)
def test_deployments_connect_what_the_partitioning_connects(
    how: Partitioning, producers: int, consumers: int, downstream: list[dict[int, int]]
) -> None:
    graph = execution([("a", producers, None), ("b", consumers, "heavy")], [(0, 1, how)])
    deployments = {d.task: d for slot in graph.slots for d in graph.deployments(slot)}
    assert deployments.keys() == graph.tasks.keys()
    a, b = (v.vertex_id for v in graph.graph.vertices)
    assert [deployments[TaskId(a, i)].downstream_slots[0] for i in range(producers)] == downstream
    there = {(i, j) for i in range(producers) for j in deployments[TaskId(a, i)].downstream_slots[0]}
    back = {(i, j) for j in range(consumers) for i in deployments[TaskId(b, j)].upstream_slots[0]}
    assert there == back
    first = deployments[TaskId(a, 0)]
    assert (first.downstream_parallelism, first.downstream_max_parallelism) == ({0: consumers}, {0: 128})
    assert (first.in_edges, len(first.out_edges), first.upstream_slots) == ([], 1, {})


def test_states_go_forward_only() -> None:
    graph = ExecutionGraph(keyed_job(1), Attempt(0))
    task = next(iter(graph.tasks))
    assert graph.transition(task, TaskState.DEPLOYING, 0)
    assert not graph.transition(task, TaskState.SCHEDULED, 0)
    assert not graph.transition(task, TaskState.DEPLOYING, 0)
    assert graph.transition(task, TaskState.FINISHED, 0)
    assert not graph.transition(task, TaskState.FAILED, 0)
    assert not graph.all_in((TaskState.FINISHED,))
