"""Generates the bids that the workloads read, as NDJSON (about 100 bytes a record) and as Parquet; equal for equal
seeds.

They resemble Nexmark's bids: a few auctions get many, most get some; event time has 10,000 bids a second. Files are
generated once per size and seed, and kept. Imports nothing of the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pyarrow.parquet as pq

AUCTIONS = 10_000
BIDDERS = 100_000
CHANNELS = ("apple", "baidu", "facebook", "google")
FIRST_TS = 1_700_000_000_000
BIDS_PER_MS = 10
#: Rows generated at a time: bounds memory to some 100 MB; the content does not depend on the machine.
CHUNK_ROWS = 500_000
#: Rows that readers decode at a time; processes that share the file split it at multiples of these.
ROW_GROUP_ROWS = 1 << 17


def chunk(first: int, rows: int, seed: int) -> pl.DataFrame:
    """Return the bids with numbers from `first` to `first + rows`: auction, bidder, price (cents), channel, url, ts
    (ms)."""
    random = np.random.default_rng((seed, first))
    # squaring a uniform number favours low auction numbers: the busiest gets about 1 % of all bids
    auction = (random.random(rows) ** 2 * AUCTIONS).astype(np.int64)
    return pl.DataFrame(
        {
            "auction": auction,
            "bidder": random.integers(0, BIDDERS, rows),
            "price": random.integers(100, 100_000, rows),
            "channel": np.array(CHANNELS)[random.integers(0, len(CHANNELS), rows)],
            "ts": FIRST_TS + np.arange(first, first + rows) // BIDS_PER_MS,
        }
    ).select(
        "auction",
        "bidder",
        "price",
        "channel",
        pl.format("/item/{}", pl.col("auction")).alias("url"),
        "ts",
    )


def ndjson_bids(directory: Path, rows: int, seed: int = 1) -> Path:
    """Return the NDJSON file of that many bids, generating it if needed."""

    def write(file: IO[bytes]) -> None:
        for first in range(0, rows, CHUNK_ROWS):
            chunk(first, min(CHUNK_ROWS, rows - first), seed).write_ndjson(file)

    return made_once(directory / f"bids-{rows}-{seed}.ndjson", write)


def parquet_bids(directory: Path, rows: int, seed: int = 1) -> Path:
    """Return the same as Parquet, in row groups of 131,072 rows."""

    def write(file: IO[bytes]) -> None:
        writer: pq.ParquetWriter | None = None
        rest = chunk(0, 0, seed)
        for first in range(0, rows, CHUNK_ROWS):
            rest = pl.concat([rest, chunk(first, min(CHUNK_ROWS, rows - first), seed)])
            whole = rest.height if first + CHUNK_ROWS >= rows else rest.height // ROW_GROUP_ROWS * ROW_GROUP_ROWS
            table = rest.head(whole).rechunk().to_arrow()
            writer = writer or pq.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            rest = rest.slice(whole)
        if writer is not None:
            writer.close()

    return made_once(directory / f"bids-{rows}-{seed}.parquet", write)


def made_once(path: Path, write: Callable[[IO[bytes]], None]) -> Path:
    """Return a file with the output of `write`; an existing one is not written again."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            write(file)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def wide_chunk(first: int, rows: int, seed: int) -> pl.DataFrame:
    """Return the same bids with a longer url and a text of 24 letters beside it: 165 bytes of NDJSON a record."""
    random = np.random.default_rng((seed, first, 7))
    letters = random.integers(ord("a"), ord("z") + 1, (rows, 24), dtype=np.uint8)
    extra = pl.Series("extra", letters.view("S24").ravel().astype("U24"))
    url = pl.format("https://auctions.example/item?id={}", pl.col("auction"))
    return chunk(first, rows, seed).with_columns(url.alias("url"), extra)


def wide_bids(directory: Path, rows: int, kind: str, seed: int = 1) -> Path:
    """Return the file of that many bids of seven columns, generating it if needed.

    Args:
        directory: that keeps generated files.
        rows: how many.
        kind: "ndjson", "csv" (without a header) or "parquet".
        seed: of the generator.
    """

    def write(file: IO[bytes]) -> None:
        if kind == "parquet":
            chunks = [wide_chunk(first, min(CHUNK_ROWS, rows - first), seed) for first in range(0, rows, CHUNK_ROWS)]
            pl.concat(chunks).write_parquet(file, compression="zstd", row_group_size=ROW_GROUP_ROWS)
            return
        for first in range(0, rows, CHUNK_ROWS):
            made = wide_chunk(first, min(CHUNK_ROWS, rows - first), seed)
            if kind == "csv":
                made.write_csv(file, include_header=False)
            else:
                made.write_ndjson(file)

    return made_once(directory / f"wide-bids-{rows}-{seed}.{kind}", write)
