"""Nodes whose Python makes several outputs, windows or calls: what flows, and what is refused at which field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.pipeline import Code, compile_pipeline, load_catalog, read_document, validate
from tests.pipeline.pipelines import chain, node, orders, pipeline
from tests.pipeline.programs import previewed

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
