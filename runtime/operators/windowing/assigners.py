"""Window assigners: assign elements to windows. Tumbling, sliding, global ones.

`session_windows`, `cumulative_windows` and `count_windows` have the others. Sizes, slides and offsets are kept in ms.
Windows start at the offset plus multiples of the slide, rounded down, so that times before 1970 are treated like all
others.
Source: Flink and PyFlink, WindowAssigner and its implementations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from runtime.common.time import Duration, Time
from runtime.operators.functions import RuntimeContext
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.triggers import (
    EndOfStreamTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from runtime.operators.windowing.windows import (
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowSerializer,
)
from runtime.operators.windowing.windows import MergeCallback as _MergeCallback

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns elements to windows."""

    class WindowAssignerContext(ABC):
        """Information for an assigner while it assigns."""

        @abstractmethod
        def get_current_processing_time(self) -> int: ...

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext: ...

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[W]:
        """Return the windows of an element with event time `timestamp` (ms; NO_TIMESTAMP if it has none)."""

    @abstractmethod
    def get_default_trigger(self, env: Any = None) -> Trigger[T, W]:
        """Return the trigger to use if the program names none; `env` is the program's environment, None on a slot."""

    @abstractmethod
    def get_window_serializer(self) -> WindowSerializer[W]: ...

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows are bounded by event time: elements can then be late."""


WindowAssignerContext = WindowAssigner.WindowAssignerContext


class _TimeWindows(WindowAssigner[Any, TimeWindow]):
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
        """Return the windows that `timestamp` is in, latest first."""
        size, slide = self.size_ms, self.slide_ms
        last_start = timestamp - (timestamp - self.offset_ms) % slide
        return [TimeWindow(start, start + size) for start in range(last_start, timestamp - size, -slide)]

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class _EventTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(timestamp)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class _ProcessingTimeWindows(_TimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


class TumblingEventTimeWindows(_EventTimeWindows):
    """Windows of one size, one after the other, by event time."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingEventTimeWindows:
        return TumblingEventTimeWindows(to_milliseconds(size), to_milliseconds(offset))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class SlidingEventTimeWindows(_EventTimeWindows):
    """Windows of one size that start every `slide`, by event time."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingEventTimeWindows:
        return SlidingEventTimeWindows(to_milliseconds(size), to_milliseconds(slide), to_milliseconds(offset))


class TumblingProcessingTimeWindows(_ProcessingTimeWindows):
    """Windows of one size, one after the other, by the wall clock."""

    def __init__(self, size: int, offset: int = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: Time | Duration, offset: Time | Duration | None = None) -> TumblingProcessingTimeWindows:
        return TumblingProcessingTimeWindows(to_milliseconds(size), to_milliseconds(offset))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class SlidingProcessingTimeWindows(_ProcessingTimeWindows):
    """Windows of one size that start every `slide`, by the wall clock."""

    @staticmethod
    def of(
        size: Time | Duration, slide: Time | Duration, offset: Time | Duration | None = None
    ) -> SlidingProcessingTimeWindows:
        return SlidingProcessingTimeWindows(to_milliseconds(size), to_milliseconds(slide), to_milliseconds(offset))


_THE_GLOBAL_WINDOW = (GlobalWindow.get(),)


class GlobalWindows(WindowAssigner[Any, GlobalWindow]):
    """Puts all elements into one window, which emits nothing without a trigger."""

    def __init__(self, fires_at_the_end: bool = False) -> None:
        self._fires_at_the_end = fires_at_the_end

    @staticmethod
    def create() -> GlobalWindows:
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows:
        """Return global windows, like `create`, with a default trigger that fires when the input ends."""
        return GlobalWindows(fires_at_the_end=True)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[GlobalWindow]:
        return _THE_GLOBAL_WINDOW

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, GlobalWindow]:
        return EndOfStreamTrigger() if self._fires_at_the_end else NeverTrigger()

    def get_window_serializer(self) -> WindowSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may merge, as sessions do."""

    MergeCallback: TypeAlias = _MergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: _MergeCallback[W]) -> None:
        """Tell `callback` which of a key's windows merge; the others stay as they are."""
