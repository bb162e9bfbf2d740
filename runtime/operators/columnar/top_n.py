"""top_n: the best n rows of each key so far, as a changelog of rows that enter and drop out.

Without ranks a row that enters is an INSERT, after the DELETE of the one that it displaces. With ranks every place from
that of the new row on changes: UPDATE_BEFORE and UPDATE_AFTER for each, INSERT for a new place. Polars orders rows once
per batch; only rows that may enter are processed one by one. Used by the task's thread. Source: Flink SQL,
AppendOnlyTopNFunction (golden: tests/operators/columnar/goldens).
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo
from runtime.common.types import RowKind
from runtime.core.batch import DEFAULT_BATCH_ROWS, Mark, RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.core.ids import CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.frames import FrameReader, batch_of, fields_of, type_of, with_kinds
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.keyed_rows import KeyedRows
from runtime.operators.columnar.segment_log import Content, LoggedState, SegmentLog, restored_rows
from runtime.operators.columnar.segments import (
    Header,
    cast_to,
    check_readable,
    columnar_state,
    keyed_snapshot,
    restored_frames,
)
from runtime.operators.columnar.top_n_plan import TopNPlan, TopNSpec
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator, OperatorContext
from runtime.operators.output import Output
from runtime.state.segments.snapshot import SegmentsSnapshot, StateRules, newest_rows
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import WRITTEN, DeclaredStates, StatePart, has_written

STATE_NAME = "top-rows"
_KEY = "__key"
_N = "n"
"""Name under which a list of segments has the number of rows that a key may have."""
_INSERT, _DELETE = RowKind.INSERT, RowKind.DELETE
Numbers = npt.NDArray[np.int64]
_BEFORE, _AFTER = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER


@dataclass
class _Changes:
    """Changes by a batch: lists with one item per change."""

    places: list[int] = field(default_factory=list)
    """Of the rows, in their common order."""
    kinds: list[RowKind] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)
    """Rows of the batch, ascending."""

    def add(self, place: int, kind: RowKind, rank: int, cause: int) -> None:
        self.places.append(place)
        self.kinds.append(kind)
        self.ranks.append(rank)
        self.causes.append(cause)

    def enter(self, top: list[int], place: int, n: int, cause: int) -> None:
        """Add a row to those of its key, if it is better than the worst or one of the first n; without ranks."""
        if len(top) == n:
            self.add(top.pop(), _DELETE, 0, cause)
        top.insert(bisect(top, place), place)
        self.add(place, _INSERT, 0, cause)

    def enter_ranked(self, top: list[int], place: int, n: int, cause: int) -> None:
        """Add a row to those of its key, like `enter`, with ranks."""
        rank = bisect(top, place)
        top.insert(rank, place)
        for moved in range(rank, min(len(top) - 1, n)):
            self.add(top[moved + 1], _BEFORE, moved + 1, cause)
            self.add(top[moved], _AFTER, moved + 1, cause)
        if len(top) > n:
            top.pop()
        else:
            self.add(top[-1], _INSERT, len(top), cause)


def _state_type(plan: TopNPlan, ttl_ms: int | None) -> RowTypeInfo:
    """Return the type of the kept rows."""
    if ttl_ms is None:
        return plan.partial_type
    empty = plan.empty_partials.with_columns(pl.lit(0, pl.Int64).alias(WRITTEN))
    return type_of(empty, fields_of(plan.partial_type))


class TopNOperator(OneInputOperator):
    """The best rows of a stream that is keyed by columns."""

    costs_by_slice = True

    def __init__(self, spec: TopNSpec, ttl_ms: int | None) -> None:
        self._plan = plan = spec.plan()
        self._ttl_ms = ttl_ms
        self._is_ranked = bool(spec.rank)
        self._reader = FrameReader(spec.input_type)
        self._keys = ColumnKeys(plan.keys, spec.input_type)
        #: with a time to live, rows have a further column: processing time of the last write for their key
        empty = plan.empty_partials if ttl_ms is None else self._written(plan.empty_partials, 0)
        self._state_type = _state_type(plan, ttl_ms)
        self._order_columns = [*plan.order_columns, *([] if ttl_ms is None else [WRITTEN])]
        self._store = KeyedRows(empty, plan.keys)
        #: for each key with n rows: the order columns of its worst row; derived from the store
        self._worst = KeyedRows(empty.select(self._order_columns), plan.keys)
        #: whether that has all such keys; else how many rows were read to derive it for some
        self._knows_worst = True
        self._num_derived = 0
        #: restored rows that a smaller n no longer has room for: taken back before anything else is emitted
        self._excess = empty
        self._empty = empty
        self._sequence = 0
        self._purged_ms: int | None = None

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        state = LoggedState(
            columnar_state(STATE_NAME, self._state_type), self._keys, StateRules(replaced_by=tuple(self._plan.keys))
        )
        self._log = SegmentLog([state], context.key_groups, context.max_parallelism)

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None or snapshot.keyed is None:
            return
        saved = snapshot.keyed.metas.get(STATE_NAME)
        has_times = saved is not None and has_written(saved)
        schema = [*self._plan.empty_partials.schema.items(), *([(WRITTEN, pl.Int64())] if has_times else [])]
        if isinstance(snapshot.keyed, SegmentsSnapshot) and has_times == (self._ttl_ms is not None):
            check_readable(STATE_NAME, self._state_type, snapshot.keyed)
            if snapshot.keyed.listed.extra[_N] <= self._plan.n:
                self._restore_segments(snapshot.keyed, schema)
                return
        for header, rows in restored_frames(STATE_NAME, self._state_type, schema, snapshot.keyed):
            if self._ttl_ms is None:
                rows = rows.select(self._empty.columns)
            elif not has_times:
                # rows that were saved without a time to live have theirs from now on
                rows = self._written(rows, self.context.clock.now_ms())
            best, rest = self._plan.divided(rows)
            self._store.replace(best)
            self._worst.replace(self._worst_of_full(best))
            self._excess = pl.concat([self._excess, rest])
            self._sequence = max(self._sequence, header.sequence)

    def _restore_segments(self, keyed: SegmentsSnapshot, schema: Sequence[tuple[str, pl.DataType]]) -> None:
        """Take the oldest segment as it is, and what has been written since."""
        self._sequence = keyed.listed.header.sequence
        frames = keyed.frames(STATE_NAME)
        if not frames:
            return
        first, *others = frames
        self._store.restore(restored_rows(first, self._keys, schema, self.context.max_parallelism))
        if others:
            self._store.replace(cast_to(newest_rows(others, self._plan.keys), schema))
        self._knows_worst = False
        self._log.restore(keyed, self._store.num_rows)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        header = Header(MIN_WATERMARK, self._sequence)
        if request.kind is not SnapshotKind.CANONICAL:
            if self._store.num_rows and not self._excess.height:
                content = Content(header, self._store.num_rows, self._all_rows, {}, {_N: self._plan.n})
                return OperatorSnapshot.of(self._log.snapshot(request, content))
            self._log.forget()
        rows = self._alive(pl.concat([self._store.all_rows(), self._excess]))
        max_parallelism = self.context.max_parallelism
        return OperatorSnapshot(keyed_snapshot(STATE_NAME, rows, self._state_type, self._keys, max_parallelism, header))

    def _all_rows(self) -> dict[str, pl.DataFrame]:
        return {STATE_NAME: self._alive(self._store.all_rows())}

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._log.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self._log.abort(checkpoint_id)

    # --- time to live -------------------------------------------------------------------------------------------------

    def _written(self, rows: pl.DataFrame, now_ms: int) -> pl.DataFrame:
        """Return rows as they are written now."""
        return rows if self._ttl_ms is None else rows.with_columns(pl.lit(now_ms, pl.Int64).alias(WRITTEN))

    def _alive(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of keys that have not been forgotten."""
        if self._ttl_ms is None:
            return rows
        return rows.filter(pl.col(WRITTEN) > self.context.clock.now_ms() - self._ttl_ms)

    def _worst_of_full(self, rows: pl.DataFrame) -> pl.DataFrame:
        worst = self._plan.worst_of_full(rows)
        if self._ttl_ms is None:
            return worst
        written = rows.select(*self._plan.keys, WRITTEN).unique(self._plan.keys)
        return joined(worst, written, self._plan.keys).select(self._order_columns)

    def _purge(self) -> None:
        """Forget what has expired, once in a time to live."""
        if self._ttl_ms is None:
            return
        now_ms = self.context.clock.now_ms()
        if self._purged_ms is None or now_ms - self._purged_ms >= self._ttl_ms:
            self._purged_ms = now_ms
            self._store = self._without_expired(self._store)
            self._worst = self._without_expired(self._worst)

    def _without_expired(self, old: KeyedRows) -> KeyedRows:
        rows = old.all_rows()
        made = KeyedRows(rows.clear(), self._plan.keys)
        made.replace(self._alive(rows))
        return made

    # --- rows ---------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        changed = None
        if batch.num_rows:
            try:
                times = batch.timestamps_array()
                self._take_excess_back(None if times is None else int(times[0]))
                changed = self._changed(batch)
            except PolarsError as error:
                raise user_function_error(self.context, error, during="ordering rows") from error
        if changed is not None:
            for start in range(0, changed.num_rows, DEFAULT_BATCH_ROWS):
                self.output.collect(changed.slice(start, min(start + DEFAULT_BATCH_ROWS, changed.num_rows)))
        elif batch.marks:
            self.output.emit_watermark(Watermark(batch.marks[-1].watermark))

    def finish(self) -> None:
        self._take_excess_back(None)

    def _take_excess_back(self, time: int | None) -> None:
        """Emit the restored rows that are not among the best any more as deleted, the last place of a key first.

        Args:
            time: event time of the changes: that of the row before which they come, as a key without rows to come would
                keep its excess otherwise; None = they have none.
        """
        if not self._excess.height:
            return
        rows = self._alive(self._excess)
        self._excess = self._empty
        frame = self._plan.changes(*self._plan.beyond(rows))
        for start in range(0, frame.height, DEFAULT_BATCH_ROWS):
            part = frame.slice(start, DEFAULT_BATCH_ROWS)
            times = None if time is None else np.full(part.height, time, dtype=np.int64)
            made = batch_of(part, self._plan.output_type, times)
            self.output.collect(with_kinds(made, [_DELETE] * part.height))

    def _changed(self, batch: RecordBatch) -> RecordBatch | None:
        """Return the changes for the rows of a batch; None if nothing changes."""
        self._purge()
        rows = self._written(self._plan.rows(self._reader.read(batch), self._sequence), self.context.clock.now_ms())
        self._sequence += rows.height
        causes = self._may_enter(rows)
        if not len(causes):
            return None
        rows, changes = self._entered(rows[causes])
        if not changes.places:
            return None
        frame = self._plan.changes(rows, changes.ranks)
        causes, times = causes[changes.causes], batch.timestamps_array()
        offsets = np.searchsorted(causes, [mark.offset for mark in batch.marks]).tolist()
        # of several marks at one offset only the last one is kept: nothing lies between them
        moved = dict(zip(offsets, (mark.watermark for mark in batch.marks), strict=True))
        marks = [Mark(offset, watermark) for offset, watermark in moved.items()]
        made = batch_of(frame, self._plan.output_type, None if times is None else times[causes], marks)
        return made if all(kind is _INSERT for kind in changes.kinds) else with_kinds(made, changes.kinds)

    def _may_enter(self, rows: pl.DataFrame) -> Numbers:
        """Return the rows that are better than the worst of their key, or whose key has room; soon there are few of
        them."""
        keys = rows.select(self._plan.keys).unique().with_row_index(_KEY)
        worst = self._alive(self._worst_of(keys.select(self._plan.keys)))
        if not worst.height:
            return np.arange(rows.height)
        both = pl.concat([worst, rows.select(worst.columns)])
        numbers = self._numbers(both, keys)
        place_of = _inverse(self._plan.in_order(both))
        worst_of = np.full(keys.height, both.height)
        worst_of[numbers[: worst.height]] = place_of[: worst.height]
        return np.flatnonzero(place_of[worst.height :] < worst_of[numbers[worst.height :]])

    def _worst_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the order columns of the worst row of each of some keys that has n rows.

        After a restore they are derived for the keys that come, and for all when that has cost as much.
        """
        if not self._knows_worst:
            kept = self._store.find(keys)
            self._num_derived += kept.height
            if self._num_derived <= self._store.num_rows:
                return self._worst_of_full(kept)
            self._worst.replace(self._worst_of_full(self._store.all_rows()))
            self._knows_worst = True
        return self._worst.find(keys)

    def _entered(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, _Changes]:
        """Add rows to those of their keys, one by one; returns the row of each change, and the changes."""
        plan = self._plan
        keys = rows.select(plan.keys).unique().with_row_index(_KEY)
        kept = self._alive(self._store.find(keys.select(plan.keys)))
        rows = pl.concat([kept, rows])
        numbers = self._numbers(rows, keys)
        in_order = plan.in_order(rows)
        tops: list[list[int]] = [[] for _ in range(keys.height)]
        is_kept = in_order < kept.height
        for place, number in zip(np.flatnonzero(is_kept).tolist(), numbers[in_order[is_kept]].tolist(), strict=True):
            tops[number].append(place)
        changes = _Changes()
        enter = changes.enter_ranked if self._is_ranked else changes.enter
        changed: set[int] = set()
        places = _inverse(in_order)[kept.height :].tolist()
        for row, (place, number) in enumerate(zip(places, numbers[kept.height :].tolist(), strict=True)):
            top = tops[number]
            if len(top) < plan.n or place < top[-1]:
                enter(top, place, plan.n, row)
                changed.add(number)
        if changed:
            now_ms = self.context.clock.now_ms()
            in_tops = in_order[[place for number in changed for place in tops[number]]]
            entered = self._written(rows[in_tops], now_ms)
            self._store.replace(entered)
            self._log.add(STATE_NAME, entered)
            worst = [tops[number][-1] for number in changed if len(tops[number]) == plan.n]
            self._worst.replace(self._written(rows[in_order[worst]], now_ms).select(self._order_columns))
        return rows[in_order[changes.places]], changes

    def _numbers(self, rows: pl.DataFrame, keys: pl.DataFrame) -> Numbers:
        """Return the number of each row's key."""
        names = self._plan.keys
        numbered = joined(rows.select(names), keys, names, "left", in_order=True)
        numbers: Numbers = numbered.get_column(_KEY).to_numpy().astype(np.int64)
        return numbers


def _inverse(in_order: Numbers) -> Numbers:
    """Return the place of each row, given the rows in their order."""
    places = np.empty(len(in_order), dtype=np.int64)
    places[in_order] = np.arange(len(in_order))
    return places


@dataclass(frozen=True)
class TopNOperatorFactory:
    """Top-N.

    Args:
        spec: checked by `top_n_spec`.
        ttl_ms: a key is forgotten so long after its last write, in processing time; None = never.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    makes_changelog: ClassVar[bool] = True
    spec: TopNSpec
    ttl_ms: int | None = None

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.plan().output_type

    @property
    def declared_states(self) -> DeclaredStates:
        return DeclaredStates((columnar_state(STATE_NAME, _state_type(self.spec.plan(), self.ttl_ms)),))

    @property
    def state_content(self) -> str:
        """Return the order of the rows in its state."""
        return self.spec.plan().state_content

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the same with the expressions."""
        return self.spec.plan().state_parts

    def create(self) -> TopNOperator:
        return TopNOperator(self.spec, self.ttl_ms)
