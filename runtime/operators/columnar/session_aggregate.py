"""Session aggregates: sessions of event time with one gap, a batch at a time.

As long as every row is ahead of the watermark, no row can touch a session that has fired: all rows of a batch are
joined at once, and each session fires at the first mark that passes it. For the keys of rows behind the watermark, rows
and marks are processed one by one, using only the bounds of the sessions, to find which rows are late, where the batch
has to be cut, and which rows fire a session again that still accepts rows (allowed lateness). Used by the task's
thread. Source: Flink, WindowOperator with EventTimeSessionWindows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import RowTypeInfo, Types
from runtime.core.batch import Mark, RecordBatch
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.aggregates import ROWS, WINDOW_END, WINDOW_START, AggregateSpec
from runtime.operators.columnar.input_checks import event_times
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.panes import NEVER, Times
from runtime.operators.columnar.row_buffer import MAX_ROWS
from runtime.operators.columnar.segments import Header
from runtime.operators.columnar.sessions import END, FIRED, START, SessionStore, sessions_of_rows
from runtime.operators.columnar.watermarks_at import moved_marks, watermarks_at
from runtime.operators.columnar.windows import LONG, ColumnarWindowOperator, WindowSpec
from runtime.operators.output_tag import OutputTag
from runtime.state.state_meta import DeclaredStates, StatePart

STATE_NAME = "session-segments"
_ROW = "__row"
_KEY_NUMBER = "__key"


@dataclass(frozen=True)
class SessionAggregateSpec(WindowSpec):
    """Describes a session aggregate.

    Args:
        gap_ms: rows farther apart are in different sessions.
        aggregates, allowed_lateness_ms, late_data_tag, takes_partials: see WindowSpec.
    """

    aggregates: AggregateSpec
    gap_ms: int
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None
    takes_partials: bool = False

    @property
    def partial_type(self) -> RowTypeInfo:
        """Return the type of a first phase's output: the keys, the partials, and the session's bounds."""
        kept = self.plan.partial_type
        return RowTypeInfo([*kept.field_types, LONG, LONG], [*kept.field_names, START, END])

    @property
    def state_type(self) -> RowTypeInfo:
        """Return the type of the state: `partial_type` and whether the session has fired."""
        kept = self.partial_type
        return RowTypeInfo([*kept.field_types, Types.BOOLEAN()], [*kept.field_names, FIRED])


class Followed(NamedTuple):
    """Result of processing a batch with rows that are behind the watermark one by one."""

    late: npt.NDArray[np.bool_]
    """Shape (num_rows,)."""
    cuts: list[int]
    """Indexes of the marks at which the batch has to be cut, ascending."""
    fires: list[int]
    """Rows at which a session that the watermark has passed fires again, ascending."""


class SessionAggregateOperator(ColumnarWindowOperator):
    """Sessions of a stream that is keyed by columns."""

    def __init__(self, spec: SessionAggregateSpec) -> None:
        super().__init__(spec, STATE_NAME)
        self._gap_ms = spec.gap_ms
        self._aggregates = spec.aggregates.plan()
        self._store = SessionStore(self._aggregates, spec.allowed_lateness_ms)
        self._columns = [name for name in self._store.empty.columns if name not in (START, END, FIRED)]
        if not spec.takes_partials:
            self._columns = self._plan.input_columns
        self._frames: list[pl.DataFrame] = []
        self._times: list[Times] = []
        self._ends: list[Times] = []
        self._waiting = 0
        #: no session of a waiting row ends before this time
        self._next_end = NEVER
        self._sequence = 0

    # --- state --------------------------------------------------------------------------------------------------------

    def state_schema(self) -> Sequence[tuple[str, pl.DataType]]:
        return list(self._store.empty.schema.items())

    def kept(self) -> tuple[Sequence[tuple[int, pl.DataFrame]], int]:
        self._join_waiting()
        return [(self._watermark, self._store.sessions)], self._sequence

    def restore(self, header: Header, frame: pl.DataFrame) -> None:
        self._store.add(frame)
        self._sequence = max(self._sequence, header.sequence)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def process_rows(self, batch: RecordBatch, marks: list[Mark]) -> None:
        frame = self._reader.read(batch, self._columns)
        if self._takes_partials:
            times, ends = (batch.arrow().column(name).to_numpy() for name in (START, END))
        else:
            times = event_times(self.context, batch)
            ends = times + self._gap_ms
        # a session that has fired ends at the watermark + 1 at most, and rows at its very end touch it
        watermarks = watermarks_at(self._watermark, marks, batch.num_rows)
        behind = times - 1 <= watermarks
        steps: list[tuple[int, int, int]] = []
        if behind.any():
            late, cuts, fires = self._follow(frame, times, ends, behind, marks)
            if late.any():
                counts = frame.get_column(ROWS).filter(pl.Series(late)) if self._takes_partials else late
                self._late.put_aside(batch, late, marks, times, watermarks, int(counts.sum()))
                rows = np.flatnonzero(~late)
                frame, times, ends, marks = frame[rows], times[rows], ends[rows], moved_marks(marks, rows)
                fires = np.searchsorted(rows, fires).tolist()
            # a row precedes the marks at its end
            steps = sorted([*((marks[cut].offset, 1, cut + 1) for cut in cuts), *((row, 2, row) for row in fires)])
        start = done = 0
        for stop, what, index in steps:
            self._add(frame.slice(start, stop - start), times[start:stop], ends[start:stop])
            start = stop
            passed = index if what == 1 else int(np.searchsorted([mark.offset for mark in marks], stop, side="right"))
            self._advance(marks[done:passed])
            done = max(done, passed)
            if what == 2:
                start = stop + 1
                self._add(frame.slice(stop, 1), times[stop:start], ends[stop:start])
                self._fire_again(frame.slice(stop, 1), int(times[stop]))
        self._add(frame.slice(start), times[start:], ends[start:])
        self._advance(marks[done:])

    def _follow(
        self, frame: pl.DataFrame, times: Times, ends: Times, behind: npt.NDArray[np.bool_], marks: Sequence[Mark]
    ) -> Followed:
        """Process the keys of rows that are behind the watermark row by row."""
        self._join_waiting()
        columns, lateness_ms = self._plan.keys, self._lateness_ms
        keys = frame.select(columns).filter(pl.Series(behind)).unique().with_row_index(_KEY_NUMBER)
        bounds: dict[int, list[tuple[int, int]]] = {number: [] for number in range(keys.height)}
        for number, start, end in self._store.of_keys(keys).select(_KEY_NUMBER, START, END).iter_rows():
            bounds[number].append((start, end))
        affected = joined(frame.select(columns).with_row_index(_ROW), keys, columns)
        passed = [mark.watermark for mark in marks]
        offsets = [mark.offset for mark in marks]
        late = np.zeros(frame.height, dtype=np.bool_)
        cuts: set[int] = set()
        fires: list[int] = []
        for row, number in affected.sort(_ROW).select(_ROW, _KEY_NUMBER).iter_rows():
            before = int(np.searchsorted(offsets, row, side="right"))
            watermark = passed[before - 1] if before else self._watermark
            taking = []
            for session in bounds[number]:
                last = session[1] - 1
                if self._watermark < last <= watermark:
                    cuts.add(int(np.searchsorted(passed, last)))
                if last + lateness_ms > watermark:
                    taking.append(session)
                elif before and last + lateness_ms > self._watermark:
                    cuts.add(int(np.searchsorted(passed, last + lateness_ms)))
            start, end = int(times[row]), int(ends[row])
            apart = [session for session in taking if session[0] > end or session[1] < start]
            if len(apart) == len(taking) and end - 1 + lateness_ms <= watermark:
                late[row] = True
            else:
                touched = [session for session in taking if session not in apart]
                start = min([start, *(session[0] for session in touched)])
                end = max([end, *(session[1] for session in touched)])
                apart.append((start, end))
                taking = apart
                if end - 1 <= watermark:
                    fires.append(row)
            bounds[number] = taking
        return Followed(late, sorted(cuts), fires)

    def _add(self, frame: pl.DataFrame, times: Times, ends: Times) -> None:
        if not frame.height:
            return
        self._frames.append(frame)
        self._times.append(times)
        self._ends.append(ends)
        self._waiting += frame.height
        self._next_end = min(self._next_end, int(ends.min()))
        if self._waiting >= MAX_ROWS:
            self._join_waiting()

    def _join_waiting(self) -> None:
        if not self._waiting:
            return
        rows, times = pl.concat(self._frames), np.concatenate(self._times)
        if self._takes_partials:
            bounds = [pl.Series(START, times), pl.Series(END, np.concatenate(self._ends))]
            self._store.add_new(rows.with_columns(bounds), may_touch=True)
        else:
            rows = self._aggregates.rows(rows, self._sequence)
            self._store.add_new(sessions_of_rows(self._aggregates, rows, times, self._gap_ms), may_touch=False)
        self._sequence += self._waiting
        self._frames, self._times, self._ends, self._waiting, self._next_end = [], [], [], 0, NEVER

    # --- time ---------------------------------------------------------------------------------------------------------

    def firing(self, watermark: int) -> Iterator[None]:
        self._advance([Mark(0, watermark)])
        yield

    def _advance(self, marks: Sequence[Mark]) -> None:
        """Advance event time mark by mark, with no rows between."""
        if not marks:
            return
        last = marks[-1].watermark
        if last + 1 >= min(self._next_end, self._store.next_end):
            # waiting rows may extend sessions that would fire
            self._join_waiting()
            if last + 1 >= self._store.next_end:
                self._fire(self._store.take_due(last), marks)
        self._watermark = last
        self._collector.mark(last)

    def _fire(self, due: pl.DataFrame, marks: Sequence[Mark]) -> None:
        self._num_fired += due.height
        times = due.get_column(END).to_numpy() - 1
        results = self._results(due)
        fired = 0
        passed = np.searchsorted(times, [mark.watermark for mark in marks], side="right").tolist()
        for index, (mark, stop) in enumerate(zip(marks, passed, strict=True)):
            if stop > fired:
                if index:
                    self._collector.mark(marks[index - 1].watermark)
                self._collector.add(results.slice(fired, stop - fired), times[fired:stop])
                self._collector.mark(mark.watermark)
                fired = stop

    def _fire_again(self, row: pl.DataFrame, time: int) -> None:
        """Fire the session that a row has joined and that the watermark has passed."""
        self._join_waiting()
        session = self._store.fire_again(row.select(self._plan.keys), time)
        self._collector.add(self._results(session), session.get_column(END).to_numpy() - 1)

    def _results(self, sessions: pl.DataFrame) -> pl.DataFrame:
        return self._plan.results(
            sessions.with_columns(pl.col(START).alias(WINDOW_START), pl.col(END).alias(WINDOW_END))
        )


@dataclass(frozen=True)
class SessionAggregateOperatorFactory:
    """Session aggregate; see SessionAggregateSpec."""

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    spec: SessionAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.plan.output_type

    @property
    def declared_states(self) -> DeclaredStates:
        return self.spec.declared_states(STATE_NAME)

    @property
    def state_content(self) -> str:
        """Return what the partials in its state are of."""
        return self.spec.plan.state_content

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the same with the expressions."""
        return self.spec.plan.state_parts

    def create(self) -> SessionAggregateOperator:
        return SessionAggregateOperator(self.spec)
