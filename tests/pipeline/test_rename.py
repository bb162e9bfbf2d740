"""Renaming a column: in the node that names it and in everything below."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import StreamFacts, load_catalog, read_document, validate
from runtime.pipeline.rename import RenameError, rename_column
from tests.pipeline.generator import grown
from tests.pipeline.pipelines import ORDER, chain, node, orders, pipeline
from tests.pipeline.test_validate import patched

CATALOG = load_catalog([])
WINDOW = {"kind": "tumbling", "size": "10 s"}


def test_a_column_is_renamed_in_all_nodes_below() -> None:
    value = pipeline(
        {
            "a": orders(),
            "b": orders() | {"name": "Others", "uid": "others"},
            "f": node("filter", "F", condition="cents > 1 AND item <> 'cents'"),
            "w": node("window.aggregate", "W", keys=["id"], window=WINDOW, aggregates=[["top", "max(cents)"]]),
            "j": node("join.window", "J", left_keys=["cents"], right_keys=["cents"], window=WINDOW),
            "s": node("select", "S", columns=[["cents", "cents"], ["other", "cents_right"]]),
            "t": node("top_n", "T", keys=["cents"], n=1, by=[{"expression": "other"}]),
            "m": node("python.map", "M", code=["def f(row): return (row['cents'],)"], type=[["x", "long"]]),
        },
        "a -> f", "f -> w", "f -> j.left", "b -> j.right", "j -> s", "s -> t", "a -> m",
    )  # fmt: skip
    renamed = rename_column(read_document(value), CATALOG, "a", "out", "cents", "euro cents")
    made = patched(value, renamed.patch)
    assert made["nodes"]["f"]["params"]["condition"] == "\"euro cents\" > 1 AND item <> 'cents'"
    assert made["nodes"]["w"]["params"]["aggregates"] == [["top", 'max("euro cents")']]
    assert made["nodes"]["j"]["params"]["left_keys"] == ["euro cents"]
    assert made["nodes"]["j"]["params"]["right_keys"] == ["cents"]
    # the select names its columns itself: below it nothing changes, and what had the suffix has none now
    assert made["nodes"]["s"]["params"]["columns"] == [["cents", '"euro cents"'], ["other", "cents"]]
    assert made["nodes"]["t"]["params"]["keys"] == ["cents"]
    assert renamed.by_hand == ("m",)
    assert renamed.nodes[0] == "a" and set(renamed.nodes) == {"a", "f", "j", "w", "s"}
    assert [problem.node for problem in validate(read_document(made), CATALOG).problems if problem.is_blocking] == []


def test_a_name_that_is_taken_or_not_the_nodes_own_is_refused() -> None:
    value = chain(orders(), node("filter", "F", condition="cents > 1"), node("select", "S", columns=[["a", "cents"]]))
    document = read_document(value)
    for place, old, new, message in (
        ("n0", "cents", "item", "there is a column 'item' already"),
        ("n0", "nope", "item", "there is no column 'nope'"),
        ("n1", "cents", "x", "from elsewhere"),
        ("n0", "cents", "__x", "reserved"),
    ):
        with pytest.raises(RenameError, match=message):
            rename_column(document, CATALOG, place, "out", old, new)


@pytest.mark.parametrize("number", range(15))
def test_a_rename_changes_names_and_nothing_else(number: int, tmp_path: Path) -> None:
    draw = random.Random(f"rename {number}")
    value: Any = grown(draw, CATALOG, tmp_path)
    document = read_document(value)
    before = validate(document, CATALOG)
    places = [
        (node_id, port, column)
        for (node_id, port), facts in sorted(before.facts.items())
        if isinstance(facts, StreamFacts)
        for column in facts.columns
    ]
    draw.shuffle(places)
    for node_id, port, column in places:
        try:
            renamed = rename_column(document, CATALOG, node_id, port, column, "brand new")
        except RenameError:
            continue
        after = validate(read_document(patched(value, renamed.patch)), CATALOG)
        assert after.is_deployable, after.problems
        for place, facts in before.facts.items():
            now = after.facts[place]
            assert isinstance(facts, StreamFacts) and isinstance(now, StreamFacts)
            assert list(now.columns.values()) == list(facts.columns.values()), place
            assert (now.changelog, now.watermarks, now.bounded) == (facts.changelog, facts.watermarks, facts.bounded)
        return


def test_a_rename_leaves_parameters_of_the_pipeline_alone() -> None:
    value = chain(
        orders(rows=[]),
        node("top_n", "T", keys=["id"], n={"$parameter": "most"}, by=[{"expression": "cents"}]),
        parameters=[{"name": "most", "type": "long", "default": 3}],
    )
    renamed = rename_column(read_document(value), CATALOG, "n0", "out", "cents", "price")
    params = patched(value, renamed.patch)["nodes"]["n1"]["params"]
    assert params["n"] == {"$parameter": "most"} and params["by"][0]["expression"] == "price"


def test_a_parameter_stays_where_it_stands_beside_the_column() -> None:
    value = chain(
        orders(rows=[], time={"kind": "column", "column": "at", "bound": {"$parameter": "bound"}}),
        node("select", "S", columns=[["id", "id"], ["when", {"$parameter": "when"}], ["at", "at + 1"]]),
        parameters=[
            {"name": "bound", "type": "string", "default": "5 s"},
            {"name": "when", "type": "string", "default": "cents + 1"},
        ],
    )
    renamed = rename_column(read_document(value), CATALOG, "n0", "out", "at", "moment")
    nodes = patched(value, renamed.patch)["nodes"]
    # nor are defaults written out
    assert nodes["n0"]["params"]["time"] == {"kind": "column", "column": "moment", "bound": {"$parameter": "bound"}}
    columns = [["id", "id"], ["when", {"$parameter": "when"}], ["at", "moment + 1"]]
    assert nodes["n1"]["params"]["columns"] == columns


@pytest.mark.parametrize("parameter", ["cents > 1", "item <> 'cents' AND cents < 2"])
def test_a_parameter_that_holds_the_name_refuses_the_rename(parameter: str) -> None:
    value = chain(
        orders(),
        node("filter", "F", condition={"$parameter": "which"}),
        parameters=[{"name": "which", "type": "string", "default": parameter}],
    )
    with pytest.raises(RenameError, match="'F' takes the column's name from the parameter 'which'"):
        rename_column(read_document(value), CATALOG, "n0", "out", "cents", "price")
    assert rename_column(read_document(value), CATALOG, "n0", "out", "id", "number").nodes == ("n0",)


def test_parameters_of_an_earlier_version_of_a_type_keep_those_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(CATALOG.types["top_n"])
    monkeypatch.setattr(kind, "version", 2)
    monkeypatch.setattr(
        kind, "migrate", lambda self, params, version: {**params, "by": [{"expression": params["by"]}]}, raising=True
    )
    top = node("top_n", "T", keys=["id"], n={"$parameter": "most"}, by="cents")
    value = chain(orders(), top, parameters=[{"name": "most", "type": "long", "default": 3}])
    renamed = rename_column(read_document(value), CATALOG, "n0", "out", "cents", "price")
    made = patched(value, renamed.patch)["nodes"]["n1"]
    assert made["type_version"] == 2 and made["params"]["n"] == {"$parameter": "most"}
    assert [order["expression"] for order in made["params"]["by"]] == ["price"]


def test_rows_of_samples_and_tests_are_renamed_too() -> None:
    whole = {"id": 1, "item": "cents", "cents": 2, "at": 3}
    value = pipeline(
        {
            "a": orders(),
            "s": node("split", "S", branches=[["dear", "cents > 1"]]),
            "c": node("select", "C", columns=[["cents", "cents"]]),
            "p": node("sink.print", "P"),
        },
        "a -> s", "s.dear -> p", "s.rest -> c",
        samples={"a": {"pinned": True, "rows": [[whole, 1], [[1, "pen", 2, 3], None]]}},
        tests=[
            {"name": "none", "given": {}, "expect": {"c": [{"cents": 1}]}},
            {
                "name": "all",
                "given": {"a": [[whole, 1], ["watermark", 2]], "s": [[whole, 1]], "c": [[{"cents": 1}, None]]},
                "expect": {"a": [whole], "s": [{"cents": 1}], "s/rest": [{"cents": 1, "$kind": "DELETE"}],
                           "c": [{"cents": 1}], "p": [{"cents": 1}], "p/in": [{"cents": 1}], "gone": [{"cents": 1}]},
            },
        ],
    )  # fmt: skip
    renamed = rename_column(read_document(value), CATALOG, "a", "out", "cents", "price")
    made = patched(value, renamed.patch)
    now = {"id": 1, "item": "cents", "price": 2, "at": 3}
    assert made["samples"]["a"] == {"pinned": True, "rows": [[now, 1], [[1, "pen", 2, 3], None]]}
    # the select names its column itself
    assert made["tests"][0] == value["tests"][0]
    assert made["tests"][1]["given"] == {
        "a": [[now, 1], ["watermark", 2]], "s": [[now, 1]], "c": [[{"cents": 1}, None]],
    }  # fmt: skip
    assert made["tests"][1]["expect"] == {
        "a": [now], "s": [{"price": 1}], "s/rest": [{"price": 1, "$kind": "DELETE"}],
        "c": [{"cents": 1}], "p": [{"price": 1}], "p/in": [{"price": 1}], "gone": [{"cents": 1}],
    }  # fmt: skip
    assert list(made["tests"][1]["given"]["a"][0][0]) == ["id", "item", "price", "at"]
    assert renamed.nodes == ("a", "s", "c")


def test_a_rename_after_which_a_node_would_have_another_column_is_refused() -> None:
    value = chain(orders(), node("to_json", "J", alias="cents", columns=["id"]))
    with pytest.raises(RenameError, match="'J' would make other columns"):
        rename_column(read_document(value), CATALOG, "n0", "out", "cents", "price")


def test_a_column_of_a_type_of_the_pipeline_is_renamed_there() -> None:
    value = chain(orders(type="order"), node("sink.print", "P"), types={"order": {"columns": ORDER}})
    with pytest.raises(RenameError, match="takes the column's name from elsewhere"):
        rename_column(read_document(value), CATALOG, "n0", "out", "cents", "price")
