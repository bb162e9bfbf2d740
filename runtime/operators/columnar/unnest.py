"""unnest: makes a row for each item of a list column, as SQL's CROSS JOIN UNNEST. No state; task's thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from runtime.common.typeinfo import RowTypeInfo, TypeInformation, _SequenceTypeInfo
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.graph.changelog import ChangelogInput
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.frames import FrameReader, batch_of, fields_of, row_kinds, with_kinds
from runtime.operators.operator import OneInputOperator
from runtime.state.state_meta import NO_STATES, DeclaredStates


class UnnestOperator(OneInputOperator):
    """Emits items in order, with event time and row kind of their row; rows with empty or null lists emit nothing."""

    def __init__(self, input_type: TypeInformation, column: str, alias: str, output_type: RowTypeInfo) -> None:
        self._reader = FrameReader(input_type)
        self._column = column
        self._alias = alias
        self._output_type = output_type

    def process_batch(self, batch: RecordBatch) -> None:
        frame = self._reader.read(batch)
        counts = frame.get_column(self._column).list.len().fill_null(0).to_numpy().astype(np.int64)
        ends = np.concatenate(([0], np.cumsum(counts)))
        # of several marks at one offset only the last one is kept: nothing lies between them
        moved = {int(ends[offset]): watermark for offset, watermark in batch.marks}
        marks = [Mark(offset, watermark) for offset, watermark in moved.items()]
        if not ends[-1]:
            if marks:
                self.output.emit_watermark(Watermark(marks[-1].watermark))
            return
        items = frame.filter(pl.Series(counts > 0)).explode(self._column).rename({self._column: self._alias})
        rows = np.repeat(np.arange(batch.num_rows), counts)
        times = batch.timestamps_array()
        made = batch_of(items, self._output_type, None if times is None else times[rows], marks)
        kinds = row_kinds(batch)
        self.output.collect(made if kinds is None else with_kinds(made, [kinds[row] for row in rows.tolist()]))


@dataclass(frozen=True)
class UnnestOperatorFactory:
    """Unnest.

    Args:
        input_type: of the records.
        column: of a list type.
        alias: name of the column of items, which replaces the list's column.

    Raises:
        ColumnExpressionError: there is no such column, it holds no lists, or the name is taken.
        TypeError: the records have no columns.
    """

    changelog_input: ClassVar[ChangelogInput] = ChangelogInput.KEEPS
    declared_states: ClassVar[DeclaredStates] = NO_STATES
    input_type: TypeInformation
    column: str
    alias: str

    def __post_init__(self) -> None:
        fields = fields_of(FrameReader(self.input_type).type_info)
        if not isinstance(fields.get(self.column), _SequenceTypeInfo):
            raise ColumnExpressionError(self.column, f"unnest() needs a column of lists; the columns are {fields}")
        if self.alias != self.column and self.alias in fields:
            raise ColumnExpressionError(self.alias, "there is a column of this name already")

    @property
    def output_type(self) -> RowTypeInfo:
        fields = fields_of(self.input_type)
        listed = fields[self.column]
        assert isinstance(listed, _SequenceTypeInfo)
        types = [listed.element_type if name == self.column else field for name, field in fields.items()]
        return RowTypeInfo(types, [self.alias if name == self.column else name for name in fields])

    def create(self) -> UnnestOperator:
        return UnnestOperator(self.input_type, self.column, self.alias, self.output_type)
