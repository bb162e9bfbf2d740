"""Uploads: in threads or at once; nothing runs after the end."""

from __future__ import annotations

import threading

from runtime.task.uploads import InlineUploads, UploadThreads
from tests.support.waiting import wait_until


def running(name: str) -> int:
    """How many threads of uploads with that name there are; others of the process come and go as they like."""
    return sum(thread.name.startswith(f"{name}-") for thread in threading.enumerate())


def test_actions_run_in_threads_that_are_started_when_there_is_something_to_do() -> None:
    uploads = UploadThreads("started-late", num_threads=2)
    assert running("started-late") == 0
    both = threading.Barrier(2)
    names: set[str] = set()

    def meet() -> None:
        both.wait(10)
        names.add(threading.current_thread().name)

    uploads.submit(meet)
    uploads.submit(meet)
    wait_until(lambda: len(names) == 2, 10, "both uploads at once")
    assert running("started-late") == 2
    uploads.close()
    wait_until(lambda: running("started-late") == 0, 10, "the threads' end")


def test_what_has_not_begun_when_the_slot_ends_is_left_out() -> None:
    uploads = UploadThreads("uploads", num_threads=1)
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold() -> None:
        begun.set()
        may_end.wait(10)
        ran.append("first")

    uploads.submit(hold)
    assert begun.wait(10)
    uploads.submit(lambda: ran.append("second"))
    uploads.close()
    uploads.submit(lambda: ran.append("third"))
    may_end.set()
    wait_until(lambda: ran == ["first"], 10, "the first one's end")
    wait_until(lambda: running("uploads") == 0, 10, "the thread's end")
    assert ran == ["first"]


def test_inline_uploads_run_where_they_are_submitted() -> None:
    uploads = InlineUploads()
    where: list[threading.Thread] = []
    uploads.submit(lambda: where.append(threading.current_thread()))
    assert where == [threading.current_thread()]
    uploads.close()
