"""Data skew: how unevenly records are spread over the subtasks of a vertex, since their start and at the moment. Pure.

Two figures say it. The coefficient of variation (standard deviation / mean) sees all subtasks; largest / average says
by how much the vertex would be faster if all got the same. A skew is no cause by itself: `bottleneck` names one where
it limits the job. Source: Flink, SubtaskMetricStore and the page's "Data Skew" (mean absolute deviation / mean).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from runtime.core.ids import VertexId
from runtime.jobmaster.bottleneck import LEAST_ALIGNMENT_MS
from runtime.jobmaster.task_figures import JobFigures, VertexFigures

LEAST_RECORDS = 100.0
"""Records per subtask, on average, below which their spread is chance: at 100, chance alone gives a CV of 10 %."""
LEAST_RATE = 10.0
"""The same for records per second."""
RATE_SPAN_MS = 3_000.0
"""Time that a rate of records spans."""
MAX_VERTICES = 10
"""The worst ones; they are in each document of the job."""
PERIOD_MS = 4_900.0
"""Rates change all the time, and a skew that comes and goes within seconds is none."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of records over the subtasks of a vertex."""

    cv: float
    """Coefficient of variation, 0..√(subtasks − 1)."""
    max_to_average: float
    """1..subtasks."""
    subtask: int
    """Index of the one that gets most."""


@dataclass(frozen=True, slots=True)
class VertexSkew:
    """Skew of a vertex."""

    vertex_id: VertexId
    total: Spread | None
    """Since the start of its tasks; None: too few records."""
    live: Spread | None
    """At the moment; None: too few records a second, or the inputs of some subtasks wait for a checkpoint's barrier."""

    @property
    def worst_cv(self) -> float:
        return max(spread.cv for spread in (self.total, self.live) if spread is not None)


class SkewWatch:
    """Watches one job: looks every five seconds, and at once when its tasks have started anew."""

    def __init__(self) -> None:
        self._found: Sequence[VertexSkew] = ()
        self._found_ms: float | None = None
        self._generation: Hashable = None
        #: vertices that waited for the barrier of a checkpoint, and when they last did
        self._aligning_ms: dict[VertexId, float] = {}

    def observe(self, job: JobFigures) -> Sequence[VertexSkew]:
        """Take a sample; returns the vertices with the largest skew, the worst first."""
        if job.checkpoint is not None and job.checkpoint[1] >= LEAST_ALIGNMENT_MS:
            self._aligning_ms |= dict.fromkeys(job.unacknowledged, job.at_ms)
        aligning = {v: at for v, at in self._aligning_ms.items() if job.at_ms - at < RATE_SPAN_MS}
        self._aligning_ms = aligning
        if not job.is_running:
            self._found, self._found_ms = (), None
        elif self._found_ms is None or self._generation != job.generation or job.at_ms - self._found_ms >= PERIOD_MS:
            self._found, self._found_ms, self._generation = find_skews(job, aligning), job.at_ms, job.generation
        return self._found


def find_skews(job: JobFigures, aligning: Collection[VertexId] = ()) -> list[VertexSkew]:
    """Return the vertices with the largest skew, the worst first; those of one subtask or of few records have none.

    Args:
        job: its figures.
        aligning: vertices of which some subtasks wait for a checkpoint's barrier, or did while rates were measured:
            their rates say nothing.
    """
    found = [skew for vertex in job.vertices if (skew := _skew(vertex, vertex.vertex_id in aligning)) is not None]
    return sorted(found, key=lambda skew: -skew.worst_cv)[:MAX_VERTICES]


def spread_of(records: Mapping[int, float], least: float) -> Spread | None:
    """Return the spread of numbers.

    Args:
        records: of each subtask, by index.
        least: average from which on it is no chance.

    Returns:
        None: there are fewer than two subtasks, or too few records.
    """
    if len(records) < 2:
        return None
    average = sum(records.values()) / len(records)
    if average < least:
        return None
    variance = sum((count - average) ** 2 for count in records.values()) / len(records)
    # of equal ones the first: it is to stay the same
    subtask = max(sorted(records), key=lambda index: records[index])
    return Spread(sqrt(variance) / average, records[subtask] / average, subtask)


def _skew(vertex: VertexFigures, is_aligning: bool) -> VertexSkew | None:
    total = spread_of(vertex.received, LEAST_RECORDS)
    live = None if is_aligning else spread_of({s.index: s.records_in for s in vertex.subtasks}, LEAST_RATE)
    return None if total is None and live is None else VertexSkew(vertex.vertex_id, total, live)
