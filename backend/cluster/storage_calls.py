"""Calls of web requests to storages that may never answer: made by threads, and waited for only so long.

A share whose server is gone keeps whoever asks it anything. So a few threads per storage ask for all requests; one that
gets no answer in time is told which storage is silent (`StorageSilentError`, a 503). While a call is overdue, others
wait for that storage but briefly, and not at all once its places are taken. The leader's loop has `location_checks` for
the same. Any thread; calls must not use the database.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from backend.cluster.background import BackgroundWork
from backend.cluster.checkpoint_home import check_location, cluster_storage
from backend.cluster.location_checks import PROMPT_S, StorageSilentError
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import to_uri

T = TypeVar("T")

LOGS: Final = "logs"
"""Storage of the logs of jobs, in words for users."""
PROGRAMS: Final = "uploaded programs"
"""Storage of uploaded programs, in words for users."""

ANSWER_S: Final = 10.0
"""Wait for an answer. Shorter: a share that is only busy is taken for one that hangs; longer: users think that the page
hangs."""
STORED_S: Final = 300.0
"""Wait until a program is stored, which has 256 MiB at most; what comes of it later is swept. Shorter: slow storages
take no large ones."""
PLACES: Final = 8
"""Calls to one storage at a time; more wait. Fewer: a slow storage makes requests wait for each other; more: each costs
a thread as long as the storage hangs."""


@dataclass(slots=True, eq=False)
class _Call(Generic[T]):
    answer: Future[T]
    is_overdue: bool = False
    """Guarded by the condition: nobody waits for it any more."""


class StorageCalls:
    """The calls of one process.

    Args:
        answer_s: how long an answer is waited for.
        places: maximum number of calls to a storage at a time.
    """

    def __init__(self, answer_s: float = ANSWER_S, places: int = PLACES) -> None:
        self._answer_s = answer_s
        self._places = places
        self._work = BackgroundWork("storage-calls")
        self._changed = threading.Condition()
        #: guarded by it: storage → its places that are taken
        self._taken: dict[str, set[int]] = {}
        #: guarded by it: storage → calls that were not waited for to the end
        self._overdue: Counter[str] = Counter()

    def ask(self, storage: str, call: Callable[[], T], *, told: str = "", answer_s: float | None = None) -> T:
        """Return what a call to a storage returns, or raise what it raises.

        Args:
            storage: the storage, by whatever tells it from others.
            call: makes the call, for as long as that takes.
            told: the storage in words for users; empty: `storage`.
            answer_s: how long the answer is waited for; None: as usual.

        Raises:
            StorageSilentError: there is no answer yet; nobody hears of it any more.
        """
        deadline = time.monotonic() + (self._answer_s if answer_s is None else answer_s)
        silent = StorageSilentError(told or storage)
        with self._changed:
            if self._overdue[storage]:
                # a storage that hangs takes no upload either, but one dead handle is no such storage
                is_long = answer_s is not None and answer_s > self._answer_s
                deadline = min(deadline, time.monotonic() + (self._answer_s if is_long else PROMPT_S))
            while not self._has_place(storage):
                if self._overdue[storage] >= self._places or not self._changed.wait(deadline - time.monotonic()):
                    raise silent
            begun = self._begin(storage, call, silent)
        if not self._work.wait(begun.answer, max(0.0, deadline - time.monotonic())):
            with self._changed:
                if not begun.answer.done():
                    begun.is_overdue = True
                    self._overdue[storage] += 1
                    self._changed.notify_all()
                    raise silent
        return begun.answer.result()

    def _has_place(self, storage: str) -> bool:
        return len(self._taken.get(storage, ())) < self._places

    def _begin(self, storage: str, call: Callable[[], T], silent: StorageSilentError) -> _Call[T]:
        taken = self._taken.setdefault(storage, set())
        place = min(set(range(self._places)) - taken)
        try:
            # a lane of its own: it waits for no other call
            begun = _Call(self._work.submit(call, f"{place} {storage}"))
        except RuntimeError as error:
            # there is no thread for it now
            raise silent from error
        taken.add(place)
        begun.answer.add_done_callback(lambda _: self._done(storage, place, begun))
        return begun

    def _done(self, storage: str, place: int, done: _Call[Any]) -> None:
        with self._changed:
            self._taken[storage].discard(place)
            if done.is_overdue:
                self._overdue[storage] -= 1
            self._changed.notify_all()


def ask(storage: str, call: Callable[[], T], *, told: str = "", answer_s: float | None = None) -> T:
    """Ask a storage for this process's web requests; see `StorageCalls.ask`."""
    return _calls.ask(storage, call, told=told, answer_s=answer_s)


def ask_location(location: str, call: Callable[[], T], *, answer_s: float | None = None) -> T:
    """Ask the storage of a location that a user has named; see `StorageCalls.ask`."""
    return ask(_storage_of(location), call, told=location, answer_s=answer_s)


def check_in_time(location: str) -> str:
    """Return a location as a resolved URI, as `check_location` does.

    Raises:
        StorageSilentError: its storage has not answered yet.
        CheckpointStorageError: it is not allowed, or there can be no checkpoints.
    """
    return ask_location(location, lambda: check_location(location))


def _storage_of(location: str) -> str:
    """Return the allowed root that a location is literally below; "": none. Does not look at it."""
    try:
        uri = to_uri(location)
    except CheckpointStorageError:
        return ""
    roots = cluster_storage().allowed.roots or ()
    return max((root for root in roots if uri == root or uri.startswith(f"{root}/")), key=len, default="")


_calls = StorageCalls()
