"""Triggers: decide when a window emits its results, and whether it then purges its elements. A trigger object serves
all keys and windows of a subtask; it keeps state per window in `ctx.get_partitioned_state`. `continuous_triggers` and
`java_triggers` have the others.
Source: Flink and PyFlink, Trigger and its implementations.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from runtime.common.typeinfo import Types
from runtime.metrics import MetricGroup
from runtime.operators.windowing.windows import GlobalWindow, TimeWindow, Window
from runtime.state.descriptors import ReducingStateDescriptor, StateDescriptor

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(enum.Enum):
    """Fate of a window; the value is (fire, purge)."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Return whether the window emits its results now."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the window's elements are purged; its trigger state stays."""
        return self.value[1]


class Trigger(ABC, Generic[T, W]):
    """Decides when a window fires."""

    class TriggerContext(ABC):
        """Time, timers and state of the current key and window."""

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
            """Return the state of the current key and window."""

    class OnMergeContext(TriggerContext):
        """The context while windows merge; the merged window is the current one."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Move the state of the windows that are gone into the merged one.

            Raises:
                TypeError: it is not list, reducing or aggregating state.
            """

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Handle an element that was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Handle a processing-time timer of the window."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Handle an event-time timer of the window."""

    @abstractmethod
    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clear the trigger's state and timers for a window that is removed."""

    def can_merge(self) -> bool:
        """Return whether the trigger serves merging windows; if so, it has an `on_merge`."""
        return False

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Merge the state of the windows that have merged into `window`, and register its timers.

        Afterwards `clear` is called for each of them.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_merge()")


TriggerContext = Trigger.TriggerContext
OnMergeContext = Trigger.OnMergeContext


class EventTimeTrigger(Trigger[Any, TimeWindow]):
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

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        # a window that the watermark has passed fires at once, when the element that merged it is added
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Trigger[Any, TimeWindow]):
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

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class CountTrigger(Trigger[Any, Any]):
    """Fires whenever `window_size` more elements have arrived."""

    def __init__(self, window_size: int) -> None:
        if window_size < 1:
            raise ValueError(f"CountTrigger: the count must be at least 1, not {window_size}")
        self._window_size = window_size
        self._count = ReducingStateDescriptor("trigger-count", _add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        return CountTrigger(window_size)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class PurgingTrigger(Trigger[Any, Any]):
    """Turns every firing of another trigger into one that also purges the window's elements."""

    def __init__(self, nested_trigger: Trigger[Any, Any]) -> None:
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger:
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


class NeverTrigger(Trigger[Any, GlobalWindow]):
    """Never fires. The default of global windows."""

    def on_element(self, element: Any, timestamp: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: OnMergeContext) -> None:
        """Do nothing: there is nothing to merge."""

    def clear(self, window: GlobalWindow, ctx: TriggerContext) -> None:
        """Do nothing: there is nothing to clear."""


class EndOfStreamTrigger(NeverTrigger):
    """Fires when the input ends. Default trigger of `GlobalWindows.create_with_end_of_stream_trigger`."""

    def on_element(self, element: Any, timestamp: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE


def _add(left: int, right: int) -> int:
    return left + right


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
