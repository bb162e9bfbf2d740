"""The generator: rows of made-up fields, from sequences to times that come late."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import Types
from runtime.connectors import field_generators
from runtime.connectors.field_generators import FieldGenerator
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.event_time import TIME, facts_with_time, strategy
from runtime.pipeline.catalog.sources import CONNECTORS, SourceType, source_facts, time_renamed
from runtime.pipeline.emit import Call, Expr, Imported, Listing, Literal, Method
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import EmitContext, Example, NodeInput
from runtime.pipeline.problems import Code, NodeProblem, Problem


def _number(default: float) -> dict[str, Any]:
    return {"type": "number", "default": default, "minimum": -1e300, "maximum": 1e300}


def _share(default: float, title: str) -> dict[str, Any]:
    return {"type": "number", "default": default, "minimum": 0, "maximum": 1, "title": title}


MAX_ZIPF = 1_000_000
"""Of a form: the shares of so many numbers are computed where a template is validated."""
_NULLS = _share(0, "Share of nulls")
_PLAIN = (
    fields.branch("sequence", start=fields.integer(0), end=fields.optional_integer(), nulls=_NULLS),
    fields.branch("int", low=fields.integer(0), high=fields.integer(100), nulls=_NULLS),
    fields.branch("float", low=_number(0), high=_number(1), nulls=_NULLS),
    fields.branch("text", length=fields.integer(10, 1, 10_000), nulls=_NULLS),
    fields.branch(
        "choice",
        ("values",),
        values={"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1, "maxItems": 1_000},
        weights={
            "type": ["array", "null"],
            "items": {"type": "number", "minimum": 0, "maximum": 1e12},
            "maxItems": 1_000,
            "default": None,
            "title": "How often each comes, in proportion",
        },
        nulls=_NULLS,
    ),
    fields.branch("bool", share=_share(0.5, "Share of true"), nulls=_NULLS),
    fields.branch(
        "zipf",
        count=fields.titled(fields.integer(1_000, 1, MAX_ZIPF), "Numbers from 1 to"),
        exponent={"type": "number", "minimum": 0, "maximum": 100, "default": 1, "title": "Exponent (0: no hot spots)"},
        nulls=_NULLS,
    ),
    fields.branch(
        "times",
        start=fields.titled(fields.text("2026-01-01T00:00:00"), "Time of the first row"),
        step={**fields.duration("1 s"), "title": "From row to row"},
        jitter={**fields.duration("0 s"), "title": "Earlier or later by at most"},
        late_share=_share(0, "Share of late rows"),
        late_by={**fields.duration("1 min"), "title": "Late by at most"},
        nulls=_NULLS,
    ),
)
_WORD = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 40}
_TEMPLATE = fields.branch(
    "template",
    ("text",),
    text=fields.titled(fields.text(), "Text, with fields in braces: {shop}, {n:03d}, {index}"),
    fields={**fields.pairs(_WORD, fields.one_of(*_PLAIN), "generators", 0), "maxItems": 20, "default": []},
    nulls=_NULLS,
)
_FIELD_KINDS = fields.one_of(*_PLAIN, _TEMPLATE)
#: a width of four digits would make texts of kilobytes where a form is validated
_WIDE = re.compile(r"\{[^{}]*:[^{}]*\d{4}")


class Generator(SourceType):
    type = "source.generator"
    title = "Generator"
    summary = "Rows of made-up fields"
    icon = "dice"
    keywords = ("datagen", "random", "fake", "test data", "zipf", "choice", "late", "faker")
    docs = (
        "Makes rows whose fields are sequences, numbers, texts, choices, times or texts made of other fields. The same "
        "seed gives the same rows. It ends with the shortest sequence that has an end, or after `count` rows. Numbers "
        "of `zipf` have hot spots, `times` can be out of order and late, and any field can have nulls."
    )
    schema = fields.form(
        ("fields",),
        fields={**fields.pairs(fields.text(), _FIELD_KINDS, "generators"), "maxItems": 200},
        count=fields.optional_integer(1, 10**15),
        rows_per_second=fields.optional_rate(),
        seed=fields.integer(0, 0, 2**31 - 1),
        time=TIME,
    )
    examples = (
        Example(
            "Orders",
            {
                "fields": [["id", {"kind": "sequence"}], ["amount", {"kind": "int", "low": 1, "high": 500}]],
                "count": 1_000,
            },
        ),
        Example(
            "Payments that come late",
            {
                "fields": [
                    ["card", {"kind": "zipf", "count": 10_000, "exponent": 1.1}],
                    ["shop", {"kind": "template", "text": "shop-{n:03d}", "fields": [["n", {"kind": "zipf"}]]}],
                    ["channel", {"kind": "choice", "values": ["web", "till"], "weights": [1, 4], "nulls": 0.01}],
                    ["at", {"kind": "times", "step": "10 ms", "late_share": 0.001}],
                ],
                "rows_per_second": 1_000,
                "time": {"kind": "column", "column": "at", "bound": "1 s"},
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return fields.names_in(params.get("fields"))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        made: dict[str, FieldGenerator] = {}
        for index, (name, spec) in enumerate(node.params["fields"]):
            pointer = f"/params/fields/{index}"
            if name in made:
                message = f"two fields are named {name!r}"
                raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"{pointer}/0"))
            try:
                made[name] = _generator(spec)
            except ValueError as error:
                raise NodeProblem(Problem(Code.BAD_PARAM, str(error), field=f"{pointer}/1")) from None
        row = Types.ROW_NAMED(list(made), [generator.type_info for generator in made.values()])
        bounded = node.params["count"] is not None or any(field.max_count is not None for field in made.values())
        facts = source_facts(node, row, bounded=bounded)
        return {"out": facts_with_time(node, facts)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        made = [(Literal(name), _expr(spec)) for name, spec in params["fields"]]
        optional = {"count": params["count"], "rows_per_second": params["rows_per_second"]}
        named = {name: Literal(value) for name, value in optional.items() if value is not None}
        if params["seed"]:
            named["seed"] = Literal(params["seed"])
        source = Imported(CONNECTORS, "DataGeneratorSource").call("of_fields", Listing(tuple(made), "{}"), **named)
        return {"out": context.assign(self.added(context, source, strategy(params["time"])))}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        fields_ = [[new if name == old else name, spec] for name, spec in params["fields"]]
        return {**params, "fields": fields_, "time": time_renamed(params["time"], old, new)}


_FUNCTIONS = {
    "sequence": "sequence",
    "int": "random_int",
    "float": "random_float",
    "text": "random_string",
    "choice": "random_choice",
    "bool": "random_bool",
    "zipf": "random_zipf",
    "times": "times",
    "template": "template",
}


def _arguments(spec: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return what a generator is called with: plain values, lists of them and a time."""
    kind = spec["kind"]
    if kind == "sequence":
        return [spec["start"], spec["end"]], {}
    if kind == "text":
        return [spec["length"]], {}
    if kind == "int":
        return [spec["low"], spec["high"]], {}
    if kind == "float":
        return [float(spec["low"]), float(spec["high"])], {}
    if kind == "choice":
        return [spec["values"], *([] if spec["weights"] is None else [spec["weights"]])], {}
    if kind == "bool":
        return [float(spec["share"])], {}
    if kind == "zipf":
        return [spec["count"], float(spec["exponent"])], {}
    named = {"step_ms": _milliseconds(spec["step"])}
    if _milliseconds(spec["jitter"]):
        named["jitter_ms"] = _milliseconds(spec["jitter"])
    if spec["late_share"]:
        named |= {"late_share": float(spec["late_share"]), "late_by_ms": _milliseconds(spec["late_by"])}
    return [datetime.fromisoformat(spec["start"])], named


def _milliseconds(text: str) -> float:
    return Duration.parse(text).nanos / 1e6


def _generator(spec: Mapping[str, Any]) -> FieldGenerator:
    """Return the generator that a field describes.

    Raises:
        ValueError: it describes none.
    """
    function: Any = getattr(field_generators, _FUNCTIONS[spec["kind"]])
    if spec["kind"] == "template":
        made: FieldGenerator = function(spec["text"], **_parts(spec))
    else:
        plain, named = _arguments(spec)
        made = function(*plain, **named)
    return field_generators.nullable(made, spec["nulls"]) if spec["nulls"] else made


def _parts(spec: Mapping[str, Any]) -> dict[str, FieldGenerator]:
    if _WIDE.search(spec["text"]):
        raise ValueError("a format may be at most 999 characters wide")
    names = [name for name, _ in spec["fields"]]
    for name in names:
        if names.count(name) > 1 or name == "text":
            raise ValueError(f"{name!r} cannot be the name of a field of a template" if name == "text" else "twice")
    return {name: _generator(part) for name, part in spec["fields"]}


def _expr(spec: Mapping[str, Any]) -> Expr:
    function = Imported(CONNECTORS, _FUNCTIONS[spec["kind"]])
    if spec["kind"] == "template":
        parts = tuple((name, _expr(part)) for name, part in spec["fields"])
        made: Expr = Call(function, (Literal(spec["text"]),), parts)
    else:
        plain, named = _arguments(spec)
        made = Call(function, tuple(map(_value, plain)), tuple((name, Literal(value)) for name, value in named.items()))
    return Imported(CONNECTORS, "nullable")(made, Literal(float(spec["nulls"]))) if spec["nulls"] else made


def _value(value: Any) -> Expr:
    if isinstance(value, list):
        return Listing(tuple(map(Literal, value)))
    if isinstance(value, datetime):
        return Method(Imported("datetime", "datetime"), "fromisoformat", (Literal(value.isoformat()),))
    return Literal(value)


NODE_TYPES = (Generator,)
