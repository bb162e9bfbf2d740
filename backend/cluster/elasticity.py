"""Elasticity: decides with which parallelisms elastic jobs run, from the slots that there are. Pure.

Observations in, verdicts out, at every poll. The only memory is since when a job could have had more, which the caller
hands back; a leader that does not have it waits a little longer. The rules (ADR 22):

- Nobody gets less than its lower bounds, or more than its target: its upper bounds, or what its autoscaler says.
- A job that has run comes first, then the oldest. Jobs that wait get their lower bounds before any gets more; then
  whoever lacks the largest part of what it wants is served, one step at a time; running jobs come last.
- A running job is never shrunk for another one. It shrinks if its slots go, or if its target does.
- A job that begins, also under a new leader, waits a moment for more slots than its lower bounds need, and a running
  one longer; a restart does not wait.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.requirements import Bounds, Parallelism, Requirements, fitted, least_slots, slots_of

#: more slots than any job can take
ANY = 1 << 30


class Standing(enum.Enum):
    """Where an elastic job is."""

    WAITS = "it has requested slots and does not have them"
    RUNS = "all its tasks run, and nothing is about to change"
    CHANGES = "it restarts, or is about to be redeployed"


@dataclass(frozen=True, slots=True)
class Patience:
    """Times of a job's configuration, ms."""

    submission_ms: float
    """Wait of a new job for more slots."""
    executing_ms: float
    """Wait of a running job for more slots."""
    cooldown_ms: float
    """Minimum time that a job runs before it is rescaled."""

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """Read them.

        Raises:
            ConfigurationError: one of them is malformed.
        """
        return cls(
            configuration.get(options.RESOURCE_STABILIZATION_TIMEOUT).to_millis(),
            configuration.get(options.EXECUTING_STABILIZATION_TIMEOUT).to_millis(),
            configuration.get(options.RESCALE_COOLDOWN).to_millis(),
        )


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A job with room between its bounds, or whose parallelisms are outside of them."""

    job_id: str
    graph: JobGraph
    """With the parallelisms that it runs with, requests slots for, or is about to have."""
    requirements: Requirements
    standing: Standing
    patience: Patience
    since_ms: float = 0.0
    """Time of its submission."""
    has_run: bool = False
    begins: bool = False
    """Whether it begins under this leader, which may not know all TaskManagers yet."""
    held: int = 0
    """Number of its slots on TaskManagers that stay."""
    on_draining: int = 0
    """Number of its slots on TaskManagers that are draining."""
    settled_ms: float = 0.0
    """Since when it has been running without a change; monotonic."""
    target: Parallelism | None = None

    @property
    def order(self) -> tuple[bool, float, str]:
        """Sort key: those that have run first, then by age."""
        return not self.has_run, self.since_ms, self.job_id

    @property
    def parallelism(self) -> Parallelism:
        return {v.vertex_id: v.parallelism for v in self.graph.vertices}

    @property
    def slots(self) -> int:
        """Return how many slots it needs as it is."""
        return slots_of(self.graph, self.parallelism)

    @property
    def wanted(self) -> Parallelism:
        """Return what it would have if the number of slots were unlimited."""
        return self.fitted(ANY) or {}

    @property
    def kept(self) -> Requirements:
        """Return the requirements with what it has as lower bounds, unless it is to have less."""
        has, wanted = self.parallelism, self.wanted
        return {v: Bounds(max(b.lower, min(has[v], wanted[v])), b.upper) for v, b in self.requirements.items()}

    def fitted(self, slots: int, requirements: Requirements | None = None) -> Parallelism | None:
        """Return what it can have with that many slots in all; None: too few."""
        return fitted(self.graph, requirements or self.requirements, slots, self.target)


@dataclass(frozen=True, slots=True)
class RigidWait:
    """A job that can run with one parallelism only, and lacks slots."""

    job_id: str
    slots: int
    """Number of slots that it lacks."""
    since_ms: float
    has_run: bool


@dataclass(frozen=True, slots=True)
class SlotsSeen:
    """The cluster's slots."""

    free: int
    total: int
    """Of TaskManagers that stay."""
    promised: int = 0
    """Number of free slots that jobs without room need to leave TaskManagers that are draining."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision about an elastic job."""

    job_id: str
    parallelism: Parallelism | None
    """With which its next attempt begins; None: there are too few slots for its lower bounds."""
    is_due: bool = False
    """Whether that is to happen now: a running job is rescaled, one that waits requests these slots."""
    at_once: bool = False
    """Whether a rescaling waits for no cooldown: the job's slots are about to go."""
    claim: int = 0
    """Number of slots, in all, that no other job may take."""
    why: str = ""
    """Why it runs, or is about to run, with less than it wants; empty: it does not."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The verdicts, and the memory for the next decision."""

    verdicts: Sequence[Verdict]
    since_ms: Mapping[str, float]
    """Job → since when it could have had more, or have begun with less; monotonic."""


@dataclass(slots=True)
class _Share:
    """Slots given to a job."""

    job: ElasticJob
    requirements: Requirements
    slots: int
    parallelism: Parallelism
    most: int
    """Number of slots for all that it wants."""

    @property
    def fraction(self) -> float:
        return self.slots / max(1, self.most)


@dataclass(slots=True)
class _Budget:
    """Free slots that are not given yet."""

    free: int
    shares: dict[str, _Share] = field(default_factory=dict)

    def give_least(self, job: ElasticJob, requirements: Requirements) -> bool:
        """Give a job the least that it needs, or what it holds; return False if there are too few slots."""
        slots = max(job.held, least_slots(job.graph, requirements))
        parallelism = job.fitted(slots, requirements)
        if parallelism is None or slots - job.held > self.free:
            return False
        self.free -= slots - job.held
        self.shares[job.job_id] = _Share(job, requirements, slots, parallelism, slots_of(job.graph, job.wanted))
        return True

    def give_more(self, jobs: Iterable[ElasticJob], reserved: Mapping[str, int] | None = None) -> None:
        """Give the jobs more, one step at a time, to whoever lacks the largest part.

        Args:
            jobs: those with a share.
            reserved: job → number of free slots that others have before it.
        """
        shares = [self.shares[job.job_id] for job in jobs if job.job_id in self.shares]
        while shares and self.free > 0:
            share = min(shares, key=lambda share: (share.fraction, share.job.order))
            if not self._give_step(share, self.free - (reserved or {}).get(share.job.job_id, 0)):
                shares.remove(share)

    def _give_step(self, share: _Share, most: int) -> bool:
        """Give a job the fewest slots that change anything for it."""
        for step in range(1, most + 1):
            parallelism = share.job.fitted(share.slots + step, share.requirements)
            if parallelism is not None and parallelism != share.parallelism:
                share.slots, share.parallelism = share.slots + step, parallelism
                self.free -= step
                return True
        return False


def decide(
    jobs: Sequence[ElasticJob],
    waiting: Sequence[RigidWait],
    slots: SlotsSeen,
    now_ms: float,
    since_ms: Mapping[str, float],
) -> Decided:
    """Decide about all elastic jobs.

    Args:
        jobs: the elastic jobs.
        waiting: the other jobs that lack slots.
        slots: of the cluster.
        now_ms: monotonic.
        since_ms: of the last decision.
    """
    shares = _share_out(jobs, waiting, slots)
    verdicts, memory = [], {}
    for job in sorted(jobs, key=lambda job: job.order):
        share = shares.get(job.job_id)
        if share is None:
            verdicts.append(_too_few(job))
            continue
        since = since_ms.get(job.job_id, now_ms)
        if share.parallelism != job.parallelism or job.standing is Standing.WAITS:
            memory[job.job_id] = since
        verdicts.append(_verdict(job, share.parallelism, now_ms, since))
    return Decided(verdicts, memory)


def _share_out(jobs: Sequence[ElasticJob], waiting: Sequence[RigidWait], slots: SlotsSeen) -> Mapping[str, _Share]:
    def those(standing: Standing) -> list[ElasticJob]:
        return sorted((job for job in jobs if job.standing is standing), key=lambda job: job.order)

    budget = _Budget(max(0, slots.free - slots.promised))
    staying = [job for job in those(Standing.RUNS) if not job.on_draining]
    leaving = [job for job in those(Standing.RUNS) if job.on_draining]
    changing, new = those(Standing.CHANGES), [job for job in those(Standing.WAITS) if not job.has_run]
    back = [job for job in those(Standing.WAITS) if job.has_run]
    for job in (*staying, *changing):
        _ = budget.give_least(job, job.kept) or budget.give_least(job, job.requirements)
    budget.free = max(0, budget.free - sum(wait.slots for wait in waiting if wait.has_run))
    for job in (*back, *leaving, *new):
        budget.give_least(job, job.requirements)
    budget.give_more((*back, *leaving, *changing, *new))
    # a job that can never get its slots here holds nobody up
    others = [wait for wait in waiting if not wait.has_run]
    others += [
        RigidWait(job.job_id, _lacking(job), job.since_ms, False) for job in new if job.job_id not in budget.shares
    ]
    ahead = {
        job.job_id: sum(o.slots for o in others if o.slots <= slots.total and (o.since_ms, o.job_id) < job.order[1:])
        for job in staying
    }
    budget.give_more(staying, ahead)
    return budget.shares


def _verdict(job: ElasticJob, parallelism: Parallelism, now_ms: float, since_ms: float) -> Verdict:
    wanted, patience = job.wanted, job.patience
    needed, most = slots_of(job.graph, parallelism), slots_of(job.graph, wanted)
    is_all, is_same = parallelism == wanted, parallelism == job.parallelism
    less = "" if is_all else f"{needed} of {most} wanted slots"
    match job.standing:
        case Standing.CHANGES:
            return Verdict(job.job_id, parallelism, claim=needed, why=less and f"{less}; waits for slots")
        case Standing.WAITS:
            is_due = is_all or not job.begins or (job.has_run and is_same)
            is_due = is_due or now_ms - since_ms >= patience.submission_ms
            why = less and f"{less}; begins with them unless more come within {_seconds(patience.submission_ms)}"
            return Verdict(job.job_id, parallelism, is_due, claim=needed, why=why)
        case Standing.RUNS if job.on_draining:
            why = f"{job.slots} of {most} wanted slots; a TaskManager with {job.on_draining} of them is draining"
            return Verdict(job.job_id, parallelism, not is_same, at_once=True, claim=needed, why=why)
    if is_same:
        return Verdict(job.job_id, parallelism, claim=job.slots, why=less and f"{less}; waits for slots")
    is_less = all(n <= job.parallelism[v] for v, n in parallelism.items())
    change = f"{job.slots} of {most} wanted slots; goes on with {needed}"
    if now_ms - job.settled_ms < patience.cooldown_ms:
        why = f"{change} once it has run for {_seconds(patience.cooldown_ms)}"
    elif not (is_all or is_less) and now_ms - since_ms < patience.executing_ms:
        why = f"{change} unless more come within {_seconds(patience.executing_ms)}"
    else:
        return Verdict(job.job_id, parallelism, is_due=True, claim=needed, why=f"{change} from a checkpoint")
    return Verdict(job.job_id, parallelism, claim=job.slots, why=why)


def _too_few(job: ElasticJob) -> Verdict:
    least = least_slots(job.graph, job.requirements)
    # a job that has run keeps its place
    claim = least if job.has_run else 0
    return Verdict(job.job_id, None, claim=claim, why=f"its lower bounds need {least} slots, and there are too few")


def _lacking(job: ElasticJob) -> int:
    return max(0, least_slots(job.graph, job.requirements) - job.held)


def _seconds(ms: float) -> str:
    return f"{ms / 1000:g} s"
