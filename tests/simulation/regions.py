"""The job of the simulation twice in one job, in slots of its own each: two regions that must not disturb each other.

What holds for the job alone holds for either of them. Faults strike whoever comes by; when it is a slot or a function,
one region restarts and the other one goes on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from runtime.core.ids import OperatorId, VertexId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.operators.two_phase_commit import TransactionId
from tests.simulation.damage import Output
from tests.simulation.scenario import Scenario, scenario_of
from tests.simulation.simulate import Verdict, judge_rows, judge_state, run, verdict_of
from tests.simulation.workload import job
from tests.simulation.world import World

_EDGE_IDS = 1_000
_OTHER = "other-"
_REGION_BEGINS = re.compile(r"attempt \d+ begins with 1 of 2 regions")
_ALL_BEGIN = re.compile(r"attempt \d+ begins$")


def region_scenario_of(seed: int, backend: str = "hashmap") -> Scenario:
    """The scenario of a seed, so that twice the work takes the same time: all slots share one simulated CPU."""
    scenario = scenario_of(seed, backend)
    # rows in files do not say which region they are of
    return replace(scenario, writes_files=False, record_ms=scenario.record_ms / 2, max_turns=2 * scenario.max_turns)


def simulate_regions(
    scenario: Scenario, trace: Callable[[str], None] | None = None, watch: Callable[[World], None] | None = None
) -> Verdict:
    """Run a scenario with two regions; arguments as those of `simulate`."""
    world = World(scenario, trace)
    world.watch = watch or world.watch
    graph = job(scenario, str(world.directory))
    world.graph = twice(graph)
    run(world)
    expected, wrong = judge_rows(world, partial(_rows_of, world, graph.vertices))
    others = world.graph.vertices[len(graph.vertices) :]
    _, wrong_in_other = judge_rows(world, partial(_rows_of, world, others), _OTHER)
    return verdict_of(world, [*wrong, *wrong_in_other, *judge_state(world, expected)])


def num_restarts_alone(verdict: Verdict) -> int:
    """Return how often a region was restarted alone."""
    return sum(_REGION_BEGINS.search(line) is not None for line in verdict.world.story)


def num_starts_of_all(verdict: Verdict) -> int:
    """Return how often all regions were started together, the first time included."""
    return sum(_ALL_BEGIN.search(line) is not None for line in verdict.world.story)


def twice(graph: JobGraph) -> JobGraph:
    """The graph, and beside it another one like it."""
    vertices = (*graph.vertices, *map(_other_vertex, graph.vertices))
    return replace(graph, vertices=vertices, edges=(*graph.edges, *map(_other_edge, graph.edges)))


def _other_vertex(vertex: JobVertex) -> JobVertex:
    return replace(
        vertex,
        vertex_id=VertexId(_other_id(vertex.vertex_id)),
        name=f"other {vertex.name}",
        slot_sharing_group=f"other {vertex.slot_sharing_group}",
        operators=tuple(
            replace(operator, operator_id=OperatorId(_other_id(operator.operator_id)), uid=f"{_OTHER}{operator.uid}")
            for operator in vertex.operators
        ),
    )


def _other_edge(edge: JobEdge) -> JobEdge:
    source, target = VertexId(_other_id(edge.source)), VertexId(_other_id(edge.target))
    return replace(edge, edge_id=_EDGE_IDS + edge.edge_id, source=source, target=target)


def _other_id(known: str) -> str:
    return hashlib.md5(f"other {known}".encode(), usedforsecurity=False).hexdigest()


def _rows_of(world: World, vertices: Sequence[JobVertex], apart_from: Sequence[Output]) -> list[Any]:
    """Return the visible rows of the sinks among these vertices, except some."""
    operators = {operator.operator_id for vertex in vertices for operator in vertex.operators}
    left_out = {transaction for output in apart_from for transaction in output.transactions}
    rows: list[Any] = []
    for name, of_transaction in world.database.committed.items():
        transaction = TransactionId.parse(name)
        if transaction is not None and transaction.operator_id in operators and name not in left_out:
            rows += of_transaction
    return rows
