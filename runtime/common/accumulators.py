"""Accumulators: numbers that the subtasks of a job add up, for the program that started it.

A function adds to its own; nobody else sees it before the subtask reports it, as parts that can be merged by name, on
the way of the metrics. What a failed attempt had added is forgotten. Java only in Flink. Source: Flink, Accumulator and
its simple kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = [
    "Accumulator",
    "AverageAccumulator",
    "DoubleCounter",
    "DoubleMaximum",
    "DoubleMinimum",
    "IntCounter",
    "IntMaximum",
    "IntMinimum",
    "LongCounter",
    "LongMaximum",
    "LongMinimum",
    "merged_accumulators",
]

GROUP = "accumulator"
"""Group of the metrics that carry accumulators: `<operator>.accumulator.<part>.<name>`."""
Number = int | float


class Accumulator(ABC):
    """A number that one subtask adds to."""

    __slots__ = ()

    @abstractmethod
    def add(self, value: Number) -> None:
        """Take a value in."""

    @abstractmethod
    def get_local_value(self) -> Number | None:
        """What this subtask has so far; None = nothing."""

    @abstractmethod
    def reset_local(self) -> None:
        """Forget it."""

    @abstractmethod
    def parts(self) -> Mapping[str, Callable[[], Number | None]]:
        """Part → its value now: "sum", "minimum", "maximum" or "count"; `merged_accumulators` puts them together."""


class _Sum(Accumulator):
    __slots__ = ("_sum",)
    _zero: Number = 0

    def __init__(self, value: Number | None = None) -> None:
        self._sum = self._zero if value is None else value

    def add(self, value: Number) -> None:
        self._sum += value

    def get_local_value(self) -> Number:
        return self._sum

    def reset_local(self) -> None:
        self._sum = self._zero

    def parts(self) -> Mapping[str, Callable[[], Number | None]]:
        return {"sum": self.get_local_value}


class IntCounter(_Sum):
    """A sum of whole numbers."""


class LongCounter(_Sum):
    """A sum of whole numbers; the same as IntCounter."""


class DoubleCounter(_Sum):
    """A sum of floats."""

    _zero = 0.0


class _Extreme(Accumulator):
    __slots__ = ("_value",)
    _part: str

    def __init__(self) -> None:
        self._value: Number | None = None

    def add(self, value: Number) -> None:
        self._value = value if self._value is None else _MERGE[self._part](self._value, value)

    def get_local_value(self) -> Number | None:
        return self._value

    def reset_local(self) -> None:
        self._value = None

    def parts(self) -> Mapping[str, Callable[[], Number | None]]:
        return {self._part: self.get_local_value}


class _Minimum(_Extreme):
    _part = "minimum"


class _Maximum(_Extreme):
    _part = "maximum"


class IntMinimum(_Minimum):
    """The least whole number."""


class LongMinimum(_Minimum):
    """The least whole number; the same as IntMinimum."""


class DoubleMinimum(_Minimum):
    """The least float."""


class IntMaximum(_Maximum):
    """The greatest whole number."""


class LongMaximum(_Maximum):
    """The greatest whole number; the same as IntMaximum."""


class DoubleMaximum(_Maximum):
    """The greatest float."""


class AverageAccumulator(Accumulator):
    """The mean of all values; nothing if there are none."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0

    def add(self, value: Number) -> None:
        self._count += 1
        self._sum += value

    def get_local_value(self) -> float | None:
        return self._sum / self._count if self._count else None

    def reset_local(self) -> None:
        self._count, self._sum = 0, 0.0

    def parts(self) -> Mapping[str, Callable[[], Number | None]]:
        return {"sum": lambda: self._sum, "count": lambda: self._count}


def merged_accumulators(metrics_of_tasks: Iterable[Mapping[str, Any]]) -> dict[str, Number]:
    """Accumulators by name, over all subtasks and operators.

    Args:
        metrics_of_tasks: metric name → value, of each task.

    Returns:
        Name → sum, least or greatest value, or mean; names without any value are left out.
    """
    parts: dict[str, dict[str, Number]] = {}
    marker = f".{GROUP}."
    for metrics in metrics_of_tasks:
        for metric, value in metrics.items():
            _, found, rest = metric.partition(marker)
            if found and value is not None:
                part, _, name = rest.partition(".")
                of_name = parts.setdefault(name, {})
                of_name[part] = _MERGE[part](of_name[part], value) if part in of_name else value
    return {name: _result(of_name) for name, of_name in parts.items() if of_name.get("count") != 0}


def _result(parts: Mapping[str, Number]) -> Number:
    if "count" in parts:
        return parts["sum"] / parts["count"]
    (value,) = parts.values()
    return value


def _plus(a: Number, b: Number) -> Number:
    return a + b


_MERGE: Mapping[str, Callable[[Number, Number], Number]] = {
    "sum": _plus,
    "count": _plus,
    "minimum": min,
    "maximum": max,
}
