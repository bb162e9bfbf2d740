"""One job in the leader: what it waits for at its attempts and at its end, and what becomes of it without a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError

from backend.cluster import job_runner, services
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import Job, Operation
from runtime.core.clock import SystemClock
from runtime.core.ids import Attempt
from runtime.jobmaster.actions import RequestAnswered
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db

HOUR_MS = 3_600_000


@pytest.fixture
def manager(home: Path, live_redis: str) -> Iterator[JobManager]:
    """The leader."""
    made = new_leader(home, lambda *_, **__: None)
    yield made
    made.close()


@pytest.fixture
def runner(manager: JobManager) -> JobRunner:
    """Of a job that waits for slots."""
    job = services.submit_job(graph_json(2), None, [], {}, None)
    turn(manager)
    return manager.jobs.runners[job.id]


def turn(manager: JobManager) -> None:
    manager.hasten()
    manager.step(0.01)


def state(manager: JobManager, runner: JobRunner) -> str:
    turn(manager)
    return str(Job.objects.get(id=runner.job.id).state)


# --- attempts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Has the recording of attempts raise, or return, these things one after the other."""
    monkeypatch.setattr(job_runner, "SQL_RETRY_S", 0.001)

    def begin(*answers: Any) -> list[int]:
        asked: list[int] = []

        def record(store: JobStore, job_id: str, attempt: Attempt, regions: Any) -> bool:
            asked.append(attempt)
            answer = answers[min(len(asked), len(answers)) - 1]
            if callable(answer):
                answer()
                raise OperationalError("no connection")
            if isinstance(answer, Exception):
                raise answer
            return bool(answer)

        monkeypatch.setattr(JobStore, "record_attempt", record)
        return asked

    return begin


def test_an_attempt_begins_when_the_database_has_its_number_and_says_what_it_waits_for(
    runner: JobRunner, recording: Callable[..., list[int]]
) -> None:
    told: list[str] = []
    asked = recording(OperationalError("no connection"), lambda: told.append(runner._database_trouble), True)
    assert runner._record_attempt(Attempt(1), ())
    assert asked == [1, 1, 1]
    assert told == ["the database, to record attempt 1: no connection"]
    assert runner._database_trouble == ""


def test_the_first_attempt_is_recorded_already(runner: JobRunner, recording: Callable[..., list[int]]) -> None:
    asked = recording(False)
    assert runner._record_attempt(Attempt(0), ()) and not asked


@pytest.mark.parametrize("answer", [False, LeadershipLostError(1, 2, "another")], ids=["taken", "lost"])
def test_no_attempt_begins_that_is_another_leaders(
    runner: JobRunner, recording: Callable[..., list[int]], answer: Any
) -> None:
    asked = recording(answer)
    assert not runner._record_attempt(Attempt(1), ())
    assert asked == [1]


def test_an_attempt_that_waits_for_the_database_is_given_up_with_the_job(
    runner: JobRunner, recording: Callable[..., list[int]]
) -> None:
    asked = recording(DataError("refused"), runner.abandon)
    assert not runner._record_attempt(Attempt(1), ())
    assert len(asked) == 2 and runner._database_trouble == ""


# --- dates ------------------------------------------------------------------------------------------------------------


class AheadClock(SystemClock):
    """A wall clock that is this far ahead, as it is for those whose monotonic time stood still."""

    def __init__(self, ahead_ms: int) -> None:
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


def test_states_keep_their_dates_while_the_machine_sleeps(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner._begin_without_slots()
    wait_until(lambda: runner.status().state_changes != (), 10, "the first state")
    runner.observe()
    told, times = runner.states.document(), dict(runner.job.state_times)
    assert told[0]["begin"] == times["CREATED"]
    monkeypatch.setattr(runner, "_clock", AheadClock(8 * HOUR_MS))
    runner.observe()
    assert runner.states.document()[: len(told)] == told
    assert {state: runner.job.state_times[state] for state in times} == times


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_job_ends_when_what_it_was_asked_is_answered_or_after_a_time(
    is_answered: bool, manager: JobManager, runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_runner, "ANSWERS_TIMEOUT_MS", HOUR_MS)
    answer: Future[RequestAnswered] = Future()
    monkeypatch.setattr(runner._driver, "trigger_savepoint", lambda *_, **__: answer)
    operation = services.request_operation(runner.job, Operation.Kind.SAVEPOINT, {}, None)
    runner.carry_out(operation)
    runner.cancel()
    wait_until(lambda: runner.is_over, 60, "the end of its JobMaster")
    assert state(manager, runner) == state(manager, runner) == "CREATED"
    if is_answered:
        answer.set_exception(ZeroDivisionError("in vain"))
    else:
        assert runner._ended_ms is not None
        runner._ended_ms -= HOUR_MS
    wait_until(lambda: state(manager, runner) == "CANCELED", 60, "the job's end")
    operation.refresh_from_db()
    assert operation.result == {"error": "in vain" if is_answered else "the job is CANCELED"}


def test_a_job_is_cancelled_once(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[str] = []
    monkeypatch.setattr(runner._driver, "cancel", lambda: cancelled.append("now"))
    for _ in range(3):
        runner.cancel()
    assert cancelled == ["now"]


def test_a_job_that_the_process_has_no_thread_for_fails_and_says_so(
    manager: JobManager, runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runner._thread, "start", refuse)
    operation = services.request_cancel(runner.job, None)
    wait_until(lambda: state(manager, runner) == "FAILED", 60, "the job's end")
    row = Job.objects.get(id=runner.job.id)
    assert "can't start new thread" in (row.failure or {})["message"]
    operation.refresh_from_db()
    assert operation.state == Operation.State.COMPLETED
    wait_until(lambda: state(manager, runner) == "FAILED" and not manager.jobs.runners, 60, "the end of its runner")


def test_a_job_that_is_abandoned_begins_no_more(runner: JobRunner) -> None:
    before = set(threading.enumerate())
    runner.abandon()
    runner.cancel()
    runner.fail(ZeroDivisionError())
    assert not runner.is_over and set(threading.enumerate()) <= before
    assert not runner.outlives_leader
    runner.wait_abandoned(0.0)
