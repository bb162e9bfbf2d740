"""Digests of results: equal for equal multisets of rows, in any order and any pieces.

A digest is a row count and a sum of row hashes modulo 2^64, so that digests of pieces add up. The engine's sinks and
the reference loops use the same functions, so both sides have the same cost. Imports nothing of the engine, on purpose.
Hashes are the same in all processes with one version of Polars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

_MODULUS = 1 << 64


class Digest(NamedTuple):
    """Digest of a result."""

    rows: int
    hash: int

    def __add__(self, other: object) -> Digest:
        if not isinstance(other, Digest):
            return NotImplemented
        return Digest(self.rows + other.rows, (self.hash + other.hash) % _MODULUS)


EMPTY = Digest(0, 0)


def digest_of(frame: pl.DataFrame) -> Digest:
    """Return the digest of a frame's rows; 18 ns a row of six columns. Times and integers count as int64."""
    if not frame.height or not frame.width:
        return Digest(frame.height, 0)
    casts = [
        pl.col(name).cast(pl.Int64)
        for name, dtype in frame.schema.items()
        if dtype != pl.Int64 and (dtype.is_integer() or dtype.is_temporal())
    ]
    if casts:
        frame = frame.with_columns(casts)
    # numpy's sum of uint64 wraps around
    return Digest(frame.height, int(frame.hash_rows(1).to_numpy().sum()))


def digest_of_numbers(numbers: Sequence[int]) -> Digest:
    """Return the digest of Python ints below 2^63: count, and sum of squares; 40 ns a number."""
    array = np.array(numbers, dtype=np.int64).astype(np.uint64)
    return Digest(len(numbers), int((array * array).sum()))


def total(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all pieces together."""
    result = EMPTY
    for digest in digests:
        result = result + digest
    return result
