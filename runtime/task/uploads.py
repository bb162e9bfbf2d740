"""Uploads: where the slow part of snapshots is done. A slot has one; its tasks hand their work to it.

Threads by default, daemons: a storage that hangs must not keep a process from ending. `InlineUploads` does the work at
once, in the caller's thread, so that a cluster in one loop stays deterministic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol


class Uploads(Protocol):
    """Runs actions that write to storage."""

    def submit(self, action: Callable[[], None]) -> None:
        """Have `action` run, now or later, in any thread; it must not raise."""

    def close(self) -> None:
        """Run nothing more; what is running is left to itself. Idempotent."""


class InlineUploads:
    """Runs them where they are submitted."""

    def submit(self, action: Callable[[], None]) -> None:
        action()

    def close(self) -> None:
        """Nothing to do."""


class UploadThreads:
    """A few threads, started when there is something to do.

    Args:
        num_threads: two let a small task's part pass a large one's; more would only fight for the interpreter.
        name: of the threads.
    """

    def __init__(self, name: str, num_threads: int = 2) -> None:
        self._name = name
        self._num_threads = num_threads
        self._actions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, action: Callable[[], None]) -> None:
        """Called by the loop's thread only."""
        if self._closed:
            return
        self._actions.put(action)
        if len(self._threads) < self._num_threads:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        self._closed = True
        for _ in self._threads:
            self._actions.put(None)

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            if not self._closed:
                action()
