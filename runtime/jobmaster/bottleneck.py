"""What limits a job: the one rule behind the page's "Why" and `tidemark info`. Pure.

A vertex that cannot send is back-pressured, and so, soon, is everything above it; the one that they all wait for works
without being back-pressured itself, or waits for something outside. `find_causes` judges one set of figures;
`BottleneckWatch` gives it medians of the last seconds and reports what stays, so that a burst, a start or a checkpoint
is no cause. Source: Flink, JobVertexBackPressureHandler, whose page leaves the search to the reader.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
    """Left share of the memory that all processes there have together."""


ENTER = Thresholds(200.0, 900.0, 500.0, 2.0, 0.01, 0.1)
LEAVE = Thresholds(100.0, 800.0, 300.0, 1.5, 0.005, 0.15)
LEAST_LOAD = 300.0
"""ms per second that a vertex has to work or to wait outside if others are to wait for it."""
LEAST_ALIGNMENT_MS = 1_000.0
UNEXPLAINED = 500.0
"""ms per second of back-pressure that is told although nobody is found who causes it. Source: Flink, HIGH."""
MEMORY_BYTES = 10 << 30
"""A limit counts up to this: of 64 GiB a tenth is not little."""
AHEAD = 0.1
"""By so much another culprit has to be ahead of the one that is named, or is about to be: equal ones take turns."""
LEAST_GROWTH = 0.05
"""Growth of a source's pending records that counts, as a share of what it reads."""


class BottleneckWatch:
    """Watches one job: takes samples, and gives what has been wrong for some seconds."""

    def __init__(self) -> None:
        self._samples: deque[JobFigures] = deque()
        self._standing: dict[Topic, Finding] = {}
        #: by topic, what is about to replace the standing one (None: nothing), and since when
        self._rising: dict[Topic, tuple[Finding | None, float]] = {}
        self._has_judged = False

    @property
    def has_judged(self) -> bool:
        """Return whether it has watched for long enough that no finding means that nothing is wrong."""
        return self._has_judged

    def observe(self, sample: JobFigures) -> Sequence[Finding]:
        """Take a sample; returns the findings, the weightiest first."""
        samples = self._samples
        if not sample.is_running or (samples and samples[-1].generation != sample.generation):
            samples.clear()
            self._standing.clear()
            self._rising.clear()
            self._has_judged = False
        if sample.is_running and (not samples or sample.at_ms - samples[-1].at_ms >= SAMPLE_MS):
            samples.append(sample)
            while sample.at_ms - samples[0].at_ms > WINDOW_MS:
                samples.popleft()
            if sample.at_ms - samples[0].at_ms >= LEAST_SPAN_MS:
                self._judge(sample.at_ms)
        return [self._standing[topic] for topic in Topic if topic in self._standing]

    def _judge(self, at_ms: float) -> None:
        figures, growths = medians(self._samples), _growths(self._samples)
        rising = [finding for finding, _ in self._rising.values() if finding is not None]
        preferred = [*self._standing.values(), *rising]
        entered = {f.topic: f for f in find_causes(figures, ENTER, growths, preferred)}
        left = {f.topic: f for f in find_causes(figures, LEAVE, growths, preferred)} if self._standing else {}
        for topic in {*self._standing, *self._rising, *entered}:
            standing = self._standing.get(topic)
            kept = left.get(topic)
            # the lower thresholds are those of the verdict that stands, and of no other
            is_kept = standing is not None and kept is not None and kept.place == standing.place
            self._confirm(topic, entered.get(topic, kept if is_kept else None), at_ms)
        self._has_judged |= bool(self._standing) or not self._rising

    def _confirm(self, topic: Topic, proposed: Finding | None, at_ms: float) -> None:
        standing = self._standing.get(topic)
        place = None if proposed is None else proposed.place
        if place == (None if standing is None else standing.place):
            self._rising.pop(topic, None)
            if proposed is not None:
                self._standing[topic] = proposed
            return
        rising, since_ms = self._rising.get(topic, (None, at_ms))
        # counted for the vertex: figures of equal subtasks take turns
        if topic not in self._rising or _vertex_of(rising) != _vertex_of(proposed):
            since_ms = at_ms
        # a call that does not return has been watched for seconds already
        if at_ms - since_ms < CONFIRM_MS and (proposed is None or proposed.cause is not Cause.STALL):
            self._rising[topic] = proposed, since_ms
            return
        self._rising.pop(topic, None)
        if proposed is None:
            del self._standing[topic]
        else:
            self._standing[topic] = proposed


def _vertex_of(finding: Finding | None) -> VertexId | None:
    return None if finding is None else finding.vertex_id


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
    """Return by how many pending records each source falls behind per second; only those that do so steadily."""
    found = {}
    for vertex in samples[-1].vertices:
        growth = _growth(vertex.vertex_id, samples) if vertex.is_source else 0.0
        if growth > 0.0:
            found[vertex.vertex_id] = growth
    return found


def _growth(vertex_id: VertexId, samples: Sequence[JobFigures]) -> float:
    """Return the smaller growth of both halves of the time; 0 if it has grown by single steps, or shrunk since."""
    series = [
        {
            s.index: s.pending
            for v in sample.vertices
            if v.vertex_id == vertex_id
            for s in v.subtasks
            if s.pending is not None
        }
        for sample in samples
    ]
    # one that reports for the first time has not grown
    known = set.intersection(*(set(pending) for pending in series))
    totals = [sum(pending[index] for index in known) for pending in series]
    if len(totals) < 3 or median(b - a for a, b in pairwise(totals)) <= 0 or totals[-1] < max(totals):
        return 0.0
    middle, last = len(totals) // 2, len(totals) - 1

    def per_second(begin: int, end: int) -> float:
        return (totals[end] - totals[begin]) / (samples[end].at_ms - samples[begin].at_ms) * 1000.0

    return max(0.0, min(per_second(0, middle), per_second(middle, last)))


def _pending(vertex: VertexFigures) -> int:
    return sum(subtask.pending for subtask in vertex.subtasks if subtask.pending is not None)


# --- the rule ---------------------------------------------------------------------------------------------------------


def find_causes(
    job: JobFigures,
    limits: Thresholds = ENTER,
    growths: Mapping[VertexId, float] | None = None,
    preferred: Sequence[Finding] = (),
) -> list[Finding]:
    """Return what is wrong with a job by these figures.

    Args:
        job: a moment, or medians of several.
        limits: from where on something is a cause.
        growths: pending records of sources, more of them per second.
        preferred: findings whose vertices and subtasks are named again unless others are ahead of them.
    """
    limit = _limit(job, limits, preferred)
    found = [] if limit is None else [limit]
    found += _late(job, limits.late, preferred)
    if limit is None:
        # what waits before a source is else only the consequence
        found += _pending_records(job, growths or {}, preferred)
    return found + _memory(job, limits.memory, preferred)


def _limit(job: JobFigures, limits: Thresholds, preferred: Sequence[Finding]) -> Finding | None:
    named = {f.vertex_id: f.subtask for f in preferred if f.topic is Topic.LIMIT}
    vertices = {vertex.vertex_id: vertex for vertex in job.vertices}
    feeding = {source for vertex in job.vertices for source in vertex.inputs}
    loads = {v.vertex_id: _Load(v, v.vertex_id in feeding, named.get(v.vertex_id)) for v in job.vertices}
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
    aligning = [v for v in awaited if v in job.unacknowledged]
    if not working and aligning and job.checkpoint is not None and job.checkpoint[1] >= LEAST_ALIGNMENT_MS:
        number, waiting_ms = job.checkpoint
        figures = {"checkpoint": float(number), "waiting_ms": waiting_ms}
        return Finding(Topic.LIMIT, Cause.ALIGNMENT, aligning[0], None, figures, told(aligning[0]))
    if not working:
        working = [
            v
            for v in vertices
            if v not in waiting and (loads[v].busy >= limits.saturated or loads[v].outside >= limits.outside)
        ]
    if not working:
        unexplained = [v for v in vertices if loads[v].held >= UNEXPLAINED]
        if not unexplained:
            return None
        last = unexplained[-1]
        return Finding(Topic.LIMIT, Cause.UNKNOWN, last, None, {"held": loads[last].held}, told(last))
    # of tasks that share a slot's loop all are busy: the one that runs is what the others wait for
    culprit = max(working, key=lambda v: (loads[v].own * (1.0 + AHEAD * (v in named)), loads[v].total))
    return _reasoned(vertices[culprit], loads[culprit], limits, told(culprit))


class _Load:
    """Time of a vertex: that of the subtask which works most, or waits outside."""

    def __init__(self, vertex: VertexFigures, has_consumers: bool, named: int | None) -> None:
        # without consumers there is nothing in the job that it could wait for
        outside = {s.index: s.outside if has_consumers else s.back_pressured for s in vertex.subtasks}
        self.worst = max(
            vertex.subtasks,
            key=lambda s: ((s.running + outside[s.index]) * (1.0 + AHEAD * (s.index == named)), s.busy),
        )
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
    gets_more = worst.records_in > 0 and worst.records_in >= limits.skew * load.others_records
    # skew is a matter of keys: subtasks of a source have splits, or none
    if is_alone and gets_more and not vertex.is_source:
        if load.others_records >= 1.0:
            figures["times_the_others"] = worst.records_in / load.others_records
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


def _late(job: JobFigures, threshold: float, preferred: Sequence[Finding]) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        late, received = sum(s.late for s in vertex.subtasks), sum(s.records_in for s in vertex.subtasks)
        share = late / received if received > 0 else 0.0
        if late > 0 and share >= threshold:
            figures = {"late": late, "share": min(1.0, share)}
            found.append(Finding(Topic.LATE, Cause.LATE_DATA, vertex.vertex_id, None, figures))
    return _weightiest(found, "late", preferred)


def _pending_records(job: JobFigures, growths: Mapping[VertexId, float], preferred: Sequence[Finding]) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        growth, pending = growths.get(vertex.vertex_id, 0.0), _pending(vertex)
        rate = sum(s.records_in for s in vertex.subtasks)
        if growth > LEAST_GROWTH * rate and growth > 0 and pending > rate:
            figures = {"pending": float(pending), "growth": growth}
            found.append(Finding(Topic.PENDING, Cause.PENDING_RECORDS, vertex.vertex_id, None, figures))
    return _weightiest(found, "growth", preferred)


def _memory(job: JobFigures, threshold: float, preferred: Sequence[Finding]) -> list[Finding]:
    found = []
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            resident, left, limit = subtask.resident_bytes, subtask.available_bytes, subtask.memory_limit_bytes
            if resident is None or left is None or limit is None:
                continue
            if left < threshold * min(limit, MEMORY_BYTES):
                figures = {"resident": float(resident), "available": float(left)}
                found.append(Finding(Topic.MEMORY, Cause.MEMORY, vertex.vertex_id, subtask.index, figures))
    return _weightiest(found, "resident", preferred)


def _weightiest(found: Sequence[Finding], figure: str, preferred: Sequence[Finding]) -> list[Finding]:
    """Return the finding with the largest figure, or one that is preferred and hardly smaller; [] of none."""
    named = {(f.place, f.subtask) for f in preferred}

    def weight(finding: Finding) -> float:
        return finding.figures[figure] * (1.0 + AHEAD * ((finding.place, finding.subtask) in named))

    return [max(found, key=weight)] if found else []


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
