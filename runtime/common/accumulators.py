"""Accumulators: numbers that the subtasks of a job add up, for the program that started it.

A function adds to its own; nobody else sees it before the subtask reports it, as parts that can be merged by name, on
the way of the metrics. What a failed attempt had added is forgotten. Java only in Flink. Source: Flink, Accumulator and
its simple kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Accumulator",
    "AccumulatorReport",
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
    "accumulators_of",
    "is_accumulator",
    "merge_accumulators",
    "merged_accumulators",
]

GROUP = "__accumulator__"
"""Group of the metrics that carry accumulators: `<operator id>.__accumulator__.<kind>.<part>.<name>`."""
Number = int | float


class Accumulator(ABC):
    """A number that one subtask adds to."""

    __slots__ = ()

    @abstractmethod
    def add(self, value: Number) -> None:
        """Take a value in."""

    @abstractmethod
    def get_local_value(self) -> Number | None:
        """Return what this subtask has so far; None = nothing."""

    @abstractmethod
    def reset_local(self) -> None:
        """Forget what this subtask has so far."""

    @abstractmethod
    def parts(self) -> Mapping[str, Callable[[], Number | None]]:
        """Return part → its value now: "sum", "minimum", "maximum" or "count"; `merged_accumulators` merges them."""


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


@dataclass(frozen=True, slots=True)
class AccumulatorReport:
    """State of one accumulator, of a subtask or of several."""

    name: str
    kind: str
    """Its class; several, joined by commas, if subtasks use one name for accumulators of different kinds."""
    parts: Mapping[str, Number | None]
    """Values of `Accumulator.parts`; empty if the kinds differ."""

    @property
    def value(self) -> Number | None:
        """Return sum, least or greatest value, or mean; None if nothing was added, or if the kinds differ."""
        if "count" in self.parts:
            total, count = self.parts["sum"], self.parts["count"]
            return total / count if total is not None and count else None
        return next(iter(self.parts.values()), None)


def is_accumulator(metric: str) -> bool:
    """Return whether a metric of a task is a part of an accumulator, and nothing else."""
    return f".{GROUP}." in metric


def accumulators_of(metrics: Mapping[str, Any]) -> list[AccumulatorReport]:
    """Return the accumulators among a task's metrics (metric name → value), merged by name over its operators."""
    found: dict[tuple[str, str, str], dict[str, Number | None]] = {}
    for metric, value in metrics.items():
        operator, is_part, rest = metric.partition(f".{GROUP}.")
        if is_part:
            kind, part, name = rest.split(".", 2)
            found.setdefault((operator, kind, name), {})[part] = value
    return merge_accumulators(AccumulatorReport(name, kind, parts) for (_, kind, name), parts in found.items())


def merge_accumulators(reports: Iterable[AccumulatorReport]) -> list[AccumulatorReport]:
    """Return one report per name, in the order in which names come first."""
    merged: dict[str, AccumulatorReport] = {}
    for report in reports:
        before = merged.get(report.name)
        merged[report.name] = report if before is None else _merge(before, report)
    return list(merged.values())


def _merge(a: AccumulatorReport, b: AccumulatorReport) -> AccumulatorReport:
    if a.kind != b.kind:
        kinds = dict.fromkeys([*a.kind.split(", "), *b.kind.split(", ")])
        return AccumulatorReport(a.name, ", ".join(kinds), {})
    return AccumulatorReport(a.name, a.kind, {part: _merge_part(part, a, b) for part in a.parts})


def _merge_part(part: str, a: AccumulatorReport, b: AccumulatorReport) -> Number | None:
    values = [value for value in (a.parts[part], b.parts.get(part)) if value is not None]
    return _MERGE[part](*values) if len(values) > 1 else next(iter(values), None)


def merged_accumulators(metrics_of_tasks: Iterable[Mapping[str, Any]]) -> dict[str, Number]:
    """Return accumulators by name, over all subtasks and operators.

    Args:
        metrics_of_tasks: metric name → value, of each task.

    Returns:
        Name → `AccumulatorReport.value`; names without any value are left out.
    """
    reports = merge_accumulators(report for metrics in metrics_of_tasks for report in accumulators_of(metrics))
    return {report.name: report.value for report in reports if report.value is not None}


def _plus(a: Number, b: Number) -> Number:
    return a + b


_MERGE: Mapping[str, Callable[[Number, Number], Number]] = {
    "sum": _plus,
    "count": _plus,
    "minimum": min,
    "maximum": max,
}
