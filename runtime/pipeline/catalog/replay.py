"""The replay: recorded rows at their own times, faster, or at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.common.typeinfo import RowTypeInfo, parse_type
from runtime.connectors.files.paths import local_path
from runtime.connectors.flights import FLIGHT_TYPE
from runtime.pipeline.catalog import fields
from runtime.pipeline.catalog.event_time import ALIGNMENT, check_alignment, check_strategy, check_time_column, strategy
from runtime.pipeline.catalog.sources import CONNECTORS, SourceType, source_facts
from runtime.pipeline.emit import Expr, Imported, Literal, texts, type_expr
from runtime.pipeline.facts import StreamFacts
from runtime.pipeline.node_type import EmitContext, Example, NodeInput, OutsideFiles
from runtime.pipeline.problems import Code, NodeProblem, Problem

_FILES = fields.branch(
    "files",
    ("paths", "time_column"),
    paths={"type": "array", "items": fields.text(widget="path"), "minItems": 1, "maxItems": 1_000},
    type={**fields.row_type(0), "title": "Columns"},
    time_column={**fields.column("out"), "title": "Event time"},
    due_column={**fields.optional_text(), "title": "Column with the time at which a row comes, if not the event time"},
)
_RECORDING = fields.one_of(fields.branch("flights"), _FILES, default={"kind": "flights"})


class Replay(SourceType):
    type = "source.replay"
    title = "Replay"
    summary = "Recorded rows, at the pace at which they happened, or faster"
    icon = "plane"
    keywords = ("flights", "recording", "demo", "history", "backfill", "parquet")
    docs = (
        "Replays rows with their own event times. The flights come with Tidemark: all 336,776 that left New York in "
        "2013, in the order in which they really left, with the scheduled departure as event time, so some are hours "
        "late. Files are Parquet, CSV with a header, or NDJSON, and are held in memory. A speed of 3600 makes an hour "
        "of a second; without one, rows come as fast as they can."
    )
    schema = fields.form(
        (),
        recording={**_RECORDING, "title": "Recording"},
        speed={
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "maximum": 1e9,
            "default": 3600,
            "title": "Times as fast as it happened",
        },
        repeat={**fields.boolean(False), "title": "Again and again, with times that move on"},
        bound={**fields.duration("5 s"), "title": "Out of order by at most"},
        idle={**fields.optional_duration(), "title": "Idle after"},
        alignment=fields.one_of({"type": "null"}, ALIGNMENT),
    )
    examples = (
        Example("The flights of 2013, year after year", {"repeat": True, "bound": "4 h"}),
        Example(
            "Orders of a file, at once",
            {
                "recording": {
                    "kind": "files",
                    "paths": ["/data/orders.parquet"],
                    "type": [["id", "long"], ["ordered_at", "sql_timestamp"]],
                    "time_column": "ordered_at",
                },
                "speed": None,
            },
        ),
    )

    def label(self, params: Mapping[str, Any]) -> str:
        recording, speed = params.get("recording", {"kind": "flights"}), params.get("speed", 3600)
        name = recording.get("kind", "") if isinstance(recording, dict) else ""
        return f"{name}, as fast as possible" if speed is None else f"{name}, {speed} times as fast"

    def outside(self, params: Mapping[str, Any]) -> OutsideFiles | None:
        recording = params["recording"]
        if recording["kind"] != "files":
            return None
        return OutsideFiles(tuple(recording["paths"]), _format_of(recording["paths"][0]), "/params/recording/type")

    def infer(self, node: NodeInput) -> Mapping[str, StreamFacts]:
        recording = node.params["recording"]
        check_strategy(node.params, "/params")
        check_alignment(node, node.params, "/params")
        bounded = not node.params["repeat"]
        if recording["kind"] == "flights":
            return {"out": self._facts(node, FLIGHT_TYPE, "sched_dep", bounded)}
        for index, path in enumerate(recording["paths"]):
            try:
                local_path(path)
            except ValueError as error:
                raise NodeProblem(
                    Problem(Code.BAD_PARAM, str(error), field=f"/params/recording/paths/{index}")
                ) from None
        row = self._row(node)
        facts = self._facts(node, row, recording["time_column"], bounded)
        for name in ("time_column", "due_column"):
            if recording[name] is not None:
                check_time_column(facts, recording[name], f"/params/recording/{name}")
        return {"out": facts}

    def _facts(self, node: NodeInput, row: RowTypeInfo, time: str, bounded: bool) -> StreamFacts:
        return source_facts(node, row, event_time=True, watermarks=True, time_column=time, bounded=bounded)

    def _row(self, node: NodeInput) -> RowTypeInfo:
        declared = node.params["recording"]["type"]
        if declared:
            return node.declared_type(declared, "/params/recording/type")
        read = None if node.row is None else parse_type(node.row)
        if isinstance(read, RowTypeInfo):
            return read
        message, hint = "the columns are not known yet", "Declare the columns."
        raise NodeProblem(Problem(Code.MISSING_PARAM, message, field="/params/recording/type", hint=hint))

    def emit(self, context: EmitContext) -> Mapping[str, Expr]:
        params = context.node.params
        recording, speed = params["recording"], params["speed"]
        named: dict[str, Expr] = {"speed": Literal(speed if speed is None else float(speed))}
        if params["repeat"]:
            named["repeat"] = Literal(True)
        replay = Imported(CONNECTORS, "ReplaySource")
        if recording["kind"] == "flights":
            source: Expr = replay.call("flights", **named)
        else:
            columns: dict[str, Expr] = {"time_column": Literal(recording["time_column"])}
            columns["row_type"] = type_expr(self._row(context.node))
            if recording["due_column"] is not None:
                columns["due_column"] = Literal(recording["due_column"])
            source = replay.call("of_files", *texts(map(local_path, recording["paths"])), **columns, **named)
        return {"out": context.assign(self.added(context, source, strategy({**params, "kind": "own"})))}


NODE_TYPES = (Replay,)


def _format_of(path: str) -> Mapping[str, Any]:
    """Return the format in which a replay reads a file, by its name."""
    name = path.lower()
    if name.endswith(".parquet"):
        return {"kind": "parquet"}
    if name.endswith(".csv"):
        return {"kind": "csv", "header": True, "delimiter": ",", "quote": '"'}
    return {"kind": "ndjson"}
