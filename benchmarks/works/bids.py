"""Five works over bids from NDJSON and from Parquet, in columns, beside the same work by hand in Polars.

Our jobs are what a user writes with `select`, `where` and `aggregate_columns`; their results are digested by a sink in
the slots, as the loops digest theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from benchmarks.bids import ndjson_bids, parquet_bids
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import CPU, TIDEMARK, Options, Outcome, Run, Target, Work, looped
from benchmarks.reference import bid_loops
from benchmarks.reference.bid_loops import COLUMNS, SLIDE_MS, WINDOW_MS
from benchmarks.reference.processes import Timed
from benchmarks.sinks import DigestSink, read_cpu_seconds, read_digest
from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors.formats.json.ndjson import NdjsonFormat
from runtime.connectors.formats.parquet.files import ParquetFormat
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource
from runtime.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

NDJSON_ROWS = 5_000_000
PARQUET_ROWS = 20_000_000
QUICK_ROWS = 30_000
BY_HAND = "polars by hand"
ALONE = "polars alone"
#: share of the hand-written loop's speed that has to be reached
SHARES = {"ndjson": 0.85, "parquet": 0.60}
#: share of the single query's speed that the hand-written loop has to reach
REFERENCE_SHARE = 0.8
TYPES = {
    "auction": Types.LONG(),
    "bidder": Types.LONG(),
    "price": Types.LONG(),
    "channel": Types.STRING(),
    "url": Types.STRING(),
    "ts": Types.LONG(),
}
TEXTS = {
    "pass-through": "all bids, all columns",
    "filter": "price > 50,000 and channel = apple: 12.5 % of the bids, all columns",
    "projection": "three columns, one new one computed",
    "tumbling": "10 s windows per auction: count, highest price",
    "sliding": "10 s windows every 2 s per auction: count, highest price",
}


def bid_works(options: Options) -> list[Work]:
    """Each of the five works, from both formats."""
    files: Mapping[str, Callable[[], Path]] = {
        "ndjson": partial(ndjson_bids, options.directory, options.rows(NDJSON_ROWS, QUICK_ROWS)),
        "parquet": partial(parquet_bids, options.directory, options.rows(PARQUET_ROWS, QUICK_ROWS)),
    }
    rows = {"ndjson": options.rows(NDJSON_ROWS, QUICK_ROWS), "parquet": options.rows(PARQUET_ROWS, QUICK_ROWS)}
    return [
        Work(
            f"{kind} {name}",
            TEXTS[name],
            {
                BY_HAND: _loop(bid_loops.by_hand, name, file, rows[kind], options.slots),
                TIDEMARK: partial(run_bids, name, file, rows[kind], options.slots, options.execution),
                ALONE: _loop(bid_loops.alone, name, file, rows[kind], options.slots),
            },
            (Target(TIDEMARK, BY_HAND, at_least=SHARES[kind]), Target(BY_HAND, ALONE, at_least=REFERENCE_SHARE)),
        )
        for kind, file in files.items()
        for name in TEXTS
    ]


def run_bids(name: str, file: Callable[[], Path], rows: int, slots: int, execution: str) -> Outcome:
    """Our job."""
    env = environment(slots, execution)
    with results_directory() as directory:
        define(name, bids_of(env, name, file())).sink_to(DigestSink(directory))
        run = run_job(env, name)
        cpu = {CPU: read_cpu_seconds(directory)}
        return Outcome(run.seconds, rows, read_digest(directory), run.beside_seconds, cpu)


def bids_of(env: StreamExecutionEnvironment, name: str, path: Path) -> DataStream:
    """The bids of a file, with those columns that a work needs."""
    if path.suffix == ".parquet":
        source = FileSource.for_bulk_file_format(ParquetFormat(COLUMNS[name]), str(path)).build()
    else:
        row_type = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))
        source = FileSource.for_record_stream_format(NdjsonFormat(row_type), str(path)).build()
    if name not in bid_loops.WINDOWED:
        return env.from_source(source, WatermarkStrategy.no_watermarks(), "bids")
    return env.from_source(source, WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts"), "bids")


def define(name: str, bids: DataStream) -> DataStream:
    """Add the workload's operators to the bids."""
    if name == "filter":
        return bids.where("price > 50000 AND channel = 'apple'")
    if name == "projection":
        return bids.select("auction", "bidder", "price * CAST(0.908 AS DOUBLE) AS euros", "ts")
    if name == "tumbling":
        windows = bids.key_by_columns("auction").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    elif name == "sliding":
        windows = bids.key_by_columns("auction").window(
            SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MS), Time.milliseconds(SLIDE_MS))
        )
    else:
        return bids
    return windows.aggregate_columns("count(*) AS bids", "max(price) AS top", "window_start AS start")


def _loop(loop: Callable[[str, Path, int], Timed], name: str, file: Callable[[], Path], rows: int, slots: int) -> Run:
    def run() -> Outcome:
        return looped(loop(name, file(), slots), rows)

    return run
