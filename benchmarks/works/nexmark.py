"""Nexmark's q0–q5, q7, q8, q11 and q12 in our API over Parquet files, beside Polars over the same files.

Event-time queries give the same rows as the reference. q12 counts by processing time: only the sum of its counts is the
same from run to run, and compared with the number of bids.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow.parquet as pq

from benchmarks.digest import Digest, digest_of
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.lingering import LINGER_S, LingeringParquetFormat
from benchmarks.measure import CPU, TIDEMARK, Options, Outcome, Run, Work, WrongResultError, looped
from benchmarks.nexmark_data import NexmarkFiles, nexmark_files
from benchmarks.reference.nexmark_queries import QUERIES, SESSION_GAP_MS, SLIDE_MS, STATES, WINDOW_MS, query_alone
from benchmarks.sinks import DigestSink, LastSink, ResultSink, SumSink, read_cpu_seconds, read_digest, read_results
from benchmarks.works.counting import Count
from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors.formats.parquet.files import ParquetFormat
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.connectors.file_system import FileSource
from runtime.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

EVENTS = 5_000_000
QUICK_EVENTS = 50_000
POLARS = "polars alone"
#: no auction is open for longer; the generator's own bound is 334 ms at 10,000 events a second
LONGEST_AUCTION_MS = 1_000
NAMED = Types.ROW_NAMED(["name", "city", "state", "id"], [Types.STRING()] * 3 + [Types.LONG()])
TEXTS = {
    "q0": "pass-through",
    "q1": "currency conversion",
    "q2": "bids on some auctions",
    "q3": "who sells what where: auctions joined with persons, kept for ever",
    "q4": "average closing price per category",
    "q5": "hot items: most bids in 10 s windows every 2 s",
    "q7": "highest bids in 10 s windows",
    "q8": "new persons who sell, in 10 s windows",
    "q11": "bids per session of a bidder, gap 10 s",
    "q12": "bids per bidder in 1 s windows of processing time; the 6 s that the source lingers are taken off",
}


class Streams(NamedTuple):
    """Makes the streams of a job's input; each call adds a source."""

    env: StreamExecutionEnvironment
    files: NexmarkFiles

    def persons(self, *columns: str) -> DataStream:
        return self._stream("persons", self.files.persons, columns)

    def auctions(self, *columns: str) -> DataStream:
        return self._stream("auctions", self.files.auctions, columns)

    def bids(self, *columns: str) -> DataStream:
        return self._stream("bids", self.files.bids, columns)

    def lingering_bids(self, *columns: str) -> DataStream:
        """Bids whose source stays for a moment when all are read: timers of processing time end with the input."""
        source = FileSource.for_bulk_file_format(LingeringParquetFormat(list(columns)), str(self.files.bids))
        source.set_splits(self.env.get_parallelism())
        return self.env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "bids")

    def _stream(self, name: str, path: Path, columns: Iterable[str]) -> DataStream:
        source = FileSource.for_bulk_file_format(ParquetFormat(list(columns)), str(path)).build()
        if "date_time" not in columns:
            return self.env.from_source(source, WatermarkStrategy.no_watermarks(), name)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("date_time")
        return self.env.from_source(source, strategy, name)


def nexmark_works(options: Options) -> list[Work]:
    """A work per query."""
    events = options.rows(EVENTS, QUICK_EVENTS)
    files = functools.cache(partial(nexmark_files, options.directory, events))
    works = []
    for name, text in TEXTS.items():
        contestants: dict[str, Run] = {}
        if name in QUERIES:
            contestants[POLARS] = partial(_run_polars, name, files, options.slots)
        contestants[TIDEMARK] = partial(_run_query, name, files, options)
        works.append(Work(f"nexmark {name}", text, contestants, compared=name in QUERIES))
    return works


def _run_polars(name: str, files: Callable[[], NexmarkFiles], threads: int) -> Outcome:
    return looped(query_alone(name, files(), threads), _rows(files()))


def _run_query(name: str, files: Callable[[], NexmarkFiles], options: Options) -> Outcome:
    query, make_sink = JOBS[name]
    env = environment(options.slots, options.execution)
    with results_directory() as directory:
        query(Streams(env, files())).sink_to(make_sink(directory))
        run = run_job(env, f"nexmark {name}")
        cpu = {CPU: read_cpu_seconds(directory)}
        seconds = run.seconds - (LINGER_S if name == "q12" else 0.0)
        return Outcome(seconds, _rows(files()), _result(name, directory, files()), run.beside_seconds, cpu)


def _result(name: str, directory: Path, files: NexmarkFiles) -> Digest:
    if name == "q4":
        rows = [row for rows in read_results(directory) for row in rows]
        return digest_of(pl.DataFrame(rows, ["category", "average"], orient="row"))
    digest = read_digest(directory)
    if name == "q12" and digest.hash != pq.read_metadata(files.bids).num_rows:
        raise WrongResultError(f"nexmark q12: the counts add up to {digest.hash:,}")
    return digest


@functools.cache
def _rows(files: NexmarkFiles) -> int:
    """Events of all kinds: a query's rate is in events, whichever of them it reads."""
    return sum(pq.read_metadata(path).num_rows for path in files)


def q0(streams: Streams) -> DataStream:
    return streams.bids("auction", "bidder", "price", "date_time", "extra")


def q1(streams: Streams) -> DataStream:
    bids = streams.bids("auction", "bidder", "price", "date_time", "extra")
    return bids.with_columns("price * CAST(0.908 AS DOUBLE) AS price")


def q2(streams: Streams) -> DataStream:
    return streams.bids("auction", "price").where("auction % 123 = 0")


def q3(streams: Streams) -> DataStream:
    auctions = streams.auctions("id", "seller", "category").where("category = 10")
    states = ", ".join(f"'{state}'" for state in STATES)
    persons = streams.persons("id", "name", "city", "state").where(f"state IN ({states})")
    sold = auctions.key_by_columns("seller").regular_join(persons.key_by_columns("id"), suffix="_of_seller")
    return sold.select("name", "city", "state", "id")


def q4(streams: Streams) -> DataStream:
    auctions = streams.auctions("id", "category", "date_time", "expires")
    bids = streams.bids("auction", "price", "date_time")
    joined = (
        auctions.key_by_columns("id")
        .interval_join(bids.key_by_columns("auction"))
        .between(Time.milliseconds(0), Time.milliseconds(LONGEST_AUCTION_MS))
        .columns()
    )
    valid = joined.where("date_time_right <= expires")
    # an auction's bids are a session: it is open for less than the gap, and ids are not used again
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(LONGEST_AUCTION_MS))
    winning = valid.key_by_columns("id", "category").window(sessions).aggregate_columns("max(price) AS price")
    return winning.key_by_columns("category").aggregate_columns("avg(price) AS average")


def q5(streams: Streams) -> DataStream:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(WINDOW_MS), Time.milliseconds(SLIDE_MS))
    # what a sliding window gives carries its last millisecond: one window of each slide holds it all
    slide = TumblingEventTimeWindows.of(Time.milliseconds(SLIDE_MS))
    bids = streams.bids("auction", "date_time").key_by_columns("auction").window(windows)
    counts = bids.aggregate_columns("count(*) AS bids", "window_start AS started")
    most = counts.key_by_columns("started").window(slide).aggregate_columns("max(bids) AS most")
    hot = counts.key_by_columns("started", "bids").window_join(most.key_by_columns("started", "most"), slide)
    return hot.select("auction", "bids", "started AS window_start")


def q7(streams: Streams) -> DataStream:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    bids = streams.bids("auction", "price", "bidder", "date_time", "extra")
    highest = bids.select("price", "0 AS everything").key_by_columns("everything").window(windows)
    tops = highest.aggregate_columns("max(price) AS top").key_by_columns("top")
    joined = bids.key_by_columns("price").window_join(tops, windows)
    return joined.select("auction", "price", "bidder", "date_time", "extra")


def q8(streams: Streams) -> DataStream:
    windows = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    persons = streams.persons("id", "name", "date_time").key_by_columns("id")
    auctions = streams.auctions("seller", "date_time").key_by_columns("seller").window(windows)
    sellers = auctions.aggregate_columns("count(*) AS auctions").key_by_columns("seller")
    return persons.window_join(sellers, windows, with_window=True).select("id", "name", "window_start")


def q11(streams: Streams) -> DataStream:
    sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(SESSION_GAP_MS))
    bids = streams.bids("bidder", "date_time").key_by_columns("bidder").window(sessions)
    return bids.aggregate_columns("count(*) AS bids", "window_start AS start", "window_end AS end")


def q12(streams: Streams) -> DataStream:
    windows = TumblingProcessingTimeWindows.of(Time.seconds(1))
    bids = streams.lingering_bids("bidder").key_by(lambda bid: bid[0], key_type=Types.LONG()).window(windows)
    return bids.aggregate(Count(), None, Types.LONG(), Types.LONG())


JOBS: dict[str, tuple[Callable[[Streams], DataStream], type[ResultSink]]] = {
    "q0": (q0, DigestSink),
    "q1": (q1, DigestSink),
    "q2": (q2, DigestSink),
    "q3": (q3, DigestSink),
    "q4": (q4, LastSink),
    "q5": (q5, DigestSink),
    "q7": (q7, DigestSink),
    "q8": (q8, DigestSink),
    "q11": (q11, DigestSink),
    "q12": (q12, SumSink),
}
