"""Rows to rows, one by one: filter, select and their kin. No state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.operators.columnar.expressions import Projection, checked_condition, extension, quoted, selection
from runtime.operators.columnar.unnest import UnnestOperatorFactory
from runtime.pipeline.catalog import fields
from runtime.pipeline.emit import Expr, Literal, Method, is_argument
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.identifiers import identifier
from runtime.pipeline.node_type import OUT, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem, unknown_column
from runtime.pipeline.sql import Expression, problems_of, renamed_in

Named = Sequence[tuple[str, str]]
"""Columns: name and SQL expression."""


def arguments(columns: Named) -> tuple[list[str], dict[str, str]]:
    """Return columns as the arguments of `select` and its kin: texts and named ones.

    A name that cannot be that of an argument, such as "from", makes all of them texts, which keeps them in order.
    """
    if all(is_argument(name) and name != "self" for name, _ in columns):
        return [], dict(columns)
    return [f"{text} AS {quoted(name)}" for name, text in columns], {}


def call_with(stream: Expr, method: str, columns: Named) -> Expr:
    """Return a call of `select` or its kin."""
    texts, named = arguments(columns)
    return Method(stream, method, tuple(map(Literal, texts)), tuple((n, Literal(t)) for n, t in named.items()))


def check_names(columns: Named, pointer: str) -> None:
    """Refuse two columns of one name, and reserved names.

    Raises:
        NodeProblem: there are such.
    """
    seen: set[str] = set()
    for index, (name, _) in enumerate(columns):
        if name in seen or name.startswith("__"):
            why = "occurs twice" if name in seen else "is reserved: it begins with two underscores"
            raise NodeProblem(Problem(Code.NAME_TAKEN, f"the name {name!r} {why}", field=f"{pointer}/{index}/0"))
        seen.add(name)


def expressions_of(columns: Named, pointer: str) -> list[Expression]:
    """Return the places of expressions."""
    return [Expression(f"{pointer}/{index}/1", text) for index, (_, text) in enumerate(columns)]


def projected(node: NodeInput, facts: StreamFacts, projection: Projection) -> StreamFacts:
    """Return the facts of a projection's result; a column that is passed on keeps its meaning under its new name."""
    row = projection.output_type
    passed_on = projection.passed_on
    new_name: dict[str, str] = {}
    for name, column in passed_on.items():
        new_name.setdefault(column, name)
    key = facts.unique_key
    if key is not None:
        key = tuple(new_name[column] for column in key) if all(column in new_name for column in key) else None
    return replace(
        facts,
        row=row,
        unique_key=key,
        time_column=None if facts.time_column is None else new_name.get(facts.time_column),
        origins=origins_of(row.field_names, node.node_id, passed_on, facts),
    )


def renamed_columns(columns: Iterable[Sequence[str]], names: Mapping[str, str]) -> list[list[str]]:
    """Return [name, expression] pairs in which columns of the input have other names; a plain column is renamed too."""
    return [[name, renamed_in(text, names)] for name, text in columns]


def renamed_pairs(params: Mapping[str, Any], param: str, old: str, new: str) -> Mapping[str, Any] | None:
    """Return parameters in which a pair of a list has another name; None if there is none of that name."""
    pairs = params[param]
    if all(name != old for name, _ in pairs):
        return None
    return {**params, param: [[new if name == old else name, value] for name, value in pairs]}


class Filter(NodeType):
    type = "filter"
    title = "Filter"
    summary = "Keeps the rows for which a condition is true"
    icon = "filter"
    category = "Rows"
    keywords = ("where", "condition", "drop rows")
    docs = "Keeps the rows for which the SQL condition is true; null counts as false. Rows keep their kinds."
    schema = fields.form(("condition",), condition=fields.sql())
    examples = (Example("Expensive bids", {"condition": "price > 100"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("condition", ""))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, condition = node.input(), node.params["condition"]
        row = node.rows()
        with problems_of([Expression("/params/condition", condition)], facts.columns):
            checked_condition(row, condition)
        return {"out": facts}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        call = context.input().call("where", Literal(context.node.params["condition"]))
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "condition": renamed_in(params["condition"], names["in"])}


class Select(NodeType):
    type = "select"
    title = "Select"
    summary = "Makes new columns in place of the old ones"
    icon = "columns"
    category = "Rows"
    keywords = ("project", "map", "expression", "rename", "convert")
    docs = "Each column is a name and an SQL expression over the row's columns. Columns not listed are dropped."
    schema = fields.form(("columns",), columns=fields.expressions("columns-sql"))
    examples = (Example("In euros", {"columns": [["auction", "auction"], ["euros", "price / 100.0"]]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return fields.names_in(params.get("columns"))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, columns = node.input(), node.params["columns"]
        row = node.rows()
        check_names(columns, "/params/columns")
        texts, named = arguments(columns)
        with problems_of(expressions_of(columns, "/params/columns"), facts.columns):
            projection = selection(row, texts, named)
        return {"out": projected(node, facts, projection)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        call = call_with(context.input(), "select", context.node.params["columns"])
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "columns": renamed_columns(params["columns"], names["in"])}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        return renamed_pairs(params, "columns", old, new)


class WithColumns(NodeType):
    type = "with_columns"
    title = "Add columns"
    summary = "Computes columns beside the existing ones"
    icon = "column-add"
    category = "Rows"
    keywords = ("expression", "compute", "extend")
    docs = "Each column is a name and an SQL expression. A column with an existing name replaces that one."
    schema = fields.form(("columns",), columns=fields.expressions("columns-sql"))
    examples = (Example("In euros", {"columns": [["euros", "price / 100.0"]]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return fields.names_in(params.get("columns"))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, columns = node.input(), node.params["columns"]
        row = node.rows()
        check_names(columns, "/params/columns")
        texts, named = arguments(columns)
        with problems_of(expressions_of(columns, "/params/columns"), facts.columns):
            projection = extension(row, texts, named)
        return {"out": projected(node, facts, projection)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        call = call_with(context.input(), "with_columns", context.node.params["columns"])
        return {"out": context.assign(context.operator(call))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        columns = [[changed.get(name, name), text] for name, text in renamed_columns(params["columns"], changed)]
        return {**params, "columns": columns}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        return renamed_pairs(params, "columns", old, new)


_CASTS = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "sql_date": "DATE",
    "sql_timestamp": "TIMESTAMP",
}


class Columns(NodeType):
    type = "columns"
    title = "Columns"
    summary = "Renames, drops, reorders and converts columns"
    icon = "table-columns"
    category = "Rows"
    keywords = ("rename", "drop", "cast", "reorder", "convert")
    docs = (
        "Columns under `rename` get the new name, those under `drop` are dropped, those under `cast` are converted to "
        "the type. All others stay."
    )
    schema = fields.form(
        (),
        rename={**fields.pairs(fields.column(), fields.text(), "renames", 0), "default": []},
        drop=fields.columns(least=0),
        cast={**fields.pairs(fields.column(), fields.choice(*_CASTS), "casts", 0), "default": []},
    )
    examples = (Example("Drop and rename", {"rename": [["price", "cents"]], "drop": ["channel"]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        words = (("rename", "renames"), ("drop", "drops"), ("cast", "converts"))
        found = [(verb, fields.names_in(params.get(name))) for name, verb in words]
        return "; ".join(f"{verb} {names}" for verb, names in found if names)

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts = node.input()
        row = node.rows()
        for param, places in (("rename", 0), ("cast", 0), ("drop", None)):
            for index, item in enumerate(node.params[param]):
                name = item if places is None else item[0]
                if name not in facts.columns:
                    pointer = f"/params/{param}/{index}" + ("" if places is None else "/0")
                    raise NodeProblem(unknown_column(name, pointer, list(facts.columns)))
        columns = self._columns(node.params, facts.columns)
        if not columns:
            raise NodeProblem(Problem(Code.BAD_PARAM, "no column is left", field="/params/drop"))
        names = [name for name, _ in columns]
        for index, (_, new) in enumerate(node.params["rename"]):
            if names.count(new) > 1 or new.startswith("__"):
                message = f"the name {new!r} is taken"
                raise NodeProblem(Problem(Code.NAME_TAKEN, message, field=f"/params/rename/{index}/1"))
        texts, named = arguments(columns)
        with problems_of([Expression("/params/cast", text) for _, text in columns], facts.columns):
            projection = selection(row, texts, named)
        return {"out": projected(node, facts, projection)}

    def _columns(self, params: Mapping[str, Any], columns: Mapping[str, TypeInformation]) -> list[tuple[str, str]]:
        new_names, casts, dropped = dict(params["rename"]), dict(params["cast"]), set(params["drop"])
        made = []
        for name in columns:
            if name not in dropped:
                text = identifier(name)
                if name in casts:
                    text = f"CAST({text} AS {_CASTS[casts[name]]})"
                made.append((new_names.get(name, name), text))
        return made

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        columns = self._columns(context.node.params, context.node.input().columns)
        return {"out": context.assign(context.operator(call_with(context.input(), "select", columns)))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        changed = names["in"]
        return {
            **params,
            "rename": [[changed.get(old, old), new] for old, new in params.get("rename", [])],
            "drop": [changed.get(name, name) for name in params.get("drop", [])],
            "cast": [[changed.get(name, name), kind] for name, kind in params.get("cast", [])],
        }

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        found = [[source, new if name == old else name] for source, name in params["rename"]]
        return {**params, "rename": found} if found != params["rename"] else None


class Unnest(NodeType):
    type = "unnest"
    title = "Unnest"
    summary = "Makes a row for each item of a list"
    icon = "list-tree"
    category = "Rows"
    keywords = ("explode", "flatten", "array", "list")
    docs = "The items take the list's place. Empty and null lists give no row."
    schema = fields.form(("column",), column=fields.column(), alias=fields.optional_text())
    examples = (
        Example("Words", {"column": "words", "alias": "word"}, 'row<"id": long, "words": basic_array<string>>'),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("column", ""))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, column = node.input(), node.params["column"]
        row = node.named_rows()
        node.check_column(column, "/params/column", row)
        alias = node.params["alias"] or column
        if alias.startswith("__"):
            raise NodeProblem(Problem(Code.NAME_TAKEN, f"the name {alias!r} is reserved", field="/params/alias"))
        try:
            made = UnnestOperatorFactory(row, column, alias).output_type
        except ValueError as error:
            code = Code.NAME_TAKEN if "of this name" in str(error) else Code.TYPE_MISMATCH
            place = "/params/alias" if code is Code.NAME_TAKEN else "/params/column"
            raise NodeProblem(Problem(code, str(error), field=place)) from None
        passed_on = {name: name for name in made.field_names if name != alias}
        time = facts.time_column if facts.time_column != column else None
        origins = origins_of(made.field_names, node.node_id, passed_on, facts)
        return {"out": replace(facts, row=made, unique_key=None, time_column=time, origins=origins)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        given = [Literal(params["column"])] + ([Literal(params["alias"])] if params["alias"] else [])
        return {"out": context.assign(context.operator(context.input().call("unnest", *given)))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "column": names["in"].get(params["column"], params["column"])}


REST = "rest"
_BRANCH_NAME = {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 40}


class Split(NodeType):
    type = "split"
    title = "Split"
    summary = "Sends each row to the first branch whose condition is true"
    icon = "split"
    category = "Rows"
    keywords = ("route", "branch", "case", "switch", "if")
    docs = "Conditions are tried in order; a row leaves by the first that is true, or by `rest`, or not at all."
    schema = fields.form(
        ("branches",),
        branches={**fields.pairs(_BRANCH_NAME, fields.sql(), "branches"), "maxItems": 50},
        rest=fields.boolean(True),
    )
    examples = (Example("Cheap and dear", {"branches": [["dear", "price > 100"]], "rest": True}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return fields.names_in(params.get("branches"))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        branches = params.get("branches", [])
        names = [item[0] for item in branches if isinstance(item, list) and item and isinstance(item[0], str)]
        if params.get("rest", True):
            names.append(REST)
        return Ports((Port("in"),), tuple(map(Port, dict.fromkeys(names))))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts, branches = node.input(), node.params["branches"]
        row = node.rows()
        check_names([*branches, *([(REST, "")] if node.params["rest"] else [])], "/params/branches")
        for index, (_, condition) in enumerate(branches):
            with problems_of([Expression(f"/params/branches/{index}/1", condition)], facts.columns):
                checked_condition(row, condition)
        for index, (_, condition) in enumerate(self._conditions(node.params)):
            field = f"/params/branches/{min(index, len(branches) - 1)}/1"
            with problems_of([Expression(field, condition)], facts.columns):
                checked_condition(row, condition)
        return {port.name: facts for port in self.ports(node.params).outputs}

    def _conditions(self, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        made, before = [], ""
        for name, condition in params["branches"]:
            made.append((name, f"{before}({condition})"))
            before += f"COALESCE(({condition}), FALSE) = FALSE AND "
        if params["rest"]:
            made.append((REST, before.removesuffix(" AND ")))
        return made

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        stream = context.input()
        return {
            name: context.assign(context.operator(stream.call("where", Literal(condition)), name), name)
            for name, condition in self._conditions(context.node.params)
        }

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        branches = [[name, renamed_in(condition, names["in"])] for name, condition in params["branches"]]
        return {**params, "branches": branches}


class Union(NodeType):
    type = "union"
    title = "Union"
    summary = "Merges streams of the same columns, in no order"
    icon = "merge"
    category = "Rows"
    keywords = ("merge", "concat", "append", "union all")
    docs = (
        "All streams need the same columns. By name, columns of other streams are put into the order of the first; as "
        "they are, the streams must agree already. Watermarks follow the slowest stream."
    )
    is_parallel = True
    schema = fields.form((), match=fields.choice("name", "as_is", default="name"))
    examples = (Example("By name", {"match": "name"}),)

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((Port("in", many=True),), (OUT,))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        streams = node.inputs["in"]
        first = streams[0]
        for index, facts in enumerate(streams[1:], 2):
            if not _matches(first, facts, node.params["match"]):
                message = f"stream {index} has the columns {_shown(facts.row)}, the first one {_shown(first.row)}"
                hint = "Put a Columns or Select node before it."
                raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, port="in", hint=hint))
        times = {facts.time_column for facts in streams}
        origins = tuple((name, (node.node_id, name)) for name in first.columns) if len(streams) > 1 else first.origins
        return {
            "out": replace(
                first,
                changelog="retract" if any(facts.changelog == "retract" for facts in streams) else "append",
                unique_key=first.unique_key if len(streams) == 1 else None,
                event_time=all(facts.event_time for facts in streams),
                watermarks=all(facts.watermarks for facts in streams),
                time_column=times.pop() if len(times) == 1 else None,
                bounded=all(facts.bounded for facts in streams),
                origins=origins,
            )
        }

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        facts = context.node.inputs["in"]
        streams = []
        for index, (stream, found) in enumerate(zip(context.streams("in"), facts, strict=True)):
            if found.row != facts[0].row and isinstance(found.row, RowTypeInfo):
                call = stream.call("select", *(Literal(quoted(name)) for name in facts[0].columns))
                stream = context.operator(call, f"order-{index + 1}")
            streams.append(stream)
        if len(streams) == 1:
            return {"out": streams[0]}
        return {"out": context.assign(streams[0].call("union", *streams[1:]))}


def _matches(first: StreamFacts, facts: StreamFacts, match: str) -> bool:
    if first.row == facts.row:
        return True
    if match != "name" or first.row_type is None or facts.row_type is None:
        return False
    return first.columns == facts.columns


def _shown(row: TypeInformation | None) -> str:
    return "of Python objects" if row is None else str(row)


NODE_TYPES = (Filter, Select, WithColumns, Columns, Unnest, Split, Union)
