"""Regular join by column: pairs of all rows with equal keys, whenever they come.

Each row is joined with all rows of the other side that came before it, and kept for as long as the job lives. No row is
late, results have no event time, and null keys are equal to each other. All rows of a batch are joined at once. Used by
the task's thread.
Source: Flink, "Regular Joins" of SQL, and StreamingJoinOperator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo
from runtime.core.batch import RecordBatch
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.core.ids import CheckpointId
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.appended_rows import AppendedRows
from runtime.operators.columnar.frames import FrameReader, batch_of
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.key_joins import numbered, pairs_in_parts
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
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.two_input import TwoInputBatchOperator
from runtime.state.segments.snapshot import SegmentsSnapshot, StateRules
from runtime.state.snapshot import CANONICAL_SNAPSHOT, OperatorSnapshot, SnapshotRequest
from runtime.state.state_meta import DeclaredStates, StateMeta

STATE_NAMES: Final = ("left-rows", "right-rows")
_HEADER: Final = Header(0, 0)
"""Event time and order of arrival do not matter."""


def _kept_type(sides: JoinSides, side: int) -> RowTypeInfo:
    """Return the type of a side's rows, under the names of the results."""
    return RowTypeInfo(list(sides.types[side].field_types), sides.output_names(side))


class RegularJoinOperator(TwoInputBatchOperator):
    """Input 0 is the left side, input 1 the right one.

    Args:
        sides: both sides of the join.
    """

    costs_by_slice = True

    def __init__(self, sides: JoinSides) -> None:
        super().__init__()
        self._sides = sides
        self._readers = [FrameReader(type_info) for type_info in sides.types]
        self._renamed = [sides.renamed(side) for side in (0, 1)]
        self._key_names = [sides.key_names(side) for side in (0, 1)]
        self._output_names = list(sides.output_type.field_names)
        self._schemas = [
            [(new, self._readers[side].schema[old]) for old, new in self._renamed[side].items()] for side in (0, 1)
        ]
        self._rows = [AppendedRows(pl.DataFrame(schema=self._schemas[side]), self._key_names[side]) for side in (0, 1)]

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._kept_types = [_kept_type(self._sides, side) for side in (0, 1)]
        self._keys = [ColumnKeys(self._key_names[side], self._kept_types[side]) for side in (0, 1)]
        states = [
            LoggedState(columnar_state(name, self._kept_types[side]), self._keys[side], StateRules())
            for side, name in enumerate(STATE_NAMES)
        ]
        self._log = SegmentLog(states, context.key_groups, context.max_parallelism)

    # --- state --------------------------------------------------------------------------------------------------------

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        if snapshot is None or snapshot.keyed is None:
            return
        if isinstance(snapshot.keyed, SegmentsSnapshot):
            self._restore_segments(snapshot.keyed)
            return
        for side, name in enumerate(STATE_NAMES):
            for _, rows in restored_frames(
                name, self._kept_types[side], self._schemas[side], snapshot.keyed, STATE_NAMES
            ):
                self._rows[side].add(rows)

    def _restore_segments(self, keyed: SegmentsSnapshot) -> None:
        """Take the oldest segment of each side as it is, and what has come since."""
        for side, name in enumerate(STATE_NAMES):
            check_readable(name, self._kept_types[side], keyed, STATE_NAMES)
            frames, schema = keyed.frames(name), self._schemas[side]
            if frames:
                kept = restored_rows(frames[0], self._keys[side], schema, self.context.max_parallelism)
                self._rows[side].restore(kept)
                for frame in frames[1:]:
                    self._rows[side].add(cast_to(frame, schema))
        self._log.restore(keyed, self._num_rows)

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._log.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self._log.abort(checkpoint_id)

    def snapshot_state(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> OperatorSnapshot:
        if request.kind is not SnapshotKind.CANONICAL:
            if self._num_rows:
                content = Content(_HEADER, self._num_rows, self._all_rows, {}, {})
                return OperatorSnapshot.of(self._log.snapshot(request, content))
            self._log.forget()
        max_parallelism = self.context.max_parallelism
        saved = [
            keyed_snapshot(name, rows, self._kept_types[side], self._keys[side], max_parallelism, _HEADER)
            for side, (name, rows) in enumerate(self._all_rows().items())
        ]
        return OperatorSnapshot(together(saved))

    @property
    def _num_rows(self) -> int:
        return sum(rows.num_rows for rows in self._rows)

    def _all_rows(self) -> dict[str, pl.DataFrame]:
        return {name: rows.all_rows() for name, rows in zip(STATE_NAMES, self._rows, strict=True)}

    # --- input --------------------------------------------------------------------------------------------------------

    def process_batch(self, index: int, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        try:
            if batch.num_rows:
                self._process_rows(index, self._readers[index].read(batch).rename(self._renamed[index]))
        except PolarsError as error:
            raise user_function_error(self.context, error, during="joining columns") from error
        if batch.marks:
            risen = self.combined.on_watermark(index, batch.marks[-1].watermark)
            if risen is not None:
                self.advance_watermark(risen)

    def _process_rows(self, side: int, rows: pl.DataFrame) -> None:
        for pairs in self._pairs(side, rows):
            self.output.collect(batch_of(pairs, self._sides.output_type))
        self._rows[side].add(rows)
        if self._log.is_tracking:
            self._log.add(STATE_NAMES[side], rows)

    def _pairs(self, side: int, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Yield the pairs with rows of the other side, by row, each row's in the order in which the others came."""
        own, theirs = self._key_names[side], self._key_names[1 - side]
        keys = rows.select(own)
        others = self._rows[1 - side].find(keys)
        if not others.height:
            return
        numbers, other_numbers = numbered(keys, own, others, theirs)
        order = np.argsort(other_numbers, kind="stable")
        others, other_numbers = others[order], other_numbers[order]
        starts = np.searchsorted(other_numbers, numbers)
        stops = np.searchsorted(other_numbers, numbers, side="right")
        for causes, met in pairs_in_parts(starts, stops):
            yield pl.concat([rows[causes], others[met]], how="horizontal").select(self._output_names)

    def advance_watermark(self, watermark: int) -> None:
        self.output.emit_watermark(Watermark(watermark))

    def end_step(self) -> None:
        pass


@dataclass(frozen=True)
class RegularJoinOperatorFactory:
    """Regular join by column.

    Args:
        sides: both sides of the join.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    sides: JoinSides

    @property
    def output_type(self) -> RowTypeInfo:
        return self.sides.output_type

    @property
    def declared_states(self) -> DeclaredStates:
        return DeclaredStates(tuple(_states(self.sides)))

    @property
    def state_content(self) -> str:
        """Return what its rows wait for."""
        return "a regular join"

    def create(self) -> RegularJoinOperator:
        return RegularJoinOperator(self.sides)


def _states(sides: JoinSides) -> Iterator[StateMeta]:
    for side, name in enumerate(STATE_NAMES):
        yield columnar_state(name, _kept_type(sides, side))
