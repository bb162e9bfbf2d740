"""Generates the bids that `make bench` reads: NDJSON, about 100 bytes a record, the same for the same seed.

Shaped after Nexmark's bids: a few auctions get many of them, most get some. Generated once per (rows, seed) and kept.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl

AUCTIONS = 10_000
BIDDERS = 100_000
CHANNELS = ("apple", "baidu", "facebook", "google")
FIRST_TS = 1_700_000_000_000
#: Rows generated at a time: bounds memory to some 100 MB; the content does not depend on the machine.
CHUNK_ROWS = 500_000


def chunk(first: int, rows: int, seed: int) -> pl.DataFrame:
    """Bids number `first` to `first + rows`: auction, bidder, price (cents), channel, url, ts (ms, 1,000 a second)."""
    random = np.random.default_rng((seed, first))
    # squaring a uniform number favours low auction numbers: the busiest gets about 1 % of all bids
    auction = (random.random(rows) ** 2 * AUCTIONS).astype(np.int64)
    return pl.DataFrame(
        {
            "auction": auction,
            "bidder": random.integers(0, BIDDERS, rows),
            "price": random.integers(100, 100_000, rows),
            "channel": np.array(CHANNELS)[random.integers(0, len(CHANNELS), rows)],
            "ts": FIRST_TS + np.arange(first, first + rows),
        }
    ).select(
        "auction",
        "bidder",
        "price",
        "channel",
        pl.format("/item/{}", pl.col("auction")).alias("url"),
        "ts",
    )


def bids_file(directory: Path, rows: int, seed: int) -> Path:
    """The file of that many bids, generated if it is not there yet."""
    path = directory / f"bids-{rows}-{seed}.ndjson"
    if path.exists():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            for first in range(0, rows, CHUNK_ROWS):
                chunk(first, min(CHUNK_ROWS, rows - first), seed).write_ndjson(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
