"""The document: what is read, what is refused, its one order and its hash."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest

from runtime.pipeline import DocumentError, canonical_text, load_catalog, read_document
from runtime.pipeline.json_schema import violations
from runtime.pipeline.migrations import migrated
from tests.pipeline.pipelines import chain, node, orders

CATALOG = load_catalog([])


def document() -> dict[str, Any]:
    return chain(orders(), node("filter", "Dear", condition="cents > 200"), node("sink.print", "Show"))


def changed(**parts: Any) -> dict[str, Any]:
    return {**document(), **parts}


def test_texts_and_values_are_read_alike() -> None:
    assert read_document(json.dumps(document())).value == read_document(document()).value


ODD: tuple[Any, ...] = (
    None,
    True,
    1.0,
    1.5,
    2**53,
    2.0**60,
    -1,
    "",
    "x",
    "\ud800",
    "\0",
    "é",
    [],
    {},
    [[1.0]],
    {"a": 1.0},
    {"": []},
)


def test_values_that_are_read_by_parts_are_read_as_their_texts_are() -> None:
    draw = random.Random(17)
    outcomes: Counter[str] = Counter()
    for _ in range(1_500):
        value = copy.deepcopy(document())
        if draw.random() < 0.1:
            value["nodes"]["n1"]["params"]["deep"] = nested(draw.choice([58, 59, 60, 61, 62]))
        for _ in range(draw.choice([0, 1, 1, 2])):
            plant(value, draw)
        found = outcome(value)
        assert found == outcome(json.dumps(value)), value
        outcomes["refused" if isinstance(found, tuple) else "read"] += 1
    assert min(outcomes["read"], outcomes["refused"]) > 200, outcomes


def outcome(source: str | dict[str, Any]) -> Any:
    try:
        return json.dumps(read_document(source).value)
    except DocumentError as error:
        return error.pointer, str(error)


def plant(value: Any, draw: random.Random) -> None:
    """Put something odd somewhere into a value, or take something away."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = draw.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and draw.random() < 0.8:
            value = inner
            continue
        match draw.choice(["replace", "replace", "remove", "add"]):
            case "replace":
                value[key] = copy.deepcopy(draw.choice(ODD))
            case "remove":
                del value[key]
            case _ if isinstance(value, dict):
                value[draw.choice(["new", "", "\0", "with space", "x" * 65])] = copy.deepcopy(draw.choice(ODD))
            case _:
                value.append(copy.deepcopy(draw.choice(ODD)))
        return


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


def test_later_changes_of_the_value_do_not_reach_the_document() -> None:
    value = document()
    read = read_document(value)
    value["nodes"]["n1"]["params"]["condition"] = "false"
    assert read.nodes["n1"].params["condition"] == "cents > 200"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[]", "must be a JSON object"),
        ("{", "is not JSON"),
        ('{"format": NaN}', "NaN is not a JSON number"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a": "\\u0000"}', "NUL character"),
        ("[" * 100_000, "is nested more than 64 deep"),
        (changed(format="other"), "must be 'tidemark.pipeline'"),
        (changed(version=0), "must be a version"),
        (changed(version=True), "must be a version"),
        (changed(version=2), "of a later Tidemark"),
        (changed(name=""), "must not be empty"),
        (changed(more=1), "is not known here"),
        (changed(settings={"parallelism": 0}), "must be at least 1"),
        (changed(settings={"checkpointing": {"interval": "soon"}}), "not a duration"),
        (changed(code=["a\nb"]), "must match"),
        (changed(code=["a\n"]), "must match"),
        (changed(code=["a\r"]), "must match"),
        (changed(parameters=[{"name": "a\n", "type": "long"}]), "must match"),
        (changed(nodes={"n1\n": orders()}, edges={}), "must be letters"),
        (changed(code=["#" * 70_000]), "more than 64 KiB"),
        (changed(parameters=[{"name": "a", "type": "long"}] * 2), "occurs twice"),
        (changed(types={"t": {"columns": [["a", 1]]}}), "must be a value of type string"),
        (changed(edges={"e": {"from": ["nowhere", "out"], "to": ["n1", "in"]}}), "there is no node 'nowhere'"),
        (changed(nodes={"n/1": orders()}), "must be letters"),
        (changed(description=["x" * 3_000_000]), "more than 2 MiB"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_the_place(value: Any, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        read_document(value)


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("^a$", ["a"], ["a\n", "ab"]),
        (r"^a\$$", ["a$"], ["a$\n", "a"]),
        ("^[$]$", ["$"], ["$\n"]),
        ("^[]$]+$", ["]$"], ["]\n"]),
        ("^(a$|b)", ["a", "bc"], ["a\n", "ac"]),
        (r"^a\Z", ["a"], ["a\n"]),
    ],
)
def test_the_end_of_a_pattern_is_the_end_of_the_text(pattern: str, right: list[str], wrong: list[str]) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert [list(violations(schema, text)) for text in right] == [[]] * len(right)
    assert all(list(violations(schema, text)) for text in wrong)


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString", "hasOwnProperty", "__lookupGetter__"])
def test_ids_that_every_javascript_object_has_are_refused(name: str) -> None:
    with pytest.raises(DocumentError, match="JavaScript"):
        read_document(changed(nodes={name: {**node("sink.print", "Show")}}, edges={}))
    read_document(changed(nodes={f"{name}_": {**node("sink.print", "Show")}}, edges={}))


def test_more_nodes_than_the_limit_are_refused() -> None:
    nodes = {f"n{index}": {**node("sink.print", f"Show {index}")} for index in range(1_001)}
    with pytest.raises(DocumentError, match="more than 1000"):
        read_document(changed(nodes=nodes, edges={}))


def test_the_canonical_text_is_the_same_however_the_document_is_ordered() -> None:
    value = changed(layout={"positions": {"n1": [1, 2], "n0": [0, 0]}}, samples={"n0": {"rows": []}})
    backwards = {name: value[name] for name in reversed(value)}
    backwards["nodes"] = {name: value["nodes"][name] for name in reversed(value["nodes"])}
    params = backwards["nodes"]["n0"]["params"]
    backwards["nodes"]["n0"] = {**value["nodes"]["n0"], "params": {name: params[name] for name in reversed(params)}}
    one, other = (canonical_text(read_document(found), CATALOG.param_orders) for found in (value, backwards))
    assert one == other
    assert list(json.loads(one)["nodes"]) == ["n0", "n1", "n2"]
    assert list(json.loads(one)["nodes"]["n0"]["params"]) == ["type", "rows", "time"]
    assert canonical_text(read_document(one), CATALOG.param_orders) == one


def test_nodes_are_ordered_by_rank_and_then_by_id() -> None:
    value = document()
    value["nodes"] = {f"z{9 - index}": found for index, found in enumerate(value["nodes"].values())}
    value["edges"] = {
        "b": {"from": ["z9", "out"], "to": ["z8", "in"]},
        "a": {"from": ["z8", "out"], "to": ["z7", "in"]},
    }
    read = json.loads(canonical_text(read_document(value)))
    assert list(read["nodes"]) == ["z9", "z8", "z7"]
    assert list(read["edges"]) == ["b", "a"]


def test_the_hash_changes_with_the_job_and_with_nothing_else() -> None:
    same = [
        changed(layout={"positions": {"n0": [5, 5]}}),
        changed(description=["What it is for"]),
        changed(samples={"n0": {"rows": [[{"id": 1}, None]]}}),
        changed(tests=[{"name": "t", "given": {}, "expect": {}}]),
        # defaults written out, and a whole number as browsers write it
        changed(settings={"parallelism": None}),
        json.loads(json.dumps(document()).replace("150", "150.0")),
    ]
    first = read_document(document()).semantic_hash
    assert {read_document(value).semantic_hash for value in same} == {first}
    other = copy.deepcopy(document())
    other["nodes"]["n1"]["params"]["condition"] = "cents > 201"
    renamed = copy.deepcopy(document())
    renamed["nodes"]["n1"]["name"] = "Costly"
    hashes = {read_document(value).semantic_hash for value in (other, renamed, changed(settings={"parallelism": 2}))}
    assert len(hashes | {first}) == 4


def test_documents_of_earlier_versions_go_through_all_steps_between() -> None:
    steps = {
        2: lambda value: {**value, "two": True},
        3: lambda value: {**value, "three": value["two"]},
    }
    assert migrated({"version": 1}, steps, 3) == {"version": 3, "two": True, "three": True}
    assert migrated({"version": 3, "three": True}, steps, 3) == {"version": 3, "three": True}
    with pytest.raises(ValueError, match="later Tidemark"):
        migrated({"version": 4}, steps, 3)


def test_nodes_in_a_cycle_and_below_have_no_rank() -> None:
    value = document()
    value["edges"]["back"] = {"from": ["n1", "out"], "to": ["n1", "in"]}
    read = read_document(value)
    assert read.order == ["n0"]
    assert json.loads(canonical_text(read))["nodes"].keys() == {"n0", "n1", "n2"}
