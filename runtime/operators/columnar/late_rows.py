"""Handles rows that are late for all their windows: side output, or count. Used by the task's thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.common.typeinfo import TypeInformation
from runtime.core.arrow_views import without_views
from runtime.core.batch import Mark, RecordBatch
from runtime.network.columnar import marks_between
from runtime.operators.late_records import LateRecords
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag


class LateRows:
    """The late rows of one operator.

    Args:
        context: of the operator.
        output: of the operator.
        tag: the side output; None = rows are dropped and counted.
        input_type: type of the rows.
    """

    def __init__(
        self, context: OperatorContext, output: Output, tag: OutputTag | None, input_type: TypeInformation
    ) -> None:
        self._late = LateRecords(context)
        self._output = output
        self._tag = tag
        self._input_type = input_type

    def put_aside(
        self,
        batch: RecordBatch,
        late: npt.NDArray[np.bool_],
        marks: Sequence[Mark],
        times: npt.NDArray[np.int64],
        watermarks: npt.NDArray[np.int64] | int,
        num_rows: int,
    ) -> None:
        """Emit or count the late rows of a batch; the side output also gets the marks between them.

        Args:
            late: shape (batch.num_rows,), at least one of them true.
            marks: of the batch, without those that the operator ignores.
            times: shape (batch.num_rows,), event times, ms.
            watermarks: shape (batch.num_rows,), at each row, or one for all.
            num_rows: number of rows, if each of these stands for several.
        """
        if self._tag is None:
            self._late.drop_rows(batch, late, times, watermarks, num_rows)
            return
        rows = np.flatnonzero(late)
        if batch.has_arrow:
            plain = without_views(batch.arrow())
            batch = RecordBatch.of_arrow(plain, self._input_type, batch.timestamps_array())
        put_aside = batch.take(rows).with_marks(marks_between(marks, rows))
        if self._tag.type_info is None:
            put_aside = put_aside.with_values(put_aside.values(), None)
        self._output.collect(put_aside, self._tag)
