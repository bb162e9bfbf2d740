"""JobGraphs survive JSON, and nothing that is not one passes for one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.ids import JobId, VertexId, operator_id_of
from runtime.graph.codec import GraphFormatError, job_graph_from_json, job_graph_to_json
from runtime.graph.job_graph import ChainEdge, ChainedOperator, JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.state.state_meta import DeclaredStates, StateMeta, StatePart
from tests.graph.programs import Program, edge

TEXTS = st.text(max_size=12)
TYPES: st.SearchStrategy[TypeInformation | None] = st.sampled_from(
    [
        None,
        Types.LONG(),
        Types.PICKLED_BYTE_ARRAY(),
        Types.ROW_NAMED(['a "b"', "ü, c"], [Types.STRING(), Types.LIST(Types.DOUBLE())]),
        Types.TUPLE([Types.MAP(Types.STRING(), Types.BIG_DEC()), Types.INSTANT(), Types.SQL_DATE()]),
    ]
)
TAGS = st.none() | TEXTS


@st.composite
def job_graphs(draw: st.DrawFn) -> JobGraph:
    """Small graphs: their parts refer to each other rightly, but need not make a job that runs."""
    vertices = [draw(job_vertices(f"v{index}")) for index in range(draw(st.integers(1, 3)))]
    ends = st.sampled_from(vertices)
    edges = []
    for edge_id in range(draw(st.integers(0, 3))):
        source, target = draw(ends), draw(ends)
        edges.append(
            JobEdge(
                edge_id=edge_id,
                source=source.vertex_id,
                source_operator=draw(st.integers(0, len(source.operators) - 1)),
                target=target.vertex_id,
                input_index=draw(st.integers(0, 2)),
                partitioning=draw(st.sampled_from(Partitioning)),
                partitioner=draw(st.none() | st.binary(max_size=8)),
                side_output_tag=draw(TAGS),
                record_type=draw(TYPES),
                buffer_timeout_ms=draw(st.integers(-1, 1000)),
            )
        )
    options = st.dictionaries(TEXTS, TEXTS, max_size=3)
    job_id = JobId(draw(st.binary(min_size=16, max_size=16)).hex())
    secrets = draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=2))
    return JobGraph(job_id, draw(TEXTS), tuple(vertices), tuple(edges), draw(options), draw(options), tuple(secrets))


METAS = st.builds(StateMeta, TEXTS, TEXTS, TEXTS, st.booleans(), st.booleans())
STATES = st.none() | st.builds(DeclaredStates, st.lists(METAS, max_size=2).map(tuple), st.booleans())


@st.composite
def job_vertices(draw: st.DrawFn, uid: str) -> JobVertex:
    operators = tuple(
        ChainedOperator(
            operator_id=operator_id_of(f"{uid}.{index}"),
            uid=draw(TEXTS),
            name=draw(TEXTS),
            description=draw(TEXTS),
            factory=draw(st.binary(max_size=20)),
            output_type=draw(TYPES),
            key_type=draw(TEXTS),
            window_type=draw(TEXTS),
            state_content=draw(TEXTS),
            state_parts=draw(st.lists(st.builds(StatePart, TEXTS, TEXTS), max_size=2).map(tuple)),
            declared_states=draw(STATES),
            defined_at=draw(TEXTS),
        )
        for index in range(draw(st.integers(1, 3)))
    )
    chain_edges = tuple(ChainEdge(index, index + 1, 0, draw(TAGS)) for index in range(len(operators) - 1))
    numbers = st.integers(1, 32768)
    return JobVertex(
        VertexId(operator_id_of(uid)), draw(TEXTS), draw(numbers), draw(numbers), draw(TEXTS), operators, chain_edges
    )


@given(job_graphs())
def test_a_graph_comes_back_from_json_text_as_it_was(graph: JobGraph) -> None:
    text = json.dumps(job_graph_to_json(graph), allow_nan=False)
    assert job_graph_from_json(json.loads(text)) == graph


def keyed_program() -> JobGraph:
    program = Program()
    source = program.source("numbers", output_type=Types.LONG())
    mapped = program.add("map", source)
    program.sink("out", edge(mapped, Partitioning.KEY_GROUP, side_output_tag="late"))
    return program.build()


def test_a_program_that_was_chained_comes_back() -> None:
    graph = keyed_program()
    assert job_graph_from_json(job_graph_to_json(graph)) == graph


def test_a_graph_of_an_earlier_version_has_no_types_of_keys_and_windows() -> None:
    graph = keyed_program()
    value = job_graph_to_json(graph)
    for vertex in value["vertices"]:
        for operator in vertex["operators"]:
            del operator["key_type"], operator["window_type"]
    found = {o.key_type for v in job_graph_from_json(value).vertices for o in v.operators}
    assert found == {""}


def removed(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda value: value.pop(name)


def put(path: list[Any], new: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        value[path[-1]] = new

    return change


@pytest.mark.parametrize(
    ("change", "path", "problem"),
    [
        (removed("version"), "version", "is missing"),
        (put(["version"], 2), "version", "2 is not supported"),
        (put(["job_id"], "JOB"), "job_id", "32 hex digits"),
        (put(["name"], None), "name", "not null"),
        (put(["extra"], 1), "extra", "not a field"),
        (put(["vertices"], {}), "vertices", "list is needed, not dict"),
        (put(["vertices", 0], []), "vertices[0]", "an object is needed"),
        (put(["vertices", 0, "parallelism"], True), "vertices[0].parallelism", "not bool"),
        (put(["vertices", 0, "parallelism"], 0), "vertices[0].parallelism", "at least 1"),
        (put(["vertices", 0, "operators"], []), "vertices[0].operators", "must not be empty"),
        (put(["vertices", 0, "operators", 0, "factory"], "%"), "vertices[0].operators[0].factory", "base64"),
        (put(["vertices", 0, "operators", 0, "factory"], "ü"), "vertices[0].operators[0].factory", "base64"),
        (
            put(["vertices", 0, "operators", 0, "output_type"], "integer"),
            "vertices[0].operators[0].output_type",
            "type",
        ),
        (
            put(["vertices", 0, "operators", 0, "output_type"], "list<" * 5000),
            "vertices[0].operators[0].output_type",
            "type",
        ),
        (put(["vertices", 0, "chain_edges", 0, "target"], 7), "vertices[0].chain_edges", "does not exist"),
        (put(["edges", 0, "partitioning"], "KEY_GROUP"), "edges[0].partitioning", "way of partitioning"),
        (put(["edges", 0, "target"], "0" * 32), "edges[0]", "vertex that does not exist"),
        (put(["edges", 0, "source_operator"], 5), "edges[0].source_operator", "does not exist"),
        (put(["configuration", "a"], 1), "configuration.a", "str is needed, not int"),
    ],
)
def test_what_is_wrong_is_refused_with_its_path(change: Callable[[Any], None], path: str, problem: str) -> None:
    value = copy.deepcopy(job_graph_to_json(keyed_program()))
    change(value)
    with pytest.raises(GraphFormatError) as refused:
        job_graph_from_json(value)
    assert refused.value.path == path
    assert problem in str(refused.value)


@pytest.mark.parametrize("value", [None, [], "{}", 1])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(GraphFormatError, match="not a job graph: an object is needed"):
        job_graph_from_json(value)


def test_two_vertices_of_one_id_are_refused() -> None:
    value = job_graph_to_json(keyed_program())
    value["vertices"].append(value["vertices"][0])
    with pytest.raises(GraphFormatError, match="occurs twice"):
        job_graph_from_json(value)
