"""A piece of a program as a node: Python that builds streams from streams with all of the DataStream API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.python import FUNCTION, NAME, RESULT, function_label, function_name
from runtime.pipeline.emit import Call, Expr, Imported, Listing, Literal, texts, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

_BUILT = Imported("runtime.datastream.built_streams", "BuiltStreams")
_BUILD = [
    "from runtime.common import Types",
    "",
    "EUROS = Types.ROW_NAMED(",
    '    ["auction", "euros"], [Types.LONG(), Types.DOUBLE()]',
    ")",
    "",
    "",
    "def build(env, bids):",
    '    dear = bids.where("price > 100")',
    "    return dear.map(",
    '        lambda bid: (bid["auction"], bid["price"] / 100), EUROS',
    '    ).uid("dear-euros")',
]


class PythonStream(NodeType):
    type = "python.stream"
    title = "Python streams"
    summary = "A Python function that builds streams from streams, with all of the DataStream API"
    category = "Python"
    icon = "python"
    has_operator = False
    keywords = ("DataStream", "API", "escape", "custom", "build", "source", "sink", "function")
    docs = (
        "For what no other node does. The function takes the environment and the stream of each input, in order, and "
        "returns the stream of its output, a tuple of streams where there are several outputs, or nothing where there "
        "are none. It runs once, when the program is compiled into a job; the operators that it adds are the job's. "
        "Give those with state a uid, so that their state is found again. Each output is checked against its declared "
        "columns. Without inputs the node is a source, without outputs a sink."
    )
    schema = fields.form(
        (),
        inputs={
            "type": "array",
            "items": {**NAME, "title": "Name"},
            "maxItems": 20,
            "uniqueItems": True,
            "default": ["in"],
            "title": "Inputs",
        },
        outputs={
            "type": "array",
            "items": fields.form(("name", "type"), name={**NAME, "title": "Name"}, type=RESULT),
            "maxItems": 20,
            "default": [],
            "title": "Outputs",
        },
        code=fields.python(_BUILD),
        function=FUNCTION,
        time={
            **fields.choice("inputs", "code", default="inputs"),
            "title": "Event time",
            "description": "code: the function assigns timestamps and watermarks itself.",
        },
        changelog={**fields.choice("refuse", "take", default="refuse"), "title": "Streams that take rows back"},
    )
    examples = (
        Example(
            "Dear bids in euros",
            {
                "outputs": [{"name": "out", "type": [["auction", "long"], ["euros", "double"]]}],
                "code": _BUILD,
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        takes = params.get("changelog") == "take"
        option = "" if takes else "set its Streams that take rows back to take"
        inputs = _names(params.get("inputs", ["in"]))
        return Ports(
            tuple(Port(name, takes_changelogs=takes, changelog_option=option) for name in inputs),
            tuple(map(Port, _output_names(params))),
        )

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        function_name(node)
        params = node.params
        if params["changelog"] == "refuse" and params["inputs"]:
            node.needs_appends(*params["inputs"])
        inputs = [node.input(name) for name in params["inputs"]]
        by_code = params["time"] == "code"
        made: dict[str, StreamFacts] = {}
        for index, output in enumerate(params["outputs"]):
            pointer = f"/params/outputs/{index}"
            if output["name"] in made:
                message = f"two outputs are named {output['name']!r}"
                raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"{pointer}/name"))
            row = node.declared_type(output["type"], f"{pointer}/type")
            made[output["name"]] = StreamFacts(
                row,
                event_time=by_code or (bool(inputs) and all(facts.event_time for facts in inputs)),
                watermarks=by_code or (bool(inputs) and all(facts.watermarks for facts in inputs)),
                bounded=bool(inputs) and all(facts.bounded for facts in inputs),
                origins=tuple((name, (node.node_id, name)) for name in row.field_names),
            )
        return made

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node = context.node
        function = context.define(node.params["code"], function_name(node))
        names = [output["name"] for output in node.params["outputs"]]
        streams = [context.input(name) for name in node.params["inputs"]]
        built = _BUILT(Call(function, (context.env, *streams)), Listing(texts(names)))
        if not names:
            context.run(built)
            return {}
        holder = built if len(names) == 1 else context.assign(built, "streams")
        made = {}
        for index, output in enumerate(node.params["outputs"]):
            row = type_expr(node.declared_type(output["type"], f"/params/outputs/{index}/type"))
            call = holder.call("output", Literal(output["name"]), row)
            made[output["name"]] = context.assign(call, output["name"] if len(names) > 1 else "")
        return made


def _names(value: Any) -> list[str]:
    """Return names of ports, as far as they are written."""
    found = value if isinstance(value, Sequence) and not isinstance(value, str) else []
    return [name for name in dict.fromkeys(item for item in found if isinstance(item, str)) if name]


def _output_names(params: Mapping[str, Any]) -> list[str]:
    outputs = params.get("outputs")
    found = outputs if isinstance(outputs, list) else []
    return _names([output.get("name") for output in found if isinstance(output, dict)])


NODE_TYPES = (PythonStream,)
