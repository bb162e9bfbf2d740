"""Histogram: the distribution of the latest values, with quantiles.

Kept and read by one thread. Source: Flink, DescriptiveStatisticsHistogram (a sliding window of values).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from runtime.metrics.metricbase import Metric

__all__ = ["QUANTILES", "Histogram"]

QUANTILES = {"median": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p98": 0.98, "p99": 0.99, "p999": 0.999}
"""Flink's names of the quantiles that are reported."""


class Histogram(Metric):
    """Remembers the last `size` values, and how many there have been."""

    __slots__ = ("_values", "count")

    def __init__(self, size: int = 128) -> None:
        self.count = 0
        self._values: deque[float] = deque(maxlen=size)

    def update(self, value: float) -> None:
        self.count += 1
        self._values.append(value)

    def quantile(self, q: float) -> float:
        """Return the value below which the fraction `q` in [0, 1] of the values lies; interpolated; 0 if there are
        none.
        """
        return _quantile(sorted(self._values), q)

    def report(self) -> Mapping[str, object]:
        """Return count (of all values ever), min, max, mean, stddev and `QUANTILES` (of the remembered ones)."""
        values = sorted(self._values)
        n = len(values)
        mean = sum(values) / n if n else 0.0
        variance = sum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else 0.0
        report: dict[str, object] = {
            "count": self.count,
            "min": values[0] if n else 0,
            "max": values[-1] if n else 0,
            "mean": mean,
            "stddev": math.sqrt(variance),
        }
        return report | {name: _quantile(values, q) for name, q in QUANTILES.items()}


def _quantile(values: list[float], q: float) -> float:
    """Return a quantile of ascending values; at position q·(n + 1), as Flink's has it."""
    if not values:
        return 0.0
    position = q * (len(values) + 1)
    below = math.floor(position)
    if below < 1:
        return values[0]
    if below >= len(values):
        return values[-1]
    return values[below - 1] + (position - below) * (values[below] - values[below - 1])
