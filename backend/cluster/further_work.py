"""FurtherWork: what apps above this one add to the leader's poll; the settings name it.

`Upkeep` is that of apps which only delete rows, now and then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import ClassVar, Protocol

from backend.cluster.containment import Containment
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation
from runtime.core.clock import Clock


class FurtherWork(Protocol):
    """Work of an app, made of leadership, clock, containment, and what checks locations (`CheckLocation`)."""

    def poll(self) -> None:
        """Derive from SQL what is to be done, and do it; everything in transactions that hold the leader's epoch."""

    def needed_jobs(self) -> Collection[str]:
        """Return jobs whose rows must stay although they have ended, because rows of the app refer to them."""


class Upkeep(ABC):
    """Implements FurtherWork for rows that are deleted at intervals and refer to no job that has ended.

    Attributes:
        look_ms: interval of looks.

    Args:
        leadership: fences the deletions.
        clock: for the interval, and the ages of rows.
    """

    look_ms: ClassVar[float]

    def __init__(
        self, leadership: Leadership, clock: Clock, containment: Containment, check: CheckLocation | None = None
    ) -> None:
        self._leadership = leadership
        self._clock = clock
        self._look_due_ms = 0.0

    def poll(self) -> None:
        """Delete what is due, at most once in an interval unless there is more."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._look_due_ms and self.delete():
            self._look_due_ms = now_ms + self.look_ms

    @abstractmethod
    def delete(self) -> bool:
        """Delete what is due, within one transaction that holds the leader's epoch; return whether that is all.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """

    def needed_jobs(self) -> Collection[str]:
        return ()
