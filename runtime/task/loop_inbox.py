"""LoopInbox: what other threads have for a slot's loop. Any thread may post and wake; the rest is for the loop's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class LoopInbox:
    """Actions that the loop's thread is to run, and the signal that it is to look at its tasks."""

    def __init__(self) -> None:
        #: anyone appends, the loop takes
        self._posted: deque[Callable[[], None]] = deque()
        self._signal = threading.Event()
        self._on_wake: Callable[[], None] | None = None

    def __bool__(self) -> bool:
        """Return whether an action waits."""
        return bool(self._posted)

    def post(self, action: Callable[[], None]) -> None:
        """Have the loop's thread run `action` in its next turn."""
        self._posted.append(action)
        self.wake()

    def wake(self) -> None:
        """Have the loop look at its tasks."""
        self._signal.set()
        if self._on_wake is not None:
            self._on_wake()

    def on_wake(self, action: Callable[[], None]) -> None:
        """Call `action` (from any thread) with every wake-up: for a loop that steps several slots."""
        self._on_wake = action

    def interrupt(self) -> None:
        """End a `wait`, of a loop that has this inbox alone."""
        self._signal.set()

    def wait(self, timeout_ms: float) -> None:
        """Wait until the loop is woken, or has been since the last wait."""
        self._signal.wait(timeout_ms / 1000.0)
        self._signal.clear()

    def run(self) -> bool:
        """Run the actions that are there now: what they bring about comes next time. Returns whether there were any."""
        count = len(self._posted)
        for _ in range(count):
            self._posted.popleft()()
        return count > 0
