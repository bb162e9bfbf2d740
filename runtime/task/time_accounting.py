"""Accounts a task's time: busy, idle or back-pressured. The three rates add up to 1000 ms per second.

A task that has work but waits for the slot's loop counts as busy. Used by the loop's thread only.
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


class TimeAccounting:
    """Accumulates milliseconds per activity and derives rates per second."""

    def __init__(self, clock: Clock) -> None:
        self._shares = TimeShares(clock, Activity.IDLE)
        self._switched = clock.monotonic_ms()
        #: longest stretch of back-pressure in the current window, and in the last whole one
        self._longest_ms = self._longest_in_window_ms = 0.0

    def switch(self, activity: Activity) -> None:
        """Begin an activity of the task."""
        if activity is self._shares.state:
            return
        now = self._shares.settle()
        self._end_stretch(now)
        self._shares.switch(activity)
        self._switched = now

    def _end_stretch(self, now: float) -> None:
        if self._shares.state is Activity.BACK_PRESSURED:
            self._longest_ms = max(self._longest_ms, now - max(self._switched, self._shares.window_start_ms))

    def totals_ms(self) -> dict[Activity, float]:
        """Return the milliseconds per activity since the task was made."""
        return self._shares.totals_ms()

    def rates(self) -> dict[Activity, float]:
        """Return milliseconds per second and activity, over the last whole window; they add up to 1000."""
        self._end_stretch(self._shares.settle())
        window_start = self._shares.window_start_ms
        rates = self._shares.rates()
        if self._shares.window_start_ms != window_start:
            self._longest_in_window_ms, self._longest_ms = self._longest_ms, 0.0
        return rates

    def metrics(self) -> dict[str, object]:
        """Return rates and totals under Flink's names."""
        rates, totals = self.rates(), self.totals_ms()
        return {
            "busyTimeMsPerSecond": rates[Activity.BUSY],
            "idleTimeMsPerSecond": rates[Activity.IDLE],
            "backPressuredTimeMsPerSecond": rates[Activity.BACK_PRESSURED],
            # a task waits between its steps, never inside of one: all back-pressure is soft
            "softBackPressuredTimeMsPerSecond": rates[Activity.BACK_PRESSURED],
            "hardBackPressuredTimeMsPerSecond": 0.0,
            "maxSoftBackPressureTimeMs": self._longest_in_window_ms,
            "maxHardBackPressureTimeMs": 0.0,
            "accumulateBusyTimeMs": totals[Activity.BUSY],
            "accumulateIdleTimeMs": totals[Activity.IDLE],
            "accumulateBackPressuredTimeMs": totals[Activity.BACK_PRESSURED],
        }
