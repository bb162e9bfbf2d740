"""Bounds of parallelisms, and what fits a number of slots."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.ids import JobId, VertexId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.execution_graph import num_slots
from runtime.jobmaster.requirements import (
    Bounds,
    Requirements,
    check_requirements,
    default_requirements,
    fitted,
    slots_of,
)
from runtime.jobmaster.rescaling import RescaleError, rescaled

A, B, C = VertexId("a"), VertexId("b"), VertexId("c")


def job(
    vertices: dict[VertexId, tuple[int, str]],
    edges: dict[tuple[VertexId, VertexId], Partitioning] | None = None,
    configuration: dict[str, str] | None = None,
) -> JobGraph:
    """Vertices are given as (max parallelism, slot-sharing group), with parallelism 1."""
    made = [JobVertex(v, v.upper(), 1, most, group, (), ()) for v, (most, group) in vertices.items()]
    joined = [
        JobEdge(i, source, 0, target, 0, how, None, None, Types.LONG(), 100)
        for i, ((source, target), how) in enumerate((edges or {}).items())
    ]
    return JobGraph(JobId("0" * 32), "job", made, joined, configuration or {})


TWO = job({A: (128, "x"), B: (4, "x")})


def test_without_options_a_job_runs_with_its_parallelism_or_waits() -> None:
    graph = rescaled(TWO, {A: 3, B: 2})
    assert default_requirements(graph) == {A: Bounds(3, 3), B: Bounds(2, 2)}


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"jobmanager.scheduler": "adaptive"}, {A: Bounds(1, 3), B: Bounds(1, 2)}),
        ({"jobmanager.scheduler": "Default"}, {A: Bounds(3, 3), B: Bounds(2, 2)}),
        ({"scheduler-mode": "reactive"}, {A: Bounds(1, 128), B: Bounds(1, 4)}),
    ],
)
def test_flinks_options_give_a_job_room(option: dict[str, str], expected: Requirements) -> None:
    assert default_requirements(rescaled(dataclasses.replace(TWO, configuration=option), {A: 3, B: 2})) == expected


@pytest.mark.parametrize(
    ("requirements", "error"),
    [
        ({A: Bounds(1, 2)}, "no vertex b"),
        ({A: Bounds(1, 2), B: Bounds(1, 2), C: Bounds(1, 2)}, "no vertex c"),
        ({A: Bounds(3, 2), B: Bounds(1, 2)}, "A: the lower bound 3 is above the upper bound 2"),
        ({A: Bounds(1, 2), B: Bounds(1, 5)}, "B: the upper bound 5 is not in 1..4, its max parallelism"),
        ({A: Bounds(0, 2), B: Bounds(1, 2)}, "A: the lower bound 0 is not in 1..128"),
    ],
)
def test_requirements_that_no_job_can_have_are_refused(requirements: Requirements, error: str) -> None:
    with pytest.raises(RescaleError, match=error):
        check_requirements(TWO, requirements)


def test_vertices_with_a_forward_edge_between_them_need_a_parallelism_in_common() -> None:
    graph = job({A: (9, "x"), B: (9, "y")}, {(A, B): Partitioning.FORWARD})
    with pytest.raises(RescaleError, match="A and B are joined by forward edges"):
        check_requirements(graph, {A: Bounds(1, 2), B: Bounds(3, 4)})
    requirements = {A: Bounds(1, 4), B: Bounds(2, 9)}
    check_requirements(graph, requirements)
    assert fitted(graph, requirements, 3) is None
    assert fitted(graph, requirements, 7) == {A: 3, B: 3}
    assert fitted(graph, requirements, 99) == {A: 4, B: 4}


def test_a_target_takes_the_place_of_the_upper_bound_and_counts_within_the_bounds() -> None:
    requirements = {A: Bounds(2, 8), B: Bounds(1, 4)}
    assert fitted(TWO, requirements, 99, {A: 5}) == {A: 5, B: 4}
    assert fitted(TWO, requirements, 99, {A: 1, B: 9}) == {A: 2, B: 4}
    assert fitted(TWO, requirements, 3, {A: 5, B: 2}) == {A: 3, B: 2}


def test_groups_that_lack_most_are_served_first() -> None:
    graph = job({A: (99, "x"), B: (99, "y")})
    requirements = {A: Bounds(1, 4), B: Bounds(1, 8)}
    assert fitted(graph, requirements, 2) == {A: 1, B: 1}
    assert fitted(graph, requirements, 3) == {A: 1, B: 2}
    assert fitted(graph, requirements, 6) == {A: 2, B: 4}


@st.composite
def cases(draw: st.DrawFn) -> tuple[JobGraph, Requirements, dict[VertexId, int]]:
    ids = [VertexId(name) for name in "abcde"[: draw(st.integers(1, 5))]]
    graph = job(
        {v: (draw(st.integers(1, 9)), draw(st.sampled_from("xyz"))) for v in ids},
        {
            (a, b): draw(st.sampled_from([Partitioning.FORWARD, Partitioning.KEY_GROUP]))
            for a, b in itertools.pairwise(ids)
        },
    )
    requirements = {}
    for vertex in graph.vertices:
        lower, upper = sorted(
            (draw(st.integers(1, vertex.max_parallelism)), draw(st.integers(1, vertex.max_parallelism)))
        )
        requirements[vertex.vertex_id] = Bounds(lower, upper)
    return graph, requirements, draw(st.dictionaries(st.sampled_from(ids), st.integers(1, 12)))


@given(cases(), st.integers(0, 60))
def test_what_fits_is_in_the_bounds_and_has_slots_and_grows_with_them(
    case: tuple[JobGraph, Requirements, dict[VertexId, int]], slots: int
) -> None:
    graph, requirements, target = case
    try:
        check_requirements(graph, requirements)
    except RescaleError:
        return
    found = fitted(graph, requirements, slots, target)
    more = fitted(graph, requirements, slots + 1, target)
    if found is None:
        return
    assert more is not None and all(more[v] >= found[v] for v in found)
    for vertex, bounds in requirements.items():
        assert bounds.lower <= found[vertex] <= bounds.upper
    # the job can run like this, and in these slots
    assert num_slots(rescaled(graph, found)) == slots_of(graph, found) <= slots
