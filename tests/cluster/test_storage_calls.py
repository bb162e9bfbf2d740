"""Calls of web requests to storages that answer at once, late, or never."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from backend.cluster import storage_calls
from backend.cluster.location_checks import PROMPT_S, StorageSilentError
from backend.cluster.storage_calls import StorageCalls, ask_location, check_in_time
from runtime.checkpoint.errors import LocationNotAllowedError
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens at the end of the test at the latest, and all calls end."""
    made = threading.Event()
    yield made
    made.set()
    wait_until(lambda: threads() == 0, 10, "the ends of all calls")


def hanging(gate: threading.Event) -> Callable[[], str]:
    def call() -> str:
        assert gate.wait(60)
        return "late"

    return call


def threads() -> int:
    return sum(thread.name == "storage-calls" for thread in threading.enumerate())


def test_answers_and_errors_are_those_of_the_call() -> None:
    calls = StorageCalls()
    assert calls.ask("a", lambda: 5) == 5
    with pytest.raises(FileNotFoundError):
        calls.ask("a", (Path("/nowhere") / "at all").stat)


def test_a_storage_that_hangs_is_named_and_waited_for_no_longer_than_that(gate: threading.Event) -> None:
    calls = StorageCalls(answer_s=0.05)
    with pytest.raises(StorageSilentError, match="the storage of logs has not answered yet"):
        calls.ask("logs", hanging(gate))
    with pytest.raises(StorageSilentError, match="my words"):
        calls.ask("logs", hanging(gate), told="my words")


def test_a_storage_that_hangs_takes_its_places_and_holds_up_no_other_one(gate: threading.Event) -> None:
    calls = StorageCalls(answer_s=0.05, places=3)
    for _ in range(10):
        with pytest.raises(StorageSilentError):
            calls.ask("a", hanging(gate))
    assert threads() == 3
    assert calls.ask("b", lambda: "b", answer_s=30) == "b"
    # it is not even asked
    asked: list[int] = []
    begun = time.monotonic()
    with pytest.raises(StorageSilentError):
        calls.ask("a", lambda: asked.append(1), answer_s=60)
    assert not asked
    assert time.monotonic() - begun < 30
    gate.set()
    wait_until(lambda: threads() == 0, 10, "the late answers")
    assert calls.ask("a", lambda: "a", answer_s=30) == "a"


def test_while_a_call_is_overdue_others_wait_but_briefly(gate: threading.Event) -> None:
    calls = StorageCalls(answer_s=60)
    with pytest.raises(StorageSilentError):
        calls.ask("a", hanging(gate), answer_s=0.01)
    begun = time.monotonic()
    with pytest.raises(StorageSilentError):
        calls.ask("a", hanging(gate))
    assert PROMPT_S * 0.9 < time.monotonic() - begun < 30
    assert calls.ask("a", lambda: "what answers is heard") == "what answers is heard"


def test_a_call_that_may_take_long_is_not_cut_short_by_one_that_never_returns(gate: threading.Event) -> None:
    calls = StorageCalls(answer_s=30)
    with pytest.raises(StorageSilentError):
        calls.ask("a", hanging(gate), answer_s=0.01)
    slow = threading.Event()
    timer = threading.Timer(PROMPT_S * 1.5, slow.set)
    timer.start()
    assert calls.ask("a", lambda: slow.wait(60), answer_s=300)
    timer.join()


def test_more_calls_than_places_are_made_one_after_the_other(gate: threading.Event) -> None:
    calls = StorageCalls(answer_s=60, places=1)
    answers: list[str] = []
    askers = [threading.Thread(target=lambda: answers.append(calls.ask("a", hanging(gate)))) for _ in range(4)]
    for asker in askers:
        asker.start()
    wait_until(lambda: threads() == 1, 10, "the first call")
    gate.set()
    for asker in askers:
        asker.join(30)
    assert answers == ["late"] * 4


def test_locations_on_the_same_root_share_its_places(
    home: Path, settings: Settings, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TIDEMARK_STORAGE_ROOTS = ["/mnt/a", "/mnt/a/b", "/mnt/c"]
    monkeypatch.setattr(storage_calls, "_calls", StorageCalls(answer_s=0.01, places=1))
    for location in ("/mnt/a/x", "/mnt/a/b/x", "/elsewhere", "/mnt/ax"):
        with pytest.raises(StorageSilentError, match=location):
            ask_location(location, hanging(gate))
    assert threads() == 3
    assert ask_location("/mnt/c/x", lambda: "c", answer_s=30) == "c"
    for location in ("file:///mnt/a", "/mnt/a/y", "ftp://x/y"):
        with pytest.raises(StorageSilentError):
            ask_location(location, lambda: "not asked")


def test_a_location_is_checked_in_time(home: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    share = home / "share"
    share.mkdir()
    settings.TIDEMARK_STORAGE_ROOTS = [str(share)]
    assert check_in_time(str(share / "x")) == (share / "x").as_uri()
    with pytest.raises(LocationNotAllowedError):
        check_in_time("/etc")
    storage = HungStorage(share, monkeypatch)
    storage.hang()
    monkeypatch.setattr(storage_calls, "_calls", StorageCalls(answer_s=0.05))
    with pytest.raises(StorageSilentError, match="share/x"):
        check_in_time(str(share / "x"))
    storage.answer()
    monkeypatch.setattr(storage_calls, "_calls", StorageCalls())
    assert check_in_time(str(share / "x")) == (share / "x").as_uri()
    assert not storage.touched
