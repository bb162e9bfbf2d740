"""The five workloads over bids, written by hand in Polars, and as a single Polars query.

`by_hand` reads blocks (or row groups) of a part, processes each and digests the result. `alone` is one lazy query over
the whole file in one process with as many threads; it checks that the hand-written loops are fast enough.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.digest import EMPTY, Digest, digest_of
from benchmarks.reference.files import Part, blocks, parts_of
from benchmarks.reference.processes import Timed, timed_alone, timed_parts
from benchmarks.reference.windows import PartResult, Windows, WindowShape, merged

SCHEMA = {
    "auction": pl.Int64(),
    "bidder": pl.Int64(),
    "price": pl.Int64(),
    "channel": pl.String(),
    "url": pl.String(),
    "ts": pl.Int64(),
}
WINDOW_MS = 10_000
SLIDE_MS = 2_000
#: Rows of Parquet worked on at a time, a row group.
STEP_ROWS = 1 << 17

#: columns that a work needs; None = all
COLUMNS: dict[str, list[str] | None] = {
    "pass-through": None,
    "filter": None,
    "projection": ["auction", "bidder", "price", "ts"],
    "tumbling": ["auction", "price", "ts"],
    "sliding": ["auction", "price", "ts"],
}
WORKS = tuple(COLUMNS)


def pass_through(bids: pl.LazyFrame) -> pl.LazyFrame:
    return bids


def filtered(bids: pl.LazyFrame) -> pl.LazyFrame:
    return bids.filter((pl.col("price") > 50_000) & (pl.col("channel") == "apple"))


def projected(bids: pl.LazyFrame) -> pl.LazyFrame:
    return bids.select("auction", "bidder", (pl.col("price") * 0.908).alias("euros"), "ts")


def windowed(bids: pl.LazyFrame, shape: WindowShape) -> pl.LazyFrame:
    """All windows by one query: partials per pane, each handed to the windows that it is in."""
    size_ms, slide_ms = shape
    pane = (pl.col("ts") // slide_ms * slide_ms).alias("start")
    panes = bids.group_by(pane, "auction").agg(
        pl.len().cast(pl.Int64).alias("bids"), pl.col("price").max().alias("top")
    )
    if size_ms > slide_ms:
        starts = pl.concat_list([pl.col("start") - back for back in range(0, size_ms, slide_ms)])
        panes = panes.with_columns(starts.alias("start")).explode("start")
        panes = panes.group_by("start", "auction").agg(pl.col("bids").sum(), pl.col("top").max())
    return panes.select("auction", "bids", "top", "start")


ROW_WISE: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "pass-through": pass_through,
    "filter": filtered,
    "projection": projected,
}
WINDOWED = {"tumbling": WindowShape(WINDOW_MS, WINDOW_MS), "sliding": WindowShape(WINDOW_MS, SLIDE_MS)}


def by_hand(work: str, path: Path, processes: int) -> Timed:
    """The loops; their result is a digest."""

    def merge(results: list[Any]) -> Digest:
        return sum(results, EMPTY) if work in ROW_WISE else merged(results, WINDOWED[work])

    return timed_parts(functools.partial(_part, work), parts_of(path, processes), merge)


def alone(work: str, path: Path, threads: int) -> Timed:
    """Run one lazy query."""
    return timed_alone(_query, work, path, threads=threads)


def _part(work: str, part: Part) -> Digest | PartResult:
    frames = _parquet_frames(work, part) if part.path.suffix == ".parquet" else _ndjson_frames(part)
    if work in ROW_WISE:
        return sum((digest_of(ROW_WISE[work](frame).collect()) for frame in frames), EMPTY)
    windows = Windows(WINDOWED[work])
    for frame in frames:
        windows.add(frame.collect())
    return windows.result()


def _query(work: str, path: Path) -> Digest:
    bids = pl.scan_parquet(path) if path.suffix == ".parquet" else pl.scan_ndjson(path, schema=SCHEMA)
    query = ROW_WISE[work](bids) if work in ROW_WISE else windowed(bids, WINDOWED[work])
    return digest_of(query.collect(engine="streaming"))


def _ndjson_frames(part: Part) -> Iterator[pl.LazyFrame]:
    for block in blocks(part):
        yield pl.read_ndjson(io.BytesIO(block), schema=SCHEMA).lazy()


def _parquet_frames(work: str, part: Part) -> Iterator[pl.LazyFrame]:
    """Not read yet: a filter decodes only what it keeps."""
    for start in range(part.start, part.stop, STEP_ROWS):
        rows = min(STEP_ROWS, part.stop - start)
        frame = pl.scan_parquet(part.path).slice(start, rows)
        columns = COLUMNS[work]
        yield frame if columns is None else frame.select(columns)
