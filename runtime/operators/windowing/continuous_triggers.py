"""Triggers that fire windows early and repeatedly: every interval of event time or of processing time.

Both fire at multiples of their interval, counted from the epoch. Source: Flink and PyFlink,
ContinuousEventTimeTrigger and ContinuousProcessingTimeTrigger.
"""

from __future__ import annotations

from typing import Any

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.operators.functions import ReduceFunction
from runtime.operators.windowing.milliseconds import to_milliseconds
from runtime.operators.windowing.triggers import OnMergeContext, Trigger, TriggerContext, TriggerResult
from runtime.operators.windowing.windows import TimeWindow
from runtime.state.descriptors import ReducingStateDescriptor


class Min(ReduceFunction):
    """Takes the lesser of two values."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        return min(value1, value2)


class _ContinuousTrigger(Trigger[Any, TimeWindow]):
    """Keeps the time of the window's next early firing."""

    def __init__(self, interval: int) -> None:
        if interval < 1:
            raise ValueError(f"{type(self).__name__}: the interval must be at least 1 ms, not {interval}")
        self.interval = interval
        self._next_fire = ReducingStateDescriptor("trigger-next-fire", Min(), Types.LONG())

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._next_fire)
        timestamp = ctx.get_partitioned_state(self._next_fire).get()
        if timestamp is not None:
            self._register(timestamp, ctx)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(self._next_fire)
        timestamp = next_fire.get()
        if timestamp is not None:
            self._delete(timestamp, ctx)
            next_fire.clear()

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: TriggerContext, fire_timestamp_state: Any
    ) -> None:
        """Let the window fire an interval after `time` (ms), but at its end at the latest."""
        timestamp = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(timestamp)
        self._register(timestamp, ctx)

    def _register_first(self, now: int, window: TimeWindow, ctx: TriggerContext) -> None:
        next_fire = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() is None:
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, next_fire)

    def _fire_if_due(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        next_fire = ctx.get_partitioned_state(self._next_fire)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        # otherwise a window whose end has passed would be due again at once, for ever
        if window.max_timestamp() > time:
            self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def _register(self, timestamp: int, ctx: TriggerContext) -> None:
        raise NotImplementedError

    def _delete(self, timestamp: int, ctx: TriggerContext) -> None:
        raise NotImplementedError


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires every `interval` of event time, and at the window's end."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousEventTimeTrigger:
        return ContinuousEventTimeTrigger(to_milliseconds(interval))

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._register_first(timestamp, window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        return self._fire_if_due(time, window, ctx)

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        super().on_merge(window, ctx)
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())

    def _register(self, timestamp: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(timestamp)

    def _delete(self, timestamp: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(timestamp)


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires every `interval` of processing time; in a processing-time window, at its end too."""

    @staticmethod
    def of(interval: Time | Duration) -> ContinuousProcessingTimeTrigger:
        return ContinuousProcessingTimeTrigger(to_milliseconds(interval))

    def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        self._register_first(ctx.get_current_processing_time(), window, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return self._fire_if_due(time, window, ctx)

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def _register(self, timestamp: int, ctx: TriggerContext) -> None:
        ctx.register_processing_time_timer(timestamp)

    def _delete(self, timestamp: int, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(timestamp)
