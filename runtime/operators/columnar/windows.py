"""The common part of all columnar operators with event-time windows: late rows, marks, errors and state.

A subclass takes rows in, and lets event time advance mark by mark. A watermark at the end of a batch fires its windows
in portions, and their results are handed on in slices; one between rows, which are of one batch, fires all at once.
Used by the task's thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from runtime.core.batch import DEFAULT_BATCH_ROWS, Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.columnar.frame_collector import FrameCollector
from runtime.operators.columnar.frames import FrameReader
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.late_rows import LateRows
from runtime.operators.columnar.segments import (
    Header,
    columnar_state,
    keyed_snapshot,
    restored_frames,
    results_from_bytes,
    results_to_bytes,
    together,
)
from runtime.operators.columnar.window_plan import PlanSpec, WindowPlan
from runtime.operators.errors import user_function_error
from runtime.operators.interruption import firing_state, was_firing
from runtime.operators.operator import OneInputOperator, OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.state.errors import StateMigrationError
from runtime.state.handles import PendingKeyedState
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    KeyedSnapshot,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    SnapshotRequest,
)
from runtime.state.state_meta import LIST_OF_OPERATOR, DeclaredStates, StateMeta

RESULTS_STATE = "__results"
"""Name of the operator state with results of windows that have fired and that were not handed on."""
LONG = BasicTypeInfo(BasicType.LONG)


class WindowSpec(ABC):
    """Describes a columnar window operator; subclasses are frozen dataclasses.

    Attributes:
        aggregates: what the windows compute from their rows.
        allowed_lateness_ms: how far the watermark may have passed a window that still accepts rows.
        late_data_tag: side output of rows that are late for all their windows; None = they are dropped.
        takes_partials: whether the input is the output of a first phase before the exchange.
    """

    aggregates: PlanSpec
    allowed_lateness_ms: int
    late_data_tag: OutputTag | None
    takes_partials: bool

    @cached_property
    def plan(self) -> WindowPlan:
        return self.aggregates.plan()

    def __getstate__(self) -> dict[str, object]:
        # expressions are parsed again from their texts
        return {name: value for name, value in self.__dict__.items() if name != "plan"}

    @property
    @abstractmethod
    def partial_type(self) -> RowTypeInfo:
        """Return the type of the kept rows, and of a first phase's output: partials with their place in time."""

    @property
    def state_type(self) -> RowTypeInfo:
        """Return the type of saved rows."""
        return self.partial_type

    def declared_states(self, name: str) -> DeclaredStates:
        """Return the states of the operator, given the name of the keyed one."""
        results = StateMeta(RESULTS_STATE, LIST_OF_OPERATOR, self.plan.output_type.type_string(), namespaced=False)
        return DeclaredStates((columnar_state(name, self.state_type), results))

    @property
    def input_type(self) -> TypeInformation:
        """Return the type of the operator's input."""
        return self.partial_type if self.takes_partials else self.aggregates.input_type


class ColumnarWindowOperator(OneInputOperator, ABC):
    """Windows of a stream that is keyed by columns.

    Args:
        spec: what it does.
        state_name: name of its state.
    """

    costs_by_slice = True

    def __init__(self, spec: WindowSpec, state_name: str) -> None:
        self._plan = plan = spec.plan
        self._lateness_ms = spec.allowed_lateness_ms
        self._takes_partials = spec.takes_partials
        self._reader = FrameReader(spec.input_type)
        self._keys = ColumnKeys(plan.keys, spec.input_type)
        self._watermark = MIN_WATERMARK
        self._num_fired = 0
        self._base_spec = spec
        self._state_name = state_name
        #: the watermark whose windows are firing, and what is left of that
        self._target = MIN_WATERMARK
        self._firing: Iterator[None] | None = None
        self._has_results_left = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._late = LateRows(context, output, self._base_spec.late_data_tag, self._base_spec.input_type)
        self._collector = FrameCollector(output, self._plan.output_type)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None:
            return
        self._watermark = self._target = snapshot.watermark
        frames: list[tuple[Header, pl.DataFrame]] = []
        if snapshot.keyed is not None:
            state_type = self._base_spec.state_type
            frames += restored_frames(self._state_name, state_type, self.state_schema(), snapshot.keyed)
        if was_firing(snapshot):
            self._watermark = min([self._watermark, *(header.watermark for header, _ in frames)])
            self._put_back_results(snapshot)
        for header, frame in frames:
            self.restore(header, frame)
        if was_firing(snapshot):
            self._firing = self.firing(self._target)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        keyed = self.keyed_state(request)
        if not self.is_firing():
            return OperatorSnapshot.of(keyed, watermark=self._watermark)
        states = {**firing_state(True), RESULTS_STATE: self._results_left()}
        return OperatorSnapshot.of(keyed, states, watermark=self._target)

    def keyed_state(self, request: SnapshotRequest) -> KeyedSnapshot | PendingKeyedState:
        """Return the kept rows as the request has them."""
        frames, sequence = self.kept()
        state_type, max_parallelism = self._base_spec.state_type, self.context.max_parallelism
        parts = [
            keyed_snapshot(
                self._state_name, frame, state_type, self._keys, max_parallelism, Header(watermark, sequence)
            )
            for watermark, frame in frames
        ]
        return together(parts)

    def _results_left(self) -> OperatorStateSnapshot:
        items = [results_to_bytes(batch) for batch in self._collector.left()]
        return OperatorStateSnapshot(Redistribution.SPLIT, items, self._plan.output_type.type_string())

    def _put_back_results(self, snapshot: OperatorSnapshot) -> None:
        saved = snapshot.operator_states.get(RESULTS_STATE)
        if saved is None or not saved.items:
            return
        output_type = self._plan.output_type
        if saved.serializer != output_type.type_string():
            raise StateMigrationError(RESULTS_STATE, saved.serializer, output_type.type_string())
        self._collector.put_back(results_from_bytes(saved.items, output_type, self._target))
        self._has_results_left = True

    def num_fired_timers(self) -> int:
        return self._num_fired

    def process_watermark(self, watermark: Watermark) -> None:
        self.process_batch(RecordBatch.of_values([], [], (Mark(0, watermark.timestamp),)))

    def process_batch(self, batch: RecordBatch) -> None:
        marks = [mark for mark in batch.marks if mark.watermark >= self._watermark]
        behind = marks[-1].watermark if marks and marks[-1].offset == batch.num_rows else None
        between = [mark for mark in marks if mark.offset < batch.num_rows]
        try:
            if batch.num_rows:
                check_inserts(self.context, batch)
                self.process_rows(batch, between)
        except PolarsError as error:
            raise user_function_error(self.context, error, during="aggregating columns") from error
        self._target = self._watermark
        if behind is not None:
            self._target = behind
            self._firing = self.firing(behind)
        self.fire_on()

    def is_firing(self) -> bool:
        return self._firing is not None or self._has_results_left

    def fire_on(self) -> None:
        timer_slice = self.context.timer_slice
        enough = min(DEFAULT_BATCH_ROWS, timer_slice.max_timers)
        while self._firing is not None:
            # what is worth a batch leaves before more is made: results do not gather in memory
            if (self._has_results_left or self._collector.num_rows >= enough) and not self._flush():
                return
            if not timer_slice.goes_on():
                return
            try:
                if next(self._firing, self) is self:
                    self._firing = None
            except PolarsError as error:
                raise user_function_error(self.context, error, during="aggregating columns") from error
        self._flush()

    def _flush(self) -> bool:
        self._has_results_left = not self._collector.flush(self.context.timer_slice)
        return not self._has_results_left

    @abstractmethod
    def state_schema(self) -> Sequence[tuple[str, pl.DataType]]:
        """Return the schema of the frames that `kept` returns."""

    @abstractmethod
    def kept(self) -> tuple[Sequence[tuple[int, pl.DataFrame]], int]:
        """Return all kept rows with the watermark until which their windows have fired, and how many rows have
        arrived."""

    @abstractmethod
    def restore(self, header: Header, frame: pl.DataFrame) -> None:
        """Take in a frame that `kept` returned, or a part of it."""

    @abstractmethod
    def process_rows(self, batch: RecordBatch, marks: list[Mark]) -> None:
        """Take in the rows of a non-empty batch, and let event time advance at `marks`."""

    @abstractmethod
    def firing(self, watermark: int) -> Iterator[None]:
        """Advance event time, with no rows before the watermark that are not taken in; yields after each portion.

        Whenever it yields, `_watermark` is one whose windows have all fired, and no others.
        """
