"""LateRecords: counts the records that an operator drops as late, and hands some of them to whoever keeps samples.

Nothing is done, and nothing is asked, while no record is late. Used by the task's thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import RecordBatch
from runtime.operators.operator import OperatorContext


class LateRecords:
    """The records that one operator drops as late.

    Args:
        context: of the operator.
    """

    def __init__(self, context: OperatorContext) -> None:
        self._counter = context.metrics.counter("numLateRecordsDropped")
        self._sampler = context.late_sampler

    def drop(self, value: Any, type_info: TypeInformation | None, timestamp: int, watermark: int) -> None:
        """Count a record, and show it to the sampler.

        Args:
            value: the record.
            type_info: its type, which may name its fields.
            timestamp: its event time, ms.
            watermark: the one that has passed its time.
        """
        self._counter.inc()
        if self._sampler is not None and self._sampler.dropped(1):
            self._sampler.take(value, type_info, timestamp, watermark)

    def drop_rows(
        self,
        batch: RecordBatch,
        late: npt.NDArray[np.bool_],
        times: npt.NDArray[np.int64],
        watermarks: npt.NDArray[np.int64] | int,
        num_records: int,
    ) -> None:
        """Count the late rows of a batch, and show the last of them to the sampler.

        Args:
            batch: the rows.
            late: shape (batch.num_rows,), at least one of them true.
            times: shape (batch.num_rows,), event times, ms.
            watermarks: shape (batch.num_rows,), at each row, or one for all.
            num_records: number of records, if each row stands for several.
        """
        self._counter.inc(num_records)
        if self._sampler is None or not self._sampler.dropped(num_records):
            return
        row = int(np.flatnonzero(late)[-1])
        watermark = watermarks if isinstance(watermarks, int) else int(watermarks[row])
        # one row alone: the columns of a batch are not made rows for this
        alone = batch.slice(row, row + 1)
        self._sampler.take(alone.values()[0], alone.type_info, int(times[row]), watermark)
