"""PassCounts: adds up what tasks have counted in the passes of a job, which each begin at nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.common.accumulators import GROUP as ACCUMULATORS
from runtime.common.accumulators import is_accumulator
from runtime.core.ids import TaskId

_SUMMED = ("numRecordsIn", "numRecordsOut", "numBytesIn", "numBytesOut", "numBuffersOut", "numLateRecordsDropped")
"""Ends of the names of metrics that count: passes are added up."""


class PassCounts:
    """The counts of one attempt."""

    def __init__(self) -> None:
        self._counted: dict[TaskId, dict[str, object]] = {}

    def add(self, task: TaskId, metrics: Mapping[str, object]) -> None:
        """Take what a task has counted in a pass that is over."""
        added_up = self.with_earlier(task, metrics)
        self._counted[task] = {name: added_up[name] for name in added_up if _merge_of(name) is not None}

    def with_earlier(self, task: TaskId, metrics: Mapping[str, object]) -> dict[str, object]:
        """Return the metrics of a task's pass, with what earlier passes have counted."""
        counted = self._counted.get(task, {})
        added_up = {**counted, **metrics}
        for name in counted.keys() & metrics.keys():
            merge, before, now = _merge_of(name), counted[name], metrics[name]
            if merge is not None and isinstance(before, (int, float)):
                added_up[name] = merge((before, now)) if isinstance(now, (int, float)) else before
        return added_up


def _merge_of(name: str) -> Callable[[tuple[float, float]], float] | None:
    """Return how the values of a metric in two passes make one; None: the later one counts."""
    if is_accumulator(name):
        part = name.partition(f".{ACCUMULATORS}.")[2].split(".", 2)[1]
        return {"minimum": min, "maximum": max}.get(part, sum)
    return sum if name.endswith(_SUMMED) else None
