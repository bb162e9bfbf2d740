"""Counts how many jobs the tests ran, per execution kind; `make test` prints it at its end.

A test that has run a job, in this process or in one that it started, calls `record_run`. Test processes only; what
they count is put together by `add_runs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_RUNS: Counter[str] = Counter()


def record_run(kind: str) -> None:
    """Count one job run.

    Args:
        kind: what hosted the slots: "mini-cluster", "spark local", "spark standalone", …
    """
    _RUNS[kind] += 1


def add_runs(counted: Mapping[str, int]) -> None:
    """Add what another test process has counted."""
    _RUNS.update(counted)


def runs() -> dict[str, int]:
    """Runs so far, by kind, kinds in alphabetical order."""
    return dict(sorted(_RUNS.items()))
