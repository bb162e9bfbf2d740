"""JobAutoscaling: the autoscaler of one job in the leading jobmanager: its samples, its decision, what it has decided.

Used by the jobmanager's loop. The decisions are `runtime.jobmaster.autoscaler`'s; `LedAutoscaling` has them recorded
and acted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from backend.cluster.scaling_history import PastScaling
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.autoscaler import Autoscaler, JobDecision, Past, PastChange
from runtime.jobmaster.autoscaler_options import AutoscalerSettings
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.requirements import Bounds, Parallelism, Requirements
from runtime.jobmaster.scaling_window import JobSample, SubtaskSample
from runtime.jobmaster.status import JobStatusSnapshot, TaskSnapshot
from runtime.task.messages import TaskState

Document = dict[str, Any]

OFF = JobDecision("the autoscaler is off")
_PENDING = ".pendingRecords"


class JobAutoscaling:
    """The autoscaler of one job.

    Args:
        graph: the job, with the parallelisms that it begins with here.
        clock: for samples and ages.
        switch: whether a user has switched it on or off; None: its configuration says it.
    """

    def __init__(self, graph: JobGraph, clock: Clock, switch: bool | None = None) -> None:
        self._graph = graph
        self._clock = clock
        #: why it cannot work; empty: it can
        self._trouble = ""
        try:
            self._settings = AutoscalerSettings.of(Configuration.from_dict(dict(graph.configuration)))
        except ConfigurationError as error:
            self._settings = AutoscalerSettings()
            self._trouble = str(error)
        self._autoscaler = Autoscaler(graph, self._settings)
        self._is_on = False
        self.decision = OFF
        #: decisions that were recorded and when, monotonic ms, newest first; None: they have not been read
        self._past: list[tuple[float, PastScaling]] | None = None
        #: the parallelisms that the job should have, of all vertices
        self._target: Parallelism = {v.vertex_id: v.parallelism for v in graph.vertices}
        #: attempts of the tasks when they all ran last
        self._generation: Hashable = None
        self.switch(switch)

    # --- the switch ---------------------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Return whether it watches the job."""
        return self._is_on

    def switch(self, switch: bool | None) -> None:
        """Switch it on or off; None: as the job's configuration says."""
        is_on = self._settings.is_enabled if switch is None else switch
        if is_on is not self._is_on:
            self._is_on = is_on
            self._autoscaler.forget()
            self._generation = None
            self.decision = JobDecision(self._trouble) if is_on else OFF

    @property
    def room(self) -> Requirements | None:
        """Return the bounds for a job that has none of its own; None while it is off."""
        if not self._is_on or self._trouble:
            return None
        least, most = self._settings.min_parallelism, self._settings.max_parallelism
        return {
            v.vertex_id: Bounds(min(least, v.max_parallelism), min(most, v.max_parallelism))
            for v in self._graph.vertices
        }

    @property
    def target(self) -> Parallelism | None:
        """Return the parallelisms that the job should have; None while it is off."""
        return self._target if self._is_on and not self._trouble else None

    # --- what was decided ---------------------------------------------------------------------------------------------

    @property
    def knows_past(self) -> bool:
        """Return whether the recorded decisions have been read."""
        return self._past is not None

    def recall(self, past: Sequence[PastScaling]) -> None:
        """Take in the recorded decisions, newest first; the newest is the target if it has not been acted on."""
        now_ms = self._clock.monotonic_ms()
        self._past = [(now_ms - scaling.age_ms, scaling) for scaling in past]
        for scaling in past[:1]:
            is_untouched = all(self._target.get(VertexId(v)) == c["before"] for v, c in scaling.changes.items())
            if scaling.cost_ms is None and scaling.age_ms < self._settings.cooldown_ms and is_untouched:
                self._target = {**self._target, **_after(scaling)}

    def forget(self) -> None:
        """Forget what was recorded, because it is not known whether the last decision was."""
        self._past = None

    def noted(self, scaling_id: int) -> None:
        """Act on the decision, which has been recorded: its parallelisms are the target."""
        scaling = PastScaling(scaling_id, 0.0, changes_of(self.decision, self._graph), None)
        self._past = [(self._clock.monotonic_ms(), scaling), *(self._past or [])]
        self._target = {**self._target, **self.decision.parallelism}

    def come_about(self, snapshot: JobStatusSnapshot) -> PastScaling | None:
        """Return the newest decision with what it has cost, if the job runs as it says and that is not recorded yet."""
        if not self._past or not self._runs(snapshot) or snapshot.last_rescale_ms is None:
            return None
        at_ms, scaling = self._past[0]
        is_so = all(snapshot.parallelism.get(v) == n for v, n in _after(scaling).items())
        if scaling.cost_ms is not None or not is_so or snapshot.last_rescale_ms < at_ms:
            return None
        return replace(scaling, cost_ms=snapshot.rescale_costs_ms[-1])

    def note_cost(self, done: PastScaling) -> None:
        """Take in what `come_about` has returned, now that it is recorded."""
        self._past = [(at_ms, done if s.scaling_id == done.scaling_id else s) for at_ms, s in self._past or []]

    # --- what is decided ----------------------------------------------------------------------------------------------

    def decide(
        self, snapshot: JobStatusSnapshot, bounds: Requirements, lack: str = "", live: Collection[VertexId] = ()
    ) -> JobDecision:
        """Look at the job, and return what it should have; also in `decision`.

        Args:
            snapshot: its status.
            bounds: of its vertices.
            lack: why it has less than the target; empty: it does not.
            live: vertices that get records of live sources only; of old data a watermark is behind the clock by its
                age.
        """
        if self._trouble:
            self.decision = JobDecision(self._trouble)
            return self.decision
        now_ms = self._clock.monotonic_ms()
        generation = _generation(snapshot)
        if self._runs(snapshot) and generation != self._generation:
            self._generation = generation
            if not lack and not self._is_pending(snapshot):
                # somebody else has rescaled it
                self._target = dict(snapshot.parallelism)
        sample = sample_of(snapshot, now_ms, self._clock.now_ms(), live, self._graph)
        decision = self._autoscaler.decide(sample, self._lessons(snapshot, now_ms), bounds)
        wanted = {v: d.wanted for v, d in decision.vertices.items()}
        if decision.parallelism and all(self._target.get(v) == n for v, n in decision.parallelism.items()):
            reason = f"asked for, {lack}" if lack else f"{decision.reason}: asked for"
            decision = replace(decision, reason=reason, parallelism={})
        elif wanted and all(d.wanted == d.parallelism for d in decision.vertices.values()):
            self._target = {**snapshot.parallelism, **wanted}
        self.decision = decision
        return decision

    def _is_pending(self, snapshot: JobStatusSnapshot) -> bool:
        """Return whether the newest decision is still to be acted on."""
        if not self._past:
            return False
        at_ms, scaling = self._past[0]
        after = _after(scaling)
        is_target = all(self._target.get(v) == n for v, n in after.items())
        is_fresh = self._clock.monotonic_ms() - at_ms < self._settings.cooldown_ms
        return is_target and is_fresh and any(snapshot.parallelism.get(v) != n for v, n in after.items())

    def _runs(self, snapshot: JobStatusSnapshot) -> bool:
        return snapshot.state is JobState.RUNNING and all(
            task.state in (TaskState.RUNNING, TaskState.FINISHED) for task in snapshot.tasks
        )

    def _lessons(self, snapshot: JobStatusSnapshot, now_ms: float) -> Past:
        past = self._past or []
        times = [at_ms for at_ms, _ in past[:1]]
        if snapshot.last_rescale_ms is not None:
            times.append(snapshot.last_rescale_ms)
        # under earlier leaders, if there was none under this one
        costs = snapshot.rescale_costs_ms or [s.cost_ms for _, s in past[:3] if s.cost_ms is not None]
        changes: dict[VertexId, PastChange] = {}
        for at_ms, scaling in past:
            for name, change in scaling.changes.items():
                made = PastChange(change["before"], change["after"], change["true_rate"] or 0.0, now_ms - at_ms)
                changes.setdefault(VertexId(name), made)
        return Past(now_ms - max(times) if times else None, max(costs, default=None), changes)

    def document(self) -> Document:
        """Return its part of the live document."""
        if not self._is_on:
            return {"enabled": False}
        return {
            "enabled": True,
            "reason": self.decision.reason,
            "vertices": {v: {"wanted": d.wanted, "reason": d.reason} for v, d in self.decision.vertices.items()},
            "last_decision": self._past[0][1].scaling_id if self._past else None,
        }


def _after(scaling: PastScaling) -> Parallelism:
    return {VertexId(vertex): int(change["after"]) for vertex, change in scaling.changes.items()}


def _generation(snapshot: JobStatusSnapshot) -> Hashable:
    return tuple(task.attempt for task in snapshot.tasks)


def changes_of(decision: JobDecision, graph: JobGraph) -> dict[str, Document]:
    """Return the changes of a decision as its row keeps them."""
    return {
        vertex: {
            "name": graph.vertex(vertex).name,
            "before": decision.vertices[vertex].parallelism,
            "after": wanted,
            "reason": decision.vertices[vertex].reason,
            "true_rate": decision.vertices[vertex].true_rate,
        }
        for vertex, wanted in decision.parallelism.items()
    }


def sample_of(
    snapshot: JobStatusSnapshot, now_ms: float, now: int, live: Collection[VertexId], graph: JobGraph
) -> JobSample:
    """Return a sample of a job.

    Args:
        snapshot: its status.
        now_ms: monotonic.
        now: epoch ms.
        live: vertices whose watermark is compared with it.
        graph: the job.
    """
    generation = _generation(snapshot)
    if snapshot.state is not JobState.RUNNING:
        return JobSample(now_ms, generation, f"the job is {snapshot.state.value}")
    tasks: dict[VertexId, list[TaskSnapshot]] = {}
    for task in sorted(snapshot.tasks, key=lambda task: task.task.subtask_index):
        tasks.setdefault(task.task.vertex_id, []).append(task)
    states = Counter(task.state for task in snapshot.tasks if task.state not in (TaskState.RUNNING, TaskState.FINISHED))
    if states:
        told = ", ".join(f"{count} {state.value}" for state, count in states.items())
        return JobSample(now_ms, generation, f"not all of its {len(snapshot.tasks)} tasks run: {told}")
    # sources with fewer splits than subtasks, and inputs that end, leave some subtasks without work
    working = {v: [task for task in of if task.state is TaskState.RUNNING] for v, of in tasks.items()}
    working = {v: of for v, of in working.items() if of}
    if any("accumulateBusyTimeMs" not in task.metrics for of in working.values() for task in of):
        return JobSample(now_ms, generation, "its tasks have not reported yet")
    return JobSample(
        now_ms,
        generation,
        vertices={v: [_subtask(task.metrics) for task in of] for v, of in working.items()},
        finished=tasks.keys() - working.keys(),
        finished_subtasks={v: len(tasks[v]) - len(of) for v, of in working.items()},
        watermark_lag_ms=_watermark_lags({v: of for v, of in working.items() if v in live}, now, graph),
    )


def _subtask(metrics: Mapping[str, object]) -> SubtaskSample:
    pending = [_number(value) for name, value in metrics.items() if name.endswith(_PENDING) and value is not None]
    return SubtaskSample(
        int(_number(metrics.get("numRecordsIn"))),
        int(_number(metrics.get("numRecordsOut"))),
        _number(metrics.get("accumulateBusyTimeMs")),
        _number(metrics.get("accumulateIdleTimeMs")),
        _number(metrics.get("accumulateBackPressuredTimeMs")),
        int(sum(pending)) if pending else None,
    )


def _watermark_lags(
    working: Mapping[VertexId, Sequence[TaskSnapshot]], now: int, graph: JobGraph
) -> dict[VertexId, int]:
    lags: dict[VertexId, int] = {}
    for vertex, tasks in working.items():
        name = "currentInputWatermark" if graph.in_edges(vertex) else "currentOutputWatermark"
        lowest = min((w for task in tasks if isinstance(w := task.metrics.get(name), int)), default=MIN_WATERMARK)
        if MIN_WATERMARK < lowest < MAX_WATERMARK:
            lags[vertex] = now - lowest
    return lags


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
