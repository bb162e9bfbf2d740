"""Rates: growth of a task's counters per second, over the last few seconds. Used by the task's thread only."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from runtime.core.clock import Clock

#: shorter spans jitter with the batches, longer ones show a change late (Flink's meters take a minute)
SPAN_MS = 3000.0


class Rates:
    """Samples of counters, oldest first; the first one lies at or before the span."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, Mapping[str, int]]] = deque([(clock.monotonic_ms(), {})])

    def per_second(self, totals: Mapping[str, int]) -> dict[str, object]:
        """Take a sample; returns the rate of each counter as `<name>PerSecond`."""
        now = self._clock.monotonic_ms()
        samples = self._samples
        if now > samples[-1][0]:
            samples.append((now, dict(totals)))
        while len(samples) > 2 and samples[1][0] <= now - SPAN_MS:
            samples.popleft()
        since, before = samples[0]
        seconds = (now - since) / 1000.0
        if seconds <= 0.0:
            return {f"{name}PerSecond": 0.0 for name in totals}
        return {f"{name}PerSecond": (total - before.get(name, 0)) / seconds for name, total in totals.items()}
