"""BackgroundWork: work on slow storage, one piece after the other, by a thread that no process waits for at its end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class BackgroundWork:
    """Submitted and closed by one thread.

    Args:
        name: of the thread, which the first work starts.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._submitted: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Do the work when all that was submitted before is done."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)

        if self._thread is None:
            # a daemon: a process whose storage does not answer must be able to end
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._submitted.put(run)
        return future

    def close(self) -> None:
        """Begin no further work; what is being done runs on."""
        self._is_closed = True
        self._submitted.put(None)

    def _run(self) -> None:
        while (run := self._submitted.get()) is not None and not self._is_closed:
            run()
