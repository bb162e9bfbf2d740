"""The first of two phases for sessions: rows of a key that follow each other become one partial before the exchange.

A row may be late by itself and still belong to a session through its neighbours, so rows that could be late are sent on
one by one, in order. The others wait, and are sent before the first watermark that could fire a session which they
extend: after the exchange everything is as if the rows themselves had arrived. No watermark is held back. Used by the
task's thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.batch import Mark
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.operators.columnar.local_aggregate import LocalOperator, local_states
from runtime.operators.columnar.panes import NEVER, Times
from runtime.operators.columnar.row_buffer import MAX_ROWS
from runtime.operators.columnar.session_aggregate import SessionAggregateSpec
from runtime.operators.columnar.sessions import END, START, sessions_of_rows
from runtime.operators.columnar.watermarks_at import watermarks_at
from runtime.state.state_meta import DeclaredStates

_ROW = "__row"


class LocalSessionOperator(LocalOperator):
    """Aggregates rows into sessions for a SessionAggregateOperator that takes partials."""

    def __init__(self, spec: SessionAggregateSpec) -> None:
        super().__init__(spec.plan, spec.aggregates.input_type, spec.partial_type)
        self._aggregates = spec.aggregates.plan()
        self._gap_ms = spec.gap_ms
        self._frames: list[pl.DataFrame] = []
        self._times: list[Times] = []
        self._waiting = 0
        #: event time of the earliest waiting row
        self._earliest = NEVER
        #: the latest watermark of a batch, until the batch ends or rows leave
        self._held_back: int | None = None

    def process_watermark(self, watermark: Watermark) -> None:
        self._rise(watermark.timestamp)
        self._pass_on_watermark()
        self._watermark = watermark.timestamp

    def process_rows(self, frame: pl.DataFrame, times: Times, marks: Sequence[Mark]) -> None:
        may_be_late = times + (self._gap_ms - 1) <= watermarks_at(self._watermark, marks, frame.height)
        start = 0
        for stop, watermark in marks:
            self._take_in(frame, times, may_be_late, start, stop)
            self._rise(watermark)
            start = stop
        self._take_in(frame, times, may_be_late, start, frame.height)
        if marks:
            self._watermark = marks[-1].watermark
        self._pass_on_watermark()
        if self._waiting >= MAX_ROWS:
            self.flush(None)

    def _rise(self, watermark: int) -> None:
        """Advance event time."""
        if self._is_due(watermark):
            self._pass_on_watermark()
            self.flush(watermark)
        else:
            self._held_back = watermark

    def _pass_on_watermark(self) -> None:
        """Emit the watermark for which no row had to be sent, before any row that arrived after it."""
        if self._held_back is not None:
            self.output.emit_watermark(Watermark(self._held_back))
            self._held_back = None

    def _is_due(self, watermark: int) -> bool:
        """Return whether a watermark may fire a session that a waiting row would extend."""
        # a session that a row touches ends at the row's own time at the earliest, and fires a millisecond before
        return bool(self._kept) or watermark >= self._earliest - 1

    def _take_in(
        self, frame: pl.DataFrame, times: Times, may_be_late: npt.NDArray[np.bool_], start: int, stop: int
    ) -> None:
        if start == stop:
            return
        rows, times = frame.slice(start, stop - start), times[start:stop]
        if may_be_late[start:stop].any():
            # only the order decides which rows are late
            self._pass_on_watermark()
            self.flush(None)
            self.emit(self._one_by_one(rows, times), ())
            return
        self._frames.append(rows)
        self._times.append(times)
        self._waiting += rows.height
        self._earliest = min(self._earliest, int(times.min()))

    def _one_by_one(self, rows: pl.DataFrame, times: Times) -> pl.DataFrame:
        """Return a partial for each row, in order."""
        numbered = self._aggregates.rows(rows, 0).with_row_index(_ROW)
        partials = self._aggregates.aggregated(numbered, [_ROW]).sort(_ROW)
        return partials.with_columns(pl.Series(START, times), pl.Series(END, times + self._gap_ms))

    def taken(self) -> list[pl.DataFrame]:
        if not self._waiting:
            return []
        rows, times = self._aggregates.rows(pl.concat(self._frames), 0), np.concatenate(self._times)
        self._frames, self._times, self._waiting, self._earliest = [], [], 0, NEVER
        return [sessions_of_rows(self._aggregates, rows, times, self._gap_ms)]


@dataclass(frozen=True)
class LocalSessionOperatorFactory:
    """The first phase of a session aggregate.

    Args:
        spec: of the aggregate.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    spec: SessionAggregateSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.partial_type

    @property
    def declared_states(self) -> DeclaredStates:
        return local_states(self.output_type)

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read."""
        return frozenset(self.spec.plan.input_columns)

    def create(self) -> LocalSessionOperator:
        return LocalSessionOperator(self.spec)
