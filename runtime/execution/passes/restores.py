"""What the tasks of the next pass restore: the snapshot behind the last one, assigned as after a failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.checkpoint.assignment import assign_state
from runtime.checkpoint.handles import (
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    TaskRestore,
    TaskStateHandle,
)
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId, TaskId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.task.messages import TaskDeployment


def graph_of(job_id: JobId, deployments: Sequence[TaskDeployment]) -> JobGraph:
    """Return the job of which these are all tasks, in topological order."""
    vertices: dict[str, JobVertex] = {}
    edges: dict[int, JobEdge] = {}
    for deployment in deployments:
        vertices[deployment.vertex.vertex_id] = deployment.vertex
        edges |= {edge.edge_id: edge for edge in (*deployment.in_edges, *deployment.out_edges)}
    return JobGraph(job_id, "", tuple(vertices.values()), tuple(edges.values()), {})


def restores_of(
    graph: JobGraph,
    checkpoint_id: CheckpointId,
    timestamp_ms: int,
    options: CheckpointOptions,
    states: Mapping[TaskId, TaskStateHandle],
) -> Mapping[TaskId, TaskRestore]:
    """Return what every task restores.

    Args:
        graph: the job.
        checkpoint_id, timestamp_ms, options: of the snapshot.
        states: what each task has acknowledged.
    """
    operators: list[OperatorState] = []
    for vertex in graph.vertices:
        parts = [states[TaskId(vertex.vertex_id, index)] for index in range(vertex.parallelism)]
        finished = frozenset(index for index, part in enumerate(parts) if part.is_finished)
        operators += [
            OperatorState(
                operator_id=operator.operator_id,
                uid=operator.uid,
                name=operator.name,
                parallelism=vertex.parallelism,
                max_parallelism=vertex.max_parallelism,
                subtasks=tuple(part.operators.get(operator.operator_id, OperatorSubtaskState()) for part in parts),
                finished=finished,
                key_type=operator.key_type,
                window_type=operator.window_type,
            )
            for operator in vertex.operators
        ]
    metadata = CheckpointMetadata(graph.job_id, checkpoint_id, timestamp_ms, options, tuple(operators))
    return assign_state(metadata, graph).tasks
