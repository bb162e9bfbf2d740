"""Queues that order the results of asynchronous calls: in the order of the records, or as they are ready.

Watermarks and idleness are boundaries: no result passes one in either direction. Pure; used by the task's thread.
Source: Flink, OrderedStreamElementQueue and UnorderedStreamElementQueue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any

from runtime.core.elements import Watermark, WatermarkStatus

Boundary = Watermark | WatermarkStatus


class Call:
    """A record on its way through the function."""

    __slots__ = ("attempt", "cancel_timer", "future", "is_done", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp
        #: number of the current attempt, from 1
        self.attempt = 1
        self.is_done = False
        self.results: Any = None
        #: cancels the time limit
        self.cancel_timer: Any = None
        #: the coroutine's task; belongs to the event loop's thread
        self.future: Any = None
        #: of an unordered queue
        self.segment: Any = None


class ResultQueue(ABC):
    """Calls in flight and boundaries between them."""

    def __init__(self) -> None:
        self._size = 0

    def __len__(self) -> int:
        """Return the number of calls whose results have not come out."""
        return self._size

    def put(self, call: Call) -> None:
        """Add a call at the end."""
        self._size += 1
        self._put(call)

    @abstractmethod
    def put_boundary(self, boundary: Boundary) -> None:
        """Add a boundary at the end."""

    @abstractmethod
    def complete(self, call: Call) -> None:
        """Note that the results of a call in the queue are there; call once."""

    def take(self) -> Iterator[Call | Boundary]:
        """Take out what may come out now, in order."""
        for element in self._take():
            if isinstance(element, Call):
                self._size -= 1
            yield element

    @abstractmethod
    def calls(self) -> list[Call]:
        """Return the calls whose results have not come out, oldest first as far as there is an order."""

    @abstractmethod
    def _put(self, call: Call) -> None: ...

    @abstractmethod
    def _take(self) -> Iterator[Call | Boundary]: ...


class OrderedQueue(ResultQueue):
    """First in, first out."""

    def __init__(self) -> None:
        super().__init__()
        self._elements: deque[Call | Boundary] = deque()

    def put_boundary(self, boundary: Boundary) -> None:
        self._elements.append(boundary)

    def complete(self, call: Call) -> None:
        call.is_done = True

    def calls(self) -> list[Call]:
        return [element for element in self._elements if isinstance(element, Call)]

    def _put(self, call: Call) -> None:
        self._elements.append(call)

    def _take(self) -> Iterator[Call | Boundary]:
        elements = self._elements
        while elements:
            head = elements[0]
            if isinstance(head, Call) and not head.is_done:
                return
            yield elements.popleft()


class _Segment:
    """The calls between two boundaries."""

    __slots__ = ("boundary", "done", "pending")

    def __init__(self) -> None:
        #: a dict for its order: calls in progress
        self.pending: dict[Call, None] = {}
        self.done: deque[Call] = deque()
        #: what ends the segment; None = it is the last one
        self.boundary: Boundary | None = None


class UnorderedQueue(ResultQueue):
    """Gives results as they are ready, but none passes a boundary."""

    def __init__(self) -> None:
        super().__init__()
        self._segments = deque((_Segment(),))

    def put_boundary(self, boundary: Boundary) -> None:
        self._segments[-1].boundary = boundary
        self._segments.append(_Segment())

    def complete(self, call: Call) -> None:
        call.is_done = True
        del call.segment.pending[call]
        call.segment.done.append(call)

    def calls(self) -> list[Call]:
        return [call for segment in self._segments for call in (*segment.done, *segment.pending)]

    def _put(self, call: Call) -> None:
        call.segment = self._segments[-1]
        call.segment.pending[call] = None

    def _take(self) -> Iterator[Call | Boundary]:
        while True:
            head = self._segments[0]
            while head.done:
                yield head.done.popleft()
            if head.pending or head.boundary is None:
                return
            self._segments.popleft()
            yield head.boundary
