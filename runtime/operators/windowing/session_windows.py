"""Session windows: elements of a key that follow each other within a gap.

An element opens a window [t, t + gap); windows of a key that overlap or touch merge. The gap is the same for all
elements (static) or each element's own (dynamic). Source: Flink and PyFlink, EventTimeSessionWindows and its siblings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any

from runtime.common.time import Duration, Time
from runtime.operators.windowing.assigners import MergingWindowAssigner, WindowAssignerContext
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from runtime.operators.windowing.windows import MergeCallback, TimeWindow, TimeWindowSerializer, WindowSerializer


class SessionWindowTimeGapExtractor(ABC):
    """Extracts each element's own gap."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap after the element, ms; positive."""


class SessionWindows(MergingWindowAssigner[Any, TimeWindow]):
    """The common part of all session windows."""

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _StaticSessionWindows(SessionWindows):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise ValueError(f"{type(self).__name__}: the gap must be positive, not {session_gap} ms")
        self.session_gap_ms = session_gap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_gap_ms})"


class _DynamicSessionWindows(SessionWindows):
    """Takes a SessionWindowTimeGapExtractor, or a callable from an element to its gap in ms."""

    def __init__(self, session_window_time_gap_extractor: Any) -> None:
        self._extractor = session_window_time_gap_extractor
        _gap_callable(self._extractor)

    def gap_ms(self, element: Any) -> int:
        """Return the element's gap.

        Raises:
            ValueError: it is not positive.
        """
        gap = _gap_callable(self._extractor)(element)
        if gap <= 0:
            raise ValueError(f"the session gap of an element must be positive, not {gap} ms")
        return gap

    def __repr__(self) -> str:
        # PyFlink shows the latest gap here, which is 0 while the program is built
        return f"{type(self).__name__}(0)"


class EventTimeSessionWindows(_StaticSessionWindows):
    """Sessions by event time."""

    @staticmethod
    def with_gap(size: Time | Duration) -> EventTimeSessionWindows:
        return EventTimeSessionWindows(to_milliseconds(size))

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return (TimeWindow(timestamp, timestamp + self.session_gap_ms),)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class ProcessingTimeSessionWindows(_StaticSessionWindows):
    """Sessions by the wall clock."""

    @staticmethod
    def with_gap(size: Time | Duration) -> ProcessingTimeSessionWindows:
        return ProcessingTimeSessionWindows(to_milliseconds(size))

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        return (TimeWindow(now, now + self.session_gap_ms),)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


class DynamicEventTimeSessionWindows(_DynamicSessionWindows):
    """Sessions by event time, with a gap of each element's own."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicEventTimeSessionWindows:
        return DynamicEventTimeSessionWindows(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return (TimeWindow(timestamp, timestamp + self.gap_ms(element)),)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class DynamicProcessingTimeSessionWindows(_DynamicSessionWindows):
    """Sessions by the wall clock, with a gap of each element's own."""

    @staticmethod
    def with_dynamic_gap(extractor: Any) -> DynamicProcessingTimeSessionWindows:
        return DynamicProcessingTimeSessionWindows(extractor)

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        now = context.get_current_processing_time()
        return (TimeWindow(now, now + self.gap_ms(element)),)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False


def _gap_callable(extractor: Any) -> Callable[[Any], int]:
    if isinstance(extractor, SessionWindowTimeGapExtractor):
        return extractor.extract
    if callable(extractor) and not isinstance(extractor, type):
        return extractor  # type: ignore[no-any-return]
    raise TypeError(f"expected a SessionWindowTimeGapExtractor or a callable, not {extractor!r}")
