"""Garbage collection of processes that live long."""

from __future__ import annotations

import gc
from typing import Final

#: With the interpreter's own, a process that makes many small objects which stay (records that are dicts, keys of
#: state, facts of columns) looks into all of them now and then: a quarter of the CPU time of a job whose records are
#: dicts, a third of one that has many keys (benchmark works `state ndjson`, `keys`), and 0.1 s of every fifth answer
#: about a pipeline of 300 nodes. Far above 20,000 nothing is gained, and cycles of large objects wait. What is not in
#: a cycle is freed at once, as ever.
THRESHOLDS: Final = (20_000, 10, 10)


def collect_garbage_less_often() -> None:
    """Exempt all that was made so far, which stays for good, from collections, and collect less often."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
