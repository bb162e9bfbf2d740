"""The reference loops of `make bench`: the same work without an engine. Imports nothing of the engine, on purpose.

Each loop reads its own part of the file (the lines that start in it) in its own process, as many processes as the
engine has slots, and hands back its partial result. There is no exchange between them: a keyed count is merged at the
end, which is less work than a stream's exchange per record. Polars gets one thread per process.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import polars as pl

#: Nexmark's query 2 keeps every 123rd auction.
AUCTION_MODULUS = 123
#: Bytes parsed at a time by Polars. Below ~1 MiB the fixed cost per call shows; above, memory grows and nothing is won.
BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class Part:
    """The lines of a file that start in bytes [start, stop)."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class Outcome:
    """What one loop found."""

    rows_in: int
    rows_out: int
    counts: Counter[int]
    """Bids per auction; empty for the filter."""
    seconds: float
    """Wall-clock time over all processes, without starting them."""


def parts_of(path: Path, count: int) -> list[Part]:
    """The file cut into `count` parts of about equal size."""
    size = path.stat().st_size
    bounds = [size * index // count for index in range(count + 1)]
    return [Part(path, start, stop) for start, stop in pairwise(bounds)]


def lines(part: Part) -> Iterator[bytes]:
    """The part's lines, in order."""
    with part.path.open("rb", buffering=1 << 20) as file:
        position = _seek_line(file, part.start)
        for line in file:
            if position >= part.stop:
                return
            position += len(line)
            yield line


def blocks(part: Part) -> Iterator[bytes]:
    """The part's lines, in order, many at a time."""
    with part.path.open("rb") as file:
        position = _seek_line(file, part.start)
        while position < part.stop:
            block = file.read(min(BLOCK_BYTES, part.stop - position))
            if not block:
                return
            block += file.readline() if not block.endswith(b"\n") else b""
            position += len(block)
            yield block


def _seek_line(file: BinaryIO, start: int) -> int:
    """Go to the first line that starts at or after `start`; returns its position."""
    if start > 0:
        # from the byte before: it is a line's end exactly if a line starts at `start`
        file.seek(start - 1)
        file.readline()
    return file.tell()


def python_filter(part: Part) -> tuple[int, int, Counter[int]]:
    """Filter and projection in plain Python."""
    rows, kept = 0, []
    for line in lines(part):
        rows += 1
        bid = json.loads(line)
        if bid["auction"] % AUCTION_MODULUS == 0:
            kept.append((bid["auction"], bid["price"]))
    return rows, len(kept), Counter()


def python_count(part: Part) -> tuple[int, int, Counter[int]]:
    """A running count per auction in plain Python: one result per bid, as the engine's operator gives."""
    rows = 0
    counts: dict[int, int] = {}
    results: deque[tuple[int, int]] = deque(maxlen=1)
    for line in lines(part):
        rows += 1
        auction = json.loads(line)["auction"]
        count = counts.get(auction, 0) + 1
        counts[auction] = count
        results.append((auction, count))
    return rows, rows, Counter(counts)


def polars_filter(part: Part) -> tuple[int, int, Counter[int]]:
    """Filter and projection in Polars."""
    rows = out = 0
    for bids in _frames(part):
        rows += bids.height
        out += bids.filter(bids["auction"] % AUCTION_MODULUS == 0).select("auction", "price").height
    return rows, out, Counter()


def polars_count(part: Part) -> tuple[int, int, Counter[int]]:
    """A running count per auction in Polars: one result per bid, and the totals carried from block to block."""
    rows = out = 0
    totals = pl.DataFrame(schema={"auction": pl.Int64, "before": pl.Int64})
    for bids in _frames(part):
        rows += bids.height
        running = bids.select("auction", pl.int_range(1, pl.len() + 1).over("auction").alias("count"))
        running = running.join(totals, on="auction", how="left").select(
            "auction", pl.col("count") + pl.col("before").fill_null(0)
        )
        out += running.height
        newest = running.group_by("auction").agg(pl.col("count").max().alias("before"))
        totals = pl.concat([totals, newest]).group_by("auction").agg(pl.col("before").max())
    return rows, out, Counter(dict(totals.iter_rows()))


def _frames(part: Part) -> Iterator[pl.DataFrame]:
    for block in blocks(part):
        yield pl.read_ndjson(io.BytesIO(block))


LOOPS: dict[tuple[str, str], Callable[[Part], tuple[int, int, Counter[int]]]] = {
    ("filter", "python"): python_filter,
    ("filter", "polars"): polars_filter,
    ("count", "python"): python_count,
    ("count", "polars"): polars_count,
}


def _warm_up(_: int) -> None:
    """Use what the loops need once: a process imports it while it starts, which is not measured."""
    pl.read_ndjson(io.BytesIO(b'{"auction":1}\n'))


@contextmanager
def one_polars_thread() -> Iterator[None]:
    """Processes that start meanwhile give Polars one thread: it reads the number once, when it is imported."""
    before = os.environ.get("POLARS_MAX_THREADS")
    os.environ["POLARS_MAX_THREADS"] = "1"
    try:
        yield
    finally:
        del os.environ["POLARS_MAX_THREADS"]
        if before is not None:
            os.environ["POLARS_MAX_THREADS"] = before


def run(case: str, loop: str, path: Path, processes: int) -> Outcome:
    """Run one loop over the whole file.

    Args:
        case: "filter" or "count".
        loop: "python" or "polars".
        path: NDJSON bids.
        processes: how many share the work.
    """
    # spawned: a fork of a process in which Polars has threads already may hang
    context = multiprocessing.get_context("spawn")
    with one_polars_thread(), ProcessPoolExecutor(processes, mp_context=context) as pool:
        list(pool.map(_warm_up, range(processes * 4)))
        started = time.monotonic()
        results = list(pool.map(partial(_run_part, case, loop), parts_of(path, processes)))
        seconds = time.monotonic() - started
    counts: Counter[int] = Counter()
    for _, _, partial_counts in results:
        counts.update(partial_counts)
    return Outcome(sum(result[0] for result in results), sum(result[1] for result in results), counts, seconds)


def _run_part(case: str, loop: str, part: Part) -> tuple[int, int, Counter[int]]:
    return LOOPS[case, loop](part)
