"""Uploads: in threads or at once; nothing runs after the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from runtime.task.uploads import InlineUploads, StorageHangsError, UploadThreads
from tests.support.waiting import wait_until


def running(name: str) -> int:
    """Return the number of upload threads with that name; other threads of the process do not matter."""
    return sum(thread.name.startswith(f"{name}-") for thread in threading.enumerate())


def test_actions_run_in_threads_that_are_started_when_there_is_something_to_do() -> None:
    uploads = UploadThreads("started-late", num_threads=2)
    assert running("started-late") == 0
    both = threading.Barrier(2)
    names: set[str] = set()

    def meet() -> None:
        both.wait(30)
        names.add(threading.current_thread().name)

    uploads.submit(meet)
    uploads.submit(meet)
    wait_until(lambda: len(names) == 2, 30, "both uploads at once")
    assert running("started-late") == 2
    uploads.close()
    wait_until(lambda: running("started-late") == 0, 30, "the threads' end")


def test_what_has_not_begun_when_the_slot_ends_is_left_out() -> None:
    uploads = UploadThreads("uploads", num_threads=1)
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold() -> None:
        begun.set()
        may_end.wait(30)
        ran.append("first")

    uploads.submit(hold)
    assert begun.wait(30)
    uploads.submit(lambda: ran.append("second"))
    uploads.close()
    uploads.submit(lambda: ran.append("third"))
    may_end.set()
    wait_until(lambda: ran == ["first"], 30, "the first one's end")
    wait_until(lambda: running("uploads") == 0, 30, "the thread's end")
    assert ran == ["first"]


class Hanging:
    """Actions that hang until they may end."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.num_begun = 0
        self.num_ended = 0

    def __call__(self) -> None:
        self.num_begun += 1
        self.may_end.wait(60)
        self.num_ended += 1

    def begin(self, uploads: UploadThreads, number: int) -> Callable[[], None]:
        action = partial(self)
        uploads.submit(action)
        wait_until(lambda: self.num_begun == number, 30, "the upload's begin")
        return action


def test_an_upload_that_hangs_holds_up_no_other_one() -> None:
    uploads, hanging = UploadThreads("hanging", num_threads=1, max_hanging=2), Hanging()
    ended: list[str] = []
    first = hanging.begin(uploads, 1)
    uploads.submit(partial(ended.append, "behind the first"))
    # what waits behind it is run once nobody waits for it any more
    uploads.abandon(first)
    wait_until(lambda: len(ended) == 1, 30, "the one behind the first")
    uploads.abandon(hanging.begin(uploads, 2))
    uploads.submit(partial(ended.append, "behind the second"))
    wait_until(lambda: len(ended) == 2, 30, "the one behind the second")
    third = hanging.begin(uploads, 3)
    with pytest.raises(StorageHangsError, match="does not answer: 3 uploads"):
        uploads.abandon(third)
    # those that end after all are forgotten, and their threads with them
    hanging.may_end.set()
    wait_until(lambda: hanging.num_ended == 3 and running("hanging") == 0, 30, "the end of those that hung")
    uploads.abandon(hanging.begin(uploads, 4))
    uploads.submit(partial(ended.append, "last"))
    wait_until(lambda: ended[-1] == "last", 30, "a further one")
    uploads.close()
    wait_until(lambda: running("hanging") == 0, 30, "the threads' end")


def test_what_has_ended_or_not_begun_is_not_said_to_hang() -> None:
    uploads = UploadThreads("quick", num_threads=1, max_hanging=0)
    ended: list[str] = []
    first, second = partial(ended.append, "first"), partial(ended.append, "second")
    uploads.submit(first)
    wait_until(lambda: ended == ["first"], 30, "the first one's end")
    uploads.submit(second)
    wait_until(lambda: ended == ["first", "second"], 30, "the second one's end")
    uploads.abandon(first)
    uploads.abandon(partial(ended.append, "never"))
    uploads.close()
    wait_until(lambda: running("quick") == 0, 30, "the thread's end")


def test_inline_uploads_run_where_they_are_submitted() -> None:
    uploads = InlineUploads()
    where: list[threading.Thread] = []
    uploads.submit(lambda: where.append(threading.current_thread()))
    assert where == [threading.current_thread()]
    uploads.close()
