"""Python of the pipeline's own: functions over rows. It runs where the job runs, never where it is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from runtime.common.typeinfo import RowTypeInfo
from runtime.operators.columnar.map_frames import EVENT_TIME
from runtime.pipeline.catalog import fields
from runtime.pipeline.emit import Call, Expr, Literal, Variable, texts, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import APPENDS, IN, OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem
from runtime.pipeline.python_code import definitions, engine_bases

NAME = {"type": "string", "pattern": r"^[A-Za-z_][A-Za-z0-9_]*\Z", "maxLength": 100}
"""A name that the code defines."""
FUNCTION = {
    **NAME,
    "type": ["string", "null"],
    "default": None,
    "title": "Function (the last one, if none is named)",
}
CLASS = {**FUNCTION, "title": "Class (the last one, if none is named)"}
RESULT = {**fields.row_type(), "title": "Columns of the result"}
_CHANGELOG = {**fields.choice("refuse", "rows", default="refuse"), "title": "Rows that take others back"}
_ASKS = Port("in", takes_changelogs=False, changelog_option="set its Rows that take others back to rows")


def function_name(node: NodeInput) -> str:
    """Return the name of the function or class that the node's code defines.

    Raises:
        NodeProblem: it defines none, or not the one that is named.
    """
    found = definitions(node.params["code"], "/params/code")
    name = node.params["function"] or (found.callables[-1] if found.callables else None)
    if name is None or name not in found.names:
        message = "defines no function or class" if name is None else f"does not define {name}"
        raise NodeProblem(Problem(Code.UNDEFINED_NAME, message, field="/params/code"))
    return name


def class_name(node: NodeInput, kind: str, when: str = "") -> str:
    """Return the name of the class that the node's code defines.

    Args:
        node: the node.
        kind: name of the engine's class that it has to derive from.
        when: what makes that so, for the problem; as "with keys".

    Raises:
        NodeProblem: there is none, or it is seen to be of another kind.
    """
    name = function_name(node)
    found = engine_bases(node.params["code"], name)
    if found is not None and kind not in found:
        derives = f"derives from {' and '.join(sorted(found))}" if found else "derives from no class of the engine"
        message = f"{name} {derives}, and has to be a {kind}{when and f' {when}'}"
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, field="/params/code"))
    return name


def check_defined(params: Mapping[str, Any], name: str, pointer: str) -> None:
    """Refuse a name that the node's code does not define.

    Raises:
        NodeProblem: it does not.
    """
    if name not in definitions(params["code"], "/params/code").names:
        raise NodeProblem(Problem(Code.UNDEFINED_NAME, f"the code does not define {name}", field=pointer))


def function_label(params: Mapping[str, Any]) -> str:
    """Return the name of the function or class that a node runs; "" if it defines none yet."""
    if params.get("function"):
        return str(params["function"])
    try:
        found = definitions(params.get("code") or [], "/params/code")
    except (NodeProblem, TypeError):
        # it is still being written
        return ""
    return found.callables[-1] if found.callables else ""


def check_changelog(node: NodeInput, port: str = "in") -> None:
    """Refuse a changelog whose rows the function has not asked for.

    Raises:
        NodeProblem: the stream is one.
    """
    if node.input(port).changelog == "retract" and node.params["changelog"] != "rows":
        message = "the function would treat rows that take others back as new ones"
        hint = "Pass them as rows, and check each row's get_row_kind()."
        raise NodeProblem(Problem(Code.NEEDS_APPENDS, message, port=port, field="/params/changelog", hint=hint))


def ports_by_choice(params: Mapping[str, Any]) -> Ports:
    """Return the ports of a node whose function may ask for the rows of changelogs."""
    return Ports((IN if params.get("changelog") == "rows" else _ASKS,), (OUT,))


def made_by_python(node: NodeInput, row: RowTypeInfo, port: str = "in") -> StreamFacts:
    """Return the facts of rows that a function makes: they have the event times of those that they are made of."""
    facts = node.input(port)
    origins = tuple((name, (node.node_id, name)) for name in row.field_names)
    return StreamFacts(
        row, event_time=facts.event_time, watermarks=facts.watermarks, bounded=facts.bounded, origins=origins
    )


def stream_for(context: EmitContext) -> Expr:
    """Return the input as the function is to see it."""
    stream = context.input()
    if context.node.input().changelog == "retract":
        return stream.call("changelog_as_rows")
    return stream


class _PythonType(NodeType):
    category = "Python"
    icon = "python"
    method: ClassVar[str]

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return ports_by_choice(params)

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        function_name(node)
        check_changelog(node)
        return {"out": made_by_python(node, node.declared_type(node.params["type"], "/params/type"))}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node = context.node
        function = context.define(node.params["code"], function_name(node))
        row = type_expr(node.declared_type(node.params["type"], "/params/type"))
        made = stream_for(context).call(self.method, function, row)
        return {"out": context.assign(context.operator(made))}


_MAP = ["def to_euros(row):", '    return row["auction"], row["price"] / 100']
_FLAT_MAP = ["def words(row):", '    for word in row["channel"].split():', "        yield (word,)"]
_FILTER = ["def is_round(row):", '    return row["price"] % 10 == 0']
_FRAMES = [
    "import polars as pl",
    "",
    "",
    "def to_euros(frame: pl.DataFrame) -> pl.DataFrame:",
    '    return frame.select("auction", euros=pl.col("price") / 100)',
]
_PROCESS = [
    "from runtime.common import Types",
    "from runtime.datastream import KeyedProcessFunction",
    "from runtime.datastream.state import ValueStateDescriptor",
    "",
    "",
    "class Numbered(KeyedProcessFunction):",
    "    def open(self, runtime_context):",
    '        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))',
    "",
    "    def process_element(self, value, ctx):",
    "        number = (self.seen.value() or 0) + 1",
    "        self.seen.update(number)",
    '        yield value["auction"], number',
]


class PythonMap(_PythonType):
    type = "python.map"
    method = "map"
    title = "Python map"
    summary = "A Python function from a row to a row"
    keywords = ("function", "lambda", "convert")
    docs = (
        'The function takes a row, `row["price"]`, and returns a tuple, list, dict or Row of the declared columns. '
        "Prefer Select where SQL will do: it is many times as fast."
    )
    schema = fields.form(("type",), code=fields.python(_MAP), function=FUNCTION, type=RESULT, changelog=_CHANGELOG)
    examples = (Example("Euros", {"code": _MAP, "type": [["auction", "long"], ["euros", "double"]]}),)


class PythonFlatMap(_PythonType):
    type = "python.flat_map"
    method = "flat_map"
    title = "Python flat map"
    summary = "A Python function from a row to any number of rows"
    keywords = ("function", "explode", "generator", "yield")
    docs = "The function returns or yields any number of rows, as those of Python map."
    schema = fields.form(("type",), code=fields.python(_FLAT_MAP), function=FUNCTION, type=RESULT, changelog=_CHANGELOG)
    examples = (Example("Words", {"code": _FLAT_MAP, "type": [["word", "string"]]}),)


class PythonFilter(NodeType):
    type = "python.filter"
    title = "Python filter"
    summary = "Keeps the rows for which a Python function is true"
    category = "Python"
    icon = "python"
    keywords = ("function", "where", "condition")
    docs = "The function takes a row and returns whether to keep it. Rows of a changelog keep their kinds."
    schema = fields.form((), code=fields.python(_FILTER), function=FUNCTION)
    examples = (Example("Round prices", {"code": _FILTER}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        function_name(node)
        return {"out": node.input()}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        function = context.define(context.node.params["code"], function_name(context.node))
        made = context.input().call("filter", function)
        return {"out": context.assign(context.operator(made))}


class PythonFrames(NodeType):
    type = "python.frames"
    title = "Python frames"
    summary = "A Python function from a Polars frame to a Polars frame"
    category = "Python"
    icon = "python"
    keywords = ("polars", "dataframe", "vectorised", "batch", "map_frames", "pandas")
    docs = (
        "The function takes a batch of rows as a `polars.DataFrame` and returns one of the declared columns, a row for "
        "each. Where a batch begins and ends depends on timing, so what becomes of a row must not depend on others. "
        "With `any`, the frame has a further column `event_time` (ms) and any number of rows may be returned with it. "
        "As fast as Polars is."
    )
    schema = fields.form(
        (),
        code=fields.python(_FRAMES),
        function=FUNCTION,
        type={**fields.row_type(0), "title": "Columns of the result (those of the input if empty)"},
        rows={**fields.choice("same", "any", default="same"), "title": "Rows that are returned"},
    )
    examples = (Example("Euros", {"code": _FRAMES, "type": [["auction", "long"], ["euros", "double"]]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return function_label(params)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        function_name(node)
        node.needs_appends()
        if node.params["rows"] == "any" and EVENT_TIME in node.named_rows().field_names:
            message = f"the column name {EVENT_TIME} is reserved for event times"
            hint = "Rename the column first."
            raise NodeProblem(Problem(Code.NAME_TAKEN, message, field="/params/rows", hint=hint))
        return {"out": made_by_python(node, self._row(node))}

    def _row(self, node: NodeInput) -> RowTypeInfo:
        declared = node.params["type"]
        return node.declared_type(declared, "/params/type") if declared else node.named_rows()

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        function = context.define(params["code"], function_name(context.node))
        row = [type_expr(self._row(context.node))] if params["type"] else []
        rows: dict[str, Expr] = {"rows": Literal("any")} if params["rows"] == "any" else {}
        call = context.input().call("map_frames", function, *row, **rows)
        return {"out": context.assign(context.operator(call))}


_SIDE_OUTPUTS = {
    "type": "array",
    "items": fields.form(("tag", "type"), tag={**NAME, "title": "OutputTag that the code defines"}, type=RESULT),
    "maxItems": 20,
    "default": [],
    "title": "Side outputs",
}


def _tags(params: Mapping[str, Any]) -> list[str]:
    """Return the names of the side outputs, as far as they are written."""
    sides = params.get("side_outputs")
    tags = [side.get("tag") for side in sides if isinstance(side, dict)] if isinstance(sides, list) else []
    return [tag for tag in dict.fromkeys(tags) if isinstance(tag, str) and tag not in ("", "out")]


class PythonProcess(NodeType):
    type = "python.process"
    title = "Python process"
    summary = "A Python class with state and timers for each key"
    category = "Python"
    icon = "python"
    keywords = ("KeyedProcessFunction", "state", "timer", "function", "key by")
    docs = (
        "The class is a KeyedProcessFunction: `process_element(value, ctx)` and `on_timer(timestamp, ctx)` yield rows "
        "of the declared columns; state is had in `open`. For side outputs the code defines tags, such as "
        '`LARGE = OutputTag("large", Types.ROW_NAMED(["price"], [Types.LONG()]))`, and yields `LARGE, row`; each tag '
        "that is named here is an output of the node."
    )
    schema = fields.form(
        ("keys", "type"),
        keys=fields.columns(),
        code=fields.python(_PROCESS),
        function=CLASS,
        type=RESULT,
        side_outputs=_SIDE_OUTPUTS,
        changelog=_CHANGELOG,
    )
    examples = (
        Example("Numbered", {"keys": ["auction"], "code": _PROCESS, "type": [["auction", "long"], ["n", "long"]]}),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{function_label(params)} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports(ports_by_choice(params).inputs, (OUT, *map(Port, _tags(params))))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        node.keys()
        class_name(node, "KeyedProcessFunction")
        check_changelog(node)
        made = {"out": made_by_python(node, node.declared_type(node.params["type"], "/params/type"))}
        for index, side in enumerate(node.params["side_outputs"]):
            pointer = f"/params/side_outputs/{index}"
            if side["tag"] in made:
                message = f"two outputs are named {side['tag']!r}"
                raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"{pointer}/tag"))
            check_defined(node.params, side["tag"], f"{pointer}/tag")
            made[side["tag"]] = made_by_python(node, node.declared_type(side["type"], f"{pointer}/type"))
        return made

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node = context.node
        function = context.define(node.params["code"], function_name(node))
        row = type_expr(node.declared_type(node.params["type"], "/params/type"))
        keyed = stream_for(context).call("key_by_columns", *texts(node.params["keys"]))
        stream = context.assign(context.operator(keyed.call("process", Call(function), row)))
        sides = {tag: context.assign(stream.call("get_side_output", Variable(tag)), tag) for tag in _tags(node.params)}
        return {"out": stream, **sides}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "keys": [names["in"].get(key, key) for key in params["keys"]]}


NODE_TYPES = (PythonMap, PythonFlatMap, PythonFilter, PythonFrames, PythonProcess)
