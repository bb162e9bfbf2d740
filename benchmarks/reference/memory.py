"""Records in memory, and plain Python loops over them: one dict, one list of results per batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.digest import EMPTY, Digest, digest_of_numbers

BATCH_ROWS = 8192
MIN_BATCHES = 16
#: keys go round with a stride, so that neighbours have nothing to do with each other
STRIDE = 7_919


@dataclass(frozen=True, slots=True)
class Pool:
    """Records that are used again and again: pairs of key and number, or numbers alone."""

    keys: int
    is_pairs: bool = True


def pool_rows(pool: Pool) -> int:
    """Return the number of records of a pool: every key at least once."""
    return max(MIN_BATCHES, -(-pool.keys // BATCH_ROWS)) * BATCH_ROWS


def values_of(pool: Pool, batch: int) -> list[Any]:
    """The records of one batch of a pool."""
    numbers = range(batch * BATCH_ROWS, (batch + 1) * BATCH_ROWS)
    if not pool.is_pairs:
        return list(numbers)
    return [(number * STRIDE % pool.keys, number) for number in numbers]


@cache
def batches_of(pool: Pool) -> list[list[Any]]:
    """All batches of a pool."""
    return [values_of(pool, number) for number in range(pool_rows(pool) // BATCH_ROWS)]


def count_by_hand(pool: Pool, rows: int) -> Digest:
    """A running count per key: one result per record."""
    counts: dict[int, int] = {}
    digest = EMPTY
    batches = batches_of(pool)
    for number in range(rows // BATCH_ROWS):
        results = []
        for key, _ in batches[number % len(batches)]:
            count = counts.get(key, 0) + 1
            counts[key] = count
            results.append(count)
        digest += digest_of_numbers(results)
    return digest


def chain_by_hand(functions: tuple[Callable[[int], int], ...], pool: Pool, rows: int) -> Digest:
    """Five functions, one after the other, for each record."""
    one, two, three, four, five = functions
    digest = EMPTY
    batches = batches_of(pool)
    for number in range(rows // BATCH_ROWS):
        results = []
        for value in batches[number % len(batches)]:
            results.append(five(four(three(two(one(value))))))
        digest += digest_of_numbers(results)
    return digest


def counted(rows_per_key: list[int]) -> Digest:
    """Return the digest of running counts, from the number of records of each key."""
    squares = sum(n * (n + 1) * (2 * n + 1) // 6 for n in rows_per_key)
    return Digest(sum(rows_per_key), squares % (1 << 64))


def add_one(value: int) -> int:
    return value + 1


def double(value: int) -> int:
    return value * 2


def subtract_three(value: int) -> int:
    return value - 3


def flip(value: int) -> int:
    return value ^ 0x55


def keep_low_bits(value: int) -> int:
    return value & 0xFFFFFF


FIVE = (add_one, double, subtract_three, flip, keep_low_bits)
"""Functions of the chained maps."""
