"""Session aggregates: sessions of event time with one gap, a batch at a time.

As long as every row is ahead of the watermark, no row can touch a session that has fired: all rows of a batch are then
joined at once, and each session fires at the first mark that passes it. For the keys of rows that are behind, the order
of rows and marks is followed one by one, on the bounds of the sessions only, to find which rows are late and where the
batch has to be cut. Used by the task's thread. Source: Flink, WindowOperator with EventTimeSessionWindows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.columnar.aggregates import WINDOW_END, WINDOW_START, AggregatePlan, AggregateSpec
from runtime.operators.columnar.frame_collector import FrameCollector
from runtime.operators.columnar.frames import FrameReader
from runtime.operators.columnar.input_checks import check_inserts, event_times
from runtime.operators.columnar.late_rows import LateRows
from runtime.operators.columnar.panes import NEVER, Times
from runtime.operators.columnar.row_buffer import MAX_ROWS
from runtime.operators.columnar.segments import Header, keyed_snapshot, restored_frames
from runtime.operators.columnar.sessions import END, START, SessionStore
from runtime.operators.columnar.watermarks_at import moved_marks, watermarks_at
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator, OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.state.snapshot import OperatorSnapshot

STATE_NAME = "session-segments"
_LONG = BasicTypeInfo(BasicType.LONG)
_ROW = "__row"
_KEY_NUMBER = "__key"


@dataclass(frozen=True)
class SessionAggregateSpec:
    """What a session aggregate does.

    Args:
        aggregates: what is made of the rows.
        gap_ms: rows farther apart are in different sessions.
        late_data_tag: side output of late rows; None = they are dropped.
    """

    aggregates: AggregateSpec
    gap_ms: int
    late_data_tag: OutputTag | None = None

    @cached_property
    def plan(self) -> AggregatePlan:
        return AggregatePlan(self.aggregates)

    def __getstate__(self) -> dict[str, object]:
        # expressions are made anew from their texts
        return {name: value for name, value in self.__dict__.items() if name != "plan"}

    @property
    def session_type(self) -> RowTypeInfo:
        """Type of a session as it is kept."""
        kept = self.plan.partial_type
        return RowTypeInfo([*kept.field_types, _LONG, _LONG], [*kept.field_names, START, END])


class SessionAggregateOperator(OneInputOperator):
    """Sessions of a stream that is keyed by columns."""

    def __init__(self, spec: SessionAggregateSpec) -> None:
        self._spec = spec
        self._plan = spec.plan
        self._reader = FrameReader(spec.aggregates.input_type)
        self._keys = ColumnKeys(self._plan.keys, spec.aggregates.input_type)
        self._store = SessionStore(self._plan, spec.gap_ms)
        self._frames: list[pl.DataFrame] = []
        self._times: list[Times] = []
        self._waiting = 0
        #: no session of a waiting row ends before
        self._next_end = NEVER
        self._sequence = 0
        self._watermark = MIN_WATERMARK
        self._num_fired = 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._late = LateRows(context, output, self._spec.late_data_tag, self._spec.aggregates.input_type)
        self._collector = FrameCollector(output, self._plan.output_type)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None:
            return
        self._watermark = snapshot.watermark
        if snapshot.keyed is not None:
            schema = list(self._store.empty.schema.items())
            for header, sessions in restored_frames(STATE_NAME, self._spec.session_type, schema, snapshot.keyed):
                self._store.add(sessions)
                self._sequence = max(self._sequence, header.sequence)

    def snapshot_state(self) -> OperatorSnapshot:
        self._join_waiting()
        keyed = keyed_snapshot(
            STATE_NAME,
            self._store.sessions,
            self._spec.session_type,
            self._keys,
            self.context.max_parallelism,
            Header(self._watermark, self._sequence),
        )
        return OperatorSnapshot(keyed, watermark=self._watermark)

    def num_fired_timers(self) -> int:
        return self._num_fired

    def process_watermark(self, watermark: Watermark) -> None:
        self.process_batch(RecordBatch.of_values([], [], (Mark(0, watermark.timestamp),)))

    def process_batch(self, batch: RecordBatch) -> None:
        marks = [mark for mark in batch.marks if mark.watermark >= self._watermark]
        try:
            if batch.num_rows:
                self._process_rows(batch, marks)
            else:
                self._advance(marks)
        except PolarsError as error:
            raise user_function_error(self.context, error, during="aggregating columns") from error
        self._collector.flush()

    def _process_rows(self, batch: RecordBatch, marks: list[Mark]) -> None:
        check_inserts(self.context, batch)
        times = event_times(self.context, batch)
        frame = self._reader.read(batch, self._plan.input_columns)
        watermarks = watermarks_at(self._watermark, marks, batch.num_rows)
        # a session that has fired ends at the watermark + 1 at most, and rows at its very end touch it
        behind = times - 1 <= watermarks
        cuts: list[int] = []
        if behind.any():
            late, cuts = self._follow(frame, times, behind, marks)
            if late.any():
                self._late.put_aside(batch, late, marks, int(late.sum()))
                rows = np.flatnonzero(~late)
                frame, times, marks = frame[rows], times[rows], moved_marks(marks, rows)
        start = done = 0
        for cut in cuts:
            stop = marks[cut].offset
            self._add(frame.slice(start, stop - start), times[start:stop])
            self._advance(marks[done : cut + 1])
            start, done = stop, cut + 1
        self._add(frame.slice(start), times[start:])
        self._advance(marks[done:])

    def _follow(
        self, frame: pl.DataFrame, times: Times, behind: npt.NDArray[np.bool_], marks: Sequence[Mark]
    ) -> tuple[npt.NDArray[np.bool_], list[int]]:
        """Follow the keys of rows that are behind the watermark, row by row.

        Returns:
            Which rows are late, and the indexes of the marks at which the batch is to be cut, ascending.
        """
        self._join_waiting()
        columns = self._plan.keys
        keys = frame.select(columns).filter(pl.Series(behind)).unique().with_row_index(_KEY_NUMBER)
        bounds: dict[int, list[tuple[int, int]]] = {number: [] for number in range(keys.height)}
        for number, start, end in self._store.of_keys(keys).select(_KEY_NUMBER, START, END).iter_rows():
            bounds[number].append((start, end))
        affected = frame.select(columns).with_row_index(_ROW).join(keys, on=columns, nulls_equal=True)
        passed = [mark.watermark for mark in marks]
        offsets = [mark.offset for mark in marks]
        late = np.zeros(frame.height, dtype=np.bool_)
        cuts: set[int] = set()
        for row, number in affected.sort(_ROW).select(_ROW, _KEY_NUMBER).iter_rows():
            before = int(np.searchsorted(offsets, row, side="right"))
            watermark = passed[before - 1] if before else self._watermark
            still_open = []
            for session in bounds[number]:
                if session[1] - 1 > watermark:
                    still_open.append(session)
                else:
                    cuts.add(int(np.searchsorted(passed, session[1] - 1)))
            start, end = int(times[row]), int(times[row]) + self._spec.gap_ms
            apart = [session for session in still_open if session[0] > end or session[1] < start]
            if len(apart) == len(still_open) and end - 1 <= watermark:
                late[row] = True
            else:
                touched = [session for session in still_open if session not in apart]
                start = min([start, *(session[0] for session in touched)])
                end = max([end, *(session[1] for session in touched)])
                apart.append((start, end))
                still_open = apart
            bounds[number] = still_open
        return late, sorted(cuts)

    def _add(self, frame: pl.DataFrame, times: Times) -> None:
        if not frame.height:
            return
        self._frames.append(frame)
        self._times.append(times)
        self._waiting += frame.height
        self._next_end = min(self._next_end, int(times.min()) + self._spec.gap_ms)
        if self._waiting >= MAX_ROWS:
            self._join_waiting()

    def _join_waiting(self) -> None:
        if self._waiting:
            rows = self._plan.rows(pl.concat(self._frames), self._sequence)
            self._store.add_rows(rows, np.concatenate(self._times))
            self._sequence += self._waiting
            self._frames, self._times, self._waiting, self._next_end = [], [], 0, NEVER

    def _advance(self, marks: Sequence[Mark]) -> None:
        """Event time advances mark by mark: fire the sessions that end."""
        if not marks:
            return
        last = marks[-1].watermark
        if last + 1 >= self._next_end:
            self._join_waiting()
        if last + 1 >= self._store.next_end:
            self._fire(self._store.take_due(last), marks)
        self._watermark = last
        self._collector.mark(last)

    def _fire(self, due: pl.DataFrame, marks: Sequence[Mark]) -> None:
        self._num_fired += due.height
        times = due.get_column(END).to_numpy() - 1
        bounds = due.with_columns(pl.col(START).alias(WINDOW_START), pl.col(END).alias(WINDOW_END))
        results = self._plan.results(bounds)
        fired = 0
        passed = np.searchsorted(times, [mark.watermark for mark in marks], side="right").tolist()
        for index, (mark, stop) in enumerate(zip(marks, passed, strict=True)):
            if stop > fired:
                if index:
                    self._collector.mark(marks[index - 1].watermark)
                self._collector.add(results.slice(fired, stop - fired), times[fired:stop])
                self._collector.mark(mark.watermark)
                fired = stop


@dataclass(frozen=True)
class SessionAggregateOperatorFactory:
    """Session aggregate; see SessionAggregateSpec."""

    spec: SessionAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.plan.output_type

    def create(self) -> SessionAggregateOperator:
        return SessionAggregateOperator(self.spec)
