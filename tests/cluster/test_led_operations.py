"""Operations under a leader, where a call in a sequence fails, its answer is lost, or the job ends in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError

from backend.cluster import services
from backend.cluster.job_requests import JobRequests
from backend.cluster.job_runner import JobRunner
from backend.cluster.job_store import JobStore
from backend.cluster.jobmanager import JobManager
from backend.cluster.models import Job, Operation
from runtime.graph.codec import job_graph_from_json
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader
from tests.cluster.snapshots import completed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db

Kind, State = Operation.Kind, Operation.State


@pytest.fixture
def manager(home: Path, live_redis: str) -> Iterator[JobManager]:
    """The leader."""
    made = new_leader(home, lambda *_, **__: None)
    yield made
    made.close()


@pytest.fixture
def job(manager: JobManager) -> Job:
    """A job that has a runner; see `turn`."""
    made = services.submit_job(graph_json(2), None, [], {}, None)
    manager.step(0.01)
    return made


def turn(manager: JobManager, operation: Operation) -> Operation:
    """Run one turn of the loop, which takes all jobs for running; returns the operation's row."""
    for runner in manager.jobs.runners.values():
        # as the machine says when all tasks run
        runner.job.state = "RUNNING"
    manager.hasten()
    manager.step(0.01)
    operation.refresh_from_db()
    return operation


@pytest.mark.django_db(transaction=True)
def test_a_savepoint_of_which_only_the_beginning_was_recorded_begins_again_elsewhere(
    manager: JobManager, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a storage that has something in it is not away
    (home / "savepoints" / "another").mkdir(parents=True)
    begin, begun = JobStore.begin, list[Any]()

    def lose_first_answer(store: JobStore, row: Operation) -> bool:
        found = begin(store, row)
        begun.append((row.progress or {})["directory"])
        if len(begun) == 1:
            raise OperationalError("the connection is lost")
        return found

    monkeypatch.setattr(JobStore, "begin", lose_first_answer)
    operation = services.request_operation(job, Kind.SAVEPOINT, {}, None)
    requests = manager.jobs.runners[job.id].requests
    assert turn(manager, operation).state == State.IN_PROGRESS
    assert not requests.trigger_ids
    wait_until(lambda: turn(manager, operation) is not None and bool(requests.trigger_ids), 60, "the savepoint")
    first, second = begun
    assert first != second and operation.progress is not None
    assert operation.progress["directory"] == second


def test_the_document_of_a_job_has_its_open_operations(
    manager: JobManager, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobRequests, "begin", lambda *_: None)
    stop = services.request_operation(job, Kind.STOP, {}, None)
    runner = manager.jobs.runners[job.id]
    assert runner.document()["operations"] == []
    turn(manager, stop)
    told = {"trigger_id": stop.trigger_id, "kind": "stop", "since": stop.created_at, "requested_by": ""}
    assert runner.document()["operations"] == [told | {"is_begun": False}]
    turn(manager, stop)
    assert runner.document()["operations"] == [told | {"is_begun": True}]
    JobStore.complete(manager._store, stop.trigger_id, {"error": "in vain"}, 7)
    turn(manager, stop)
    assert runner.document()["operations"] == []


def test_an_operation_that_breaks_after_its_beginning_is_answered_and_not_repeated(
    manager: JobManager, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Operation] = []

    def break_down(requests: JobRequests, operation: Operation) -> None:
        asked.append(operation)
        raise ZeroDivisionError("nobody has foreseen it")

    monkeypatch.setattr(JobRequests, "begin", break_down)
    operation, other = (services.request_operation(job, kind, {}, None) for kind in (Kind.CHECKPOINT, Kind.SAVEPOINT))
    for _ in range(2):
        turn(manager, operation)
    other.refresh_from_db()
    assert len(asked) == 2
    for row in (operation, other):
        assert "nobody has foreseen it" in (row.result or {})["error"]


@pytest.mark.parametrize("kind", [Kind.SAVEPOINT, Kind.STOP, Kind.CHECKPOINT])
def test_an_operation_that_is_answered_in_between_is_not_carried_out(
    kind: Operation.Kind, manager: JobManager, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, carried_out = JobStore.begin, list[Operation]()

    def too_late(store: JobStore, row: Operation) -> bool:
        store.complete(row.trigger_id, {"error": "the job is FAILED"}, 7)
        return begin(store, row)

    monkeypatch.setattr(JobStore, "begin", too_late)
    monkeypatch.setattr(JobRunner, "carry_out", lambda runner, row: carried_out.append(row))
    operation = services.request_operation(job, kind, {}, None)
    assert turn(manager, operation).result == {"error": "the job is FAILED"}
    assert not carried_out


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_the_database_refuses_holds_up_no_other(
    manager: JobManager, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, other = (services.request_operation(None, Kind.DISPOSE, {"path": "/etc"}, None) for _ in range(2))
    complete = JobStore.complete

    def refuse(store: JobStore, trigger_id: str, result: dict[str, Any], now: int) -> None:
        if trigger_id == refused.trigger_id:
            raise DataError("no such text")
        complete(store, trigger_id, result, now)

    monkeypatch.setattr(JobStore, "complete", refuse)
    assert turn(manager, refused).state == State.PENDING
    other.refresh_from_db()
    assert "not below" in (other.result or {})["error"]
    monkeypatch.setattr(JobStore, "complete", complete)
    assert "not below" in (turn(manager, refused).result or {})["error"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_done", [False, True], ids=["request", "answer"])
def test_a_disposal_whose_record_is_lost_deletes_once_and_is_answered_once(
    is_done: bool, manager: JobManager, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = completed(home / "savepoints", "c" * 32, 1).location
    complete, times = JobStore.complete, list[int]()

    def lose_first(store: JobStore, trigger_id: str, result: dict[str, Any], now: int) -> None:
        times.append(now)
        if is_done or len(times) > 1:
            complete(store, trigger_id, result, now)
        if len(times) == 1:
            raise OperationalError("the connection is lost")

    monkeypatch.setattr(JobStore, "complete", lose_first)
    operation = services.request_operation(None, Kind.DISPOSE, {"path": location}, None)
    wait_until(lambda: turn(manager, operation).state == State.COMPLETED, 60, "the answer")
    assert operation.result == {"location": location}
    assert operation.finished_at == times[0 if is_done else 1]
    turn(manager, operation)
    assert operation.trigger_id not in manager._disposal, "nobody asks for it any more"


def test_the_bounds_of_a_job_that_waits_are_recorded_with_the_answer(manager: JobManager, job: Job) -> None:
    """Nothing else of it changes; the next leader would not know of them."""
    manager.hasten()
    manager.step(0.01)
    vertex = next(v.vertex_id for v in job_graph_from_json(job.graph).vertices if v.parallelism == 2)
    asked = services.request_operation(job, Kind.RESCALE, {"parallelism": {vertex: 7}, "lower": {vertex: 1}}, None)
    for _ in range(3):
        manager.hasten()
        manager.step(0.01)
    asked.refresh_from_db()
    job.refresh_from_db()
    assert asked.state == State.COMPLETED and "error" not in (asked.result or {})
    assert job.state == "CREATED"
    assert job.requirements[vertex] == [1, 7]
