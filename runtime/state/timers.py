"""Event-time and processing-time timers of one operator, kept per key with keyed state.

Backend-independent: a timer holds the backend's entry object of its key, so registering costs no encoding. Each time
domain has a heap, and a set of live timers; deletion only removes a timer from the set. Used by the task's thread only.
Source: Flink, InternalTimerServiceImpl.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, Protocol

from runtime.core.elements import MIN_WATERMARK
from runtime.state.backend import Timer, TimerService
from runtime.state.timer_slice import ENDLESS, TimerSlice

_COMPACTION_SLACK = 1024
"""Number of dead timers that a heap may hold beyond twice the live ones. Below ~100, small heaps are rebuilt all the
time; above ~100,000, the memory of deleted timers becomes noticeable.
"""


class TimerKey(Protocol):
    """The part of a backend's key entry that timers need. Hashed by identity."""

    key: Any

    @property
    def encoded_key(self) -> bytes: ...

    @property
    def key_group(self) -> int: ...


class KeyContext(Protocol):
    """The part of a backend that timers need."""

    current_entry: Any
    """The TimerKey that state and timers are scoped to."""

    def enter(self, entry: Any) -> None:
        """Make `entry` the current one; the timer service calls it before each callback."""


class FiredTimer(NamedTuple):
    """A due timer, as handed to its operator."""

    timestamp: int
    key: Any
    namespace: Any


_LiveTimer = tuple[int, TimerKey, Hashable]


class TimerQueue:
    """The timers of one time domain, ordered by timestamp, then by registration."""

    __slots__ = ("_heap", "_sequence", "changed", "live")

    def __init__(self) -> None:
        #: each live timer and the sequence number of its registration; read by the timer service
        self.live: dict[_LiveTimer, int] = {}
        #: timers added (True) or removed (False) since this was set; None: not tracked
        self.changed: dict[_LiveTimer, bool] | None = None
        self._heap: list[tuple[int, int, _LiveTimer]] = []
        self._sequence = 0

    def add(self, timer: _LiveTimer) -> None:
        """Add a timer that is not live.

        Raises:
            TypeError: the timestamp is not an integer.
        """
        timestamp = operator.index(timer[0])
        self._sequence = sequence = self._sequence + 1
        self.live[timer] = sequence
        heappush(self._heap, (timestamp, sequence, timer))
        if self.changed is not None:
            self.changed[timer] = True

    def remove(self, timer: _LiveTimer) -> None:
        """Remove a timer, if it is live."""
        if self.live.pop(timer, None) is None:
            return
        if self.changed is not None:
            self.changed[timer] = False
        if len(self._heap) > 2 * len(self.live) + _COMPACTION_SLACK:
            live = self.live
            self._heap = [item for item in self._heap if live.get(item[2]) == item[1]]
            heapify(self._heap)

    def pop_due(self, until: int) -> _LiveTimer | None:
        """Remove and return the first live timer with timestamp <= `until`, or None."""
        heap, live = self._heap, self.live
        while heap and heap[0][0] <= until:
            _, sequence, timer = heappop(heap)
            if live.get(timer) == sequence:
                del live[timer]
                if self.changed is not None:
                    self.changed[timer] = False
                return timer
        return None

    def has_due(self, until: int) -> bool:
        """Return whether a live timer has a timestamp <= `until`."""
        heap = self._heap
        if not heap or heap[0][0] > until:
            return False
        first = self.next_timestamp()
        return first is not None and first <= until

    def take_changed(self) -> dict[_LiveTimer, bool]:
        """Return the changes, and reset them."""
        changed, self.changed = self.changed or {}, {}
        return changed

    def next_timestamp(self) -> int | None:
        """Return the timestamp of the first live timer."""
        heap, live = self._heap, self.live
        while heap:
            timestamp, sequence, timer = heap[0]
            if live.get(timer) == sequence:
                return timestamp
            heappop(heap)
        return None

    def __len__(self) -> int:
        """Return the number of timers in memory, including deleted ones."""
        return len(self._heap)

    def in_order(self) -> Iterator[_LiveTimer]:
        """Yield all live timers in the order in which they would fire."""
        live = self.live
        return (timer for _, sequence, timer in sorted(self._heap) if live.get(timer) == sequence)


class KeyedTimerService(TimerService):
    """The timers of one name; see TimerService."""

    __slots__ = (
        "_context",
        "_on_event_time",
        "_on_processing_time",
        "current_watermark",
        "event",
        "is_quiesced",
        "num_fired",
        "processing",
    )

    def __init__(
        self,
        context: KeyContext,
        on_event_time: Callable[[Timer], None],
        on_processing_time: Callable[[Timer], None],
    ) -> None:
        self._context = context
        self._on_event_time = on_event_time
        self._on_processing_time = on_processing_time
        self.current_watermark = MIN_WATERMARK
        self.num_fired = 0
        self.is_quiesced = False
        self.event = TimerQueue()
        self.processing = TimerQueue()

    def register_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        timer = (timestamp, self._context.current_entry, namespace)
        if timer not in self.event.live:
            self._check_key()
            self.event.add(timer)

    def delete_event_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self.event.remove((timestamp, self._context.current_entry, namespace))

    def register_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        timer = (timestamp, self._context.current_entry, namespace)
        if timer not in self.processing.live and not self.is_quiesced:
            self._check_key()
            self.processing.add(timer)

    def delete_processing_time_timer(self, timestamp: int, namespace: Hashable = None) -> None:
        self.processing.remove((timestamp, self._context.current_entry, namespace))

    def advance_watermark(self, watermark: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        self.current_watermark = watermark
        return self._fire(self.event, watermark, self._on_event_time, timer_slice)

    def advance_processing_time(self, now_ms: int, timer_slice: TimerSlice = ENDLESS) -> bool:
        return self._fire(self.processing, now_ms, self._on_processing_time, timer_slice)

    def next_processing_time(self) -> int | None:
        return self.processing.next_timestamp()

    def event_time_namespaces(self) -> set[Any]:
        return {namespace for _, _, namespace in self.event.live}

    def live_keys(self) -> Iterable[TimerKey]:
        """Return the keys that have timers, some of them more than once."""
        for queue in (self.event, self.processing):
            for _, entry, _ in queue.live:
                yield entry

    def _check_key(self) -> None:
        # reading the key of "no key" raises NoCurrentKeyError; only new timers get here
        _ = self._context.current_entry.key

    def _fire(self, queue: TimerQueue, until: int, callback: Callable[[Timer], None], timer_slice: TimerSlice) -> bool:
        context, pop_due = self._context, queue.pop_due
        while queue.has_due(until):
            if timer_slice.left <= 0 and not timer_slice.renew():
                return False
            while timer_slice.left > 0 and (timer := pop_due(until)) is not None:
                timer_slice.left -= 1
                timestamp, entry, namespace = timer
                context.enter(entry)
                self.num_fired += 1
                callback(FiredTimer(timestamp, entry.key, namespace))
        return True
