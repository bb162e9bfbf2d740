"""A filter that looks at two columns of seven, written by hand in Polars: all columns decoded, or only the two."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.digest import EMPTY, Digest, digest_of
from benchmarks.reference import bid_loops
from benchmarks.reference.bid_loops import STEP_ROWS
from benchmarks.reference.files import Part, blocks, parts_of
from benchmarks.reference.processes import Timed, timed_parts

SCHEMA = {**bid_loops.SCHEMA, "extra": pl.String()}
READ = ("auction", "price")


def by_hand(path: Path, processes: int, read: tuple[str, ...] = tuple(SCHEMA)) -> Timed:
    """The loops; their result is a digest.

    Args:
        path: a file of bids: NDJSON, CSV without a header, or Parquet.
        processes: how many loops run at a time.
        read: columns that are decoded.
    """

    def merge(results: list[Any]) -> Digest:
        return sum(results, EMPTY)

    return timed_parts(functools.partial(_part, read), parts_of(path, processes), merge)


def _part(read: tuple[str, ...], part: Part) -> Digest:
    wanted = (frame.filter(pl.col("price") > 90_000).select(READ) for frame in _frames(read, part))
    return sum((digest_of(frame.lazy().collect()) for frame in wanted), EMPTY)


def _frames(read: tuple[str, ...], part: Part) -> Iterator[pl.DataFrame | pl.LazyFrame]:
    schema = {name: SCHEMA[name] for name in read}
    if part.path.suffix == ".parquet":
        for start in range(part.start, part.stop, STEP_ROWS):
            rows = min(STEP_ROWS, part.stop - start)
            frame = pl.scan_parquet(part.path).slice(start, rows)
            # a lazy frame would leave out what is not selected
            yield frame.collect() if len(read) == len(SCHEMA) else frame
        return
    for block in blocks(part):
        if part.path.suffix == ".ndjson":
            yield pl.read_ndjson(io.BytesIO(block), schema=schema)
        else:
            places = {f"column_{list(SCHEMA).index(name)}": name for name in read}
            types = {place: SCHEMA[name] for place, name in places.items()}
            made = pl.read_csv(io.BytesIO(block), has_header=False, columns=list(places), schema_overrides=types)
            yield made.rename(places)
