"""Plant: a simulated job with known capacities, for the autoscaler to be tried on. Records are a fluid; time is steps.

Each subtask has a queue of limited size; one that cannot hand on its output is back-pressured, as tasks are. A source
either knows what is pending, without a limit, or keeps to a rate and catches up one second of it at most.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.common.typeinfo import Types
from runtime.core.ids import JobId, VertexId
from runtime.graph.job_graph import JobEdge, JobGraph, JobVertex
from runtime.graph.partitioning import Partitioning
from runtime.jobmaster.autoscaler import Autoscaler, JobDecision, Past, PastChange
from runtime.jobmaster.requirements import Requirements
from runtime.jobmaster.scaling_window import JobSample, SubtaskSample

STEP_S = 0.25
QUEUE_S = 1.0
"""A queue holds what its subtask can do in this time."""


@dataclass(frozen=True)
class Stage:
    """A vertex; the first one of a plant is its source."""

    capacity: float
    """Records per second and subtask."""
    ratio: float = 1.0
    """Records out per record in."""
    hot: float = 0.0
    """Share of the records that one subtask gets whatever the parallelism: those of one key."""
    shared_capacity: float | None = None
    """Records per second of all subtasks together: something outside limits them."""
    max_parallelism: int = 128


def vertex_id(index: int) -> VertexId:
    return VertexId(f"v{index}")


def chain_graph(stages: Sequence[Stage], edges: Sequence[Partitioning] = ()) -> JobGraph:
    """Vertices one after the other; edges are REBALANCE unless given."""
    vertices = [
        JobVertex(vertex_id(i), f"stage {i}", 1, stage.max_parallelism, "default", (), ())
        for i, stage in enumerate(stages)
    ]
    hows = [*edges, *[Partitioning.REBALANCE] * len(stages)]
    joined = [
        JobEdge(i, vertex_id(i), 0, vertex_id(i + 1), 0, hows[i], None, None, Types.LONG(), 100)
        for i in range(len(stages) - 1)
    ]
    return JobGraph(JobId("0" * 32), "plant", vertices, joined, {})


@dataclass
class _Subtask:
    queue: float = 0.0
    records_in: float = 0.0
    records_out: float = 0.0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    back_pressured_ms: float = 0.0


@dataclass
class Rescaling:
    """A decision that was acted on."""

    at_s: float
    parallelism: Mapping[VertexId, int]
    reason: str


@dataclass
class Plant:
    """A job with an autoscaler.

    Args:
        stages: its vertices.
        demand: records per second that arrive at the source, by the time in seconds.
        parallelism: of each vertex at the start.
        knows_pending: whether the source knows what is pending.
        cost_s: time that a rescaling takes.
        noise: share by which capacities vary from step to step.
    """

    stages: Sequence[Stage]
    demand: Callable[[float], float]
    parallelism: list[int]
    knows_pending: bool = True
    cost_s: float = 2.0
    noise: float = 0.0
    seed: int = 0
    now_s: float = 1_000.0
    rescalings: list[Rescaling] = field(default_factory=list)
    decisions: list[JobDecision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._began_s = self.now_s
        self._attempt = 0
        self._down_until_s = 0.0
        self._last_rescale_s: float | None = None
        self._changes: dict[VertexId, tuple[float, PastChange]] = {}
        self._subtasks = [[_Subtask() for _ in range(n)] for n in self.parallelism]

    @property
    def backlog(self) -> float:
        """Records that wait before the source."""
        return sum(subtask.queue for subtask in self._subtasks[0])

    @property
    def is_running(self) -> bool:
        return self.now_s >= self._down_until_s

    def read(self) -> float:
        """Records that the source has read since the last rescaling."""
        return sum(subtask.records_in for subtask in self._subtasks[0])

    # --- the job ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let a step of time pass."""
        self._arrive()
        if self.is_running:
            # from the last one: what it takes makes room for the others
            for index in reversed(range(len(self.stages))):
                for subtask in self._subtasks[index]:
                    self._work(index, subtask)
        self.now_s += STEP_S

    def _arrive(self) -> None:
        source = self._subtasks[0]
        rate = self.demand(self.now_s - self._began_s)
        for subtask in source:
            subtask.queue += rate * STEP_S / len(source)
            if not self.knows_pending:
                subtask.queue = min(subtask.queue, rate / len(source))

    def _work(self, index: int, subtask: _Subtask) -> None:
        stage, siblings = self.stages[index], self._subtasks[index]
        capacity = stage.capacity
        if stage.shared_capacity is not None:
            capacity = min(capacity, stage.shared_capacity / len(siblings))
        capacity *= 1.0 + self._random.uniform(-self.noise, self.noise)
        able = min(subtask.queue, capacity * STEP_S)
        done = able
        if index + 1 < len(self.stages):
            shares, consumers = self._shares(index + 1), self._subtasks[index + 1]
            limit = self.stages[index + 1].capacity * QUEUE_S
            rooms = [
                max(0.0, limit - c.queue) / (share * stage.ratio) for c, share in zip(consumers, shares, strict=True)
            ]
            done = min(able, *rooms)
            for consumer, share in zip(consumers, shares, strict=True):
                consumer.queue += done * stage.ratio * share
        subtask.queue -= done
        subtask.records_in += done
        subtask.records_out += done * stage.ratio
        busy_ms = done / capacity * 1000.0
        subtask.busy_ms += busy_ms
        rest_ms = max(0.0, STEP_S * 1000.0 - busy_ms)
        if done < able * 0.999:
            subtask.back_pressured_ms += rest_ms
        else:
            subtask.idle_ms += rest_ms

    def _shares(self, index: int) -> list[float]:
        hot, count = self.stages[index].hot, len(self._subtasks[index])
        return [(1.0 - hot) / count + (hot if i == 0 else 0.0) for i in range(count)]

    def rescale(self, parallelism: Mapping[VertexId, int]) -> None:
        """Stop, and go on with other parallelisms after the time that it costs."""
        for index, old in enumerate(self._subtasks):
            count = parallelism.get(vertex_id(index), len(old))
            queued = sum(subtask.queue for subtask in old)
            self._subtasks[index] = [_Subtask(queue=queued / count) for _ in range(count)]
        self.parallelism = [len(subtasks) for subtasks in self._subtasks]
        self._attempt += 1
        self._down_until_s = self.now_s + self.cost_s
        self._last_rescale_s = self._down_until_s

    # --- the autoscaler -----------------------------------------------------------------------------------------------

    def sample(self) -> JobSample:
        """What the job's tasks report."""
        if not self.is_running:
            return JobSample(self.now_s * 1000.0, self._attempt, not_running="the job is RESTARTING")
        return JobSample(
            self.now_s * 1000.0,
            self._attempt,
            vertices={
                vertex_id(index): [
                    SubtaskSample(
                        int(s.records_in),
                        int(s.records_out),
                        s.busy_ms,
                        s.idle_ms,
                        s.back_pressured_ms,
                        int(s.queue) if index == 0 and self.knows_pending else None,
                    )
                    for s in subtasks
                ]
                for index, subtasks in enumerate(self._subtasks)
            },
        )

    def past(self) -> Past:
        """What is known of earlier rescalings."""
        age_ms = None if self._last_rescale_s is None else max(0.0, self.now_s - self._last_rescale_s) * 1000.0
        changes = {
            v: PastChange(c.before, c.after, c.true_rate, (self.now_s - at_s) * 1000.0)
            for v, (at_s, c) in self._changes.items()
        }
        return Past(age_ms, self.cost_s * 1000.0 if self._last_rescale_s is not None else None, changes)

    def run(self, autoscaler: Autoscaler, seconds: float, bounds: Requirements | None = None) -> None:
        """Run for some time; the autoscaler is asked every second, and what it wants is done at once."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            for _ in range(round(1.0 / STEP_S)):
                self.step()
            decision = autoscaler.decide(self.sample(), self.past(), bounds)
            self.decisions.append(decision)
            if not decision.parallelism:
                continue
            self.rescalings.append(Rescaling(self.now_s, dict(decision.parallelism), decision.reason))
            for v, wanted in decision.parallelism.items():
                made = decision.vertices[v]
                self._changes[v] = (self.now_s, PastChange(made.parallelism, wanted, made.true_rate or 0.0, 0.0))
            self.rescale(decision.parallelism)
