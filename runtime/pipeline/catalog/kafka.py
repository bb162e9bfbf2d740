"""Kafka as source and sink. A connection is a name; programs hold a SecretRef of its URL.

The connector is named in the code that is written, and not imported: its clients are an extra.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.connectors.formats.avro.messages import AvroMessageSchema
from runtime.connectors.formats.csv.columns import CsvFormat, CsvWriterFormat
from runtime.operators.sink import SinkError
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.connections import (
    BAD_RECORDS,
    BEHIND,
    CONNECTION,
    ROWS,
    MessageSource,
    bad_records,
    declared_rows,
    message_format,
    message_type,
    secret,
)
from runtime.pipeline.catalog.event_time import TIME_OR_OWN, facts_with_time, strategy
from runtime.pipeline.catalog.sinks import NO_DELIMITERS, SinkType, check_changelog
from runtime.pipeline.catalog.sources import source_facts, with_dead_letters
from runtime.pipeline.emit import Call, Expr, Imported, Literal, Method, duration, texts, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import APPENDS, EmitContext, Example, NodeInput, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

KAFKA = "runtime.datastream.connectors.kafka"
CONNECTORS = "runtime.connectors"
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
#: a record as it is, of a source without a format; the connector's own is the same
_RECORD = Types.ROW_NAMED(
    ["topic", "partition", "offset", "timestamp", "key", "value", "headers"],
    [
        *(Types.STRING(), Types.INT(), Types.LONG(), Types.LONG(), _BYTES, _BYTES),
        Types.LIST(Types.TUPLE([Types.STRING(), _BYTES])),
    ],
)
_TOPIC = {
    **fields.text(),
    "pattern": r"^[A-Za-z0-9._-]{1,249}\Z",
    "x-pattern-message": "names a topic: up to 249 letters, digits and . _ -",
}
_DELIMITER = {"type": "string", "minLength": 1, "maxLength": 1, "default": ","}
_REGISTRY = {**CONNECTION, "title": "Connection of the schema registry"}
_SCHEMA = {**fields.optional_text(), "x-widget": "json", "title": "Schema: made of the columns, if empty"}
_SUBJECT = {
    "subject": {**fields.optional_text(), "title": "Subject: the topic's, with -value, if empty"},
    "auto_register": {**fields.boolean(True), "title": "Register the schema"},
}
_AT = {**fields.integer(None, 0, 2**53), "title": "Timestamp, ms since 1970"}
_FOREVER = 2**31 - 1


def _fails(code: Code, message: str, pointer: str) -> NodeProblem:
    return NodeProblem(Problem(code, message, field=pointer))


def _check_delimiter(delimiter: str) -> None:
    if delimiter in NO_DELIMITERS or not delimiter.isascii():
        message = "must be one ASCII character other than a quote or a line end"
        raise _fails(Code.BAD_PARAM, message, "/params/format/delimiter")


def _avro(schema: str | RowTypeInfo, pointer: str) -> AvroMessageSchema:
    try:
        return AvroMessageSchema(schema)
    except (TypeError, ValueError) as error:
        raise _fails(Code.BAD_PARAM, f"is not a schema of records: {error}", pointer) from None


def _compact(schema: str) -> Literal:
    return Literal(json.dumps(json.loads(schema)))


class KafkaSource(MessageSource):
    type = "source.kafka"
    title = "Kafka"
    summary = "Records of Kafka topics"
    icon = "kafka"
    keywords = ("queue", "messages", "topic", "log", "consumer", "stream")
    docs = (
        "Reads topics by name, or those whose whole name matches a pattern; the records' timestamps are their event "
        "times, if wanted. Reads committed records only. A group has its offsets committed with each "
        f"checkpoint; the job does not need them. {BEHIND}"
    )
    schema = fields.form(
        ("connection", "topics"),
        connection=CONNECTION,
        topics=fields.one_of(
            fields.branch(
                "names",
                ("names",),
                names={"type": "array", "items": _TOPIC, "minItems": 1, "maxItems": 1_000, "uniqueItems": True},
            ),
            fields.branch("pattern", ("pattern",), pattern=fields.text()),
        ),
        format=fields.one_of(
            fields.branch("ndjson"),
            fields.branch("csv", delimiter=_DELIMITER),
            fields.branch("avro", ("schema",), schema=fields.text(widget="json")),
            fields.branch("avro_confluent", ("registry",), registry=_REGISTRY, schema=_SCHEMA),
            fields.branch("json_confluent", ("registry",), registry=_REGISTRY),
            fields.branch("text"),
            fields.branch("record"),
            default={"kind": "ndjson"},
        ),
        type=ROWS,
        start=fields.one_of(
            fields.branch("earliest"),
            fields.branch("latest"),
            fields.branch(
                "group",
                otherwise={
                    **fields.choice("earliest", "latest", "fail", default="earliest"),
                    "title": "Where the group has no offset",
                },
            ),
            fields.branch("timestamp", ("at",), at=_AT),
            default={"kind": "earliest"},
        ),
        end=fields.one_of(
            fields.branch("never"),
            fields.branch("latest"),
            fields.branch("timestamp", ("at",), at=_AT),
            default={"kind": "never"},
        ),
        group={**fields.optional_text(), "title": "Consumer group"},
        discovery={**fields.duration("5 min"), "title": "Look for new partitions every"},
        bad=BAD_RECORDS,
        time=TIME_OR_OWN,
    )
    examples = (
        Example(
            "JSON",
            {
                "connection": "kafka-main",
                "topics": {"kind": "names", "names": ["bids"]},
                "type": [["auction", "long"], ["price", "long"]],
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        topics = params.get("topics")
        if not isinstance(topics, Mapping):
            return ""
        names = topics.get("names")
        return ", ".join(map(str, names[:2])) if isinstance(names, list) else str(topics.get("pattern", ""))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        if params["topics"]["kind"] == "pattern":
            try:
                re.compile(params["topics"]["pattern"])
            except re.error as error:
                raise _fails(Code.BAD_PARAM, f"is no pattern: {error}", "/params/topics/pattern") from None
        if params["start"]["kind"] == "group" and params["group"] is None:
            raise _fails(Code.MISSING_PARAM, "whose offsets? name the consumer group", "/params/group")
        if not 0 <= Duration.parse(params["discovery"]).to_millis() <= _FOREVER:
            raise _fails(Code.BAD_PARAM, "must be from 0 (never) to 24 days", "/params/discovery")
        kind = params["format"]["kind"]
        if kind == "record" and params["bad"] != "fail":
            raise _fails(Code.BAD_PARAM, "records are taken as they are: none is bad", "/params/bad")
        bounded = params["end"]["kind"] != "never"
        facts = source_facts(node, self._row(node, kind), event_time=True, bounded=bounded)
        return self.with_bad(node, facts_with_time(node, facts))

    def _row(self, node: NodeInput, kind: str) -> TypeInformation | None:
        if kind == "record":
            return _RECORD
        if kind == "avro":
            return _avro(node.params["format"]["schema"], "/params/format/schema").get_produced_type()
        if kind == "avro_confluent":
            schema = node.params["format"]["schema"]
            pointer = "/params/type" if schema is None else "/params/format/schema"
            return _avro(declared_rows(node) if schema is None else schema, pointer).get_produced_type()
        if kind == "csv":
            _check_delimiter(node.params["format"]["delimiter"])
            row = declared_rows(node)
            try:
                CsvFormat(row, False)
            except (TypeError, ValueError) as error:
                raise _fails(Code.TYPE_MISMATCH, str(error), "/params/type") from None
            return row
        return message_type(node)

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        made: Expr = Imported(KAFKA, "KafkaSource").call("builder")
        made = made.call("set_bootstrap_servers", secret(params["connection"]))
        topics = params["topics"]
        if topics["kind"] == "names":
            made = made.call("set_topics", *texts(topics["names"]))
        else:
            made = made.call("set_topic_pattern", Literal(topics["pattern"]))
        if params["group"] is not None:
            made = made.call("set_group_id", Literal(params["group"]))
        made = made.call("set_starting_offsets", _offsets(params["start"]))
        if params["end"]["kind"] != "never":
            made = made.call("set_bounded", _offsets(params["end"]))
        discovery_ms = Duration.parse(params["discovery"]).to_millis()
        if discovery_ms != 300_000:
            made = made.call("set_property", Literal("partition.discovery.interval.ms"), Literal(str(discovery_ms)))
        made = self._with_format(made, context.node)
        for policy in bad_records(params["bad"]).values():
            made = made.call("set_bad_records", policy)
        source = context.assign(made.call("build"), "source")
        stream = context.assign(self.added(context, source, strategy(params["time"])))
        return with_dead_letters(context, stream, params["bad"])

    def _with_format(self, made: Expr, node: NodeInput) -> Method:
        spec = node.params["format"]
        if spec["kind"] == "record":
            return made.call("set_raw_records")
        if spec["kind"] == "avro":
            schema = Imported(CONNECTORS, "AvroMessageSchema")(_compact(spec["schema"]))
            return made.call("set_value_only_deserializer", schema)
        if spec["kind"] == "avro_confluent":
            of = type_expr(declared_rows(node)) if spec["schema"] is None else _compact(spec["schema"])
            confluent = Imported(CONNECTORS, "AvroConfluentSchema")(_registry(spec), of)
            return made.call("set_value_only_deserializer", confluent)
        if spec["kind"] == "json_confluent":
            columns = type_expr(declared_rows(node))
            read = Imported(CONNECTORS, "JsonConfluentFormat")(_registry(spec), columns)
            return made.call("set_value_format", read)
        if spec["kind"] == "csv":
            row = type_expr(declared_rows(node))
            delimiter = [] if spec["delimiter"] == "," else [Literal(spec["delimiter"])]
            return made.call("set_value_format", Imported(CONNECTORS, "CsvFormat")(row, Literal(False), *delimiter))
        return made.call("set_value_format", message_format(node))


def _registry(spec: Mapping[str, Any]) -> Call:
    return Imported(CONNECTORS, "SchemaRegistry")(secret(spec["registry"]))


def _offsets(place: Mapping[str, Any]) -> Expr:
    initializer = Imported(KAFKA, "KafkaOffsetsInitializer")
    if place["kind"] == "timestamp":
        return initializer.call("timestamp", Literal(place["at"]))
    if place["kind"] == "group":
        reset = "NONE" if place["otherwise"] == "fail" else place["otherwise"].upper()
        return initializer.call("committed_offsets", Imported(KAFKA, "KafkaOffsetResetStrategy").attribute(reset))
    return initializer.call(place["kind"])


class KafkaSink(SinkType):
    type = "sink.kafka"
    title = "Kafka"
    summary = "Writes rows to a Kafka topic: at least once, or exactly once in transactions"
    icon = "kafka"
    keywords = ("queue", "messages", "topic", "log", "producer")
    docs = (
        "A key chooses the partition, as in Kafka's own client; event times are the records' timestamps. Exactly once, "
        "each subtask writes one transaction per checkpoint, and consumers have to read committed records only. The "
        f"prefix begins all transactional ids. {BEHIND}"
    )
    schema = fields.form(
        ("connection", "topic"),
        connection=CONNECTION,
        topic=_TOPIC,
        format=fields.one_of(
            fields.branch("ndjson"),
            fields.branch("csv", delimiter=_DELIMITER),
            fields.branch("avro", schema=_SCHEMA),
            fields.branch("avro_confluent", ("registry",), registry=_REGISTRY, schema=_SCHEMA, **_SUBJECT),
            fields.branch("json_confluent", ("registry",), registry=_REGISTRY, schema=_SCHEMA, **_SUBJECT),
            default={"kind": "ndjson"},
        ),
        key=fields.one_of(
            fields.branch("none"),
            fields.branch("text", ("column",), column=fields.column()),
            fields.branch("json", ("columns",), columns=fields.columns()),
            default={"kind": "none"},
        ),
        guarantee=fields.one_of(
            fields.branch("at_least_once"),
            fields.branch(
                "exactly_once",
                ("prefix",),
                prefix={**fields.text(), "title": "Prefix of transactional ids"},
                transaction_timeout={
                    **fields.optional_duration(),
                    "title": "Transaction timeout: the longest that brokers allow, if empty",
                },
                allowed_downtime={**fields.duration("2 min"), "title": "Downtime for which there is room"},
            ),
            fields.branch("none"),
            default={"kind": "at_least_once"},
        ),
    )
    examples = (Example("Bids", {"connection": "kafka-main", "topic": "bids"}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("topic", ""))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((APPENDS,), ())

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        check_changelog(node, False)
        row = node.named_rows()
        self._check_format(node, row)
        key = node.params["key"]
        if key["kind"] == "text":
            node.check_column(key["column"], "/params/key/column", row)
        elif key["kind"] == "json":
            for index, name in enumerate(key["columns"]):
                node.check_column(name, f"/params/key/columns/{index}", row)
        self._check_guarantee(node)
        return {}

    def _check_format(self, node: NodeInput, row: RowTypeInfo) -> None:
        spec = node.params["format"]
        if spec["kind"] == "csv":
            _check_delimiter(spec["delimiter"])
            try:
                CsvWriterFormat(False, spec["delimiter"]).check(row)
            except SinkError as error:
                raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), port="in", field="/params/format")) from None
        elif spec["kind"] == "json_confluent" and spec["schema"] is not None:
            try:
                json.loads(spec["schema"])
            except ValueError as error:
                raise _fails(Code.BAD_PARAM, f"is no JSON: {error}", "/params/format/schema") from None
        elif spec["kind"] in ("avro", "avro_confluent") and spec["schema"] is None:
            _avro(row, "/params/format")
        elif spec["kind"] in ("avro", "avro_confluent"):
            given = _avro(spec["schema"], "/params/format/schema").get_produced_type()
            check_fields(row, given, "/params/format/schema")

    def _check_guarantee(self, node: NodeInput) -> None:
        guarantee = node.params["guarantee"]
        if guarantee["kind"] == "at_least_once":
            message = "rows are written at least once: after a failure some come again"
            node.report(Problem(Code.AT_LEAST_ONCE_SINK, message))
        elif guarantee["kind"] == "exactly_once":
            for name in ("transaction_timeout", "allowed_downtime"):
                least = 1 if name == "transaction_timeout" else 0
                if guarantee[name] is None:
                    continue
                if not least <= Duration.parse(guarantee[name]).to_millis() <= _FOREVER:
                    raise _fails(Code.BAD_PARAM, f"must be from {least} ms to 24 days", f"/params/guarantee/{name}")
            if not node.around.is_checkpointed:
                message = "rows become visible at checkpoints, and the job takes none"
                hint = "Set an interval of checkpoints in the pipeline's settings."
                node.report(Problem(Code.EXACTLY_ONCE_WITHOUT_CHECKPOINTS, message, hint=hint))

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        serializer = Imported(KAFKA, "KafkaRecordSerializationSchema").call("builder")
        serializer = serializer.call("set_topic", Literal(params["topic"]))
        key, keys = params["key"], "runtime.connectors.kafka.serialization"
        if key["kind"] == "text":
            made_key = Imported(keys, "KeyText")(Literal(key["column"]))
            serializer = serializer.call("set_key_serialization_schema", made_key)
        elif key["kind"] == "json":
            serializer = serializer.call("set_key_format", Imported(keys, "KeyColumns")(*texts(key["columns"])))
        serializer = self._with_format(serializer, context)
        made: Expr = Imported(KAFKA, "KafkaSink").call("builder")
        made = made.call("set_bootstrap_servers", secret(params["connection"]))
        made = made.call("set_record_serializer", context.assign(serializer.call("build"), "records"))
        guarantee = params["guarantee"]
        of = Imported("runtime.datastream.connectors.base", "DeliveryGuarantee")
        made = made.call("set_delivery_guarantee", of.attribute(guarantee["kind"].upper()))
        if guarantee["kind"] == "exactly_once":
            made = made.call("set_transactional_id_prefix", Literal(guarantee["prefix"]))
            if guarantee["transaction_timeout"] is not None:
                timeout_ms = Duration.parse(guarantee["transaction_timeout"]).to_millis()
                made = made.call("set_property", Literal("transaction.timeout.ms"), Literal(str(timeout_ms)))
            if Duration.parse(guarantee["allowed_downtime"]) != Duration.of_minutes(2):
                made = made.call("set_allowed_downtime", duration(guarantee["allowed_downtime"]))
        sink = context.assign(made.call("build"), "sink")
        context.run(context.operator(context.input().call("sink_to", sink)))
        return {}

    def _with_format(self, serializer: Expr, context: EmitContext) -> Method:
        spec = context.node.params["format"]
        if spec["kind"] == "csv":
            written: Call = Imported(CONNECTORS, "CsvWriterFormat")(Literal(False), Literal(spec["delimiter"]))
            return serializer.call("set_value_format", written)
        if spec["kind"] == "avro":
            row = type_expr(context.node.named_rows())
            schema = row if spec["schema"] is None else _compact(spec["schema"])
            return serializer.call("set_value_serialization_schema", Imported(CONNECTORS, "AvroMessageSchema")(schema))
        if spec["kind"] == "avro_confluent":
            schema = type_expr(context.node.named_rows()) if spec["schema"] is None else _compact(spec["schema"])
            confluent = Imported(CONNECTORS, "AvroConfluentSchema")(_registry(spec), schema, **_subject(context.node))
            return serializer.call("set_value_serialization_schema", confluent)
        if spec["kind"] == "json_confluent":
            named = _subject(context.node)
            if spec["schema"] is not None:
                named["schema"] = _compact(spec["schema"])
            made = Imported(CONNECTORS, "JsonConfluentWriterFormat")(_registry(spec), **named)
            return serializer.call("set_value_format", made)
        return serializer.call("set_value_format", Imported(CONNECTORS, "NdjsonWriterFormat")())

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        key, new = params["key"], names["in"]
        if key["kind"] == "text":
            return {**params, "key": {**key, "column": new.get(key["column"], key["column"])}}
        if key["kind"] == "json":
            return {**params, "key": {**key, "columns": [new.get(name, name) for name in key["columns"]]}}
        return params


def _subject(node: NodeInput) -> dict[str, Expr]:
    """Return the arguments that say where a sink's schema belongs."""
    spec = node.params["format"]
    named: dict[str, Expr] = {"subject": Literal(spec["subject"] or f"{node.params['topic']}-value")}
    if not spec["auto_register"]:
        named["auto_register"] = Literal(False)
    return named


def check_fields(row: RowTypeInfo, schema: TypeInformation, pointer: str) -> None:
    """Refuse a schema whose fields are not the columns of the rows that are written with it, in their order.

    Raises:
        NodeProblem: they are not.
    """
    wanted = schema.get_field_names() if isinstance(schema, RowTypeInfo) else []
    if list(wanted) != list(row.field_names):
        message = f"its fields are {', '.join(wanted)}, the columns {', '.join(row.field_names)}"
        raise NodeProblem(Problem(Code.TYPE_MISMATCH, message, port="in", field=pointer))


NODE_TYPES = (KafkaSource, KafkaSink)
