"""What other threads have for a slot's loop."""

from __future__ import annotations

import threading

from runtime.task.loop_inbox import LoopInbox


def test_actions_run_in_order_and_what_they_post_comes_next_time() -> None:
    inbox = LoopInbox()
    story: list[str] = []

    def first() -> None:
        story.append("first")
        inbox.post(lambda: story.append("third"))

    inbox.post(first)
    inbox.post(lambda: story.append("second"))
    assert inbox
    assert inbox.run()
    assert story == ["first", "second"]
    assert inbox.run()
    assert story == ["first", "second", "third"]
    assert not inbox
    assert not inbox.run()


def test_a_wait_ends_when_another_thread_posts() -> None:
    inbox = LoopInbox()
    posting = threading.Thread(target=lambda: inbox.post(lambda: None))
    posting.start()
    inbox.wait(60_000)
    posting.join()
    assert inbox


def test_a_wake_up_that_comes_before_the_wait_is_not_lost_and_counts_once() -> None:
    inbox = LoopInbox()
    inbox.wake()
    inbox.interrupt()
    inbox.wait(60_000)
    inbox.wait(0)
    assert not inbox


def test_a_loop_that_steps_several_slots_is_told_of_wake_ups_and_mail_but_not_of_messages() -> None:
    inbox = LoopInbox()
    told: list[str] = []
    inbox.on_wake(lambda: told.append("woken"))
    inbox.wake()
    inbox.post(lambda: None)
    assert told == ["woken"] * 2
    inbox.interrupt()
    assert told == ["woken"] * 2
