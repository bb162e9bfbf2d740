"""WindowOperator: keyed windows with any assigner and any trigger, element by element.

The faster `aligned_windows` serves windows with the default event-time trigger and keeps the same state.
An element is late for a window that the watermark has passed by the allowed lateness; one that is late for all its
windows goes to the late side output, or is dropped and counted. State is removed by a timer at the window's cleanup
time. Used by the task's thread. Source: Flink, WindowOperator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MAX_WATERMARK
from runtime.operators.errors import MissingTimestampError, failing_index, user_function_error
from runtime.operators.functions import RuntimeContext
from runtime.operators.late_records import LateRecords
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.user_operator import KeyedOperator
from runtime.operators.windowing.assigners import WindowAssigner, WindowAssignerContext
from runtime.operators.windowing.contents import EvictableContents, WindowContents
from runtime.operators.windowing.evictors import Evictor, TimestampedValue
from runtime.operators.windowing.trigger_context import WindowTriggerContext
from runtime.operators.windowing.triggers import Trigger, TriggerResult
from runtime.operators.windowing.window_functions import WindowContext, WindowFunctionCaller
from runtime.operators.windowing.windows import Namespace, Window, window_serializer
from runtime.state.backend import Timer


@dataclass(frozen=True)
class WindowSpec:
    """Describes a window operator; see `WindowOperatorFactory`."""

    assigner: WindowAssigner[Any, Any]
    contents: WindowContents
    window_function: Any
    trigger: Trigger[Any, Any]
    allowed_lateness_ms: int
    late_data_tag: OutputTag | None
    evictor: Evictor[Any, Any] | None = None


class WindowOperator(KeyedOperator):
    """Windows of a keyed stream, the general case; `merging_windows` serves windows that merge."""

    timers_name = "window-timers"
    is_merging = False

    def __init__(self, spec: WindowSpec, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__([spec.contents.function, spec.window_function], key_selector, output_type)
        self._spec = spec
        self._serializer = window_serializer(spec.assigner.get_window_serializer())
        self._is_event_time = spec.assigner.is_event_time()
        self._contents = spec.contents if spec.evictor is None else EvictableContents(spec.contents)
        self._caller = WindowFunctionCaller(spec.window_function)
        #: of the batch that is processed
        self._input_type: TypeInformation | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._late = LateRecords(context)

    def open(self) -> None:
        super().open()
        self._state = self.backend.get_namespaced_state(self._contents.descriptor(), fitted=True)
        self._window_context = WindowContext(self.backend, self.timers, self.context.processing_time, self.is_merging)
        self._trigger_context = WindowTriggerContext(self)
        self._assigner_context = _AssignerContext(self)

    def process_batch(self, batch: RecordBatch) -> None:
        self._input_type = batch.type_info
        super().process_batch(batch)

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        set_key, process = self.backend.set_current_key, self.process_element
        rows = iter(values)
        try:
            for value, timestamp, key in zip(rows, timestamps, keys, strict=True):
                set_key(key)
                process(value, timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._contents.function) from error

    def on_event_time(self, timer: Timer) -> None:
        self.on_timer(timer, is_event_time=True)

    def on_processing_time(self, timer: Timer) -> None:
        self.on_timer(timer, is_event_time=False)

    def process_element(self, value: Any, timestamp: int) -> None:
        """Process an element of the current key."""
        if self._is_event_time and timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        is_skipped = True
        for window in self._spec.assigner.assign_windows(value, timestamp, self._assigner_context):
            cleanup_time = self._cleanup_time(window)
            if self._is_event_time and cleanup_time <= self.timers.current_watermark:
                continue
            is_skipped = False
            namespace = self._serializer.to_namespace(window)
            self._add(value, timestamp, window, namespace, namespace)
            self._register_cleanup(cleanup_time, namespace)
        if is_skipped:
            self._skip_if_late(value, timestamp)

    def on_timer(self, timer: Timer, is_event_time: bool) -> None:
        """Handle a timer of the trigger or of a window's end."""
        namespace: Namespace = timer.namespace
        window = self._serializer.from_namespace(namespace)
        self._trigger_on_timer(timer.timestamp, is_event_time, window, namespace, namespace)
        if is_event_time == self._is_event_time and timer.timestamp == self._cleanup_time(window):
            self._remove(window, namespace, namespace)

    def _add(
        self, value: Any, timestamp: int, window: Window, namespace: Namespace, state_namespace: Namespace
    ) -> None:
        """Add an element to a window, and follow the trigger's decision."""
        self._state.set_current_namespace(state_namespace)
        self._contents.add(self._state, value if self._spec.evictor is None else (value, timestamp))
        self._trigger_context.namespace = namespace
        result = self._spec.trigger.on_element(value, timestamp, window, self._trigger_context)
        if result is not TriggerResult.CONTINUE:
            self._act_on(result, window, namespace, state_namespace)

    def _skip_if_late(self, value: Any, timestamp: int) -> None:
        """Skip an element that no window accepts, or that has no window."""
        if self._is_event_time and timestamp + self._spec.allowed_lateness_ms <= self.timers.current_watermark:
            self._skip_late(value, timestamp)

    def _skip_late(self, value: Any, timestamp: int) -> None:
        tag = self._spec.late_data_tag
        if tag is None:
            self._late.drop(value, self._input_type, timestamp, self.timers.current_watermark)
        else:
            self.collector.add_side(tag, value, timestamp)

    def _trigger_on_timer(
        self, time: int, is_event_time: bool, window: Window, namespace: Namespace, state_namespace: Namespace
    ) -> None:
        trigger, context = self._spec.trigger, self._trigger_context
        context.namespace = namespace
        try:
            on_time = trigger.on_event_time if is_event_time else trigger.on_processing_time
            result = on_time(time, window, context)
        except Exception as error:
            raise self._failure(error, trigger, window) from error
        if result is not TriggerResult.CONTINUE:
            self._act_on(result, window, namespace, state_namespace)

    def _act_on(self, result: TriggerResult, window: Window, namespace: Namespace, state_namespace: Namespace) -> None:
        if result.is_fire():
            self._fire(window, namespace, state_namespace)
        if result.is_purge():
            self._state.set_current_namespace(state_namespace)
            self._state.clear()

    def _fire(self, window: Window, namespace: Namespace, state_namespace: Namespace) -> None:
        state = self._state
        state.set_current_namespace(state_namespace)
        try:
            contents = self._contents.read(state)
            if contents is None:
                return
            if self._spec.evictor is None:
                self._emit(window, namespace, contents)
            else:
                kept = self._emit_evicting(self._spec.evictor, window, namespace, contents)
                state.set_current_namespace(state_namespace)
                state.update(kept)
        except Exception as error:
            raise self._failure(error, self._caller.function or self._contents.function, window) from error

    def _emit(self, window: Window, namespace: Namespace, contents: list[Any]) -> None:
        timestamp = window.max_timestamp()
        if self._caller.function is None:
            self.collector.add(contents[0], timestamp)
            return
        self._window_context.set_window(window, namespace)
        results = self._caller.call(self.backend.current_key, self._window_context, window, contents)
        self.collector.add_results(results, timestamp)

    def _emit_evicting(
        self, evictor: Evictor[Any, Any], window: Window, namespace: Namespace, pairs: list[Any]
    ) -> list[Any]:
        """Emit the results of the elements that an evictor leaves; returns the pairs (element, event time) that stay in
        the window."""
        elements = [TimestampedValue(value, timestamp) for value, timestamp in pairs]
        evictor.evict_before(elements, len(elements), window, self._trigger_context)
        contents = self._contents.of_elements([element.value for element in elements])
        if contents is not None:
            self._emit(window, namespace, contents)
        evictor.evict_after(elements, len(elements), window, self._trigger_context)
        return [(element.value, element.timestamp) for element in elements]

    def _remove(self, window: Window, namespace: Namespace, state_namespace: Namespace) -> None:
        self._state.set_current_namespace(state_namespace)
        self._state.clear()
        self._trigger_context.namespace = namespace
        try:
            self._spec.trigger.clear(window, self._trigger_context)
        except Exception as error:
            raise self._failure(error, self._spec.trigger, window) from error
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

    def _register_cleanup(self, cleanup_time: int, namespace: Namespace) -> None:
        if cleanup_time == MAX_WATERMARK:
            return
        if self._is_event_time:
            self.timers.register_event_time_timer(cleanup_time, namespace)
        else:
            self.timers.register_processing_time_timer(cleanup_time, namespace)

    def _failure(self, error: Exception, function: Any, window: Window) -> Exception:
        during = f"{window!r} of key {self.backend.current_key!r}"
        return user_function_error(self.context, error, function=function, during=during)


class _AssignerContext(WindowAssignerContext):
    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator

    def get_current_processing_time(self) -> int:
        return self._operator.context.processing_time.now_ms()

    def get_runtime_context(self) -> RuntimeContext:
        return self._operator.runtime_context


def missing_timestamp(context: OperatorContext) -> MissingTimestampError:
    """Return the error for a record without event time in event-time windows."""
    return MissingTimestampError(
        f"operator {context.operator_name!r} has event-time windows, but a record has no event time: "
        "call assign_timestamps_and_watermarks() before key_by(), or use processing-time windows"
    )
