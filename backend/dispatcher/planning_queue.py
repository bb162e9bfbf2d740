"""PlanningQueue: limits how many programs are planned at a time and how many may wait. Any thread.

Planning a program takes a Python process with the engine, so programs take turns, first come, first served. A client
that finds the queue full, or gets no turn in time, is told when to retry, estimated from recent turns. A client that
leaves gives up its place.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FIRST_GUESS_S: Final = 5.0
"""Assumed duration of a turn until there has been one."""
CHECK_S: Final = 0.25
"""Interval of asking whether a waiting client has left. Longer: turns go to clients that are gone."""
WEIGHT: Final = 0.3
"""Weight of the newest turn in the average. Larger: one slow program turns clients away; smaller: it adapts late."""


class QueueFullError(Exception):
    """No turn is available now.

    Attributes:
        waiting: number of programs that wait.
        retry_after_s: time until the client should retry, >= 1.
    """

    def __init__(self, waiting: int, retry_after_s: int) -> None:
        super().__init__(
            f"{waiting} other program{' waits' if waiting == 1 else 's wait'} to be planned: "
            f"try again in {retry_after_s} s."
        )
        self.waiting = waiting
        self.retry_after_s = retry_after_s


class ClientLeftError(Exception):
    """The client left before its turn."""


class PlanningQueue:
    """The planning turns of one process.

    Args:
        turns: number of programs planned at a time.
        max_waiting: maximum number of waiting programs.
        max_wait_s: maximum wait for a turn.
        monotonic: clock in seconds.
    """

    def __init__(
        self, turns: int, max_waiting: int, max_wait_s: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._turns = turns
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._running = 0
        self._waiting: deque[object] = deque()
        self._turn_s = FIRST_GUESS_S

    @property
    def waiting(self) -> int:
        """Number of waiting programs."""
        return len(self._waiting)

    @contextmanager
    def turn(self, has_left: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait for a turn and hold it for the block.

        Args:
            has_left: returns whether the client is gone, so that it needs no turn any more.

        Raises:
            QueueFullError: too many programs wait already, or the wait took too long.
            ClientLeftError: the client left.
        """
        self._wait_for_turn(has_left)
        began = self._monotonic()
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._turn_s += WEIGHT * (self._monotonic() - began - self._turn_s)
                self._changed.notify_all()

    def _wait_for_turn(self, has_left: Callable[[], bool]) -> None:
        ticket = object()
        with self._changed:
            is_free = self._running < self._turns and not self._waiting
            if not is_free and len(self._waiting) >= self._max_waiting:
                raise self._full()
            self._waiting.append(ticket)
            try:
                left_s = self._max_wait_s
                while not self._changed.wait_for(lambda: self._is_next(ticket), min(left_s, CHECK_S)):
                    left_s -= CHECK_S
                    if has_left():
                        raise ClientLeftError
                    if left_s <= 0:
                        raise self._full()
                self._running += 1
            finally:
                self._waiting.remove(ticket)
                # wake the next one: several turns may be free
                self._changed.notify_all()

    def _is_next(self, ticket: object) -> bool:
        return self._running < self._turns and self._waiting[0] is ticket

    def _full(self) -> QueueFullError:
        waiting = len(self._waiting)
        return QueueFullError(waiting, max(1, math.ceil(waiting / self._turns * self._turn_s)))
