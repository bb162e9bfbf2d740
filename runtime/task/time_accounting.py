"""Accounts a task's time: busy, idle or back-pressured. The three rates add up to 1000 ms per second.

A task that has work but waits for the slot's loop counts as busy; one that waits for results from outside, calls in
flight for example, counts as back-pressured. Both are told apart as well. Used by the loop's thread only.
Source: Flink, TaskIOMetricGroup.
"""

from __future__ import annotations

import enum

from runtime.core.clock import Clock
from runtime.metrics.time_shares import RATE_WINDOW_MS, TimeShares

__all__ = ["RATE_WINDOW_MS", "Activity", "TimeAccounting"]


class Activity(enum.Enum):
    BUSY = "busy"
    IDLE = "idle"
    BACK_PRESSURED = "back_pressured"
    OUTSIDE = "outside"
    """Back-pressured although there is room for output: an operator waits for something outside of the job."""


_HELD = (Activity.BACK_PRESSURED, Activity.OUTSIDE)


class TimeAccounting:
    """Accumulates milliseconds per activity and derives rates per second."""

    def __init__(self, clock: Clock) -> None:
        self._shares = TimeShares(clock, Activity.IDLE)
        self._switched = clock.monotonic_ms()
        #: longest stretch of back-pressure in the current window, and in the last whole one
        self._longest_ms = self._longest_in_window_ms = 0.0
        #: time in which the task itself ran: since it was made, at the start of the window, and per second of the last
        self._ran_ms = self._ran_before_ms = self._ran_per_second = 0.0

    def switch(self, activity: Activity) -> None:
        """Begin an activity of the task."""
        if activity is self._shares.state:
            return
        now = self._shares.settle()
        if activity not in _HELD or self._shares.state not in _HELD:
            self._end_stretch(now)
            self._switched = now
        self._shares.switch(activity)

    def ran(self, took_ms: float) -> None:
        """Note that the task itself has just run for so long: the rest of its busy time it waits for its turn."""
        self._ran_ms += took_ms

    def _end_stretch(self, now: float) -> None:
        if self._shares.state in _HELD:
            self._longest_ms = max(self._longest_ms, now - max(self._switched, self._shares.window_start_ms))

    def totals_ms(self) -> dict[Activity, float]:
        """Return the milliseconds per activity since the task was made."""
        return self._shares.totals_ms()

    def rates(self) -> dict[Activity, float]:
        """Return milliseconds per second and activity, over the last whole window; they add up to 1000."""
        self._end_stretch(self._shares.settle())
        window_start = self._shares.window_start_ms
        rates = self._shares.rates()
        span_ms = self._shares.window_start_ms - window_start
        if span_ms > 0.0:
            self._longest_in_window_ms, self._longest_ms = self._longest_ms, 0.0
            self._ran_per_second = (self._ran_ms - self._ran_before_ms) * 1000.0 / span_ms
            self._ran_before_ms = self._ran_ms
        return rates

    def metrics(self) -> dict[str, object]:
        """Return rates and totals under Flink's names."""
        rates, totals = self.rates(), self.totals_ms()
        held_rate, held_ms = (sum(times[each] for each in _HELD) for times in (rates, totals))
        return {
            "busyTimeMsPerSecond": rates[Activity.BUSY],
            "runningTimeMsPerSecond": self._ran_per_second,
            "idleTimeMsPerSecond": rates[Activity.IDLE],
            "backPressuredTimeMsPerSecond": held_rate,
            "outsideTimeMsPerSecond": rates[Activity.OUTSIDE],
            # a task waits between its steps, never inside of one: all back-pressure is soft
            "softBackPressuredTimeMsPerSecond": held_rate,
            "hardBackPressuredTimeMsPerSecond": 0.0,
            "maxSoftBackPressureTimeMs": self._longest_in_window_ms,
            "maxHardBackPressureTimeMs": 0.0,
            "accumulateBusyTimeMs": totals[Activity.BUSY],
            "accumulateIdleTimeMs": totals[Activity.IDLE],
            "accumulateBackPressuredTimeMs": held_ms,
        }
