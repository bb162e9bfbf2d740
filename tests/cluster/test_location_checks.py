"""Checks of locations whose storage answers at once, late, or never."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from backend.cluster.background import MAX_THREADS
from backend.cluster.location_checks import FRESH_MS, HURRIED_S, KEPT_MS, PAUSE_MS, LocationChecks, StorageSilentError
from runtime.checkpoint.errors import LocationNotAllowedError
from runtime.testing.clock import ManualClock
from tests.support.waiting import wait_until


class Storages:
    """Answers for each location at once, or when it is told to."""

    def __init__(self) -> None:
        self.gates: dict[str, threading.Event] = {}
        self.asked: list[str] = []
        self.answers: dict[str, str] = {}

    def check(self, location: str) -> str:
        self.asked.append(location)
        gate = self.gates.get(location)
        if gate is not None:
            assert gate.wait(60)
        if location == "/etc":
            raise LocationNotAllowedError(location, ())
        return self.answers.get(location, f"file://{location}")

    def hang(self, *locations: str) -> None:
        for location in locations:
            self.gates[location] = threading.Event()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def storages() -> Iterator[Storages]:
    made = Storages()
    yield made
    for gate in made.gates.values():
        gate.set()


def told(checks: LocationChecks, location: str) -> str:
    try:
        return checks.check(location)
    except StorageSilentError:
        return ""


def test_a_storage_that_answers_is_waited_for(storages: Storages, clock: ManualClock) -> None:
    checks = LocationChecks(storages.check, clock, prompt_s=30)
    assert checks.check("/a") == "file:///a"
    with pytest.raises(LocationNotAllowedError):
        checks.check("/etc")
    checks.close()


def test_an_answer_that_is_late_is_there_when_it_is_asked_for_again(storages: Storages, clock: ManualClock) -> None:
    storages.hang("/a")
    checks = LocationChecks(storages.check, clock, prompt_s=0.01)
    for _ in range(3):
        with pytest.raises(StorageSilentError, match="the storage of /a has not answered yet"):
            checks.check("/a")
    storages.gates["/a"].set()
    wait_until(lambda: told(checks, "/a") == "file:///a", 60, "the answer")
    assert storages.asked == ["/a"], "a storage that hangs is not asked again and again"
    checks.close()


def test_a_storage_that_hangs_is_waited_for_once_and_holds_up_no_other(
    storages: Storages, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    storages.hang("/a", "/b", "/c")
    checks = LocationChecks(storages.check, clock, prompt_s=0.05)
    waits: list[float] = []
    wait = checks._work.wait

    def noted(future: Future[str], timeout_s: float) -> bool:
        waits.append(timeout_s)
        return wait(future, timeout_s)

    monkeypatch.setattr(checks._work, "wait", noted)
    assert [told(checks, location) for location in ("/a", "/b", "/a", "/b")] == [""] * 4
    assert waits == [0.05, HURRIED_S], "each once, and of all that hang one for long"
    wait_until(lambda: told(checks, "/d") == "file:///d", 60, "what another storage says")
    clock.advance(int(PAUSE_MS))
    waits.clear()
    assert [told(checks, location) for location in ("/a", "/b", "/c")] == [""] * 3
    assert waits == [0.05]
    checks.close()


def test_an_answer_is_used_for_a_while_and_for_longer_if_there_is_no_newer_one(
    storages: Storages, clock: ManualClock
) -> None:
    checks = LocationChecks(storages.check, clock, prompt_s=30)
    assert checks.check("/a") == "file:///a"
    storages.answers["/a"] = "file:///b"
    clock.advance(int(FRESH_MS))
    assert checks.check("/a") == "file:///a"
    clock.advance(1)
    assert checks.check("/a") == "file:///b"
    storages.hang("/a")
    checks._prompt_s = 0.01
    clock.advance(int(KEPT_MS))
    assert checks.check("/a") == "file:///b"
    clock.advance(1)
    with pytest.raises(StorageSilentError):
        checks.check("/a")
    checks.close()


def test_an_answer_that_nobody_has_asked_for_in_time_is_not_used(storages: Storages, clock: ManualClock) -> None:
    storages.hang("/a", "/b")
    checks = LocationChecks(storages.check, clock, prompt_s=0.01)
    assert [told(checks, location) for location in ("/a", "/b")] == ["", ""]
    for location in ("/a", "/b"):
        storages.gates.pop(location).set()
    wait_until(lambda: all(asked.answered_ms is not None for asked in checks._asked.values()), 60, "the answers")
    clock.advance(int(KEPT_MS) + 1)
    storages.answers["/a"] = "file:///c"
    wait_until(lambda: told(checks, "/a") == "file:///c", 60, "the answer of now")
    assert not checks._asked, "nor are others kept"
    checks.close()


def test_slow_answers_of_many_are_waited_for_no_longer_than_one_that_does_not_come(
    storages: Storages, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(location: str) -> str:
        clock.advance(400)
        return storages.check(location)

    checks = LocationChecks(check, clock, prompt_s=300)
    waits: list[float] = []
    wait = checks._work.wait

    def noted(future: Future[str], timeout_s: float) -> bool:
        waits.append(timeout_s)
        return wait(future, timeout_s)

    monkeypatch.setattr(checks._work, "wait", noted)
    for location in ("/a", "/b", "/c"):
        assert checks.check(location) == f"file://{location}"
    assert waits == pytest.approx([300, 299.6, 299.2])
    clock.advance(int(PAUSE_MS))
    checks.check("/d")
    assert waits[-1] == 300
    checks.close()


def test_the_names_on_one_storage_that_hangs_do_not_hold_up_another(storages: Storages, clock: ManualClock) -> None:
    names = [f"s3://hung/{number}" for number in range(MAX_THREADS + 1)]
    storages.hang(*names)
    checks = LocationChecks(storages.check, clock, prompt_s=0.01)
    assert not any(told(checks, name) for name in names)
    wait_until(lambda: told(checks, "s3://other/a") != "", 60, "what another storage says")
    checks.close()
