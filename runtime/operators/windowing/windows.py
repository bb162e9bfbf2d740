"""Windows: finite parts of a stream. Plain values; state backends see them as tuples of ints (namespaces).

Source: Flink and PyFlink, Window, TimeWindow, CountWindow, GlobalWindow and their serializers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import total_ordering
from typing import Generic, TypeVar

from runtime.core.elements import MAX_WATERMARK

Namespace = tuple[int, ...]
"""A window as a state backend sees it."""


class Window(ABC):
    """A window; equal windows hold the same elements."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest event time, ms, that belongs to the window."""


W = TypeVar("W", bound=Window)


@total_ordering
class TimeWindow(Window):
    """The event or processing times [start, end), ms."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window of `window_size` that `timestamp` is in; windows start at `offset` plus multiples."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow]) -> list[tuple[TimeWindow, list[TimeWindow]]]:
        """Windows that overlap or touch, made one: (merged window, windows in it), by start."""
        merged: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(windows):
            if merged and merged[-1][0].intersects(window):
                cover, parts = merged[-1]
                merged[-1] = (cover.cover(window), [*parts, window])
            else:
                merged.append((window, [window]))
        return merged

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


@total_ordering
class CountWindow(Window):
    """The window with a number; it has no end in event time."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __lt__(self, other: CountWindow) -> bool:
        return self.id < other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window that holds everything."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The global window."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __lt__(self, other: GlobalWindow) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindow()"


_GLOBAL_WINDOW = GlobalWindow()


class WindowSerializer(ABC, Generic[W]):
    """Turns windows of one kind into namespaces and back."""

    @abstractmethod
    def to_namespace(self, window: W) -> Namespace: ...

    @abstractmethod
    def from_namespace(self, namespace: Namespace) -> W: ...


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """TimeWindow as (start, end)."""

    def to_namespace(self, window: TimeWindow) -> Namespace:
        return (window.start, window.end)

    def from_namespace(self, namespace: Namespace) -> TimeWindow:
        return TimeWindow(namespace[0], namespace[1])


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """CountWindow as (id,)."""

    def to_namespace(self, window: CountWindow) -> Namespace:
        return (window.id,)

    def from_namespace(self, namespace: Namespace) -> CountWindow:
        return CountWindow(namespace[0])


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """GlobalWindow as (0,)."""

    def to_namespace(self, window: GlobalWindow) -> Namespace:
        return (0,)

    def from_namespace(self, namespace: Namespace) -> GlobalWindow:
        return GlobalWindow.get()
