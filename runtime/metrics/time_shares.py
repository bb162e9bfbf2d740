"""TimeShares: divides time between a few states, as totals and as milliseconds per second.

Used by one thread. Source: Flink, TimerGauge.
"""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from runtime.core.clock import Clock

__all__ = ["RATE_WINDOW_MS", "TimeShares"]

S = TypeVar("S", bound=enum.Enum)

#: rates are taken over this span: shorter ones jitter, longer ones hide a change from the dashboard
RATE_WINDOW_MS = 1000.0


class TimeShares(Generic[S]):
    """The states are the members of an enum; exactly one of them holds at any time.

    Args:
        clock: its monotonic time is divided.
        state: the one that holds now.
    """

    def __init__(self, clock: Clock, state: S) -> None:
        self._clock = clock
        self.state = state
        now = clock.monotonic_ms()
        self._since = now
        states = type(state)
        self._totals: dict[S, float] = dict.fromkeys(states, 0.0)
        self._window_start = now
        self._window_base = dict(self._totals)
        self._rates: dict[S, float] = {s: 1000.0 if s is state else 0.0 for s in states}

    def switch(self, state: S) -> None:
        """Enter `state` now."""
        if state is not self.state:
            self.settle()
            self.state = state

    def settle(self) -> float:
        """Count the time that has passed; returns the monotonic time, ms."""
        now = self._clock.monotonic_ms()
        self._totals[self.state] += now - self._since
        self._since = now
        return now

    def totals_ms(self) -> dict[S, float]:
        """Return milliseconds per state since the beginning."""
        self.settle()
        return dict(self._totals)

    def rates(self) -> dict[S, float]:
        """Return milliseconds per second and state, over the last whole window; they add up to 1000."""
        now = self.settle()
        span = now - self._window_start
        if span >= RATE_WINDOW_MS:
            self._rates = {s: (total - self._window_base[s]) * 1000.0 / span for s, total in self._totals.items()}
            self._window_start = now
            self._window_base = dict(self._totals)
        return dict(self._rates)

    @property
    def window_start_ms(self) -> float:
        """Return when the current window began, monotonic ms."""
        return self._window_start
