"""ProcessingTimeoutTrigger and DeltaTrigger. Source: Flink (Java only), the classes of these names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import TypeInformation, Types
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.triggers import Trigger, TriggerContext, TriggerResult
from runtime.operators.windowing.windows import Window
from runtime.state.descriptors import ValueStateDescriptor


class ProcessingTimeoutTrigger(Trigger[Any, Any]):
    """Fires when another trigger does, and a processing-time `interval` after the window's first element.

    Args:
        nested_trigger: the other trigger; its event-time timers fire the window too.
        interval: ms.
        reset_timer_on_new_record: count the interval from the latest element instead.
        should_clear_on_timeout: clear the state of both triggers on a timeout.
    """

    def __init__(
        self,
        nested_trigger: Trigger[Any, Any],
        interval: int,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> None:
        self.nested_trigger = nested_trigger
        self._interval_ms = interval
        self._reset_timer_on_new_record = reset_timer_on_new_record
        self._should_clear_on_timeout = should_clear_on_timeout
        self._timeout = ValueStateDescriptor("trigger-timeout", Types.LONG())

    @staticmethod
    def of(
        nested_trigger: Trigger[Any, Any],
        timeout: Time | Duration,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger:
        return ProcessingTimeoutTrigger(
            nested_trigger, to_milliseconds(timeout), reset_timer_on_new_record, should_clear_on_timeout
        )

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        timeout = ctx.get_partitioned_state(self._timeout)
        due = timeout.value()
        if due is not None and not self._reset_timer_on_new_record:
            return result
        if due is not None:
            ctx.delete_processing_time_timer(due)
        due = ctx.get_current_processing_time() + self._interval_ms
        timeout.update(due)
        ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._fire(self.nested_trigger.on_processing_time(time, window, ctx), window, ctx)

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._fire(self.nested_trigger.on_event_time(time, window, ctx), window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        timeout = ctx.get_partitioned_state(self._timeout)
        due = timeout.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            timeout.clear()
        self.nested_trigger.clear(window, ctx)

    def _fire(self, result: TriggerResult, window: Any, ctx: TriggerContext) -> TriggerResult:
        if self._should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE


class DeltaFunction(ABC):
    """Measures how far apart two elements are."""

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float: ...


def delta_callable(function: Any) -> Callable[[Any, Any], float]:
    """Return the callable behind a DeltaFunction, or a plain callable as it is.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(function, DeltaFunction):
        return function.get_delta
    if callable(function) and not isinstance(function, type):
        return function  # type: ignore[no-any-return]
    raise TypeError(f"expected a DeltaFunction or a callable of two elements, not {function!r}")


class DeltaTrigger(Trigger[Any, Window]):
    """Fires when an element is more than a threshold away from the one that fired last (at first: the first one).

    Args:
        threshold: the distance.
        delta_function: a DeltaFunction, or a callable of (old element, new element).
        element_type: type of the elements; None = Python objects.

    Raises:
        TypeError: the delta function is neither.
    """

    def __init__(self, threshold: float, delta_function: Any, element_type: TypeInformation | None = None) -> None:
        delta_callable(delta_function)
        self._threshold = threshold
        self._delta_function = delta_function
        self._last = ValueStateDescriptor("trigger-last-element", element_type)

    @staticmethod
    def of(threshold: float, delta_function: Any, element_type: TypeInformation | None = None) -> DeltaTrigger:
        return DeltaTrigger(threshold, delta_function, element_type)

    def on_element(self, element: Any, timestamp: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        last = ctx.get_partitioned_state(self._last)
        old = last.value()
        if old is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if delta_callable(self._delta_function)(old, element) > self._threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Window, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: Window, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()
