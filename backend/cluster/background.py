"""BackgroundWork: work on storages that may be slow, or never answer, by threads that no process waits for at its end.

Work in the same lane is done in order, one piece after the other. A lane whose storage does not answer holds up no
other one, as long as there are threads, of which one storage takes only a part; a lane with nothing to do has none.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

#: lanes that are at work at the same time. Fewer: some storages that hang hold up all others; more: each name of a
#: storage that hangs costs the process a thread
MAX_THREADS = 64
#: those of them that are on one storage. Fewer: what is far away is slow; more: the names on some storages that hang
#: take all threads
MAX_THREADS_OF_STORAGE = 16


class BackgroundWork:
    """Submitted and closed by one thread.

    Args:
        name: of the threads, which work starts when it is submitted.
        max_threads: maximum number of threads; further lanes wait for one.
    """

    def __init__(self, name: str, max_threads: int = MAX_THREADS) -> None:
        self._name = name
        self._max_threads = max_threads
        self._lock = threading.Lock()
        #: guarded by the lock: lane → its work that is not begun; a lane is here until all of it is done
        self._lanes: dict[str, deque[Callable[[], None]]] = {}
        #: guarded by the lock: those that no thread is at
        self._untended: deque[str] = deque()
        #: guarded by the lock: lane → its storage; and how many lanes of each storage a thread is at
        self._storages: dict[str, str] = {}
        self._tended: Counter[str] = Counter()
        self._num_threads = 0
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """True if all that was submitted is done."""
        with self._lock:
            return not self._lanes

    def submit(self, work: Callable[[], T], lane: str = "", storage: str = "") -> Future[T]:
        """Do the work when all that was submitted before in its lane is done.

        Args:
            work: what is to be done.
            lane: its lane.
            storage: names the storage of the lane; empty: nothing else is on it.

        Raises:
            RuntimeError: the process cannot have another thread; nothing is done.
        """
        future: Future[T] = Future()
        storage = storage or lane

        def run() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        with self._lock:
            if lane in self._lanes:
                self._lanes[lane].append(run)
                return future
            self._lanes[lane] = deque([run])
            self._storages[lane] = storage
            self._untended.append(lane)
            if self._num_threads == self._max_threads or self._tended[storage] >= MAX_THREADS_OF_STORAGE:
                return future
            self._num_threads += 1
        try:
            # a daemon: a process whose storage does not answer must be able to end
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            self._no_thread(lane)
            raise
        return future

    def wait(self, future: Future[Any], timeout_s: float) -> bool:
        """Wait until work is done; return whether it is."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        return done.wait(timeout_s)

    def close(self) -> None:
        """Begin no further work; what is being done runs on."""
        self._is_closed = True

    def _run(self) -> None:
        lane: str | None = None
        while True:
            with self._lock:
                if lane is not None and not self._lanes[lane]:
                    del self._lanes[lane]
                    self._tended -= Counter((self._storages.pop(lane),))
                    lane = None
                if lane is None:
                    lane = self._take_lane()
                if lane is None or self._is_closed:
                    self._num_threads -= 1
                    return
                run = self._lanes[lane].popleft()
            run()

    def _take_lane(self) -> str | None:
        """Return the oldest lane that no thread is at and whose storage has not enough of them; the lock is held."""
        for lane in self._untended:
            storage = self._storages[lane]
            if self._tended[storage] < MAX_THREADS_OF_STORAGE:
                self._untended.remove(lane)
                self._tended[storage] += 1
                return lane
        return None

    def _no_thread(self, lane: str) -> None:
        """Take back the work for which there is no thread, unless another one has begun it meanwhile."""
        with self._lock:
            self._num_threads -= 1
            if lane in self._untended:
                self._untended.remove(lane)
                del self._lanes[lane], self._storages[lane]
