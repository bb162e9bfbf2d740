"""Event time in the middle of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.event_time import ALIGNMENT, check_strategy, check_time_column, strategy
from runtime.pipeline.emit import Expr, Literal
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.identifiers import identifier
from runtime.pipeline.node_type import EmitContext, Example, NodeInput, NodeType
from runtime.pipeline.problems import Code, Problem


class Watermark(NodeType):
    type = "time.watermark"
    title = "Watermarks"
    summary = "Takes event times from a column and says how far they have come"
    icon = "clock"
    category = "Time"
    keywords = ("event time", "timestamp", "late", "out of order", "idle")
    docs = (
        "Rows get the column's value as event time. The watermark follows the latest one at the given distance: rows "
        "farther behind are late. Prefer the same section of a source, which follows each split by itself."
    )
    schema = fields.form(
        ("column",),
        column=fields.column(),
        bound={**fields.duration("5 s"), "title": "Out of order by at most"},
        idle={**fields.optional_duration(), "title": "Idle after"},
        alignment=fields.one_of({"type": "null"}, ALIGNMENT),
        null_times=fields.choice("fail", "drop", default="fail"),
    )
    examples = (Example("From date_time", {"column": "date_time", "bound": "5 s"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{params.get('column', '')}, {params.get('bound', '5 s')}"

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, column = node.input(), node.params["column"]
        node.rows()
        check_time_column(facts, column, "/params/column")
        check_strategy(node.params, "/params")
        if node.around.in_micro_batches and node.params["idle"] is not None:
            message = "idleness is known at sources only in micro-batches: set it there"
            node.report(Problem(Code.NOT_IN_MICRO_BATCHES, message, field="/params/idle"))
        return {"out": replace(facts, event_time=True, watermarks=True, time_column=column)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params, stream = context.node.params, context.input()
        if params["null_times"] == "drop":
            condition = f"{identifier(params['column'])} IS NOT NULL"
            stream = context.operator(stream.call("where", Literal(condition)), "nulls")
        call = stream.call("assign_timestamps_and_watermarks", strategy({**params, "kind": "column"}))
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "column": names["in"].get(params["column"], params["column"])}


NODE_TYPES = (Watermark,)
