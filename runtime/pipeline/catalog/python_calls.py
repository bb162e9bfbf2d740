"""Python that waits for others: asynchronous calls, many at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.common.time import Duration
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.python import (
    CLASS,
    FUNCTION,
    RESULT,
    check_defined,
    class_name,
    function_label,
    function_name,
    made_by_python,
)
from runtime.pipeline.emit import Call, Expr, Imported, Literal, Variable, duration, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import APPENDS, OUT, EmitContext, Example, NodeInput, NodeType, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

_ASK = [
    "import asyncio",
    "",
    "from runtime.datastream import AsyncFunction",
    "",
    "",
    "class Rated(AsyncFunction):",
    "    async def async_invoke(self, value):",
    "        # in place of this: await a client's call",
    "        await asyncio.sleep(0.001)",
    '        return [(value["auction"], value["price"] / 100)]',
]
_STREAM = Imported("runtime.datastream", "AsyncDataStream")


class PythonAsync(NodeType):
    type = "python.async"
    title = "Python async"
    summary = "A Python class that asks a service for each row, with many calls under way"
    category = "Python"
    icon = "python"
    keywords = ("AsyncFunction", "await", "http", "lookup", "enrich", "service", "retry")
    docs = (
        "The class is an AsyncFunction: `async def async_invoke(self, value)` returns a list of rows of the declared "
        "columns. Up to Capacity calls of a subtask are under way; then the stream waits. A call that takes longer "
        "than Timeout fails the job, unless the class has a method `timeout(self, value)` that returns rows instead. "
        "The code may define an `AsyncRetryStrategy`, which says which failures are tried again and when."
    )
    schema = fields.form(
        ("type",),
        code=fields.python(_ASK),
        function=CLASS,
        type=RESULT,
        ordered={**fields.boolean(True), "title": "Keep the order of rows"},
        timeout={**fields.duration("1 min"), "title": "Timeout"},
        capacity={**fields.integer(100, 1, 100_000), "title": "Capacity"},
        retry={**FUNCTION, "title": "AsyncRetryStrategy that the code defines"},
    )
    examples = (Example("Rated", {"code": _ASK, "type": [["auction", "long"], ["euros", "double"]]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        class_name(node, "AsyncFunction")
        if params["retry"] is not None:
            check_defined(params, params["retry"], "/params/retry")
        timeout_ms = Duration.parse(params["timeout"]).to_millis()
        if timeout_ms < 0 or (timeout_ms == 0 and params["retry"] is not None):
            message = "must not be negative" if timeout_ms < 0 else "calls that are retried need a timeout"
            raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/timeout"))
        node.needs_appends()
        return {"out": made_by_python(node, node.declared_type(params["type"], "/params/type"))}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        function = Call(context.define(params["code"], function_name(context.node)))
        row = type_expr(context.node.declared_type(params["type"], "/params/type"))
        method = "ordered_wait" if params["ordered"] else "unordered_wait"
        given: list[Expr] = [context.input(), function, duration(params["timeout"])]
        if params["retry"] is not None:
            method += "_with_retry"
            given.append(Variable(params["retry"]))
        call = _STREAM.call(method, *given, Literal(params["capacity"]), row)
        return {"out": context.assign(context.operator(call))}


NODE_TYPES = (PythonAsync,)
