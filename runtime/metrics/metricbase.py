"""Counter, Meter, Distribution, Gauge, and the groups that name them.

Kept by one task's thread, without locks; read by the same thread when it answers a heartbeat. A group made without a
registry works and is simply not reported, which is what tests want. Source: PyFlink, metrics/metricbase.py.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from runtime.core.clock import SYSTEM_CLOCK, Clock

__all__ = ["Counter", "Distribution", "Gauge", "Meter", "Metric", "MetricGroup"]


M = TypeVar("M", bound="Metric")
MAX_TEXT_CHARS = 1000
"""Longer texts of gauges are cut: they travel with every heartbeat."""


class Metric(ABC):
    """Something that is counted or measured."""

    __slots__ = ()

    @abstractmethod
    def report(self) -> Mapping[str, object]:
        """Return current values by suffix; the suffix "" stands for the metric's own name."""


class Counter(Metric):
    """A number that goes up and down. Hot loops may add to `count` themselves."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def dec(self, n: int = 1) -> None:
        self.count -= n

    def get_count(self) -> int:
        return self.count

    def report(self) -> Mapping[str, object]:
        return {"": self.count}


class Meter(Metric):
    """Counts events, and computes their recent rate per second.

    Args:
        time_span_in_seconds: the rate is the mean over that long.
        clock: source of monotonic time.
    """

    __slots__ = ("_clock", "_samples", "_span_ms", "count")

    def __init__(self, time_span_in_seconds: int = 60, clock: Clock = SYSTEM_CLOCK) -> None:
        self.count = 0
        self._span_ms = time_span_in_seconds * 1000.0
        self._clock = clock
        #: (monotonic ms, count) at each reading of the rate, oldest first; the first lies at or before the span
        self._samples: deque[tuple[float, int]] = deque([(clock.monotonic_ms(), 0)])

    def mark_event(self, value: int = 1) -> None:
        self.count += value

    def get_count(self) -> int:
        return self.count

    def get_rate(self) -> float:
        """Return events per second over the span, or since the meter was made if that is shorter."""
        now = self._clock.monotonic_ms()
        samples = self._samples
        if now > samples[-1][0]:
            samples.append((now, self.count))
        while len(samples) > 2 and samples[1][0] <= now - self._span_ms:
            samples.popleft()
        since, before = samples[0]
        return (self.count - before) * 1000.0 / (now - since) if now > since else 0.0

    def report(self) -> Mapping[str, object]:
        return {"": self.get_rate(), "count": self.count}


class Distribution(Metric):
    """Count, sum, min and max of whole numbers; no quantiles."""

    __slots__ = ("count", "maximum", "minimum", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.minimum = 0
        self.maximum = 0

    def update(self, value: int) -> None:
        if self.count == 0:
            self.minimum = self.maximum = value
        elif value < self.minimum:
            self.minimum = value
        elif value > self.maximum:
            self.maximum = value
        self.count += 1
        self.sum += value

    def report(self) -> Mapping[str, object]:
        if self.count == 0:
            return {"count": 0}
        mean = self.sum / self.count
        return {"count": self.count, "sum": self.sum, "min": self.minimum, "max": self.maximum, "mean": mean}


class Gauge(Metric):
    """A value that is asked for when metrics are read.

    Args:
        function: gives the value; must be quick. One that fails is reported as None, and what is neither number,
            truth value nor text as text: no gauge must break the heartbeat that carries it.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def get_value(self) -> object:
        return self._function()

    def report(self) -> Mapping[str, object]:
        try:
            return {"": _plain(self._function())}
        except Exception:
            return {"": None}


def _plain(value: object) -> bool | int | float | str | None:
    """Return a value that every process can read: user classes and NumPy's numbers are not for others."""
    if value is None or type(value) in (bool, int, float):
        return value  # type: ignore[return-value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return str(value)[:MAX_TEXT_CHARS]


class _Registry(Protocol):
    """The part of a registry that a group needs."""

    clock: Clock

    def register(self, name: str, metric: Metric) -> Metric:
        """Take a metric, or return the one that has this name already."""
        ...


class MetricGroup:
    """Names metrics: a metric's full name is the names of its groups and its own, joined by dots.

    Args:
        registry: reports the metrics; None = nobody does.
        scope: names of the groups from the root down to this one.
    """

    __slots__ = ("_registry", "_scope")

    def __init__(self, registry: _Registry | None = None, scope: tuple[str, ...] = ()) -> None:
        self._registry = registry
        self._scope = scope

    @property
    def scope(self) -> tuple[str, ...]:
        return self._scope

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group inside this one; with `extra`, a key group `name` and its value `extra`."""
        return MetricGroup(self._registry, (*self._scope, name) if extra is None else (*self._scope, name, extra))

    def counter(self, name: str) -> Counter:
        return self._register(name, Counter())

    def gauge(self, name: str, obj: Callable[[], object]) -> None:
        self._register(name, Gauge(obj))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        clock = SYSTEM_CLOCK if self._registry is None else self._registry.clock
        return self._register(name, Meter(time_span_in_seconds, clock))

    def distribution(self, name: str) -> Distribution:
        return self._register(name, Distribution())

    def _register(self, name: str, metric: M) -> M:
        if self._registry is None:
            return metric
        registered = self._registry.register(".".join((*self._scope, name)), metric)
        if type(registered) is not type(metric):
            kinds = f"a {type(registered).__name__} already, not a {type(metric).__name__}"
            raise ValueError(f"metric {'.'.join((*self._scope, name))!r} is {kinds}")
        return registered
