"""The limit on failed logins, over all web processes; any thread."""

from __future__ import annotations

from collections.abc import Sequence

from backend.accounts.shared_counts import PERIOD_S as PERIOD_S
from backend.accounts.shared_counts import SharedCounts

MAX_FAILURES = 10
"""Failures of one counter within `PERIOD_S` after which further logins are refused."""

_counts = SharedCounts("failed-logins")


def is_exhausted(counters: Sequence[str]) -> bool:
    """Return whether one of the counters has reached the limit."""
    return any(count.events >= MAX_FAILURES for count in _counts.read(counters))


def note_failure(counters: Sequence[str]) -> None:
    """Count a failure; the count of a counter begins anew `PERIOD_S` after its first one."""
    _counts.add(counters)
