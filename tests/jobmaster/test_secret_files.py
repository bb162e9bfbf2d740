"""A job whose secrets are in files of a storage that does not answer: its JobMaster's loop never waits for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from runtime.common import references
from runtime.common.references import ReferenceRules
from runtime.common.secrets import SecretStore
from runtime.core.ids import Attempt
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.driver import JobMasterDriver
from runtime.jobmaster.events import StageEnded
from runtime.jobmaster.execution_graph import Region
from runtime.jobmaster.job_state import JobState
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import RESTARTING, graph
from tests.jobmaster.test_driver import NoSlots
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until


class NotedSlots(NoSlots):
    """Has no slots, and notes which are requested."""

    def __init__(self) -> None:
        super().__init__()
        self.requested: list[Attempt] = []

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        self.requested.append(attempt)


class Rig:
    """The driver of a job with a secret in a file of a storage that may hang."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        share = directory / "share"
        share.mkdir()
        (share / "db").write_text("c4n4ry\n")
        (directory / "checkpoints").mkdir()
        # before anything hangs: the job restarts at once
        monkeypatch.setattr(references, "FILE_TIMEOUT_S", 60.0)
        job = dataclasses.replace(graph(2, **RESTARTING), secrets=[("file:", str(share / "db"))])
        store = SecretStore({}, directory / "secrets.json", ReferenceRules({}, files=[str(share)]))
        self.slots = NotedSlots()
        self.clock = ManualClock(0)
        self.driver = JobMasterDriver(
            job, lambda post: self.slots, ClientOutputs(), self.clock, is_inline=True, secrets=store
        )
        self.storage = HungStorage(share, monkeypatch)
        self.storage.hang()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        def is_met() -> bool:
            while self.driver.step():
                pass
            return condition()

        wait_until(is_met, 20, what)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(tmp_path, monkeypatch)


def test_a_job_begins_once_the_storage_of_its_secrets_answers(rig: Rig) -> None:
    while rig.driver.step():
        pass
    assert rig.slots.requested == [] and rig.driver.broken is None
    rig.storage.answer()
    rig.until(lambda: bool(rig.slots.requested), "the request for slots")
    assert rig.slots.requested == [0] and not rig.storage.touched


def test_a_job_whose_secrets_do_not_come_says_why_and_fails(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "FILE_TIMEOUT_S", 0.01)
    rig.until(lambda: rig.driver.status().state is JobState.FAILED, "the failure")
    [entry] = rig.driver.status().exceptions
    assert "/share/db} (its storage has not answered the JobManager within 0" in entry.cause.message
    assert rig.slots.requested == [] and not rig.storage.touched
    rig.storage.answer()


def test_a_job_is_cancelled_while_its_secrets_are_waited_for(rig: Rig) -> None:
    while rig.driver.step():
        pass
    rig.driver.cancel()
    rig.until(lambda: rig.driver.status().state is JobState.CANCELED, "the end")
    rig.storage.answer()
    rig.until(rig.driver.ended.is_set, "the end of the JobMaster")
    assert rig.slots.requested == [] and not rig.storage.touched


def test_an_attempt_that_is_over_requests_no_slots_when_its_secrets_come(rig: Rig) -> None:
    rig.storage.answer()
    rig.until(lambda: rig.slots.requested == [0], "the first attempt")
    rig.storage.hang()
    rig.driver.post(StageEnded(0, Attempt(0), "its worker is gone"))
    while rig.driver.step():
        pass
    rig.clock.advance(60_000)
    while rig.driver.step():
        pass
    assert rig.driver.status().attempt == 1
    rig.driver.cancel()
    rig.until(lambda: rig.driver.status().state is JobState.CANCELED, "the end")
    rig.storage.answer()
    rig.until(rig.driver.ended.is_set, "the end of the JobMaster")
    assert rig.slots.requested == [0] and not rig.storage.touched
