"""Requirements of a job as its row keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backend.cluster.models import Job
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.requirements import Bounds, Requirements


def requirements_of(job: Job, graph: JobGraph) -> Requirements:
    """Return the requirements of all vertices of a job.

    Args:
        job: its row.
        graph: its graph, with the parallelisms that it has.
    """
    given = {VertexId(vertex): Bounds(*bounds) for vertex, bounds in job.requirements.items()}
    return {v.vertex_id: given.get(v.vertex_id, Bounds(v.parallelism, v.parallelism)) for v in graph.vertices}


def requirements_to_json(requirements: Requirements, graph: JobGraph, *, is_bound: bool = False) -> dict[str, Any]:
    """Return requirements as a row keeps them: only those that its parallelisms do not say.

    Args:
        requirements: of all vertices.
        graph: the job, with the parallelisms that it has.
        is_bound: whether a user has given both bounds: they are kept even if its parallelisms say the same.
    """
    has = {v.vertex_id: Bounds(v.parallelism, v.parallelism) for v in graph.vertices}
    return (
        {}
        if requirements == has and not is_bound
        else {v: [bounds.lower, bounds.upper] for v, bounds in requirements.items()}
    )


def changed(requirements: Requirements, given: Mapping[str, Any]) -> Requirements:
    """Return requirements as a RESCALE operation changes them.

    Where it has no lower bound, the one before stays, and that of a vertex without room is its new upper bound.

    Args:
        requirements: of all vertices.
        given: {"parallelism", "lower"} of the vertices that change: the upper and the lower bound.
    """
    lower: Mapping[str, int] = given.get("lower", {})
    result = dict(requirements)
    for name, upper in given["parallelism"].items():
        vertex, new = VertexId(name), int(upper)
        before = requirements.get(vertex, Bounds(new, new))
        least = new if before.lower == before.upper else min(before.lower, new)
        result[vertex] = Bounds(int(lower.get(name, least)), new)
    return result
