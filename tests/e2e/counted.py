"""Checks the committed output of the program counted.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.site import PROGRAMS

COUNTED = PROGRAMS / "counted.py"


def committed(output: Path) -> Iterator[tuple[int, int]]:
    """(key, count) of every line in a committed file."""
    for path in output.rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                yield record["key"], record["count"]


def total(output: Path) -> int:
    """Return the number of committed counts."""
    return sum(1 for _ in committed(output))


def check_exactly_once(output: Path) -> int:
    """Assert that no count is missing or there twice; how many there are.

    Only right while nothing is being written: of a job that has stopped.
    """
    counts = Counter(committed(output))
    twice = [count for count, times in counts.items() if times > 1]
    assert not twice, f"committed twice: {sorted(twice)[:10]}"
    for key in range(7):
        mine = sorted(count for of_key, count in counts if of_key == key)
        assert mine == list(range(1, len(mine) + 1)), f"counts of key {key} are missing"
    return len(counts)
