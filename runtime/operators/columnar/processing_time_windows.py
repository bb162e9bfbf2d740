"""Window aggregates by column over windows of processing time: rows belong to the windows in which they arrive.

The clock stands for the watermark: rows get its time, and a timer at the end of the next window fires what is over. No
row is late. Watermarks of the input are passed on as they come; results carry the last ms of their window, as Flink's
do. Windows that are open when the input ends are dropped, as in Flink; in a batch they fire then, and not before, since
all of it is one moment. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from polars.exceptions import PolarsError

from runtime.common.execution_kind import ExecutionKind
from runtime.core.batch import RecordBatch
from runtime.core.elements import MAX_WATERMARK, Watermark
from runtime.operators.columnar.input_checks import check_inserts
from runtime.operators.columnar.panes import NEVER
from runtime.operators.columnar.window_aggregate import WindowAggregateOperator, WindowAggregateSpec
from runtime.operators.errors import user_function_error
from runtime.operators.operator import OperatorContext
from runtime.operators.output import Output


class ProcessingTimeWindowOperator(WindowAggregateOperator):
    """Tumbling and sliding windows by the clock; `_watermark` is the ms before the time until which all have fired."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        super().__init__(spec)
        self._wakeup_ms = NEVER
        self._cancel_wakeup: Callable[[], None] = lambda: None
        #: whether the end of a batch has come, and its watermark has not been passed on
        self._is_ending = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._is_batch = ExecutionKind.of(context.configuration) is ExecutionKind.BATCH

    def open(self) -> None:
        super().open()
        self._schedule()

    def process_watermark(self, watermark: Watermark) -> None:
        if self._is_batch and watermark.timestamp == MAX_WATERMARK:
            self._is_ending = True
            self._target = NEVER - 1
            self._firing = self.firing(self._target)
            self.fire_on()
        else:
            super().process_watermark(watermark)

    def finish(self) -> None:
        self._cancel_wakeup()
        super().finish()

    def close(self) -> None:
        self._cancel_wakeup()
        super().close()

    def next_due_ms(self) -> int | None:
        return None if self._next_end == NEVER else self._next_end

    def process_batch(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            check_inserts(self.context, batch)
            try:
                self._take_in(batch)
            except PolarsError as error:
                raise user_function_error(self.context, error, during="aggregating columns") from error
        if batch.marks:
            self.output.emit_watermark(Watermark(batch.marks[-1].watermark))
        self._schedule()

    def _take_in(self, batch: RecordBatch) -> None:
        # a clock that was set back does not open again what has fired
        now_ms = max(self.context.processing_time.now_ms(), self._watermark + 1)
        times = np.full(batch.num_rows, now_ms, dtype=np.int64)
        if self._panes.last_ends(times[:1])[0] > now_ms:
            self._add(self._reader.read(batch, self._columns), times, None)

    def fire_on(self) -> None:
        super().fire_on()
        if self._is_ending and not self.is_firing():
            self._is_ending = False
            self.output.emit_watermark(Watermark(MAX_WATERMARK))
        self._schedule()

    def _rise(self, watermark: int) -> None:
        self._watermark = watermark

    def _schedule(self) -> None:
        if self._is_batch or self._next_end >= self._wakeup_ms or self.is_firing():
            return
        self._cancel_wakeup()
        self._wakeup_ms = self._next_end
        self._cancel_wakeup = self.context.processing_time.register_timer(self._next_end, self._wake_up)

    def _wake_up(self, timestamp_ms: int) -> None:
        self._wakeup_ms, self._cancel_wakeup = NEVER, lambda: None
        if not self.is_firing():
            self._target = max(timestamp_ms, self.context.processing_time.now_ms()) - 1
            self._firing = self.firing(self._target)
        self.fire_on()
