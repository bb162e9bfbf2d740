"""Processing-time timers of a slot: callbacks on the loop's thread, in time order.

Pure apart from the injected clock. One queue serves all tasks of a slot; each task sees it through its own
`TaskTimers`, which stops with the task. Source: Flink, SystemProcessingTimeService (but without a thread of its own).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from runtime.core.clock import Clock


@dataclass(slots=True, order=True)
class _Entry:
    at_ms: int
    sequence: int
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
        entry = _Entry(timestamp_ms, next(self._sequence), callback)
        heapq.heappush(self._heap, entry)

        def cancel() -> None:
            entry.callback = None

        return cancel

    def next_ms(self) -> int | None:
        """When the earliest timer is due, wall-clock ms."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0].at_ms if self._heap else None

    def pop_due(self) -> tuple[int, Callable[[int], None]] | None:
        """The earliest timer if it is due, removed; one at a time, since its callback may cancel others."""
        at_ms = self.next_ms()
        if at_ms is None or at_ms > self._clock.now_ms():
            return None
        entry = heapq.heappop(self._heap)
        assert entry.callback is not None
        return entry.at_ms, entry.callback


class TaskTimers:
    """One task's view of the slot's timers; a callback's failure is the task's failure."""

    def __init__(self, queue: TimerQueue, run: Callable[[Callable[[], None]], None]) -> None:
        """`run` executes an action as part of the task: accounted to it, and failing it if it raises."""
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
        """Drop what is pending: nothing of this task fires any more."""
        self._stopped = True
