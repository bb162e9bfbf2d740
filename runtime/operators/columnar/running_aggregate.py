"""Running aggregates of a keyed stream, as a changelog: each row changes its key's result.

The first result of a key is an INSERT; later ones retract the previous one (UPDATE_BEFORE) and emit the new one
(UPDATE_AFTER); a row that changes nothing emits nothing. All running values of a batch are computed at once; the state
is read and written once for each different key. Used by the task's thread. Source: Flink SQL, GroupAggFunction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row, RowKind, rows_of
from runtime.core.arrow import to_arrow
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.operators.columnar.aggregates import ROWS, AggregatePlan, AggregateSpec
from runtime.operators.columnar.frames import FrameReader, fields_of, keys_of, tuples_of
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.partials import Merge, Partial
from runtime.operators.columnar.running_whole import KEY, running_wholes
from runtime.operators.columnar.time_to_live import with_ttl
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator
from runtime.operators.user_operator import KeyedStateOperator
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.state_meta import DeclaredStates, StatePart, keyed_state

_BASE = "__base"


def running(partial: Partial, dtype: pl.DataType) -> pl.Expr:
    """Return the value of a partial after each row of its key.

    Args:
        dtype: of the partial. Its value before the batch, null for a new key, is in the column prefixed with `_BASE`.
    """
    base, column = pl.col(_BASE + partial.name), pl.col(partial.argument)
    match partial.merge:
        case Merge.ROWS:
            steps = pl.lit(1, pl.Int64)
        case Merge.COUNT:
            steps = column.is_not_null().cast(pl.Int64)
        case Merge.SUM:
            steps = column.cast(dtype).fill_null(0)
        case Merge.FIRST:
            is_first_value = column.is_not_null() & (column.is_not_null().cum_sum() == 1)
            return pl.coalesce(base, pl.when(is_first_value).then(column).forward_fill().over(KEY)).alias(partial.name)
        case Merge.LAST:
            return pl.coalesce(column.forward_fill().over(KEY), base).alias(partial.name)
        case Merge.MIN:
            lowest = column.cum_min().forward_fill().over(KEY)
            return pl.min_horizontal(base, lowest).alias(partial.name)
        case _:
            highest = column.cum_max().forward_fill().over(KEY)
            return pl.max_horizontal(base, highest).alias(partial.name)
    # added to the first row, not to the batch's sum: results of floats must not depend on where batches end
    is_first = pl.int_range(pl.len()).over(KEY) == 0
    stepped = pl.when(is_first).then(base.fill_null(0) + steps).otherwise(steps)
    return stepped.cum_sum().over(KEY).cast(dtype).alias(partial.name)


def kept_types(plan: AggregatePlan) -> dict[str, TypeInformation]:
    """Return what is kept of a key, by name: the partials, and last what stands for whole results."""
    known = fields_of(plan.partial_type)
    kept_whole = {whole.name: whole for whole in running_wholes(plan)}
    types = {partial.name: known[partial.name] for partial in plan.partials if partial.name not in kept_whole}
    return types | {name: whole.state_type(known[name]) for name, whole in kept_whole.items()}


def _partials(state_type: TypeInformation, ttl_ms: int | None) -> ValueStateDescriptor:
    return with_ttl(ValueStateDescriptor("partials", state_type), ttl_ms)


class RunningAggregateOperator(KeyedStateOperator, OneInputOperator):
    """Aggregates of all rows of a key so far."""

    calls_by_record = False
    costs_by_slice = True

    def __init__(self, spec: AggregateSpec, ttl_ms: int | None) -> None:
        self._plan = plan = spec.plan()
        self._ttl_ms = ttl_ms
        super().__init__([], [], plan.output_type)
        self._reader = FrameReader(spec.input_type)
        self._keys = ColumnKeys(plan.keys, spec.input_type)
        self._wholes = running_wholes(plan)
        kept_whole = {whole.name: whole for whole in self._wholes}
        self._scalars = [partial for partial in plan.partials if partial.name not in kept_whole]
        types = kept_types(plan)
        self._partial_names, self._partial_types = list(types), list(types.values())
        self._state_type = Types.TUPLE(self._partial_types)
        bases = FrameReader(Types.ROW_NAMED([_BASE + name for name in types], self._partial_types))
        self._base_schema = bases.schema
        schema = plan.empty_partials.schema
        self._running = [running(partial, schema[partial.name]) for partial in self._scalars]
        self._names = plan.output_type.field_names

    def open(self) -> None:
        super().open()
        self._state = self.backend.get_state(_partials(self._state_type, self._ttl_ms), fitted=True)

    def process_watermark(self, watermark: Watermark) -> None:
        self.output.emit_watermark(watermark)

    def process_batch(self, batch: RecordBatch) -> None:
        check_inserts(self.context, batch)
        if not batch.num_rows:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        try:
            before, after = self._changes(self._reader.read(batch, self._plan.input_columns))
        except PolarsError as error:
            raise user_function_error(self.context, error, during="aggregating columns") from error
        values: list[Row] = []
        ends = [0]
        for old, new in zip(before, after, strict=True):
            if old is None:
                values.append(new)
            elif old._values != new._values:
                old._row_kind, new._row_kind = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
                values += (old, new)
            ends.append(len(values))
        moved = {ends[offset]: watermark for offset, watermark in batch.marks}
        marks = [Mark(offset, watermark) for offset, watermark in moved.items()]
        if not values:
            if marks:
                self.output.emit_watermark(Watermark(marks[-1].watermark))
            return
        times = batch.timestamps_array()
        timestamps = None if times is None else np.repeat(times, np.diff(ends)).tolist()
        self.output.collect(RecordBatch.of_values(values, timestamps, marks, self.output_type))

    def _changes(self, frame: pl.DataFrame) -> tuple[list[Row | None], list[Row]]:
        """Return the result before each row, None for the first of a key, and after it; no row is shared."""
        keys = self._plan.keys
        rows = self._plan.rows(frame, 0)
        distinct = rows.select(keys).unique(maintain_order=True)
        python_keys = keys_of(distinct, self._keys.types)
        stored = pl.DataFrame(to_arrow([self._read(key) for key in python_keys], self._state_type))
        stored = stored.rename(dict(zip(stored.columns, self._base_schema, strict=True))).cast(self._base_schema)  # type: ignore[arg-type]
        base = pl.concat([distinct, stored], how="horizontal").with_row_index(KEY)
        scalars = base.select(KEY, *keys, *(_BASE + partial.name for partial in self._scalars))
        rows = joined(rows, scalars, keys, "left", in_order=True)
        after = rows.with_columns(self._running)
        # the result before a row is the one after the last row of its key, or that of the state
        restored = base.rename({_BASE + name: name for name in self._partial_names})
        newest = [after.unique(KEY, keep="last").sort(KEY).select([partial.name for partial in self._scalars])]
        for whole in self._wholes:
            states = restored.get_column(whole.name)
            values, states_after = whole.follow(rows, states)
            after = after.with_columns(values)
            restored = restored.with_columns(whole.of_states(states))
            newest.append(states_after.to_frame())
        saved = pl.concat(newest, how="horizontal").select(self._partial_names)
        for key, partials in zip(python_keys, tuples_of(saved, self._partial_types), strict=True):
            self.backend.set_current_key(key)
            self._state.update(partials)
        results, old_results = self._rows(after), self._rows(restored)
        is_known = base.get_column(_BASE + ROWS).is_not_null().to_list()
        latest: list[Row | None] = [old if known else None for old, known in zip(old_results, is_known, strict=True)]
        before: list[Row | None] = []
        for number, result in zip(after.get_column(KEY).to_list(), results, strict=True):
            before.append(latest[number])
            latest[number] = rows_of([result._values], result._fields)[0]
        return before, results

    def _rows(self, partials: pl.DataFrame) -> list[Row]:
        assert isinstance(self.output_type, RowTypeInfo)
        return rows_of(tuples_of(self._plan.results(partials), self.output_type.field_types), self._names)

    def _read(self, key: Any) -> tuple[Any, ...]:
        self.backend.set_current_key(key)
        partials: tuple[Any, ...] | None = self._state.value()
        return (None,) * len(self._partial_names) if partials is None else partials


@dataclass(frozen=True)
class RunningAggregateOperatorFactory:
    """Running aggregates.

    Args:
        spec: without context columns.
        ttl_ms: a key is forgotten so long after its last write, in processing time; None = never.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.REFUSES
    makes_changelog: ClassVar[bool] = True
    spec: AggregateSpec
    ttl_ms: int | None = None

    @property
    def output_type(self) -> RowTypeInfo:
        return self.spec.plan().output_type

    @property
    def declared_states(self) -> DeclaredStates:
        state_type = Types.TUPLE(list(kept_types(self.spec.plan()).values()))
        return DeclaredStates((keyed_state(_partials(state_type, self.ttl_ms)),))

    @property
    def state_content(self) -> str:
        """Return what the partials in its state are of."""
        return self.spec.plan().state_content

    @property
    def state_parts(self) -> tuple[StatePart, ...]:
        """Return the same with the expressions."""
        return self.spec.plan().state_parts

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read."""
        return frozenset(self.spec.plan().input_columns)

    def create(self) -> RunningAggregateOperator:
        return RunningAggregateOperator(self.spec, self.ttl_ms)
