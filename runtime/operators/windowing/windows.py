"""Windows: finite parts of a stream. Plain values; state backends see them as namespaces.

The namespace of the windows here is a tuple of ints; that of a window with a user's serializer is its bytes.
Source: Flink and PyFlink, Window, TimeWindow, CountWindow, GlobalWindow and their serializers.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import total_ordering
from io import BytesIO
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from runtime.core.elements import MAX_WATERMARK

Namespace = tuple[int, ...] | bytes
"""A window as a state backend sees it."""


class Window(ABC):
    """A window; equal windows hold the same elements."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest event time, ms, that belongs to the window."""


W = TypeVar("W", bound=Window)
W_contra = TypeVar("W_contra", bound=Window, contravariant=True)


class MergeCallback(Protocol[W_contra]):
    """Callback by which an assigner reports which windows merge."""

    def merge(self, to_be_merged: Iterable[W_contra], merge_result: W_contra) -> None:
        """Merge the windows `to_be_merged`, two at least, into `merge_result`."""


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
        """Return whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of `timestamp`'s window of `window_size`; windows start at `offset` plus multiples."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Tell `callback` which of the windows overlap or touch, and what they merge into."""
        parts: set[TimeWindow] = set()
        merged: TimeWindow | None = None
        for window in sorted(windows):
            if merged is not None and merged.intersects(window):
                merged = merged.cover(window)
                parts.add(window)
                continue
            if merged is not None and len(parts) > 1:
                callback.merge(parts, merged)
            merged, parts = window, {window}
        if merged is not None and len(parts) > 1:
            callback.merge(parts, merged)

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
    """A numbered window; it has no end in event time."""

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
        """Return the global window."""
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
        return "GlobalWindow"


_GLOBAL_WINDOW = GlobalWindow()


_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class WindowSerializer(ABC, Generic[W]):
    """Turns windows of one kind into namespaces and bytes, and back."""

    @abstractmethod
    def to_namespace(self, window: W) -> Namespace: ...

    @abstractmethod
    def from_namespace(self, namespace: Namespace) -> W: ...

    @abstractmethod
    def serialize(self, element: W, stream: BinaryIO) -> None:
        """Write a window, as Flink does."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> W:
        """Read a window that `serialize` has written."""


class TimeWindowSerializer(WindowSerializer[TimeWindow]):
    """TimeWindow as (start, end)."""

    def to_namespace(self, window: TimeWindow) -> Namespace:
        return (window.start, window.end)

    def from_namespace(self, namespace: Namespace) -> TimeWindow:
        return TimeWindow(namespace[0], namespace[1])

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(_TWO_LONGS.size)))


class CountWindowSerializer(WindowSerializer[CountWindow]):
    """CountWindow as (id,)."""

    def to_namespace(self, window: CountWindow) -> Namespace:
        return (window.id,)

    def from_namespace(self, namespace: Namespace) -> CountWindow:
        return CountWindow(namespace[0])

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(stream.read(_LONG.size)))


class GlobalWindowSerializer(WindowSerializer[GlobalWindow]):
    """GlobalWindow as (0,)."""

    def to_namespace(self, window: GlobalWindow) -> Namespace:
        return (0,)

    def from_namespace(self, namespace: Namespace) -> GlobalWindow:
        return GlobalWindow.get()

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()


class _StreamSerializer(WindowSerializer[Any]):
    """Serializes user-defined windows with a serializer that only knows bytes."""

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer

    def to_namespace(self, window: Any) -> Namespace:
        stream = BytesIO()
        self._serializer.serialize(window, stream)
        return stream.getvalue()

    def from_namespace(self, namespace: Namespace) -> Any:
        assert isinstance(namespace, bytes)
        return self._serializer.deserialize(BytesIO(namespace))

    def serialize(self, element: Any, stream: BinaryIO) -> None:
        self._serializer.serialize(element, stream)

    def deserialize(self, stream: BinaryIO) -> Any:
        return self._serializer.deserialize(stream)


def window_serializer(serializer: Any) -> WindowSerializer[Any]:
    """Return the serializer itself, or one around a TypeSerializer: any object with `serialize` and `deserialize`.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(serializer, WindowSerializer):
        return serializer
    if not (callable(getattr(serializer, "serialize", None)) and callable(getattr(serializer, "deserialize", None))):
        raise TypeError(f"get_window_serializer() must give a serializer of windows, not {serializer!r}")
    return _StreamSerializer(serializer)
