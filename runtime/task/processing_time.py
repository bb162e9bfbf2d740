"""Processing-time timers of a slot: callbacks on the loop's thread, in time order.

Pure apart from the injected clock. One queue serves all tasks of a slot; each task sees it through its own
`TaskTimers`, which stops with the task. A timer is due once the wall clock has reached its time, or so much time has
passed as was left when it was registered: a wall clock that is set back holds up nothing.
Source: Flink, SystemProcessingTimeService (but without a thread of its own).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from runtime.core.clock import Clock


@dataclass(slots=True, order=True)
class _Entry:
    #: whole monotonic ms, so that timers of the same time keep their order
    order: int
    sequence: int
    at_ms: int = field(compare=False)
    """Wall-clock ms."""
    due_ms: float = field(compare=False)
    """Monotonic ms."""
    callback: Callable[[int], None] | None = field(compare=False)


class TimerQueue:
    """Timers of all tasks of a slot."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[_Entry] = []
        self._sequence = count()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], None]) -> Callable[[], None]:
        """Call `callback(timestamp_ms)` once the clock has reached that time; the result cancels it."""
        due_ms = self._clock.monotonic_ms() + (timestamp_ms - self._clock.now_ms())
        entry = _Entry(math.floor(due_ms), next(self._sequence), timestamp_ms, due_ms, callback)
        heapq.heappush(self._heap, entry)

        def cancel() -> None:
            entry.callback = None

        return cancel

    def wait_ms(self) -> float | None:
        """Return the time until the earliest timer is due, at most 0 if it is; None: there is none."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        first = self._heap[0]
        return min(first.due_ms - self._clock.monotonic_ms(), first.at_ms - self._clock.now_ms())

    def pop_due(self) -> tuple[int, Callable[[int], None]] | None:
        """Remove and return the earliest timer if it is due; one at a time, since its callback may cancel others."""
        wait_ms = self.wait_ms()
        if wait_ms is None or wait_ms > 0:
            return None
        entry = heapq.heappop(self._heap)
        assert entry.callback is not None
        return entry.at_ms, entry.callback


class TaskTimers:
    """View that one task has of the slot's timers; a callback's failure is the task's failure."""

    def __init__(self, queue: TimerQueue, run: Callable[[Callable[[], None]], None]) -> None:
        """Take `run`, which executes an action as part of the task: accounted to it, and failing it if it raises."""
        self._queue = queue
        self._run = run
        self._stopped = False

    def now_ms(self) -> int:
        return self._queue.now_ms()

    def register_timer(self, timestamp_ms: int, callback: Callable[[int], None]) -> Callable[[], None]:
        def fire(at_ms: int) -> None:
            if not self._stopped:
                self._run(lambda: callback(at_ms))

        return self._queue.register_timer(timestamp_ms, fire)

    def stop(self) -> None:
        """Drop pending timers: nothing of this task fires any more."""
        self._stopped = True
