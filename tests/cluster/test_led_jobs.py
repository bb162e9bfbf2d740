"""The jobs of a leader, where a call in a sequence fails, or its answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from backend.cluster import services
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.led_jobs import DOCUMENTS_PER_S, STALE_MS
from backend.cluster.live_document import LiveDocument
from backend.cluster.models import Job, JobException, Operation
from backend.cluster.publisher import Publisher
from backend.cluster.slot_pool import Stage, StageKey
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.jobmaster.actions import RequestAnswered
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import RESTARTING, graph_json
from tests.cluster.leading import new_leader, take_leadership
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(home: Path, live_redis: str) -> Iterator[JobManager]:
    """The leader."""
    made = new_leader(home, lambda *_, **__: None)
    yield made
    made.close()


def submit(**options: str) -> Job:
    return services.submit_job(graph_json(2, **options), None, [], {}, None)


def turn(manager: JobManager, job: Job) -> Job:
    manager.hasten()
    manager.step(0.01)
    return Job.objects.get(id=job.id)


def is_dropped(manager: JobManager, job: Job) -> bool:
    turn(manager, job)
    return job.id not in manager.jobs.runners


def failing_once(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, is_done: bool) -> list[str]:
    """Have the next call of a method fail as a database that is away, before it is done or after; returns the calls."""
    original, calls = getattr(owner, name), list[str]()

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) > 1:
            return original(*arguments, **named)
        if is_done:
            original(*arguments, **named)
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_job_whose_end_is_recorded_otherwise_ends_here_too(manager: JobManager) -> None:
    """As after a leader that gave it up, and never heard that the database had recorded so."""
    job = submit()
    row = turn(manager, job)
    assert manager.resources.is_waiting(job.id)
    ended = dict(row.document or {}) | {"state": "CANCELED", "end_time": 7}
    Job.objects.filter(id=job.id).update(state="CANCELED", ended_at=7, document=ended)
    manager.jobs.unsaved.add(job.id)
    wait_until(lambda: is_dropped(manager, job), 60, "the end of its runner")
    row = Job.objects.get(id=job.id)
    assert (row.state, row.ended_at, row.failure, row.exceptions.count()) == ("CANCELED", 7, None, 0)
    assert not manager.resources.is_waiting(job.id)
    assert services.job_document(job.id)["state"] == "CANCELED"


@pytest.mark.django_db(transaction=True)
def test_a_job_that_cannot_be_continued_ends_although_the_database_is_away_just_then(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    turn(manager, job)
    failing_once(monkeypatch, JobStore, "row", is_done=False)
    build, broken = LiveDocument.build, [ZeroDivisionError("cannot be told")]

    def break_once(document: LiveDocument, *arguments: Any) -> Any:
        if broken:
            raise broken.pop()
        return build(document, *arguments)

    monkeypatch.setattr(LiveDocument, "build", break_once)
    assert turn(manager, job).state == "CREATED", "its end could not be recorded"
    wait_until(lambda: is_dropped(manager, job), 60, "the end of its runner")
    row = Job.objects.get(id=job.id)
    assert row.state == "FAILED" and "cannot be told" in (row.failure or {})["message"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_done", [False, True], ids=["request", "answer"])
def test_a_take_over_whose_write_fails_is_repeated_and_counted_once(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    job = submit(**RESTARTING)
    Job.objects.filter(id=job.id).update(state="RUNNING", state_times={"RUNNING": 5}, attempt=3, restarts=1)
    failing_once(monkeypatch, JobStore, "take", is_done=is_done)
    row = turn(manager, job)
    assert (row.attempt, row.restarts) == ((4, 2) if is_done else (3, 1))
    assert job.id not in manager.jobs.runners
    row = turn(manager, job)
    assert (row.state, row.attempt, row.restarts, row.num_failures) == ("RESTARTING", 4, 2, 1)
    assert job.id in manager.jobs.runners


def test_the_loss_of_a_leader_does_not_replace_what_an_attempt_has_failed_of(home: Path, live_redis: str) -> None:
    """The job was about to restart when its leader ended."""
    job, epoch = submit(**RESTARTING), take_leadership("earlier").epoch
    JobException.objects.create(
        job=job,
        attempt=3,
        timestamp=5,
        name="ValueError",
        message="no such number",
        stacktrace="at line 3",
        task_name="map (1/2)",
    )
    Job.objects.filter(id=job.id).update(
        state="RESTARTING", state_times={"RUNNING": 4}, attempt=3, leader_epoch=epoch, num_failures=1
    )
    manager = new_leader(home, lambda *_, **__: None)
    try:
        row = turn(manager, job)
        assert (row.state, row.attempt, row.num_failures) == ("RESTARTING", 4, 1)
        assert row.exceptions.get().message == "no such number"
        assert services.job_document(job.id)["failure"]["message"] == "no such number"
    finally:
        manager.close()


@pytest.mark.django_db(transaction=True)
def test_an_answer_whose_record_nobody_heard_of_is_recorded_once(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    turn(manager, job)
    runner = manager.jobs.runners[job.id]
    answer: Future[RequestAnswered] = Future()
    monkeypatch.setattr(runner._driver, "trigger_savepoint", lambda *_, **__: answer)
    operation = services.request_operation(job, Operation.Kind.SAVEPOINT, {}, None)
    runner.carry_out(operation)
    answer.set_result(RequestAnswered("r", "file:///sp", CheckpointId(1)))
    calls = failing_once(monkeypatch, JobStore, "complete", is_done=True)
    turn(manager, job)
    operation.refresh_from_db()
    first = operation.finished_at
    assert operation.result == {"location": "file:///sp", "checkpoint_id": 1}
    assert runner.requests.trigger_ids == {operation.trigger_id}, "as far as is known, it is not recorded"
    turn(manager, job)
    operation.refresh_from_db()
    assert len(calls) == 2 and not runner.requests.trigger_ids
    assert operation.finished_at == first


def test_an_answer_that_comes_with_the_end_of_its_job_is_recorded_with_that(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    turn(manager, job)
    runner = manager.jobs.runners[job.id]
    answers: list[Future[RequestAnswered]] = [Future(), Future()]
    waiting = iter(answers)
    monkeypatch.setattr(runner._driver, "trigger_savepoint", lambda *_, **__: next(waiting))
    stop, savepoint = (
        services.request_operation(job, kind, {}, None) for kind in (Operation.Kind.STOP, Operation.Kind.SAVEPOINT)
    )
    for operation in (stop, savepoint):
        runner.carry_out(operation)
    answers[0].set_result(RequestAnswered("r", "file:///sp", CheckpointId(2)))
    turn(manager, job)
    stop.refresh_from_db()
    assert stop.result is None, "its job has not ended"
    services.request_cancel(job, None)
    turn(manager, job)
    answers[1].set_exception(ZeroDivisionError("too late"))
    wait_until(lambda: turn(manager, job).is_terminal, 60, "the job's end")
    for operation, result in (
        (stop, {"location": "file:///sp", "checkpoint_id": 2}),
        (savepoint, {"error": "too late"}),
    ):
        operation.refresh_from_db()
        assert operation.result == result


@pytest.mark.django_db(transaction=True)
def test_the_slots_of_a_job_are_disowned_although_nobody_heard_that_its_end_was_recorded(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    Job.objects.filter(id=job.id).update(state="CANCELLING", state_times={"RUNNING": 5})
    stage = Stage(StageKey(job.id, Attempt(0), 0), 0, "tm", (SlotId(0), SlotId(1)))
    monkeypatch.setattr("backend.cluster.jobmanager.placed_stages", lambda: [stage])
    failing_once(monkeypatch, JobStore, "save", is_done=True)
    assert turn(manager, job).state == "CANCELED"
    turn(manager, job)
    assert manager.resources._adopted == {"tm": []}
    assert services.job_document(job.id)["state"] == "CANCELED"


def test_documents_of_many_jobs_are_published_by_turns_and_news_at_once(
    manager: JobManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [submit() for _ in range(3 * DOCUMENTS_PER_S)]
    turn(manager, jobs[0])
    assert len(manager.jobs.runners) == len(jobs)
    clock = ManualClock(10_000)
    monkeypatch.setattr(manager.jobs, "_clock", clock)
    told: list[str] = []
    publish = Publisher.job

    def note(publisher: Publisher, runner: JobRunner) -> None:
        told.append(runner.job.id)
        publish(publisher, runner)

    monkeypatch.setattr(Publisher, "job", note)

    def published() -> list[str]:
        told.clear()
        manager.jobs.publish()
        return sorted(told)

    every = sorted(job.id for job in jobs)
    clock.advance(STALE_MS)
    assert published() == every
    clock.advance(1_500)
    assert published() == []
    clock.advance(1_500)
    assert published() == every
    changed = manager.jobs.runners[jobs[1].id]
    monkeypatch.setattr(changed, "observe", lambda: True)
    manager.jobs.observe()
    assert published() == [changed.job.id]
    manager.publisher.bus_is_back()
    assert published() == every
