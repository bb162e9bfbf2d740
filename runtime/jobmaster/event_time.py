"""Event time of a whole job: how far it is, and who holds the watermark back. Pure.

Event time begins at origins: sources, or vertices that assign event times themselves. Watermarks are compared only
where they meet: at a vertex, or in a subtask that reads several splits. The lowest counts there, of those that are
neither idle nor at their end, and it holds event time up if the vertex indeed waits for it. How far a vertex is
*behind* is measured in event time, because a wall-clock lag says nothing where old data is replayed.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import VertexId
from runtime.jobmaster.findings import Cause, Finding, Topic
from runtime.jobmaster.task_figures import JobFigures, SubtaskFigures, VertexFigures

LIVE_LAG_MS = 3_600_000.0
"""A source whose records are younger is live; of older ones the distance to the wall clock is the age of the data."""
STILL_MS = 5_000.0
"""A watermark that has stood still for so long while another has risen is news; sources may well pause for seconds."""
SPEED_MS = 10_000.0
"""The speed is that of this long: less shows the pauses between watermarks, more a speed of the past."""

QUIET_MS = 1_000.0
"""A source that has had nothing to read for less is at work: one with a rate pauses between its records."""
MAX_IDLE = 20
"""Idle inputs that are named. More: a topic with a thousand quiet partitions fills the document."""
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
class IdleInput:
    """A subtask, or a split that it reads, that is declared idle: it holds back nobody, and nobody waits for it."""

    vertex_id: VertexId
    subtask: int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class EventTime:
    """Event time at one moment."""

    newest: int | None = None
    """The newest watermark of any origin; None: there is none."""
    is_live: bool = False
    """Whether a source reads records of the last hour, or has done so for a while since the job's start: only then a
    distance to the wall clock is a lag."""
    holder: Holder | None = None
    """None: all are equally far."""
    held_by: Mapping[VertexId, VertexId] = field(default_factory=dict)
    """Of vertices with several inputs: the one whose watermark is the lowest, if they differ."""
    newest_of: Mapping[VertexId, int] = field(default_factory=dict)
    """Of vertices whose streams never meet those of the newest: the newest of theirs."""
    speed: float | None = None
    """ms of event time by which the newest watermark rises each ms; None: it has not been watched for long enough."""
    idle: Sequence[IdleInput] = ()
    """Origins that are idle, of a source with its splits only these; the first `MAX_IDLE`."""
    num_idle: int = 0
    live: frozenset[VertexId] = frozenset()
    """Vertices all of whose origins are live; of the others a distance to the wall clock is the age of the data."""
    is_judged: bool = False
    """Whether it has been watched for so long that a watermark that stands still would have been found."""


@dataclass(frozen=True, slots=True)
class _Position:
    vertex: VertexFigures
    subtask: SubtaskFigures
    split: str | None
    watermark: int
    is_waiting: bool
    """Whether there is nothing to read."""


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Watermarks that meet, of which the lowest counts."""

    place: Hashable
    positions: Sequence[_Position]
    taken: int
    """The watermark that is known to be waited at: the lowest of all vertices where these meet, and of a vertex its
    highest subtask's, because the subtasks of some do not wait for each other."""

    @property
    def lowest(self) -> _Position:
        return min(self.positions, key=lambda p: p.watermark)

    @property
    def newest(self) -> int:
        return max(p.watermark for p in self.positions)

    @property
    def is_held(self) -> bool:
        lowest = self.lowest
        return self.taken <= lowest.watermark and (lowest.is_waiting or lowest.subtask.records_in > 0.0)


@dataclass(slots=True)
class _Mark:
    """The lowest watermark of a meeting."""

    whose: Hashable
    newest: int
    since_ms: float
    risen_ms: float
    """When the newest has risen."""

    @property
    def still_ms(self) -> float:
        return max(0.0, self.risen_ms - self.since_ms)


class EventTimeWatch:
    """Watches one job."""

    def __init__(self) -> None:
        self._marks: dict[Hashable, _Mark] = {}
        self._generation: object = None
        self._began_ms: float | None = None
        #: of sources whose records are young, since when
        self._live_since_ms: dict[VertexId, float] = {}
        #: since the job's start
        self._have_been_live: set[VertexId] = set()
        #: time and newest watermark of the last samples
        self._newest: deque[tuple[float, int]] = deque()

    def observe(self, job: JobFigures) -> EventTime:
        """Take a sample; returns where event time is."""
        if not job.is_running or job.generation != self._generation or self._began_ms is None:
            self._marks, self._generation, self._began_ms = {}, job.generation, job.at_ms
            self._live_since_ms, self._have_been_live = {}, set()
            self._newest.clear()
        if not job.is_running:
            self._began_ms = None
            return EventTime()
        positions = _positions(job)
        origins = _origins(job)
        met = [m for m in _meetings(job, positions, origins) if MIN_WATERMARK < m.newest > m.lowest.watermark]
        self._marks = {m.place: self._marked(m, job.at_ms) for m in met}
        known = [p.watermark for each in positions.values() for p in each if p.watermark > MIN_WATERMARK]
        newest = max(known, default=None)
        live, idle = self._live(job), list(_idle(job))
        return EventTime(
            newest,
            bool(live),
            self._holder(met),
            _held_by(job),
            {} if newest is None else _newest_of(positions, origins, newest),
            self._speed(newest, job.at_ms),
            idle[:MAX_IDLE],
            len(idle),
            _live_throughout(job, live),
            job.at_ms - self._began_ms >= STILL_MS,
        )

    def _speed(self, newest: int | None, at_ms: float) -> float | None:
        samples = self._newest
        if newest is None or (samples and newest < samples[-1][1]):
            # the origin that was furthest has ended
            samples.clear()
        if newest is None:
            return None
        samples.append((at_ms, newest))
        while at_ms - samples[0][0] > SPEED_MS:
            samples.popleft()
        since_ms, before = samples[0]
        return None if at_ms - since_ms < STILL_MS else (newest - before) / (at_ms - since_ms)

    def _marked(self, meeting: _Meeting, at_ms: float) -> _Mark:
        lowest, newest = meeting.lowest, meeting.newest
        whose = (lowest.vertex.vertex_id, lowest.subtask.index, lowest.split, lowest.watermark)
        mark = self._marks.get(meeting.place)
        if mark is None or mark.whose != whose or not meeting.is_held:
            return _Mark(whose, newest, at_ms, at_ms)
        if newest > mark.newest:
            mark.newest, mark.risen_ms = newest, at_ms
        elif at_ms - mark.risen_ms > STILL_MS:
            # nobody goes on: there is nothing to wait for
            mark.since_ms = at_ms
        return mark

    def _holder(self, meetings: Sequence[_Meeting]) -> Holder | None:
        """Return the one that has stood still for longest, else the one that is furthest behind."""

        def weight(meeting: _Meeting) -> tuple[float, int]:
            still_ms = self._marks[meeting.place].still_ms
            return still_ms if still_ms >= STILL_MS else 0.0, meeting.newest - meeting.lowest.watermark

        last = max(meetings, key=weight, default=None)
        return None if last is None else _holder(last.lowest, last.newest, self._marks[last.place].still_ms)

    def _live(self, job: JobFigures) -> frozenset[VertexId]:
        """Return the sources that are live."""
        live = {vertex.vertex_id for vertex in job.vertices if vertex.is_source and _is_live(vertex)}
        self._live_since_ms = {each: self._live_since_ms.get(each, job.at_ms) for each in live}
        # it stays: one that falls behind by more than an hour is late, not a replay
        self._have_been_live |= {each for each, since in self._live_since_ms.items() if job.at_ms - since >= STILL_MS}
        return frozenset(live | self._have_been_live)


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


def _positions(job: JobFigures) -> dict[VertexId, list[_Position]]:
    """Return the watermarks of origins that count."""
    return {
        vertex.vertex_id: [
            position
            for subtask in vertex.subtasks
            if not subtask.is_watermark_idle and subtask.output_watermark < MAX_WATERMARK
            for position in _positions_of(vertex, subtask)
        ]
        for vertex in job.vertices
        if vertex.is_source or _assigns(vertex)
    }


def _origins(job: JobFigures) -> dict[VertexId, frozenset[VertexId]]:
    """Return the origins of the watermarks that leave each vertex: behind one that assigns event times, only itself."""
    by_id = {vertex.vertex_id: vertex for vertex in job.vertices}
    found: dict[VertexId, frozenset[VertexId]] = {}

    def of(vertex_id: VertexId) -> frozenset[VertexId]:
        vertex = by_id.get(vertex_id)
        if vertex is None:
            # its subtasks have finished
            return frozenset()
        if vertex_id not in found:
            is_origin = vertex.is_source or _assigns(vertex)
            found[vertex_id] = (
                frozenset((vertex_id,)) if is_origin else frozenset().union(*(of(each) for each in vertex.inputs))
            )
        return found[vertex_id]

    for vertex in job.vertices:
        of(vertex.vertex_id)
    return found


def _meetings(
    job: JobFigures,
    positions: Mapping[VertexId, Sequence[_Position]],
    origins: Mapping[VertexId, frozenset[VertexId]],
) -> list[_Meeting]:
    """Return where watermarks meet: before vertices, and in subtasks that read several splits."""
    taken: dict[frozenset[VertexId], int] = {}
    for vertex in job.vertices:
        reach = frozenset[VertexId]().union(*(origins.get(source, ()) for source in vertex.inputs))
        if reach:
            highest = max(s.input_watermark for s in vertex.subtasks)
            taken[reach] = min(taken.get(reach, highest), highest)
    found = []
    for reach, watermark in taken.items():
        # in the order of the vertices: of equal ones always the same is named
        met = [p for vertex in job.vertices if vertex.vertex_id in reach for p in positions[vertex.vertex_id]]
        if met:
            found.append(_Meeting(reach, met, watermark))
    for vertex_id, each in positions.items():
        by_subtask: dict[int, list[_Position]] = {}
        for position in each:
            by_subtask.setdefault(position.subtask.index, []).append(position)
        for index, splits in by_subtask.items():
            if len(splits) > 1:
                found.append(_Meeting((vertex_id, index), splits, splits[0].subtask.output_watermark))
    return found


def _newest_of(
    positions: Mapping[VertexId, Sequence[_Position]],
    origins: Mapping[VertexId, frozenset[VertexId]],
    newest: int,
) -> dict[VertexId, int]:
    """Return the newest watermarks of the parts of the job that never meet the newest of all."""
    parts: list[set[VertexId]] = []
    for reach in origins.values():
        apart = [part for part in parts if not part & reach]
        parts = [*apart, set(reach).union(*(part for part in parts if part & reach))]
    found: dict[VertexId, int] = {}
    for part in parts:
        known = [p.watermark for origin in part for p in positions[origin] if p.watermark > MIN_WATERMARK]
        if known and max(known) < newest:
            found |= {vertex_id: max(known) for vertex_id, reach in origins.items() if reach & part}
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
    # the rates span three seconds
    gets_none = subtask.records_in <= 0.0
    is_idle = subtask.source_idle_ms >= QUIET_MS if vertex.is_source else gets_none and subtask.idle >= 500.0
    waits = is_idle or (has_none and gets_none)
    return [_Position(vertex, subtask, None, subtask.output_watermark, waits)]


def _holder(lowest: _Position, newest: int, still_ms: float) -> Holder:
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


def _is_live(source: VertexFigures) -> bool:
    lags = [subtask.event_time_lag_ms for subtask in source.subtasks]
    return any(lag is not None and abs(lag) < LIVE_LAG_MS for lag in lags)


def _live_throughout(job: JobFigures, live: frozenset[VertexId]) -> frozenset[VertexId]:
    """Return the live sources, and the vertices that get nothing of others: the lowest watermark is what counts.

    A source without event times says nothing about its age, and gives no watermark that could be compared.
    """
    by_id = {vertex.vertex_id: vertex for vertex in job.vertices}
    #: None: no source upstream says how old its records are
    found: dict[VertexId, bool | None] = {}

    def is_live(vertex_id: VertexId) -> bool | None:
        vertex = by_id.get(vertex_id)
        if vertex is None:
            # its subtasks have finished
            return None
        if vertex_id not in found:
            if vertex.is_source:
                tells = vertex_id in live or any(s.event_time_lag_ms is not None for s in vertex.subtasks)
                found[vertex_id] = vertex_id in live if tells else None
            else:
                told = [each for source in vertex.inputs if (each := is_live(source)) is not None]
                found[vertex_id] = all(told) if told else None
        return found[vertex_id]

    return frozenset(vertex.vertex_id for vertex in job.vertices if is_live(vertex.vertex_id))


def _idle(job: JobFigures) -> Iterator[IdleInput]:
    """Yield what is declared idle: splits of a source, or subtasks as a whole that are not idle because an input is."""
    by_id = {vertex.vertex_id: vertex for vertex in job.vertices}
    active = {each for each, vertex in by_id.items() if not any(s.is_watermark_idle for s in vertex.subtasks)}
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            idle = sorted(split for split, figures in subtask.splits.items() if figures.idle >= 1000.0)
            if idle:
                yield from (IdleInput(vertex.vertex_id, subtask.index, split) for split in idle)
            elif subtask.is_watermark_idle and not (by_id.keys() & vertex.inputs) - active:
                yield IdleInput(vertex.vertex_id, subtask.index)


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
