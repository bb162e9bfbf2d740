"""Results per key of all rows so far: changelogs, whose rows take earlier ones back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.columns import (
    arguments,
    call_with,
    check_names,
    expressions_of,
    renamed_columns,
    renamed_pairs,
)
from runtime.pipeline.catalog.windows import ORDER, check_rank, renamed_order, top_n_call, top_n_type
from runtime.pipeline.emit import Expr, Literal, duration, texts
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.node_type import APPENDS, OUT, EmitContext, Example, NodeInput, NodeType, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem
from runtime.pipeline.sql import problems_of

_CATEGORY = "Per key"


def report_growth(node: NodeInput, what: str) -> None:
    """Check the time to live; without one, warn of state that grows with the number of keys, on input without end.

    Raises:
        NodeProblem: the time to live is too short.
    """
    ttl = node.params["ttl"]
    if ttl is not None:
        if Duration.parse(ttl).to_millis() < 1:
            raise NodeProblem(Problem(Code.BAD_PARAM, "must be at least 1 ms", field="/params/ttl"))
    elif not node.input().bounded:
        message = f"{what} are kept for every key, for ever"
        hint = "Give keys a time to live, use a window, or make sure that there are only so many keys."
        node.report(Problem(Code.GROWS_WITHOUT_BOUND, message, hint=hint))


_TTL = {
    **fields.optional_duration(),
    "title": "Forget a key after",
    "description": "A key that gets no rows for this long is forgotten; its next row counts as its first.",
}


def keyed_stream(context: EmitContext) -> Expr:
    """Return the input, keyed, with the time to live of its keys."""
    params = context.node.params
    keyed = context.input().call("key_by_columns", *texts(params["keys"]))
    return keyed if params["ttl"] is None else keyed.call("with_state_ttl", duration(params["ttl"]))


class Aggregate(NodeType):
    type = "aggregate"
    title = "Running aggregate"
    summary = "Counts, sums and the like of all rows of a key so far"
    icon = "sigma"
    category = _CATEGORY
    keywords = ("group by", "total", "count", "sum", "key by")
    docs = (
        "Every row changes its key's result: the old one is taken back and the new one emitted, so sinks must accept "
        "updates. Aggregates are the same as for windows."
    )
    schema = fields.form(
        ("keys", "aggregates"), keys=fields.columns(), aggregates=fields.expressions("aggregates"), ttl=_TTL
    )
    examples = (Example("Totals", {"keys": ["auction"], "aggregates": [["total", "sum(price)"]]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{fields.names_in(params.get('aggregates'))} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        keys = node.keys()
        node.needs_appends()
        check_names(params["aggregates"], "/params/aggregates")
        texts_, named = arguments(params["aggregates"])
        with problems_of(expressions_of(params["aggregates"], "/params/aggregates"), facts.columns):
            row = aggregate_spec(node.rows(), keys, texts_, named, ()).plan().output_type
        report_growth(node, "the results")
        made = replace(
            facts,
            row=row,
            changelog="retract",
            unique_key=tuple(keys),
            time_column=None,
            origins=origins_of(row.field_names, node.node_id, {key: key for key in keys}, facts),
        )
        return {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        made = call_with(keyed_stream(context), "aggregate_columns", context.node.params["aggregates"])
        return {"out": context.assign(context.operator(made))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        keys = [changed.get(key, key) for key in params["keys"]]
        return {**params, "keys": keys, "aggregates": renamed_columns(params["aggregates"], changed)}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        return renamed_pairs(params, "aggregates", old, new)


class Deduplicate(NodeType):
    type = "deduplicate"
    title = "Deduplicate"
    summary = "The first, or the latest, row of each key"
    icon = "copy-off"
    category = _CATEGORY
    keywords = ("distinct", "unique", "duplicates", "latest", "key by")
    docs = "The first row of a key is emitted once. Of the latest, each takes back the one before it."
    schema = fields.form(
        ("keys",), keys=fields.columns(), keep=fields.choice("first", "last", default="first"), ttl=_TTL
    )
    examples = (Example("First bids", {"keys": ["auction", "bidder"], "keep": "first"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{params.get('keep', 'first')} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        keys = node.keys()
        node.needs_appends()
        report_growth(node, "rows")
        if params["keep"] == "first":
            return {"out": replace(facts, unique_key=tuple(keys))}
        # rows that are taken back have the time of those that take their place
        return {"out": replace(facts, changelog="retract", unique_key=tuple(keys), time_column=None)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params, keyed = context.node.params, keyed_stream(context)
        given = () if params["keep"] == "first" else (Literal(params["keep"]),)
        return {"out": context.assign(context.operator(keyed.call("deduplicate", *given)))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "keys": [names["in"].get(key, key) for key in params["keys"]]}


class TopN(NodeType):
    type = "top_n"
    title = "Running top N"
    summary = "The best rows of each key so far"
    icon = "trophy"
    category = _CATEGORY
    keywords = ("rank", "best", "largest", "leader board", "key by")
    docs = "A row that becomes one of the best is emitted, and the one that it displaces is taken back."
    schema = fields.form(
        ("keys", "n", "by"),
        keys=fields.columns(),
        n=fields.integer(10, 1, 10_000),
        by=ORDER,
        rank=fields.optional_text(),
        ttl=_TTL,
    )
    examples = (Example("Dearest bids", {"keys": ["auction"], "n": 3, "by": [{"expression": "price"}]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return f"top {params.get('n', '?')} {fields.per(params.get('keys'))}".strip()

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        keys = node.keys()
        node.needs_appends()
        check_rank(params)
        row = top_n_type(node, node.named_rows(), keys, False)
        report_growth(node, "the best rows")
        origins = origins_of(row.field_names, node.node_id, {name: name for name in facts.columns}, facts)
        key = (*keys, params["rank"]) if params["rank"] else None
        # a row that another one made room for has the time of that change
        made = replace(facts, row=row, changelog="retract", unique_key=key, time_column=None, origins=origins)
        return {"out": made}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        made = top_n_call(keyed_stream(context), context.node.params)
        return {"out": context.assign(context.operator(made))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        keys = [changed.get(key, key) for key in params["keys"]]
        return {**params, "keys": keys, "by": renamed_order(params["by"], changed)}


NODE_TYPES = (Aggregate, Deduplicate, TopN)
