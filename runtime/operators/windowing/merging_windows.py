"""MergingWindowOperator: windows that merge, as sessions do.

Which windows of a key are open is keyed state; contents live under the namespace of the state's window, triggers,
timers and functions see the window itself (see `merging_window_set`). Used by the task's thread.
Source: Flink, WindowOperator (its MergingWindowAssigner branch).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.batch import NO_TIMESTAMP
from runtime.operators.errors import OperatorError
from runtime.operators.windowing.assigners import MergingWindowAssigner, WindowAssigner
from runtime.operators.windowing.merging_window_set import Merge, MergingWindowSet, merge_finder
from runtime.operators.windowing.window_operator import WindowOperator, WindowSpec, missing_timestamp
from runtime.operators.windowing.windows import Namespace, TimeWindowSerializer, Window, window_serializer
from runtime.state.backend import Timer
from runtime.state.descriptors import ValueStateDescriptor

STATE_NAME = "merging-window-set"
_TIME_WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])
_PAIRS_OF_TIME_WINDOWS = Types.LIST(Types.TUPLE([_TIME_WINDOW, _TIME_WINDOW]))


def open_windows(assigner: WindowAssigner[Any, Any]) -> ValueStateDescriptor:
    """Return the descriptor of the state with the open windows of each key."""
    is_time = type(window_serializer(assigner.get_window_serializer())) is TimeWindowSerializer
    return ValueStateDescriptor(STATE_NAME, _PAIRS_OF_TIME_WINDOWS if is_time else None)


class MergingWindowOperator(WindowOperator):
    """Windows of a MergingWindowAssigner, element by element."""

    is_merging = True

    def __init__(self, spec: WindowSpec, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__(spec, key_selector, output_type)
        assert isinstance(spec.assigner, MergingWindowAssigner)
        self._find_merges = merge_finder(spec.assigner, self._serializer)

    def open(self) -> None:
        super().open()
        #: the open windows of each key, as pairs (window, window of its state)
        self._open_windows = self.backend.get_state(open_windows(self._spec.assigner), fitted=True)

    def process_element(self, value: Any, timestamp: int) -> None:
        if self._is_event_time and timestamp == NO_TIMESTAMP:
            raise missing_timestamp(self.context)
        self._add_to_windows(
            value, timestamp, self._spec.assigner.assign_windows(value, timestamp, self._assigner_context)
        )

    def _add_to_windows(self, value: Any, timestamp: int, assigned: Iterable[Window]) -> None:
        """Add an element to the windows that its own windows merge into."""
        pairs = self._open_windows.value()
        windows: dict[Namespace, Namespace] = {} if pairs is None else dict(pairs)
        window_set = MergingWindowSet(self._find_merges, windows)
        is_skipped = True
        for window in assigned:
            namespace, merges = window_set.add_window(self._serializer.to_namespace(window))
            for merge in merges:
                self._merge(merge)
            actual = self._serializer.from_namespace(namespace)
            cleanup_time = self._cleanup_time(actual)
            if self._is_event_time and cleanup_time <= self.timers.current_watermark:
                del windows[namespace]
                continue
            is_skipped = False
            self._add(value, timestamp, actual, namespace, windows[namespace])
            self._register_cleanup(cleanup_time, namespace)
        self._keep_open(windows)
        if is_skipped:
            self._skip_if_late(value, timestamp)

    def on_timer(self, timer: Timer, is_event_time: bool) -> None:
        namespace: Namespace = timer.namespace
        pairs = self._open_windows.value()
        windows: dict[Namespace, Namespace] = {} if pairs is None else dict(pairs)
        state_namespace = windows.get(namespace)
        if state_namespace is None:
            return  # a trigger has left a timer of a window that has been merged into another
        window = self._serializer.from_namespace(namespace)
        self._trigger_on_timer(timer.timestamp, is_event_time, window, namespace, state_namespace)
        if is_event_time == self._is_event_time and timer.timestamp == self._cleanup_time(window):
            self._remove(window, namespace, state_namespace)
            del windows[namespace]
            self._keep_open(windows)

    def _merge(self, merge: Merge) -> None:
        """Merge several windows with their contents, trigger state and timers."""
        context, trigger = self._trigger_context, self._spec.trigger
        window = self._serializer.from_namespace(merge.result)
        if self._is_event_time and self._cleanup_time(window) <= self.timers.current_watermark:
            raise OperatorError(
                f"{self._spec.assigner!r} merges windows that are open into one that is late: {window!r} at the "
                f"watermark {self.timers.current_watermark}"
            )
        context.namespace = merge.result
        context.merged_namespaces = merge.merged
        trigger.on_merge(window, context)
        context.merged_namespaces = ()
        for namespace in merge.merged:
            context.namespace = namespace
            old = self._serializer.from_namespace(namespace)
            trigger.clear(old, context)
            self._delete_cleanup(self._cleanup_time(old), namespace)
        if merge.merged_states:
            self._contents.merge(self._state, merge.state, merge.merged_states)

    def _delete_cleanup(self, cleanup_time: int, namespace: Namespace) -> None:
        if self._is_event_time:
            self.timers.delete_event_time_timer(cleanup_time, namespace)
        else:
            self.timers.delete_processing_time_timer(cleanup_time, namespace)

    def _keep_open(self, windows: dict[Namespace, Namespace]) -> None:
        self._open_windows.update(list(windows.items()) or None)
