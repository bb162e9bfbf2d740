"""MetricRegistry: all metrics of one task or slot, and their values at a moment.

Used by the thread that keeps the metrics. Source: Flink, MetricRegistry.
"""

from __future__ import annotations

from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.metrics.metricbase import Metric, MetricGroup

__all__ = ["MetricRegistry"]


class MetricRegistry:
    """Holds metrics by full name; a name that is registered again keeps its first metric.

    Args:
        clock: for the rates of meters.
    """

    __slots__ = ("_metrics", "clock")

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self._metrics: dict[str, Metric] = {}

    def root(self, *scope: str) -> MetricGroup:
        """Return a group directly under the root, or the root itself without arguments."""
        return MetricGroup(self, scope)

    def register(self, name: str, metric: Metric) -> Metric:
        """Take a metric, or return the one that has this name already."""
        return self._metrics.setdefault(name, metric)

    def unregister(self, prefix: str) -> None:
        """Forget the metric `prefix` and all below it."""
        for name in [n for n in self._metrics if n == prefix or n.startswith(prefix + ".")]:
            del self._metrics[name]

    def snapshot(self) -> dict[str, object]:
        """Return full name → value; what has several values has one entry each, as in `latency_max`."""
        values: dict[str, object] = {}
        for name, metric in self._metrics.items():
            for suffix, value in metric.report().items():
                values[f"{name}_{suffix}" if suffix else name] = value
        return values

    def __len__(self) -> int:
        return len(self._metrics)
