"""Which attempt is next, when, with which parallelisms, and which of them count as restarts."""

from __future__ import annotations

from runtime.core.ids import Attempt, VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.attempt_plan import AttemptPlan
from runtime.jobmaster.failover import RestartDecision
from runtime.jobmaster.rescaling import rescaled
from runtime.task.messages import FailureInfo
from tests.jobmaster.simulation import keyed_job

GRAPH = keyed_job()
WINDOW = GRAPH.vertices[1].vertex_id
BROKEN = FailureInfo("ValueError: bad record")


def plan(first_attempt: int = 0) -> AttemptPlan:
    return AttemptPlan(GRAPH, Attempt(first_attempt))


def with_windows(parallelism: int) -> JobGraph:
    return rescaled(GRAPH, {WINDOW: parallelism})


def test_attempts_are_numbered_through_from_the_first_one_with_those_of_regions() -> None:
    p = plan(4)
    assert p.attempt == 3
    p.begin(is_restart=False)
    assert p.attempt == 4
    p.begin_region()
    assert p.attempt == 5
    p.begin(is_restart=True)
    assert p.attempt == 6


def test_the_first_attempt_is_no_restart_and_those_of_regions_and_behind_failures_are() -> None:
    p = plan()
    p.begin(is_restart=False)
    assert p.restarts == 0
    p.begin_region()
    assert p.restarts == 1
    p.follow(RestartDecision(BROKEN, 6_000))
    assert p.restart_at_ms == 6_000
    p.begin(is_restart=True)
    assert (p.restarts, p.restart_at_ms, p.follows_plan) == (2, None, False)


def test_the_first_attempt_behind_a_change_of_jobmasters_may_wait_and_the_one_behind_it_may_not() -> None:
    p = AttemptPlan(GRAPH, Attempt(3), is_planned=True)
    p.begin(is_restart=False)
    assert (p.attempt, p.restarts, p.follows_plan) == (3, 0, True)
    p.follow(RestartDecision(BROKEN, 9_000))
    p.begin(is_restart=True)
    assert (p.restarts, p.follows_plan) == (1, False)


def test_a_planned_attempt_is_no_restart_and_the_one_behind_it_is() -> None:
    p = plan()
    p.begin(is_restart=False)
    p.redeploy(with_windows(3), now_ms=7_000)
    assert (p.graph, p.restart_at_ms) == (with_windows(3), 7_000)
    p.begin(is_restart=True)
    assert (p.restarts, p.follows_plan) == (0, True)
    p.follow(RestartDecision(BROKEN, 9_000))
    p.begin(is_restart=True)
    assert (p.restarts, p.follows_plan) == (1, False)


def test_a_failure_behind_which_another_attempt_is_planned_may_take_the_old_graph_back() -> None:
    p = plan()
    p.redeploy(with_windows(3), now_ms=0)
    p.begin(is_restart=True)
    p.follow(RestartDecision(BROKEN, 1_000, is_planned=True, graph=GRAPH))
    assert p.graph == GRAPH
    p.begin(is_restart=True)
    assert p.restarts == 0


def test_a_failure_that_takes_a_planned_attempt_s_place_counts() -> None:
    p = plan()
    p.redeploy(GRAPH, now_ms=0)
    p.follow(RestartDecision(BROKEN, None))
    assert p.restart_at_ms is None
    p.begin(is_restart=True)
    assert p.restarts == 1


def test_the_next_attempt_has_the_parallelisms_that_were_offered_last() -> None:
    p = plan()
    assert p.offer({WINDOW: 3}) == with_windows(3)
    assert p.offer({WINDOW: 1}) == with_windows(1)
    assert p.graph == GRAPH, "until it begins"
    p.begin(is_restart=False)
    assert p.graph == with_windows(1)
    p.begin(is_restart=True)
    assert p.graph == with_windows(1), "an offer is taken up once"


def test_an_offer_of_what_the_job_has_withdraws_the_one_before_and_one_it_cannot_take_does_not() -> None:
    p = plan()
    p.offer({WINDOW: 3})
    assert p.offer({WINDOW: GRAPH.vertices[1].max_parallelism + 1}) is None
    assert p.offer({VertexId("nowhere"): 1}) is None
    p.begin(is_restart=False)
    assert p.graph == with_windows(3)
    p.offer({WINDOW: 1})
    assert p.offer({WINDOW: 3}) is None
    p.begin(is_restart=True)
    assert p.graph == with_windows(3)


def test_a_redeployment_is_newer_than_an_offer_before_it() -> None:
    p = plan()
    p.offer({WINDOW: 3})
    p.redeploy(with_windows(1), now_ms=0)
    p.begin(is_restart=True)
    assert p.graph == with_windows(1)
