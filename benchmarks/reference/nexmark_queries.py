"""Nexmark's queries in Polars alone: one lazy query over the whole files, with as many threads as the engine has slots.

Bounded, without the constraints of streaming: the result of a query when all input is known. Source: the Nexmark
queries as in Flink's nexmark; q5 and q7 keep all equals.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from benchmarks.digest import Digest, digest_of
from benchmarks.reference.processes import Timed, timed_alone

WINDOW_MS = 10_000
SLIDE_MS = 2_000
SESSION_GAP_MS = 10_000
EURO_RATE = 0.908
STATES = ("OR", "ID", "CA")


class Events(NamedTuple):
    """Input of a query."""

    persons: pl.LazyFrame
    auctions: pl.LazyFrame
    bids: pl.LazyFrame


def query_alone(name: str, files: tuple[Path, Path, Path], threads: int) -> Timed:
    """Run a query; its result is a digest."""
    return timed_alone(_run, name, files, threads=threads)


def _run(name: str, files: tuple[Path, Path, Path]) -> Digest:
    events = Events(*(pl.scan_parquet(path) for path in files))
    return digest_of(QUERIES[name](events).collect(engine="streaming"))


def _ms(column: str) -> pl.Expr:
    return pl.col(column).dt.epoch("ms")


def _window(column: str, width_ms: int = WINDOW_MS) -> pl.Expr:
    return (_ms(column) // width_ms * width_ms).alias("window_start")


def q0(events: Events) -> pl.LazyFrame:
    return events.bids.select("auction", "bidder", "price", "date_time", "extra")


def q1(events: Events) -> pl.LazyFrame:
    return events.bids.select("auction", "bidder", (pl.col("price") * EURO_RATE).alias("price"), "date_time", "extra")


def q2(events: Events) -> pl.LazyFrame:
    return events.bids.filter(pl.col("auction") % 123 == 0).select("auction", "price")


def q3(events: Events) -> pl.LazyFrame:
    sellers = events.persons.filter(pl.col("state").is_in(STATES))
    sold = events.auctions.filter(pl.col("category") == 10).select("id", "seller")
    joined = sold.join(sellers, left_on="seller", right_on="id")
    return joined.select("name", "city", "state", "id")


def q4(events: Events) -> pl.LazyFrame:
    offers = events.bids.select("auction", "price", pl.col("date_time").alias("bid_time"))
    open_auctions = events.auctions.select("id", "category", "date_time", "expires")
    valid = offers.join(open_auctions, left_on="auction", right_on="id").filter(
        pl.col("bid_time").is_between("date_time", "expires")
    )
    winning = valid.group_by("auction", "category").agg(pl.col("price").max())
    return winning.group_by("category").agg(pl.col("price").mean().alias("average"))


def q5(events: Events) -> pl.LazyFrame:
    panes = events.bids.group_by(_window("date_time", SLIDE_MS), "auction").agg(pl.len().cast(pl.Int64).alias("bids"))
    starts = pl.concat_list([pl.col("window_start") - back for back in range(0, WINDOW_MS, SLIDE_MS)])
    windows = panes.with_columns(starts.alias("window_start")).explode("window_start")
    counts = windows.group_by("window_start", "auction").agg(pl.col("bids").sum())
    most = counts.group_by("window_start").agg(pl.col("bids").max())
    return counts.join(most, on=["window_start", "bids"]).select("auction", "bids", "window_start")


def q7(events: Events) -> pl.LazyFrame:
    windowed = events.bids.select("auction", "bidder", "price", "date_time", "extra", _window("date_time"))
    highest = windowed.group_by("window_start").agg(pl.col("price").max())
    joined = windowed.join(highest, on=["window_start", "price"])
    return joined.select("auction", "price", "bidder", "date_time", "extra")


def q8(events: Events) -> pl.LazyFrame:
    new = events.persons.select("id", "name", _window("date_time"))
    sellers = events.auctions.select("seller", _window("date_time")).unique()
    joined = new.join(sellers, left_on=["id", "window_start"], right_on=["seller", "window_start"])
    return joined.select("id", "name", "window_start")


def q11(events: Events) -> pl.LazyFrame:
    ordered = events.bids.select("bidder", _ms("date_time").alias("ms")).sort("bidder", "ms")
    begins = (pl.col("ms") - pl.col("ms").shift() > SESSION_GAP_MS) | (pl.col("bidder") != pl.col("bidder").shift())
    sessions = ordered.with_columns(begins.fill_null(True).cum_sum().alias("session")).group_by("bidder", "session")
    counted = sessions.agg(
        pl.len().cast(pl.Int64).alias("bids"),
        pl.col("ms").min().alias("start"),
        (pl.col("ms").max() + SESSION_GAP_MS).alias("end"),
    )
    return counted.select("bidder", "bids", "start", "end")


QUERIES: dict[str, Callable[[Events], pl.LazyFrame]] = {
    "q0": q0,
    "q1": q1,
    "q2": q2,
    "q3": q3,
    "q4": q4,
    "q5": q5,
    "q7": q7,
    "q8": q8,
    "q11": q11,
}
