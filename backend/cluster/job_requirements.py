"""Requirements of a job as its row keeps them."""

from __future__ import annotations

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


def requirements_to_json(requirements: Requirements, graph: JobGraph) -> dict[str, Any]:
    """Return requirements as a row keeps them: only those that its parallelisms do not say.

    Args:
        requirements: of all vertices.
        graph: the job, with the parallelisms that it has.
    """
    has = {v.vertex_id: Bounds(v.parallelism, v.parallelism) for v in graph.vertices}
    return {} if requirements == has else {v: [bounds.lower, bounds.upper] for v, bounds in requirements.items()}
