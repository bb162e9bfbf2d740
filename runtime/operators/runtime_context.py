"""RuntimeContext and the keyed state stores as operators implement them. Used by the task's thread."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from runtime.common.accumulators import GROUP as ACCUMULATORS
from runtime.common.accumulators import Accumulator
from runtime.metrics import MetricGroup
from runtime.operators.errors import StateAccessError
from runtime.operators.functions import KeyedStateStore, RuntimeContext
from runtime.operators.operator import OperatorContext
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.state import AggregatingState, ListState, MapState, ReducingState, ValueState


class BackendStateStore(KeyedStateStore):
    """Keyed state, found by a function from descriptor to state object."""

    def __init__(self, find: Callable[[StateDescriptor], Any]) -> None:
        self._find = find

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._checked(state_descriptor, ValueStateDescriptor)  # type: ignore[no-any-return]

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._checked(state_descriptor, ListStateDescriptor)  # type: ignore[no-any-return]

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._checked(state_descriptor, MapStateDescriptor)  # type: ignore[no-any-return]

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._checked(state_descriptor, ReducingStateDescriptor)  # type: ignore[no-any-return]

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._checked(state_descriptor, AggregatingStateDescriptor)  # type: ignore[no-any-return]

    def _checked(self, descriptor: StateDescriptor, kind: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, kind):
            raise TypeError(f"expected a {kind.__name__}, not {descriptor!r}")
        return self._find(descriptor)


class NamespacedStateStore(BackendStateStore):
    """Keyed state of one window at a time.

    A requested state follows the window of this store, independently of other users of the same state.
    """

    def __init__(self, backend: KeyedStateBackend) -> None:
        super().__init__(self._get)
        self._backend = backend
        self._namespace: Hashable = None

    def set_namespace(self, namespace: Hashable) -> None:
        """Choose the window."""
        self._namespace = namespace

    def _get(self, descriptor: StateDescriptor) -> Any:
        state = self._backend.get_namespaced_state(descriptor)
        state.set_current_namespace(self._namespace)
        return state


class StreamRuntimeContext(BackendStateStore, RuntimeContext):
    """The RuntimeContext of one operator.

    Args:
        context: of the operator.
        backend: its keyed state; None if its input is not keyed.
    """

    def __init__(self, context: OperatorContext, backend: KeyedStateBackend | None) -> None:
        super().__init__(self._no_state if backend is None else backend.get_state)
        self._context = context
        self._accumulators: dict[str, Accumulator] = {}

    def get_task_name(self) -> str:
        return self._context.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask_index

    def get_attempt_number(self) -> int:
        return self._context.attempt

    def get_task_name_with_subtasks(self) -> str:
        context = self._context
        return f"{context.task_name} ({context.subtask_index + 1}/{context.parallelism})#{context.attempt}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._context.metrics

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        if not isinstance(accumulator, Accumulator):
            raise TypeError(f"accumulator {name!r} must be an Accumulator, not {accumulator!r}")
        if name in self._accumulators:
            raise ValueError(f"operator {self._context.operator_name!r} has an accumulator {name!r} already")
        self._accumulators[name] = accumulator
        group = self._context.metrics.add_group(ACCUMULATORS, type(accumulator).__name__)
        for part, value in accumulator.parts().items():
            group.add_group(part).gauge(name, value)

    def get_accumulator(self, name: str) -> Accumulator | None:
        return self._accumulators.get(name)

    def _no_state(self, descriptor: StateDescriptor) -> Any:
        raise StateAccessError(
            f"state {descriptor.get_name()!r} was asked for in operator {self._context.operator_name!r}, "
            "whose input is not keyed; keyed state needs key_by() before it"
        )
