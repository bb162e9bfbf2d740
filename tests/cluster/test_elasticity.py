"""The scheduler of elastic jobs, as tables and as a property: who gets which slots, and when. No SQL, no JobMaster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.cluster.elasticity import (
    Decided,
    ElasticJob,
    Patience,
    RigidWait,
    SlotsSeen,
    Standing,
    Verdict,
    decide,
)
from runtime.core.ids import JobId, VertexId
from runtime.graph.job_graph import JobGraph, JobVertex
from runtime.jobmaster.requirements import Bounds, least_slots
from runtime.jobmaster.rescaling import rescaled

V, W = VertexId("v"), VertexId("w")
WAITS, RUNS, CHANGES = Standing.WAITS, Standing.RUNS, Standing.CHANGES
PATIENCE = Patience(submission_ms=10_000, executing_ms=60_000, cooldown_ms=30_000)
#: long after everything
LATER = 1_000_000.0


def graph(parallelism: int) -> JobGraph:
    return JobGraph(JobId("0" * 32), "job", [JobVertex(V, "v", parallelism, 128, "default", (), ())], [], {})


def job(name: str, has: int, lower: int, upper: int, standing: Standing = RUNS, **more: Any) -> ElasticJob:
    """A job of one vertex; one that runs or changes has its slots unless told otherwise."""
    held = 0 if standing is WAITS else has
    given = {"held": held, "has_run": standing is not WAITS, "begins": not more.get("has_run", False)} | more
    return ElasticJob(name, graph(has), {V: Bounds(lower, upper)}, standing, PATIENCE, **given)


def decided(
    jobs: list[ElasticJob],
    free: int,
    waiting: list[RigidWait] | None = None,
    now_ms: float = LATER,
    since_ms: dict[str, float] | None = None,
    total: int = 100,
    promised: int = 0,
) -> dict[str, Verdict]:
    """Verdicts by job; all have been waiting for ever unless told otherwise."""
    since = dict.fromkeys((job.job_id for job in jobs), 0.0) if since_ms is None else since_ms
    found = decide(jobs, waiting or [], SlotsSeen(free, total, promised), now_ms, since)
    return {verdict.job_id: verdict for verdict in found.verdicts}


def sizes(verdicts: dict[str, Verdict]) -> dict[str, int | None]:
    return {name: None if v.parallelism is None else v.parallelism[V] for name, v in verdicts.items()}


# --- a job that waits -------------------------------------------------------------------------------------------------


def test_a_new_job_begins_at_once_if_it_gets_all_that_it_wants() -> None:
    verdict = decided([job("a", 4, 1, 4, WAITS)], 4, since_ms={})["a"]
    assert (verdict.parallelism, verdict.is_due, verdict.claim, verdict.why) == ({V: 4}, True, 4, "")


def test_a_new_job_waits_a_moment_for_more_than_it_needs() -> None:
    new = job("a", 4, 1, 4, WAITS)
    first = decide([new], [], SlotsSeen(2, 2), 500.0, {})
    assert first.since_ms == {"a": 500.0}
    assert (first.verdicts[0].is_due, first.verdicts[0].claim) == (False, 2)
    assert first.verdicts[0].why == "2 of 4 wanted slots; begins with them unless more come within 10 s"
    assert not decide([new], [], SlotsSeen(2, 2), 10_499.0, first.since_ms).verdicts[0].is_due
    due = decide([new], [], SlotsSeen(3, 3), 10_500.0, first.since_ms).verdicts[0]
    assert (due.is_due, due.parallelism) == (True, {V: 3})


def test_the_wait_begins_anew_if_there_are_too_few_again() -> None:
    new = job("a", 4, 2, 4, WAITS)
    gone = decide([new], [], SlotsSeen(1, 1), 5_000.0, {"a": 0.0})
    assert (gone.since_ms, gone.verdicts[0].parallelism) == ({}, None)
    assert gone.verdicts[0].why == "its lower bounds need 2 slots, and there are too few"


def test_a_restart_takes_what_there_is_at_once_and_keeps_its_place_if_that_is_too_little() -> None:
    back = job("a", 4, 2, 4, WAITS, has_run=True)
    verdict = decided([back], 3, since_ms={})["a"]
    assert (verdict.parallelism, verdict.is_due, verdict.claim) == ({V: 3}, True, 3)
    none = decided([back], 1, since_ms={})["a"]
    assert (none.parallelism, none.claim) == (None, 2)


def test_under_a_new_leader_it_waits_a_moment_for_what_it_had() -> None:
    back = job("a", 4, 1, 6, WAITS, has_run=True, begins=True)
    assert not decided([back], 3, since_ms={})["a"].is_due
    assert decided([back], 4, since_ms={})["a"].is_due
    assert decided([back], 3, now_ms=LATER, since_ms={"a": LATER - 10_000})["a"].is_due


def test_slots_that_its_last_attempt_has_not_left_yet_count() -> None:
    back = job("a", 4, 1, 4, WAITS, has_run=True, held=2)
    assert sizes(decided([back], 1)) == {"a": 3}


def test_every_job_that_waits_gets_its_least_before_any_gets_more() -> None:
    old, young = job("a", 4, 1, 4, WAITS, since_ms=1.0), job("b", 4, 2, 4, WAITS, since_ms=2.0)
    assert sizes(decided([young, old], 4)) == {"a": 2, "b": 2}
    assert sizes(decided([young, old], 3)) == {"a": 1, "b": 2}
    # the older one first, and those that have run before all others
    assert sizes(decided([young, old], 2)) == {"a": 2, "b": None}
    assert sizes(decided([replace(young, has_run=True), old], 2)) == {"a": None, "b": 2}


# --- a job that runs --------------------------------------------------------------------------------------------------


def test_a_running_job_grows_at_once_if_it_gets_all_that_it_wants() -> None:
    verdict = decided([job("a", 2, 1, 4)], 2, since_ms={})["a"]
    assert (verdict.parallelism, verdict.is_due, verdict.at_once, verdict.claim) == ({V: 4}, True, False, 4)


def test_it_waits_for_more_if_it_gets_only_some() -> None:
    running = job("a", 2, 1, 4)
    verdict = decided([running], 1, now_ms=LATER, since_ms={"a": LATER - 59_999})["a"]
    assert (verdict.parallelism, verdict.is_due, verdict.claim) == ({V: 3}, False, 2)
    assert verdict.why == "2 of 4 wanted slots; goes on with 3 unless more come within 60 s"
    assert decided([running], 1, now_ms=LATER, since_ms={"a": LATER - 60_000})["a"].is_due


def test_it_is_not_rescaled_before_it_has_run_for_its_cooldown() -> None:
    verdict = decided([job("a", 2, 1, 4, settled_ms=LATER - 29_999)], 2)["a"]
    assert (verdict.is_due, verdict.claim) == (False, 2)
    assert verdict.why == "2 of 4 wanted slots; goes on with 4 once it has run for 30 s"
    assert decided([job("a", 2, 1, 4, settled_ms=LATER - 30_000)], 2)["a"].is_due


def test_without_slots_it_says_so() -> None:
    verdict = decided([job("a", 2, 1, 4)], 0)["a"]
    assert (verdict.is_due, verdict.why) == (False, "2 of 4 wanted slots; waits for slots")
    assert decided([job("a", 4, 1, 4)], 3)["a"].why == ""


def test_what_its_next_restart_would_take_is_always_known() -> None:
    assert sizes(decided([job("a", 2, 1, 4, settled_ms=LATER)], 1, since_ms={})) == {"a": 3}
    # half of its slots are gone, and it is on its way down
    assert sizes(decided([job("a", 4, 1, 4, CHANGES, held=2)], 0)) == {"a": 2}


def test_a_target_takes_the_place_of_the_upper_bound_in_both_directions() -> None:
    assert sizes(decided([job("a", 2, 1, 8, target={V: 3})], 9)) == {"a": 3}
    less = decided([job("a", 6, 2, 8, target={V: 1})], 0, since_ms={})["a"]
    # nothing is to be waited for
    assert (less.parallelism, less.is_due, less.claim) == ({V: 2}, True, 2)
    assert not decided([job("a", 6, 2, 8, target={V: 1}, settled_ms=LATER - 1)], 0)["a"].is_due


def test_a_job_on_a_draining_taskmanager_shrinks_at_once_to_what_is_left() -> None:
    leaving = job("a", 4, 1, 4, held=2, on_draining=2, settled_ms=LATER)
    verdict = decided([leaving], 0, since_ms={})["a"]
    assert (verdict.parallelism, verdict.is_due, verdict.at_once) == ({V: 2}, True, True)
    assert verdict.why == "4 of 4 wanted slots; a TaskManager with 2 of them is draining"
    # with slots elsewhere it is moved as it is
    assert not decided([leaving], 2)["a"].is_due
    # it has to leave in the end, and stays as long as it may
    assert decided([replace(leaving, requirements={V: Bounds(3, 4)})], 0)["a"].parallelism is None


# --- several jobs -----------------------------------------------------------------------------------------------------


def test_jobs_that_run_share_what_is_free_and_take_nothing_from_each_other() -> None:
    a, b = job("a", 3, 1, 4, since_ms=1.0), job("b", 1, 1, 4, since_ms=2.0)
    assert sizes(decided([a, b], 0)) == {"a": 3, "b": 1}
    assert sizes(decided([a, b], 1)) == {"a": 3, "b": 2}
    assert sizes(decided([a, b], 3)) == {"a": 4, "b": 3}
    assert not any(v.is_due for v in decided([a, b], 0).values())


def test_jobs_that_wait_come_before_jobs_that_grow() -> None:
    a, b = job("a", 2, 1, 4, since_ms=1.0), job("b", 4, 1, 4, WAITS, since_ms=2.0)
    assert sizes(decided([a, b], 3)) == {"a": 2, "b": 3}


@pytest.mark.parametrize(
    ("wait", "size"),
    [
        pytest.param(RigidWait("b", 2, 5.0, True), 2, id="one that has run has its place"),
        pytest.param(RigidWait("b", 3, 5.0, False), 2, id="an older one comes first"),
        pytest.param(RigidWait("b", 3, 15.0, False), 4, id="a younger one that does not fit does not"),
        pytest.param(RigidWait("b", 9, 5.0, False), 4, id="nor does one that never will"),
    ],
)
def test_a_rigid_job_that_waits(wait: RigidWait, size: int) -> None:
    assert sizes(decided([job("a", 2, 1, 4, since_ms=10.0)], 2, [wait], total=8)) == {"a": size}


def test_what_jobs_need_to_leave_a_taskmanager_is_not_given_to_others() -> None:
    assert sizes(decided([job("a", 2, 1, 4)], 2, promised=1)) == {"a": 3}


def test_what_is_on_its_way_is_not_given_twice() -> None:
    growing, other = job("a", 4, 1, 4, CHANGES, held=2, since_ms=2.0), job("b", 1, 1, 4, since_ms=1.0)
    assert sizes(decided([growing, other], 3)) == {"a": 4, "b": 2}


# --- the property -----------------------------------------------------------------------------------------------------


@dataclass
class _Job:
    name: str
    groups: dict[VertexId, tuple[Bounds, str]]
    since_ms: float
    slots: int = 0
    parallelism: dict[VertexId, int] = field(default_factory=dict)
    has_run: bool = False
    settled_ms: float = 0.0
    target: dict[VertexId, int] | None = None

    @property
    def graph(self) -> JobGraph:
        vertices = [JobVertex(v, v, 1, 128, group, (), ()) for v, (_, group) in self.groups.items()]
        wanted = {v: bounds.upper for v, (bounds, _) in self.groups.items()}
        return rescaled(JobGraph(JobId("0" * 32), self.name, vertices, [], {}), self.parallelism or wanted)

    def seen(self) -> ElasticJob:
        requirements = {v: bounds for v, (bounds, _) in self.groups.items()}
        standing = RUNS if self.slots else WAITS
        more = (self.since_ms, self.has_run, not self.has_run, self.slots, 0, self.settled_ms, self.target)
        return ElasticJob(self.name, self.graph, requirements, standing, PATIENCE, *more)


@st.composite
def clusters(draw: st.DrawFn) -> list[_Job]:
    jobs = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        groups = {}
        for vertex in (V, W)[: draw(st.integers(1, 2))]:
            lower, upper = sorted((draw(st.integers(1, 5)), draw(st.integers(1, 5))))
            groups[vertex] = (Bounds(lower, upper), draw(st.sampled_from("xy")))
        jobs.append(_Job(name, groups, float(draw(st.integers(0, 3)))))
    return jobs


CHANGE = st.tuples(
    st.sampled_from(["slots", "slots", "slots", "fails", "target"]), st.integers(0, 12), st.integers(0, 2)
)


class _Cluster:
    """Does what is decided, at once."""

    def __init__(self, jobs: list[_Job]) -> None:
        self.jobs = jobs
        self.total = 0
        self.now_ms = 0.0
        self.since_ms: dict[str, float] = {}
        self.rescalings: list[tuple[float, str]] = []

    @property
    def free(self) -> int:
        return self.total - sum(job.slots for job in self.jobs)

    def poll(self) -> Decided:
        found = decide(
            [job.seen() for job in self.jobs], [], SlotsSeen(self.free, self.total), self.now_ms, self.since_ms
        )
        self.since_ms = dict(found.since_ms)
        before = {job.name: job.seen() for job in self.jobs}
        for verdict in found.verdicts:
            self.follow(next(job for job in self.jobs if job.name == verdict.job_id), verdict)
        assert self.free >= 0, "more slots are given than there are"
        for job in self.jobs:
            self.check(job, before[job.name])
        return found

    def follow(self, job: _Job, verdict: Verdict) -> None:
        if verdict.parallelism is None or not verdict.is_due:
            return
        if job.slots:
            assert self.now_ms - job.settled_ms >= PATIENCE.cooldown_ms, "the cooldown is not respected"
            self.rescalings.append((self.now_ms, job.name))
        job.parallelism, job.has_run, job.settled_ms = dict(verdict.parallelism), True, self.now_ms
        job.slots = job.seen().slots

    def check(self, job: _Job, before: ElasticJob) -> None:
        if not job.slots:
            return
        for vertex, (bounds, _) in job.groups.items():
            assert bounds.lower <= job.parallelism[vertex] <= bounds.upper
            if before.held and job.target is None:
                assert job.parallelism[vertex] >= before.parallelism[vertex], "a running job is shrunk for another"

    def change(self, what: str, number: int, which: int) -> None:
        job = self.jobs[which % len(self.jobs)]
        match what:
            case "slots":
                self.total = number
                # TaskManagers are lost: the jobs on them, and others, go down
                for lost in self.jobs:
                    if self.free < 0:
                        lost.slots = 0
            case "fails":
                job.slots = 0
            case "target":
                job.target = {V: number} if number else None

    def rest(self) -> None:
        for _ in range(12):
            self.now_ms += 60_000.0
            self.poll()


@given(clusters(), st.lists(CHANGE, max_size=6), st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_whatever_comes_and_goes_jobs_stay_in_their_bounds_and_come_to_rest(
    jobs: list[_Job], changes: list[tuple[str, int, int]], polls: int
) -> None:
    cluster = _Cluster(jobs)
    for change in [("slots", 6, 0), *changes]:
        cluster.change(*change)
        for _ in range(polls):
            cluster.now_ms += 1_000.0
            cluster.poll()
    cluster.rest()
    # at rest: nothing is rescaled any more, whatever the time
    done = len(cluster.rescalings)
    running = [(job.slots, job.parallelism) for job in jobs]
    cluster.rest()
    assert (len(cluster.rescalings), [(job.slots, job.parallelism) for job in jobs]) == (done, running)
    is_waiting = False
    for job in sorted(jobs, key=lambda job: (job.since_ms, job.name)):
        seen = job.seen()
        if not job.slots:
            is_waiting = True
            assert least_slots(seen.graph, seen.requirements) > cluster.free, "a job waits although its least is free"
        elif not is_waiting:
            # an older job that waits may have to have what is free
            alone = seen.fitted(job.slots + cluster.free, seen.kept)
            assert alone == job.parallelism, "slots stay free that a job wants"
