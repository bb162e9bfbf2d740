"""Triggers: when a window gives its results, and whether it then forgets its elements.

A trigger object serves all keys and windows of a subtask; what it has to remember per window it keeps in
`ctx.get_partitioned_state`. Source: Flink and PyFlink, Trigger and its implementations.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.metrics import MetricGroup
from runtime.operators.windowing.windows import GlobalWindow, TimeWindow, Window
from runtime.state.descriptors import ReducingStateDescriptor, StateDescriptor

W = TypeVar("W", bound=Window)


class TriggerResult(enum.Enum):
    """What becomes of a window; the value is (fire, purge)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the window gives its results now."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window's elements are forgotten; its trigger state stays."""
        return self.value[1]


class TriggerContext(ABC):
    """Time, timers and state of the key and window under way."""

    @abstractmethod
    def get_current_processing_time(self) -> int: ...

    @abstractmethod
    def get_metric_group(self) -> MetricGroup: ...

    @abstractmethod
    def get_current_watermark(self) -> int: ...

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None: ...

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None: ...

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None: ...

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None: ...

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the key and window under way."""


class Trigger(ABC, Generic[W]):
    """Decides when a window fires."""

    @abstractmethod
    def on_element(self, element: Any, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """An element was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """A processing-time timer of the window fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """An event-time timer of the window fires."""

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """The window is removed: clear the trigger's state and timers for it."""

    def can_merge(self) -> bool:
        """Whether the trigger serves merging windows."""
        return False


Trigger.TriggerContext = TriggerContext  # type: ignore[attr-defined]  # PyFlink's name for it


class EventTimeTrigger(Trigger[TimeWindow]):
    """Fires once the watermark passes the window's end, and again for each late element. The event-time default."""

    @staticmethod
    def create() -> EventTimeTrigger:
        return EventTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[TimeWindow]):
    """Fires once the wall clock passes the window's end. The processing-time default."""

    @staticmethod
    def create() -> ProcessingTimeTrigger:
        return ProcessingTimeTrigger()

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(Trigger[Window]):
    """Fires whenever `window_size` more elements have come."""

    def __init__(self, window_size: int) -> None:
        if window_size < 1:
            raise ValueError(f"CountTrigger: the count must be at least 1, not {window_size}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("trigger-count", _add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class ContinuousEventTimeTrigger(Trigger[TimeWindow]):
    """Fires every `interval` of event time, and at the window's end."""

    def __init__(self, interval_ms: int) -> None:
        if interval_ms < 1:
            raise ValueError(f"ContinuousEventTimeTrigger: the interval must be at least 1 ms, not {interval_ms}")
        self._interval_ms = interval_ms
        self._next_fire = ReducingStateDescriptor("trigger-next-fire", min, Types.LONG())

    @staticmethod
    def of(interval: Time) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(interval.to_milliseconds())

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(self._next_fire).get() is None:
            self._register_next(timestamp - timestamp % self._interval_ms, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_fire = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        self._register_next(time, window, ctx)
        return TriggerResult.FIRE

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        next_fire = ctx.get_partitioned_state(self._next_fire)
        timestamp = next_fire.get()
        if timestamp is not None:
            ctx.delete_event_time_timer(timestamp)
            next_fire.clear()

    def _register_next(self, after: int, window: TimeWindow, ctx: TriggerContext) -> None:
        timestamp = min(after + self._interval_ms, window.max_timestamp())
        ctx.get_partitioned_state(self._next_fire).add(timestamp)
        ctx.register_event_time_timer(timestamp)


class PurgingTrigger(Trigger[Any]):
    """Turns every firing of another trigger into one that also forgets the window's elements."""

    def __init__(self, nested_trigger: Trigger[Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any]) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()


class NeverTrigger(Trigger[GlobalWindow]):
    """Never fires. The default of global windows."""

    def on_element(self, element: Any, timestamp: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: GlobalWindow, ctx: TriggerContext) -> None:
        """There is nothing to clear."""


def _add(left: int, right: int) -> int:
    return left + right


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
