"""Cumulative windows: windows that grow by a step up to their full size, and then start anew.

With a size of a day and a step of an hour an element at 10:20 is in the windows [0, 11), [0, 12), … [0, 24).
Source: Flink SQL's CUMULATE, CumulativeWindowAssigner.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from runtime.common.time import Duration, Time
from runtime.operators.windowing.assigners import WindowAssigner, WindowAssignerContext
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.triggers import EventTimeTrigger, ProcessingTimeTrigger, Trigger
from runtime.operators.windowing.windows import TimeWindow, TimeWindowSerializer, WindowSerializer


class _CumulativeWindows(WindowAssigner[Any, TimeWindow]):
    """Cumulative windows by either time.

    Args:
        max_size: of the last window of each series, ms.
        step: by how much each window ends later than the one before, ms; divides `max_size`.
        offset: of the series' starts, ms; may be negative.

    Raises:
        ValueError: the numbers do not fit together.
    """

    def __init__(self, max_size: int, step: int, offset: int = 0) -> None:
        name = type(self).__name__
        if max_size <= 0 or step <= 0 or max_size % step:
            raise ValueError(
                f"{name}: the size must be a positive multiple of the step, not {max_size} ms of {step} ms"
            )
        if abs(offset) >= max_size:
            raise ValueError(f"{name}: the offset must be less than {max_size} ms, not {offset} ms")
        self.max_size_ms = max_size
        self.step_ms = step
        self.offset_ms = offset

    def windows_at(self, timestamp: int) -> list[TimeWindow]:
        """Return the windows that `timestamp` is in, shortest first."""
        start = timestamp - (timestamp - self.offset_ms) % self.max_size_ms
        first_end = timestamp - (timestamp - start) % self.step_ms + self.step_ms
        return [TimeWindow(start, end) for end in range(first_end, start + self.max_size_ms + 1, self.step_ms)]

    def get_window_serializer(self) -> WindowSerializer[TimeWindow]:
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.max_size_ms}, {self.step_ms}, {self.offset_ms})"


class CumulativeEventTimeWindows(_CumulativeWindows):
    """Cumulative windows by event time."""

    @staticmethod
    def of(
        max_size: Time | Duration, step: Time | Duration, offset: Time | Duration | None = None
    ) -> CumulativeEventTimeWindows:
        return CumulativeEventTimeWindows(to_milliseconds(max_size), to_milliseconds(step), to_milliseconds(offset))

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(timestamp)

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def is_event_time(self) -> bool:
        return True


class CumulativeProcessingTimeWindows(_CumulativeWindows):
    """Cumulative windows by the wall clock."""

    @staticmethod
    def of(
        max_size: Time | Duration, step: Time | Duration, offset: Time | Duration | None = None
    ) -> CumulativeProcessingTimeWindows:
        return CumulativeProcessingTimeWindows(
            to_milliseconds(max_size), to_milliseconds(step), to_milliseconds(offset)
        )

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        return self.windows_at(context.get_current_processing_time())

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return ProcessingTimeTrigger.create()

    def is_event_time(self) -> bool:
        return False
