"""Window aggregates over tumbling, sliding and cumulative event-time windows, a batch at a time.

Rows are aggregated by key and pane, and kept as segments until the windows of the pane fire. A batch is cut only at the
marks that make a window fire; late rows are found for all rows at once from the watermark at each. Rows for windows
that have fired but still accept rows (allowed lateness) are processed one by one: each emits a result of its own. Used
by the task's thread. Source: Flink, WindowOperator (the results) and Flink SQL's slicing window aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import CheckpointId
from runtime.operators.columnar.aggregates import ROWS, WINDOW_END, WINDOW_START
from runtime.operators.columnar.input_checks import event_times
from runtime.operators.columnar.panes import NEVER, Panes, Times
from runtime.operators.columnar.row_buffer import RowBuffer
from runtime.operators.columnar.segment_log import Content, LoggedState, SegmentLog
from runtime.operators.columnar.segments import PANE, Header, PaneId, SegmentStore, columnar_state, runs_of
from runtime.operators.columnar.watermarks_at import moved_marks, watermarks_at
from runtime.operators.columnar.window_plan import PlanSpec
from runtime.operators.columnar.windows import LONG, ColumnarWindowOperator, WindowSpec
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.state.handles import PendingKeyedState
from runtime.state.segments.snapshot import SegmentsSnapshot, StateRules
from runtime.state.snapshot import KeyedSnapshot, OperatorSnapshot, SnapshotRequest

STATE_NAME = "window-segments"
_LONG_RUN = 512
"""Minimum number of partials of a pane for a segment of their own."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WindowAggregateSpec(WindowSpec):
    """Describes a window aggregate.

    Args:
        panes: of the windows.
        aggregates, allowed_lateness_ms, late_data_tag, takes_partials: see WindowSpec.
        is_processing_time: whether the windows are of the clock's time; without lateness and partials then.
        early_ms: interval of results before a window is over; None = there are none. Without partials then.
    """

    aggregates: PlanSpec
    panes: Panes
    allowed_lateness_ms: int = 0
    late_data_tag: OutputTag | None = None
    takes_partials: bool = False
    is_processing_time: bool = False
    early_ms: int | None = None

    @property
    def partial_type(self) -> RowTypeInfo:
        """Return the type of partials: the pane's start, the keys, the partials."""
        kept = self.plan.partial_type
        return RowTypeInfo([LONG, *kept.field_types], [PANE, *kept.field_names])


class WindowAggregateOperator(ColumnarWindowOperator):
    """Windows that consist of panes."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec, STATE_NAME)
        plan = self._plan
        self._panes = spec.panes
        self._columns = list(plan.empty_partials.schema) if spec.takes_partials else plan.input_columns
        self._buffer = RowBuffer(plan, spec.panes, spec.takes_partials)
        self._store = SegmentStore(plan)
        #: the end of the first window that may fire
        self._next_end = NEVER

    # --- state --------------------------------------------------------------------------------------------------------

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        state = LoggedState(columnar_state(STATE_NAME, self._base_spec.state_type), self._keys, StateRules(expiry=PANE))
        self._log = SegmentLog([state], context.key_groups, context.max_parallelism)
        self._store.on_add = self._log_added

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        super().initialize_state(snapshot)
        if snapshot is not None and isinstance(snapshot.keyed, SegmentsSnapshot):
            self._log.restore(snapshot.keyed, self._store.num_rows)
        self._find_next_end()

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._log.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self._log.abort(checkpoint_id)

    def keyed_state(self, request: SnapshotRequest) -> KeyedSnapshot | PendingKeyedState:
        if request.kind is SnapshotKind.CANONICAL:
            return super().keyed_state(request)
        self._empty_buffer()
        starts = [pane.start for pane in self._store]
        if not starts or any(pane.fired_until > self._watermark for pane in self._store):
            # panes that had fired before a restore set event time back are told apart by headers of their own
            self._log.forget()
            return super().keyed_state(request)
        header = Header(self._watermark, self._buffer.sequence)
        content = Content(header, self._store.num_rows, self._all_rows, {STATE_NAME: min(starts)}, {})
        return self._log.snapshot(request, content)

    def _all_rows(self) -> dict[str, pl.DataFrame]:
        ((_, rows),) = self._store.all_segments(self._watermark)
        return {STATE_NAME: rows}

    def _log_added(self, pane: PaneId, partials: pl.DataFrame) -> None:
        if self._log.is_tracking:
            self._log.add(STATE_NAME, partials.with_columns(pl.lit(pane.start, pl.Int64).alias(PANE)))

    def state_schema(self) -> Sequence[tuple[str, pl.DataType]]:
        return [*self._plan.empty_partials.schema.items(), (PANE, pl.Int64())]

    def kept(self) -> tuple[Sequence[tuple[int, pl.DataFrame]], int]:
        self._empty_buffer()
        return self._store.all_segments(self._watermark), self._buffer.sequence

    def restore(self, header: Header, frame: pl.DataFrame) -> None:
        fired_until = header.watermark if header.watermark > self._watermark else MIN_WATERMARK
        self._store.add_all(frame, fired_until)
        self._buffer.sequence = max(self._buffer.sequence, header.sequence)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def process_rows(self, batch: RecordBatch, marks: list[Mark]) -> None:
        times = self._times_of(batch)
        frame = self._reader.read(batch, self._columns)
        watermarks = watermarks_at(self._watermark, marks, batch.num_rows)
        highest = marks[-1].watermark if marks else self._watermark
        lowest = int(times.min())
        if lowest > highest and self._panes.step_ms <= self._panes.size_ms:
            # no row is behind any watermark: none is late
            fires = highest + 1 >= min(self._next_end, self._first_stop(lowest))
            self._add_sections(frame, times, self._stops(times, watermarks) if fires else None, marks)
            return
        in_window, late = self._find_late(times, watermarks)
        if late.any():
            counts = frame.get_column(ROWS).filter(pl.Series(late)) if self._takes_partials else late
            self._late.put_aside(batch, late, marks, times, watermarks, int(counts.sum()))
        kept = in_window & ~late
        if not kept.all():
            rows = np.flatnonzero(kept)
            frame, times, marks = frame[rows], times[rows], moved_marks(marks, rows)
            watermarks = watermarks if isinstance(watermarks, int) else watermarks[rows]
        if self._lateness_ms:
            self._add_with_lateness(frame, times, watermarks, marks)
        else:
            self._add_sections(frame, times, self._stops(times, watermarks), marks)

    def _times_of(self, batch: RecordBatch) -> Times:
        if self._takes_partials:
            panes: Times = batch.arrow().column(0).to_numpy()
            return panes
        return event_times(self.context, batch)

    def _stops(self, times: Times, watermarks: Times | int) -> Times:
        """Return the ms behind the watermark at which each row makes something fire first, NEVER if none does.

        Args:
            times: shape (n,); of rows, or the starts of their panes.
            watermarks: for each of them, or for all.
        """
        return self._panes.first_open_ends(times, watermarks)

    def _first_stop(self, time: int) -> int:
        """Return what `_stops` returns for one time that is behind no watermark."""
        return self._panes.first_end(time, MIN_WATERMARK)

    def _find_late(self, times: Times, watermarks: Times | int) -> tuple[Mask, Mask]:
        """Return which rows are in a window at all, and which are too late for all of theirs."""
        last_ends = self._panes.last_ends(times)
        in_window = last_ends > times
        # a row that is in no window is late once the watermark has passed the row itself
        deadlines = np.where(in_window, last_ends - 1, times)
        return in_window, deadlines + self._lateness_ms <= watermarks

    def _add_sections(self, frame: pl.DataFrame, times: Times, ends: Times | None, marks: Sequence[Mark]) -> None:
        """Add rows, none of them late, and let event time advance between them.

        Args:
            ends: see `_stops`; None = no mark makes a window fire.
        """
        if ends is None:
            self._add(frame, times, None)
            if marks:
                self._rise(marks[-1].watermark)
            return
        start = 0
        for stop, passed, watermark in self._cuts(ends, marks):
            self._add(frame.slice(start, stop - start), times[start:stop], ends[start:stop])
            if passed > self._watermark:
                self._rise(passed)
            self._advance(watermark)
            start = stop
        if marks and marks[-1].watermark > self._watermark:
            self._rise(marks[-1].watermark)
        self._add(frame.slice(start), times[start:], ends[start:])

    def _cuts(self, ends: Times, marks: Sequence[Mark]) -> Iterator[tuple[int, int, int]]:
        """Yield the marks at which a window may fire; the caller fires it before it requests the next mark.

        Returns:
            (row, watermark of the mark before, watermark).
        """
        offsets = np.array([mark.offset for mark in marks], dtype=np.int64)
        watermarks = np.array([mark.watermark for mark in marks], dtype=np.int64)
        start = 0
        while len(offsets):
            lowest = np.concatenate(([NEVER], np.minimum.accumulate(ends[start:])))
            bounds = np.minimum(lowest[offsets - start], self._next_end)
            hits = np.flatnonzero(watermarks >= bounds - 1)
            if not len(hits):
                return
            hit = int(hits[0])
            start = int(offsets[hit])
            yield start, int(watermarks[hit - 1]) if hit else self._watermark, int(watermarks[hit])
            offsets, watermarks = offsets[hit + 1 :], watermarks[hit + 1 :]

    def _add(self, frame: pl.DataFrame, times: Times, ends: Times | None) -> None:
        if not frame.height:
            return
        if not self._takes_partials or not self._keep_as_they_are(frame, times):
            self._buffer.add(frame, times)
        # without reading each row: no row's window ends before the first window of the earliest one
        first = self._panes.first_end(int(times.min()), self._watermark) if ends is None else int(ends.min())
        if first == NEVER:
            # only windows that have fired: the pane is due to be dropped
            first = int(self._panes.last_ends(times).min()) + self._lateness_ms
        self._next_end = min(self._next_end, first)
        if self._buffer.is_full:
            self._empty_buffer()

    def _keep_as_they_are(self, partials: pl.DataFrame, panes: Times) -> bool:
        """Keep partials as segments, if they come in long runs of one pane."""
        if (panes[1:] < panes[:-1]).any():
            return False
        found, bounds = runs_of(panes)
        if len(found) * _LONG_RUN > len(panes):
            return False
        for start, low, high in zip(found, bounds, bounds[1:], strict=False):
            self._store.add(PaneId(start), partials.slice(low, high - low), repeating=True)
        return True

    def _empty_buffer(self) -> None:
        for start, partials in self._buffer.take():
            self._store.add(PaneId(start), partials)

    # --- allowed lateness ---------------------------------------------------------------------------------------------

    def _add_with_lateness(
        self, frame: pl.DataFrame, times: Times, watermarks: Times | int, marks: Sequence[Mark]
    ) -> None:
        """Add rows, some of which may belong to windows that have fired: each of these fires them again."""
        behind = np.flatnonzero(times <= watermarks)
        start, next_mark = 0, 0
        for row in [*behind.tolist(), len(times)]:
            stop_mark = next_mark
            while stop_mark < len(marks) and marks[stop_mark].offset <= row:
                stop_mark += 1
            section = [Mark(mark.offset - start, mark.watermark) for mark in marks[next_mark:stop_mark]]
            part = times[start:row]
            self._add_sections(frame.slice(start, row - start), part, self._stops(part, self._watermark), section)
            start, next_mark = row, stop_mark
            if row < len(times):
                one = times[row : row + 1]
                self._add(frame.slice(row, 1), one, self._stops(one, self._watermark))
                self._fire_again(frame.slice(row, 1), int(self._panes.starts(one)[0]))
                start = row + 1

    def _fire_again(self, row: pl.DataFrame, pane: int) -> None:
        """Fire the windows of a row's key that have fired before and still accept rows."""
        alive = self._watermark - self._lateness_ms
        windows = self._panes.windows(pane, max(alive, MIN_WATERMARK), self._watermark)
        if not windows:
            return
        self._empty_buffer()
        key = row.select(self._plan.keys)
        # in the order in which their assigners return them
        for start, end in windows if self._panes.is_cumulative else reversed(windows):
            panes = set(self._panes.of_window(start, end))
            merged = self._store.merged(pane for pane in self._store if pane.start in panes)
            assert merged is not None
            self._emit(merged.join(key, on=self._plan.keys, how="semi", nulls_equal=True), start, end)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _rise(self, watermark: int) -> None:
        """Advance event time without firing a window."""
        self._watermark = watermark
        self._collector.mark(watermark)

    def _advance(self, watermark: int) -> None:
        """Advance event time, firing everything at once."""
        for _ in self.firing(watermark):
            pass

    def firing(self, watermark: int) -> Iterator[None]:
        """Advance event time: fire windows by their end, and drop panes whose windows are all over."""
        if watermark + 1 >= self._next_end:
            self._empty_buffer()
            yield from self._fire_until(watermark)
        self._rise(watermark)

    def _fire_until(self, watermark: int) -> Iterator[None]:
        """Fire windows by their end, with no rows in the buffer; see `firing`."""
        due = self._due(self._watermark, watermark)
        windows = sorted(due, key=lambda window: window[::-1])
        if self._plan.arrays is None:
            for window in windows:
                self._fire(window, due[window])
                self._watermark = window[1] - 1
                yield
        elif windows:
            for last in self._fire_together(windows, [due[window] for window in windows]):
                self._watermark = last - 1
                yield
        self._watermark = watermark
        over = [
            pane
            for pane in self._store
            if pane.start <= watermark and self._panes.last_end(pane.start) - 1 + self._lateness_ms <= watermark
        ]
        self._store.drop(over)
        self._find_next_end()

    def _due(self, before: int, watermark: int) -> dict[tuple[int, int], list[PaneId]]:
        """Return the windows that fire, with their panes."""
        due: dict[tuple[int, int], list[PaneId]] = {}
        for pane in self._store:
            if pane.start > watermark:
                continue
            for window in self._panes.windows(pane.start, max(before, pane.fired_until), watermark):
                due.setdefault(window, []).append(pane)
        return due

    def _fire(self, window: tuple[int, int], panes: Sequence[PaneId]) -> None:
        merged = self._store.merged(panes)
        if merged is not None:
            self._num_fired += merged.height
            self._emit(merged, *window)

    def _fire_together(self, windows: Sequence[tuple[int, int]], panes: Sequence[Sequence[PaneId]]) -> Iterator[int]:
        """Fire windows in portions of many rows; yields the end of the last one after each."""
        starts, ends = np.array(windows, dtype=np.int64).T
        for numbers, merged in self._store.merged_together(panes):
            self._num_fired += merged.height
            bounds = [pl.Series(WINDOW_START, starts[numbers]), pl.Series(WINDOW_END, ends[numbers])]
            self._collector.add(self._plan.results(merged.hstack(bounds)), ends[numbers] - 1)
            yield int(ends[numbers[-1]])

    def _emit(self, merged: pl.DataFrame, start: int, end: int) -> None:
        self._collector.add(self._plan.results(merged, **{WINDOW_START: start, WINDOW_END: end}), end - 1)

    def _find_next_end(self) -> None:
        self._next_end = NEVER
        ahead = NEVER
        for pane in self._store:
            if pane.start > max(self._watermark, pane.fired_until):
                # none of their windows has fired: the first window is the first pane's
                ahead = min(ahead, pane.start)
            else:
                self._next_end = min(self._next_end, self._next_end_of(pane))
        if ahead != NEVER:
            self._next_end = min(self._next_end, self._next_end_of(PaneId(ahead)))

    def _next_end_of(self, pane: PaneId) -> int:
        first = self._panes.first_end(pane.start, max(self._watermark, pane.fired_until))
        return first if first != NEVER else self._panes.last_end(pane.start) + self._lateness_ms
