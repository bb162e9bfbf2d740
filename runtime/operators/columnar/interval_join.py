"""Interval join by column: pairs of rows with equal keys whose event times differ within bounds.

All rows of a batch are joined at once with the buffered rows of the other side. These are sorted by key and time, and a
binary search finds the range of partners of each row, so only matching pairs are built. Watermarks inside a batch only
decide which rows are late and which have expired. Results are those of `runtime.operators.interval_join`; null keys are
equal to each other.

An outer join emits a row without a partner once the watermark has passed the last time of one: then none can come that
is not late. Its row of the other side is kept as long as it takes to know, and watermarks leave later, by as much as
such a row's own event time may lie behind. A late row is no partner, and is not emitted without one either. Used by the
task's thread.
Source: Flink, IntervalJoinOperator; for outer joins, TimeIntervalJoin and KeyedCoProcessOperatorWithWatermarkDelay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, get_args

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.batch import Mark, RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.ids import CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.frame_collector import FrameCollector
from runtime.operators.columnar.frames import FrameReader
from runtime.operators.columnar.input_checks import check_inserts, event_times
from runtime.operators.columnar.join_buffer import EXPIRES, TIME, JoinBuffer
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.key_joins import MAX_PAIRS, numbered, pairs_in_parts
from runtime.operators.columnar.late_rows import LateRows
from runtime.operators.columnar.panes import Times
from runtime.operators.columnar.segment_log import Content, LoggedState, SegmentLog, restored_rows
from runtime.operators.columnar.segments import (
    Header,
    cast_to,
    check_readable,
    columnar_state,
    keyed_snapshot,
    restored_frames,
    together,
)
from runtime.operators.columnar.watermarks_at import moved_marks, watermarks_at
from runtime.operators.columnar.window_join import How
from runtime.operators.columnar.windows import LONG
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input import TwoInputBatchOperator
from runtime.state.segments.snapshot import SegmentsSnapshot, StateRules
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import DeclaredStates

STATE_NAMES = ("left-rows", "right-rows")
_TOLD = "__told"
"""Whether it has been told if a row has a partner although the watermark has not come so far: another one had, before a
restore set event time back. Only in memory; snapshots have such rows under a header of their own."""
_FAR = 2**62


@dataclass(frozen=True)
class ColumnIntervalJoinSpec:
    """Describes an interval join by column.

    Args:
        sides: both sides of the join.
        lower_ms: smallest difference right - left in event time, inclusive.
        upper_ms: largest difference, inclusive; below `lower_ms` there are no pairs.
        late_tags: side outputs of the late rows of either side; None = they are dropped.
        how: "inner", "left", "right" or "full".

    Raises:
        ValueError: there is no such join.
    """

    sides: JoinSides
    lower_ms: int
    upper_ms: int
    late_tags: tuple[OutputTag | None, OutputTag | None] = (None, None)
    how: How = "inner"

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise ValueError(f"an interval join must be one of {', '.join(get_args(How))}, not {self.how!r}")

    @property
    def outer(self) -> tuple[bool, bool]:
        """Return for each side whether its rows without a partner are emitted."""
        return self.how in ("left", "full"), self.how in ("right", "full")

    def buffered_type(self, side: int) -> RowTypeInfo:
        """Return the type of a side's buffered rows."""
        names = [*self.sides.output_names(side), TIME, EXPIRES]
        return RowTypeInfo([*self.sides.types[side].field_types, LONG, LONG], names)


class _Rows(NamedTuple):
    """Rows of one side that are not late."""

    frame: pl.DataFrame
    times: Times
    watermarks: Times
    """At each row."""


class ColumnIntervalJoinOperator(TwoInputBatchOperator):
    """Input 0 is the left side, input 1 the right one."""

    costs_by_slice = True

    def __init__(self, spec: ColumnIntervalJoinSpec) -> None:
        super().__init__()
        self._spec = spec
        sides = spec.sides
        self._readers = [FrameReader(type_info) for type_info in sides.types]
        self._renamed = [sides.renamed(side) for side in (0, 1)]
        self._key_names = [sides.key_names(side) for side in (0, 1)]
        self._output_names = list(sides.output_type.field_names)
        #: by side: the range of the other side's times relative to a row's own, from and to
        self._bounds = ((spec.lower_ms, spec.upper_ms), (-spec.upper_ms, -spec.lower_ms))
        bounds = [(TIME, pl.Int64()), (EXPIRES, pl.Int64())]
        self._schemas = [
            [*((new, self._readers[side].schema[old]) for old, new in self._renamed[side].items()), *bounds]
            for side in (0, 1)
        ]
        self._column_names = [[name for name, _ in schema] for schema in self._schemas]
        buffered = [pl.DataFrame(schema=[*self._schemas[side], (_TOLD, pl.Boolean())]) for side in (0, 1)]
        self._buffers = [JoinBuffer(buffered[side], self._key_names[side]) for side in (0, 1)]
        self._watermark = MIN_WATERMARK
        #: the watermark that had told it of restored rows, greater than the present one if event time was set back
        self._told_until = MIN_WATERMARK
        self._is_outer = any(spec.outer)
        #: by side: how far the watermark goes beyond a row's time until no partner can come; of an outer join until one
        #: that came would be late, so that a row has a partner if and only if neither is late
        reach = [max(upper, 0) + int(self._is_outer) for _, upper in self._bounds]
        self._reach = reach
        #: by side: for how much longer its rows are kept, so that the other side's are known to have had a partner
        self._longer = [reach[1 - side] if spec.outer[1 - side] else 0 for side in (0, 1)]
        #: by how much watermarks leave later than they come
        self._delay_ms = max(reach) if self._is_outer else 0

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        sides = zip(self._spec.late_tags, self._spec.sides.types, strict=True)
        self._late = [LateRows(context, output, tag, type_info) for tag, type_info in sides]
        self._collector = FrameCollector(output, self._spec.sides.output_type)
        states = []
        for side, name in enumerate(STATE_NAMES):
            kept = self._spec.buffered_type(side)
            keys = ColumnKeys(self._key_names[side], kept)
            states.append(LoggedState(columnar_state(name, kept), keys, StateRules(expiry=EXPIRES)))
        self._keys = [state.keys for state in states]
        self._log = SegmentLog(states, context.key_groups, context.max_parallelism)

    # --- state --------------------------------------------------------------------------------------------------------

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None:
            return
        self._watermark = snapshot.watermark
        if isinstance(snapshot.keyed, SegmentsSnapshot):
            self._restore_segments(snapshot.keyed)
        elif snapshot.keyed is not None:
            for side, name in enumerate(STATE_NAMES):
                kept = self._spec.buffered_type(side)
                for header, rows in restored_frames(name, kept, self._schemas[side], snapshot.keyed, STATE_NAMES):
                    self._told_until = max(self._told_until, header.watermark)
                    is_told = self._due(side) <= header.watermark
                    self._buffers[side].add(rows.with_columns(is_told.alias(_TOLD)))

    def _restore_segments(self, keyed: SegmentsSnapshot) -> None:
        """Take the oldest segment of each side as it is, and what has come since."""
        self._told_until = told_until = keyed.listed.header.watermark
        for side, name in enumerate(STATE_NAMES):
            check_readable(name, self._spec.buffered_type(side), keyed, STATE_NAMES)
            # rows of an inner join are told of nothing
            is_told = (self._due(side) <= told_until if self._is_outer else pl.lit(False)).alias(_TOLD)
            schema, buffer = self._schemas[side], self._buffers[side]
            frames = keyed.frames(name)
            if frames:
                rows = restored_rows(frames[0], self._keys[side], schema, self.context.max_parallelism)
                buffer.restore(rows._replace(rows=rows.rows.with_columns(is_told)))
                newer = [cast_to(frame, schema) for frame in frames[1:]]
                if newer:
                    buffer.add(pl.concat(newer).with_columns(is_told))
        self._log.restore(keyed, sum(buffer.num_rows for buffer in self._buffers))

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._log.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self._log.abort(checkpoint_id)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        if request.kind is not SnapshotKind.CANONICAL:
            num_rows = sum(buffer.num_rows for buffer in self._buffers)
            if num_rows and self._told_until <= self._watermark:
                header = Header(self._watermark, 0)
                alive_from = dict.fromkeys(STATE_NAMES, min(self._watermark, MAX_WATERMARK - 1) + 1)
                content = Content(header, num_rows, self._all_rows, alive_from, {})
                return OperatorSnapshot.of(self._log.snapshot(request, content), watermark=self._watermark)
            self._log.forget()
        max_parallelism = self.context.max_parallelism
        saved = []
        for side, name in enumerate(STATE_NAMES):
            kept = self._spec.buffered_type(side)
            keys = ColumnKeys(self._key_names[side], kept)
            rows = self._buffers[side].all_rows()
            is_ahead = pl.col(_TOLD) & (self._due(side) > self._watermark)
            ahead = rows.filter(is_ahead)
            told_until = ahead.select(self._due(side).max()).item() if ahead.height else self._watermark
            for part, watermark in ((rows.filter(~is_ahead), self._watermark), (ahead, told_until)):
                part = part.drop(_TOLD)
                saved.append(keyed_snapshot(name, part, kept, keys, max_parallelism, Header(watermark, 0)))
        return OperatorSnapshot(together(saved), watermark=self._watermark)

    def _all_rows(self) -> dict[str, pl.DataFrame]:
        sides = zip(STATE_NAMES, self._buffers, strict=True)
        return {name: buffer.all_rows().drop(_TOLD) for name, buffer in sides}

    def _due(self, side: int) -> pl.Expr:
        """Return the watermark with which it shows whether a row of an outer join has a partner."""
        return pl.col(EXPIRES) - self._longer[side]

    # --- input --------------------------------------------------------------------------------------------------------

    def process_batch(self, index: int, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        if self._is_outer and batch.marks:
            # rows without a partner come between the watermarks
            start = 0
            for mark in batch.marks:
                self._process_whole(index, batch.slice(start, mark.offset).with_marks(()))
                risen = self.combined.on_watermark(index, mark.watermark)
                if risen is not None:
                    self.advance_watermark(risen)
                start = mark.offset
            batch = batch.slice(start, batch.num_rows)
        self._process_whole(index, batch)

    def _process_whole(self, index: int, batch: RecordBatch) -> None:
        marks = []
        for offset, watermark in batch.marks:
            risen = self.combined.on_watermark(index, watermark)
            if risen is not None and risen >= self._watermark:
                marks.append(Mark(offset, risen))
        num_marked = 0
        try:
            if batch.num_rows:
                num_marked = self._process_rows(index, batch, marks)
        except PolarsError as error:
            raise user_function_error(self.context, error, during="joining columns") from error
        if marks:
            self._rise(marks[-1].watermark)
            if num_marked < len(marks):
                self._collector.mark(marks[-1].watermark)
        self.end_step()

    def advance_watermark(self, watermark: int) -> None:
        if watermark >= self._watermark:
            try:
                for side in (0, 1):
                    if self._spec.outer[side]:
                        self._emit_unmatched(side, watermark)
            except PolarsError as error:
                raise user_function_error(self.context, error, during="joining columns") from error
            self._rise(watermark)
            if watermark == MAX_WATERMARK:
                self._collector.mark(watermark)
            elif watermark > MIN_WATERMARK + self._delay_ms:
                self._collector.mark(watermark - self._delay_ms)

    def _emit_unmatched(self, side: int, watermark: int) -> None:
        """Emit the rows of a side for which it shows with this watermark that they have no partner."""
        due = self._due(side)
        rows = self._buffers[side].all_rows().filter((due > self._watermark) & (due <= watermark) & ~pl.col(_TOLD))
        if not rows.height:
            return
        times = rows.get_column(TIME).to_numpy()
        rows = rows.drop(TIME, EXPIRES, _TOLD)
        has_partner = np.zeros(rows.height, dtype=np.bool_)
        # no watermark: rows of the other side are there for as long as they may be asked for
        whole = _Rows(rows, times, np.full(rows.height, MIN_WATERMARK, dtype=np.int64))
        for causes, _, _ in self._pairs(side, whole):
            has_partner[causes] = True
        alone = np.flatnonzero(~has_partner)
        alone = alone[np.argsort(times[alone], kind="stable")]
        if len(alone):
            nulls = [pl.lit(None, dtype).alias(name) for name, dtype in self._schemas[1 - side][:-2]]
            self._collector.add(rows[alone].with_columns(nulls).select(self._output_names), times[alone])

    def _rise(self, watermark: int) -> None:
        self._watermark = watermark
        for buffer in self._buffers:
            buffer.expire(watermark)

    def end_step(self) -> None:
        self._collector.flush()

    # --- joining ------------------------------------------------------------------------------------------------------

    def _process_rows(self, side: int, batch: RecordBatch, marks: list[Mark]) -> int:
        """Take in rows; returns how many of the marks have been emitted between the results."""
        times = event_times(self.context, batch)
        frame = self._readers[side].read(batch).rename(self._renamed[side])
        watermarks = watermarks_at(self._watermark, marks, batch.num_rows)
        if isinstance(watermarks, int):
            watermarks = np.full(batch.num_rows, watermarks, dtype=np.int64)
        late = times < watermarks
        if late.any():
            self._late[side].put_aside(batch, late, marks, times, watermarks, int(late.sum()))
            kept = np.flatnonzero(~late)
            frame, times, watermarks, marks = frame[kept], times[kept], watermarks[kept], moved_marks(marks, kept)
        if not frame.height:
            return 0
        num_marked = self._emit(side, _Rows(frame, times, watermarks), marks)
        # a row that has already expired when it arrives is dropped when the watermark rises
        expires = np.maximum(_shifted(times, self._reach[side]), _shifted(watermarks, 1)) + self._longer[side]
        buffered = [pl.Series(TIME, times), pl.Series(EXPIRES, expires), pl.lit(False).alias(_TOLD)]
        rows = frame.with_columns(buffered)
        self._buffers[side].add(rows)
        if self._log.is_tracking:
            self._log.add(STATE_NAMES[side], rows.select(self._column_names[side]))
        return num_marked

    def _emit(self, side: int, rows: _Rows, marks: Sequence[Mark]) -> int:
        """Emit the pairs of rows of one side with buffered rows of the other, with the marks between them."""
        next_mark = 0
        for causes, frame, times in self._pairs(side, rows):
            start = 0
            while next_mark < len(marks) and marks[next_mark].offset <= causes[-1]:
                stop = int(np.searchsorted(causes, marks[next_mark].offset))
                self._collector.add(frame.slice(start, stop - start), times[start:stop])
                self._collector.mark(marks[next_mark].watermark)
                start, next_mark = stop, next_mark + 1
            self._collector.add(frame.slice(start), times[start:])
            if self._collector.num_rows >= MAX_PAIRS:
                self._collector.flush()
        return next_mark

    def _pairs(self, side: int, rows: _Rows) -> Iterator[tuple[Times, pl.DataFrame, Times]]:
        """Yield pairs by row, each row's by the other's time: (row, columns, event time of the result)."""
        lower, upper = self._bounds[side]
        firsts, lasts = _shifted(rows.times, lower), _shifted(rows.times, upper)
        own, theirs = self._key_names[side], self._key_names[1 - side]
        keys = rows.frame.select(own)
        others = self._buffers[1 - side].find_between(keys, int(firsts.min()), int(lasts.max()))
        if not others.height:
            return
        numbers, other_numbers = numbered(keys, own, others, theirs)
        order = np.lexsort((others.get_column(TIME).to_numpy(), other_numbers))
        order = order[np.searchsorted(other_numbers[order], 0) :]
        others, other_numbers = others[order], other_numbers[order]
        other_times = others.get_column(TIME).to_numpy()
        # key and time as one number: times are replaced by their rank, so nothing can overflow
        ranks = np.unique(other_times)
        width = len(ranks) + 1
        places = other_numbers * width + np.searchsorted(ranks, other_times)
        starts = np.searchsorted(places, numbers * width + np.searchsorted(ranks, firsts))
        stops = np.searchsorted(places, numbers * width + np.searchsorted(ranks, lasts, side="right"))
        others_expire = others.get_column(EXPIRES).to_numpy()
        others = others.drop(TIME, EXPIRES, _TOLD)
        for causes, met in pairs_in_parts(starts, stops):
            is_there = others_expire[met] > rows.watermarks[causes]
            if not is_there.all():
                causes, met = causes[is_there], met[is_there]
            if len(causes):
                frame = pl.concat([rows.frame[causes], others[met]], how="horizontal").select(self._output_names)
                yield causes, frame, np.maximum(rows.times[causes], other_times[met])


def _shifted(times: Times, by: int) -> Times:
    """Return `times + by`, saturated at both ends of time."""
    shifted: Times = np.clip(times, -_FAR, _FAR) + by
    return shifted


@dataclass(frozen=True)
class ColumnIntervalJoinOperatorFactory:
    """Interval join by column; see ColumnIntervalJoinSpec."""

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    spec: ColumnIntervalJoinSpec

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.sides.output_type

    @property
    def declared_states(self) -> DeclaredStates:
        sides = enumerate(STATE_NAMES)
        return DeclaredStates(tuple(columnar_state(name, self.spec.buffered_type(side)) for side, name in sides))

    @property
    def state_content(self) -> str:
        """Return what its rows wait for: a row that waits for a partner only does not say whether it had one, and one
        of an outer join is kept as long as its bounds say."""
        spec = self.spec
        return "an inner join" if spec.how == "inner" else f"a {spec.how} join, {spec.lower_ms} to {spec.upper_ms} ms"

    def create(self) -> ColumnIntervalJoinOperator:
        return ColumnIntervalJoinOperator(self.spec)
