"""What limits a job: the one rule behind the page's "Why" and `tidemark info`. Pure.

A vertex that cannot send is back-pressured, and so, soon, is everything above it; the one that they all wait for works
without being back-pressured itself, or waits for something outside. `find_causes` judges one set of figures;
`BottleneckWatch` gives it medians of the last seconds and reports what stays, so that a burst, a start or a checkpoint
is no cause. Source: Flink, JobVertexBackPressureHandler, whose page leaves the search to the reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from runtime.core.ids import VertexId
from runtime.jobmaster.findings import Cause, Finding, Topic
from runtime.jobmaster.task_figures import JobFigures, SubtaskFigures, VertexFigures

WINDOW_MS = 5_000.0
"""Span of the medians. Twice as long names a cause after ten seconds; half as long has too few samples for a median."""
LEAST_SPAN_MS = 2_900.0
"""Nothing is judged before: the rates of a task that has just started say little."""
SAMPLE_MS = 900.0
"""Samples that come faster are left out: tasks report twice a second, and their rates span one second or three."""
CONFIRM_MS = 1_900.0
"""For so long another verdict has to hold before it replaces the one that stands."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something is a cause. A verdict that stands is given up at lower ones than it was reached at."""

    held: float
    """ms per second of back-pressure for which somebody waits. Flink calls up to 100 OK, above 500 HIGH."""
    saturated: float
    """Busy ms per second of a vertex that nobody waits for: a source that reads as fast as it can."""
    outside: float
    skew: float
    """Multiple of the records of the other subtasks, on average."""
    late: float
    """Share of the records that a vertex receives."""
    memory: float
    """Left share of what a process has and could still get."""


ENTER = Thresholds(200.0, 900.0, 500.0, 2.0, 0.01, 0.1)
LEAVE = Thresholds(100.0, 800.0, 300.0, 1.5, 0.005, 0.15)
LEAST_LOAD = 300.0
"""ms per second that a vertex has to work or to wait outside if others are to wait for it."""
LEAST_ALIGNMENT_MS = 1_000.0
LEAST_GROWTH = 0.05
"""Growth of a source's pending records that counts, as a share of what it reads."""


class BottleneckWatch:
    """Watches one job: takes samples, and gives what has been wrong for some seconds."""

    def __init__(self) -> None:
        self._samples: deque[JobFigures] = deque()
        self._standing: dict[Topic, Finding] = {}
        #: by topic, what is about to replace the standing one (None: nothing), and since when
        self._rising: dict[Topic, tuple[tuple[object, ...] | None, float]] = {}

    def observe(self, sample: JobFigures) -> Sequence[Finding]:
        """Take a sample; returns the findings, the weightiest first."""
        samples = self._samples
        if not sample.is_running or (samples and samples[-1].generation != sample.generation):
            samples.clear()
            self._standing.clear()
            self._rising.clear()
        if sample.is_running and (not samples or sample.at_ms - samples[-1].at_ms >= SAMPLE_MS):
            samples.append(sample)
            while sample.at_ms - samples[0].at_ms > WINDOW_MS:
                samples.popleft()
            if sample.at_ms - samples[0].at_ms >= LEAST_SPAN_MS:
                self._judge(sample.at_ms)
        return [self._standing[topic] for topic in Topic if topic in self._standing]

    def _judge(self, at_ms: float) -> None:
        causes = {f.topic: f for f in find_causes(medians(self._samples), self._standing, _growths(self._samples))}
        for topic in {*self._standing, *self._rising, *causes}:
            self._confirm(topic, causes.get(topic), at_ms)

    def _confirm(self, topic: Topic, proposed: Finding | None, at_ms: float) -> None:
        standing = self._standing.get(topic)
        place = None if proposed is None else proposed.place
        if place == (None if standing is None else standing.place):
            self._rising.pop(topic, None)
            if proposed is not None:
                self._standing[topic] = proposed
            return
        rising, since_ms = self._rising.get(topic, (None, at_ms))
        if topic not in self._rising or rising != place:
            since_ms = at_ms
        # a call that does not return has been watched for seconds already
        if at_ms - since_ms < CONFIRM_MS and (proposed is None or proposed.cause is not Cause.STALL):
            self._rising[topic] = place, since_ms
            return
        self._rising.pop(topic, None)
        if proposed is None:
            del self._standing[topic]
        else:
            self._standing[topic] = proposed


def medians(samples: Sequence[JobFigures]) -> JobFigures:
    """Return the newest sample with medians over all of them in place of the figures that move."""
    series: dict[tuple[VertexId, int], list[SubtaskFigures]] = {}
    for sample in samples:
        for vertex in sample.vertices:
            for subtask in vertex.subtasks:
                series.setdefault((vertex.vertex_id, subtask.index), []).append(subtask)
    newest = samples[-1]
    return replace(
        newest,
        vertices=[
            replace(vertex, subtasks=[_median(series[vertex.vertex_id, s.index]) for s in vertex.subtasks])
            for vertex in newest.vertices
        ],
    )


def _median(series: Sequence[SubtaskFigures]) -> SubtaskFigures:
    return replace(
        series[-1],
        busy=median(s.busy for s in series),
        running=median(s.running for s in series),
        idle=median(s.idle for s in series),
        back_pressured=median(s.back_pressured for s in series),
        outside=median(s.outside for s in series),
        sending=median(s.sending for s in series),
        records_in=median(s.records_in for s in series),
        late=median(s.late for s in series),
    )


def _growths(samples: Sequence[JobFigures]) -> dict[VertexId, float]:
    """Return by how many pending records each source has fallen behind per second."""
    first, last = samples[0], samples[-1]
    seconds = (last.at_ms - first.at_ms) / 1000.0
    before = {vertex.vertex_id: _pending(vertex) for vertex in first.vertices}
    found = {}
    for vertex in last.vertices:
        then, now = before.get(vertex.vertex_id), _pending(vertex)
        if then is not None and now is not None:
            found[vertex.vertex_id] = (now - then) / seconds
    return found


def _pending(vertex: VertexFigures) -> int | None:
    known = [subtask.pending for subtask in vertex.subtasks if subtask.pending is not None]
    return sum(known) if known else None


# --- the rule ---------------------------------------------------------------------------------------------------------


def find_causes(
    job: JobFigures, standing: Collection[Topic] = (), growths: Mapping[VertexId, float] | None = None
) -> list[Finding]:
    """Return what is wrong with a job by these figures.

    Args:
        job: a moment, or medians of several.
        standing: topics on which there is a verdict, which is given up at lower thresholds than it is reached at.
        growths: pending records of sources, more of them per second.
    """

    def thresholds(topic: Topic) -> Thresholds:
        return LEAVE if topic in standing else ENTER

    limit = _limit(job, thresholds(Topic.LIMIT))
    found = [] if limit is None else [limit]
    found += _late(job, thresholds(Topic.LATE).late)
    if limit is None:
        # what waits before a source is else only the consequence
        found += _pending_records(job, growths or {})
    return found + _memory(job, thresholds(Topic.MEMORY).memory)


def _limit(job: JobFigures, limits: Thresholds) -> Finding | None:
    vertices = {vertex.vertex_id: vertex for vertex in job.vertices}
    feeding = {source for vertex in job.vertices for source in vertex.inputs}
    loads = {vertex.vertex_id: _Load(vertex, vertex.vertex_id in feeding) for vertex in job.vertices}
    waiting = {vertex_id for vertex_id, load in loads.items() if load.held > limits.held}
    above = {vertex_id: _above(vertex_id, vertices) for vertex_id in vertices}

    def told(vertex_id: VertexId) -> list[VertexId]:
        return [each for each in vertices if each in above[vertex_id] & waiting]

    stalls = [stall for stall in job.stalls if stall.vertex_id in vertices]
    if stalls:
        stall = min(stalls, key=lambda stall: stall.since_ms)
        figures = {"stalled_ms": job.at_ms - stall.since_ms}
        return Finding(Topic.LIMIT, Cause.STALL, stall.vertex_id, stall.subtask, figures, told(stall.vertex_id))
    awaited = [v for v in vertices if v not in waiting and waiting & set(vertices[v].inputs)]
    working = [v for v in awaited if loads[v].total >= LEAST_LOAD]
    if not working and awaited and job.checkpoint is not None and job.checkpoint[1] >= LEAST_ALIGNMENT_MS:
        number, waiting_ms = job.checkpoint
        figures = {"checkpoint": float(number), "waiting_ms": waiting_ms}
        return Finding(Topic.LIMIT, Cause.ALIGNMENT, awaited[0], None, figures, told(awaited[0]))
    if not working:
        working = [
            v
            for v in vertices
            if v not in waiting and (loads[v].busy >= limits.saturated or loads[v].outside >= limits.outside)
        ]
    if not working:
        return None
    # of tasks that share a slot's loop all are busy: the one that runs is what the others wait for
    culprit = max(working, key=lambda v: (loads[v].own, loads[v].total))
    return _reasoned(vertices[culprit], loads[culprit], limits, told(culprit))


class _Load:
    """Time of a vertex: that of the subtask which works most, or waits outside."""

    def __init__(self, vertex: VertexFigures, has_consumers: bool) -> None:
        # without consumers there is nothing in the job that it could wait for
        outside = {s.index: s.outside if has_consumers else s.back_pressured for s in vertex.subtasks}
        self.worst = max(vertex.subtasks, key=lambda s: (s.running + outside[s.index], s.busy))
        self.outside = outside[self.worst.index]
        self.own = self.worst.running + self.outside
        self.total = max(self.worst.busy, self.own)
        self.busy = max(s.busy for s in vertex.subtasks)
        self.held = max(s.held for s in vertex.subtasks) if has_consumers else 0.0
        others = [s for s in vertex.subtasks if s is not self.worst]
        #: of the other subtasks, on average; of none if it is the only one
        self.others_load = _mean(s.running + outside[s.index] for s in others)
        self.others_records = _mean(s.records_in for s in others)
        self.has_others = bool(others)


def _reasoned(vertex: VertexFigures, load: _Load, limits: Thresholds, waiting: Sequence[VertexId]) -> Finding:
    worst = load.worst
    is_alone = load.has_others and worst.running + load.outside >= limits.skew * load.others_load
    figures = {"busy": worst.busy, "running": worst.running}
    if is_alone and worst.records_in > 0 and worst.records_in >= limits.skew * load.others_records:
        # at least a record a second: an only busy subtask gets infinitely many times the others' records
        figures["times_the_others"] = worst.records_in / max(load.others_records, 1.0)
        cause = Cause.SKEW
    elif load.outside >= worst.running:
        figures["outside"] = load.outside
        cause = Cause.OUTSIDE
    elif worst.sending >= worst.running / 2 and worst.sending > 0:
        figures["sending"] = worst.sending
        cause = Cause.SLOW_SINK
    else:
        cause = Cause.BUSY
    return Finding(Topic.LIMIT, cause, vertex.vertex_id, worst.index if is_alone else None, figures, waiting)


def _late(job: JobFigures, threshold: float) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        late, received = sum(s.late for s in vertex.subtasks), sum(s.records_in for s in vertex.subtasks)
        share = late / received if received > 0 else 0.0
        if late > 0 and share >= threshold:
            figures = {"late": late, "share": min(1.0, share)}
            found.append(Finding(Topic.LATE, Cause.LATE_DATA, vertex.vertex_id, None, figures))
    return [max(found, key=lambda f: f.figures["late"])] if found else []


def _pending_records(job: JobFigures, growths: Mapping[VertexId, float]) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        growth, pending = growths.get(vertex.vertex_id, 0.0), _pending(vertex) or 0
        rate = sum(s.records_in for s in vertex.subtasks)
        if growth > LEAST_GROWTH * rate and growth > 0 and pending > rate:
            figures = {"pending": float(pending), "growth": growth}
            found.append(Finding(Topic.PENDING, Cause.PENDING_RECORDS, vertex.vertex_id, None, figures))
    return [max(found, key=lambda f: f.figures["growth"])] if found else []


def _memory(job: JobFigures, threshold: float) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            resident, left = subtask.resident_bytes, subtask.available_bytes
            if resident is not None and left is not None and left < threshold * (left + resident):
                figures = {"resident": float(resident), "available": float(left)}
                found.append(Finding(Topic.MEMORY, Cause.MEMORY, vertex.vertex_id, subtask.index, figures))
    return [max(found, key=lambda f: f.figures["resident"])] if found else []


def _above(vertex_id: VertexId, vertices: Mapping[VertexId, VertexFigures]) -> set[VertexId]:
    above: set[VertexId] = set()
    left = [vertex_id]
    while left:
        for source in vertices[left.pop()].inputs:
            if source in vertices and source not in above:
                above.add(source)
                left.append(source)
    return above


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0
