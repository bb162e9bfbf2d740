"""Uploads: runs the slow part of snapshots. A slot has one; its tasks hand their work to it.

Threads by default, daemons: a storage that hangs must not keep a process from ending, nor, while only some calls of it
hang, later snapshots from being written. `InlineUploads` does the work at once, in the caller's thread, so that a
cluster in one loop stays deterministic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Protocol

MAX_HANGING: Final = 4
"""Uploads of a slot that may hang although nobody waits for them. Fewer, and a job fails for a storage that is slow
once; more, and memory holds more snapshots that nobody wants: each keeps what it writes."""


class StorageHangsError(Exception):
    """The checkpoint storage answers neither yes nor no."""

    #: reports show the message alone, without the task and this class
    is_self_explanatory = True

    def __init__(self, num_hanging: int) -> None:
        super().__init__(
            f"the checkpoint storage does not answer: {num_hanging} uploads of checkpoints that were given up long ago "
            "have not ended"
        )


class Uploads(Protocol):
    """Runs actions that write to storage."""

    def submit(self, action: Callable[[], None]) -> None:
        """Have `action` run, now or later, in any thread; it must not raise."""

    def abandon(self, action: Callable[[], None]) -> None:
        """Note that nobody waits for `action` any more: others need not either, should it never end.

        Raises:
            StorageHangsError: too many of them have not ended.
        """

    def close(self) -> None:
        """Run nothing more; running actions are left to themselves. Idempotent."""


class InlineUploads:
    """Runs actions where they are submitted."""

    def submit(self, action: Callable[[], None]) -> None:
        action()

    def abandon(self, action: Callable[[], None]) -> None:
        """Do nothing: the action has ended."""

    def close(self) -> None:
        """Do nothing."""


class UploadThreads:
    """A few threads, started when there is something to do; another one for each whose action was abandoned.

    All methods are called by the loop's thread only.

    Args:
        num_threads: two let a small task's part pass a large one's; more would only fight for the interpreter.
        name: of the threads.
        max_hanging: abandoned actions that may not have ended.
    """

    def __init__(self, name: str, num_threads: int = 2, max_hanging: int = MAX_HANGING) -> None:
        self._name = name
        self._num_threads = num_threads
        self._max_hanging = max_hanging
        self._actions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._num_started = 0
        self._lock = threading.Lock()
        #: threads that take actions; guarded by the lock, as are the next two
        self._num_serving = 0
        self._running: list[Callable[[], None]] = []
        self._hanging: list[Callable[[], None]] = []

    def submit(self, action: Callable[[], None]) -> None:
        if self._closed:
            return
        self._actions.put(action)
        self._serve()

    def abandon(self, action: Callable[[], None]) -> None:
        with self._lock:
            if self._closed or action not in self._running:
                # it has ended, or has not begun and will see that nobody waits for it
                return
            self._running.remove(action)
            self._hanging.append(action)
            # its thread ends with it, another one takes its place
            self._num_serving -= 1
            num_hanging = len(self._hanging)
        if num_hanging > self._max_hanging:
            raise StorageHangsError(num_hanging)
        if not self._actions.empty():
            self._serve()

    def close(self) -> None:
        self._closed = True
        with self._lock:
            num_serving, self._num_serving = self._num_serving, 0
        for _ in range(num_serving):
            self._actions.put(None)

    def _serve(self) -> None:
        """Start a thread if there may be another one."""
        with self._lock:
            if self._num_serving >= self._num_threads:
                return
            self._num_serving += 1
        threading.Thread(target=self._run, name=f"{self._name}-{self._num_started}", daemon=True).start()
        self._num_started += 1

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            if self._closed:
                continue
            with self._lock:
                self._running.append(action)
            action()
            with self._lock:
                if action in self._hanging:
                    self._hanging.remove(action)
                    return
                self._running.remove(action)
