"""The section "event time" of sources, and the watermark strategy that it becomes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration
from runtime.pipeline.catalog.fields import branch, column, duration, form, one_of, optional_duration, text
from runtime.pipeline.emit import COMMON, Expr, Imported, Literal
from runtime.pipeline.emit import duration as duration_expr
from runtime.pipeline.facts import StreamFacts, is_time
from runtime.pipeline.node_type import NodeInput
from runtime.pipeline.problems import Code, NodeProblem, Problem, unknown_column

ALIGNMENT = {
    **form(("group", "drift"), group=text(), drift=duration("1 min")),
    "title": "Alignment: wait for sources of the group that lag by more than the drift",
}
_REFINEMENTS = {
    "bound": {**duration("5 s"), "title": "Out of order by at most"},
    "idle": {**optional_duration(), "title": "Idle after"},
    "alignment": one_of({"type": "null"}, ALIGNMENT),
}
NONE = branch("none")
COLUMN = branch("column", ("column",), **{"column": column("out"), **_REFINEMENTS})
OWN = branch("own", (), **_REFINEMENTS)

TIME = {**one_of(NONE, COLUMN, default={"kind": "none"}), "title": "Event time"}
"""For sources whose records have no event times of their own."""
TIME_OR_OWN = {**one_of(NONE, COLUMN, OWN, default={"kind": "none"}), "title": "Event time"}
"""For sources whose records have some."""


def facts_with_time(node: NodeInput, facts: StreamFacts) -> StreamFacts:
    """Return the facts of a source's stream with the event time of its section "time".

    Raises:
        NodeProblem: the column cannot be the event time, a duration is out of range, or the pipeline's execution has no
            such thing.
    """
    time = node.params["time"]
    if time["kind"] == "none":
        return facts
    check_strategy(time, "/params/time")
    check_alignment(node, time, "/params/time")
    if time["kind"] == "own":
        return replace(facts, event_time=True, watermarks=True)
    check_time_column(facts, time["column"], "/params/time/column")
    return replace(facts, event_time=True, watermarks=True, time_column=time["column"])


def check_strategy(time: Mapping[str, Any], pointer: str) -> None:
    """Check the durations of a strategy.

    Raises:
        NodeProblem: one is out of range.
    """
    if Duration.parse(time["bound"]).nanos < 0:
        raise NodeProblem(Problem(Code.BAD_PARAM, "must not be negative", field=f"{pointer}/bound"))
    if time.get("idle") is not None and Duration.parse(time["idle"]).nanos <= 0:
        raise NodeProblem(Problem(Code.BAD_PARAM, "must be above 0", field=f"{pointer}/idle"))
    alignment = time.get("alignment")
    if alignment is not None and Duration.parse(alignment["drift"]).nanos < 0:
        raise NodeProblem(Problem(Code.BAD_PARAM, "must not be negative", field=f"{pointer}/alignment/drift"))


def check_alignment(node: NodeInput, time: Mapping[str, Any], pointer: str) -> None:
    """Report the alignment of a source in a pipeline that has none."""
    if node.around.in_micro_batches and time.get("alignment") is not None:
        message = "tasks that do not run at the same time cannot wait for each other: no alignment in micro-batches"
        node.report(Problem(Code.NOT_IN_MICRO_BATCHES, message, field=f"{pointer}/alignment"))


def check_time_column(facts: StreamFacts, name: str, pointer: str) -> None:
    """Check that a column can be the event time.

    Raises:
        NodeProblem: it cannot.
    """
    if facts.row is None:
        raise NodeProblem(Problem(Code.NO_COLUMNS, "the records are Python objects", field=pointer))
    if name not in facts.columns:
        raise NodeProblem(unknown_column(name, pointer, list(facts.columns)))
    if not is_time(facts.columns[name]):
        message = f"{name} is of type {facts.columns[name]}; event times are LONG (ms), SQL_TIMESTAMP or INSTANT"
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, field=pointer))


def strategy(time: Mapping[str, Any]) -> Expr:
    """Return the watermark strategy of a section."""
    base = Imported(COMMON, "WatermarkStrategy")
    if time["kind"] == "none":
        return base.call("no_watermarks")
    if Duration.parse(time["bound"]).nanos == 0:
        made: Expr = base.call("for_monotonous_timestamps")
    else:
        made = base.call("for_bounded_out_of_orderness", duration_expr(time["bound"]))
    if time["kind"] == "column":
        made = made.call("with_timestamp_column", Literal(time["column"]))
    if time.get("idle") is not None:
        made = made.call("with_idleness", duration_expr(time["idle"]))
    alignment = time.get("alignment")
    if alignment is not None:
        made = made.call("with_watermark_alignment", Literal(alignment["group"]), duration_expr(alignment["drift"]))
    return made


__all__ = [
    "TIME",
    "TIME_OR_OWN",
    "check_alignment",
    "check_strategy",
    "check_time_column",
    "facts_with_time",
    "strategy",
]
