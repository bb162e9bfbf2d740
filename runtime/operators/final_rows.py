"""FinalRowsOutput: lets only the last state of a changelog out of an operator, as inserts; for batches.

Rows that take others back annul them while the batch is being processed, so that only those that stand at the end are
emitted, in the order in which they came, before the MAX_WATERMARK. Used by the task's thread.
Source: Flink SQL in batch mode, whose aggregates emit inserts only.
"""

from __future__ import annotations

import pickle
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.common.types import Row, RowKind
from runtime.core.batch import DEFAULT_BATCH_ROWS, NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MAX_WATERMARK, LatencyMarker, Watermark, WatermarkStatus
from runtime.operators.output import Output
from runtime.operators.output_tag import OutputTag

_TAKES_BACK = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class FinalRowsOutput(Output):
    """Stands between an operator that makes a changelog and its own output.

    Args:
        output: where what stands at the end goes, and side outputs at once.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._type_info: TypeInformation | None = None
        #: the rows that stand: by content, how often, the latest with its event time
        self._standing: dict[bytes, tuple[int, Row, int]] = {}

    def collect(self, batch: RecordBatch, tag: OutputTag | None = None) -> None:
        if tag is not None:
            self._output.collect(batch, tag)
            return
        self._type_info = batch.type_info
        timestamps = batch.timestamps() or [NO_TIMESTAMP] * batch.num_rows
        for row, timestamp in zip(batch.values(), timestamps, strict=True):
            self._take(row, timestamp)
        if batch.marks:
            self.emit_watermark(Watermark(batch.marks[-1].watermark))

    def emit_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp == MAX_WATERMARK:
            self._emit()
        self._output.emit_watermark(watermark)

    def emit_watermark_status(self, status: WatermarkStatus) -> None:
        self._output.emit_watermark_status(status)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        self._output.emit_latency_marker(marker)

    def _take(self, row: Row, timestamp: int) -> None:
        content = pickle.dumps(row._values)
        count, _, _ = self._standing.get(content, (0, row, timestamp))
        count += -1 if row.get_row_kind() in _TAKES_BACK else 1
        if count:
            self._standing[content] = (count, row, timestamp)
        else:
            self._standing.pop(content, None)

    def _emit(self) -> None:
        standing, self._standing = self._standing, {}
        values: list[Any] = []
        timestamps: list[int] = []
        for count, row, timestamp in standing.values():
            row.set_row_kind(RowKind.INSERT)
            values += [row] * count
            timestamps += [timestamp] * count
            if len(values) >= DEFAULT_BATCH_ROWS:
                self._output.collect(RecordBatch.of_values(values, timestamps, (), self._type_info))
                values, timestamps = [], []
        if values:
            self._output.collect(RecordBatch.of_values(values, timestamps, (), self._type_info))
