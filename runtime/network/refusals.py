"""Counts of what this process has refused: strangers, and what is no message. Any thread."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final, Literal

Refused = Literal["connections", "messages", "commands", "events"]
"""Streams of who does not know the token; what slots send that is no message; commands and events without a seal."""


class Refusals:
    """Counts by kind, since the start of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Refused] = Counter({"connections": 0, "messages": 0, "commands": 0, "events": 0})

    def count(self, kind: Refused) -> None:
        """Count one more."""
        with self._lock:
            self._counts[kind] += 1

    def counts(self) -> dict[Refused, int]:
        """Return how many there have been of each kind."""
        with self._lock:
            return dict(self._counts)


REFUSALS: Final = Refusals()
