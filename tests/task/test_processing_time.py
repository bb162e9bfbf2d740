"""TimerQueue and TaskTimers: due callbacks in time order, cancelled ones never, a stopped task's never."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from runtime.task.processing_time import TaskTimers, TimerQueue
from runtime.testing.clock import ManualClock


def fire(queue: TimerQueue) -> None:
    while (due := queue.pop_due()) is not None:
        at_ms, callback = due
        callback(at_ms)


def test_due_timers_fire_in_time_order_and_of_one_time_in_order_of_registration() -> None:
    clock = ManualClock(1000)
    queue, fired = TimerQueue(clock), list[tuple[str, int]]()

    def note(name: str, timestamp: int) -> None:
        fired.append((name, timestamp))

    for name, at_ms in (("late", 1030), ("first", 1010), ("second", 1010), ("past", 900)):
        queue.register_timer(at_ms, partial(note, name))
    fire(queue)
    assert fired == [("past", 900)]
    assert queue.wait_ms() == 10
    clock.advance(20)
    fire(queue)
    assert fired[1:] == [("first", 1010), ("second", 1010)]
    assert queue.wait_ms() == 10


def test_a_cancelled_timer_does_not_fire_even_if_a_timer_of_the_same_moment_cancels_it() -> None:
    queue, fired = TimerQueue(ManualClock()), list[str]()
    cancels: list[Callable[[], None]] = []
    queue.register_timer(0, lambda _: cancels[0]())
    cancels.append(queue.register_timer(0, lambda _: fired.append("cancelled")))
    fire(queue)
    assert fired == []
    assert queue.wait_ms() is None


def test_a_timer_may_register_the_next_one() -> None:
    queue, fired = TimerQueue(ManualClock()), list[int]()

    def again(at_ms: int) -> None:
        fired.append(at_ms)
        if at_ms > -3:
            queue.register_timer(at_ms - 1, again)

    queue.register_timer(0, again)
    fire(queue)
    assert fired == [0, -1, -2, -3]


def test_a_stopped_task_fires_nothing_while_others_go_on() -> None:
    queue, fired = TimerQueue(ManualClock()), list[str]()
    one, two = TaskTimers(queue, lambda action: action()), TaskTimers(queue, lambda action: action())
    one.register_timer(0, lambda _: fired.append("one"))
    two.register_timer(0, lambda _: fired.append("two"))
    one.stop()
    fire(queue)
    assert fired == ["two"]
    assert two.now_ms() == 0


def test_a_wall_clock_that_is_set_back_holds_up_no_timer_and_none_fires_twice() -> None:
    clock = ManualClock(10_000_000)
    queue, fired = TimerQueue(clock), list[int]()
    queue.register_timer(10_000_030, fired.append)
    clock.jump(-3_600_000)
    assert queue.wait_ms() == 30
    clock.advance(30)
    fire(queue)
    assert fired == [10_000_030]
    clock.jump(3_600_000)
    fire(queue)
    assert fired == [10_000_030]


def test_a_wall_clock_that_is_set_ahead_makes_timers_due() -> None:
    clock = ManualClock(1000)
    queue, fired = TimerQueue(clock), list[int]()
    queue.register_timer(2000, fired.append)
    clock.jump(5000)
    fire(queue)
    assert fired == [2000]
