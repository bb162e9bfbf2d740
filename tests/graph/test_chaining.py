"""Chaining against Flink's rules: a table of small programs, then the parts of a JobGraph."""

from __future__ import annotations

import threading
from collections.abc import Callable

import cloudpickle
import pytest

from runtime.graph.chaining import CHAIN_DIFFERENT_MAX_PARALLELISM, slot_sharing_groups, stateful_operators_without_uid
from runtime.graph.errors import GraphError
from runtime.graph.job_graph import ChainEdge
from runtime.graph.partitioning import Partitioning
from runtime.graph.stream_graph import ChainingStrategy, StreamEdge
from tests.graph.programs import Factory, Program, edge

HEAD, NEVER = ChainingStrategy.HEAD, ChainingStrategy.NEVER


def straight(p: Program) -> None:
    p.sink("out", p.add("Map", p.source()))


def fan_out(p: Program) -> None:
    mapped = p.add("Map", p.source())
    p.add("Filter", mapped)
    p.sink("out", mapped)


def fan_out_deep(p: Program) -> None:
    mapped = p.add("Map", p.source())
    p.sink("left", p.add("Filter", mapped))
    p.sink("right", edge(mapped, Partitioning.KEY_GROUP))


def union(p: Program) -> None:
    p.sink("out", p.add("Map", p.source("a"), p.source("b")))


def self_union(p: Program) -> None:
    source = p.source()
    p.sink("out", source, source)


def two_inputs(p: Program) -> None:
    p.add("Co-Map", p.source("a"), StreamEdge(p.source("b"), -1, None, input_index=1))


def side_output(p: Program) -> None:
    process = p.add("Process", p.source())
    p.sink("main", process)
    p.sink("late", edge(process, side_output_tag="late"))


def other_parallelism(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(parallelism=1)))


def start_new_chain(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(), chaining_strategy=HEAD))


def disable_chaining(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(), chaining_strategy=NEVER))


def never_source(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(chaining_strategy=NEVER)))


def chaining_off(p: Program) -> None:
    p.graph.chaining_enabled = False
    straight(p)


def other_group(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(), slot_sharing_group="heavy"))


def other_max_parallelism(p: Program) -> None:
    p.sink("out", p.add("Map", p.source(), max_parallelism=64))


def strict_max_parallelism(p: Program) -> None:
    p.graph.configuration = {CHAIN_DIFFERENT_MAX_PARALLELISM: "false"}
    other_max_parallelism(p)


def explicit(partitioning: Partitioning) -> Callable[[Program], None]:
    def program(p: Program) -> None:
        p.sink("out", edge(p.source(), partitioning))

    return program


SRC = "Source: numbers"


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (straight, [f"{SRC} -> Map -> Sink: out"]),
        (fan_out, [f"{SRC} -> Map -> (Filter, Sink: out)"]),
        (fan_out_deep, [f"{SRC} -> Map -> Filter -> Sink: left", "Sink: right"]),
        (union, ["Source: a", "Source: b", "Map -> Sink: out"]),
        (self_union, [SRC, "Sink: out"]),
        (two_inputs, ["Source: a", "Source: b", "Co-Map"]),
        (side_output, [f"{SRC} -> Process -> (Sink: main, Sink: late)"]),
        (other_parallelism, [SRC, "Map -> Sink: out"]),
        (start_new_chain, [SRC, "Map -> Sink: out"]),
        (disable_chaining, [SRC, "Map", "Sink: out"]),
        (never_source, [SRC, "Map -> Sink: out"]),
        (chaining_off, [SRC, "Map", "Sink: out"]),
        (other_group, [SRC, "Map -> Sink: out"]),
        (other_max_parallelism, [f"{SRC} -> Map -> Sink: out"]),
        (strict_max_parallelism, [SRC, "Map", "Sink: out"]),
        (explicit(Partitioning.FORWARD), [f"{SRC} -> Sink: out"]),
        *((explicit(p), [SRC, "Sink: out"]) for p in Partitioning if p is not Partitioning.FORWARD),
    ],
)
def test_operators_chain_as_in_flink(program: Callable[[Program], None], names: list[str]) -> None:
    p = Program()
    program(p)
    assert p.names() == names


def test_a_chain_lists_its_operators_and_the_edges_between_them() -> None:
    p = Program()
    side_output(p)
    (vertex,) = p.build().vertices
    assert [op.name for op in vertex.operators] == ["Source: numbers", "Process", "Sink: main", "Sink: late"]
    assert vertex.chain_edges == (ChainEdge(0, 1), ChainEdge(1, 2), ChainEdge(1, 3, 0, "late"))
    assert vertex.head.name == "Source: numbers"
    assert isinstance(cloudpickle.loads(vertex.operators[1].factory), Factory)


def test_a_side_output_edge_can_leave_the_middle_of_a_chain() -> None:
    p = Program()
    process = p.add("Process", p.source())
    p.sink("main", process)
    p.sink("late", edge(process, Partitioning.KEY_GROUP, side_output_tag="late"))
    graph = p.build()
    (job_edge,) = graph.edges
    assert (job_edge.source, job_edge.source_operator) == (graph.vertices[0].vertex_id, 1)
    assert job_edge.target == graph.vertices[1].vertex_id
    assert job_edge.side_output_tag == "late"
    assert job_edge.partitioner is not None
    assert cloudpickle.loads(job_edge.partitioner) is abs


def test_a_union_is_several_edges_into_one_input() -> None:
    p = Program()
    self_union(p)
    graph = p.build()
    assert [(e.edge_id, e.input_index, e.partitioning) for e in graph.edges] == [
        (0, 0, Partitioning.FORWARD),
        (1, 0, Partitioning.FORWARD),
    ]


def test_an_edge_without_partitioning_is_forward_or_rebalance() -> None:
    p = Program()
    other_parallelism(p)
    assert [e.partitioning for e in p.build().edges] == [Partitioning.REBALANCE]
    p = Program()
    disable_chaining(p)
    assert {e.partitioning for e in p.build().edges} == {Partitioning.FORWARD}


def test_an_edge_keeps_its_own_buffer_timeout() -> None:
    p = Program()
    source = p.source()
    p.sink("a", edge(source, Partitioning.REBALANCE, buffer_timeout_ms=0))
    p.sink("b", edge(source, Partitioning.REBALANCE))
    assert [e.buffer_timeout_ms for e in p.build().edges] == [0, 100]


def test_vertices_are_in_topological_order_with_sources_first() -> None:
    p = Program()
    first = p.add("Window", edge(p.source("a"), Partitioning.KEY_GROUP))
    p.add("Join", edge(first, Partitioning.KEY_GROUP), edge(p.source("b"), Partitioning.KEY_GROUP, input_index=1))
    assert p.names() == ["Source: a", "Source: b", "Window", "Join"]


def test_max_parallelism_is_the_operators_else_the_programs_else_flinks_default() -> None:
    p = Program()
    p.source("a", max_parallelism=16)
    p.source("b")
    p.source("c", parallelism=86)
    assert [v.max_parallelism for v in p.build().vertices] == [16, 128, 256]
    p.graph.max_parallelism = 512
    assert [v.max_parallelism for v in p.build().vertices] == [16, 512, 512]


def test_slot_sharing_groups_are_inherited_if_the_inputs_agree() -> None:
    p = Program()
    heavy, light = p.source("a", slot_sharing_group="heavy"), p.source("b")
    alone = p.add("alone", heavy)
    mixed = p.add("mixed", heavy, light)
    groups = slot_sharing_groups(p.graph, sorted(p.graph.nodes))
    assert groups == {heavy: "heavy", light: "default", alone: "heavy", mixed: "default"}


class Unpicklable:
    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_what_cannot_be_pickled_is_named_with_the_way_to_it() -> None:
    connection = {"pool": [Unpicklable()]}
    p = Program()
    p.add("Enrich", p.source(), factory=Factory(lambda value: connection))
    with pytest.raises(GraphError, match="Enrich: the operator cannot be pickled") as caught:
        p.build()
    assert caught.value.operators == ("Enrich",)
    assert "function.variable 'connection'['pool'][0].lock is a _thread.lock" in str(caught.value)


def test_a_key_selector_that_cannot_be_pickled_names_its_operator() -> None:
    lock = threading.Lock()
    p = Program()
    p.add("Window", edge(p.source(), Partitioning.KEY_GROUP, partitioner=lambda value: lock))
    with pytest.raises(GraphError, match="Window: the key selector cannot be pickled"):
        p.build()


def empty(p: Program) -> None:
    pass


def cycle(p: Program) -> None:
    first = p.add("First", p.source())
    second = p.add("Second", first)
    p.graph.edges.append(StreamEdge(second, first, Partitioning.REBALANCE))


def unequal_forward(p: Program) -> None:
    p.sink("out", edge(p.source(parallelism=1), Partitioning.FORWARD))


def no_input(p: Program) -> None:
    p.add("Map")


def source_with_input(p: Program) -> None:
    p.source("b", parallelism=2)
    p.graph.edges.append(StreamEdge(p.source(), 1, None))


def dangling(p: Program) -> None:
    p.sink("out", 7)


def gap_in_inputs(p: Program) -> None:
    p.add("Join", p.source(), edge(p.source("b"), input_index=2))


def no_selector(p: Program) -> None:
    p.add("Window", edge(p.source(), Partitioning.KEY_GROUP, partitioner=None))


def zero_parallelism(p: Program) -> None:
    p.source(parallelism=0)


def above_max(p: Program) -> None:
    p.source(parallelism=5, max_parallelism=4)


def max_out_of_range(p: Program) -> None:
    p.source(max_parallelism=40_000)


def same_uid(p: Program) -> None:
    p.add("Map", p.source(uid="x"), uid="x")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (empty, "No operators defined"),
        (cycle, "cycle.*First, Second"),
        (unequal_forward, "'Source: numbers' has 1, 'Sink: out' has 2"),
        (no_input, "Map has no input"),
        (source_with_input, "Source: b is a source but has an input"),
        (dangling, "unknown operators: 7"),
        (gap_in_inputs, r"Join has inputs \[0, 2\]"),
        (no_selector, "'Source: numbers' to 'Window' has no function"),
        (zero_parallelism, "Source: numbers: parallelism must be at least 1, is 0"),
        (above_max, "Source: numbers: parallelism 5 exceeds its max parallelism 4"),
        (max_out_of_range, "max parallelism must be in 1..32768, is 40000"),
        (same_uid, "uid 'x' is used twice: by 'Source: numbers' and by 'Map'"),
    ],
)
def test_a_program_that_cannot_run_is_refused_with_names(program: Callable[[Program], None], message: str) -> None:
    p = Program()
    program(p)
    with pytest.raises(GraphError, match=message):
        p.build()


def test_stateful_operators_without_uid_are_listed() -> None:
    p = Program()
    source = p.source(is_stateful=True)
    p.add("Map", source)
    p.add("Window", edge(source, Partitioning.KEY_GROUP), is_stateful=True, uid="window")
    assert stateful_operators_without_uid(p.graph) == ["Source: numbers"]
