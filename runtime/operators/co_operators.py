"""Connected streams: one function for the records of two streams, keyed or not.

Map and flat_map are process functions of which the context is not needed. On keyed streams both sides share keyed
state and timers. Used by the task's thread. Source: Flink, CoProcessOperator and KeyedCoProcessOperator; PyFlink,
ConnectedStreams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.functions import Function, TimeDomain
from runtime.operators.process_operators import (
    KeyedFunctionContext,
    KeyedFunctionTimers,
    ProcessFunctionContext,
    UnkeyedFunctionTimers,
)
from runtime.operators.two_input import KeyedTwoInputOperator, PlainTwoInputOperator
from runtime.operators.two_input_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from runtime.state.backend import Timer
from runtime.state.state_meta import DeclaredStates

Call = Callable[[Any, Any], Iterable[Any] | None]
"""(record, context) → results."""


class CoProcessOperator(PlainTwoInputOperator):
    """Two inputs that are not keyed."""

    def __init__(self, function: Function, output_type: TypeInformation | None) -> None:
        super().__init__([function], output_type)
        self._calls = calls_of(function)

    def open(self) -> None:
        self._timer_service = UnkeyedFunctionTimers(self.context.processing_time)
        self._timer_service.watermark = self.current_watermark
        self._ctx = ProcessFunctionContext(self._timer_service)
        super().open()

    def advance_watermark(self, watermark: int) -> None:
        super().advance_watermark(watermark)
        self._timer_service.watermark = self.current_watermark

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        self.process_each(self._calls[index], self._ctx, values, timestamps)


class KeyedCoProcessOperator(KeyedTwoInputOperator):
    """Two inputs that are keyed alike."""

    def __init__(self, function: Function, key_selectors: tuple[Any, Any], output_type: TypeInformation | None) -> None:
        super().__init__([function], key_selectors, output_type)
        self._function = function
        self._calls = calls_of(function)

    def open(self) -> None:
        super().open()
        service = KeyedFunctionTimers(self.timers, self.context.processing_time)
        self._ctx = KeyedFunctionContext(self.backend, service)

    def process_rows(self, index: int, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        ctx, call, set_key = self._ctx, self._calls[index], self.backend.set_current_key
        add_results = self.collector.add_results
        rows = iter(values)
        try:
            for value, key, timestamp in zip(rows, keys, timestamps, strict=True):
                set_key(key)
                ctx.element_time = timestamp
                results = call(value, ctx)
                if results is not None:
                    add_results(results, timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, call) from error

    def on_event_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.PROCESSING_TIME)

    def _fire(self, timer: Timer, domain: TimeDomain) -> None:
        function, ctx = self._function, self._ctx
        if not isinstance(function, KeyedCoProcessFunction):
            return
        ctx.element_time = timer.timestamp
        ctx.domain = domain
        try:
            self.collector.add_results(function.on_timer(timer.timestamp, ctx), timer.timestamp)
        except Exception as error:
            during = f"on_timer at {timer.timestamp} for key {self.backend.current_key!r}"
            raise user_function_error(self.context, error, function=function.on_timer, during=during) from error


def calls_of(function: Any) -> tuple[Call, Call]:
    """Return the calls for a record of the first and of the second input.

    Raises:
        TypeError: it is no function for connected streams.
    """
    if isinstance(function, (CoProcessFunction, KeyedCoProcessFunction)):
        return function.process_element1, function.process_element2
    if isinstance(function, CoMapFunction):
        return _mapping(function.map1), _mapping(function.map2)
    if isinstance(function, CoFlatMapFunction):
        return _flat_mapping(function.flat_map1), _flat_mapping(function.flat_map2)
    raise TypeError(
        "connected streams need a CoMapFunction, CoFlatMapFunction, CoProcessFunction or KeyedCoProcessFunction, "
        f"not {function!r}"
    )


def _mapping(call: Callable[[Any], Any]) -> Call:
    def call_and_wrap(value: Any, _: Any) -> list[Any] | None:
        result = call(value)
        return None if result is None else [result]

    return call_and_wrap


def _flat_mapping(call: Callable[[Any], Iterable[Any] | None]) -> Call:
    return lambda value, _: call(value)


@dataclass(frozen=True)
class CoProcessOperatorFactory:
    """CoProcess, and co-map and co-flat-map.

    Args:
        function: a CoMapFunction, CoFlatMapFunction or CoProcessFunction; a KeyedCoProcessFunction with keys only.
        output_type: type of the results; None = Python objects.
        key_selectors: of the two inputs, if both are keyed.

    Raises:
        TypeError: the function is of another kind, or needs keys and there are none.
    """

    function: Any
    output_type: TypeInformation | None = None
    key_selectors: tuple[Any, Any] | None = None

    def __post_init__(self) -> None:
        calls_of(self.function)
        if self.key_selectors is None and isinstance(self.function, KeyedCoProcessFunction):
            raise TypeError("a KeyedCoProcessFunction needs both connected streams to be keyed: call key_by() on each")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function, *(self.key_selectors or ())])

    def create(self) -> CoProcessOperator | KeyedCoProcessOperator:
        if self.key_selectors is None:
            return CoProcessOperator(self.function, self.output_type)
        return KeyedCoProcessOperator(self.function, self.key_selectors, self.output_type)
