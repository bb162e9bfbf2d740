"""Sources, sinks and lookups that talk to servers. A connection is a name; programs hold a SecretRef of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, parse_type
from runtime.connectors.formats.bad_records import DEAD_LETTER_TYPE
from runtime.connectors.formats.json.ndjson import NdjsonFormat
from runtime.connectors.formats.text import TextLineFormat
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.join_columns import JoinSides
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.event_time import TIME, TIME_OR_OWN, facts_with_time, strategy
from runtime.pipeline.catalog.sinks import SinkType, check_changelog
from runtime.pipeline.catalog.sources import BAD, SourceType, source_facts, with_dead_letters
from runtime.pipeline.emit import Expr, Imported, Listing, Literal, duration, plain, texts, type_expr
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.node_type import (
    APPENDS,
    OUT,
    EmitContext,
    Example,
    NodeInput,
    NodeType,
    OutsideTable,
    Port,
    Ports,
    is_key,
)
from runtime.pipeline.problems import Code, NodeProblem, Problem, unknown_column

BEHIND = "Secrets of the connection come from the cluster, when the job begins."
CONNECTION = {
    "type": "string",
    "minLength": 1,
    "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z",
    "x-pattern-message": "names a connection: letters, digits and _ . -",
    "x-widget": "connection",
}
_STREAMS = {"type": "array", "items": fields.text(), "minItems": 1, "maxItems": 1_000, "uniqueItems": True}
_ENTRY = parse_type('row<"id": string, "fields": map<string, string>>')
ROWS = {**fields.row_type(0), "title": "Columns"}
BAD_RECORDS = fields.choice("fail", "skip", "dead_letters", default="fail")
_MESSAGES = fields.one_of(fields.branch("ndjson"), fields.branch("text"), default={"kind": "ndjson"})


def secret(connection: str) -> Expr:
    """Return the URL of a connection."""
    return Imported("runtime.common", "SecretRef")(Literal(connection), Literal("url"))


def declared_rows(node: NodeInput, param: str = "type") -> RowTypeInfo:
    """Return the declared columns, or those that were read from the outside.

    Raises:
        NodeProblem: there are none.
    """
    if node.params[param]:
        return node.declared_type(node.params[param], f"/params/{param}")
    row = None if node.row is None else parse_type(node.row)
    if isinstance(row, RowTypeInfo):
        return row
    hint = "Declare the columns: each with its name and type."
    raise NodeProblem(Problem(Code.MISSING_PARAM, "the columns are not known yet", field=f"/params/{param}", hint=hint))


def message_type(node: NodeInput) -> TypeInformation | None:
    """Return the type of the records that messages become.

    Raises:
        NodeProblem: columns have types that messages cannot have.
    """
    if node.params["format"]["kind"] == "text":
        return TextLineFormat().produced_type()
    row = declared_rows(node)
    try:
        NdjsonFormat(row)
    except TypeError as error:
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field="/params/type")) from None
    return row


def message_format(node: NodeInput) -> Expr:
    """Return the format of messages."""
    if node.params["format"]["kind"] == "text":
        return Imported("runtime.connectors", "TextLineFormat")()
    return Imported("runtime.connectors", "NdjsonFormat")(type_expr(declared_rows(node)))


def bad_records(bad: str) -> dict[str, Expr]:
    """Return the argument that says what becomes of messages that cannot be read."""
    if bad == "fail":
        return {}
    policy = "skip" if bad == "skip" else "to_side_output"
    return {"bad_records": Imported("runtime.connectors", "BadRecords").call(policy)}


class MessageSource(SourceType):
    """A source of messages, some of which may be bad."""

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((), (OUT, BAD) if params.get("bad") == "dead_letters" else (OUT,))

    def with_bad(self, node: NodeInput, facts: StreamFacts) -> Mapping[str, StreamFacts]:
        if node.params["bad"] != "dead_letters":
            return {"out": facts}
        return {"out": facts, "bad": source_facts(node, DEAD_LETTER_TYPE, bounded=facts.bounded)}


class Socket(MessageSource):
    type = "source.socket"
    title = "Socket"
    summary = "Lines that a TCP server sends"
    icon = "plug"
    keywords = ("tcp", "netcat", "stream")
    docs = "Reads records from a server, one after the other. What was received behind the last checkpoint is lost."
    schema = fields.form(
        ("host", "port"),
        host=fields.text(),
        port=fields.integer(None, 1, 65_535),
        delimiter=fields.text("\n"),
        format={**_MESSAGES, "default": {"kind": "text"}},
        type=ROWS,
        retries=fields.integer(-1, -1, 1_000_000),
        bad=BAD_RECORDS,
        time=TIME,
    )
    examples = (Example("Lines", {"host": "localhost", "port": 9999}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return f"{params.get('host', '')}:{params.get('port', '')}"

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts = source_facts(node, message_type(node))
        if node.around.in_micro_batches:
            message = "its connection cannot be closed and opened again for each micro-batch"
            node.report(Problem(Code.NOT_IN_MICRO_BATCHES, message, field="/type"))
        return self.with_bad(node, facts_with_time(node, facts))

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node, params = context.node, context.node.params
        named: dict[str, Expr] = {}
        if params["delimiter"] != "\n":
            named["delimiter"] = Literal(params["delimiter"])
        named["message_format"] = message_format(node)
        named["max_retries"] = Literal(params["retries"])
        named |= bad_records(params["bad"])
        source = Imported("runtime.connectors", "SocketSource")(
            Literal(params["host"]), Literal(params["port"]), **named
        )
        stream = context.assign(self.added(context, source, strategy(params["time"])))
        return with_dead_letters(context, stream, params["bad"])


class RedisSource(MessageSource):
    type = "source.redis_streams"
    title = "Redis streams"
    summary = "Entries of Redis streams"
    icon = "database"
    keywords = ("queue", "messages", "xread")
    docs = f"Reads each entry exactly once; the entries' ids are their event times, if wanted. {BEHIND}"
    schema = fields.form(
        ("connection", "streams"),
        connection=CONNECTION,
        streams=_STREAMS,
        format=fields.one_of(
            fields.branch("entry"), fields.branch("ndjson"), fields.branch("text"), default={"kind": "entry"}
        ),
        type=ROWS,
        value_field=fields.text("value"),
        start=fields.choice("earliest", "latest", default="earliest"),
        bounded=fields.boolean(False),
        bad=BAD_RECORDS,
        time=TIME_OR_OWN,
    )
    examples = (Example("Entries", {"connection": "redis-main", "streams": ["orders"]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        streams = params.get("streams")
        return ", ".join(map(str, streams[:2])) if isinstance(streams, list) else ""

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        row = _ENTRY if node.params["format"]["kind"] == "entry" else message_type(node)
        facts = source_facts(node, row, event_time=True, bounded=node.params["bounded"])
        return self.with_bad(node, facts_with_time(node, facts))

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node, params = context.node, context.node.params
        named: dict[str, Expr] = {}
        if params["format"]["kind"] != "entry":
            named["message_format"] = message_format(node)
        for name, default in (("value_field", "value"), ("start", "earliest"), ("bounded", False)):
            if params[name] != default:
                named[name] = Literal(params[name])
        named |= bad_records(params["bad"])
        source = Imported("runtime.connectors.redis_streams", "RedisStreamSource")(
            secret(params["connection"]), plain(params["streams"]), **named
        )
        stream = context.assign(self.added(context, source, strategy(params["time"])))
        return with_dead_letters(context, stream, params["bad"])


class PostgresSource(SourceType):
    type = "source.postgres"
    title = "PostgreSQL table"
    summary = "The rows of a table, once"
    icon = "database"
    keywords = ("sql", "jdbc", "database")
    docs = f"Reads a table in parallel, in ranges of a unique whole-number column. {BEHIND}"
    schema = fields.form(
        ("connection", "table"),
        connection=CONNECTION,
        table=fields.text(widget="table"),
        type=ROWS,
        where=fields.optional_text(),
        split_column=fields.optional_text(),
        rows_per_second=fields.optional_rate(),
        time=TIME,
    )
    examples = (
        Example("Orders", {"connection": "pg-main", "table": "orders", "type": [["id", "long"], ["item", "string"]]}),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("table", ""))

    def outside(self, params: Mapping[str, Any]) -> OutsideTable:
        return OutsideTable(params["connection"], params["table"])

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        facts = source_facts(node, declared_rows(node), bounded=True)
        return {"out": facts_with_time(node, facts)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        named = {
            name: Literal(params[name])
            for name in ("where", "split_column", "rows_per_second")
            if params[name] is not None
        }
        source = Imported("runtime.connectors.postgres_source", "PostgresSource").call(
            "for_table",
            secret(params["connection"]),
            Literal(params["table"]),
            row_type=type_expr(declared_rows(context.node)),
            **named,
        )
        return {"out": context.assign(self.added(context, source, strategy(params["time"])))}


class Lookup(NodeType):
    type = "join.lookup"
    title = "Lookup"
    summary = "Each row with the rows of a PostgreSQL table that match it"
    icon = "search"
    category = "Joins"
    keywords = ("enrich", "dimension", "database", "postgres", "async")
    docs = f"Asks the server for the rows of many records at a time, and remembers answers for a while. {BEHIND}"
    schema = fields.form(
        ("connection", "table", "on", "type"),
        connection=CONNECTION,
        table=fields.text(widget="table"),
        on=fields.pairs(fields.column(), fields.text(), "lookup-keys"),
        type={**fields.row_type(), "title": "Columns of the table"},
        left={**fields.boolean(False), "title": "Keep rows without a match"},
        suffix=fields.text("_right"),
        cache_rows=fields.integer(10_000, 0, 10**7),
        cache_ttl=fields.duration("1 min"),
        timeout=fields.duration("30 s"),
        capacity=fields.integer(100, 1, 100_000),
    )
    examples = (
        Example(
            "Sellers",
            {"connection": "pg-main", "table": "sellers", "on": [["bidder", "id"]], "type": [["name", "string"]]},
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("table", ""))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), (OUT,))

    def outside(self, params: Mapping[str, Any]) -> OutsideTable:
        return OutsideTable(params["connection"], params["table"])

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params, facts = node.params, node.input()
        row = node.named_rows()
        node.needs_appends()
        for index, (name, _) in enumerate(params["on"]):
            if name not in row.field_names:
                raise NodeProblem(unknown_column(name, f"/params/on/{index}/0", row.field_names))
            if name in [other for other, _ in params["on"][:index]]:
                raise NodeProblem(Problem(Code.NAME_TAKEN, "occurs twice", field=f"/params/on/{index}/0"))
        for name in ("cache_ttl", "timeout"):
            if Duration.parse(params[name]).to_millis() < 1:
                raise NodeProblem(Problem(Code.BAD_PARAM, "must be at least 1 ms", field=f"/params/{name}"))
        declared = node.declared_type(params["type"], "/params/type")
        try:
            made = JoinSides((row, declared), ((), ()), params["suffix"]).output_type
        except ColumnExpressionError as error:
            raise NodeProblem(Problem(Code.NAME_TAKEN, str(error), field="/params/suffix")) from None
        origins = origins_of(made.field_names, node.node_id, {name: name for name in row.field_names}, facts)
        return {"out": replace(facts, row=made, unique_key=None, origins=origins)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        node, params = context.node, context.node.params
        stream = context.input()
        named: dict[str, Expr] = {}
        if params["suffix"] != "_right":
            named["suffix"] = Literal(params["suffix"])
        if params["left"]:
            named["is_left"] = Literal(True)
        if params["cache_rows"] != 10_000:
            named["cache_rows"] = Literal(params["cache_rows"])
        ttl_ms = Duration.parse(params["cache_ttl"]).to_millis()
        if ttl_ms != 60_000:
            named["cache_ttl_ms"] = Literal(ttl_ms)
        lookup = Imported("runtime.connectors.postgres_lookup", "PostgresLookup").call(
            "by_columns",
            secret(params["connection"]),
            Literal(params["table"]),
            stream.call("get_type"),
            Listing(tuple((Literal(name), Literal(column)) for name, column in params["on"]), "{}"),
            type_expr(node.declared_type(params["type"], "/params/type")),
            **named,
        )
        row = context.output("out").row
        assert row is not None
        made = Imported("runtime.datastream", "AsyncDataStream").call(
            "unordered_wait",
            stream,
            lookup,
            duration(params["timeout"]),
            capacity=Literal(params["capacity"]),
            output_type=type_expr(row),
        )
        return {"out": context.assign(context.operator(made))}

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        return {**params, "on": [[names["in"].get(name, name), column] for name, column in params["on"]]}


class PostgresSink(SinkType):
    type = "sink.postgres"
    title = "PostgreSQL table"
    summary = "Rows of a table: appended, or inserted, updated and deleted by key"
    icon = "database"
    keywords = ("sql", "jdbc", "upsert", "database")
    docs = (
        "By key, rows take the place of those of the same key, and rows that are taken back are deleted; all rows of a "
        f"key are written by one subtask. Writing again after a failure changes nothing in the end. {BEHIND}"
    )
    schema = fields.form(
        ("connection", "table"),
        connection=CONNECTION,
        table=fields.text(widget="table"),
        mode=fields.one_of(
            fields.branch("append"),
            fields.branch("upsert", ("keys",), keys=fields.columns()),
            fields.branch("exactly_once"),
            default={"kind": "append"},
        ),
    )
    examples = (Example("Append", {"connection": "pg-main", "table": "bids"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("table", ""))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        mode = params.get("mode")
        takes = isinstance(mode, Mapping) and mode.get("kind") == "upsert"
        option = "" if takes else "set its Mode to upsert, with keys"
        return Ports((Port("in", takes_changelogs=takes, changelog_option=option),), ())

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        mode, facts = node.params["mode"], node.input()
        row = node.named_rows()
        check_changelog(node, mode["kind"] == "upsert")
        if mode["kind"] == "upsert":
            for index, name in enumerate(mode["keys"]):
                node.check_column(name, f"/params/mode/keys/{index}", row)
            key = facts.unique_key
            if facts.changelog == "retract" and (key is None or set(key) != set(mode["keys"])):
                known = "is not known" if key is None else f"is {', '.join(key)}"
                message = f"the changelog's key {known}: other keys would mix its rows"
                raise NodeProblem(Problem(Code.UPSERT_KEY_MISSING, message, field="/params/mode/keys"))
        elif mode["kind"] == "append":
            message = "rows are written at least once: after a failure some come again"
            node.report(Problem(Code.AT_LEAST_ONCE_SINK, message))
        elif not node.around.is_checkpointed:
            message = "rows become visible at checkpoints, and the job takes none"
            hint = "Set an interval of checkpoints in the pipeline's settings."
            node.report(Problem(Code.EXACTLY_ONCE_WITHOUT_CHECKPOINTS, message, hint=hint))
        return {}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params, mode = context.node.params, context.node.params["mode"]
        named: dict[str, Expr] = {}
        stream = context.input()
        if mode["kind"] == "upsert":
            named["key_columns"] = plain(mode["keys"])
            columns = context.node.input().columns
            if all(is_key(columns[name]) for name in mode["keys"]):
                # each subtask writes on its own: a row's later changes must not overtake it through another one
                stream = stream.call("key_by_columns", *texts(mode["keys"]))
        elif mode["kind"] == "exactly_once":
            guarantee = Imported("runtime.operators.sink", "DeliveryGuarantee")
            named["delivery_guarantee"] = guarantee.attribute("EXACTLY_ONCE")
        sink = Imported("runtime.connectors.postgres_sink", "PostgresSink")(
            secret(params["connection"]), Literal(params["table"]), **named
        )
        context.run(context.operator(stream.call("sink_to", sink)))
        return {}

    def updates_by_key(self, params: Mapping[str, Any]) -> bool:
        return bool(params["mode"]["kind"] == "upsert")

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        mode = params["mode"]
        if mode["kind"] != "upsert":
            return params
        return {**params, "mode": {**mode, "keys": [names["in"].get(key, key) for key in mode["keys"]]}}


class RedisSink(SinkType):
    type = "sink.redis_streams"
    title = "Redis streams"
    summary = "Adds rows to Redis streams as JSON, at least once"
    icon = "database"
    keywords = ("queue", "messages", "xadd")
    docs = f"A subtask writes to one of the streams. {BEHIND}"
    schema = fields.form(
        ("connection", "streams"),
        connection=CONNECTION,
        streams=_STREAMS,
        value_field=fields.text("value"),
        max_length=fields.optional_integer(1, 10**12),
    )
    examples = (Example("Alarms", {"connection": "redis-main", "streams": ["alarms"]}),)

    def label(self, params: Mapping[str, Any]) -> str:
        streams = params.get("streams")
        return ", ".join(map(str, streams[:2])) if isinstance(streams, list) else ""

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), ())

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        check_changelog(node, False)
        node.report(Problem(Code.AT_LEAST_ONCE_SINK, "rows are added at least once: after a failure some come again"))
        return {}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        named: dict[str, Expr] = {}
        if params["value_field"] != "value":
            named["value_field"] = Literal(params["value_field"])
        if params["max_length"] is not None:
            named["max_length"] = Literal(params["max_length"])
        sink = Imported("runtime.connectors.redis_streams", "RedisStreamSink")(
            secret(params["connection"]), plain(params["streams"]), **named
        )
        context.run(context.operator(context.input().call("sink_to", sink)))
        return {}


NODE_TYPES = (Socket, RedisSource, PostgresSource, Lookup, PostgresSink, RedisSink)
