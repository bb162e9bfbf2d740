"""WindowOperator: keyed windows with any assigner and any trigger, element by element.

Windows with the default event-time trigger are served by the faster `aligned_windows`, which keeps the same state.
An element is late for a window that the watermark has passed by the allowed lateness; one that is late for all its
windows goes to the late side output, or is dropped and counted. State is removed by a timer at the window's cleanup
time. Used by the task's thread. Source: Flink, WindowOperator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP
from runtime.core.elements import MAX_WATERMARK
from runtime.metrics import MetricGroup
from runtime.operators.errors import MissingTimestampError, failing_index, user_function_error
from runtime.operators.functions import RuntimeContext
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.user_operator import KeyedOperator
from runtime.operators.windowing.assigners import WindowAssigner, WindowAssignerContext
from runtime.operators.windowing.contents import WindowContents
from runtime.operators.windowing.triggers import Trigger, TriggerContext, TriggerResult
from runtime.operators.windowing.window_functions import WindowContext, WindowFunctionCaller
from runtime.operators.windowing.windows import Namespace, Window
from runtime.state.backend import Timer
from runtime.state.descriptors import StateDescriptor


@dataclass(frozen=True)
class WindowSpec:
    """What a window operator does; see `WindowOperatorFactory`."""

    assigner: WindowAssigner[Any]
    contents: WindowContents
    window_function: Any
    trigger: Trigger[Any]
    allowed_lateness_ms: int
    late_data_tag: OutputTag | None


class WindowOperator(KeyedOperator):
    """Windows of a keyed stream, the general way."""

    timers_name = "window-timers"

    def __init__(self, spec: WindowSpec, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__([spec.contents.function, spec.window_function], key_selector, output_type)
        self._spec = spec
        self._serializer = spec.assigner.get_window_serializer()
        self._is_event_time = spec.assigner.is_event_time()
        self._contents = spec.contents
        self._caller = WindowFunctionCaller(spec.window_function)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._dropped = context.metrics.counter("numLateRecordsDropped")

    def open(self) -> None:
        super().open()
        self._state = self.backend.get_namespaced_state(self._contents.descriptor())
        self._window_context = WindowContext(self.backend, self.timers, self.context.processing_time)
        self._trigger_context = _TriggerContext(self)
        self._assigner_context = _AssignerContext(self)

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        set_key = self.backend.set_current_key
        rows = iter(values)
        try:
            for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
                set_key(key)
                self._process_element(value, timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._contents.function) from error

    def on_event_time(self, timer: Timer) -> None:
        self._on_timer(timer, is_event_time=True)

    def on_processing_time(self, timer: Timer) -> None:
        self._on_timer(timer, is_event_time=False)

    def _process_element(self, value: Any, timestamp: int) -> None:
        if self._is_event_time and timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        is_late = True
        windows = self._spec.assigner.assign_windows(value, timestamp, self._assigner_context)
        for window in windows:
            cleanup_time = self._cleanup_time(window)
            if self._is_event_time and cleanup_time <= self.timers.current_watermark:
                continue
            is_late = False
            namespace = self._serializer.to_namespace(window)
            self._state.set_current_namespace(namespace)
            self._contents.add_all(self._state, iter((value,)))
            self._trigger_context.namespace = namespace
            result = self._spec.trigger.on_element(value, timestamp, window, self._trigger_context)
            self._act_on(result, window, namespace)
            if cleanup_time != MAX_WATERMARK:
                if self._is_event_time:
                    self.timers.register_event_time_timer(cleanup_time, namespace)
                else:
                    self.timers.register_processing_time_timer(cleanup_time, namespace)
        if is_late and windows and self._is_event_time:
            self._skip_late(value, timestamp)

    def _skip_late(self, value: Any, timestamp: int) -> None:
        tag = self._spec.late_data_tag
        if tag is None:
            self._dropped.inc()
        else:
            self.collector.add_side(tag, value, timestamp)

    def _on_timer(self, timer: Timer, is_event_time: bool) -> None:
        namespace: Namespace = timer.namespace
        window = self._serializer.from_namespace(namespace)
        trigger, context = self._spec.trigger, self._trigger_context
        context.namespace = namespace
        try:
            on_time = trigger.on_event_time if is_event_time else trigger.on_processing_time
            result = on_time(timer.timestamp, window, context)
        except Exception as error:
            raise self._failure(error, trigger, window) from error
        self._act_on(result, window, namespace)
        if is_event_time == self._is_event_time and timer.timestamp == self._cleanup_time(window):
            self._remove(window, namespace)

    def _act_on(self, result: TriggerResult, window: Window, namespace: Namespace) -> None:
        if result is TriggerResult.CONTINUE:
            return
        if result.is_fire():
            self._fire(window, namespace)
        if result.is_purge():
            self._state.set_current_namespace(namespace)
            self._state.clear()

    def _fire(self, window: Window, namespace: Namespace) -> None:
        self._state.set_current_namespace(namespace)
        timestamp = window.max_timestamp()
        try:
            contents = self._contents.read(self._state)
            if contents is None:
                return
            if self._caller.function is None:
                self.collector.add(contents[0], timestamp)
                return
            self._window_context.set_window(window, namespace)
            results = self._caller.call(self.backend.current_key, self._window_context, window, contents)
            self.collector.add_results(results, timestamp)
        except Exception as error:
            raise self._failure(error, self._caller.function or self._contents.function, window) from error

    def _remove(self, window: Window, namespace: Namespace) -> None:
        self._state.set_current_namespace(namespace)
        self._state.clear()
        self._trigger_context.namespace = namespace
        self._spec.trigger.clear(window, self._trigger_context)
        self._clear_window_function(window, namespace)

    def _clear_window_function(self, window: Window, namespace: Namespace) -> None:
        if self._caller.needs_context:
            self._window_context.set_window(window, namespace)
            try:
                self._caller.clear(self._window_context)
            except Exception as error:
                raise self._failure(error, self._caller.function, window) from error

    def _cleanup_time(self, window: Window) -> int:
        if not self._is_event_time:
            return window.max_timestamp()
        return min(window.max_timestamp() + self._spec.allowed_lateness_ms, MAX_WATERMARK)

    def _failure(self, error: Exception, function: Any, window: Window) -> Exception:
        during = f"{window!r} of key {self.backend.current_key!r}"
        return user_function_error(self.context, error, function=function, during=during)


class _TriggerContext(TriggerContext):
    """The trigger's view of the operator; the key is the backend's current one."""

    namespace: Namespace

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator
        self._timers = operator.timers
        self._backend = operator.backend

    def get_current_processing_time(self) -> int:
        return self._operator.context.processing_time.now_ms()

    def get_metric_group(self) -> MetricGroup:
        return self._operator.context.metrics

    def get_current_watermark(self) -> int:
        return self._timers.current_watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._timers.register_processing_time_timer(time, self.namespace)

    def register_event_time_timer(self, time: int) -> None:
        self._timers.register_event_time_timer(time, self.namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.delete_processing_time_timer(time, self.namespace)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.delete_event_time_timer(time, self.namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        state = self._backend.get_namespaced_state(state_descriptor)
        state.set_current_namespace(self.namespace)
        return state


class _AssignerContext(WindowAssignerContext):
    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator

    def get_current_processing_time(self) -> int:
        return self._operator.context.processing_time.now_ms()

    def get_runtime_context(self) -> RuntimeContext:
        return self._operator.runtime_context


def missing_timestamp(context: OperatorContext) -> MissingTimestampError:
    """The error for a record without event time in front of event-time windows."""
    return MissingTimestampError(
        f"operator {context.operator_name!r} has event-time windows, but a record has no event time: "
        "call assign_timestamps_and_watermarks() before key_by(), or use processing-time windows"
    )
