"""select, with_columns and where: SQL expressions on whole batches. No state.

Marks, event times and row kinds stay with their rows. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from polars.exceptions import PolarsError

from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.core.batch import Mark, RecordBatch
from runtime.core.column_condition import ColumnCondition
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.graph.column_use import Columns
from runtime.network.columnar import marks_between
from runtime.operators.columnar.comparisons import comparisons_of
from runtime.operators.columnar.expressions import Projection, checked_condition, columns_looked_at, parse
from runtime.operators.columnar.frames import FrameReader, batch_of, fields_of, has_views, row_kinds, with_kinds
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OneInputOperator
from runtime.state.state_meta import NO_STATES, DeclaredStates

_TIME = "__time"
"""The column of event times while rows are filtered; such names are reserved."""


class ProjectOperator(OneInputOperator):
    """Makes new columns of each row's columns."""

    def __init__(self, projection: Projection, output_type: RowTypeInfo) -> None:
        self._reader = FrameReader(projection.input_type)
        self._output_type = output_type
        self._names = [name for name, _ in projection.columns]
        self._texts = [text for _, text in projection.columns]
        sources = projection.passed_on
        #: columns of the input, in order, if the projection only picks and renames them: then no frame is needed
        self._picked = [sources[name] for name in self._names] if len(sources) == len(self._names) else None
        self._expressions = projection.expressions()
        #: none, if all are constants
        self._looks_at = columns_looked_at(self._expressions)

    def process_batch(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        kinds = row_kinds(batch)
        if self._picked is not None:
            arrow = batch.arrow().select(self._picked).rename_columns(self._names)
            made = RecordBatch.of_arrow(arrow, self._output_type, batch.timestamps_array(), batch.marks)
        else:
            try:
                frame = self._made(batch)
            except PolarsError as error:
                raise user_function_error(self.context, error, during=f"the columns {self._texts}") from error
            made = batch_of(frame, self._output_type, batch.timestamps_array(), batch.marks)
        self.output.collect(made if kinds is None else with_kinds(made, kinds))

    def _made(self, batch: RecordBatch) -> pl.DataFrame:
        if self._looks_at:
            return self._reader.read(batch, self._looks_at).select(self._expressions)
        # not select(): constants alone would collapse all rows into one
        return self._reader.read(batch).with_columns(self._expressions).select(self._names)


class WhereOperator(OneInputOperator):
    """Keeps the rows for which a condition is true; unknown (null) is not true."""

    def __init__(self, condition: str, type_info: TypeInformation) -> None:
        self._reader = FrameReader(type_info)
        self._type_info = type_info
        self._condition = condition
        self._keep = parse(condition).alias("keep")
        #: the only columns that frames contain
        self._looks_at = columns_looked_at([self._keep])
        #: the latest Arrow schema that was seen, and whether Arrow can pick rows of such columns
        self._seen: pa.Schema | None = None
        self._is_picked_by_arrow = True

    def process_batch(self, batch: RecordBatch) -> None:
        if batch.num_rows == 0:
            if batch.marks:
                self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
            return
        if self._looks_at and not batch.marks and not batch.has_values and not self._picks_by_arrow(batch):
            self._filter(batch)
            return
        keep = self._is_kept(batch)
        kept = int(keep.sum())
        if kept == batch.num_rows:
            self._pass_on(batch)
            return
        rows = keep.arg_true().to_numpy().astype(np.int64)
        marks = marks_between(batch.marks, rows)
        if not kept:
            if marks:
                self.output.emit_watermark(Watermark(marks[-1].watermark))
            return
        timestamps = batch.timestamps_array()
        made = self._picked(batch, keep, None if timestamps is None else timestamps[rows], marks)
        kinds = row_kinds(batch)
        self.output.collect(made if kinds is None else with_kinds(made, [kinds[row] for row in rows.tolist()]))

    def _filter(self, batch: RecordBatch) -> None:
        """Filter rows and their times in one query: its fixed cost is most of the cost of a condition."""
        frame = self._reader.read(batch)
        times = batch.timestamps_array()
        if times is not None:
            frame = frame.with_columns(pl.Series(_TIME, times))
        try:
            frame = frame.filter(self._keep)
        except PolarsError as error:
            raise self._failure(error) from error
        if frame.height == batch.num_rows:
            self._pass_on(batch)
        elif frame.height:
            times = None if times is None else frame.drop_in_place(_TIME).to_numpy()
            self.output.collect(batch_of(frame, self._type_info, times))

    def _pass_on(self, batch: RecordBatch) -> None:
        # keys belong to the exchange for which they were computed: they must not be passed on
        if batch.keys is not None:
            batch = batch.with_marks(batch.marks)
            batch.keys = None
        self.output.collect(batch)

    def _is_kept(self, batch: RecordBatch) -> pl.Series:
        """Return for each row whether the condition is true; neither false nor unknown counts."""
        try:
            if self._looks_at:
                return self._reader.read(batch, self._looks_at).select(self._keep).to_series().fill_null(False)
            # not select(): a constant would return one row
            return self._reader.read(batch).with_columns(self._keep).get_column("keep").fill_null(False)
        except PolarsError as error:
            raise self._failure(error) from error

    def _failure(self, error: PolarsError) -> Exception:
        return user_function_error(self.context, error, during=f"the condition {self._condition!r}")

    def _picked(
        self, batch: RecordBatch, keep: pl.Series, timestamps: npt.NDArray[np.int64] | None, marks: Sequence[Mark]
    ) -> RecordBatch:
        if self._picks_by_arrow(batch):
            # half the cost of filtering a frame, which would turn strings into views
            picked = batch.arrow().filter(keep.to_arrow())
            return RecordBatch.of_arrow(picked, self._type_info, timestamps, marks)
        return batch_of(self._reader.read(batch).filter(keep), self._type_info, timestamps, marks)

    def _picks_by_arrow(self, batch: RecordBatch) -> bool:
        schema = batch.arrow().schema
        if self._seen is None or not self._seen.equals(schema):
            self._seen, self._is_picked_by_arrow = schema, not has_views(schema)
        return self._is_picked_by_arrow


@dataclass(frozen=True)
class ProjectOperatorFactory:
    """Select and with_columns.

    Args:
        projection: the columns to make; see `expressions.selection` and `expressions.extension`.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    projection: Projection

    @property
    def output_type(self) -> RowTypeInfo:
        return self.projection.output_type

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read; what is computed is computed for every row, as it may fail."""
        passed_on = self.projection.passed_on
        read = [column for name, column in passed_on.items() if needed is None or name in needed]
        computed = (parse(text) for name, text in self.projection.columns if name not in passed_on)
        return frozenset([*read, *columns_looked_at(computed)])

    def columns_passed_on(self) -> Mapping[str, str]:
        """Return the columns that are passed on unchanged."""
        return self.projection.passed_on

    def create(self) -> ProjectOperator:
        return ProjectOperator(self.projection, self.output_type)


@dataclass(frozen=True)
class WhereOperatorFactory:
    """The `where` operator.

    Args:
        condition: an SQL expression.
        type_info: of the records, in and out.

    Raises:
        ColumnExpressionError: the expression is not a condition on such records.
        TypeError: such records have no columns.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    condition: str
    type_info: TypeInformation

    def __post_init__(self) -> None:
        checked_condition(self.type_info, self.condition)

    @property
    def output_type(self) -> TypeInformation:
        return self.type_info

    def columns_read(self, needed: Columns, input_index: int) -> Columns:
        """Return the columns that are read."""
        return None if needed is None else needed | frozenset(columns_looked_at([parse(self.condition)]))

    def columns_passed_on(self) -> None:
        """Return None: all columns are passed on."""

    def conditions(self) -> tuple[ColumnCondition, ...]:
        """Return the condition as comparisons that must all hold; () = it says more than that."""
        return comparisons_of(self.condition, fields_of(self.type_info))

    def create(self) -> WhereOperator:
        return WhereOperator(self.condition, self.type_info)
