"""The first of two phases: partial aggregates before the exchange, so that few rows cross it.

Partials are made of as many rows as come between two watermarks that could make a window fire, and leave before the
second: behind the exchange everything is as if the rows themselves had come. No watermark is held back.
Used by the task's thread. Source: Flink SQL, the local half of a two-phase window aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.batch import DEFAULT_BATCH_ROWS, Mark, RecordBatch
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.columnar.frames import FrameReader, batch_of
from runtime.operators.columnar.input_checks import check_inserts, event_times
from runtime.operators.columnar.panes import Times
from runtime.operators.columnar.row_buffer import RowBuffer
from runtime.operators.columnar.segments import PANE, from_bytes, to_bytes
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator
from runtime.state.errors import StateMigrationError
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot, Redistribution

STATE_NAME = "partials"


class LocalAggregateOperator(OneInputOperator):
    """Aggregates rows by key and pane for a WindowAggregateOperator that takes partials."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        self._plan = spec.plan
        self._panes = spec.panes
        self._output_type = spec.partial_type
        self._schema = [(PANE, pl.Int64()), *self._plan.empty_partials.schema.items()]
        self._reader = FrameReader(spec.aggregates.input_type)
        self._buffer = RowBuffer(self._plan, spec.panes)
        #: partials that could not be handed on while the state was taken
        self._kept: list[pl.DataFrame] = []
        self._watermark = MIN_WATERMARK

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        saved = None if snapshot is None else snapshot.operator_states.get(STATE_NAME)
        if saved is not None:
            if saved.serializer != repr(self._output_type):
                raise StateMigrationError(STATE_NAME, saved.serializer, repr(self._output_type))
            self._kept = [from_bytes(item, self._schema) for item in saved.items]

    def snapshot_state(self) -> OperatorSnapshot:
        self._kept = self._taken()
        items = [to_bytes(frame) for frame in self._kept]
        # partials may be merged in any subtask: the exchange brings them together
        state = OperatorStateSnapshot(Redistribution.SPLIT, items, repr(self._output_type))
        return OperatorSnapshot(operator_states={STATE_NAME: state})

    def process_batch(self, batch: RecordBatch) -> None:
        if not batch.num_rows:
            if batch.marks:
                self.process_watermark(Watermark(batch.marks[-1].watermark))
            return
        check_inserts(self.context, batch)
        times = event_times(self.context, batch)
        frame = self._reader.read(batch, self._plan.input_columns)
        try:
            self._process_rows(frame, times, batch.marks)
        except PolarsError as error:
            raise user_function_error(self.context, error, during="aggregating columns") from error

    def process_watermark(self, watermark: Watermark) -> None:
        if self._passes_panes([watermark.timestamp])[0]:
            self._flush(watermark.timestamp)
        else:
            self.output.emit_watermark(watermark)
        self._watermark = watermark.timestamp

    def finish(self) -> None:
        self._flush(None)

    def _process_rows(self, frame: pl.DataFrame, times: Times, marks: Sequence[Mark]) -> None:
        start = 0
        held_back: int | None = None
        for (stop, watermark), passes in zip(
            marks, self._passes_panes([mark.watermark for mark in marks]), strict=True
        ):
            if passes:
                self._add(frame.slice(start, stop - start), times[start:stop])
                self._flush(watermark)
                start, held_back = stop, None
            else:
                held_back = watermark
        self._add(frame.slice(start), times[start:])
        if marks:
            self._watermark = marks[-1].watermark
        if self._buffer.is_full:
            self._flush(None)
        if held_back is not None:
            self.output.emit_watermark(Watermark(held_back))

    def _add(self, frame: pl.DataFrame, times: Times) -> None:
        if frame.height:
            self._buffer.add(frame, times)

    def _passes_panes(self, watermarks: Sequence[int]) -> list[bool]:
        """Which watermarks, rising one after the other, may let a window fire that those before did not."""
        # a window fires when the watermark reaches its last millisecond; sums would overflow at both ends of time
        passed = np.clip(np.array([self._watermark, *watermarks], dtype=np.int64), -(2**62), 2**62) + 1
        panes = self._panes.starts(passed)
        passes: list[bool] = (panes[1:] != panes[:-1]).tolist()
        return passes

    def _taken(self) -> list[pl.DataFrame]:
        """All partials, which are then nowhere else."""
        kept, self._kept = self._kept, []
        for start, partials in self._buffer.take():
            kept.append(partials.select(pl.lit(start, pl.Int64).alias(PANE), pl.all()))
        return kept

    def _flush(self, watermark: int | None) -> None:
        partials = self._taken()
        if partials:
            frame = pl.concat(partials)
            marks = () if watermark is None else (Mark(frame.height, watermark),)
            batch = batch_of(frame, self._output_type, None, marks)
            for start in range(0, frame.height, DEFAULT_BATCH_ROWS):
                self.output.collect(batch.slice(start, min(start + DEFAULT_BATCH_ROWS, frame.height)))
        elif watermark is not None:
            self.output.emit_watermark(Watermark(watermark))


@dataclass(frozen=True)
class LocalAggregateOperatorFactory:
    """The first phase of a window aggregate.

    Args:
        spec: of the aggregate.
    """

    spec: WindowAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.partial_type

    def create(self) -> LocalAggregateOperator:
        return LocalAggregateOperator(self.spec)
