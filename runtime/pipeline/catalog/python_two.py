"""Python over two streams: with a state that both share, or with rules that reach every subtask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.common.typeinfo import RowTypeInfo
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.joins import LEFT, RIGHT
from runtime.pipeline.catalog.python import (
    CLASS,
    NAME,
    RESULT,
    check_defined,
    class_name,
    function_label,
    function_name,
)
from runtime.pipeline.emit import Call, Expr, Variable, texts, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import APPENDS, OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

RULES = Port("rules", help="Rows that every subtask gets.", takes_changelogs=False)
_WATCH = [
    "from runtime.common import Types",
    "from runtime.datastream import KeyedBroadcastProcessFunction",
    "from runtime.datastream.state import MapStateDescriptor",
    "",
    'RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())',
    "",
    "",
    "class Watched(KeyedBroadcastProcessFunction):",
    "    def process_element(self, value, ctx):",
    '        limit = ctx.get_broadcast_state(RULES).get(value["auction"])',
    '        if limit is not None and value["price"] > limit:',
    '            yield value["auction"], value["price"]',
    "",
    "    def process_broadcast_element(self, value, ctx):",
    '        ctx.get_broadcast_state(RULES).put(value["auction"], value["limit"])',
    "        return []",
]
_MATCH = [
    "from runtime.common import Types",
    "from runtime.datastream import KeyedCoProcessFunction",
    "from runtime.datastream.state import ValueStateDescriptor",
    "",
    "",
    "class Matched(KeyedCoProcessFunction):",
    "    def open(self, runtime_context):",
    '        self.item = runtime_context.get_state(ValueStateDescriptor("item", Types.STRING()))',
    "",
    "    def process_element1(self, value, ctx):",
    '        self.item.update(value["item"])',
    "        return []",
    "",
    "    def process_element2(self, value, ctx):",
    '        yield value["order"], self.item.value(), value["cents"]',
]


def of_both(node: NodeInput, row: RowTypeInfo, other: str, port: str) -> StreamFacts:
    """Return the facts of rows that a function makes of two streams: their clock is the slower one's."""
    facts = [node.input(port), node.input(other)]
    origins = tuple((name, (node.node_id, name)) for name in row.field_names)
    return StreamFacts(
        row,
        event_time=all(found.event_time for found in facts),
        watermarks=all(found.watermarks for found in facts),
        bounded=all(found.bounded for found in facts),
        origins=origins,
    )


class PythonCoProcess(NodeType):
    type = "python.co_process"
    title = "Python process of two"
    summary = "A Python class over two streams, with state and timers that both share"
    category = "Python"
    icon = "python"
    keywords = ("KeyedCoProcessFunction", "connect", "state", "timer", "key by")
    docs = (
        "The class is a KeyedCoProcessFunction: `process_element1(value, ctx)` takes rows of the left stream, "
        "`process_element2` those of the right one, `on_timer(timestamp, ctx)` timers; all yield rows of the declared "
        "columns. Rows of equal keys meet the same state."
    )
    schema = fields.form(
        ("left_keys", "right_keys", "type"),
        left_keys=fields.columns("left"),
        right_keys=fields.columns("right"),
        code=fields.python(_MATCH),
        function=CLASS,
        type=RESULT,
    )
    examples = (
        Example(
            "The item of each payment",
            {
                "left_keys": ["order"],
                "right_keys": ["order"],
                "code": _MATCH,
                "type": [["order", "long"], ["item", "string"], ["cents", "long"]],
            },
            inputs={
                "left": 'row<"order": long, "item": string, "ordered_at": sql_timestamp>',
                "right": 'row<"order": long, "cents": long, "paid_at": sql_timestamp>',
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{function_label(params)} {fields.per(params.get('left_keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((LEFT, RIGHT), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        left, right = node.keys("left_keys", "left"), node.keys("right_keys", "right")
        kinds = [[node.input(port).columns[key] for key in keys] for port, keys in (("left", left), ("right", right))]
        if kinds[0] != kinds[1]:
            message = "the keys of both sides must be of the same types, in the same order"
            raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, field="/params/right_keys"))
        class_name(node, "KeyedCoProcessFunction")
        node.needs_appends("left", "right")
        return {"out": of_both(node, node.declared_type(node.params["type"], "/params/type"), "right", "left")}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        function = context.define(params["code"], function_name(context.node))
        row = type_expr(context.node.declared_type(params["type"], "/params/type"))
        left = context.input("left").call("key_by_columns", *texts(params["left_keys"]))
        right = context.input("right").call("key_by_columns", *texts(params["right_keys"]))
        call = left.call("connect", right).call("process", Call(function), row)
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {
            **params,
            "left_keys": [names["left"].get(key, key) for key in params["left_keys"]],
            "right_keys": [names["right"].get(key, key) for key in params["right_keys"]],
        }


class PythonBroadcast(NodeType):
    type = "python.broadcast"
    title = "Python with rules"
    summary = "A Python class over a stream, with rules from another one that change while it runs"
    category = "Python"
    icon = "python"
    keywords = ("KeyedBroadcastProcessFunction", "BroadcastProcessFunction", "broadcast", "rules", "control stream")
    docs = (
        "Every subtask gets every row of `rules`. The code defines a `MapStateDescriptor` for them, which "
        "`process_broadcast_element(value, ctx)` fills and `process_element(value, ctx)` reads; both yield rows of the "
        "declared columns. With keys, the class is a KeyedBroadcastProcessFunction, which has timers and state too; "
        "without, a BroadcastProcessFunction. Event time follows the slower of both streams: let rules that are rare "
        "be idle."
    )
    schema = fields.form(
        ("states", "type"),
        keys={**fields.columns(least=0), "title": "Keys"},
        states={
            "type": "array",
            "items": NAME,
            "minItems": 1,
            "maxItems": 20,
            "uniqueItems": True,
            "default": ["RULES"],
            "title": "MapStateDescriptors that the code defines",
        },
        code=fields.python(_WATCH),
        function=CLASS,
        type=RESULT,
    )
    examples = (
        Example(
            "Bids above a limit",
            {
                "keys": ["auction"],
                "states": ["RULES"],
                "code": _WATCH,
                "type": [["auction", "long"], ["price", "long"]],
            },
            inputs={"rules": 'row<"auction": long, "limit": long, "since": sql_timestamp>'},
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS, RULES), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        if params["keys"]:
            node.keys()
        keyed, when = ("Keyed", "with keys") if params["keys"] else ("", "without keys")
        class_name(node, f"{keyed}BroadcastProcessFunction", when)
        for index, name in enumerate(params["states"]):
            check_defined(params, name, f"/params/states/{index}")
        node.needs_appends("in", "rules")
        return {"out": of_both(node, node.declared_type(params["type"], "/params/type"), "rules", "in")}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        function = context.define(params["code"], function_name(context.node))
        row = type_expr(context.node.declared_type(params["type"], "/params/type"))
        stream = context.input()
        if params["keys"]:
            stream = stream.call("key_by_columns", *texts(params["keys"]))
        rules = context.input("rules").call("broadcast", *map(Variable, params["states"]))
        call = stream.call("connect", rules).call("process", Call(function), row)
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "keys": [names["in"].get(key, key) for key in params["keys"]]}


NODE_TYPES = (PythonCoProcess, PythonBroadcast)
