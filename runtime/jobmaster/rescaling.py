"""Other parallelisms for a running job: the same graph, its chains and uids unchanged. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.execution_graph import num_slots


class RescaleError(Exception):
    """A job cannot run with the parallelisms asked for."""


def rescaled(graph: JobGraph, parallelism: Mapping[VertexId, int], max_slots: int | None = None) -> JobGraph:
    """Return the graph with other parallelisms; max parallelisms, and with them the key groups, stay.

    Args:
        graph: the job.
        parallelism: of the vertices that are to change.
        max_slots: how many slots there can be at most, where that is known.

    Raises:
        RescaleError: there is no such vertex; a parallelism is outside of 1..max parallelism; a forward edge would join
            unequal ones; the job would need more slots than there can be.
    """
    known = {v.vertex_id for v in graph.vertices}
    unknown = sorted(set(parallelism) - known)
    if unknown:
        raise RescaleError(f"the job has no vertex {', '.join(unknown)}")
    for vertex in graph.vertices:
        wanted = parallelism.get(vertex.vertex_id, vertex.parallelism)
        if not 1 <= wanted <= vertex.max_parallelism:
            raise RescaleError(
                f"{vertex.name}: parallelism {wanted} is not in 1..{vertex.max_parallelism}, its max parallelism"
            )
    vertices = tuple(replace(v, parallelism=parallelism.get(v.vertex_id, v.parallelism)) for v in graph.vertices)
    by_id = {v.vertex_id: v for v in vertices}
    for edge in graph.edges:
        source, target = by_id[edge.source], by_id[edge.target]
        if edge.partitioning is Partitioning.FORWARD and source.parallelism != target.parallelism:
            raise RescaleError(
                f"{source.name} and {target.name} are joined by a forward edge and must have the same parallelism, "
                f"not {source.parallelism} and {target.parallelism}"
            )
    result = replace(graph, vertices=vertices)
    needed = 0 if max_slots is None else num_slots(result)
    if max_slots is not None and needed > max_slots:
        raise RescaleError(f"the job would need {needed} slots, and there are {max_slots}")
    return result
