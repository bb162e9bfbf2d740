"""JSON texts in columns: to columns and back. No state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.typeinfo import RowTypeInfo
from runtime.connectors.formats.bad_records import DEAD_LETTER_TYPE, DEAD_LETTERS
from runtime.connectors.formats.json.json_columns import ParseJsonOperatorFactory, ToJsonOperatorFactory
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.sources import CONNECTORS
from runtime.pipeline.emit import Expr, Imported, Literal, texts, type_expr
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.node_type import IN, OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

_BAD = Port("bad", "bad texts", help="Texts that cannot be read, with the reason.")
_LINES = 'row<"id": long, "text": string>'


class ParseJson(NodeType):
    type = "parse_json"
    title = "Parse JSON"
    summary = "Reads a column of JSON objects; their fields take the column's place"
    icon = "braces"
    category = "Rows"
    keywords = ("json", "decode", "from_json", "dead letters", "extract")
    docs = (
        "Declare the fields that are wanted, with their types. A field that an object lacks is null, one that is not "
        "declared is left out. Texts that are not such an object fail the job, become nulls, are skipped, or leave by "
        "a port of their own; all but the first are counted."
    )
    schema = fields.form(
        ("column", "type"),
        column=fields.column(),
        type={**fields.row_type(), "title": "Fields"},
        alias={**fields.optional_text(), "title": "One column of this name for the whole object"},
        bad=fields.choice("fail", "null", "skip", "dead_letters", default="fail"),
    )
    examples = (
        Example(
            "Lines of a log",
            {"column": "text", "type": [["level", "string"], ["ms", "double"]], "bad": "dead_letters"},
            _LINES,
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("column", ""))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((IN,), (OUT, _BAD) if params.get("bad") == "dead_letters" else (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        column = params["column"]
        row = node.named_rows()
        node.check_column(column, "/params/column", row)
        declared = node.declared_type(params["type"], "/params/type")
        if params["alias"] is not None and params["alias"].startswith("__"):
            message = f"the name {params['alias']!r} is reserved"
            raise NodeProblem(Problem(Code.NAME_TAKEN, message, field="/params/alias"))
        made = self._made(node, row, declared)
        passed_on = {name: name for name in facts.columns if name != column}
        key = facts.unique_key
        parsed = replace(
            facts,
            row=made,
            unique_key=None if key is None or column in key else key,
            time_column=None if facts.time_column == column else facts.time_column,
            origins=origins_of(made.field_names, node.node_id, passed_on, facts),
        )
        if params["bad"] != "dead_letters":
            return {"out": parsed}
        names = tuple((name, (node.node_id, name)) for name in DEAD_LETTER_TYPE.get_field_names())
        letters = StreamFacts(DEAD_LETTER_TYPE, watermarks=facts.watermarks, bounded=facts.bounded, origins=names)
        return {"out": parsed, "bad": letters}

    def _made(self, node: NodeInput, row: RowTypeInfo, declared: RowTypeInfo) -> RowTypeInfo:
        params = node.params
        try:
            factory = ParseJsonOperatorFactory(
                row, params["column"], declared, params["alias"], params["bad"], DEAD_LETTERS
            )
        except ColumnExpressionError as error:
            is_taken = "of this name" in str(error)
            place = "/params/column" if not is_taken else "/params/type" if params["alias"] is None else "/params/alias"
            code = Code.NAME_TAKEN if is_taken else Code.TYPE_MISMATCH
            raise NodeProblem(Problem(code, str(error), field=place)) from None
        except (TypeError, ValueError) as error:
            raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field="/params/type")) from None
        return factory.output_type

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        named: dict[str, Expr] = {}
        if params["alias"] is not None:
            named["alias"] = Literal(params["alias"])
        if params["bad"] != "fail":
            named["bad"] = Literal(params["bad"])
        row = type_expr(context.node.declared_type(params["type"], "/params/type"))
        call = context.input().call("parse_json", Literal(params["column"]), row, **named)
        stream = context.assign(context.operator(call))
        if params["bad"] != "dead_letters":
            return {"out": stream}
        letters = stream.call("get_side_output", Imported(CONNECTORS, "DEAD_LETTERS"))
        return {"out": stream, "bad": context.assign(letters, "bad")}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "column": names["in"].get(params["column"], params["column"])}


class ToJson(NodeType):
    type = "to_json"
    title = "Write JSON"
    summary = "Writes columns as a JSON object into a column of texts"
    icon = "braces"
    category = "Rows"
    keywords = ("json", "encode", "serialize", "message")
    docs = "The object has the chosen columns, or all. A column that has the name already is replaced."
    schema = fields.form(
        (),
        alias={**fields.text("json"), "title": "Name of the column"},
        columns={**fields.columns(least=0), "title": "Columns of the object (all if empty)"},
    )
    examples = (Example("All columns", {"alias": "json"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("alias", "json"))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, params = node.input(), node.params
        alias = params["alias"]
        row = node.named_rows()
        for index, name in enumerate(params["columns"]):
            node.check_column(name, f"/params/columns/{index}", row)
        if alias.startswith("__"):
            raise NodeProblem(Problem(Code.NAME_TAKEN, f"the name {alias!r} is reserved", field="/params/alias"))
        try:
            made = ToJsonOperatorFactory(row, tuple(params["columns"] or facts.columns), alias).output_type
        except (TypeError, ValueError) as error:
            raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field="/params/columns")) from None
        passed_on = {name: name for name in facts.columns if name != alias}
        key = facts.unique_key
        written = replace(
            facts,
            row=made,
            unique_key=None if key is None or alias in key else key,
            time_column=None if facts.time_column == alias else facts.time_column,
            origins=origins_of(made.field_names, node.node_id, passed_on, facts),
        )
        return {"out": written}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        call = context.input().call("to_json", Literal(params["alias"]), *texts(params["columns"]))
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "columns": [names["in"].get(name, name) for name in params["columns"]]}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        return {**params, "alias": new} if params["alias"] == old else None


NODE_TYPES = (ParseJson, ToJson)
