"""Sinks: what shows rows, drops them, and writes files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.common.time import Duration
from runtime.connectors.files.buckets import BucketAssigner
from runtime.connectors.files.paths import local_path
from runtime.connectors.files.sink_config import OutputFileConfig
from runtime.connectors.formats.csv.columns import CsvWriterFormat
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat
from runtime.connectors.formats.parquet.files import ParquetWriterFormat
from runtime.connectors.formats.text import TextWriterFormat
from runtime.connectors.formats.writer_format import FileWriterFormat
from runtime.pipeline.catalog import fields
from runtime.pipeline.emit import Expr, Imported, Literal, texts
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import IN, EmitContext, Example, NodeInput, NodeType, Port, Ports
from runtime.pipeline.problems import Code, NodeProblem, Problem

CONNECTORS = "runtime.connectors"


class SinkType(NodeType):
    """A node without outputs."""

    category = "Sinks"
    is_sink = True

    def ports(self, params: Mapping[str, Any]) -> Ports:
        return Ports((IN,), ())


def check_changelog(node: NodeInput, accepts: bool) -> None:
    """Refuse a changelog for a sink that cannot take rows back.

    Raises:
        NodeProblem: it cannot, and there is one.
    """
    if node.input().changelog == "retract" and not accepts:
        message = "takes new rows only, and this stream takes rows back"
        hint = "Aggregate by window, or write to a sink that can update rows, such as print or PostgreSQL with keys."
        raise NodeProblem(Problem(Code.SINK_TAKES_APPENDS_ONLY, message, port="in", hint=hint))


class Print(SinkType):
    type = "sink.print"
    title = "Print"
    summary = "Shows rows in the job's output"
    icon = "terminal"
    keywords = ("stdout", "console", "debug", "log")
    docs = "Prints each row, with its kind if it is a changelog."
    schema = fields.form((), label=fields.optional_text())
    examples = (Example("Print", {}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("label") or "")

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        return {}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        label = context.node.params["label"]
        call = context.input().call("print", *([] if label is None else [Literal(label)]))
        context.run(context.operator(call))
        return {}


class BlackHole(SinkType):
    type = "sink.blackhole"
    title = "Nowhere"
    summary = "Drops rows: for measuring"
    icon = "trash"
    keywords = ("null", "discard", "benchmark")
    docs = "Takes rows as fast as they come, and drops them."
    schema = fields.form(())
    examples = (Example("Nowhere", {}),)

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        return {}

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        sink = Imported(CONNECTORS, "BlackHoleSink")()
        context.run(context.operator(context.input().call("sink_to", sink)))
        return {}


_FORMATS = fields.one_of(
    fields.branch("ndjson"),
    fields.branch(
        "csv",
        header=fields.boolean(True),
        delimiter={"type": "string", "minLength": 1, "maxLength": 1, "default": ","},
    ),
    fields.branch("parquet", compression=fields.choice("zstd", "snappy", "gzip", "none", default="zstd")),
    fields.branch("text"),
    default={"kind": "ndjson"},
)
_BUCKETS = fields.one_of(
    fields.branch("none"),
    fields.branch("clock", pattern=fields.text("yyyy-MM-dd--HH"), zone=fields.text("UTC")),
    fields.branch("fields", ("columns",), columns=fields.columns()),
    default={"kind": "none"},
)
_ROLLING = fields.one_of(
    {"type": "null"},
    fields.form(
        (),
        size_mb=fields.integer(128, 1, 1 << 20),
        age=fields.duration("1 min"),
        inactivity=fields.duration("1 min"),
    ),
)
_LEAST_MS = 1
NO_DELIMITERS = frozenset('"\n\r')


class Files(SinkType):
    type = "sink.files"
    title = "Files"
    summary = "Files that appear whole, exactly once"
    icon = "files"
    keywords = ("csv", "json", "ndjson", "parquet", "directory", "archive")
    docs = (
        "Files become visible when the checkpoint behind them is complete, or when bounded input ends. Without "
        "checkpoints, an unbounded job shows no files."
    )
    schema = fields.form(
        ("path", "format"),
        path=fields.text(widget="path"),
        format=_FORMATS,
        buckets=_BUCKETS,
        rolling={**_ROLLING, "default": None, "title": "New files"},
        prefix=fields.text("part"),
    )
    examples = (Example("NDJSON", {"path": "/data/out", "format": {"kind": "ndjson"}}),)

    def label(self, params: Mapping[str, Any]) -> str:
        return str(params.get("path", ""))

    def ports(self, params: Mapping[str, Any]) -> Ports:
        spec = params.get("format")
        takes = isinstance(spec, Mapping) and spec.get("kind") == "text"
        option = "" if takes else "write them as text, each with its kind"
        return Ports((Port("in", takes_changelogs=takes, changelog_option=option),), ())

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        params, facts = node.params, node.input()
        writer = self._writer(params)
        check_changelog(node, writer.shows_row_kinds)
        _tried("/params/path", lambda: local_path(params["path"]))
        _tried("/params/prefix", lambda: OutputFileConfig.builder().with_part_prefix(params["prefix"]))
        try:
            writer.check(facts.row)
        except Exception as error:
            raise NodeProblem(Problem(Code.TYPE_MISMATCH, str(error), port="in", field="/params/format")) from None
        self._check_buckets(node)
        rolling = params["rolling"]
        if rolling is not None:
            if params["format"]["kind"] == "parquet":
                message = "files of Parquet are finished at every checkpoint, and at no other time"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/rolling"))
            for name in ("age", "inactivity"):
                if Duration.parse(rolling[name]).to_millis() < _LEAST_MS:
                    problem = Problem(Code.BAD_PARAM, "must be at least 1 ms", field=f"/params/rolling/{name}")
                    raise NodeProblem(problem)
        if not facts.bounded and not node.around.is_checkpointed:
            message = "no file will appear: files become visible at checkpoints, and the job takes none"
            hint = "Set an interval of checkpoints in the pipeline's settings."
            node.report(Problem(Code.EXACTLY_ONCE_WITHOUT_CHECKPOINTS, message, hint=hint))
        return {}

    def _check_buckets(self, node: NodeInput) -> None:
        buckets = node.params["buckets"]
        if buckets["kind"] == "clock":
            _tried(
                "/params/buckets",
                lambda: BucketAssigner.date_time_bucket_assigner(buckets["pattern"], buckets["zone"]),
            )
        elif buckets["kind"] == "fields":
            row = node.named_rows()
            for index, name in enumerate(buckets["columns"]):
                node.check_column(name, f"/params/buckets/columns/{index}", row)

    def _writer(self, params: Mapping[str, Any]) -> FileWriterFormat:
        spec = params["format"]
        if spec["kind"] == "csv":
            if spec["delimiter"] in NO_DELIMITERS or not spec["delimiter"].isascii():
                message = "must be one ASCII character other than a quote or a line end"
                raise NodeProblem(Problem(Code.BAD_PARAM, message, field="/params/format/delimiter"))
            return CsvWriterFormat(spec["header"], spec["delimiter"])
        if spec["kind"] == "parquet":
            return ParquetWriterFormat(spec["compression"])
        return TextWriterFormat() if spec["kind"] == "text" else NdjsonWriterFormat()

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        spec, path = params["format"], Literal(params["path"])
        sink = Imported(CONNECTORS, "FileSink")
        if spec["kind"] == "csv":
            named: dict[str, Expr] = {}
            if not spec["header"]:
                named["has_header"] = Literal(False)
            if spec["delimiter"] != ",":
                named["delimiter"] = Literal(spec["delimiter"])
            made: Expr = sink.call("for_csv", path, **named)
        elif spec["kind"] == "parquet":
            compression = () if spec["compression"] == "zstd" else (Literal(spec["compression"]),)
            made = sink.call("for_parquet", path, *compression)
        elif spec["kind"] == "text":
            made = sink.call("for_row_format", path, Imported(CONNECTORS, "TextWriterFormat")())
        else:
            made = sink.call("for_ndjson", path)
        made = made.call("with_bucket_assigner", self._buckets(params["buckets"]))
        rolling = params["rolling"]
        if rolling is not None:
            policy = Imported(CONNECTORS, "RollingPolicy").call(
                "default_rolling_policy",
                Literal(rolling["size_mb"] << 20),
                Literal(Duration.parse(rolling["age"]).to_millis()),
                Literal(Duration.parse(rolling["inactivity"]).to_millis()),
            )
            made = made.call("with_rolling_policy", policy)
        if params["prefix"] != "part":
            names = Imported(CONNECTORS, "OutputFileConfig").call("builder")
            names = names.call("with_part_prefix", Literal(params["prefix"])).call("build")
            made = made.call("with_output_file_config", names)
        context.run(context.operator(context.input().call("sink_to", made.call("build"))))
        return {}

    def _buckets(self, buckets: Mapping[str, Any]) -> Expr:
        assigner = Imported(CONNECTORS, "BucketAssigner")
        if buckets["kind"] == "clock":
            return assigner.call("date_time_bucket_assigner", Literal(buckets["pattern"]), Literal(buckets["zone"]))
        if buckets["kind"] == "fields":
            return assigner.call("by_field", *texts(buckets["columns"]))
        return assigner.call("base_path_bucket_assigner")

    def renamed(self, params: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        buckets = params["buckets"]
        if buckets["kind"] != "fields":
            return params
        columns = [names["in"].get(name, name) for name in buckets["columns"]]
        return {**params, "buckets": {**buckets, "columns": columns}}


def _tried(pointer: str, make: Any) -> object:
    """Return what a call gives; its error is a problem of a parameter."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise NodeProblem(Problem(Code.BAD_PARAM, str(error), field=pointer)) from None


NODE_TYPES = (Print, BlackHole, Files)
