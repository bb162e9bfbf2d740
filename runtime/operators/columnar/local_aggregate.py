"""The first of two phases: partial aggregates before the exchange, so that few rows cross it.

Partials cover the rows between two watermarks that could make a window fire, and are sent before the second: after the
exchange everything is as if the rows themselves had arrived. No watermark is held back. Used by the task's thread.
Source: Flink SQL, the local half of a two-phase window aggregate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.core.batch import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS, Mark, RecordBatch
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.core.ids import CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.operators.columnar.frames import FrameReader, batch_of
from runtime.operators.columnar.input_checks import check_inserts, event_times
from runtime.operators.columnar.panes import Times
from runtime.operators.columnar.row_buffer import RowBuffer
from runtime.operators.columnar.segments import from_bytes, to_bytes
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_plan import WindowPlan
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator
from runtime.state.errors import StateMigrationError
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    SnapshotRequest,
)
from runtime.state.state_meta import LIST_OF_OPERATOR, DeclaredStates, StateMeta

STATE_NAME = "partials"


class LocalOperator(OneInputOperator, ABC):
    """The first of two phases: takes rows in, and sends partials on before a window could fire without them.

    Args:
        plan: what is aggregated.
        input_type: of the rows.
        output_type: of the partials.
    """

    costs_by_slice = True

    def __init__(self, plan: WindowPlan, input_type: TypeInformation, output_type: RowTypeInfo) -> None:
        self._plan = plan
        self._output_type = output_type
        self._schema = list(FrameReader(output_type).schema.items())
        self._reader = FrameReader(input_type)
        #: restored partials of a snapshot without a barrier, at which they would have been sent on
        self._kept: list[pl.DataFrame] = []
        self._watermark = MIN_WATERMARK

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        saved = None if snapshot is None else snapshot.operator_states.get(STATE_NAME)
        if saved is not None and saved.items:
            if saved.serializer != self._output_type.type_string():
                raise StateMigrationError(STATE_NAME, saved.serializer, self._output_type.type_string())
            self._kept = [from_bytes(item, self._schema) for item in saved.items]

    def prepare_snapshot_pre_barrier(self, checkpoint_id: CheckpointId) -> None:
        self.flush(None)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        self._kept += self.taken()
        items = [to_bytes(frame) for frame in self._kept]
        # partials may be merged in any subtask: the exchange brings them together
        state = OperatorStateSnapshot(Redistribution.SPLIT, items, self._output_type.type_string())
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
            self.process_rows(frame, times, batch.marks)
        except PolarsError as error:
            raise user_function_error(self.context, error, during="aggregating columns") from error

    @abstractmethod
    def process_rows(self, frame: pl.DataFrame, times: Times, marks: Sequence[Mark]) -> None:
        """Take rows in, and let event time advance at the marks."""

    @abstractmethod
    def taken(self) -> list[pl.DataFrame]:
        """Return the partials of all waiting rows, and drop the rows."""

    def finish(self) -> None:
        self.flush(None)

    def flush(self, watermark: int | None) -> None:
        """Emit everything that waits, and then the watermark, if any."""
        partials, self._kept = [*self._kept, *self.taken()], []
        if partials:
            self.emit(pl.concat(partials), () if watermark is None else [watermark])
        elif watermark is not None:
            self.output.emit_watermark(Watermark(watermark))

    def emit(self, partials: pl.DataFrame, watermarks_behind: Sequence[int]) -> None:
        """Emit partials, at least one."""
        marks = [Mark(partials.height, watermark) for watermark in watermarks_behind]
        batch = batch_of(partials.select(name for name, _ in self._schema), self._output_type, None, marks)
        # rows of a few numbers: half a batch's bytes hold more of them than usual
        step = max(DEFAULT_BATCH_ROWS, DEFAULT_BATCH_BYTES // 2 * partials.height // max(batch.arrow().nbytes, 1))
        for start in range(0, partials.height, step):
            self.output.collect(batch.slice(start, min(start + step, partials.height)))


class LocalAggregateOperator(LocalOperator):
    """Aggregates rows by key and pane for a WindowAggregateOperator that takes partials."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec.plan, spec.aggregates.input_type, spec.partial_type)
        self._panes = spec.panes
        self._buffer = RowBuffer(spec.plan, spec.panes)

    def process_watermark(self, watermark: Watermark) -> None:
        if self._passes_panes([watermark.timestamp])[0]:
            self.flush(watermark.timestamp)
        else:
            self.output.emit_watermark(watermark)
        self._watermark = watermark.timestamp

    def process_rows(self, frame: pl.DataFrame, times: Times, marks: Sequence[Mark]) -> None:
        start = 0
        held_back: int | None = None
        for (stop, watermark), passes in zip(
            marks, self._passes_panes([mark.watermark for mark in marks]), strict=True
        ):
            if passes:
                self._add(frame.slice(start, stop - start), times[start:stop])
                self.flush(watermark)
                start, held_back = stop, None
            else:
                held_back = watermark
        self._add(frame.slice(start), times[start:])
        if marks:
            self._watermark = marks[-1].watermark
        if self._buffer.is_full:
            self.flush(None)
        if held_back is not None:
            self.output.emit_watermark(Watermark(held_back))

    def _add(self, frame: pl.DataFrame, times: Times) -> None:
        if frame.height:
            self._buffer.add(frame, times)

    def _passes_panes(self, watermarks: Sequence[int]) -> list[bool]:
        """Return which of these rising watermarks may fire a window that the earlier ones did not."""
        # a window fires when the watermark reaches its last millisecond; additions would overflow at both ends of time
        passed = np.clip(np.array([self._watermark, *watermarks], dtype=np.int64), -(2**62), 2**62) + 1
        panes = self._panes.starts(passed)
        passes: list[bool] = (panes[1:] != panes[:-1]).tolist()
        return passes

    def taken(self) -> list[pl.DataFrame]:
        return self._buffer.take_together()


def local_states(partial_type: RowTypeInfo) -> DeclaredStates:
    """Return the states of a first phase, given the type of its output."""
    partials = StateMeta(STATE_NAME, LIST_OF_OPERATOR, partial_type.type_string(), namespaced=False)
    return DeclaredStates((partials,))


@dataclass(frozen=True)
class LocalAggregateOperatorFactory:
    """The first phase of a window aggregate.

    Args:
        spec: of the aggregate.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    spec: WindowAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.partial_type

    @property
    def declared_states(self) -> DeclaredStates:
        return local_states(self.output_type)

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read."""
        return frozenset(self.spec.plan.input_columns)

    def create(self) -> LocalAggregateOperator:
        return LocalAggregateOperator(self.spec)
