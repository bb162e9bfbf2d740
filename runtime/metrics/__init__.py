"""Metrics as user functions and operators keep them. Source: PyFlink, metrics."""

from runtime.metrics.metricbase import Counter as Counter
from runtime.metrics.metricbase import Distribution as Distribution
from runtime.metrics.metricbase import Gauge as Gauge
from runtime.metrics.metricbase import Meter as Meter
from runtime.metrics.metricbase import Metric as Metric
from runtime.metrics.metricbase import MetricGroup as MetricGroup
from runtime.metrics.registry import MetricRegistry as MetricRegistry

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup", "MetricRegistry"]
