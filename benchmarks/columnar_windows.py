"""The columnar window operator beside a hand-written Polars loop: the same Arrow batches in memory, one thread each.

    POLARS_MAX_THREADS=1 python -m benchmarks.columnar_windows

Both count and take the maximum per auction in 10 s windows that fire as the watermark passes them. Prints events per
second of each (median of the rounds, taken in turn) and the ratio; the results are compared too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.bids import chunk
from runtime.common.typeinfo import Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import MAX_WATERMARK, Watermark
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.local_aggregate import LocalAggregateOperatorFactory
from runtime.operators.columnar.panes import Panes
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.testing.harness import OneInputHarness, RecordingOutput

BIDS = Types.ROW_NAMED(
    ["auction", "bidder", "price", "channel", "url", "ts"],
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING(), Types.STRING(), Types.LONG()],
)
WINDOW_MS = 10_000
MARK_EVERY = 4
"""Batches between watermarks: some 30 ms at a million events per second, less than the default of 200 ms."""
#: rows out and the sum of their counts and maxima: what both must agree on
Outcome = tuple[int, int, int]


def batches_of(events: int, batch_rows: int) -> list[RecordBatch]:
    """Bids as they come from a source, with a watermark every few batches."""
    table = chunk(0, events, seed=7).to_arrow()
    batches: list[RecordBatch] = []
    for number, arrow in enumerate(table.combine_chunks().to_batches(max_chunksize=batch_rows)):
        columns = pa.RecordBatch.from_arrays(
            [c.cast(pa.string()) if pa.types.is_large_string(c.type) else c for c in arrow.columns], arrow.schema.names
        )
        times = columns.column(5).to_numpy()
        marks = (Mark(len(times), int(times[-1]) - 1),) if number % MARK_EVERY == MARK_EVERY - 1 else ()
        batches.append(RecordBatch.of_arrow(columns, BIDS, times, marks))
    return batches


def by_hand(batches: Sequence[RecordBatch]) -> Outcome:
    """The loop that one would write: aggregate each batch, merge what a window has gathered once it is over."""
    open_windows: dict[int, list[pl.DataFrame]] = {}
    rows = counts = tops = 0

    def fire(watermark: int) -> tuple[int, int, int]:
        fired = [0, 0, 0]
        for start in sorted(s for s in open_windows if s + WINDOW_MS - 1 <= watermark):
            merged = pl.concat(open_windows.pop(start)).group_by("auction").agg(pl.col("n").sum(), pl.col("top").max())
            arrow = merged.with_columns(pl.lit(start).alias("start")).to_arrow()
            fired[0] += arrow.num_rows
            fired[1] += int(merged["n"].to_numpy().sum())
            fired[2] += int(merged["top"].to_numpy().sum())
        return fired[0], fired[1], fired[2]

    for batch in batches:
        frame = pl.DataFrame(batch.arrow().select(["auction", "price", "ts"]))
        frame = frame.with_columns((pl.col("ts") // WINDOW_MS * WINDOW_MS).alias("start"))
        partials = frame.group_by("start", "auction").agg(pl.len().alias("n"), pl.col("price").max().alias("top"))
        for (start,), partial in partials.partition_by("start", as_dict=True, include_key=False).items():
            open_windows.setdefault(start, []).append(partial)
        if batch.marks:
            done = fire(batch.marks[-1].watermark)
            rows, counts, tops = rows + done[0], counts + done[1], tops + done[2]
    done = fire(MAX_WATERMARK)
    return rows + done[0], counts + done[1], tops + done[2]


class _Totals(RecordingOutput):
    """Adds up what comes out, without making Python values of it."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = self.counts = self.tops = 0

    def collect(self, batch: RecordBatch, tag: object = None) -> None:
        columns = batch.arrow()
        self.rows += columns.num_rows
        self.counts += int(columns.column(1).to_numpy().sum())
        self.tops += int(columns.column(2).to_numpy().sum())


class _Into(RecordingOutput):
    """Hands everything to the next operator."""

    def __init__(self, target: object) -> None:
        super().__init__()
        self.collect = target.process_batch  # type: ignore[attr-defined, method-assign]
        self.emit_watermark = target.process_watermark  # type: ignore[attr-defined, method-assign]


def by_operator(batches: Sequence[RecordBatch], phases: int) -> Outcome:
    """The same by the engine's operator, in one phase or two."""
    aggregates = aggregate_spec(BIDS, ["auction"], ["count(*) AS n", "max(price) AS top", "window_start"], {})
    spec = WindowAggregateSpec(aggregates, Panes(WINDOW_MS, WINDOW_MS, WINDOW_MS, 0), takes_partials=phases == 2)
    totals = _Totals()
    factory: OperatorFactory = WindowAggregateOperatorFactory(spec)
    with OneInputHarness(factory) as window:
        window.operator.setup(window.operator.context, totals)
        head = window.operator
        if phases == 2:
            local = LocalAggregateOperatorFactory(spec).create()
            local.setup(window.operator.context, _Into(window.operator))
            head = local
        for batch in batches:
            head.process_batch(batch)
        head.process_watermark(Watermark(MAX_WATERMARK))
    return totals.rows, totals.counts, totals.tops


def measure(events: int, batch_rows: int, rounds: int) -> None:
    """Print the rates of all contestants."""
    batches = batches_of(events, batch_rows)
    contestants: dict[str, Callable[[], Outcome]] = {
        "by hand": lambda: by_hand(batches),
        "one phase": lambda: by_operator(batches, 1),
        "two phases": lambda: by_operator(batches, 2),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    outcomes = {name: run() for name, run in contestants.items()}
    if len(set(outcomes.values())) != 1:
        raise SystemExit(f"the results differ: {outcomes}")
    for _ in range(rounds):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    reference = statistics.median(seconds["by hand"])
    print(f"{events} bids in batches of {batch_rows}, {len(np.unique(outcomes['by hand']))} totals agree")
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"  {name:10} {events / median / 1e6:6.2f} M/s  {reference / median:6.1%}")


def main() -> None:
    """Measure at the engine's batch size and at larger ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--batch-rows", type=int, nargs="+", default=[8192, 65_536])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if os.environ.get("POLARS_MAX_THREADS") != "1":
        sys.exit("set POLARS_MAX_THREADS=1: a slot has one thread, and Polars reads the number when it is imported")
    for batch_rows in arguments.batch_rows:
        measure(arguments.events, batch_rows, arguments.rounds)


if __name__ == "__main__":
    main()
