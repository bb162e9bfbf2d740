"""Operations as requests to a JobMaster, and their answers as rows keep them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from backend.cluster.job_requests import JobRequests
from backend.cluster.models import Operation
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.driver import JobNotRunningError, JobRequestError
from runtime.jobmaster.events import AfterSavepoint
from runtime.jobmaster.rescaling import RescaleError

Kind = Operation.Kind
DONE = RequestAnswered("r", "file:///sp", CheckpointId(7))


class RecordingDriver:
    """A JobMaster's driver that remembers what it was asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.futures: list[Future[RequestAnswered]] = []

    def _asked(self, *call: Any) -> Future[RequestAnswered]:
        self.calls.append(call)
        self.futures.append(Future())
        return self.futures[-1]

    def trigger_savepoint(
        self, target: str | None, *, after: AfterSavepoint, kind: SnapshotKind, directory: str | None
    ) -> Future[RequestAnswered]:
        return self._asked("savepoint", target, after, kind)

    def trigger_checkpoint(self, kind: SnapshotKind | None) -> Future[RequestAnswered]:
        return self._asked("checkpoint", kind)

    def rescale(self, given: Mapping[str, Any]) -> Future[RequestAnswered]:
        if "?" in given["parallelism"]:
            raise RescaleError("the job has no vertex ?")
        return self._asked("rescale", given["parallelism"])


@pytest.fixture
def driver() -> RecordingDriver:
    return RecordingDriver()


@pytest.fixture
def requests(driver: RecordingDriver) -> JobRequests:
    return JobRequests(driver, driver.rescale)  # type: ignore[arg-type]


def operation(kind: Kind, **parameters: Any) -> Operation:
    return Operation(kind=kind, parameters=parameters)


@pytest.mark.parametrize(
    ("asked", "call"),
    [
        (operation(Kind.SAVEPOINT), ("savepoint", None, AfterSavepoint.GO_ON, SnapshotKind.CANONICAL)),
        (
            operation(Kind.SAVEPOINT, cancel_job=True, format="NATIVE", target_directory="file:///x"),
            ("savepoint", "file:///x", AfterSavepoint.CANCEL, SnapshotKind.FULL),
        ),
        (operation(Kind.STOP), ("savepoint", None, AfterSavepoint.SUSPEND, SnapshotKind.CANONICAL)),
        (operation(Kind.STOP, drain=True), ("savepoint", None, AfterSavepoint.DRAIN, SnapshotKind.CANONICAL)),
        (operation(Kind.CHECKPOINT), ("checkpoint", None)),
        (operation(Kind.CHECKPOINT, type="INCREMENTAL"), ("checkpoint", SnapshotKind.INCREMENTAL)),
        (operation(Kind.RESCALE, parallelism={"v": 4}), ("rescale", {"v": 4})),
    ],
)
def test_an_operation_is_a_request(
    requests: JobRequests, driver: RecordingDriver, asked: Operation, call: tuple[Any, ...]
) -> None:
    requests.begin(asked)
    assert driver.calls == [call]
    assert requests.is_open and asked.trigger_id in requests.trigger_ids
    assert requests.answers(is_ending=True) == {}
    driver.futures[0].set_result(DONE)
    answers = requests.answers(is_ending=True)
    assert answers == {asked.trigger_id: {"location": "file:///sp", "checkpoint_id": 7}}
    requests.forget(answers)
    assert asked.trigger_id not in requests.trigger_ids and not requests.is_open


@pytest.mark.parametrize(
    ("kind", "parameters"), [(Kind.STOP, dict[str, Any]()), (Kind.SAVEPOINT, {"cancel_job": True})]
)
def test_what_ends_a_job_is_answered_with_the_jobs_end_if_it_went_well(
    kind: Kind, parameters: dict[str, Any], requests: JobRequests, driver: RecordingDriver
) -> None:
    good, bad = operation(kind, **parameters), operation(kind, **parameters)
    requests.begin(good)
    requests.begin(bad)
    driver.futures[0].set_result(DONE)
    driver.futures[1].set_exception(JobRequestError("the disk is full\0"))
    assert requests.answers(is_ending=False) == {bad.trigger_id: {"error": "the disk is full\ufffd"}}
    assert good.trigger_id in requests.answers(is_ending=True)


def test_what_is_refused_because_the_job_does_not_run_is_no_answer_and_may_be_asked_again(
    requests: JobRequests, driver: RecordingDriver
) -> None:
    asked = operation(Kind.SAVEPOINT)
    requests.begin(asked)
    driver.futures[0].set_exception(JobNotRunningError("not all tasks of the job are running"))
    assert requests.premature == {asked.trigger_id: "not all tasks of the job are running"}
    assert requests.answers(is_ending=False) == {} and not requests.is_open
    requests.begin(asked)
    assert requests.premature == {} and requests.is_open
    driver.futures[1].set_result(DONE)
    assert asked.trigger_id in requests.answers(is_ending=False)


@pytest.mark.parametrize(
    ("parameters", "error"), [({"parallelism": {"?": 1}}, "no vertex ?"), ({}, "its parameters cannot be read")]
)
def test_what_cannot_be_is_refused_before_anything_is_torn_down(
    requests: JobRequests, driver: RecordingDriver, parameters: dict[str, Any], error: str
) -> None:
    asked = operation(Kind.RESCALE, **parameters)
    requests.begin(asked)
    assert driver.calls == []
    assert error in requests.answers(is_ending=False)[asked.trigger_id]["error"]
