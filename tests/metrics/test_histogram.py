"""Histogram: quantiles as Flink's have them, over the latest values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.metrics.histogram import QUANTILES, Histogram


def test_an_empty_histogram_reports_zeros() -> None:
    assert Histogram().report() == dict.fromkeys(["count", "min", "max", "mean", "stddev", *QUANTILES], 0)


def test_quantiles_are_interpolated_between_the_values() -> None:
    histogram = Histogram()
    for value in range(1, 100):
        histogram.update(value)
    report = histogram.report()
    assert (report["count"], report["min"], report["max"], report["mean"]) == (99, 1, 99, 50)
    assert (report["median"], report["p75"], report["p95"], report["p99"]) == (50, 75, 95, pytest.approx(99))
    assert report["stddev"] == pytest.approx(28.7228)


def test_only_the_latest_values_are_remembered_but_all_are_counted() -> None:
    histogram = Histogram(size=3)
    for value in (1000, 1, 2, 3):
        histogram.update(value)
    assert (histogram.count, histogram.quantile(1.0)) == (4, 3)


@given(st.lists(st.integers(0, 10**6), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_lie_within_the_values_and_rise(values: list[int], one: float, other: float) -> None:
    histogram = Histogram(len(values))
    for value in values:
        histogram.update(value)
    low, high = sorted((one, other))
    assert min(values) <= histogram.quantile(low) <= histogram.quantile(high) <= max(values)
