"""Bases of the operators that run user functions: open and close them, and give them keyed state with its timers.

Used by the task's thread. Source: Flink, AbstractUdfStreamOperator and AbstractStreamOperator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from runtime.common.execution_kind import ExecutionKind
from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.batch_keys import BatchKeySelector
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark
from runtime.operators.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from runtime.operators.collector import BatchCollector
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.functions import Function, KeyedStateStore, RuntimeContext, key_function
from runtime.operators.input_order import InputOrder
from runtime.operators.interruption import firing_state, other_states, was_firing
from runtime.operators.operator import OneInputOperator, OperatorContext, StreamOperator
from runtime.operators.output import Output
from runtime.operators.runtime_context import StreamRuntimeContext
from runtime.state.backend import KeyedStateBackend, Timer, TimerService
from runtime.state.operator_state import OperatorStateBackend
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, OperatorStateSnapshot, SnapshotRequest


class FunctionOperator(StreamOperator):
    """Opens user functions before the first record and closes them at the end; keeps their operator state.

    Args:
        functions: those of the user; only `Function` objects have anything to open.
        output_type: type of the main output; None = Python objects.
    """

    calls_by_record = True
    collector: BatchCollector
    runtime_context: RuntimeContext

    def __init__(self, functions: Sequence[Any], output_type: TypeInformation | None) -> None:
        self.functions = [function for function in functions if isinstance(function, Function)]
        self.output_type = output_type
        self.operator_state = OperatorStateBackend()
        self._opened: list[Function] = []

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.collector = BatchCollector(context, output, self.output_type)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Restore operator state and hand it to the functions; keyed state must be there already."""
        if snapshot is not None:
            self.operator_state.restore(other_states(snapshot))
        keyed_store: KeyedStateStore | None = None
        for function in self.functions:
            if isinstance(function, CheckpointedFunction):
                if keyed_store is None:
                    keyed_store = StreamRuntimeContext(self.context, self._backend_or_none())
                context = FunctionInitializationContext(self.operator_state, keyed_store, snapshot is not None)
                try:
                    function.initialize_state(context)
                except Exception as error:
                    during = "initialize_state()"
                    raise user_function_error(self.context, error, function=function, during=during) from error

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        return OperatorSnapshot(operator_states=self.snapshot_operator_state())

    def snapshot_operator_state(self) -> dict[str, OperatorStateSnapshot]:
        """Have the functions bring their operator state up to date, and take it."""
        for function in self.functions:
            if isinstance(function, CheckpointedFunction):
                try:
                    function.snapshot_state(FunctionSnapshotContext())
                except Exception as error:
                    during = "snapshot_state()"
                    raise user_function_error(self.context, error, function=function, during=during) from error
        return self.operator_state.snapshot()

    def open(self) -> None:
        self.runtime_context = StreamRuntimeContext(self.context, self._backend_or_none())
        for function in self.functions:
            # listed first: what open() acquired before it failed is for close() to release
            self._opened.append(function)
            try:
                function.open(self.runtime_context)
            except Exception as error:
                raise user_function_error(self.context, error, function=function, during="open()") from error

    def close(self) -> None:
        opened, self._opened = self._opened, []
        first: Exception | None = None
        for function in opened:
            try:
                function.close()
            except Exception as error:
                first = first or user_function_error(self.context, error, function=function, during="close()")
                first.__cause__ = first.__cause__ or error
        if first is not None:
            raise first

    def process_each(
        self, function: Callable[[Any, Any], Any], ctx: Any, values: list[Any], timestamps: list[int]
    ) -> None:
        """Call a process function with each record and its context, and collect the results.

        Args:
            function: a user's method (value, ctx); it returns or yields results, or returns None.
            ctx: its second argument; `element_time` is set to each record's.
            values, timestamps: of the records, equally long.

        Raises:
            UserFunctionError: the function failed; it names the record.
        """
        add_results = self.collector.add_results
        rows = iter(values)
        try:
            for value, ctx.element_time in zip(rows, timestamps, strict=True):
                results = function(value, ctx)
                if results is not None:
                    add_results(results, ctx.element_time)
        except Exception as error:
            record = values[failing_index(rows, len(values))]
            raise user_function_error(self.context, error, record, function) from error

    def _backend_or_none(self) -> KeyedStateBackend | None:
        return None


class UserFunctionOperator(FunctionOperator, OneInputOperator):
    """Runs user functions behind one input."""


class KeyedStateOperator(FunctionOperator):
    """Keyed state, timers and the operator's event time, for any number of inputs.

    Subclasses implement `on_event_time` and `on_processing_time`, and put results into `collector`. Timers fire in
    slices; the watermark goes into the output behind the last of those that it has made due.

    Args:
        key_selectors: one per input; used where a batch does not bring its keys.
    """

    backend: KeyedStateBackend
    timers: TimerService
    #: name under which the timers are kept in snapshots
    timers_name = "timers"
    _is_batch = False

    def __init__(
        self, functions: Sequence[Any], key_selectors: Sequence[Any], output_type: TypeInformation | None
    ) -> None:
        super().__init__([*functions, *key_selectors], output_type)
        self._restored_watermark = MIN_WATERMARK
        self._wakeup_ms: int | None = None
        self._cancel_wakeup: Callable[[], None] | None = None
        #: whether event-time timers are due that have not fired
        self._is_advancing = False
        #: the processing time whose timers are firing, if any
        self._firing_until_ms: int | None = None
        #: what lies behind the mark of a batch at which a slice was over
        self._rest: RecordBatch | None = None

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        self.backend = self.context.create_keyed_backend()
        if snapshot is not None:
            self._restored_watermark = snapshot.watermark
            self._is_advancing = was_firing(snapshot)
            if snapshot.keyed is not None:
                self.backend.restore(snapshot.keyed)
        super().initialize_state(snapshot)

    def open(self) -> None:
        self.timers = self.backend.get_timer_service(self.timers_name, self.on_event_time, self.on_processing_time)
        self.timers.current_watermark = self._restored_watermark
        self._is_batch = ExecutionKind.of(self.context.configuration) is ExecutionKind.BATCH
        super().open()
        self._schedule_wakeup()

    def num_fired_timers(self) -> int:
        return self.timers.num_fired

    def next_due_ms(self) -> int | None:
        due = self.timers.next_processing_time()
        return None if due is None else due + 1

    def advance_watermark(self, watermark: int) -> None:
        """Advance event time to `watermark` behind everything emitted so far: fire timers, then mark it in the output.

        One that is behind the operator's own event time is ignored: after a restore the inputs start from nothing,
        while this operator has been further already.
        """
        if watermark >= self.timers.current_watermark:
            self.timers.current_watermark = watermark
            self._is_advancing = True
            self._go_on_advancing()

    def fire_due(self) -> bool:
        """Fire what the watermark has made due; returns False if the slice was over before."""
        return self.timers.advance_watermark(self.timers.current_watermark, self.context.timer_slice)

    def is_firing(self) -> bool:
        return self._is_advancing or self._firing_until_ms is not None

    def fire_on(self) -> None:
        if self._is_advancing:
            self._go_on_advancing()
        if not self._is_advancing and self._firing_until_ms is not None:
            self._fire_until(self._firing_until_ms)
        self.end_batch()
        self.end_step()

    def take_rest(self) -> RecordBatch | None:
        rest, self._rest = self._rest, None
        return rest

    def keep_rest(self, batch: RecordBatch, mark: int) -> None:
        """Keep what lies behind a mark of a batch, given by its number, for when everything due there has fired."""
        self._rest = batch.behind_mark(mark)

    def end_batch(self) -> None:
        """Note that the batch's records and marks have been processed."""

    def end_step(self) -> None:
        """Hand on what was gathered, and register the next processing-time timer."""
        self.collector.flush()
        self._schedule_wakeup()

    def on_event_time(self, timer: Timer) -> None:
        """Handle an event-time timer; the backend's key is the timer's."""

    def on_processing_time(self, timer: Timer) -> None:
        """Handle a processing-time timer; the backend's key is the timer's."""

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        # first the functions, which may put something into keyed state while they are at it
        operator_states = {**self.snapshot_operator_state(), **firing_state(self._is_advancing)}
        return OperatorSnapshot.of(self.backend.snapshot(request), operator_states, self.timers.current_watermark)

    def finish(self) -> None:
        self._cancel()
        super().finish()

    def close(self) -> None:
        self._cancel()
        try:
            super().close()
        finally:
            if hasattr(self, "backend"):
                self.backend.dispose()

    def _backend_or_none(self) -> KeyedStateBackend | None:
        return self.backend

    def _go_on_advancing(self) -> None:
        is_end = self._is_batch and self.timers.current_watermark == MAX_WATERMARK
        self.timers.is_quiesced = self.timers.is_quiesced or is_end
        if self.fire_due() and (not is_end or self._fire_at_the_end()):
            self._is_advancing = False
            self.collector.mark(self.timers.current_watermark)

    def _fire_at_the_end(self) -> bool:
        """Fire all processing-time timers of a batch; returns False if the slice was over before.

        In a stream they are dropped at the end of the input. In a batch no time passes, so that they are all due then;
        those that timers register then are ignored, or a periodic one would go on for ever. Source: Flink,
        BatchExecutionInternalTimeService, which ignores the event-time timers that they register, too.
        """
        # they may have registered event-time timers, which are due
        return self.timers.advance_processing_time(MAX_WATERMARK, self.context.timer_slice) and self.fire_due()

    def _fire_until(self, time_ms: int) -> None:
        is_over = self.timers.advance_processing_time(time_ms, self.context.timer_slice)
        self._firing_until_ms = None if is_over else time_ms

    def _schedule_wakeup(self) -> None:
        if self._is_batch:
            return
        due = self.timers.next_processing_time()
        if due is None or self._firing_until_ms is not None or (self._wakeup_ms is not None and self._wakeup_ms <= due):
            return
        self._cancel()
        self._wakeup_ms = due
        # a millisecond later, as Flink does: records of the timer's own millisecond may still come, and would open
        # again what the timer has closed
        self._cancel_wakeup = self.context.processing_time.register_timer(due + 1, self._wake_up)

    def _wake_up(self, timestamp_ms: int) -> None:
        self._wakeup_ms = self._cancel_wakeup = None
        self._fire_until(max(timestamp_ms, self.context.processing_time.now_ms()) - 1)
        self.end_batch()
        self.end_step()

    def _cancel(self) -> None:
        if self._cancel_wakeup is not None:
            self._cancel_wakeup()
        self._wakeup_ms = self._cancel_wakeup = None


class KeyedOperator(KeyedStateOperator, OneInputOperator):
    """Keyed state and timers behind one input. Subclasses implement `process_rows` beside.

    Args:
        key_selector: used where a batch does not bring its keys.
    """

    def __init__(self, functions: Sequence[Any], key_selector: Any, output_type: TypeInformation | None) -> None:
        super().__init__(functions, [key_selector], output_type)
        self._key_selector = key_selector
        self._key_of: Callable[[Any], Any] = key_function(key_selector)

    def process_batch(self, batch: RecordBatch) -> None:
        values = batch.values()
        timestamps = batch.timestamps()
        if timestamps is None:
            timestamps = [NO_TIMESTAMP] * len(values)
        keys = self.prepare_keys(self.keys_of_input(0, batch))
        if batch.marks:
            for number, (start, stop, watermark) in enumerate(batch.segments()):
                if start < stop:
                    self.process_rows(values[start:stop], timestamps[start:stop], keys[start:stop])
                if watermark is not None:
                    self.advance_watermark(watermark)
                    if self._is_advancing:
                        self.keep_rest(batch, number)
                        break
        else:
            self.process_rows(values, timestamps, keys)
        self.end_batch()
        self.end_step()

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp >= self.timers.current_watermark:
            self.advance_watermark(watermark.timestamp)
            self.end_step()

    def input_order(self, input_index: int) -> InputOrder:
        return InputOrder.BY_KEY

    def keys_of_input(self, input_index: int, batch: RecordBatch) -> list[Any]:
        if batch.keys is not None:
            return batch.keys
        return keys_of(self.context, self._key_of, batch.values(), self._key_selector)

    @abstractmethod
    def process_rows(self, values: list[Any], timestamps: list[int], keys: list[Any]) -> None:
        """Process records between two watermarks; all lists are equally long."""

    def prepare_keys(self, keys: list[Any]) -> list[Any]:
        """Return the keys of a batch in the form that `process_rows` gets."""
        return keys


def keys_of(context: OperatorContext, key_of: Callable[[Any], Any], values: list[Any], key_selector: Any) -> list[Any]:
    """Return the keys of records.

    Raises:
        UserFunctionError: the key selector failed; it names the record.
    """
    if isinstance(key_selector, BatchKeySelector):
        keys = key_selector.get_keys(values)
        if keys is not None:
            return keys
    rows = iter(values)
    try:
        return list(map(key_of, rows))
    except Exception as error:
        record = values[failing_index(rows, len(values))]
        raise user_function_error(context, error, record, key_selector, during="the key selector") from error
