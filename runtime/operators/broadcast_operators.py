"""The broadcast pattern: a stream that reaches every subtask leaves rules in a map, another stream reads them.

Input 0 is the stream that reads, keyed or not; input 1 is the broadcast one. The maps are operator state that every
subtask keeps, snapshots and gets back at any parallelism. Used by the task's thread.
Source: Flink, CoBroadcastWithNonKeyedOperator and CoBroadcastWithKeyedOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import StateAccessError, failing_index, user_function_error
from runtime.operators.functions import TimeDomain, TimerService, callable_of
from runtime.operators.input_order import InputOrder
from runtime.operators.operator import ProcessingTimeService
from runtime.operators.process_operators import KeyedFunctionTimers
from runtime.operators.two_input import KeyedTwoInputOperator, PlainTwoInputOperator
from runtime.operators.two_input_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
)
from runtime.state.backend import KeyedStateBackend, Timer
from runtime.state.descriptors import MapStateDescriptor, StateDescriptor
from runtime.state.state import BroadcastState, OperatorStateStore, ReadOnlyBroadcastState
from runtime.state.state_meta import DeclaredStates, broadcast_state


class ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """A broadcast state that cannot be changed."""

    __slots__ = ("_state",)

    def __init__(self, state: BroadcastState[Any, Any]) -> None:
        self._state = state

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> Iterable[Any]:
        return self._state.keys()

    def values(self) -> Iterable[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def clear(self) -> None:
        raise StateAccessError("only records of the broadcast stream can change broadcast state")


class BroadcastStates:
    """The broadcast states that the program has named.

    Args:
        descriptors: those given to `broadcast()`.
        store: of the operator.
        operator_name: for messages.
    """

    def __init__(
        self, descriptors: Sequence[MapStateDescriptor], store: OperatorStateStore, operator_name: str
    ) -> None:
        self._states: dict[str, BroadcastState[Any, Any]] = {d.name: store.get_broadcast_state(d) for d in descriptors}
        self._views = {name: ReadOnlyView(state) for name, state in self._states.items()}
        self._operator_name = operator_name

    def writable(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return the state of that name."""
        return self._states[self._known(descriptor)]

    def readable(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return the state of that name, to read."""
        return self._views[self._known(descriptor)]

    def _known(self, descriptor: MapStateDescriptor) -> str:
        if descriptor.name not in self._states:
            raise StateAccessError(
                f"operator {self._operator_name!r} has no broadcast state {descriptor.name!r}: name it in broadcast()"
            )
        return descriptor.name


class _BaseContext(BaseBroadcastProcessFunction.BaseContext):
    """Time, as both sides see it."""

    def __init__(
        self, states: BroadcastStates, processing_time: ProcessingTimeService, watermark: Callable[[], int]
    ) -> None:
        self.states = states
        self.element_time = NO_TIMESTAMP
        self._processing_time = processing_time
        self._watermark = watermark

    def timestamp(self) -> int:
        return self.element_time

    def current_processing_time(self) -> int:
        return self._processing_time.now_ms()

    def current_watermark(self) -> int:
        return self._watermark()


class _Context(_BaseContext, BroadcastProcessFunction.Context, KeyedBroadcastProcessFunction.Context):
    """Context of a record of the broadcast side."""

    backend: KeyedStateBackend | None = None

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        return self.states.writable(state_descriptor)

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None] | KeyedStateFunction
    ) -> None:
        backend = self.backend
        if backend is None:
            raise StateAccessError("apply_to_keyed_state() needs the stream that is not broadcast to be keyed")
        process = callable_of(function, KeyedStateFunction, "process")
        state = backend.get_state(state_descriptor)
        try:
            for key in list(backend.keys(state_descriptor.name)):
                backend.set_current_key(key)
                process(key, state)
        finally:
            backend.clear_current_key()


class _ReadOnlyContext(
    _BaseContext, BroadcastProcessFunction.ReadOnlyContext, KeyedBroadcastProcessFunction.OnTimerContext
):
    """Context of a record of the other side, or of a timer."""

    domain = TimeDomain.EVENT_TIME
    backend: KeyedStateBackend
    service: TimerService

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        return self.states.readable(state_descriptor)

    def timer_service(self) -> TimerService:
        return self.service

    def get_current_key(self) -> Any:
        return self.backend.current_key

    def time_domain(self) -> TimeDomain:
        return self.domain


class BroadcastProcessOperator(PlainTwoInputOperator):
    """Broadcast pattern in which the reading stream is not keyed."""

    def __init__(
        self,
        function: BroadcastProcessFunction[Any, Any, Any],
        descriptors: Sequence[MapStateDescriptor],
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__([function], output_type)
        self._descriptors = descriptors
        self._calls = (function.process_element, function.process_broadcast_element)

    def open(self) -> None:
        states = BroadcastStates(self._descriptors, self.operator_state, self.context.operator_name)
        surroundings = states, self.context.processing_time, lambda: self.current_watermark
        self._contexts = (_ReadOnlyContext(*surroundings), _Context(*surroundings))
        super().open()

    def input_order(self, input_index: int) -> InputOrder:
        # every rule is there before the first record
        return InputOrder.AS_THEY_COME if input_index else InputOrder.BEHIND_OTHERS

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        self.process_each(self._calls[index], self._contexts[index], values, timestamps)


class KeyedBroadcastProcessOperator(KeyedTwoInputOperator):
    """Broadcast pattern in which the reading stream is keyed."""

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        descriptors: Sequence[MapStateDescriptor],
        key_selector: Any,
        output_type: TypeInformation | None,
    ) -> None:
        super().__init__([function], (key_selector, None), output_type)
        self._function = function
        self._descriptors = descriptors

    def open(self) -> None:
        states = BroadcastStates(self._descriptors, self.operator_state, self.context.operator_name)
        surroundings = states, self.context.processing_time, lambda: self.timers.current_watermark
        self._ctx = _ReadOnlyContext(*surroundings)
        self._broadcast_ctx = _Context(*surroundings)
        self._ctx.backend = self._broadcast_ctx.backend = self.backend
        super().open()
        self._ctx.service = KeyedFunctionTimers(self.timers, self.context.processing_time)

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        call: Any = self._function.process_broadcast_element if index else self._function.process_element
        rows = iter(values)
        try:
            if index:
                self._process_broadcast(rows, timestamps)
            else:
                self._process_keyed(rows, timestamps, keys)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, call) from error

    def _process_keyed(self, rows: Any, timestamps: list[int], keys: list[Any]) -> None:
        ctx, process, set_key = self._ctx, self._function.process_element, self.backend.set_current_key
        add_results = self.collector.add_results
        for value, key, timestamp in zip(rows, keys, timestamps, strict=True):
            set_key(key)
            ctx.element_time = timestamp
            results = process(value, ctx)
            if results is not None:
                add_results(results, timestamp)

    def _process_broadcast(self, rows: Any, timestamps: list[int]) -> None:
        # what a broadcast record does must be the same everywhere: no key that happened to come before it
        self.backend.clear_current_key()
        ctx, process, add_results = (
            self._broadcast_ctx,
            self._function.process_broadcast_element,
            self.collector.add_results,
        )
        for value, ctx.element_time in zip(rows, timestamps, strict=True):
            results = process(value, ctx)
            if results is not None:
                add_results(results, ctx.element_time)

    def on_event_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.PROCESSING_TIME)

    def _fire(self, timer: Timer, domain: TimeDomain) -> None:
        function, ctx = self._function, self._ctx
        ctx.element_time = timer.timestamp
        ctx.domain = domain
        try:
            self.collector.add_results(function.on_timer(timer.timestamp, ctx), timer.timestamp)
        except Exception as error:
            during = f"on_timer at {timer.timestamp} for key {self.backend.current_key!r}"
            raise user_function_error(self.context, error, function=function.on_timer, during=during) from error


@dataclass(frozen=True)
class BroadcastProcessOperatorFactory:
    """BroadcastProcess.

    Args:
        function: a BroadcastProcessFunction; a KeyedBroadcastProcessFunction if there is a key selector.
        descriptors: the broadcast states, at least one.
        key_selector: of the stream that reads, if it is keyed.
        output_type: type of the results; None = Python objects.

    Raises:
        TypeError: the function is not of the kind that goes with the stream.
    """

    function: Any
    descriptors: Sequence[MapStateDescriptor]
    key_selector: Any = None
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        kind = BroadcastProcessFunction if self.key_selector is None else KeyedBroadcastProcessFunction
        if not isinstance(self.function, kind):
            stream = "not keyed" if self.key_selector is None else "keyed"
            raise TypeError(f"a stream that is {stream} needs a {kind.__name__} here, not {self.function!r}")
        if not self.descriptors:
            raise TypeError("broadcast state needs at least one descriptor")

    @property
    def declared_states(self) -> DeclaredStates:
        rules = tuple(map(broadcast_state, self.descriptors))
        # the context of a keyed one changes state of any descriptor
        is_keyed = self.key_selector is not None
        return DeclaredStates(rules, False) if is_keyed else states_with_functions([self.function], rules)

    def create(self) -> BroadcastProcessOperator | KeyedBroadcastProcessOperator:
        if self.key_selector is None:
            return BroadcastProcessOperator(self.function, self.descriptors, self.output_type)
        return KeyedBroadcastProcessOperator(self.function, self.descriptors, self.key_selector, self.output_type)
