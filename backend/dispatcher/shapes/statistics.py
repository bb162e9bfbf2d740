"""Flink's aggregations: metrics over subtasks, and the summary figures of vertex details."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

NOT_A_NUMBER = "NaN"
"""Flink's text for NaN, which JSON does not have."""
AGGREGATIONS = ("min", "max", "avg", "sum", "skew")


def aggregate(metric_id: str, values: Sequence[float], wanted: Collection[str]) -> dict[str, Any]:
    """Aggregate a metric over several subtasks, jobs or TaskManagers.

    Args:
        metric_id: the metric's name.
        values: one value each, at least one.
        wanted: elements of `AGGREGATIONS`.

    Source: Flink, AbstractAggregatingMetricsHandler and DoubleAccumulator.
    """
    total = sum(values)
    average = total / len(values)
    figures = {"min": min(values), "max": max(values), "avg": average, "sum": total}
    if "skew" in wanted:
        deviation = sum(abs(value - average) for value in values) / len(values)
        figures["skew"] = min(100.0, deviation / average * 100.0) if average > 0 else 0.0
    return {"id": metric_id, **{name: _json_number(float(figures[name])) for name in AGGREGATIONS if name in wanted}}


def _json_number(figure: float) -> float | str:
    if math.isfinite(figure):
        return figure
    return NOT_A_NUMBER if math.isnan(figure) else "Infinity" if figure > 0 else "-Infinity"


def summary(values: Sequence[float | str]) -> dict[str, int]:
    """Return min, max, avg, sum, median and percentiles as whole numbers; a value that is not a number counts as -1.

    Source: Flink, StatsSummary and its percentiles (position p·(n+1)).
    """
    ordered = sorted(-1 if isinstance(value, str) else int(value) for value in values)
    if not ordered:
        ordered = [0]
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": sum(ordered) // len(ordered),
        "sum": sum(ordered),
        "median": _percentile(ordered, 0.50),
        "p25": _percentile(ordered, 0.25),
        "p75": _percentile(ordered, 0.75),
        "p95": _percentile(ordered, 0.95),
    }


def _percentile(ordered: Sequence[int], fraction: float) -> int:
    position = fraction * (len(ordered) + 1)
    if position < 1:
        return ordered[0]
    if position >= len(ordered):
        return ordered[-1]
    low = int(position)
    return int(ordered[low - 1] + (position - low) * (ordered[low] - ordered[low - 1]))
