"""Work in the background: in order within a lane, and held up by no other lane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from backend.cluster.background import MAX_THREADS, BackgroundWork


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opens at the latest when the test ends."""
    made = threading.Event()
    yield made
    made.set()


def test_a_lane_that_hangs_holds_up_its_own_work_and_no_other(gate: threading.Event) -> None:
    work, done = BackgroundWork("storage"), list[str]()
    hangs = work.submit(gate.wait, "a")
    behind = work.submit(lambda: done.append("a"), "a")
    work.submit(lambda: done.append("b"), "b").result(10)
    assert done == ["b"] and not work.is_idle
    assert not work.wait(behind, 0.01)
    gate.set()
    assert work.wait(behind, 10) and hangs.done()
    assert done == ["b", "a"]


def test_work_of_a_lane_is_done_in_order(gate: threading.Event) -> None:
    work, done = BackgroundWork("storage"), list[int]()
    work.submit(gate.wait, "a")
    pieces = [work.submit(partial(done.append, number), "a") for number in range(20)]
    gate.set()
    pieces[-1].result(10)
    assert done == list(range(20))


def test_more_lanes_than_threads_wait_for_one(gate: threading.Event) -> None:
    work = BackgroundWork("storage", max_threads=2)
    hung = [work.submit(gate.wait, lane) for lane in ("a", "b")]
    waits = [work.submit(lambda: threading.current_thread().name, lane) for lane in ("c", "d", "c")]
    assert not work.wait(waits[0], 0.05)
    gate.set()
    assert [future.result(10) for future in waits] == ["storage"] * 3
    assert all(future.result(10) for future in hung)


def test_nothing_is_begun_once_it_is_closed(gate: threading.Event) -> None:
    work = BackgroundWork("storage")
    running = work.submit(gate.wait, "a")
    behind = work.submit(lambda: None, "a")
    work.close()
    late = work.submit(lambda: None, "b")
    gate.set()
    assert running.result(10)
    assert not work.wait(behind, 0.05) and not late.done()


def test_work_for_which_there_is_no_thread_is_refused_and_may_be_submitted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = BackgroundWork("storage", max_threads=1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            work.submit(lambda: 1, "a")
    assert work.submit(lambda: 2, "a").result(10) == 2


def test_the_lanes_of_one_storage_take_only_a_part_of_the_threads(gate: threading.Event) -> None:
    work = BackgroundWork("storage")
    hung = [work.submit(gate.wait, f"a{number}", "a") for number in range(MAX_THREADS + 1)]
    assert work.submit(lambda: 1, "b", "b").result(10) == 1
    gate.set()
    assert all(future.result(10) for future in hung)
    assert not work._tended and not work._storages
