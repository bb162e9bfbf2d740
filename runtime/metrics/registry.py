"""MetricRegistry: all metrics of one task or slot, and their values at a moment.

Used by the thread that keeps the metrics. Source: Flink, MetricRegistry.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.metrics.metricbase import Metric, MetricGroup

__all__ = ["MetricRegistry"]


class MetricRegistry:
    """Holds metrics by full name; a name that is registered again keeps its first metric.

    Args:
        clock: for the rates of meters.
        redact: takes out of names, and of values that are texts, what nobody may see.
    """

    __slots__ = ("_metrics", "_redact", "clock")

    def __init__(self, clock: Clock = SYSTEM_CLOCK, redact: Callable[[str], str] = str) -> None:
        self.clock = clock
        self._redact = redact
        self._metrics: dict[str, Metric] = {}

    def root(self, *scope: str) -> MetricGroup:
        """Return a group directly under the root, or the root itself without arguments."""
        return MetricGroup(self, scope)

    def register(self, name: str, metric: Metric) -> Metric:
        """Take a metric, or return the one that has this name already."""
        return self._metrics.setdefault(self._redact(name), metric)

    def unregister(self, prefix: str) -> None:
        """Forget the metric `prefix` and all below it."""
        prefix = self._redact(prefix)
        for name in [n for n in self._metrics if n == prefix or n.startswith(prefix + ".")]:
            del self._metrics[name]

    def snapshot(self) -> dict[str, object]:
        """Return full name → value; what has several values has one entry each, as in `latency_max`."""
        values: dict[str, object] = {}
        for name, metric in self._metrics.items():
            for suffix, value in metric.report().items():
                told = self._redact(value) if isinstance(value, str) else value
                values[f"{name}_{suffix}" if suffix else name] = told
        return values

    def __len__(self) -> int:
        return len(self._metrics)
