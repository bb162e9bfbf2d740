"""Validation: facts of every port, and every problem with its place and what mends it."""

from __future__ import annotations

import copy
import random
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import (
    Code,
    Memo,
    Severity,
    StreamFacts,
    Unknown,
    Validation,
    load_catalog,
    read_document,
    validate,
)
from tests.pipeline.generator import grown
from tests.pipeline.pipelines import ORDER, chain, node, orders, pipeline

CATALOG = load_catalog([])
WINDOW = {"kind": "tumbling", "size": "10 s"}
COUNTS = {"keys": ["id"], "window": WINDOW, "aggregates": [["n", "count(*)"]]}


def validated(value: Any) -> Validation:
    return validate(read_document(value), CATALOG)


def problems(value: Any) -> list[tuple[str | None, Code, str | None]]:
    return [(problem.node, problem.code, problem.field) for problem in validated(value).problems]


def patched(value: Any, patch: Any) -> Any:
    """Apply the operations of RFC 6902 that fixes use."""
    made = copy.deepcopy(value)
    for operation in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = made
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if isinstance(place, list):
            place[int(last)] = operation["value"]
        else:
            place[last] = operation["value"]
    return made


def test_facts_say_what_flows() -> None:
    total = node("aggregate", "Total", keys=["id"], aggregates=[["total", "sum(cents)"]])
    found = validated(chain(orders(), total, node("sink.print", "Show")))
    assert found.is_deployable
    source, made = found.facts["n0", "out"], found.facts["n1", "out"]
    assert isinstance(source, StreamFacts) and isinstance(made, StreamFacts)
    assert (source.event_time, source.watermarks, source.time_column, source.bounded) == (True, True, "at", True)
    assert made.row is not None and str(made.row) == "RowTypeInfo(id: Long, total: Long)"
    assert (made.changelog, made.unique_key, made.time_column) == ("retract", ("id",), None)
    assert made.origin == {"id": ("n0", "id"), "total": ("n1", "total")}
    assert made.to_json()["columns"] == [
        {"name": "id", "type": "long", "dtype": "Int64"},
        {"name": "total", "type": "long", "dtype": "Int64"},
    ]


@pytest.mark.parametrize(
    ("params", "key"),
    [({}, ("id", "window_end")), ({"early": "1 s"}, None), ({"lateness": "1 s"}, None), ({"window_end": False}, None)],
)
def test_windows_whose_results_come_again_have_no_unique_key(params: dict[str, Any], key: Any) -> None:
    window = {"kind": "tumbling", "size": "10 s"}
    counted = node("window.aggregate", "C", keys=["id"], window=window, aggregates=[["n", "count(*)"]], **params)
    made = validated(chain(orders(), counted, node("sink.print", "P"))).facts["n1", "out"]
    assert isinstance(made, StreamFacts) and made.unique_key == key


def test_nothing_is_said_of_what_lies_below_an_unfinished_node() -> None:
    value = chain(
        orders(), node("filter", "F"), node("select", "S", columns=[["x", "nonsense +"]]), node("sink.print", "P")
    )
    found = validated(value)
    assert [(problem.node, problem.code, problem.severity) for problem in found.problems] == [
        ("n1", Code.MISSING_PARAM, Severity.INCOMPLETE)
    ]
    assert found.facts["n2", "out"] == Unknown("n2")
    assert not found.is_deployable
    assert found.complete(read_document(value)) == ["n0"]


@pytest.mark.parametrize(
    ("broken", "code", "field"),
    [
        (node("filter", "F", condition="price > 2"), Code.UNKNOWN_COLUMN, "/params/condition"),
        (node("filter", "F", condition="cents"), Code.NOT_A_CONDITION, "/params/condition"),
        (node("filter", "F", condition="cents >"), Code.BAD_EXPRESSION, "/params/condition"),
        (node("filter", "F", condition="max(cents) > 1"), Code.BAD_EXPRESSION, "/params/condition"),
        (node("filter", "F", condition="now() > at"), Code.BAD_EXPRESSION, "/params/condition"),
        (node("filter", "F", condition=7), Code.BAD_PARAM, "/params/condition"),
        (node("filter", "F", condition=""), Code.MISSING_PARAM, "/params/condition"),
        (node("filter", "F", condition="true", more=1), Code.BAD_PARAM, "/params/more"),
        (node("filter", "F", condition={"$parameter": "none"}), Code.PARAMETER_MISSING, "/params/condition"),
        (node("filter", "F", condition={"$parameter": ["none"]}), Code.PARAMETER_MISSING, "/params/condition"),
        (node("select", "S", columns=[["a", "id"], ["a", "id"]]), Code.NAME_TAKEN, "/params/columns/1/0"),
        (node("select", "S", columns=[["__a", "id"]]), Code.NAME_TAKEN, "/params/columns/0/0"),
        (node("select", "S", columns=[["a", "id"], ["b", "nope"]]), Code.UNKNOWN_COLUMN, "/params/columns/1/1"),
        (node("select", "S", columns=[]), Code.MISSING_PARAM, "/params/columns"),
        (node("columns", "C", drop=["id", "item", "cents", "at"]), Code.BAD_PARAM, "/params/drop"),
        (node("columns", "C", rename=[["id", "item"]]), Code.NAME_TAKEN, "/params/rename/0/1"),
        (node("columns", "C", cast=[["nope", "int"]]), Code.UNKNOWN_COLUMN, "/params/cast/0/0"),
        (node("unnest", "U", column="id"), Code.TYPE_MISMATCH, "/params/column"),
        (node("unnest", "U", column="nope"), Code.UNKNOWN_COLUMN, "/params/column"),
        (node("time.watermark", "W", column="item"), Code.TYPE_MISMATCH, "/params/column"),
        (node("time.watermark", "W", column="at", bound="-1 s"), Code.BAD_PARAM, "/params/bound"),
        (node("time.watermark", "W", column="at", idle="0 s"), Code.BAD_PARAM, "/params/idle"),
        (node("split", "S", branches=[["rest", "true"]]), Code.NAME_TAKEN, "/params/branches/1/0"),
        (node("split", "S", branches=[["dear\n", "true"]]), Code.BAD_PARAM, "/params/branches/0/0"),
        (node("window.aggregate", "A", **{**COUNTS, "keys": ["nope"]}), Code.UNKNOWN_COLUMN, "/params/keys/0"),
        (node("window.aggregate", "A", **{**COUNTS, "aggregates": [["id", "count(*)"]]}), Code.NAME_TAKEN, None),
        (node("window.aggregate", "A", **{**COUNTS, "aggregates": [["n", "sum(item)"]]}), Code.BAD_EXPRESSION, None),
        (
            node("window.aggregate", "A", **{**COUNTS, "window": {"kind": "tumbling", "size": "0 s"}}),
            Code.BAD_PARAM,
            "/params/window",
        ),
        (
            node(
                "window.aggregate", "A", **{**COUNTS, "window": {"kind": "sliding", "size": "1000 d", "slide": "1 ms"}}
            ),
            Code.BAD_PARAM,
            "/params/window",
        ),
        (
            node("window.aggregate", "A", **{**COUNTS, "window": {"kind": "hopping"}}),
            Code.BAD_PARAM,
            "/params/window",
        ),
        (node("window.aggregate", "A", **{**COUNTS, "lateness": "-1 s"}), Code.BAD_PARAM, "/params/lateness"),
        (
            node("top_n", "T", keys=["id"], n=2, by=[{"expression": "cents"}], rank="cents"),
            Code.NAME_TAKEN,
            "/params/by/0/expression",
        ),
        (node("python.map", "M", code=["def f(:"], type=[["a", "long"]]), Code.SYNTAX, "/params/code/0"),
        (node("python.map", "M", code=["x = 1"], type=[["a", "long"]]), Code.UNDEFINED_NAME, "/params/code"),
        (
            node("python.map", "M", code=["def f(row):", "    return g(row)"], type=[["a", "long"]]),
            Code.UNDEFINED_NAME,
            "/params/code/1",
        ),
        (
            node("python.map", "M", code=["from __future__ import annotations", "def f(r): ..."], type=[["a", "long"]]),
            Code.SYNTAX,
            "/params/code/0",
        ),
        (
            node("python.map", "M", code=["def f(row): return row \\"], type=[["a", "long"]]),
            Code.SYNTAX,
            "/params/code/0",
        ),
        (node("python.map", "M", code=["def f(row): ..."], type=[["a", "l"]]), Code.BAD_PARAM, "/params/type/0/1"),
        (node("python.map", "M", code=["def f(row): ..."], type="nope"), Code.BAD_PARAM, "/params/type"),
        (node("sink.files", "S", path="s3://b/k", format={"kind": "ndjson"}), Code.BAD_PARAM, "/params/path"),
        (node("time.watermark", "W", column="at", bound="40000 d"), Code.BAD_PARAM, "/params/bound"),
        (
            node("sink.files", "S", path="/x", format={"kind": "csv", "delimiter": "é"}),
            Code.BAD_PARAM,
            "/params/format/delimiter",
        ),
        (
            node("sink.files", "S", path="/x", format={"kind": "ndjson"}, prefix="_x"),
            Code.BAD_PARAM,
            "/params/prefix",
        ),
        (
            node("sink.files", "S", path="/x", format={"kind": "ndjson"}, buckets={"kind": "fields", "columns": ["q"]}),
            Code.UNKNOWN_COLUMN,
            "/params/buckets/columns/0",
        ),
        (
            node("sink.files", "S", path="/x", format={"kind": "ndjson"}, buckets={"kind": "clock", "pattern": "QQ"}),
            Code.BAD_PARAM,
            "/params/buckets",
        ),
        (node("no.such", "N"), Code.NODE_TYPE_MISSING, "/type"),
    ],
)
def test_a_problem_names_its_field(broken: Any, code: Code, field: str | None) -> None:
    found = [problem for problem in validated(chain(orders(), broken)).problems if problem.is_blocking]
    assert [(problem.node, problem.code) for problem in found] == [("n1", code)]
    if field is not None:
        assert found[0].field == field


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"rows": [[1, "pen", 1]]}, Code.TYPE_MISMATCH, "/params/rows/0"),
        ({"rows": [{"id": 1, "price": 2}]}, Code.TYPE_MISMATCH, "/params/rows/0"),
        ({"rows": [[2**63, "pen", 1, 1]]}, Code.TYPE_MISMATCH, "/params/rows/0"),
        ({"rows": [[True, "pen", 1, 1]]}, Code.TYPE_MISMATCH, "/params/rows/0"),
        ({"time": {"kind": "column", "column": "item"}}, Code.TYPE_MISMATCH, "/params/time/column"),
        ({"time": {"kind": "column", "column": "x"}}, Code.UNKNOWN_COLUMN, "/params/time/column"),
        ({"time": {"kind": "sundial"}}, Code.BAD_PARAM, "/params/time"),
        ({"type": [["a", "long"], ["a", "long"]]}, Code.NAME_TAKEN, "/params/type/1/0"),
    ],
)
def test_a_problem_of_a_source_names_its_field(params: Any, code: Code, field: str) -> None:
    assert problems(chain(orders(**params), node("sink.print", "P"))) == [("n0", code, field)]


def test_an_unknown_column_has_a_span_and_close_names_as_fixes() -> None:
    value = chain(orders(), node("filter", "F", condition="id > 0 AND sents > 2"))
    (problem,) = validated(value).problems
    assert problem.span == (11, 16)
    assert [fix.title for fix in problem.fixes] == ["Use cents"]
    assert validated(patched(value, problem.fixes[0].patch)).problems == ()


def test_a_missing_watermark_is_mended_in_the_source() -> None:
    value = chain(orders(time={"kind": "none"}), node("window.aggregate", "A", **COUNTS), node("sink.print", "P"))
    (problem,) = validated(value).problems
    assert (problem.code, problem.port) == (Code.NO_EVENT_TIME, "in")
    assert [fix.title for fix in problem.fixes][-1] == "Take the event time of Orders from at"
    assert validated(patched(value, problem.fixes[-1].patch)).problems == ()


def test_a_missing_watermark_is_mended_by_a_node_in_between() -> None:
    value = chain(
        orders(time={"kind": "none"}),
        node("filter", "F", condition="id > 0"),
        node("window.aggregate", "A", **COUNTS),
        node("sink.print", "P"),
    )
    (problem,) = validated(value).problems
    made = patched(value, problem.fixes[-1].patch)
    assert len(made["nodes"]) == 5
    assert validated(made).problems == ()
    # complete, as the server keeps it: else a merge takes what it completes for somebody's change
    kept = read_document(made).value
    for part in ("nodes", "edges"):
        assert all(kept[part][name] == made[part][name] for name in made[part].keys() - value[part].keys())


def test_changelogs_are_refused_where_they_would_be_lost() -> None:
    total = node("aggregate", "Total", keys=["id"], aggregates=[["total", "sum(cents)"]])
    files = node("sink.files", "Files", path="/x", format={"kind": "ndjson"})
    assert problems(chain(orders(), total, files)) == [("n2", Code.SINK_TAKES_APPENDS_ONLY, None)]
    assert problems(chain(orders(), total, {**total, "name": "Again", "uid": "again"})) == [
        ("n2", Code.NEEDS_APPENDS, None),
    ]
    mapped = node("python.map", "M", code=["def f(row): return (1,)"], type=[["a", "long"]])
    assert problems(chain(orders(), total, mapped)) == [("n2", Code.NEEDS_APPENDS, "/params/changelog")]
    mapped["params"]["changelog"] = "rows"
    assert problems(chain(orders(), total, mapped, node("sink.print", "P"))) == []


def test_ports_that_do_not_exist_and_second_edges_are_problems() -> None:
    nodes = {"a": orders(), "b": orders() | {"name": "More", "uid": "more"}, "p": node("sink.print", "P")}
    assert problems(pipeline(nodes, "a -> p", "b -> p")) == [("p", Code.DUPLICATE_INPUT, None)]
    assert ("p", Code.PORT_MISSING, None) in problems(pipeline(nodes, "a.late -> p"))
    assert ("p", Code.PORT_MISSING, None) in problems(pipeline(nodes, "a -> p.left"))


def test_a_cycle_is_found_and_nothing_is_said_of_what_lies_below() -> None:
    nodes = {
        "a": orders(),
        "u": node("union", "U"),
        "f": node("filter", "F", condition="nonsense"),
        "p": node("sink.print", "P"),
    }
    found = problems(pipeline(nodes, "a -> u", "f -> u", "u -> f", "f -> p"))
    assert found == [("f", Code.CYCLE, None), ("u", Code.CYCLE, None)]


def test_a_disabled_node_switches_off_what_hangs_on_it_alone() -> None:
    nodes = {
        "a": orders(),
        "b": orders() | {"name": "More", "uid": "more", "disabled": True},
        "f": node("filter", "F", condition="id > 0"),
        "u": node("union", "U"),
        "p": node("sink.print", "P"),
        "q": node("sink.print", "Q"),
    }
    value = pipeline(nodes, "a -> u", "b -> u", "u -> p", "b -> f", "f -> q")
    found = validated(value)
    assert found.is_deployable
    assert found.inactive == {"b", "f", "q"}
    assert [(problem.node, problem.code) for problem in found.problems] == [
        ("f", Code.DISABLED_UPSTREAM),
        ("q", Code.DISABLED_UPSTREAM),
    ]


def test_names_and_uids_are_unique() -> None:
    twin = orders()
    value = pipeline({"a": orders(), "b": twin, "c": orders() | {"name": "C", "uid": "x/left"}})
    assert problems(value) == [
        ("b", Code.NAME_TAKEN, "/name"),
        ("b", Code.UID_TAKEN, "/uid"),
        ("c", Code.BAD_PARAM, "/uid"),
    ]


def test_two_pieces_of_code_may_not_define_one_name() -> None:
    code = {"code": ["def f(row):", "    return (HALF,)"], "type": [["a", "double"]]}
    nodes = {"a": orders(), "m": node("python.map", "M", **code), "n": node("python.map", "N", **code)}
    value = pipeline(nodes, "a -> m", "a -> n", code=["HALF = 0.5"])
    (problem,) = validated(value).problems
    assert (problem.node, problem.code, problem.related) == ("n", Code.NAME_DEFINED_TWICE, (("m", "/params/code"),))


def named_twice(first: list[str], second: list[str], shared: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
    """Node, name and field of each name that two of three pieces of code define."""
    codes = {"m": [*first, "def f(row): return row"], "n": [*second, "def g(row): return row"]}
    nodes: dict[str, Any] = {"a": orders()}
    for node_id, code in codes.items():
        nodes[node_id] = node("python.map", f"Map {node_id}", code=code, type=[["a", "double"]])
    found = validated(pipeline(nodes, "a -> m", "a -> n", code=list(shared))).problems
    assert all(problem.code is Code.NAME_DEFINED_TWICE for problem in found), found
    return [(str(problem.node), problem.message.split()[0], str(problem.field)) for problem in found]


@pytest.mark.parametrize(
    "second",
    [
        ["LIMIT = 5"],
        ["LIMIT = 100"],
        ["LIMIT: int = 5"],
        ["OTHER = LIMIT = 5"],
        ["a, (LIMIT, *b) = 1, (2, 3)"],
        ["LIMIT = 1", "LIMIT += 1"],
        ["for LIMIT in (): pass"],
        ["for a in ():", "    with open('x') as LIMIT: pass"],
        ["import LIMIT"],
        ["import LIMIT.more"],
        ["from os import sep as LIMIT"],
        ["def LIMIT(): pass"],
        ["async def LIMIT(): pass"],
        ["class LIMIT: pass"],
        ["if (LIMIT := 5): pass"],
        ["a = [LIMIT := x for x in ()]"],
        ["try: pass", "except OSError as LIMIT: pass"],
        ["match 1:", "    case [*LIMIT]: pass"],
        ["match 1:", "    case {**LIMIT}: pass"],
        ["match 1:", "    case LIMIT: pass"],
        ["LIMIT = 1", "del LIMIT"],
    ],
)
def test_a_name_that_two_pieces_of_code_bind_is_reported(second: list[str]) -> None:
    line = next(index for index, text in enumerate(second) if "LIMIT" in text)
    assert named_twice(["LIMIT = 100"], second) == [("n", "LIMIT", f"/params/code/{line}")]
    assert named_twice(second, ["LIMIT = 100"]) == [("n", "LIMIT", "/params/code/0")]


def test_two_descriptors_of_one_name_are_reported_with_both_nodes() -> None:
    codes = [
        [f"def {name}(row): return (row['cents'] > LIMIT,)", f"LIMIT = {limit}"] for name, limit in (("f", 1), ("g", 2))
    ]
    nodes = {"a": orders()}
    for node_id, code in zip("mn", codes, strict=True):
        nodes[node_id] = node("python.map", f"Map {node_id}", code=code, type=[["a", "boolean"]])
    (problem,) = validated(pipeline(nodes, "a -> m", "a -> n")).problems
    assert problem.message == "LIMIT is defined in 'Map m' and in 'Map n': both would use that of 'Map n'"
    assert (problem.node, problem.field, problem.related) == ("n", "/params/code/1", (("m", "/params/code"),))
    nodes.pop("m")
    (problem,) = validated(pipeline(nodes, "a -> n", code=["LIMIT = 3"])).problems
    assert "in the pipeline's shared code and in 'Map n'" in problem.message
    assert problem.related == (("", "/code"),)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["import os.path, sys as s"], ["import os", "import sys as s"]),
        (["from os import path as p"], ["from os import path as p"]),
        (["try: import a", "except OSError: import b as a"], ["try: import b as a", "except OSError: import a"]),
        # names of other scopes, and what binds nothing
        (["x = [i for i in ()]"], ["y = {i: j for i, j in ()}"]),
        (["x = lambda i: i"], ["i = 1"]),
        (["def a(i): j = 1"], ["class b:", "    i = j = 1"]),
        (["i = 1"], ["i: int"]),
        (["i = 1", "def a():", "    i = 2"], ["def b():", "    global i", "    i = 3"]),
        (["x = 1"], ["from os import *"]),
    ],
)
def test_names_that_disturb_no_other_piece_of_code_are_not_reported(first: list[str], second: list[str]) -> None:
    assert named_twice(first, second) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["import a as x"], ["import b as x"]),
        (["from a import x"], ["from b import x"]),
        (["from a import x"], ["from .a import x"]),
        (["import x"], ["try: import x", "except OSError: x = None"]),
    ],
)
def test_imports_of_other_things_under_one_name_are_reported(first: list[str], second: list[str]) -> None:
    assert [name for _, name, _ in named_twice(first, second)] == ["x"]


TOTAL = {"keys": ["id"], "aggregates": [["total", "sum(cents)"]]}
TABLE = {"connection": "pg", "table": "totals", "mode": {"kind": "upsert", "keys": ["id"]}}


def totals(*above: dict[str, Any]) -> dict[str, Any]:
    """A pipeline of running totals that a table is updated by."""
    total, table = node("aggregate", "Total", **TOTAL), node("sink.postgres", "Table", **TABLE)
    return chain(orders(), total, *above, table)


@pytest.mark.parametrize("partitioning", ["rebalance", "rescale", "shuffle", "broadcast", "global"])
def test_a_partitioning_before_a_table_that_is_updated_is_taken_off(partitioning: str) -> None:
    value = totals()
    value["edges"]["e1"]["partitioning"] = partitioning
    (problem,) = validated(value).problems
    assert (problem.node, problem.port, problem.code) == ("n2", "in", Code.CHANGES_OUT_OF_ORDER)
    assert partitioning in problem.message
    made = patched(value, problem.fixes[0].patch)
    assert made["edges"]["e1"]["partitioning"] is None and validated(made).problems == ()


def test_a_partitioning_between_the_changelog_and_its_table_is_reported_where_it_is() -> None:
    value = totals(node("filter", "F", condition="total > 1"), node("columns", "C", rename=[["total", "sum"]]))
    value["edges"]["e0"]["partitioning"] = "rebalance"
    value["edges"]["e1"]["partitioning"] = "global"
    assert problems(value) == []
    value["edges"]["e2"]["partitioning"] = "shuffle"
    assert problems(value) == [("n3", Code.CHANGES_OUT_OF_ORDER, None)]
    value["nodes"]["n4"] = node("sink.print", "Print")
    assert problems(value) == []


def test_new_rows_may_be_dealt_out_before_a_table() -> None:
    value = chain(orders(), node("sink.postgres", "Table", **TABLE))
    value["edges"]["e0"]["partitioning"] = "rebalance"
    assert problems(value) == []


def test_a_name_that_is_missing_is_marked_where_it_stands() -> None:
    code = ["def f(row):", '    return "é", missing(row)']
    value = chain(orders(), node("python.map", "M", code=code, type=[["a", "string"], ["b", "long"]]))
    (problem,) = validated(value).problems
    assert (problem.code, problem.field) == (Code.UNDEFINED_NAME, "/params/code/1")
    assert problem.span is not None and code[1][slice(*problem.span)] == "missing"


def test_spans_count_as_a_page_counts_characters() -> None:
    code = ["def f(row):", '    return "\N{WATER WAVE}", missing(row)']
    value = chain(orders(), node("python.map", "M", code=code, type=[["a", "string"], ["b", "long"]]))
    (problem,) = validated(value).problems
    assert problem.span is not None
    first, last = (2 * offset for offset in problem.span)
    assert code[1].encode("utf-16-le")[first:last].decode("utf-16-le") == "missing"


def test_settings_are_checked_like_options_of_a_job() -> None:
    settings = {
        "max_parallelism": 2,
        "parallelism": 4,
        "options": {"restart-strategy.type": "often", "execution.target": "spark", "paralelism.default": "2"},
    }
    found = problems(chain(orders(), node("filter", "F", condition="true"), settings=settings))
    assert (None, Code.BAD_PARAM, "/settings/options/restart-strategy.type") in found
    assert (None, Code.BAD_PARAM, "/settings/options/execution.target") in found
    assert (None, Code.OPTION_IGNORED, "/settings/options/paralelism.default") in found
    assert ("n1", Code.NOT_PARALLEL, "/max_parallelism") in found


def test_what_cannot_be_executed_in_micro_batches_is_told_at_its_field() -> None:
    aligned = {"kind": "column", "column": "at", "alignment": {"group": "g", "drift": "1 min"}}
    value = chain(
        orders(time=aligned),
        node("time.watermark", "W", column="at", idle="5 s"),
        node("sink.print", "P"),
        settings={"execution_mode": "micro-batch"},
    )
    value["nodes"]["socket"] = node("source.socket", "S", host="localhost", port=1)
    refused = {(of, field) for of, code, field in problems(value) if code is Code.NOT_IN_MICRO_BATCHES}
    assert refused == {("n0", "/params/time/alignment"), ("n1", "/params/idle"), ("socket", "/type")}
    value["settings"] = {"execution_mode": "streaming"}
    assert not [code for _, code, _ in problems(value) if code is Code.NOT_IN_MICRO_BATCHES]


def test_a_node_made_by_a_later_version_of_its_type_is_a_ghost() -> None:
    ghost = node("filter", "F", condition="true") | {"type_version": 2}
    value = chain(orders(), ghost, node("sink.print", "P"))
    assert problems(value) == [("n1", Code.NODE_TYPE_MISSING, "/type_version")]


def test_an_empty_pipeline_is_unfinished() -> None:
    assert problems(pipeline({})) == [(None, Code.EMPTY, None)]


def test_unbounded_state_and_unseen_files_are_warned_of() -> None:
    endless = node("source.nexmark", "Bids", kind="bids")
    files = node("sink.files", "Files", path="/x", format={"kind": "ndjson"})
    once = node("deduplicate", "Once", keys=["auction"])
    found = [
        (problem.node, problem.code, problem.severity) for problem in validated(chain(endless, once, files)).problems
    ]
    assert found == [
        ("n1", Code.GROWS_WITHOUT_BOUND, Severity.WARNING),
        ("n2", Code.EXACTLY_ONCE_WITHOUT_CHECKPOINTS, Severity.WARNING),
    ]


def test_parameters_of_the_pipeline_stand_for_their_values() -> None:
    value = chain(
        node("source.nexmark", "Bids", kind="bids", events={"$parameter": "events"}),
        node("sink.print", "P"),
        parameters=[{"name": "events", "type": "long", "default": 10}],
    )
    found = validated(value)
    assert found.problems == () and found.nodes["n0"].params["events"] == 10
    value["parameters"][0]["default"] = -1
    assert problems(value) == [("n0", Code.BAD_PARAM, "/params/events")]


def test_ports_follow_the_values_of_parameters() -> None:
    code = ["def f(row):", "    return row"]
    value = chain(
        orders(),
        node("python.map", "M", code=code, type=[["a", "string"]], changelog={"$parameter": "changes"}),
        parameters=[{"name": "changes", "type": "string", "default": "rows"}],
    )
    [port] = validated(value).ports["n1"].inputs
    assert port.takes_changelogs
    value["parameters"][0]["default"] = "refuse"
    [port] = validated(value).ports["n1"].inputs
    assert not port.takes_changelogs


def test_a_type_that_fails_is_a_problem_of_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("broken inside")

    monkeypatch.setattr(type(CATALOG.types["filter"]), "infer", fail)
    (problem,) = validated(chain(orders(), node("filter", "F", condition="true"))).problems
    assert (problem.code, problem.node) == (Code.NODE_TYPE_BROKEN, "n1") and "broken inside" in problem.message


def test_a_memo_changes_nothing_of_the_answer(tmp_path: Path) -> None:
    memo = Memo()
    for number in range(10):
        value = grown(random.Random(number), CATALOG, tmp_path)
        first = validate(read_document(value), CATALOG, memo)
        again = validate(read_document(value), CATALOG, memo)
        fresh = validated(value)
        assert first.problems == again.problems == fresh.problems
        assert first.facts == again.facts == fresh.facts
        assert (first.ports, first.labels) == (again.ports, again.labels) == (fresh.ports, fresh.labels)


def test_a_memo_knows_the_values_of_the_pipelines_parameters_apart() -> None:
    memo = Memo()
    value = chain(orders(), node("filter", "F", condition={"$parameter": "which"}))
    for default in ("cents > 1", "cents >", None, "cents > 2"):
        value["parameters"] = [{"name": "which", "type": "string", "default": default}]
        found, fresh = validate(read_document(value), CATALOG, memo), validated(value)
        assert (found.problems, found.labels) == (fresh.problems, fresh.labels)
        assert found.nodes.keys() == fresh.nodes.keys()


def three_hundred() -> dict[str, Any]:
    nodes = {"n000": orders()}
    edges = []
    for index in range(1, 300):
        before = f"n{(index - 1) // 2 * 2:03}" if index % 2 else f"n{index - 2:03}"
        made = node("with_columns", f"Node {index}", columns=[[f"c{index % 7}", f"cents + {index}"], ["item", "item"]])
        nodes[f"n{index:03}"] = made
        edges.append(f"{before} -> n{index:03}")
    return pipeline(nodes, *edges)


def test_an_edit_of_300_nodes_is_validated_at_once() -> None:
    value = three_hundred()
    memo = Memo()
    started = time.perf_counter()
    assert validate(read_document(value), CATALOG, memo).is_deployable
    whole = time.perf_counter() - started
    times = []
    for number in range(7):
        # near the end: an edit costs the nodes below it
        value["nodes"]["n280"]["params"]["columns"][0][1] = f"cents * {number}"
        document = read_document(value)
        started = time.perf_counter()
        validate(document, CATALOG, memo)
        times.append(time.perf_counter() - started)
    # 20 ms on a quiet machine; what counts is that unchanged nodes cost next to nothing
    assert statistics.median(times) < max(0.05, whole / 5), (whole, times)


def test_types_of_the_pipeline_are_declared_once() -> None:
    mapped = node("python.map", "M", code=["def f(row): return row"], type="order")
    value = chain(orders(), mapped, types={"order": {"columns": ORDER}})
    found = validated(value).facts["n1", "out"]
    assert isinstance(found, StreamFacts) and list(found.columns) == [name for name, _ in ORDER]


@pytest.mark.parametrize(
    ("columns", "code", "field"),
    [
        ([], Code.MISSING_PARAM, "/types/an~1order/columns"),
        ([["", "long"]], Code.MISSING_PARAM, "/types/an~1order/columns/0/0"),
        ([["id", "long"], ["at", "lon"]], Code.BAD_PARAM, "/types/an~1order/columns/1/1"),
        ([["id", "long"], ["id", "string"]], Code.NAME_TAKEN, "/types/an~1order/columns/1/0"),
        ([["__id", "long"]], Code.NAME_TAKEN, "/types/an~1order/columns/0/0"),
    ],
)
def test_a_type_that_is_not_right_is_a_problem_at_its_field(columns: Any, code: Code, field: str) -> None:
    mapped = node("python.map", "M", code=["def f(row): return row"], type="an/order")
    value = chain(orders(), mapped, node("sink.print", "P"), types={"an/order": {"columns": columns}})
    assert problems(value) == [("n1", Code.BAD_PARAM, "/params/type"), (None, code, field)]
    assert "is not right yet" in validated(value).problems[0].message
    assert not validated(value).is_deployable


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("string", "x", 1),
        ("long", 2**63 - 1, 2**63),
        ("long", 10, 1.5),
        ("long", 10, True),
        ("double", 1, "1.5"),
        ("double", 1.5, False),
        ("boolean", False, 0),
    ],
)
def test_the_value_of_a_parameter_is_of_its_type(kind: str, right: Any, wrong: Any) -> None:
    value = chain(orders(), node("sink.print", "P"))
    parameters = [{"name": "first", "type": "string"}, {"name": "second", "type": kind, "default": right}]
    assert problems(value | {"parameters": parameters}) == []
    parameters[1]["default"] = wrong
    assert problems(value | {"parameters": parameters}) == [(None, Code.TYPE_MISMATCH, "/parameters/1/default")]
