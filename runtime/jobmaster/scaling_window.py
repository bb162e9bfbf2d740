"""ScalingWindow: what the tasks of a job did within the last while, from the counts that they report. Pure.

Counts are cumulative, and time is that of the task itself: whatever the rhythm of the reports, a rate is the growth of
a count by the growth of busy, idle and back-pressured time, which add up to the task's time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runtime.core.ids import VertexId

SAMPLES = 60
"""Samples that a window is made of, about: more cost memory, fewer make it longer or shorter than it should be."""
BUSY_FLOOR = 0.001
"""Smallest share of busy time that is told from none: clocks of tasks count milliseconds."""


@dataclass(frozen=True, slots=True)
class SubtaskSample:
    """Counts of a subtask since its start."""

    records_in: int
    """Of a source: records read."""
    records_out: int
    busy_ms: float
    idle_ms: float
    back_pressured_ms: float
    pending: int | None = None
    """Of a source: records that are not read yet; None: unknown."""

    @property
    def time_ms(self) -> float:
        """Time since its start."""
        return self.busy_ms + self.idle_ms + self.back_pressured_ms


@dataclass(frozen=True, slots=True)
class JobSample:
    """A job at one moment."""

    at_ms: float
    """Monotonic."""
    generation: Hashable
    """Another one after any task was restarted."""
    not_running: str = ""
    """Why nothing can be measured; empty: every task runs or has finished."""
    vertices: Mapping[VertexId, Sequence[SubtaskSample]] = field(default_factory=dict)
    """Running subtasks of the vertices that have some, by index."""
    finished: Collection[VertexId] = ()
    finished_subtasks: Mapping[VertexId, int] = field(default_factory=dict)
    """How many subtasks of the vertices that run have finished; these are not among the samples."""
    watermark_lag_ms: Mapping[VertexId, int] = field(default_factory=dict)
    """Wall-clock time minus watermark, where there is one."""


@dataclass(frozen=True, slots=True)
class VertexRates:
    """A vertex over the window: records per second of all its subtasks, shares of time in 0..1."""

    records_in: float
    records_out: float
    busiest: float
    """Busy share of its busiest subtask."""
    busy: float
    """Mean."""
    back_pressured: float
    """Mean, weighted with the records: what a record would have met."""
    idle: float
    """Idle share of the subtask that is least idle."""
    pending: int | None = None
    """Of a source: records that are not read yet; None: unknown."""
    pending_peak: int = 0
    """The largest number during the window."""
    pending_growth: float = 0.0
    """Records per second; negative while a backlog shrinks."""
    watermark_lag_ms: int | None = None


class ScalingWindow:
    """The samples of one job, oldest first.

    Args:
        length_ms: time that it spans once it is full.
        stabilization_ms: time after a change of generation in which no sample is taken.
    """

    def __init__(self, length_ms: float, stabilization_ms: float) -> None:
        self._length_ms = length_ms
        self._stabilization_ms = stabilization_ms
        self._generation: Hashable = None
        self._began_ms = 0.0
        self._samples: deque[JobSample] = deque()

    def clear(self) -> None:
        """Forget everything: the job does not run as it did."""
        self._generation = None
        self._samples.clear()

    def add(self, sample: JobSample) -> None:
        """Add a sample; one of another generation, or whose counts have fallen, begins a new window."""
        if sample.generation != self._generation or self._is_behind(sample):
            self._generation, self._began_ms = sample.generation, sample.at_ms
            self._samples.clear()
        if self.stabilizes_ms(sample.at_ms) > 0.0:
            return
        samples = self._samples
        if len(samples) > 1 and sample.at_ms - samples[-2].at_ms < self._length_ms / SAMPLES:
            # the newest one always counts; those before it are thinned out
            samples[-1] = sample
        else:
            samples.append(sample)
        while len(samples) > 2 and sample.at_ms - samples[1].at_ms >= self._length_ms:
            samples.popleft()

    def _is_behind(self, sample: JobSample) -> bool:
        if not self._samples:
            return False
        last = self._samples[-1]
        if last.vertices.keys() - sample.vertices.keys() - set(sample.finished):
            return True
        return any(
            len(now) != len(before) or any(b.time_ms < a.time_ms for a, b in zip(before, now, strict=True))
            for vertex, now in sample.vertices.items()
            if (before := last.vertices.get(vertex)) is not None
        )

    def stabilizes_ms(self, now_ms: float) -> float:
        """Return for how long no samples are taken yet."""
        return max(0.0, self._began_ms + self._stabilization_ms - now_ms)

    @property
    def span_ms(self) -> float:
        """Time between the first sample and the last."""
        return self._samples[-1].at_ms - self._samples[0].at_ms if self._samples else 0.0

    @property
    def is_full(self) -> bool:
        """Return whether it spans its length."""
        return self.span_ms >= self._length_ms

    def rates(self) -> dict[VertexId, VertexRates]:
        """Return the rates of the vertices that run and have reported something during the window."""
        if len(self._samples) < 2:
            return {}
        first, last = self._samples[0], self._samples[-1]
        found: dict[VertexId, VertexRates] = {}
        for vertex, subtasks in last.vertices.items():
            rates = _rates(first.vertices[vertex], subtasks) if vertex in first.vertices else None
            if rates is not None:
                found[vertex] = replace(
                    rates, watermark_lag_ms=last.watermark_lag_ms.get(vertex), **self._pending(vertex)
                )
        return found

    def _pending(self, vertex: VertexId) -> dict[str, Any]:
        """Return what is known of the records that a source has not read."""
        known = [n for sample in self._samples if (n := _pending(sample.vertices.get(vertex, ()))) is not None]
        if not known:
            return {}
        growth = (known[-1] - known[0]) * 1000.0 / self.span_ms
        return {"pending": known[-1], "pending_peak": max(known), "pending_growth": growth}


def _rates(before: Sequence[SubtaskSample], now: Sequence[SubtaskSample]) -> VertexRates | None:
    """Return the rates of a vertex; None if a subtask has reported nothing."""
    pairs = list(zip(before, now, strict=True))
    spans = [b.time_ms - a.time_ms for a, b in pairs]
    if not pairs or min(spans) <= 0.0:
        return None

    def shares(field_name: str) -> list[float]:
        grown = (getattr(b, field_name) - getattr(a, field_name) for a, b in pairs)
        return [min(1.0, max(0.0, part / span)) for part, span in zip(grown, spans, strict=True)]

    def per_second(field_name: str) -> list[float]:
        grown = (getattr(b, field_name) - getattr(a, field_name) for a, b in pairs)
        return [max(0.0, count * 1000.0 / span) for count, span in zip(grown, spans, strict=True)]

    busy, idle, held = shares("busy_ms"), shares("idle_ms"), shares("back_pressured_ms")
    records_in = per_second("records_in")
    total = sum(records_in)
    weighted = sum(rate * share for rate, share in zip(records_in, held, strict=True))
    return VertexRates(
        total,
        sum(per_second("records_out")),
        max(busy),
        sum(busy) / len(busy),
        weighted / total if total > 0.0 else sum(held) / len(held),
        min(idle),
    )


def _pending(subtasks: Sequence[SubtaskSample]) -> int | None:
    known = [subtask.pending for subtask in subtasks if subtask.pending is not None]
    return sum(known) if known else None
