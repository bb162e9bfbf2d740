"""Nodes whose Python makes several outputs, windows or calls: what flows, and what is refused at which field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.client.pipeline_tests import run_pipeline_test
from runtime.pipeline import Code, compile_pipeline, load_catalog, read_document, validate
from runtime.pipeline.expectations import read_tests
from runtime.pipeline.python_code import engine_bases
from tests.pipeline.pipelines import chain, node, orders, pipeline
from tests.pipeline.programs import graph_of, previewed

CATALOG = load_catalog([])
LARGE = [
    "from runtime.common import Types",
    "from runtime.datastream import KeyedProcessFunction, OutputTag",
    "",
    'LARGE = OutputTag("large", Types.ROW_NAMED(["cents"], [Types.LONG()]))',
    "",
    "class Sorted(KeyedProcessFunction):",
    "    def process_element(self, value, ctx):",
    '        if value["cents"] > 200:',
    '            yield LARGE, (value["cents"],)',
    "        else:",
    '            yield (value["item"],)',
]
SORTED = {
    "keys": ["id"],
    "code": LARGE,
    "type": [["item", "string"]],
    "side_outputs": [{"tag": "LARGE", "type": [["cents", "long"]]}],
}
ASKED = [
    "from runtime.datastream import AsyncFunction, AsyncRetryStrategy",
    "",
    "TRIES = {}",
    "AGAIN = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: isinstance(error, OSError))",
    "",
    "class Asked(AsyncFunction):",
    "    async def async_invoke(self, value):",
    '        item = value["item"]',
    "        TRIES[item] = TRIES.get(item, 0) + 1",
    '        if item == "ink" and TRIES[item] < 3:',
    "            raise OSError('not there yet')",
    "        return [(item, TRIES[item])]",
]
ASK = {"code": ASKED, "type": [["item", "string"], ["tries", "long"]], "retry": "AGAIN"}
SPREAD = [
    "from runtime.datastream import ProcessWindowFunction",
    "",
    "class Spread(ProcessWindowFunction):",
    "    def process(self, key, context, elements):",
    '        cents = [row["cents"] for row in elements]',
    "        yield max(cents) - min(cents), context.window().end",
]
WINDOW = {"kind": "tumbling", "size": "10 s"}
SPREADS = {"keys": ["id"], "window": WINDOW, "code": SPREAD, "type": [["spread", "long"], ["end", "long"]]}


def shown(document: Any, directory: Path) -> dict[tuple[str, str], list[list[Any]]]:
    """Return the rows at each output in a preview of a pipeline."""
    program = compile_pipeline(read_document(document), CATALOG)
    assert program.is_deployable, program.problems
    frames, end = previewed(program, directory / "pipeline.py")
    assert end["state"] == "finished", end
    return {place: [list(row.values()) for row in frame["sample"]] for place, frame in frames.items()}


def test_each_tag_is_an_output_of_its_own(tmp_path: Path) -> None:
    nodes = {"a": orders(), "s": node("python.process", "Sorted", **SORTED), "p": node("sink.print", "Print")}
    rows = shown(pipeline(nodes, "a -> s", "s.LARGE -> p"), tmp_path)
    assert sorted(rows["s", "out"]) == [["pen"], ["pen"]] and rows["s", "LARGE"] == [[900]]


def test_calls_are_tried_again_as_the_code_says(tmp_path: Path) -> None:
    rows = shown(chain(orders(), node("python.async", "Ask", **ASK), node("sink.print", "Print")), tmp_path)
    assert rows["n1", "out"] == [["pen", 1], ["ink", 3], ["pen", 2]]


def test_a_class_makes_the_results_of_windows(tmp_path: Path) -> None:
    rows = shown(chain(orders(), node("window.python", "Spread", **SPREADS), node("sink.print", "Print")), tmp_path)
    assert sorted(rows["n1", "out"]) == [[0, 10_000], [5, 10_000]]


BUILT = [
    "from runtime.common import Types",
    "",
    "ITEMS = Types.ROW_NAMED(['item'], [Types.STRING()])",
    "",
    "def build(env, orders, others):",
    "    items = orders.union(others).map(lambda row: (row['item'],), ITEMS)",
    "    return items, others.where('cents > 200').select('cents')",
]
BUILDS = {
    "inputs": ["orders", "others"],
    "outputs": [{"name": "items", "type": [["item", "string"]]}, {"name": "dear", "type": [["cents", "long"]]}],
    "code": BUILT,
}


def test_a_function_builds_streams_from_streams(tmp_path: Path) -> None:
    nodes = {"a": orders(), "b": node("python.stream", "Built", **BUILDS), "p": node("sink.print", "Print")}
    rows = shown(pipeline(nodes, "a -> b.orders", "a -> b.others", "b.dear -> p"), tmp_path)
    assert sorted(rows["b", "items"]) == sorted(2 * [["pen"], ["ink"], ["pen"]])
    assert rows["b", "dear"] == [[900]]


def test_what_a_function_builds_belongs_to_its_node() -> None:
    nodes = {"a": orders(), "b": node("python.stream", "Built", **BUILDS), "p": node("sink.print", "Print")}
    program = compile_pipeline(read_document(pipeline(nodes, "a -> b.orders", "a -> b.others", "b.dear -> p")), CATALOG)
    operators = [operator for vertex in graph_of(program, "Test").vertices for operator in vertex.operators]
    places = {operator.name: program.source_map.at_definition(operator.defined_at) for operator in operators}
    found = {name: None if place is None else place.node for name, place in places.items()}
    assert found == {
        "Source: Orders": "a",
        "Orders: time": "a",
        "Map": "b",
        "Where": "b",
        "Select": "b",
        "Sink: Print": "p",
    }


def test_rows_are_given_in_place_of_the_first_output_of_a_function(tmp_path: Path) -> None:
    makes = [
        "from runtime.common import Types",
        "",
        "def make(env):",
        "    return env.from_collection([(1,), (2,)], Types.ROW_NAMED(['n'], [Types.LONG()]))",
    ]
    source = {"inputs": [], "outputs": [{"name": "items", "type": [["n", "long"]]}], "code": makes}
    made = pipeline(
        {"n0": node("python.stream", "Makes", **source), "n1": node("sink.print", "Print")},
        "n0.items -> n1",
        tests=[{"name": "seven", "given": {"n0": [[{"n": 7}, None]]}, "expect": {"n0": [{"n": 7}]}}],
    )
    document = read_document(made)
    [test] = read_tests(document, CATALOG)
    result = run_pipeline_test(document, CATALOG, compile_pipeline(document, CATALOG), test)
    assert result.passed, result.to_json()


@pytest.mark.parametrize("ends", ["makes", "reads"])
def test_a_function_may_be_a_source_or_a_sink(ends: str, tmp_path: Path) -> None:
    makes = [
        "from runtime.common import Types",
        "",
        "def make(env):",
        "    return env.from_collection([(1,), (2,)], Types.ROW_NAMED(['n'], [Types.LONG()]))",
    ]
    source = {"inputs": [], "outputs": [{"name": "out", "type": [["n", "long"]]}], "code": makes}
    reads = {"inputs": ["orders"], "outputs": [], "code": ["def read(env, orders):", "    orders.print()"]}
    made = {
        "makes": chain(node("python.stream", "Makes", **source), node("sink.print", "Print")),
        "reads": pipeline({"a": orders(), "b": node("python.stream", "Reads", **reads)}, "a -> b.orders"),
    }[ends]
    rows = shown(made, tmp_path)
    if ends == "makes":
        assert rows["n0", "out"] == [[1], [2]]
    else:
        assert len(rows["a", "out"]) == 3


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("orders.select('item', 'cents')", "as declared"),
        ("orders.map(str)", "are Python objects: give the last operator the output type"),
        ("None", "the function has to return the stream 'out', and has returned 0 streams"),
        ("(orders, orders)", "has returned 2 streams"),
        ("'orders'", "has returned a str"),
    ],
)
def test_streams_that_are_not_as_declared_are_refused_at_their_node(last: str, says: str, tmp_path: Path) -> None:
    code = ["def build(env, orders):", f"    return {last}"]
    params = {"inputs": ["orders"], "outputs": [{"name": "out", "type": [["item", "string"]]}], "code": code}
    nodes = {"a": orders(), "b": node("python.stream", "Built", **params), "p": node("sink.print", "Print")}
    program = compile_pipeline(read_document(pipeline(nodes, "a -> b.orders", "b -> p")), CATALOG)
    assert program.is_deployable, program.problems
    _, end = previewed(program, tmp_path / "pipeline.py")
    assert (end["state"], end["node"]) == ("failed", "b")
    assert says in end["message"]


def test_the_engines_classes_that_a_class_derives_from_are_found_without_running_it() -> None:
    code = [
        "import abc, json",
        "import runtime.datastream",
        "import runtime.datastream as engine",
        "from somewhere import Unknown",
        "from runtime.datastream import BroadcastProcessFunction as Plain, RichFunction",
        "class A(Plain, abc.ABC): ...",
        "class B(A): ...",
        "class C(engine.KeyedProcessFunction[int, str]): ...",
        "class D(runtime.datastream.AsyncFunction, RichFunction): ...",
        "class E: ...",
        "class F(A, Unknown): ...",
        "@json.loads",
        "class G(A): ...",
        "class H(A, metaclass=type): ...",
        "class I(A): ...",
        "I = json.loads(I)",
        "def J(): return A()",
        "class K(K): ...",
    ]
    found = {name: engine_bases(code, name) for name in "ABCDEFGHIJK"}
    assert found == {
        **dict.fromkeys("AB", frozenset({"BroadcastProcessFunction"})),
        "C": {"KeyedProcessFunction"},
        "D": {"AsyncFunction", "RichFunction"},
        **dict.fromkeys("EK", frozenset()),
        **dict.fromkeys("FGHIJ"),
    }


def ruled(base: str, keys: list[str]) -> list[tuple[str | None, Code, str | None, str]]:
    """Return the problems of rules for a class of a kind."""
    code = [
        "from runtime.common import Types",
        f"from runtime.datastream import {base}",
        "from runtime.datastream.state import MapStateDescriptor",
        "RULES = MapStateDescriptor('rules', Types.LONG(), Types.STRING())",
        f"class Base({base}): ...",
        "class Ruled(Base): ...",
    ]
    rules = node("python.broadcast", "Ruled", keys=keys, states=["RULES"], code=code, type=[["id", "long"]])
    value = pipeline({"o": orders(), "r": rules, "p": node("sink.print", "P")}, "o -> r", "o -> r.rules", "r -> p")
    problems = validate(read_document(value), CATALOG).problems
    return [(each.node, each.code, each.field, each.message) for each in problems if each.is_blocking]


@pytest.mark.parametrize(
    ("base", "keys", "says"),
    [
        ("BroadcastProcessFunction", ["id"], "has to be a KeyedBroadcastProcessFunction with keys"),
        ("KeyedBroadcastProcessFunction", [], "has to be a BroadcastProcessFunction without keys"),
    ],
)
def test_a_class_for_rules_is_of_the_kind_that_goes_with_the_keys(base: str, keys: list[str], says: str) -> None:
    message = f"Ruled derives from {base}, and {says}"
    assert ruled(base, keys) == [("r", Code.TYPE_MISMATCH, "/params/code", message)]
    assert ruled(base, [] if keys else ["id"]) == []


def tags(*names: str) -> list[dict[str, Any]]:
    return [{"tag": name, "type": [["cents", "long"]]} for name in names]


@pytest.mark.parametrize(
    ("kind", "params", "code", "field"),
    [
        (
            "python.process",
            {**SORTED, "side_outputs": tags("SMALL")},
            Code.UNDEFINED_NAME,
            "/params/side_outputs/0/tag",
        ),
        (
            "python.process",
            {**SORTED, "side_outputs": tags("LARGE", "LARGE")},
            Code.NAME_TAKEN,
            "/params/side_outputs/1/tag",
        ),
        (
            "python.process",
            {**SORTED, "code": [*LARGE, "out = LARGE"], "function": "Sorted", "side_outputs": tags("out")},
            Code.NAME_TAKEN,
            "/params/side_outputs/0/tag",
        ),
        (
            "python.process",
            {**SORTED, "side_outputs": [{"tag": "LARGE", "type": []}]},
            Code.MISSING_PARAM,
            "/params/side_outputs/0/type",
        ),
        ("window.python", {**SPREADS, "keys": []}, Code.TYPE_MISMATCH, "/params/code"),
        ("window.python", {**SPREADS, "method": "aggregate"}, Code.TYPE_MISMATCH, "/params/code"),
        ("python.process", {**SORTED, "code": ["class Plain:", "    pass"]}, Code.TYPE_MISMATCH, "/params/code"),
        ("python.async", {**ASK, "retry": "NEVER"}, Code.UNDEFINED_NAME, "/params/retry"),
        ("python.async", {**ASK, "timeout": "-1 s"}, Code.BAD_PARAM, "/params/timeout"),
        ("python.async", {**ASK, "timeout": "0 s"}, Code.BAD_PARAM, "/params/timeout"),
        ("python.async", {**ASK, "capacity": 0}, Code.BAD_PARAM, "/params/capacity"),
        ("window.python", {**SPREADS, "lateness": "-1 s"}, Code.BAD_PARAM, "/params/lateness"),
        (
            "window.python",
            {**SPREADS, "time": "processing", "window": {"kind": "cumulative", "max": "1 min", "step": "1 s"}},
            Code.BAD_PARAM,
            "/params/window/kind",
        ),
        (
            "window.python",
            {**SPREADS, "time": "processing", "late_output": True},
            Code.BAD_PARAM,
            "/params/late_output",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_at_its_field(kind: str, params: dict[str, Any], code: Code, field: str) -> None:
    found = validate(read_document(chain(orders(), node(kind, "Node", **params))), CATALOG).problems
    assert [(each.node, each.code, each.field) for each in found if each.is_blocking] == [("n1", code, field)]
