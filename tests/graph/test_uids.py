from __future__ import annotations

import pytest

from runtime.core.ids import operator_id_of
from runtime.graph.errors import GraphError
from runtime.graph.partitioning import Partitioning
from tests.graph.programs import Program, edge


def uids(program: Program) -> dict[str, str]:
    return {op.name: op.uid for vertex in program.build().vertices for op in vertex.operators}


def linear(parallelism: int = 2, source_uid: str | None = None, unrelated: bool = False) -> Program:
    p = Program(parallelism=parallelism)
    if unrelated:
        p.sink("elsewhere", p.source("other"))
    source = p.source(uid=source_uid)
    p.sink("out", p.add("Window", edge(p.add("Map", source, parallelism=2), Partitioning.KEY_GROUP)))
    return p


def test_an_explicit_uid_gives_the_operator_id() -> None:
    vertex = linear(source_uid="reader").build().vertices[0]
    assert vertex.operators[0].uid == "reader"
    assert vertex.operators[0].operator_id == vertex.vertex_id == operator_id_of("reader")


def test_derived_uids_are_the_same_in_every_run_and_all_different() -> None:
    first = uids(linear())
    assert first == uids(linear())
    assert len(set(first.values())) == len(first)


def test_derived_uids_survive_rescaling_and_unrelated_operators() -> None:
    # at parallelism 3 the default edge into Map turns from FORWARD to REBALANCE
    assert uids(linear(parallelism=3)) == uids(linear())
    assert uids(linear(unrelated=True)).items() >= uids(linear()).items()


def test_derived_uids_change_with_what_is_above_up_to_the_next_explicit_one() -> None:
    assert uids(linear(source_uid="a"))["Window"] != uids(linear())["Window"]
    changed, same = Program(), Program()
    for p, name in ((changed, "a"), (same, "b")):
        p.sink("out", p.add("Map", p.source(name), uid="map"))
    assert uids(changed)["Sink: out"] == uids(same)["Sink: out"]


def test_equal_twins_get_different_uids() -> None:
    p = Program()
    source = p.source()
    p.add("Map", source)
    p.add("Map", source)
    operators = p.build().vertices[0].operators
    assert operators[1].uid != operators[2].uid


def test_a_derived_uid_gives_way_to_the_same_explicit_one() -> None:
    derived = uids(linear())["Window"]
    p = linear()
    p.source("hostile", uid=derived)
    found = uids(p)
    assert found["Source: hostile"] == derived
    assert found["Window"] != derived


def test_an_empty_uid_is_refused() -> None:
    p = Program()
    p.source(uid="")
    with pytest.raises(GraphError, match="Source: numbers: the uid must not be empty"):
        p.build()
