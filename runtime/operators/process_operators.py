"""ProcessFunction and KeyedProcessFunction: records in, records and side outputs out, with time, state and timers.

Used by the task's thread. Source: Flink, ProcessOperator and KeyedProcessOperator.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.declared_states import states_with_functions
from runtime.operators.errors import StateAccessError, failing_index, user_function_error
from runtime.operators.functions import KeyedProcessFunction, ProcessFunction, TimeDomain, TimerService
from runtime.operators.operator import ProcessingTimeService
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input_functions import CoProcessFunction, KeyedCoProcessFunction
from runtime.operators.user_operator import KeyedOperator, UserFunctionOperator
from runtime.state.backend import KeyedStateBackend, Timer
from runtime.state.backend import TimerService as InternalTimers
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import DeclaredStates


class UnkeyedFunctionTimers(TimerService):
    """Tells the time; timers need a key."""

    def __init__(self, processing_time: ProcessingTimeService) -> None:
        self._processing_time = processing_time
        self.watermark = MIN_WATERMARK

    def current_processing_time(self) -> int:
        return self._processing_time.now_ms()

    def current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise self._refusal()

    def register_event_time_timer(self, timestamp: int) -> None:
        raise self._refusal()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        raise self._refusal()

    def delete_event_time_timer(self, timestamp: int) -> None:
        raise self._refusal()

    @staticmethod
    def _refusal() -> StateAccessError:
        return StateAccessError("timers need a keyed stream: use key_by() and a KeyedProcessFunction")


class ProcessFunctionContext(ProcessFunction.Context, CoProcessFunction.Context):
    __slots__ = ("element_time", "service")

    def __init__(self, service: TimerService) -> None:
        self.service = service
        self.element_time = NO_TIMESTAMP

    def timer_service(self) -> TimerService:
        return self.service

    def timestamp(self) -> int:
        return self.element_time


class ProcessOperator(UserFunctionOperator):
    """Runs a ProcessFunction."""

    def __init__(self, function: ProcessFunction, output_type: TypeInformation | None) -> None:
        super().__init__([function], output_type)
        self._function = function
        self._restored_watermark = MIN_WATERMARK

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is not None:
            self._restored_watermark = snapshot.watermark
        super().initialize_state(snapshot)

    def open(self) -> None:
        self._timer_service = UnkeyedFunctionTimers(self.context.processing_time)
        self._timer_service.watermark = self._restored_watermark
        self._ctx = ProcessFunctionContext(self._timer_service)
        super().open()

    def process_batch(self, batch: RecordBatch) -> None:
        values = batch.values()
        timestamps = batch.timestamps()
        if timestamps is None:
            timestamps = [NO_TIMESTAMP] * len(values)
        if not batch.marks:
            self._process_rows(values, timestamps)
        else:
            for start, stop, watermark in batch.segments():
                self._process_rows(values[start:stop], timestamps[start:stop])
                if watermark is not None and watermark >= self._timer_service.watermark:
                    self._timer_service.watermark = watermark
                    self.collector.mark(watermark)
        self.collector.flush()

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp >= self._timer_service.watermark:
            self._timer_service.watermark = watermark.timestamp
            self.output.emit_watermark(watermark)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        return OperatorSnapshot(operator_states=self.snapshot_operator_state(), watermark=self._timer_service.watermark)

    def _process_rows(self, values: list[Any], timestamps: list[int]) -> None:
        self.process_each(self._function.process_element, self._ctx, values, timestamps)


class KeyedFunctionTimers(TimerService):
    """Timers of the current key."""

    def __init__(self, timers: InternalTimers, processing_time: ProcessingTimeService) -> None:
        self._timers = timers
        self._processing_time = processing_time
        self.register_event_time_timer = timers.register_event_time_timer  # type: ignore[method-assign]
        self.delete_event_time_timer = timers.delete_event_time_timer  # type: ignore[method-assign]
        self.register_processing_time_timer = timers.register_processing_time_timer  # type: ignore[method-assign]
        self.delete_processing_time_timer = timers.delete_processing_time_timer  # type: ignore[method-assign]

    def current_processing_time(self) -> int:
        return self._processing_time.now_ms()

    def current_watermark(self) -> int:
        return self._timers.current_watermark

    # the instance's own attributes stand before these four: one call less for each record
    def register_processing_time_timer(self, timestamp: int) -> None:
        self._timers.register_processing_time_timer(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._timers.register_event_time_timer(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.delete_processing_time_timer(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.delete_event_time_timer(timestamp)


class KeyedFunctionContext(KeyedProcessFunction.OnTimerContext, KeyedCoProcessFunction.OnTimerContext):
    __slots__ = ("backend", "domain", "element_time", "service")

    def __init__(self, backend: KeyedStateBackend, service: TimerService) -> None:
        self.backend = backend
        self.service = service
        self.element_time = NO_TIMESTAMP
        self.domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        return self.backend.current_key

    def timer_service(self) -> TimerService:
        return self.service

    def timestamp(self) -> int:
        return self.element_time

    def time_domain(self) -> TimeDomain:
        return self.domain


class KeyedProcessOperator(KeyedOperator):
    """Runs a KeyedProcessFunction."""

    def __init__(self, function: KeyedProcessFunction, key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__([function], key_selector, output_type)
        self._function = function

    def open(self) -> None:
        # the context needs the timers, the user's open() may not; restored timers fire at the earliest after it
        super().open()
        service = KeyedFunctionTimers(self.timers, self.context.processing_time)
        self._ctx = KeyedFunctionContext(self.backend, service)

    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        ctx, process, set_key = self._ctx, self._function.process_element, self.backend.set_current_key
        out_values, out_timestamps = self.collector.values, self.collector.timestamps
        add_results = self.collector.add_results
        rows = iter(values)
        try:
            for value, key, timestamp in zip(rows, keys, timestamps, strict=True):
                set_key(key)
                ctx.element_time = timestamp
                results = process(value, ctx)
                if type(results) is not GeneratorType:
                    add_results(results, timestamp)
                    continue
                # add_results, spelled out for generators: one call less for each record
                for result in results:
                    if type(result) is tuple and result and isinstance(result[0], OutputTag):
                        add_results((result,), timestamp)
                    else:
                        out_values.append(result)
                        out_timestamps.append(timestamp)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, self._function.process_element) from error

    def on_event_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.EVENT_TIME)

    def on_processing_time(self, timer: Timer) -> None:
        self._fire(timer, TimeDomain.PROCESSING_TIME)

    def _fire(self, timer: Timer, domain: TimeDomain) -> None:
        ctx = self._ctx
        ctx.element_time = timer.timestamp
        ctx.domain = domain
        try:
            self.collector.add_results(self._function.on_timer(timer.timestamp, ctx), timer.timestamp)
        except Exception as error:
            during = f"on_timer at {timer.timestamp} for key {self.backend.current_key!r}"
            raise user_function_error(self.context, error, function=self._function.on_timer, during=during) from error


@dataclass(frozen=True)
class ProcessOperatorFactory:
    """Process: a ProcessFunction on a stream that is not keyed.

    Raises:
        TypeError: `function` is not a ProcessFunction.
    """

    function: ProcessFunction
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        _check(self.function, ProcessFunction, "process() of a stream")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function])

    def create(self) -> ProcessOperator:
        return ProcessOperator(self.function, self.output_type)


@dataclass(frozen=True)
class KeyedProcessOperatorFactory:
    """KeyedProcess: a KeyedProcessFunction on a keyed stream.

    Raises:
        TypeError: `function` is not a KeyedProcessFunction, or the key selector is neither KeySelector nor callable.
    """

    function: KeyedProcessFunction
    key_selector: Any
    output_type: TypeInformation | None = None

    def __post_init__(self) -> None:
        _check(self.function, KeyedProcessFunction, "process() of a keyed stream")

    @property
    def declared_states(self) -> DeclaredStates:
        return states_with_functions([self.function, self.key_selector])

    def create(self) -> KeyedProcessOperator:
        return KeyedProcessOperator(self.function, self.key_selector, self.output_type)


def _check(function: Any, kind: type, where: str) -> None:
    if not isinstance(function, kind):
        raise TypeError(f"{where} needs a {kind.__name__}, not {function!r}")
