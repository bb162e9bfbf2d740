"""The scaling of one job: what users ask for, what the scheduler decides, and what the row says of it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from backend.cluster.elasticity import Patience, Standing, Verdict
from backend.cluster.job_scaling import RETRY_MS, JobScaling
from backend.cluster.models import Job
from runtime.common.configuration import Configuration
from runtime.core.ids import VertexId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.driver import JobRequestError
from runtime.jobmaster.requirements import Bounds
from runtime.jobmaster.rescaling import RescaleError, rescaled
from runtime.testing.clock import ManualClock
from tests.jobmaster.simulation import keyed_job


class RecordingDriver:
    """Remembers what it was asked, and answers when the test does."""

    def __init__(self) -> None:
        self.offers: list[dict[VertexId, int]] = []
        self.rescalings: list[tuple[set[int], bool]] = []
        self.asked: list[Future[RequestAnswered]] = []

    def offer(self, parallelism: Mapping[VertexId, int]) -> None:
        self.offers.append(dict(parallelism))

    def rescale(self, parallelism: Mapping[VertexId, int], *, at_once: bool = False) -> Future[RequestAnswered]:
        self.rescalings.append((set(parallelism.values()), at_once))
        self.asked.append(Future())
        return self.asked[-1]

    move = rescale


class Rig:
    """A job of parallelism 2."""

    def __init__(self) -> None:
        self.job = Job(id="a" * 32, created_at=5, state="RUNNING")
        self.graph = keyed_job(2)
        self.driver = RecordingDriver()
        self.reserved: list[JobGraph] = []
        self.clock = ManualClock(0)
        driver: Any = self.driver
        patience = Patience.of(Configuration())
        self.scaling = JobScaling(self.job, self.graph, patience, driver, self.reserved.append, self.clock)

    def all_at(self, parallelism: int) -> dict[VertexId, int]:
        return {v.vertex_id: parallelism for v in self.graph.vertices}

    def ask(self, upper: int, lower: int | None = None, available: int = 9, *, is_waiting: bool = False) -> Any:
        given: dict[str, Any] = {"parallelism": self.all_at(upper)}
        if lower is not None:
            given["lower"] = self.all_at(lower)
        return self.scaling.ask(given, available, is_waiting=is_waiting)

    def come_about(self, parallelism: int) -> None:
        """The latest rescaling has come about."""
        self.driver.asked[-1].set_result(RequestAnswered("r"))
        self.scaling.observed(self.all_at(parallelism))

    @property
    def bounds(self) -> set[tuple[int, int]]:
        return {(b.lower, b.upper) for b in self.scaling.requirements.values()}

    def follow(self, standing: Standing, parallelism: int, *, has_begun: bool = True, **more: bool) -> None:
        verdict = Verdict(self.job.id, self.all_at(parallelism), **more)  # type: ignore[arg-type]
        self.scaling.follow(verdict, standing, has_begun=has_begun)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_parallelism_is_the_jobs_once_it_runs_with_it(rig: Rig) -> None:
    assert not rig.scaling.is_elastic
    rig.ask(4)
    assert rig.driver.rescalings == [({4}, True)]
    # others may not take its slots meanwhile, but it is not recorded
    assert (rig.scaling.is_elastic, rig.job.requirements) == (True, {})
    assert rig.scaling.seen(False, 1.0, (2, 0), has_begun=True).slots == 4
    rig.come_about(4)
    assert (rig.scaling.is_elastic, rig.bounds, rig.job.requirements) == (False, {(4, 4)}, {})


def test_a_rescaling_that_fails_changes_no_bounds(rig: Rig) -> None:
    rig.ask(8, 3)
    rig.driver.asked[-1].set_exception(JobRequestError("no checkpoint"))
    rig.scaling.observed(rig.all_at(2))
    assert (rig.bounds, rig.scaling.is_elastic) == ({(2, 2)}, False)


def test_with_room_it_takes_what_there_is(rig: Rig) -> None:
    rig.ask(8, 1, available=3)
    assert rig.driver.rescalings == [({3}, True)]
    rig.come_about(3)
    assert set(map(tuple, rig.job.requirements.values())) == {(1, 8)}


def test_bounds_without_room_that_a_user_gives_bind_an_autoscaler(rig: Rig) -> None:
    rig.scaling.room = {v: Bounds(1, 100) for v in rig.all_at(1)}
    rig.ask(4)
    rig.come_about(4)
    assert rig.bounds == {(1, 100)}
    rig.ask(3, 3)
    rig.come_about(3)
    assert rig.bounds == {(3, 3)}
    rig.ask(2)
    rig.come_about(2)
    assert rig.bounds == {(2, 2)}


def test_too_few_slots_for_the_lower_bounds_are_refused(rig: Rig) -> None:
    with pytest.raises(RescaleError, match="would need 5 slots, but only 4 are available"):
        rig.ask(8, 5, available=4)
    assert (rig.driver.rescalings, rig.bounds) == ([], {(2, 2)})


def test_one_change_is_not_overtaken_by_another(rig: Rig) -> None:
    rig.ask(8, 1, available=3)
    with pytest.raises(RescaleError, match="is being rescaled already"):
        rig.ask(5)
    # it has come about, and nobody has looked yet
    rig.driver.asked[-1].set_result(RequestAnswered("r"))
    rig.ask(4)
    assert set(map(tuple, rig.job.requirements.values())) == {(1, 8)}


def test_bounds_of_a_job_that_waits_for_slots_change_at_once(rig: Rig) -> None:
    assert rig.ask(4, 1, available=0, is_waiting=True).result().error is None
    assert (rig.driver.rescalings, rig.bounds) == ([], {(1, 4)})
    assert set(map(tuple, rig.job.requirements.values())) == {(1, 4)}


def test_the_latest_wish_counts_while_a_rescaling_waits_for_its_slots(rig: Rig) -> None:
    rig.ask(6)
    rig.ask(4, 1, is_waiting=True)
    rig.come_about(3)
    assert rig.bounds == {(1, 4)}


def test_bounds_within_which_no_job_can_run_are_refused(rig: Rig) -> None:
    with pytest.raises(RescaleError, match="its max parallelism"):
        rig.ask(129, is_waiting=True)
    with pytest.raises(RescaleError, match="no vertex"):
        rig.scaling.ask({"parallelism": {"?": 1}}, 9, is_waiting=False)


def test_a_job_that_has_not_begun_requests_other_slots(rig: Rig) -> None:
    rig.follow(Standing.WAITS, 1, has_begun=False)
    assert rig.reserved == rig.driver.offers == []
    rig.follow(Standing.WAITS, 1, has_begun=False, is_due=True)
    assert rig.reserved == [rescaled(rig.graph, rig.all_at(1))]
    assert rig.driver.offers == [rig.all_at(1)]


@pytest.mark.parametrize("standing", [Standing.CHANGES, Standing.RUNS])
def test_what_the_next_restart_takes_is_offered_all_the_time(rig: Rig, standing: Standing) -> None:
    rig.follow(standing, 3)
    assert (rig.driver.offers, rig.driver.rescalings) == ([rig.all_at(3)], [])


def test_a_running_job_is_rescaled_once_that_is_due(rig: Rig) -> None:
    rig.follow(Standing.RUNS, 3, is_due=True)
    rig.follow(Standing.RUNS, 1, is_due=True, at_once=True)
    assert rig.driver.rescalings == [({3}, False), ({1}, True)]


def test_a_change_that_failed_is_not_tried_again_at_once(rig: Rig) -> None:
    def standing() -> Standing:
        return rig.scaling.seen(False, 0.0, (2, 0), has_begun=True).standing

    rig.job.requirements = {v: [1, 4] for v in rig.all_at(2)}
    assert {Bounds(1, 4)} == set(rig.scaling.requirements.values())
    assert standing() is Standing.RUNS
    rig.follow(Standing.RUNS, 3, is_due=True)
    assert standing() is Standing.CHANGES
    rig.driver.asked[-1].set_exception(JobRequestError("no checkpoint"))
    rig.scaling.observed(rig.all_at(2))
    assert standing() is Standing.CHANGES
    rig.clock.advance(RETRY_MS)
    assert standing() is Standing.RUNS
    # the cooldown begins anew
    assert rig.scaling.seen(False, -5.0, (2, 0), has_begun=True).settled_ms == 0.0
