"""Window assigners: which windows an element belongs to.

Sizes, slides and offsets are given as `Time` and kept in ms. Windows start at the offset plus multiples of the slide,
rounding down, so that times before 1970 fall into windows as others do.
Source: Flink and PyFlink, WindowAssigner and its implementations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Generic, TypeVar

from runtime.common.time import Time
from runtime.operators.functions import RuntimeContext
from runtime.operators.windowing.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger, Trigger
from runtime.operators.windowing.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowSerializer,
)

W = TypeVar("W", bound=Window)


class WindowAssignerContext(ABC):
    """What an assigner may ask while it assigns."""

    @abstractmethod
    def get_current_processing_time(self) -> int: ...

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext: ...


class WindowAssigner(ABC, Generic[W]):
    """Assigns elements to windows."""

    @abstractmethod
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[W]:
        """The windows of an element with event time `timestamp` (ms; NO_TIMESTAMP if it has none)."""

    @abstractmethod
    def get_default_trigger(self) -> Trigger[W]: ...

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]: ...

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether the windows are bounded by event time: elements can then be late."""


WindowAssigner.WindowAssignerContext = WindowAssignerContext  # type: ignore[attr-defined]  # PyFlink's name for it


class _TimeWindows(WindowAssigner[TimeWindow]):
    """Tumbling and sliding windows; a tumbling one slides by its size."""

    def __init__(self, size: int, slide: int, offset: int) -> None:
        name = type(self).__name__
        if size <= 0 or slide <= 0:
            raise ValueError(f"{name}: size and slide must be positive, not {size} ms and {slide} ms")
        if abs(offset) >= slide:
            raise ValueError(f"{name}: the offset must be less than {slide} ms, not {offset} ms")
        self.size_ms = size
        self.slide_ms = slide
        self.offset_ms = offset

    def windows_at(self, timestamp: int) -> list[TimeWindow]:
        """The windows that `timestamp` is in, latest first."""
        size, slide = self.size_ms, self.slide_ms
        last_start = timestamp - (timestamp - self.offset_ms) % slide
        return [TimeWindow(start, start + size) for start in range(last_start, timestamp - size, -slide)]

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        slide = "" if self.slide_ms == self.size_ms else f", slide={self.slide_ms}"
        offset = f", offset={self.offset_ms}" if self.offset_ms else ""
        return f"{type(self).__name__}(size={self.size_ms}{slide}{offset})"


class _EventTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(timestamp)

    def get_default_trigger(self) -> Trigger[TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(context.get_current_processing_time())

    def get_default_trigger(self) -> Trigger[TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


class TumblingEventTimeWindows(_EventTimeWindows):
    """Windows of one size, one after the other, by event time."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> TumblingEventTimeWindows:
        return TumblingEventTimeWindows(size.to_milliseconds(), _milliseconds(offset))


class SlidingEventTimeWindows(_EventTimeWindows):
    """Windows of one size that start every `slide`, by event time."""

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> SlidingEventTimeWindows:
        return SlidingEventTimeWindows(size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset))


class TumblingProcessingTimeWindows(_ProcessingTimeWindows):
    """Windows of one size, one after the other, by the wall clock."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time, offset: Time | None = None) -> TumblingProcessingTimeWindows:
        return TumblingProcessingTimeWindows(size.to_milliseconds(), _milliseconds(offset))


class SlidingProcessingTimeWindows(_ProcessingTimeWindows):
    """Windows of one size that start every `slide`, by the wall clock."""

    @staticmethod
    def of(size: Time, slide: Time, offset: Time | None = None) -> SlidingProcessingTimeWindows:
        return SlidingProcessingTimeWindows(size.to_milliseconds(), slide.to_milliseconds(), _milliseconds(offset))


class GlobalWindows(WindowAssigner[GlobalWindow]):
    """All elements in one window, which needs a trigger to give anything."""

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self) -> Trigger[GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


def _milliseconds(time: Time | None) -> int:
    return 0 if time is None else time.to_milliseconds()
