"""Event times and watermarks: the logic of a WatermarkStrategy, and the operator that applies it inside a stream.

`WatermarkTracker` is the logic alone; sources use one for each split. Watermarks come out as marks on the batches. With
an interval of 0 there is a mark behind each row at which the watermark rises, so that lateness depends on the order of
the input alone; with a longer one at most one mark per interval of wall-clock time, at the end of a batch.
Used by the task's thread. Source: Flink, TimestampsAndWatermarksOperator, BoundedOutOfOrdernessWatermarks.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from runtime.common.execution_kind import ExecutionKind
from runtime.common.options import AUTO_WATERMARK_INTERVAL
from runtime.common.typeinfo import TypeInformation
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.core.batch import NO_TIMESTAMP, Mark, RecordBatch
from runtime.core.clock import Clock
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
from runtime.core.ids import CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.operators.errors import failing_index, user_function_error
from runtime.operators.event_time_column import with_times_of_column
from runtime.operators.operator import OneInputOperator, OperatorContext
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import NO_STATES, DeclaredStates


class WatermarkTracker:
    """Assigns event times and follows the watermark of one run of records.

    Args:
        strategy: what the user asked for.
        interval_ms: of `pipeline.auto-watermark-interval`; 0 = whenever the watermark rises.
        clock: measures the interval and idleness.
        context: of the operator, to describe failures of the user's functions with.
        is_batch: assign event times only: in a batch event time stands still until the input has ended.

    Attributes:
        current: the watermark handed out last, by a mark or by `on_periodic`; it only rises.
        is_idle: whether no record has come for the strategy's idleness.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        interval_ms: int,
        clock: Clock,
        context: OperatorContext | None = None,
        is_batch: bool = False,
    ) -> None:
        self._interval_ms = interval_ms
        self._clock = clock
        self._context = context
        self._assign = strategy.timestamp_assigner
        self._time_column = strategy.timestamp_column
        self._idleness_ms = None if is_batch else strategy.idleness_ms
        has_generator = strategy.generator_factory is not None and not is_batch
        self._generator = strategy.generator_factory() if has_generator else None  # type: ignore[misc]
        self._delay_ms = None if is_batch else strategy.delay_ms
        self._has_watermarks = strategy.has_watermarks and not is_batch
        self._max_timestamp = MIN_WATERMARK
        self._emitted_at = self._last_row_at = clock.monotonic_ms()
        self.current = MIN_WATERMARK
        self.is_idle = False

    @property
    def period_ms(self) -> int | None:
        """Return how often `on_periodic` has to be called; None = not at all."""
        periods = [ms for ms in (self._interval_ms, self._idleness_ms) if ms]
        return min(periods, default=None) if self._has_watermarks else self._idleness_ms

    @property
    def is_generated(self) -> bool:
        """Return whether a generator of the user's says what the watermark is."""
        return self._generator is not None

    def touch(self) -> None:
        """Count as active until now: records are there, but cannot be taken (paused, back-pressured)."""
        if self._idleness_ms is not None:
            self._last_row_at = self._clock.monotonic_ms()
        self.is_idle = False

    def restore(self, watermark: int) -> None:
        """Continue from a snapshot: nothing up to `watermark` is handed out again."""
        self.current = watermark

    @property
    def active_ms(self) -> int:
        """Return the wall-clock time until which the run of records has been active."""
        return self._clock.now_ms() - int(self._clock.monotonic_ms() - self._last_row_at)

    def continue_activity(self, active_ms: int) -> None:
        """Count the time since `active_ms`, wall clock, as time without records."""
        self._last_row_at = self._clock.monotonic_ms() - max(0, self._clock.now_ms() - active_ms)

    def on_batch(self, batch: RecordBatch) -> RecordBatch:
        """Return the batch with event times assigned and marks where the watermark rises; its former marks are dropped.

        Raises:
            UserFunctionError: the timestamp assigner or the generator failed, a timestamp is not an int, or the column
                of event times is missing, null or of another type.
        """
        if batch.num_rows == 0:
            return batch.with_marks(())
        self.touch()
        if self._assign is not None:
            batch = batch.with_timestamps(self._assigned(batch, self._assign), ())
        elif self._time_column is not None:
            batch = self._with_times_of(batch, self._time_column)
        if self._generator is not None:
            marks = self._generated_marks(batch)
        elif self._delay_ms is not None and batch.has_timestamps:
            marks = self._bounded_marks(batch, self._delay_ms)
        else:
            marks = []
        result = batch.with_marks(marks)
        # keys belong to the exchange for which they were computed: they must not be passed on
        result.keys = None
        return result

    def with_given(self, marks: Sequence[Mark], given: Sequence[Mark], floor: int) -> list[Mark]:
        """Merge the marks of `on_batch` with those that the source itself has set.

        Args:
            marks: what `on_batch` has just made of the batch.
            given: the source's own.
            floor: `current` before that call.

        Returns:
            Those that rise above the floor and what is before them.
        """
        self.touch()
        merged: list[Mark] = []
        for mark in sorted((*marks, *given), key=lambda mark: mark.offset):
            if mark.watermark > floor:
                floor = mark.watermark
                if merged and merged[-1].offset == mark.offset:
                    merged.pop()
                merged.append(mark)
        self.current = max(self.current, floor)
        return merged

    def on_periodic(self) -> int | None:
        """Return the watermark if it has risen since it was handed out last; to be called every `period_ms`.

        Updates `is_idle`. An idle run of records gives no watermark.
        """
        now = self._clock.monotonic_ms()
        if self._idleness_ms is not None and now - self._last_row_at >= self._idleness_ms:
            self.is_idle = True
            return None
        self._emitted_at = now
        return self._risen(self._periodic_watermark())

    def _periodic_watermark(self) -> int | None:
        if self._generator is not None:
            return self._generator.on_periodic_emit()
        return None if self._delay_ms is None else self._max_timestamp - self._delay_ms - 1

    def _risen(self, watermark: int | None) -> int | None:
        if watermark is None or watermark <= self.current:
            return None
        self.current = watermark
        return watermark

    def _is_due(self) -> bool:
        now = self._clock.monotonic_ms()
        if now - self._emitted_at < self._interval_ms:
            return False
        self._emitted_at = now
        return True

    def _bounded_marks(self, batch: RecordBatch, delay_ms: int) -> list[Mark]:
        timestamps = batch.timestamps_array()
        assert timestamps is not None
        if self._interval_ms > 0:
            self._max_timestamp = max(self._max_timestamp, int(timestamps.max()))
            watermark = self._risen(self._periodic_watermark()) if self._is_due() else None
            return [] if watermark is None else [Mark(batch.num_rows, watermark)]
        # a row without an event time is NO_TIMESTAMP, below every floor: it never raises the watermark
        floor = max(self._max_timestamp, self.current + delay_ms + 1)
        before = np.empty(batch.num_rows + 1, dtype=np.int64)
        before[0] = floor
        np.maximum.accumulate(timestamps, out=before[1:])
        np.maximum(before[1:], floor, out=before[1:])
        rises = np.flatnonzero(before[1:] > before[:-1])
        self._max_timestamp = int(before[-1])
        if not len(rises):
            return []
        marks = list(map(Mark, (rises + 1).tolist(), (before[rises + 1] - (delay_ms + 1)).tolist()))
        self.current = marks[-1].watermark
        return marks

    def _generated_marks(self, batch: RecordBatch) -> list[Mark]:
        generator = self._generator
        assert generator is not None
        values = batch.values()
        timestamps = batch.timestamps() or [NO_TIMESTAMP] * len(values)
        each_row = self._interval_ms == 0
        marks: list[Mark] = []
        rows = iter(values)
        try:
            for offset, (value, timestamp) in enumerate(zip(rows, timestamps, strict=True), 1):
                watermark = self._risen(generator.on_event(value, timestamp))
                if each_row:
                    risen = self._risen(generator.on_periodic_emit())
                    watermark = watermark if risen is None else risen
                if watermark is not None:
                    marks.append(Mark(offset, watermark))
            if not each_row and self._is_due():
                watermark = self._risen(generator.on_periodic_emit())
                if watermark is not None:
                    if marks and marks[-1].offset == len(values):
                        marks.pop()
                    marks.append(Mark(len(values), watermark))
        except Exception as error:
            raise self._failure(error, values[failing_index(rows, len(values))], generator.on_event) from error
        return marks

    def _assigned(self, batch: RecordBatch, assign: Callable[[Any, int], Any]) -> list[int]:
        values = batch.values()
        former = batch.timestamps() or [NO_TIMESTAMP] * len(values)
        rows = iter(values)
        try:
            timestamps = list(map(assign, rows, former))
            if len(timestamps) != len(values):
                raise StopIteration("the timestamp assigner raised StopIteration")
        except Exception as error:
            raise self._failure(error, values[failing_index(rows, len(values))], assign) from error
        if set(map(type, timestamps)) - {int}:
            return self._as_ints(values, timestamps, assign)
        return timestamps

    def _with_times_of(self, batch: RecordBatch, column: str) -> RecordBatch:
        try:
            return with_times_of_column(batch, column)
        except (TypeError, ValueError) as error:
            if self._context is None:
                raise
            raise user_function_error(self._context, error, during=f"the event times in column {column!r}") from error

    def _as_ints(self, values: list[Any], timestamps: list[Any], assign: Callable[[Any, int], Any]) -> list[int]:
        """Return numbers of other types (numpy's, floats) as int, cut to the millisecond; anything else is refused."""
        for index, timestamp in enumerate(timestamps):
            try:
                timestamps[index] = _millisecond(timestamp)
            except (TypeError, ValueError, OverflowError):
                problem = TypeError(
                    f"the timestamp assigner returned {timestamp!r} ({type(timestamp).__name__}); "
                    "an event time is a number: milliseconds since the epoch"
                )
                raise self._failure(problem, values[index], assign) from problem
        return timestamps

    def _failure(self, error: Exception, record: Any, function: Any) -> Exception:
        if self._context is None:
            return error
        return user_function_error(self._context, error, record, function)


class TimestampsAndWatermarksOperator(OneInputOperator):
    """Gives records event times and the stream watermarks; watermarks from upstream end here, but for the last."""

    tracker: WatermarkTracker

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy
        self._restored_watermark = MIN_WATERMARK
        self._cancel_timer: Callable[[], None] | None = None

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is not None:
            self._restored_watermark = snapshot.watermark

    def open(self) -> None:
        interval_ms = self.context.configuration.get(AUTO_WATERMARK_INTERVAL).to_millis()
        is_batch = ExecutionKind.of(self.context.configuration) is ExecutionKind.BATCH
        self.tracker = WatermarkTracker(self._strategy, interval_ms, self.context.clock, self.context, is_batch)
        self.tracker.restore(self._restored_watermark)
        self._schedule()

    def process_batch(self, batch: RecordBatch) -> None:
        was_idle = self.tracker.is_idle
        result = self.tracker.on_batch(batch)
        if was_idle and not self.tracker.is_idle:
            self.output.emit_watermark_status(WatermarkStatus.ACTIVE)
        self.output.collect(result)
        if batch.marks and batch.marks[-1].watermark == MAX_WATERMARK:
            self.process_watermark(Watermark(MAX_WATERMARK))

    def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp != MAX_WATERMARK or self.tracker.current == MAX_WATERMARK:
            return
        if self.tracker.is_idle:
            self.output.emit_watermark_status(WatermarkStatus.ACTIVE)
        self.tracker.is_idle = False
        self.tracker.current = MAX_WATERMARK
        self._cancel()
        self.output.emit_watermark(watermark)

    def process_watermark_status(self, status: WatermarkStatus) -> None:
        """End idleness from upstream here: the strategy's own counts."""

    def prepare_snapshot_pre_barrier(self, checkpoint_id: CheckpointId) -> None:
        """Emit the watermark behind a micro-batch: no timer runs in it, and the next one knows no earlier watermark."""
        if ExecutionKind.of(self.context.configuration) is ExecutionKind.MICRO_BATCH:
            self.tracker.on_periodic()
            if MIN_WATERMARK < self.tracker.current < MAX_WATERMARK:
                self.output.emit_watermark(Watermark(self.tracker.current))

    def next_due_ms(self) -> int | None:
        """Return the present if a generator of the user's may tell event time by the clock."""
        has_ended = self.tracker.current == MAX_WATERMARK
        return self.context.clock.now_ms() if self.tracker.is_generated and not has_ended else None

    def finish(self) -> None:
        self._cancel()

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        return OperatorSnapshot(watermark=self.tracker.current)

    def close(self) -> None:
        self._cancel()

    def _schedule(self) -> None:
        period_ms = self.tracker.period_ms
        if period_ms is not None:
            service = self.context.processing_time
            self._cancel_timer = service.register_timer(service.now_ms() + period_ms, self._on_timer)

    def _on_timer(self, timestamp_ms: int) -> None:
        self._cancel_timer = None
        was_idle = self.tracker.is_idle
        watermark = self.tracker.on_periodic()
        if watermark is not None:
            self.output.emit_watermark(Watermark(watermark))
        if self.tracker.is_idle and not was_idle:
            self.output.emit_watermark_status(WatermarkStatus.IDLE)
        self._schedule()

    def _cancel(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None


@dataclass(frozen=True)
class TimestampsAndWatermarksOperatorFactory:
    """TimestampsAndWatermarks; `output_type` is the type of the records, which pass unchanged."""

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    strategy: WatermarkStrategy
    output_type: TypeInformation | None = None

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read."""
        return columns_with_times(needed, self.strategy)

    def columns_passed_on(self) -> None:
        """Return None: all columns are passed on."""

    def create(self) -> TimestampsAndWatermarksOperator:
        return TimestampsAndWatermarksOperator(self.strategy)


def columns_with_times(needed: Columns, strategy: WatermarkStrategy) -> Columns:
    """Return the columns that are read by a strategy or needed behind it."""
    if needed is None or strategy.timestamp_assigner is not None or strategy.generator_factory is not None:
        return None
    return needed if strategy.timestamp_column is None else needed | {strategy.timestamp_column}


def _millisecond(timestamp: Any) -> int:
    """Return a number as whole milliseconds; a bool is not a number."""
    is_number = isinstance(timestamp, numbers.Real) and not isinstance(timestamp, bool)
    if not is_number:
        raise TypeError(timestamp)
    return int(timestamp)
