"""Windows whose results a Python class makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.python import CLASS, RESULT, class_name, function_label, function_name, made_by_python
from runtime.pipeline.catalog.windows import LATE, LATENESS, WINDOW, check_time, late_facts, windows_of, with_late
from runtime.pipeline.emit import Call, Expr, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import APPENDS, OUT, EmitContext, Example, NodeInput, NodeType, Ports

_SPREAD = [
    "from runtime.datastream import ProcessWindowFunction",
    "",
    "",
    "class Spread(ProcessWindowFunction):",
    "    def process(self, key, context, elements):",
    "        rows = list(elements)",
    '        prices = [row["price"] for row in rows]',
    '        yield rows[0]["auction"], max(prices) - min(prices)',
]


class WindowPython(NodeType):
    type = "window.python"
    title = "Window in Python"
    summary = "A Python class that makes the results of each key and window of time"
    icon = "window"
    category = "Windows"
    keywords = ("ProcessWindowFunction", "AggregateFunction", "tumbling", "sliding", "session", "cumulate", "key by")
    docs = (
        "With Process, the class is a ProcessWindowFunction: `process(key, context, elements)` gets all rows of the "
        "window and yields rows of the declared columns. With Aggregate it is an AggregateFunction, which keeps an "
        "accumulator instead of the rows. Without keys, one subtask has all rows, and Process needs a "
        "ProcessAllWindowFunction, whose `process(context, elements)` has no key. Prefer Window aggregate where SQL "
        "will do: it is many times as fast."
    )
    schema = fields.form(
        ("window", "type"),
        keys={**fields.columns(least=0), "title": "Keys; none: all rows together"},
        window=WINDOW,
        time={**fields.choice("event", "processing", default="event"), "title": "Time"},
        code=fields.python(_SPREAD),
        function=CLASS,
        method={**fields.choice("process", "aggregate", default="process"), "title": "The class can"},
        type=RESULT,
        lateness=LATENESS,
        late_output=fields.boolean(False),
    )
    examples = (
        Example(
            "Spread of prices",
            {
                "keys": ["auction"],
                "window": {"kind": "tumbling", "size": "10 s"},
                "code": _SPREAD,
                "type": [["auction", "long"], ["spread", "long"]],
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{function_label(params)} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT, LATE) if params.get("late_output") is True else (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        if params["keys"]:
            node.keys()
        if params["method"] == "aggregate":
            class_name(node, "AggregateFunction", "for Aggregate")
        elif params["keys"]:
            class_name(node, "ProcessWindowFunction", "with keys")
        else:
            class_name(node, "ProcessAllWindowFunction", "without keys")
        node.needs_appends()
        check_time(node, ("tumbling", "sliding", "session"))
        made = made_by_python(node, node.declared_type(params["type"], "/params/type"))
        if params["time"] == "processing":
            # results of windows by the clock have its time
            made = replace(made, event_time=True)
        return {"out": made, "late": late_facts(node.input())} if params["late_output"] else {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node, params = context.node, context.node.params
        function = Call(context.define(params["code"], function_name(node)))
        row = type_expr(node.declared_type(params["type"], "/params/type"))
        windows, tag = windows_of(context)
        made = windows.call(params["method"], function, output_type=row)
        return with_late(context, context.assign(context.operator(made)), tag)

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "keys": [names["in"].get(key, key) for key in params["keys"]]}


NODE_TYPES = (WindowPython,)
