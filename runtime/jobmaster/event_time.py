"""Event time of a whole job: how far it is, and who holds the watermark back. Pure.

Event time begins at origins: sources, or vertices that assign event times themselves. Their lowest watermark counts, of
those that are neither idle nor at their end; the newest tells how far the data has got. How far a vertex is *behind* is
measured against that, in event time, because a wall-clock lag says nothing where old data is replayed.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import VertexId
from runtime.jobmaster.findings import Cause, Finding, Topic
from runtime.jobmaster.task_figures import JobFigures, SubtaskFigures, VertexFigures

LIVE_LAG_MS = 3_600_000.0
"""A source whose records are younger is live; of older ones the distance to the wall clock is the age of the data."""
STILL_MS = 5_000.0
"""A watermark that has stood still for so long while another has risen is news; sources may well pause for seconds."""

QUIET_MS = 1_000.0
"""A source that has had nothing to read for less is at work: one with a rate pauses between its records."""
HELD_BACK = 100.0
"""ms per second. Source: Flink, which calls more than that back-pressure."""


class Holding(enum.Enum):
    """Reason for which an origin has the lowest watermark."""

    NOTHING_TO_READ = "nothing-to-read"
    NO_WATERMARK = "no-watermark"
    """It reads, and has given no watermark yet."""
    BACK_PRESSURED = "back-pressured"
    """The bottleneck of the job holds it."""
    BEHIND = "behind"


@dataclass(frozen=True, slots=True)
class Holder:
    """The subtask, and the split, whose watermark is the lowest."""

    vertex_id: VertexId
    subtask: int
    why: Holding
    watermark: int | None
    """None: it has none yet."""
    behind_ms: int | None
    """Behind the newest; None: it has none yet."""
    split: str | None = None
    still_ms: float = 0.0
    """For how long it has not risen although the newest watermark has."""


@dataclass(frozen=True, slots=True)
class EventTime:
    """Event time at one moment."""

    newest: int | None = None
    """The newest watermark of any origin; None: there is none."""
    is_live: bool = False
    """Whether a source reads records of the last hour: only then a distance to the wall clock is a lag."""
    holder: Holder | None = None
    """None: all are equally far."""
    held_by: Mapping[VertexId, VertexId] = field(default_factory=dict)
    """Of vertices with several inputs: the one whose watermark is the lowest, if they differ."""


@dataclass(frozen=True, slots=True)
class _Position:
    vertex: VertexFigures
    subtask: SubtaskFigures
    split: str | None
    watermark: int
    is_waiting: bool
    """Whether there is nothing to read."""


class EventTimeWatch:
    """Watches one job."""

    def __init__(self) -> None:
        #: the lowest watermark and whose it is, since when, and the newest at that time
        self._mark: tuple[tuple[object, ...], float, int | None] | None = None
        self._generation: object = None

    def observe(self, job: JobFigures) -> EventTime:
        """Take a sample; returns where event time is."""
        if not job.is_running or job.generation != self._generation:
            self._mark, self._generation = None, job.generation
        if not job.is_running:
            return EventTime()
        positions = _positions(job)
        known = [p.watermark for p in positions if p.watermark > MIN_WATERMARK]
        newest = max(known, default=None)
        lowest = min(positions, key=lambda p: p.watermark, default=None)
        still_ms = self._still_ms(job.at_ms, lowest, newest)
        return EventTime(newest, _is_live(job), _holder(lowest, newest, still_ms), _held_by(job))

    def _still_ms(self, at_ms: float, lowest: _Position | None, newest: int | None) -> float:
        if lowest is None:
            self._mark = None
            return 0.0
        key = (lowest.vertex.vertex_id, lowest.subtask.index, lowest.split, lowest.watermark)
        if self._mark is None or self._mark[0] != key:
            self._mark = key, at_ms, newest
        _, since_ms, before = self._mark
        has_risen = newest is not None and newest > max(lowest.watermark, MIN_WATERMARK if before is None else before)
        return at_ms - since_ms if has_risen else 0.0


def hold_of(time: EventTime) -> Finding | None:
    """Return what is wrong with event time; None: it goes on, or nobody's does."""
    holder = time.holder
    if holder is None or holder.still_ms < STILL_MS or holder.why is Holding.BACK_PRESSURED:
        return None
    cause = Cause.IDLE_INPUT if holder.why is Holding.NOTHING_TO_READ else Cause.STILL_WATERMARK
    figures = {"still_ms": holder.still_ms}
    if holder.behind_ms is not None:
        figures["behind_ms"] = float(holder.behind_ms)
    return Finding(Topic.WATERMARK, cause, holder.vertex_id, holder.subtask, figures, (), holder.split)


def _positions(job: JobFigures) -> list[_Position]:
    """Return the origins' watermarks that count."""
    by_id = {vertex.vertex_id: vertex for vertex in job.vertices}
    consumers: dict[VertexId, list[VertexFigures]] = {}
    for vertex in job.vertices:
        for source in vertex.inputs:
            consumers.setdefault(source, []).append(vertex)
    found = []
    for vertex in job.vertices:
        begins = any(s.output_watermark > MIN_WATERMARK for s in vertex.subtasks)
        fed = [by_id[source] for source in vertex.inputs if source in by_id]
        if not fed:
            # one that never has a watermark holds nobody back if those behind it assign event times themselves
            behind = consumers.get(vertex.vertex_id, [])
            if not begins and behind and all(_assigns(v) for v in behind):
                continue
        elif not (begins and _assigns(vertex)):
            continue
        for subtask in vertex.subtasks:
            if not subtask.is_watermark_idle and subtask.output_watermark < MAX_WATERMARK:
                found += _positions_of(vertex, subtask)
    return found


def _assigns(vertex: VertexFigures) -> bool:
    """Return whether event time begins here: watermarks go out, and none have come in."""
    return any(s.output_watermark > MIN_WATERMARK >= s.input_watermark for s in vertex.subtasks)


def _positions_of(vertex: VertexFigures, subtask: SubtaskFigures) -> list[_Position]:
    """Return the watermarks of the splits that a subtask reads, or its own."""
    active = {split: figures for split, figures in subtask.splits.items() if figures.idle < 1000.0}
    # of several splits, as long as it is the source that gives their watermarks
    if len(active) > 1 and any(figures.watermark > MIN_WATERMARK for figures in active.values()):
        return [_Position(vertex, subtask, split, f.watermark, f.is_waiting) for split, f in active.items()]
    has_none = subtask.output_watermark <= MIN_WATERMARK
    waits = subtask.source_idle_ms >= QUIET_MS or (has_none and subtask.records_in <= 0.0)
    return [_Position(vertex, subtask, None, subtask.output_watermark, waits)]


def _holder(lowest: _Position | None, newest: int | None, still_ms: float) -> Holder | None:
    if lowest is None or newest is None or lowest.watermark >= newest:
        return None
    has_none = lowest.watermark <= MIN_WATERMARK
    if lowest.is_waiting:
        why = Holding.NOTHING_TO_READ
    elif lowest.subtask.back_pressured > HELD_BACK:
        why = Holding.BACK_PRESSURED
    else:
        why = Holding.NO_WATERMARK if has_none else Holding.BEHIND
    return Holder(
        lowest.vertex.vertex_id,
        lowest.subtask.index,
        why,
        None if has_none else lowest.watermark,
        None if has_none else newest - lowest.watermark,
        lowest.split,
        still_ms,
    )


def _is_live(job: JobFigures) -> bool:
    lags = [s.event_time_lag_ms for vertex in job.vertices if vertex.is_source for s in vertex.subtasks]
    return any(lag is not None and abs(lag) < LIVE_LAG_MS for lag in lags)


def _held_by(job: JobFigures) -> dict[VertexId, VertexId]:
    lows = {vertex.vertex_id: _low(vertex.subtasks) for vertex in job.vertices}
    found = {}
    for vertex in job.vertices:
        inputs = {source: low for source in vertex.inputs if (low := lows.get(source)) is not None}
        if len(inputs) > 1 and len(set(inputs.values())) > 1:
            found[vertex.vertex_id] = min(inputs, key=lambda source: inputs[source])
    return found


def _low(subtasks: Sequence[SubtaskFigures]) -> int | None:
    """Return the lowest watermark that counts; None: all are idle or at their end."""
    return min(
        (s.output_watermark for s in subtasks if not s.is_watermark_idle and s.output_watermark < MAX_WATERMARK),
        default=None,
    )
