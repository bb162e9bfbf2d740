"""Turns of programs that are looked at: order, bounds, and when to come again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from backend.dispatcher.planning_queue import FIRST_GUESS_S, WEIGHT, ClientLeftError, PlanningQueue, QueueFullError
from tests.support.waiting import wait_until


def test_turns_are_taken_first_come_first_served() -> None:
    queue = PlanningQueue(turns=2, max_waiting=18, max_wait_s=30)
    gate = threading.Event()
    order: list[int] = []
    at_once: list[int] = []

    def come(number: int) -> None:
        with queue.turn():
            order.append(number)
            at_once.append(queue._running)
            gate.wait(10)

    with ThreadPoolExecutor(20) as pool:
        futures = []
        for number in range(20):
            futures.append(pool.submit(come, number))
            wait_until(lambda n=number: len(order) + queue.waiting == n + 1, 5, "it has come")  # type: ignore[misc]
        assert queue.waiting == 18
        gate.set()
        for future in futures:
            future.result(10)
    assert sorted(order[:2]) == [0, 1] and max(at_once) == 2
    # two threads that are let in together may note it in either order
    assert all(abs(place - number) <= 1 for place, number in enumerate(order))
    assert queue.waiting == 0


def test_who_finds_the_queue_full_is_told_when_to_come_again() -> None:
    queue = PlanningQueue(turns=1, max_waiting=0, max_wait_s=30)
    with queue.turn(), pytest.raises(QueueFullError) as refused, queue.turn():
        pass
    assert refused.value.retry_after_s == 1 and "0 other programs wait" in str(refused.value)


def test_nobody_waits_longer_than_the_limit() -> None:
    queue = PlanningQueue(turns=1, max_waiting=5, max_wait_s=0.05)
    with queue.turn():
        with pytest.raises(QueueFullError) as refused, queue.turn():
            pass
        assert queue.waiting == 0
    assert refused.value.retry_after_s == FIRST_GUESS_S and str(refused.value) == (
        "1 other program waits to be planned: try again in 5 s."
    )
    with queue.turn():
        pass


def test_a_client_that_leaves_gives_up_its_place() -> None:
    queue = PlanningQueue(turns=1, max_waiting=1, max_wait_s=30)
    left = threading.Event()

    def come() -> None:
        with queue.turn(left.is_set):
            raise AssertionError("it has no turn")

    with ThreadPoolExecutor(1) as pool:
        with queue.turn():
            waiting = pool.submit(come)
            wait_until(lambda: queue.waiting == 1, 5, "it waits")
            left.set()
            assert isinstance(waiting.exception(10), ClientLeftError)
        assert queue.waiting == 0
        with queue.turn(left.is_set):
            pass


def test_when_to_come_again_follows_from_how_long_turns_take() -> None:
    now = [0.0]
    queue = PlanningQueue(turns=1, max_waiting=5, max_wait_s=0.05, monotonic=lambda: now[0])
    with queue.turn():
        now[0] += 45.0
    expected = FIRST_GUESS_S + WEIGHT * (45 - FIRST_GUESS_S)
    with queue.turn(), pytest.raises(QueueFullError) as refused, queue.turn():
        pass
    assert refused.value.retry_after_s == expected


def test_a_program_that_fails_gives_its_turn_back() -> None:
    queue = PlanningQueue(turns=1, max_waiting=1, max_wait_s=5)
    with pytest.raises(ValueError, match="broken"), queue.turn():
        raise ValueError("broken")
    with queue.turn():
        pass
