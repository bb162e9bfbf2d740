"""Requirements: between which bounds the parallelism of each vertex may be, and what fits a number of slots. Pure.

Every job has them. A job whose bounds are equal runs with that parallelism, or waits; one with room between them takes
what slots there are.

For an autoscaler: it leaves the bounds alone and says a *target*, the parallelism that each vertex should have by its
load. `fitted` takes the target in place of the upper bounds; beyond the bounds it counts as the nearest of them, and
vertices that are not named have their upper bound as target. On a cluster `JobScaling.target` (of a runner's `scaling`)
is where to put it: the scheduler of elastic jobs (`backend.cluster.elasticity`) takes it up at its next poll, and
decides when the job is rescaled. None, the default, is no autoscaler.

Source: Flink, JobResourceRequirements, JobVertexResourceRequirements, SlotSharingSlotAllocator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.rescaling import RescaleError


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a vertex's parallelism."""

    lower: int
    """At least 1."""
    upper: int
    """At least `lower`, at most the vertex's max parallelism."""


Requirements = Mapping[VertexId, Bounds]
Parallelism = Mapping[VertexId, int]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Vertices that must have the same parallelism."""

    vertices: Sequence[VertexId]
    groups: Sequence[str]
    """The slot-sharing groups that they are in."""
    least: int
    most: int


def default_requirements(graph: JobGraph) -> Requirements:
    """Return the requirements of a job that is submitted without any, as its scheduler's name says.

    Args:
        graph: the job, with the parallelisms of its program.

    Raises:
        ConfigurationError: the option cannot be read.
    """
    configuration = Configuration.from_dict(graph.configuration)
    if configuration.get(options.SCHEDULER_MODE) == "reactive":
        return {v.vertex_id: Bounds(1, v.max_parallelism) for v in graph.vertices}
    is_adaptive = configuration.get(options.SCHEDULER) == "adaptive"
    return {v.vertex_id: Bounds(1 if is_adaptive else v.parallelism, v.parallelism) for v in graph.vertices}


def check_requirements(graph: JobGraph, requirements: Requirements) -> None:
    """Check that a job can run within its requirements.

    Args:
        graph: the job.
        requirements: of all its vertices.

    Raises:
        RescaleError: a vertex is missing or unknown; a bound is outside of 1..max parallelism; a lower bound is above
            the upper one; a forward edge joins vertices with no parallelism in common.
    """
    known = {v.vertex_id for v in graph.vertices}
    unknown = sorted(set(requirements) ^ known)
    if unknown:
        raise RescaleError(f"the job has no vertex {', '.join(unknown)}")
    for vertex in graph.vertices:
        bounds = requirements[vertex.vertex_id]
        if bounds.lower > bounds.upper:
            raise RescaleError(f"{vertex.name}: the lower bound {bounds.lower} is above the upper bound {bounds.upper}")
        for name, bound in (("the lower bound", bounds.lower), ("the upper bound", bounds.upper)):
            if not 1 <= bound <= vertex.max_parallelism:
                limits = f"1..{vertex.max_parallelism}, its max parallelism"
                raise RescaleError(f"{vertex.name}: {name} {bound} is not in {limits}")
    for unit in _units(graph, requirements, {}):
        if unit.least > unit.most:
            names = " and ".join(graph.vertex(v).name for v in unit.vertices)
            raise RescaleError(
                f"{names} are joined by forward edges and must have the same parallelism: "
                f"no value is within the bounds of all of them"
            )


def fitted(
    graph: JobGraph, requirements: Requirements, slots: int, target: Parallelism | None = None
) -> Parallelism | None:
    """Return the parallelisms nearest to the target for which there are slots; None: too few for the lower bounds.

    Slot-sharing groups that lack the largest part of what they want are served first. With more slots no vertex gets
    less.

    Args:
        graph: the job; its parallelisms do not matter.
        requirements: checked, of all vertices.
        slots: how many the job can have in all.
        target: the parallelisms to aim at; None = the upper bounds.
    """
    units = _units(graph, requirements, target or {})
    widths = _widths((group, unit.least) for unit in units for group in unit.groups)
    most = _widths((group, unit.most) for unit in units for group in unit.groups)
    spare = slots - sum(widths.values())
    if spare < 0:
        return None
    if slots >= sum(most.values()):
        widths = most
    while spare > 0:
        lacking = [group for group, width in widths.items() if width < most[group]]
        if not lacking:
            break
        # ties go to the group that comes first in the graph
        widths[min(lacking, key=lambda group: widths[group] / most[group])] += 1
        spare -= 1
    return {v: min(unit.most, *(widths[group] for group in unit.groups)) for unit in units for v in unit.vertices}


def least_slots(graph: JobGraph, requirements: Requirements) -> int:
    """Return how many slots a job needs for its lower bounds."""
    units = _units(graph, requirements, {})
    return sum(_widths((group, unit.least) for unit in units for group in unit.groups).values())


def slots_of(graph: JobGraph, parallelism: Parallelism) -> int:
    """Return how many slots a job needs with these parallelisms, of all its vertices."""
    return sum(_widths((v.slot_sharing_group, parallelism[v.vertex_id]) for v in graph.vertices).values())


def _widths(found: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the largest number that was found of each slot-sharing group."""
    widths: dict[str, int] = {}
    for group, width in found:
        widths[group] = max(widths.get(group, 0), width)
    return widths


def _units(graph: JobGraph, requirements: Requirements, target: Parallelism) -> list[_Unit]:
    units = []
    for vertices in tied(graph):
        bounds = [requirements[v.vertex_id] for v in vertices]
        least, upper = max(b.lower for b in bounds), min(b.upper for b in bounds)
        wanted = min(target.get(v.vertex_id, b.upper) for v, b in zip(vertices, bounds, strict=True))
        most = upper if upper < least else max(least, min(upper, wanted))
        groups = tuple(dict.fromkeys(v.slot_sharing_group for v in vertices))
        units.append(_Unit(tuple(v.vertex_id for v in vertices), groups, least, most))
    return units


def tied(graph: JobGraph) -> Iterable[Sequence[JobVertex]]:
    """Return the vertices, together where forward edges join them, in the graph's order."""
    unit_of = {v.vertex_id: [v] for v in graph.vertices}
    for edge in graph.edges:
        source, target = unit_of[edge.source], unit_of[edge.target]
        if edge.partitioning is Partitioning.FORWARD and source is not target:
            source += target
            unit_of |= {v.vertex_id: source for v in target}
    return {id(unit): unit for unit in unit_of.values()}.values()
