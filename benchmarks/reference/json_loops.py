"""A running count per auction in plain Python over NDJSON lines: parser, selector and output as in our job."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from benchmarks.digest import EMPTY, Digest, digest_of_numbers
from benchmarks.reference.files import Part, lines, parts_of
from benchmarks.reference.memory import BATCH_ROWS, counted
from benchmarks.reference.processes import Timed, timed_parts


def count_auctions(path: Path, processes: int) -> Timed:
    """The loops; their result is the digest that running counts over all processes have."""
    return timed_parts(_part, parts_of(path, processes), _merged)


def _part(part: Part) -> dict[int, int]:
    counts: dict[int, int] = {}
    digest = EMPTY
    results: list[int] = []
    for line in lines(part):
        bid = json.loads(line)
        auction = bid["auction"]
        count = counts.get(auction, 0) + 1
        counts[auction] = count
        results.append(count)
        if len(results) == BATCH_ROWS:
            digest += digest_of_numbers(results)
            results = []
    digest += digest_of_numbers(results)
    return counts


def _merged(parts: list[dict[int, int]]) -> Digest:
    counts: Counter[int] = Counter()
    for part in parts:
        counts.update(part)
    return counted(list(counts.values()))
