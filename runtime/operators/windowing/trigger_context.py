"""WindowTriggerContext: the view that triggers and evictors have of a window operator. Used by the task's thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.metrics import MetricGroup
from runtime.operators.user_operator import KeyedOperator
from runtime.operators.windowing.evictors import EvictorContext
from runtime.operators.windowing.triggers import OnMergeContext
from runtime.operators.windowing.windows import Namespace
from runtime.state.descriptors import StateDescriptor


class WindowTriggerContext(OnMergeContext, EvictorContext):
    """The trigger's view of the operator; the key is the backend's current one, the window `namespace`.

    Args:
        operator: the operator; its backend and timers exist already.
    """

    namespace: Namespace
    #: the windows that have just merged into the current one
    merged_namespaces: Sequence[Namespace] = ()

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator
        self._timers = operator.timers
        self._backend = operator.backend
        #: by name; the descriptor shows whether the same state is requested
        self._states: dict[str, tuple[StateDescriptor, Any]] = {}

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
        state = self._state_of(state_descriptor)
        state.set_current_namespace(self.namespace)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        if not self.merged_namespaces:
            return
        merge = getattr(self._state_of(state_descriptor), "merge_namespaces", None)
        if merge is None:
            raise TypeError(f"{state_descriptor!r} cannot be merged; list, reducing and aggregating state can")
        merge(self.namespace, self.merged_namespaces)

    def _state_of(self, descriptor: StateDescriptor) -> Any:
        # the backend compares kinds and serializers each time: too slow for a request per element
        known = self._states.get(descriptor.name)
        if known is not None and known[0] is descriptor:
            return known[1]
        state = self._backend.get_namespaced_state(descriptor)
        self._states[descriptor.name] = descriptor, state
        return state
