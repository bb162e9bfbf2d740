"""Where a task's time goes: busy, idle or back-pressured. The three rates add up to 1000 ms per second.

A task that has work but waits for the slot's loop counts as busy. Used by the loop's thread only.
Source: Flink, TaskIOMetricGroup and TimerGauge.
"""

from __future__ import annotations

import enum

from runtime.core.clock import Clock


class Activity(enum.Enum):
    BUSY = "busy"
    IDLE = "idle"
    BACK_PRESSURED = "back_pressured"


#: rates are taken over this span: shorter ones jitter, longer ones hide a change from the dashboard
RATE_WINDOW_MS = 1000.0


class TimeAccounting:
    """Accumulates milliseconds per activity and derives rates per second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        now = clock.monotonic_ms()
        self._since = now
        self._activity = Activity.IDLE
        self._total = dict.fromkeys(Activity, 0.0)
        self._window_start = now
        self._window_base = dict(self._total)
        #: longest stretch of back-pressure in the current window and in the last whole one
        self._longest_ms = self._longest_in_window_ms = 0.0
        self._switched = now
        self._rates = {Activity.BUSY: 0.0, Activity.IDLE: 1000.0, Activity.BACK_PRESSURED: 0.0}

    def switch(self, activity: Activity) -> None:
        """The task is doing `activity` from now on."""
        if activity is self._activity:
            return
        now = self._settle()
        self._end_stretch(now)
        self._activity = activity
        self._switched = now

    def _end_stretch(self, now: float) -> None:
        if self._activity is Activity.BACK_PRESSURED:
            self._longest_ms = max(self._longest_ms, now - self._switched)

    def _settle(self) -> float:
        now = self._clock.monotonic_ms()
        self._total[self._activity] += now - self._since
        self._since = now
        return now

    def totals_ms(self) -> dict[Activity, float]:
        """Milliseconds per activity since the task was made."""
        self._settle()
        return dict(self._total)

    def rates(self) -> dict[Activity, float]:
        """Milliseconds per second and activity, over the last whole window; they add up to 1000."""
        now = self._settle()
        span = now - self._window_start
        if span >= RATE_WINDOW_MS:
            self._rates = {a: (self._total[a] - self._window_base[a]) * 1000.0 / span for a in Activity}
            self._end_stretch(now)
            self._longest_in_window_ms, self._longest_ms = min(self._longest_ms, span), 0.0
            self._window_start = now
            self._window_base = dict(self._total)
        return dict(self._rates)

    def metrics(self) -> dict[str, object]:
        """Rates and totals under Flink's names."""
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
