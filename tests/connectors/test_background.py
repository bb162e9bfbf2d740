"""Work on other threads: what it gives and what it raises arrives, and no thread outlives its owner."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from runtime.connectors.background import BackgroundCall, BackgroundWriter, ReadAhead
from tests.support.waiting import wait_until


def fail() -> int:
    raise OSError("broken")


def test_a_call_gives_its_result_or_its_error() -> None:
    call = BackgroundCall("test", lambda: 7)
    wait_until(lambda: call.is_done, 5, "the call")
    assert call.result() == 7
    failed = BackgroundCall("test", fail)
    with pytest.raises(OSError, match="broken"):
        failed.result()
    failed.close()


def take_all(ahead: ReadAhead[int]) -> list[int]:
    items: list[int] = []

    def is_done() -> bool:
        while (item := ahead.take()) is not None:
            items.append(item)
        return ahead.is_exhausted

    wait_until(is_done, 5, "the end")
    return items


def test_reading_ahead_keeps_the_order_and_ends() -> None:
    ahead = ReadAhead("test", lambda stop: iter(range(50)), capacity=2)
    assert take_all(ahead) == list(range(50))
    ahead.close()


def test_reading_ahead_is_bounded_and_stops() -> None:
    given: list[int] = []
    ended = threading.Event()

    def produce(stop: threading.Event) -> Iterator[int]:
        try:
            for i in range(1000):
                given.append(i)
                yield i
        finally:
            ended.set()

    ahead = ReadAhead("test", produce, capacity=3)
    wait_until(lambda: len(given) == 4, 5, "a full queue")
    assert ahead.take() == 0
    ahead.close()
    assert ended.is_set()
    assert len(given) <= 5


def test_an_error_comes_behind_what_was_read_before_it() -> None:
    def produce(stop: threading.Event) -> Iterator[int]:
        yield 1
        raise OSError("broken")

    ahead = ReadAhead("test", produce)
    seen: list[object] = []

    def is_told() -> bool:
        try:
            seen.append(ahead.take())
        except OSError as error:
            seen.append(str(error))
            return True
        return False

    wait_until(is_told, 5, "the error")
    assert [item for item in seen if item is not None] == [1, "broken"]
    assert not ahead.is_exhausted
    ahead.close()


def test_writing_behind_takes_what_waits_in_one_go() -> None:
    may_write, written = threading.Event(), []

    def write(items: list[int]) -> None:
        may_write.wait(5)
        written.append(items)

    writer = BackgroundWriter("test", write, capacity=2)
    writer.submit(1)
    wait_until(writer.is_available, 5, "the thread has taken the item")
    wait_until(lambda: not writer._waiting, 5, "the thread has taken the item")
    writer.submit(2)
    writer.submit(3)
    assert not writer.is_available()
    may_write.set()
    writer.drain()
    assert written == [[1], [2, 3]]
    writer.close()
    writer.close()


def test_an_error_of_writing_is_raised_at_the_next_call() -> None:
    closed: list[bool] = []

    def write(items: list[int]) -> None:
        raise OSError("broken")

    writer = BackgroundWriter("test", write, close=lambda: closed.append(True))
    writer.submit(1)
    with pytest.raises(OSError, match="broken"):
        writer.drain()
    with pytest.raises(OSError, match="broken"):
        writer.submit(2)
    assert writer.is_available()
    writer.close()
    assert closed == [True]
