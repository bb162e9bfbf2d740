"""Autoscaler: decides which parallelism each vertex of a job needs, and says why. Pure.

Samples of the tasks go in, a decision per vertex comes out, with its reason in words for a user. What a subtask can do
is what it does divided by the share of its time for which it is busy: its true rate. What is demanded of a vertex is
what its sources have to read, multiplied by the ratios of outputs to inputs on the way. A vertex needs as many subtasks
as it takes to be busy for the target share of time, and to work off a backlog, and what arrives during the rescaling
itself, in the catch-up duration. Whoever calls it acts on the decision, or not.

Source: Kalavri et al., Three steps is all you need (DS2), OSDI 2018; Flink Kubernetes Operator, JobAutoScalerImpl.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.jobmaster.autoscaler_options import (
    CATCH_UP_DURATION,
    EXCLUDED_VERTICES,
    SCALING_ENABLED,
    AutoscalerSettings,
)
from runtime.jobmaster.requirements import Bounds, slots_of, tied
from runtime.jobmaster.scaling_demand import EPSILON, Demands, Load
from runtime.jobmaster.scaling_window import BUSY_FLOOR, JobSample, ScalingWindow, VertexRates

BLIND_FACTOR = 2.0
"""Growth of a parallelism for a demand that is unknown because the source is held back. More overshoots, less takes
more rescalings."""
UNEVEN = 2.0
"""Busiest subtask by mean from which the reason mentions uneven keys."""
ANY = Bounds(1, 1 << 15)


@dataclass(frozen=True, slots=True)
class PastChange:
    """The latest change of a vertex's parallelism by the autoscaler."""

    before: int
    after: int
    true_rate: float
    """Records per second that a subtask could do before."""
    age_ms: float


@dataclass(frozen=True, slots=True)
class Past:
    """Lessons of earlier rescalings."""

    last_rescale_age_ms: float | None = None
    """Time since the last one, whoever asked for it and however it ended; None: there was none."""
    cost_ms: float | None = None
    """From the beginning of its checkpoint until all tasks ran again; None: not measured yet."""
    changes: Mapping[VertexId, PastChange] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VertexDecision:
    """Target of one vertex. Rates are in records per second."""

    parallelism: int
    wanted: int
    reason: str
    """One or two sentences with numbers."""
    true_rate: float | None = None
    """Capacity of one subtask; None: nothing was measured."""
    demand: float | None = None
    """Demand on the vertex."""
    utilization: float | None = None
    """Demand by what all subtasks can do."""


@dataclass(frozen=True, slots=True)
class JobDecision:
    """Target of a job."""

    reason: str
    """The action, or the reason for taking none."""
    vertices: Mapping[VertexId, VertexDecision] = field(default_factory=dict)
    """Empty while there are not enough samples."""
    parallelism: Mapping[VertexId, int] = field(default_factory=dict)
    """Changes to make now; empty: none."""


class Autoscaler:
    """Decides for one job, by the samples since its tasks run.

    Args:
        graph: the job; parallelisms in it are not looked at.
        settings: its options.
    """

    def __init__(self, graph: JobGraph, settings: AutoscalerSettings) -> None:
        self._graph = graph
        self._vertices = {v.vertex_id: v for v in graph.vertices}
        self._in_edges = {v.vertex_id: graph.in_edges(v.vertex_id) for v in graph.vertices}
        self._consumers = {v.vertex_id: [e.target for e in graph.out_edges(v.vertex_id)] for v in graph.vertices}
        self._tied = [[v.vertex_id for v in unit] for unit in tied(graph)]
        self._settings = settings
        self._window = ScalingWindow(settings.window_ms, settings.stabilization_ms)

    def forget(self) -> None:
        """Forget all samples, because some are missing."""
        self._window.clear()

    def decide(self, sample: JobSample, past: Past, bounds: Mapping[VertexId, Bounds] | None = None) -> JobDecision:
        """Add a sample, and return what the job should have by now.

        Args:
            sample: the job at this moment.
            past: what is known of earlier rescalings, as of now.
            bounds: of vertices that have some.
        """
        if sample.not_running:
            self._window.clear()
            return JobDecision(sample.not_running)
        self._window.add(sample)
        wait = self._wait(sample.at_ms)
        if wait:
            return JobDecision(wait)
        rates = self._window.rates()
        cost_ms = self._settings.restart_ms if past.cost_ms is None else past.cost_ms
        parallelism = {vertex: len(subtasks) for vertex, subtasks in sample.vertices.items()}
        ended = {vertex: count for vertex, count in sample.finished_subtasks.items() if count}
        # at the target utilization, the parallelism grows by the factor
        blind_growth = max(1.0, BLIND_FACTOR * self._settings.target)
        demands = Demands(self._in_edges, self._consumers, rates, parallelism, blind_growth)
        view = _View(self._settings, past, bounds or {}, demands, cost_ms, ended)
        vertices = {
            vertex: self._vertex(self._vertices[vertex], view) for vertex in self._vertices if vertex in sample.vertices
        }
        vertices = self._joined(self._without_crowded_sources(vertices), view)
        vertices = self._without_idle_gains(vertices, is_ending=bool(ended))
        wanted = {v: d.wanted for v, d in vertices.items() if d.wanted != d.parallelism}
        reason = self._obstacle(wanted, vertices, past, cost_ms)
        if reason:
            return JobDecision(reason, vertices)
        return JobDecision(_summary(wanted, vertices, self._vertices), vertices, wanted)

    def _wait(self, now_ms: float) -> str:
        settings, window = self._settings, self._window
        left_ms = window.stabilizes_ms(now_ms)
        if left_ms > 0.0:
            done_ms = settings.stabilization_ms - left_ms
            return f"stabilising: {_seconds(done_ms)} of {_seconds(settings.stabilization_ms)} since the tasks run"
        if not window.is_full:
            return f"measuring: {_seconds(window.span_ms)} of {_seconds(settings.window_ms)} of samples"
        return ""

    def _obstacle(
        self,
        wanted: Mapping[VertexId, int],
        vertices: Mapping[VertexId, VertexDecision],
        past: Past,
        cost_ms: float,
    ) -> str:
        """Return why nothing is done now; empty if nothing prevents it."""
        settings = self._settings
        if not wanted:
            return self._contentment(vertices)
        if not settings.acts:
            return f"the decision is only shown: {SCALING_ENABLED.key} is false"
        if past.last_rescale_age_ms is not None and past.last_rescale_age_ms < settings.cooldown_ms:
            return f"cooldown: {_seconds(settings.cooldown_ms - past.last_rescale_age_ms)} left"
        before = self._slots({v: d.parallelism for v, d in vertices.items()})
        freed = before - self._slots({v: d.wanted for v, d in vertices.items()})
        added = max(n / vertices[v].parallelism for v, n in wanted.items()) - 1.0
        change, what = (added, "capacity") if added > 0.0 else (freed / before, "slots")
        gain_ms = change * settings.catch_up_ms
        if settings.catch_up_ms > 0 and gain_ms <= cost_ms:
            return (
                f"a rescaling costs {_seconds(cost_ms)} and would gain less: {change:.1%} of the {what} "
                f"for {_seconds(settings.catch_up_ms)} ({CATCH_UP_DURATION.key}) is worth {_seconds(gain_ms)}"
            )
        return ""

    def _contentment(self, vertices: Mapping[VertexId, VertexDecision]) -> str:
        """Return why no other parallelism is wanted."""
        if not vertices:
            return "all vertices have finished"
        if all(decision.true_rate is None for decision in vertices.values()):
            return "nothing can be measured"
        short = [self._vertices[v].name for v, d in vertices.items() if (d.utilization or 0.0) > self._settings.upper]
        if short:
            return f"{', '.join(short)} would need more and cannot have it"
        return "every vertex has the parallelism that it needs"

    def _slots(self, parallelism: Mapping[VertexId, int]) -> int:
        return slots_of(self._graph, dict.fromkeys(self._vertices, 0) | dict(parallelism))

    # --- one vertex ---------------------------------------------------------------------------------------------------

    def _vertex(self, vertex: JobVertex, view: _View) -> VertexDecision:
        name, demands = vertex.vertex_id, view.demands
        now = demands.parallelism[name]
        rates = demands.rates.get(name)
        if name in view.ended:
            all_of_them = now + view.ended[name]
            why = f"{view.ended[name]} of its {_subtasks(all_of_them)} have finished: more would have nothing to do."
            return VertexDecision(all_of_them, all_of_them, why)
        if name in self._settings.excluded:
            return VertexDecision(now, now, f"It is in {EXCLUDED_VERTICES.key} and keeps its {_subtasks(now)}.")
        if rates is None or rates.records_in <= 0.0:
            window = _seconds(self._settings.window_ms)
            return VertexDecision(now, now, f"No records in {window}: there is nothing to measure by.")
        load = demands.load(name)
        if load is None:
            return VertexDecision(now, now, "Its sources have finished or were silent: what will arrive is unknown.")
        return self._measured(vertex, rates, load, view)

    def _measured(self, vertex: JobVertex, rates: VertexRates, load: Load, view: _View) -> VertexDecision:
        settings, name = self._settings, vertex.vertex_id
        now = view.demands.parallelism[name]
        busy = max(BUSY_FLOOR, min(1.0, 1.0 - rates.idle if view.demands.waits_outside(name) else rates.busiest))
        true_rate = rates.records_in / now / busy
        fixed = load.broadcast
        demand = load.shared + now * fixed
        backlog = extra = 0.0
        if settings.catch_up_ms > 0:
            seconds = settings.catch_up_ms / 1000.0
            # what is demanded while a source is held back is a guess, which needs no surcharge
            arriving = 0.0 if load.held > 0.0 else load.shared
            backlog, extra = load.backlog / seconds, arriving * view.cost_ms / settings.catch_up_ms
        utilization = (demand + backlog) / (true_rate * now)
        decision = VertexDecision(now, now, "", true_rate, demand, utilization)
        seen = _seen(rates, busy, true_rate, load, settings)
        if settings.lower <= utilization <= settings.upper + EPSILON:
            band = f"within {settings.lower:.0%} to {settings.upper:.0%}"
            return replace(decision, reason=f"{seen} A load of {utilization:.0%} is {band}: {_subtasks(now)} will do.")
        room = true_rate * settings.target - fixed
        if room <= 0.0:
            why = "each subtask gets all broadcast records, and they alone are too many: more subtasks do not help."
            return replace(decision, reason=f"{seen} But {why}")
        # the part of a subtask's rate that is kept free counts for the demand, not for what is caught up with
        need = load.shared / room + (backlog + extra) / max(true_rate - fixed, EPSILON)
        needed = max(1, math.ceil(need - 1e-6))
        needs = f"{seen} That needs {_subtasks(needed)} at {settings.target:.0%}"
        if (utilization > settings.upper) is not (needed > now) or needed == now:
            return replace(decision, reason=f"{needs}: {_subtasks(now)} will do.")
        past = view.past.changes.get(name)
        wanted, limit = self._limited(vertex, now, needed, view)
        if wanted > now and past is not None and self._is_ineffective(past, now, true_rate):
            gained = (true_rate * now) / (past.true_rate * past.before) - 1.0
            why = (
                f"the last {_subtasks(past.after - past.before)} made it {gained:+.0%} faster instead of "
                f"{past.after / past.before - 1.0:+.0%}: it gets no more."
            )
            return replace(decision, reason=f"{needs}, but {why}")
        if wanted < now and past is not None and past.after > past.before and past.age_ms < settings.grace_ms:
            left = _seconds(settings.grace_ms - past.age_ms)
            return replace(decision, reason=f"{needs}, but it got more a while ago and keeps them for {left}.")
        return replace(decision, wanted=wanted, reason=f"{needs}{f': {limit}' if limit else ''}.")

    def _is_ineffective(self, past: PastChange, now: int, true_rate: float) -> bool:
        if self._settings.effectiveness is None or past.after <= past.before or past.after != now:
            return False
        before = past.true_rate * past.before
        expected = past.true_rate * past.after - before
        return true_rate * now - before < self._settings.effectiveness * expected

    def _limited(self, vertex: JobVertex, now: int, needed: int, view: _View) -> tuple[int, str]:
        """Return a parallelism between the present and the needed one that is allowed, and what keeps it from that."""
        settings = self._settings
        most, least = (
            math.floor(now * (1.0 + settings.max_increase)),
            math.ceil(now * (1.0 - settings.max_decrease) - EPSILON),
        )
        wanted, limit = needed, ""
        if not least <= needed <= most:
            wanted = min(max(least, needed), most)
            limit = f"{_subtasks(wanted)} at most for now" if needed > most else f"{_subtasks(wanted)} first"
        lower, upper = self._bounds(vertex, view)
        if wanted > upper:
            wanted, limit = upper, f"upper bound {upper} reached"
        elif wanted < lower:
            wanted, limit = lower, f"lower bound {lower} reached"
        return wanted, limit

    def _bounds(self, vertex: JobVertex, view: _View) -> tuple[int, int]:
        given = view.bounds.get(vertex.vertex_id, ANY)
        upper = min(given.upper, vertex.max_parallelism, self._settings.max_parallelism)
        return min(max(given.lower, self._settings.min_parallelism), upper), upper

    # --- vertices that belong together --------------------------------------------------------------------------------

    def _joined(self, vertices: dict[VertexId, VertexDecision], view: _View) -> dict[VertexId, VertexDecision]:
        """Give vertices that forward edges join the parallelism of the one that needs most."""
        for unit in self._tied:
            members = [name for name in unit if name in vertices]
            if len(members) < 2:
                continue
            now = vertices[members[0]].parallelism
            bounds = [self._bounds(self._vertices[name], view) for name in members]
            lower, upper = max(lower for lower, _ in bounds), min(upper for _, upper in bounds)
            is_free = lower <= upper and not (self._settings.excluded | view.ended.keys()) & set(members)
            most = max(vertices[name].wanted for name in members)
            wanted = max(lower, min(upper, most)) if is_free and most != now else now
            for name in members:
                if vertices[name].wanted != wanted:
                    others = ", ".join(self._vertices[other].name for other in members if other != name)
                    why = f" Forward edges join it with {others}: they get {wanted} together."
                    vertices[name] = replace(vertices[name], wanted=wanted, reason=vertices[name].reason + why)
        return vertices

    def _without_crowded_sources(self, vertices: dict[VertexId, VertexDecision]) -> dict[VertexId, VertexDecision]:
        """Leave sources as they are while a busier vertex of their slots gets more: they wait for it, and seem busy."""
        growing = {v: d for v, d in vertices.items() if d.wanted > d.parallelism}
        for name, decision in growing.items():
            group = self._vertices[name].slot_sharing_group
            busier = [
                self._vertices[other].name
                for other, d in growing.items()
                if other != name
                and self._vertices[other].slot_sharing_group == group
                and (d.utilization or 0.0) >= (decision.utilization or 0.0)
            ]
            if busier and not self._in_edges[name]:
                why = f" But {busier[0]}, which shares its slots, is busier and gets more first."
                vertices[name] = replace(decision, wanted=decision.parallelism, reason=decision.reason + why)
        return vertices

    def _without_idle_gains(
        self, vertices: dict[VertexId, VertexDecision], *, is_ending: bool
    ) -> dict[VertexId, VertexDecision]:
        """Leave vertices their subtasks if taking them away frees no slot, or while the input of a vertex is ending."""
        less = {v: d.wanted for v, d in vertices.items()}
        frees = self._slots({v: max(d.wanted, d.parallelism) for v, d in vertices.items()}) > self._slots(less)
        if frees and not is_ending:
            return vertices
        why = "while subtasks finish, none are taken away." if is_ending else "fewer would free no slot."
        return {
            v: replace(d, wanted=d.parallelism, reason=f"{d.reason} But {why}") if d.wanted < d.parallelism else d
            for v, d in vertices.items()
        }


@dataclass(frozen=True, slots=True)
class _View:
    """Inputs that the decisions about all vertices share."""

    settings: AutoscalerSettings
    past: Past
    bounds: Mapping[VertexId, Bounds]
    demands: Demands
    cost_ms: float
    ended: Mapping[VertexId, int]
    """Number of finished subtasks of vertices of which others still run."""


# --- words ------------------------------------------------------------------------------------------------------------


def _seen(rates: VertexRates, busy: float, true_rate: float, load: Load, settings: AutoscalerSettings) -> str:
    uneven = ""
    if rates.busiest > UNEVEN * max(rates.busy, BUSY_FLOOR) and rates.busiest > settings.lower:
        uneven = f" in its busiest subtask ({rates.busy:.0%} on average: uneven keys?)"
    text = (
        f"Busy {busy:.0%}{uneven} at {_count(rates.records_in)} records/s, so a subtask can do {_count(true_rate)}/s."
    )
    demand = f" {_count(load.shared)}/s are demanded"
    if load.held > 0.0:
        demand = (
            f" At least {_count(load.shared)}/s are demanded, as the source is held back {load.held:.0%} of the time"
        )
    if load.broadcast > 0.0:
        demand += f", and {_count(load.broadcast)}/s of each subtask"
    if load.backlog >= 1.0 and settings.catch_up_ms > 0:
        demand += f", and a backlog of {_count(load.backlog)} in {_seconds(settings.catch_up_ms)}"
    lag = rates.watermark_lag_ms
    return text + demand + ("." if lag is None or lag <= 0 else f"; the watermark is {_seconds(lag)} behind.")


def _summary(
    wanted: Mapping[VertexId, int], vertices: Mapping[VertexId, VertexDecision], known: Mapping[VertexId, JobVertex]
) -> str:
    changes = (f"{known[v].name} from {vertices[v].parallelism} to {n}" for v, n in wanted.items())
    return f"rescaling {', '.join(changes)}"


def _subtasks(count: int) -> str:
    return f"{count} subtask" if count == 1 else f"{count} subtasks"


def _seconds(ms: float) -> str:
    """Return a time in the unit that suits it."""
    seconds = ms / 1000.0
    if seconds < 10.0 and abs(seconds - round(seconds)) > 0.05:
        return f"{seconds:.1f} s"
    if seconds < 300.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7_200.0 else f"{seconds / 3_600.0:.0f} h"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.2g}"
