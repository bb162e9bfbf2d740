"""Joins of two streams by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration
from runtime.operators.columnar.aggregates import WINDOW_COLUMNS
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.window_join import WindowJoinSpec
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.windows import (
    WINDOW_WITHOUT_SESSION,
    check_window,
    late_facts,
    late_tag,
    window_expr,
    window_label,
)
from runtime.pipeline.emit import Expr, Literal, texts, time
from runtime.pipeline.facts import Origin, StreamFacts
from runtime.pipeline.node_type import OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

LEFT, RIGHT = Port("left", takes_changelogs=False), Port("right", takes_changelogs=False)
_SUFFIX = {**fields.text("_right"), "title": "Suffix of the right side's columns"}
_ORDERS = 'row<"order": long, "item": string, "ordered_at": sql_timestamp>'
_PAYMENTS = 'row<"order": long, "cents": long, "paid_at": sql_timestamp>'


def join_sides(node: NodeInput, right_port: str = "right") -> JoinSides:
    """Return both sides of a join.

    Raises:
        NodeProblem: the keys do not fit, or a name is taken.
    """
    left, right = node.keys("left_keys", "left"), node.keys("right_keys", right_port)
    if len(left) != len(right):
        message = f"the left side has {len(left)} key columns, the right side {len(right)}"
        raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/right_keys"))
    types = (node.named_rows("left"), node.named_rows(right_port))
    try:
        return JoinSides(types, (tuple(left), tuple(right)), node.params["suffix"])
    except ColumnExpressionError as error:
        raise NodeProblem(Problem(Code.NAME_TAKEN, str(error), field="/params/suffix")) from None
    except TypeError as error:
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field="/params/right_keys")) from None


def joined_origins(node: NodeInput, sides: JoinSides, right_port: str = "right") -> tuple[tuple[str, Origin], ...]:
    """Return where the columns of a join's results come from."""
    made = []
    for side, port in enumerate(("left", right_port)):
        origin = node.input(port).origin
        made += [(new, origin.get(old, (node.node_id, new))) for old, new in sides.renamed(side).items()]
    return tuple(made)


def keyed_sides(context: EmitContext, right_port: str = "right") -> tuple[Expr, Expr]:
    """Return both streams, keyed."""
    params = context.node.params
    left = context.input("left").call("key_by_columns", *texts(params["left_keys"]))
    right = context.input(right_port).call("key_by_columns", *texts(params["right_keys"]))
    return left, right


def renamed_keys(params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
    """Return the parameters of a join whose key columns have other names."""
    return {
        **params,
        "left_keys": [names["left"].get(key, key) for key in params["left_keys"]],
        "right_keys": [names["right"].get(key, key) for key in params["right_keys"]],
    }


_KEYS = {"left_keys": fields.columns("left"), "right_keys": fields.columns("right")}


class WindowJoin(NodeType):
    type = "join.window"
    title = "Window join"
    summary = "Pairs of rows with equal keys in one window"
    icon = "join"
    category = "Joins"
    keywords = ("inner", "outer", "left", "full", "key by")
    docs = "Rows of both sides meet if their keys are equal and they fall into one window. Null keys are equal."
    schema = fields.form(
        ("left_keys", "right_keys", "window"),
        **_KEYS,
        window=WINDOW_WITHOUT_SESSION,
        how=fields.choice("inner", "left", "right", "full", default="inner"),
        suffix=_SUFFIX,
        with_window=fields.boolean(False),
    )
    examples = (
        Example(
            "Paid orders",
            {"left_keys": ["order"], "right_keys": ["order"], "window": {"kind": "tumbling", "size": "1 h"}},
            inputs={"left": _ORDERS, "right": _PAYMENTS},
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{params.get('how', 'inner')}, {window_label(params.get('window'))}"

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((LEFT, RIGHT), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        sides = join_sides(node)
        node.needs_appends("left", "right")
        node.needs_watermarks("left", "right")
        check_window(params["window"])
        try:
            row = WindowJoinSpec(sides, params["how"], params["with_window"]).plan().output_type
        except ColumnExpressionError as error:
            raise NodeProblem(Problem(Code.NAME_TAKEN, str(error), field="/params/with_window")) from None
        origins = joined_origins(node, sides)
        if params["with_window"]:
            origins += tuple((name, (node.node_id, name)) for name in WINDOW_COLUMNS)
        bounded = node.input("left").bounded and node.input("right").bounded
        return {"out": StreamFacts(row, event_time=True, watermarks=True, bounded=bounded, origins=origins)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        left, right = keyed_sides(context)
        named: dict[str, Expr] = {}
        if params["how"] != "inner":
            named["how"] = Literal(params["how"])
        if params["suffix"] != "_right":
            named["suffix"] = Literal(params["suffix"])
        if params["with_window"]:
            named["with_window"] = Literal(True)
        made = left.call("window_join", right, window_expr(params["window"]), **named)
        return {"out": context.assign(context.operator(made))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return renamed_keys(params, names)


_LATE_LEFT = Port("late_left", "late left rows")
_LATE_RIGHT = Port("late_right", "late right rows")


class IntervalJoin(NodeType):
    type = "join.interval"
    title = "Interval join"
    summary = "Pairs of rows with equal keys whose event times are so far apart"
    icon = "join"
    category = "Joins"
    keywords = ("between", "key by")
    docs = (
        "The right row's event time minus the left one's lies between the bounds. Rows without a partner are left out."
    )
    schema = fields.form(
        ("left_keys", "right_keys", "lower", "upper"),
        **_KEYS,
        lower={**fields.duration(), "title": "From (negative: before)"},
        upper={**fields.duration(), "title": "To"},
        lower_exclusive=fields.boolean(False),
        upper_exclusive=fields.boolean(False),
        how=fields.choice("inner", "left", "right", "full", default="inner"),
        suffix=_SUFFIX,
        late_outputs=fields.boolean(False),
    )
    examples = (
        Example(
            "Paid within an hour",
            {"left_keys": ["order"], "right_keys": ["order"], "lower": "0 s", "upper": "1 h"},
            inputs={"left": _ORDERS, "right": _PAYMENTS},
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{params.get('lower', '?')} to {params.get('upper', '?')}"

    def ports(self, params: Mapping[str, Any]) -> Ports:
        late = (_LATE_LEFT, _LATE_RIGHT) if params.get("late_outputs") is True else ()
        return Ports((LEFT, RIGHT), (OUT, *late))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        sides = join_sides(node)
        node.needs_appends("left", "right")
        node.needs_watermarks("left", "right")
        lower, upper = (Duration.parse(params[name]).to_millis() for name in ("lower", "upper"))
        if lower > upper:
            raise NodeProblem(Problem(Code.BAD_PARAM, "must not be less than the lower bound", field="/params/upper"))
        row = ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(sides, lower, upper)).output_type
        bounded = node.input("left").bounded and node.input("right").bounded
        made = StreamFacts(row, event_time=True, watermarks=True, bounded=bounded, origins=joined_origins(node, sides))
        if not params["late_outputs"]:
            return {"out": made}
        late = {f"late_{side}": late_facts(node.input(side)) for side in ("left", "right")}
        return {"out": made} | {port: replace(facts, bounded=bounded) for port, facts in late.items()}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        tags: dict[str, Expr] = {}
        if params["late_outputs"]:
            for side in ("left", "right"):
                tags[side] = late_tag(context, side, f"late_{side}")
        left, right = keyed_sides(context)
        made = left.call("interval_join", right).call("between", time(params["lower"]), time(params["upper"]))
        for side in ("lower", "upper"):
            if params[f"{side}_exclusive"]:
                made = made.call(f"{side}_bound_exclusive")
        for side, tag in tags.items():
            made = made.call(f"side_output_{side}_late_data", tag)
        named: dict[str, Expr] = {}
        if params["suffix"] != "_right":
            named["suffix"] = Literal(params["suffix"])
        if params["how"] != "inner":
            named["how"] = Literal(params["how"])
        stream = context.assign(context.operator(made.call("columns", **named)))
        late = {
            f"late_{side}": context.assign(stream.call("get_side_output", tag), f"late_{side}")
            for side, tag in tags.items()
        }
        return {"out": stream} | late

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return renamed_keys(params, names)


VERSIONS = Port(
    "versions",
    help="Rows that are each valid from their event time until the next one of the key.",
    takes_changelogs=False,
)


class VersionJoin(NodeType):
    type = "join.version"
    title = "Join with versions"
    summary = "Each row with the row of its key that was valid at its time"
    icon = "join"
    category = "Joins"
    keywords = ("as of", "temporal", "exchange rate", "slowly changing", "key by")
    docs = (
        "A version is valid from its event time until the next one of its key. A row leaves once the watermark has "
        "passed it, with its own event time."
    )
    schema = fields.form(
        ("left_keys", "right_keys"),
        left_keys=fields.columns("left"),
        right_keys=fields.columns("versions"),
        left_outer={**fields.boolean(False), "title": "Keep rows without a version"},
        suffix=_SUFFIX,
        late_output=fields.boolean(False),
    )
    examples = (
        Example(
            "Payments as of the order",
            {"left_keys": ["order"], "right_keys": ["order"], "left_outer": True},
            inputs={"left": _PAYMENTS, "versions": _ORDERS},
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return fields.names_in(params.get("left_keys"))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        late = (Port("late", "late rows"),) if params.get("late_output") is True else ()
        return Ports((LEFT, VERSIONS), (OUT, *late))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        sides = join_sides(node, "versions")
        node.needs_appends("left", "versions")
        node.needs_watermarks("left", "versions")
        left = node.input("left")
        made = replace(
            left,
            row=sides.output_type,
            unique_key=None,
            event_time=True,
            watermarks=True,
            bounded=left.bounded and node.input("versions").bounded,
            origins=joined_origins(node, sides, "versions"),
        )
        return {"out": made, "late": late_facts(left)} if node.params["late_output"] else {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        tag = late_tag(context, "left") if params["late_output"] else None
        left, versions = keyed_sides(context, "versions")
        made = left.call("temporal_join", versions)
        if params["left_outer"]:
            made = made.call("left_outer")
        if tag is not None:
            made = made.call("side_output_left_late_data", tag)
        suffix = () if params["suffix"] == "_right" else (Literal(params["suffix"]),)
        stream = context.assign(context.operator(made.call("columns", *suffix)))
        if tag is None:
            return {"out": stream}
        return {"out": stream, "late": context.assign(stream.call("get_side_output", tag), "late")}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return renamed_keys(params, {"left": names["left"], "right": names["versions"]})


NODE_TYPES = (WindowJoin, IntervalJoin, VersionJoin)
