"""Windows by column, per key or of all rows; and the forms of windows that other nodes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.operators.columnar.aggregates import WINDOW_END, WINDOW_START, aggregate_spec
from runtime.operators.columnar.early_windows import early_panes
from runtime.operators.columnar.frames import fields_of
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.session_windows import EventTimeSessionWindows, ProcessingTimeSessionWindows
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.columns import (
    arguments,
    call_with,
    check_names,
    expressions_of,
    renamed_columns,
    renamed_pairs,
)
from runtime.pipeline.emit import Expr, Imported, Literal, plain, texts, time
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.node_type import APPENDS, OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem
from runtime.pipeline.sql import Expression, problems_of, renamed_in

LATE = Port("late", "late rows", help="Rows that come after their window is closed.")
_OFFSET = {**fields.duration("0 s"), "title": "Offset"}
TUMBLING = fields.branch("tumbling", ("size",), size=fields.duration(), offset=_OFFSET)
SLIDING = fields.branch("sliding", ("size", "slide"), size=fields.duration(), slide=fields.duration(), offset=_OFFSET)
CUMULATIVE = fields.branch("cumulative", ("max", "step"), max=fields.duration(), step=fields.duration(), offset=_OFFSET)
SESSION = fields.branch("session", ("gap",), gap=fields.duration())
WINDOW = {**fields.one_of(TUMBLING, SLIDING, CUMULATIVE, SESSION), "x-widget": "window", "title": "Window"}
WINDOW_WITHOUT_SESSION = {**fields.one_of(TUMBLING, SLIDING, CUMULATIVE), "x-widget": "window", "title": "Window"}
_CLASSES: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "tumbling": (TumblingEventTimeWindows, "of", ("size",)),
    "sliding": (SlidingEventTimeWindows, "of", ("size", "slide")),
    "cumulative": (CumulativeEventTimeWindows, "of", ("max", "step")),
    "session": (EventTimeSessionWindows, "with_gap", ("gap",)),
}
_BY_CLOCK: dict[str, Any] = {
    "tumbling": TumblingProcessingTimeWindows,
    "sliding": SlidingProcessingTimeWindows,
    "session": ProcessingTimeSessionWindows,
}
_COLUMNAR_BY_CLOCK = ("tumbling", "sliding")
MAX_WINDOWS_PER_ROW = 100_000
"""Above, one row would be in more windows than an operator can count."""


def check_window(window: Mapping[str, Any], pointer: str = "/params/window") -> WindowAssigner[Any, Any]:
    """Check the sizes of windows; return the assigner of such windows of event time.

    Raises:
        NodeProblem: one is out of range.
    """
    window_class, maker, names = _CLASSES[window["kind"]]
    times = [Time.milliseconds(Duration.parse(window[name]).to_millis()) for name in names]
    offset = Duration.parse(window.get("offset", "0 s")).to_millis()
    if offset:
        times.append(Time.milliseconds(offset))
    try:
        assigner: WindowAssigner[Any, Any] = getattr(window_class, maker)(*times)
    except ValueError as error:
        raise NodeProblem(Problem(Code.BAD_PARAM, str(error), field=pointer)) from None
    if len(names) == 2 and times[0].to_milliseconds() > MAX_WINDOWS_PER_ROW * times[1].to_milliseconds():
        message = f"a row would be in more than {MAX_WINDOWS_PER_ROW} windows"
        raise NodeProblem(Problem(Code.BAD_PARAM, message, field=pointer))
    return assigner


def window_expr(window: Mapping[str, Any], by_clock: bool = False) -> Expr:
    """Return the assigner of windows, of event time or by the clock."""
    window_class, maker, names = _CLASSES[window["kind"]]
    if by_clock:
        window_class = _BY_CLOCK[window["kind"]]
    given = [time(window[name]) for name in names]
    if Duration.parse(window.get("offset", "0 s")).to_millis():
        given.append(time(window["offset"]))
    return Imported("runtime.datastream.window", window_class.__name__).call(maker, *given)


def window_label(window: Any) -> str:
    """Return windows in words: "10 s"."""
    if not isinstance(window, dict):
        return ""
    names = _CLASSES.get(str(window.get("kind")), (None, "", ()))[2]
    return " / ".join(str(window.get(name, "")) for name in names)


def late_facts(facts: StreamFacts) -> StreamFacts:
    """Return the facts of the rows that come too late: the input's, without watermarks that they could meet."""
    return replace(facts, changelog="append")


def late_tag(context: EmitContext, port: str = "in", tag_id: str = "late") -> Expr:
    """Return the tag of an input's late rows, under a name of its own."""
    tag = Imported("runtime.datastream", "OutputTag")(Literal(tag_id), context.input(port).call("get_type"))
    return context.assign(tag, f"{tag_id}_tag")


LATENESS = {**fields.duration("0 s"), "title": "Late rows change results for"}
_BOUNDS = (WINDOW_START, WINDOW_END)


class WindowAggregate(NodeType):
    type = "window.aggregate"
    title = "Window aggregate"
    summary = "Counts, sums and the like, for each key and window of time"
    icon = "window"
    category = "Windows"
    keywords = (
        *("group by", "tumbling", "sliding", "hop", "session", "cumulate", "count", "sum", "key by"),
        *("window all", "processing time", "early firing", "trigger", "emit"),
    )
    docs = (
        "Aggregates are SQL: count, sum, min, max, avg, first, last, collect, approx_quantile(value, 0.99), each with "
        "DISTINCT (count) or FILTER (WHERE …) if wanted, and any expression around them. A window's result leaves when "
        "the watermark passes its end. Without keys, windows have all rows, and one subtask makes their results. In "
        "processing time a row belongs to the windows in which it arrives: none is late, and what is open when the "
        "input ends is dropped. With early results, a window that is open has a row for each key at every multiple of "
        "that time, too, with what it has until then: add the window's end, and let a table keep the last one."
    )
    schema = fields.form(
        ("window", "aggregates"),
        keys={**fields.columns(least=0), "title": "Keys (all rows together if empty)"},
        window=WINDOW,
        time={**fields.choice("event", "processing", default="event"), "title": "Time"},
        aggregates=fields.expressions("aggregates"),
        window_start=fields.boolean(False),
        window_end=fields.boolean(True),
        early={**fields.optional_duration(), "title": "Early results each"},
        lateness=LATENESS,
        late_output=fields.boolean(False),
    )
    examples = (
        Example(
            "Bids per auction",
            {
                "keys": ["auction"],
                "window": {"kind": "tumbling", "size": "10 s"},
                "aggregates": [["bids", "count(*)"], ["top", "max(price)"]],
            },
        ),
        Example(
            "Bids of the hour so far, each minute",
            {
                "keys": ["auction"],
                "window": {"kind": "tumbling", "size": "1 h"},
                "aggregates": [["bids", "count(*)"]],
                "early": "1 min",
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{window_label(params.get('window'))} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT, LATE) if params.get("late_output") is True else (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        keys = node.keys() if params["keys"] else []
        node.needs_appends()
        check_time(node, _COLUMNAR_BY_CLOCK)
        _check_late_output(params)
        _check_early(params)
        check_names(_named_with_bounds(params), "/params/aggregates")
        columns = _named_with_bounds(params)
        texts_, named = arguments(columns)
        rows, by = (node.rows(), keys) if keys else with_one_key(node.rows())
        with problems_of(expressions_of(params["aggregates"], "/params/aggregates"), [*facts.columns, *_BOUNDS]):
            row = without(aggregate_spec(rows, by, texts_, named).plan().output_type, () if keys else by)
        made = replace(
            facts,
            row=row,
            unique_key=(*keys, "window_end") if params["window_end"] and _has_one_result(params) else None,
            # results of windows by the clock have its time
            event_time=True if params["time"] == "processing" else facts.event_time,
            time_column=None,
            origins=origins_of(row.field_names, node.node_id, {key: key for key in keys}, facts),
        )
        return {"out": made, "late": late_facts(facts)} if params["late_output"] else {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        windows, tag = windows_of(context)
        params = context.node.params
        if params["early"] is not None:
            kind = "ContinuousProcessingTimeTrigger" if params["time"] == "processing" else "ContinuousEventTimeTrigger"
            trigger = Imported("runtime.datastream.window", kind).call("of", time(params["early"]))
            windows = windows.call("trigger", trigger)
        made = call_with(windows, "aggregate_columns", _named_with_bounds(params))
        return with_late(context, context.assign(context.operator(made)), tag)

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        return {
            **params,
            "keys": [changed.get(key, key) for key in params["keys"]],
            "aggregates": renamed_columns(params["aggregates"], changed),
        }

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        return renamed_pairs(params, "aggregates", old, new) if port == "out" else None


def _named_with_bounds(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    bounds = [(name, name) for name in _BOUNDS if params[name]]
    return [*((name, text) for name, text in params["aggregates"]), *bounds]


def _check_late_output(params: Mapping[str, Any]) -> None:
    if params["late_output"] and not params["keys"]:
        message, hint = "windows of all rows have no output of late ones", "Use a key column."
        raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/late_output", hint=hint))


def _has_one_result(params: Mapping[str, Any]) -> bool:
    """Return whether a window has one row for each key: early results come before, and late rows make it come again."""
    return params["early"] is None and Duration.parse(params["lateness"]).nanos == 0


def _check_early(params: Mapping[str, Any]) -> None:
    if params["early"] is None:
        return
    early_ms = Duration.parse(params["early"]).to_millis()
    panes = panes_of(check_window(params["window"]))
    try:
        if early_ms < 1:
            raise ValueError("must be at least 1 ms")
        if panes is None:
            raise ValueError("sessions have no early results")
        early_panes(panes, early_ms)
    except ValueError as error:
        raise NodeProblem(Problem(Code.BAD_PARAM, str(error), field="/params/early")) from None


def check_time(node: NodeInput, by_clock: Sequence[str] = ()) -> None:
    """Check windows with their time and lateness.

    Args:
        node: has the parameters window, lateness, late_output and, unless it is always event time, time.
        by_clock: kinds of windows that processing time can have.

    Raises:
        NodeProblem: they do not go together, or a number is out of range.
    """
    params = node.params
    lateness = Duration.parse(params["lateness"]).nanos
    if params.get("time") == "processing":
        if params["window"]["kind"] not in by_clock:
            message = f"windows of processing time are {', '.join(by_clock[:-1])} or {by_clock[-1]}"
            raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/window/kind"))
        for name, is_set in (("lateness", lateness > 0), ("late_output", params["late_output"])):
            if is_set:
                raise NodeProblem(Problem(Code.BAD_PARAM, "no row is late by the clock", field=f"/params/{name}"))
    else:
        node.needs_watermarks()
    check_window(params["window"])
    if lateness < 0:
        raise NodeProblem(Problem(Code.BAD_PARAM, "must not be negative", field="/params/lateness"))


def with_one_key(row: TypeInformation) -> tuple[RowTypeInfo, list[str]]:
    """Return the type of rows with the column by which windows of all rows are keyed, and its name."""
    columns = fields_of(row)
    name = "all_records"
    while name in columns:
        name += "_"
    return RowTypeInfo([*columns.values(), Types.INT()], [*columns, name]), [name]


def without(row: RowTypeInfo, names: Iterable[str]) -> RowTypeInfo:
    """Return the type of rows without some columns."""
    left = {name: kind for name, kind in fields_of(row).items() if name not in names}
    return RowTypeInfo(list(left.values()), list(left))


def windows_of(context: EmitContext) -> tuple[Expr, Expr | None]:
    """Return the windows of a node, of each key or of all rows, and the tag of late rows if they have a port."""
    params = context.node.params
    tag = late_tag(context) if params["late_output"] else None
    assigner = window_expr(params["window"], params.get("time") == "processing")
    if params["keys"]:
        made = context.input().call("key_by_columns", *texts(params["keys"])).call("window", assigner)
    else:
        made = context.input().call("window_all", assigner)
    lateness_ms = Duration.parse(params["lateness"]).to_millis()
    if lateness_ms:
        made = made.call("allowed_lateness", Literal(lateness_ms))
    if tag is not None:
        made = made.call("side_output_late_data", tag)
    return made, tag


def with_late(context: EmitContext, stream: Expr, tag: Expr | None) -> Mapping[str, Expr]:
    """Return the outputs of a node with windows."""
    if tag is None:
        return {"out": stream}
    return {"out": stream, "late": context.assign(stream.call("get_side_output", tag), "late")}


ORDER = {
    "type": "array",
    "minItems": 1,
    "maxItems": 20,
    "items": fields.form(("expression",), expression=fields.sql(), descending=fields.boolean(True)),
    "x-widget": "order",
}


def top_n_type(node: NodeInput, rows: RowTypeInfo, keys: list[str], with_window: bool) -> RowTypeInfo:
    """Return the type of the best of some rows.

    Raises:
        NodeProblem: an order cannot be used.
    """
    params = node.params
    by = [item["expression"] for item in params["by"]]
    descending = [item["descending"] for item in params["by"]]
    places = [Expression(f"/params/by/{index}/expression", text) for index, text in enumerate(by)]
    with problems_of(places, node.input().columns):
        spec = top_n_spec(rows, keys, params["n"], by, descending, params["rank"], with_window)
        return spec.plan().output_type


def top_n_call(on: Expr, params: Mapping[str, Any], **more: Expr) -> Expr:
    """Return the call of `top_n`."""
    by = [item["expression"] for item in params["by"]]
    descending = [item["descending"] for item in params["by"]]
    many = len(by) > 1
    named: dict[str, Expr] = {}
    if any(descending):
        named["descending"] = plain(descending) if many else Literal(descending[0])
    if params["rank"] is not None:
        named["rank"] = Literal(params["rank"])
    return on.call("top_n", Literal(params["n"]), plain(by) if many else Literal(by[0]), **named, **more)


def check_rank(params: Mapping[str, Any]) -> None:
    """Refuse reserved names.

    Raises:
        NodeProblem: the rank has one.
    """
    if params["rank"] is not None and params["rank"].startswith("__"):
        raise NodeProblem(Problem(Code.NAME_TAKEN, f"the name {params['rank']!r} is reserved", field="/params/rank"))


def renamed_order(order: Any, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return an order in which columns have other names."""
    return [{**item, "expression": renamed_in(item["expression"], names)} for item in order]


class WindowTopN(NodeType):
    type = "window.top_n"
    title = "Window top N"
    summary = "The best rows of each key and window"
    icon = "trophy"
    category = "Windows"
    keywords = ("rank", "best", "largest", "limit", "key by")
    docs = (
        "Keeps the best N rows of each key and window, the best first. Null is less than everything. Without keys, the "
        "best of all rows of the window."
    )
    schema = fields.form(
        ("window", "n", "by"),
        keys={**fields.columns(least=0), "title": "Keys (all rows together if empty)"},
        window=WINDOW_WITHOUT_SESSION,
        n=fields.integer(10, 1, 10_000),
        by=ORDER,
        rank=fields.optional_text(),
        with_window=fields.boolean(True),
        lateness=LATENESS,
        late_output=fields.boolean(False),
    )
    examples = (
        Example(
            "Dearest bids",
            {
                "keys": ["auction"],
                "window": {"kind": "tumbling", "size": "10 s"},
                "n": 3,
                "by": [{"expression": "price"}],
                "rank": "place",
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return f"top {params.get('n', '?')}, {window_label(params.get('window'))}"

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT, LATE) if params.get("late_output") is True else (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        keys = node.keys() if params["keys"] else []
        node.needs_appends()
        check_time(node)
        _check_late_output(params)
        check_rank(params)
        rows, by = (node.named_rows(), keys) if keys else with_one_key(node.named_rows())
        row = without(top_n_type(node, rows, by, params["with_window"]), () if keys else by)
        passed_on = {name: name for name in facts.columns}
        key = (*keys, params["rank"], WINDOW_END) if params["rank"] and params["with_window"] else None
        made = replace(
            facts,
            row=row,
            unique_key=key,
            time_column=None,
            origins=origins_of(row.field_names, node.node_id, passed_on, facts),
        )
        return {"out": made, "late": late_facts(facts)} if params["late_output"] else {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        windows, tag = windows_of(context)
        params = context.node.params
        more: dict[str, Expr] = {"with_window": Literal(True)} if params["with_window"] else {}
        made = top_n_call(windows, params, **more)
        return with_late(context, context.assign(context.operator(made)), tag)

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        keys = [changed.get(key, key) for key in params["keys"]]
        return {**params, "keys": keys, "by": renamed_order(params["by"], changed)}


NODE_TYPES = (WindowAggregate, WindowTopN)
