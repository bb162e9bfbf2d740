"""Metrics, groups and the registry's snapshot."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from runtime.metrics import Counter, MetricGroup, MetricRegistry


class SteppedClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> Any:
        return int(self.ms)

    def monotonic_ms(self) -> Any:
        return self.ms


def test_a_snapshot_is_flat() -> None:
    registry = MetricRegistry()
    group = registry.root("task").add_group("operator", "map")
    counter = group.counter("numRecordsIn")
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    group.gauge("backlog", lambda: 7)
    latency = group.distribution("latency")
    for value in (3, 1, 8):
        latency.update(value)
    assert registry.snapshot() == {
        "task.operator.map.numRecordsIn": 4,
        "task.operator.map.backlog": 7,
        "task.operator.map.latency_count": 3,
        "task.operator.map.latency_sum": 12,
        "task.operator.map.latency_min": 1,
        "task.operator.map.latency_max": 8,
        "task.operator.map.latency_mean": 4.0,
    }
    assert group.scope == ("task", "operator", "map")


def test_a_meter_gives_the_rate_of_its_span() -> None:
    clock = SteppedClock()
    registry = MetricRegistry(clock)
    meter = registry.root().meter("events", time_span_in_seconds=10)
    assert meter.get_rate() == 0.0
    for _ in range(20):
        clock.ms += 1000
        meter.mark_event(5)
        assert meter.get_rate() == 5.0
    for _ in range(10):
        clock.ms += 1000
        rate = meter.get_rate()
    assert rate == 0.0
    assert meter.get_count() == 100
    assert registry.snapshot() == {"events": 0.0, "events_count": 100}


def test_a_name_keeps_its_first_metric() -> None:
    registry = MetricRegistry()
    group = registry.root("a")
    assert group.counter("n") is group.counter("n")
    with pytest.raises(ValueError, match=r"'a.n' is a Counter already"):
        group.distribution("n")


def test_metrics_can_be_forgotten() -> None:
    registry = MetricRegistry()
    registry.root("a").counter("n")
    registry.root("ab").counter("n")
    registry.unregister("a")
    assert list(registry.snapshot()) == ["ab.n"]
    assert len(registry) == 1


def test_a_failing_gauge_breaks_nothing() -> None:
    registry = MetricRegistry()
    registry.root().gauge("broken", lambda: 1 // 0)
    assert registry.snapshot() == {"broken": None}


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        (True, True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (Fraction(1, 4), 0.25),
        ([1], "[1]"),
        ("x" * 2000, "x" * 1000),
    ],
)
def test_a_gauge_reports_what_every_process_can_read(value: object, reported: object) -> None:
    registry = MetricRegistry()
    registry.root().gauge("g", lambda: value)
    [found] = registry.snapshot().values()
    assert (found, type(found)) == (reported, type(reported))


def test_a_group_works_without_a_registry() -> None:
    group = MetricGroup()
    counter = group.add_group("x").counter("n")
    counter.inc()
    assert isinstance(counter, Counter)
    assert counter.get_count() == 1
    group.meter("m").mark_event()
    group.distribution("d").update(1)
    group.gauge("g", lambda: 1)
