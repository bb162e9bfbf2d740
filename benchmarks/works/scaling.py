"""Measures a job's speed with more slots, more keys and more open windows.

The contestants of a work are sizes of one of our jobs; the results of each are compared with a plain computation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.bids import ndjson_bids
from benchmarks.digest import Digest, digest_of
from benchmarks.engine import environment, results_directory, run_job
from benchmarks.measure import CPU, Options, Outcome, Target, Work, WrongResultError
from benchmarks.reference.memory import BATCH_ROWS, Pool, count_by_hand
from benchmarks.sinks import DigestSink, read_cpu_seconds, read_digest
from benchmarks.works.bids import run_bids
from benchmarks.works.counting import Count
from benchmarks.works.state import run_count, run_count_auctions, whole_batches
from runtime.common import Duration, Time, Types, WatermarkStrategy
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch
from runtime.datastream.functions import ProcessWindowFunction
from runtime.datastream.window import TimeWindow, TumblingEventTimeWindows

NDJSON_ROWS = 5_000_000
STATE_ROWS = 2_000_000
MEMORY_ROWS = 400 * BATCH_ROWS
COLUMN_ROWS = 8_000_000
RECORD_ROWS = 2_000_000
QUICK_ROWS = 30_000
TWO_SLOTS = 1.7
FEW_KEYS, MANY_KEYS = 10_000, 1_000_000
FEW_WINDOWS, MANY_WINDOWS = 1, 64
WINDOW_MS = 1000
#: an event time so long that the open windows at its end do not count
ROWS_PER_MS = 10
WINDOW_KEYS = 100
EVENTS = Types.ROW_NAMED(["key", "ts"], [Types.LONG(), Types.LONG()])
COUNTS = Types.ROW_NAMED(["key", "n", "start"], [Types.LONG()] * 3)


def scaling_works(options: Options) -> list[Work]:
    """Slots, keys, windows."""
    return [*_slots(options), _keys(options), *_windows(options)]


def _slots(options: Options) -> list[Work]:
    rows, state_rows = options.rows(NDJSON_ROWS, QUICK_ROWS), options.rows(STATE_ROWS, QUICK_ROWS)
    bids = partial(ndjson_bids, options.directory, rows)
    jobs: dict[str, Callable[[int], Outcome]] = {
        "slots tumbling": lambda slots: run_bids("tumbling", bids, rows, slots, options.execution),
        "slots state": lambda slots: run_count_auctions(options, state_rows, slots),
    }
    return [
        Work(
            name,
            f"the job of {text} with one slot and with two",
            {"1 slot": partial(job, 1), "2 slots": partial(job, 2)},
            (Target("2 slots", "1 slot", at_least=TWO_SLOTS),),
        )
        for (name, job), text in zip(jobs.items(), ("ndjson tumbling", "state ndjson"), strict=True)
    ]


def _keys(options: Options) -> Work:
    few, many = (FEW_KEYS, MANY_KEYS) if not options.quick else (100, 10_000)
    rows = whole_batches(options.rows(MEMORY_ROWS, QUICK_ROWS))

    def run(keys: int) -> Outcome:
        outcome = run_count(Pool(keys), rows, 1, options.execution)
        return _checked("keys", outcome, _counts(Pool(keys), rows))

    return Work(
        "keys",
        "the job of state memory with 10,000 and with 1,000,000 keys",
        {f"{few:,} keys": partial(run, few), f"{many:,} keys": partial(run, many)},
        (Target(f"{many:,} keys", f"{few:,} keys", at_least=0.5),),
        compared=False,
    )


@functools.cache
def _counts(pool: Pool, rows: int) -> Digest:
    return count_by_hand(pool, rows)


def _windows(options: Options) -> list[Work]:
    works = []
    for kind, full in (("columns", COLUMN_ROWS), ("records", RECORD_ROWS)):
        rows = options.rows(full, QUICK_ROWS)

        def run(windows: int, kind: str = kind, rows: int = rows) -> Outcome:
            return _run_windows(kind, rows, windows, options)

        works.append(
            Work(
                f"windows {kind}",
                f"count per key in 1 s windows ({'aggregate_columns' if kind == 'columns' else 'aggregate'}) of which "
                "1 or 64 are open at a time, one slot",
                {"1 window": partial(run, FEW_WINDOWS), "64 windows": partial(run, MANY_WINDOWS)},
                (Target("64 windows", "1 window", at_least=1 / 1.5),),
                compared=False,
            )
        )
    return works


class DisorderedSource(IndexSource):
    """Events of 100 keys, 10 a ms of event time, each moved ahead by up to `windows` seconds."""

    def __init__(self, rows: int, windows: int) -> None:
        super().__init__(rows, None)
        self.windows = windows

    def produced_type(self) -> TypeInformation | None:
        return EVENTS

    def generate(self, start: int, stop: int) -> RecordBatch:
        return RecordBatch.of_arrow(pa.RecordBatch.from_pydict(disordered(start, stop, self.windows)), EVENTS)


def disordered(start: int, stop: int, windows: int) -> dict[str, pa.Array]:
    """The events [start, stop) of a DisorderedSource, as columns."""
    numbers = np.arange(start, stop, dtype=np.int64)
    # a multiplicative hash: cheap, and a function of the number alone
    mixed = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    ahead = (mixed % np.uint64(windows * WINDOW_MS)).astype(np.int64)
    return {"key": pa.array(numbers * 7_919 % WINDOW_KEYS), "ts": pa.array(numbers // ROWS_PER_MS + ahead)}


class WithStart(ProcessWindowFunction[int, tuple[int, int, int], int, TimeWindow]):
    """The key, the count and the window's start."""

    def process(self, key: int, context: Any, elements: Iterable[int]) -> Iterable[tuple[int, int, int]]:
        return [(key, next(iter(elements)), context.window().start)]


def _run_windows(kind: str, rows: int, windows: int, options: Options) -> Outcome:
    env = environment(1, options.execution)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(windows))
    events = env.from_source(DisorderedSource(rows, windows), strategy.with_timestamp_column("ts"), "events")
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))
    if kind == "columns":
        counts = (
            events.key_by_columns("key").window(assigner).aggregate_columns("count(*) AS n", "window_start AS start")
        )
    else:
        keyed = events.key_by(lambda event: event[0], key_type=Types.LONG()).window(assigner)
        counts = keyed.aggregate(Count(), WithStart(), Types.LONG(), COUNTS)
    with results_directory() as directory:
        counts.sink_to(DigestSink(directory))
        run = run_job(env, "windows")
        cpu = {CPU: read_cpu_seconds(directory)}
        outcome = Outcome(run.seconds, rows, read_digest(directory), run.beside_seconds, cpu)
    return _checked(f"windows {kind}", outcome, _window_counts(rows, windows))


@functools.cache
def _window_counts(rows: int, windows: int) -> Digest:
    events = pl.DataFrame(disordered(0, rows, windows))
    start = (pl.col("ts") // WINDOW_MS * WINDOW_MS).alias("start")
    counts = events.group_by("key", start).agg(pl.len().cast(pl.Int64).alias("n"))
    return digest_of(counts.select("key", "n", "start"))


def _checked(work: str, outcome: Outcome, expected: Digest) -> Outcome:
    if outcome.result != expected:
        raise WrongResultError(f"{work}: tidemark found {outcome.result}, a plain computation {expected}")
    return outcome
