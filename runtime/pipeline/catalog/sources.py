"""Sources: an auction that is made up, rows of the pipeline itself, and files; and what all sources share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runtime.common.time import Duration
from runtime.common.typeinfo import TypeInformation, parse_type
from runtime.connectors.files.paths import local_path
from runtime.connectors.formats.avro.files import AvroFormat
from runtime.connectors.formats.bad_records import DEAD_LETTER_TYPE
from runtime.connectors.formats.csv.columns import CsvFormat
from runtime.connectors.formats.file_format import FileFormat
from runtime.connectors.formats.json.ndjson import NdjsonFormat
from runtime.connectors.formats.parquet.files import ParquetFormat
from runtime.connectors.formats.raw import RawLineFormat
from runtime.connectors.formats.text import TextLineFormat
from runtime.connectors.nexmark_columns import TYPES, NexmarkKind
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.event_time import TIME, facts_with_time, strategy
from runtime.pipeline.emit import Call, Expr, Imported, Listing, Literal, duration, texts, type_expr, value_expr
from runtime.pipeline.facts import StreamFacts, origins_of
from runtime.pipeline.node_type import OUT, EmitContext, Example, NodeInput, NodeType, OutsideFiles, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

CONNECTORS = "runtime.connectors"
BAD = Port("bad", "bad records", help="Records that cannot be read, with the reason.")


def source_facts(node: NodeInput, row: TypeInformation | None, **known: Any) -> StreamFacts:
    """Return the facts of a source's stream."""
    facts = StreamFacts(row, **known)
    return replace(facts, origins=origins_of(facts.columns, node.node_id, {}, None))


class SourceType(NodeType):
    """A node without inputs."""

    category = "Sources"

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((), (OUT,))

    def added(self, context: EmitContext, source: Expr, watermarks: Expr) -> Expr:
        """Return the stream of a source."""
        call = context.env.call("from_source", source, watermarks, Literal(context.name))
        return context.operator(call, is_named=False)


class Nexmark(SourceType):
    type = "source.nexmark"
    title = "Nexmark auction"
    summary = "Generated persons, auctions and bids of an online auction, in event-time order"
    icon = "gavel"
    keywords = ("demo", "benchmark", "bids", "generator")
    docs = (
        "Makes the events of an online auction: 1 person, 3 auctions and 46 bids in every 50. Event times and "
        "watermarks are set. The same seed gives the same events, whatever the parallelism."
    )
    schema = fields.form(
        ("kind",),
        kind=fields.choice("bids", "auctions", "persons", "events", default="bids"),
        events=fields.optional_integer(1, 10**15),
        events_per_second=fields.optional_rate(),
        event_time_rate=fields.integer(10_000, 1, 10**9),
        seed=fields.integer(0, 0, 2**31 - 1),
    )
    examples = (Example("Bids", {"kind": "bids", "events": 10_000}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("kind", ""))

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        row = TYPES[NexmarkKind(node.params["kind"])]
        names = source_facts(node, row).columns
        time = "date_time" if "date_time" in names else None
        bounded = node.params["events"] is not None
        return {"out": source_facts(node, row, event_time=True, watermarks=True, time_column=time, bounded=bounded)}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        rates = {"events_per_second": params["events_per_second"], "event_time_rate": params["event_time_rate"]}
        given = {"events": params["events"], **rates, "seed": params["seed"]}
        defaults = {"events": None, "events_per_second": None, "event_time_rate": 10_000, "seed": 0}
        config = {name: Literal(value) for name, value in given.items() if value != defaults[name]}
        kind = Imported(CONNECTORS, "NexmarkKind").attribute(params["kind"].upper())
        arguments: list[Expr] = [kind]
        if config:
            arguments.append(Imported(CONNECTORS, "NexmarkConfig")(**config))
        source = Imported(CONNECTORS, "NexmarkSource")(*arguments)
        watermarks = Imported("runtime.common", "WatermarkStrategy").call("for_monotonous_timestamps")
        return {"out": context.assign(self.added(context, source, watermarks))}


def time_renamed(time: Mapping[str, Any], old: str, new: str) -> Mapping[str, Any]:
    """Return a section "event time" whose column has another name."""
    return {**time, "column": new} if time.get("column") == old else time


_TYPE = {**fields.row_type(), "title": "Columns"}


class Inline(SourceType):
    type = "source.inline"
    title = "Rows"
    summary = "Rows that are part of the pipeline"
    icon = "table"
    keywords = ("collection", "values", "paste", "csv", "constant")
    docs = (
        "Rows typed in or pasted: objects by column, or lists in the order of the columns. Dates and times are ISO "
        "texts, instants ms since the epoch, bytes hexadecimal. One subtask reads them, once, in order."
    )
    is_parallel = False
    schema = fields.form(
        ("type", "rows"),
        type=_TYPE,
        rows={"type": "array", "items": {"type": ["object", "array"]}, "maxItems": 100_000, "x-widget": "grid"},
        time=TIME,
    )
    examples = (
        Example("Two orders", {"type": [["id", "long"], ["item", "string"]], "rows": [[1, "pen"], [2, "ink"]]}),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        rows = params.get("rows")
        return f"{len(rows)} rows" if isinstance(rows, list) else ""

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        row = node.declared_type(node.params["type"], "/params/type")
        for index, value in enumerate(node.params["rows"]):
            try:
                value_expr(row, value)
            except (ValueError, OverflowError) as error:
                message = f"row {index + 1}: {error}"
                problem = Problem(Code.TYPE_MISMATCH, message, field=f"/params/rows/{index}")
                raise NodeProblem(problem) from None
        return {"out": facts_with_time(node, source_facts(node, row, bounded=True))}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        row = context.node.declared_type(params["type"], "/params/type")
        rows = Listing(tuple(value_expr(row, value) for value in params["rows"]))
        made = context.operator(context.env.call("from_collection", rows, type_expr(row)))
        if params["time"]["kind"] != "none":
            timed = made.call("assign_timestamps_and_watermarks", strategy(params["time"]))
            made = context.operator(timed, "time").call("set_parallelism", Literal(1))
        return {"out": context.assign(made)}

    def renames_output(self, params: Mapping[str, Any], port: str, old: str, new: str) -> Mapping[str, Any] | None:
        if isinstance(params["type"], str):
            # the name comes from a type of the pipeline, which others may share
            return None
        rows = [
            {new if name == old else name: value for name, value in row.items()} if isinstance(row, dict) else row
            for row in params["rows"]
        ]
        kinds = [[new if name == old else name, kind] for name, kind in params["type"]]
        return {**params, "type": kinds, "rows": rows, "time": time_renamed(params["time"], old, new)}


_FORMATS = fields.one_of(
    fields.branch("ndjson"),
    fields.branch(
        "csv",
        header=fields.boolean(True),
        delimiter={"type": "string", "minLength": 1, "maxLength": 1, "default": ","},
        quote={"type": "string", "minLength": 1, "maxLength": 1, "default": '"'},
    ),
    fields.branch("parquet"),
    fields.branch("avro", ("schema",), schema=fields.text(widget="json")),
    fields.branch("text"),
    fields.branch("raw"),
    default={"kind": "ndjson"},
)
_TYPED = ("ndjson", "csv", "parquet")
_DELIMITERS = frozenset('"\n\r')


class Files(SourceType):
    type = "source.files"
    title = "Files"
    summary = "Records of files, once or as new files appear"
    icon = "files"
    keywords = ("csv", "json", "ndjson", "parquet", "avro", "directory")
    docs = (
        "Reads files, directories and patterns, in parallel. With an interval it watches for new files, without end. "
        "Records that cannot be read fail the job, are skipped, or leave by a port of their own. The path "
        "example:orders.csv is that of a file that comes with Tidemark."
    )
    schema = fields.form(
        ("paths", "format"),
        paths={"type": "array", "items": fields.text(widget="path"), "minItems": 1, "maxItems": 1_000},
        format=_FORMATS,
        type={**fields.row_type(0), "title": "Columns"},
        watch=fields.optional_duration(),
        splits=fields.optional_integer(1, 100_000),
        rows_per_second=fields.optional_rate(),
        bad=fields.choice("fail", "skip", "dead_letters", default="fail"),
        time=TIME,
    )
    examples = (
        Example("NDJSON", {"paths": ["/data/bids"], "format": {"kind": "ndjson"}, "type": [["auction", "long"]]}),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        paths = params.get("paths")
        return ", ".join(map(str, paths[:2])) if isinstance(paths, list) else ""

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((), (OUT, BAD) if params.get("bad") == "dead_letters" else (OUT,))

    def outside(self, params: Mapping[str, Any]) -> OutsideFiles | None:
        return OutsideFiles(tuple(params["paths"]), params["format"]) if params["format"]["kind"] in _TYPED else None

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params = node.params
        for index, path in enumerate(params["paths"]):
            try:
                local_path(path)
            except ValueError as error:
                raise NodeProblem(Problem(Code.BAD_PARAM, str(error), field=f"/params/paths/{index}")) from None
        file_format, row = self._format(node)
        if params["bad"] != "fail" and not file_format.tells_bad_records:
            message = f"single records of {params['format']['kind']} cannot be skipped"
            raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/bad"))
        if params["watch"] is not None:
            if Duration.parse(params["watch"]).to_millis() < 1:
                raise NodeProblem(Problem(Code.BAD_PARAM, "must be at least 1 ms", field="/params/watch"))
            if params["splits"] is not None:
                message = "watched files are split as they appear"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/splits"))
        bounded = params["watch"] is None
        outputs = {"out": facts_with_time(node, source_facts(node, row, bounded=bounded))}
        if params["bad"] == "dead_letters":
            # event times are those of the source's position in its input, if any
            letters = source_facts(node, DEAD_LETTER_TYPE, bounded=bounded, watermarks=outputs["out"].watermarks)
            outputs["bad"] = letters
        return outputs

    def _format(self, node: NodeInput) -> tuple[FileFormat, TypeInformation | None]:
        spec = node.params["format"]
        kind = spec["kind"]
        if kind == "text":
            return TextLineFormat(), TextLineFormat().produced_type()
        if kind == "raw":
            return RawLineFormat(), RawLineFormat().produced_type()
        if kind == "avro":
            try:
                avro = AvroFormat(spec["schema"])
            except Exception as error:
                message = f"is not a schema of records: {error}"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/format/schema")) from None
            return avro, avro.produced_type()
        row = self._row(node)
        if kind == "csv" and (spec["delimiter"] in _DELIMITERS or not spec["delimiter"].isascii()):
            message = "must be one ASCII character other than a quote or a line end"
            raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/format/delimiter"))
        if kind == "csv" and (
            not spec["quote"].isascii() or spec["quote"] in "\r\n" or spec["quote"] == spec["delimiter"]
        ):
            message = "must be one ASCII character other than the delimiter or a line end"
            raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/format/quote"))
        try:
            if kind == "csv":
                return CsvFormat(row, spec["header"], spec["delimiter"], spec["quote"]), row
            if kind == "ndjson":
                return NdjsonFormat(row), row
        except (TypeError, ValueError) as error:
            raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), field="/params/type")) from None
        return ParquetFormat(row_type=row), row

    def _row(self, node: NodeInput) -> Any:
        if node.params["type"]:
            return node.declared_type(node.params["type"], "/params/type")
        if node.row is not None:
            return parse_type(node.row)
        message = "the columns are not known yet"
        hint = "Declare the columns: each with its name and type."
        raise NodeProblem(Problem(Code.MISSING_PARAM, message, field="/params/type", hint=hint))

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        builder = "for_bulk_file_format" if params["format"]["kind"] == "parquet" else "for_record_stream_format"
        made: Expr = Imported(CONNECTORS, "FileSource").call(
            builder, self._format_expr(context.node), *texts(params["paths"])
        )
        if params["watch"] is not None:
            made = made.call("monitor_continuously", duration(params["watch"]))
        if params["splits"] is not None:
            made = made.call("set_splits", Literal(params["splits"]))
        if params["rows_per_second"] is not None:
            made = made.call("set_rate_limit", Literal(float(params["rows_per_second"])))
        made = with_bad_records(made, params["bad"])
        stream = context.assign(self.added(context, made.call("build"), strategy(params["time"])))
        return with_dead_letters(context, stream, params["bad"])

    def _format_expr(self, node: NodeInput) -> Expr:
        spec = node.params["format"]
        kind = spec["kind"]
        if kind == "text":
            return Imported(CONNECTORS, "TextLineFormat")()
        if kind == "raw":
            return Imported(CONNECTORS, "RawLineFormat")()
        if kind == "avro":
            return Imported(CONNECTORS, "AvroFormat")(Literal(json.dumps(json.loads(spec["schema"]))))
        row = type_expr(self._row(node))
        if kind == "parquet":
            return Imported(CONNECTORS, "ParquetFormat")(row_type=row)
        if kind == "ndjson":
            return Imported(CONNECTORS, "NdjsonFormat")(row)
        named = []
        if not spec["header"]:
            named.append(("has_header", Literal(False)))
        if spec["delimiter"] != ",":
            named.append(("delimiter", Literal(spec["delimiter"])))
        if spec["quote"] != '"':
            named.append(("quote_char", Literal(spec["quote"])))
        return Call(Imported(CONNECTORS, "CsvFormat"), (row,), tuple(named))


def with_bad_records(builder: Expr, bad: str) -> Expr:
    """Return a builder with what becomes of records that cannot be read."""
    if bad == "fail":
        return builder
    policy = "skip" if bad == "skip" else "to_side_output"
    return builder.call("set_bad_records", Imported(CONNECTORS, "BadRecords").call(policy))


def with_dead_letters(context: EmitContext, stream: Expr, bad: str) -> Mapping[str, Expr]:
    """Return the outputs of a source: its stream, and the records that cannot be read if they have a port."""
    if bad != "dead_letters":
        return {"out": stream}
    letters = stream.call("get_side_output", Imported(CONNECTORS, "DEAD_LETTERS"))
    return {"out": stream, "bad": context.assign(letters, "bad")}


NODE_TYPES = (Nexmark, Inline, Files)
