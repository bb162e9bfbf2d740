"""FrameCollector: collects the frames that an operator emits for one batch, with marks between them, and forwards them.

The counterpart of `runtime.operators.collector`, which collects values. Used by the task's thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import DEFAULT_BATCH_ROWS, Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.columnar.frames import batch_of
from runtime.operators.output import Output
from runtime.state.timer_slice import ENDLESS, TimerSlice


class FrameCollector:
    """Collects the main output.

    Args:
        output: of the operator.
        type_info: of its records.
    """

    def __init__(self, output: Output, type_info: TypeInformation) -> None:
        self._output = output
        self._type_info = type_info
        self._frames: list[pl.DataFrame] = []
        self._times: list[npt.NDArray[np.int64]] = []
        self._marks: list[Mark] = []
        self._rows = 0
        #: rows of which the first ones have been forwarded
        self._left: RecordBatch | None = None
        self._left_from = 0

    def add(self, frame: pl.DataFrame, times: int | npt.NDArray[np.int64]) -> None:
        """Emit rows; `times` are their event times, or one for all."""
        if frame.height:
            self._frames.append(frame)
            self._times.append(np.full(frame.height, times, dtype=np.int64) if isinstance(times, int) else times)
            self._rows += frame.height

    def mark(self, watermark: int) -> None:
        """Raise the watermark here, after everything emitted so far."""
        if self._marks and self._marks[-1].offset == self._rows:
            self._marks.pop()
        self._marks.append(Mark(self._rows, watermark))

    @property
    def num_rows(self) -> int:
        """Return the number of collected rows."""
        return self._rows

    def flush(self, timer_slice: TimerSlice = ENDLESS) -> bool:
        """Forward everything collected, in batches of the usual size; marks without rows become a plain watermark.

        Returns:
            False if the slice was over before the last batch: the rest goes on before anything that comes after it.
        """
        step = min(DEFAULT_BATCH_ROWS, timer_slice.max_timers)
        if not self._forward(timer_slice, step):
            return False
        frames, times, marks, rows = self._frames, self._times, self._marks, self._rows
        self._frames, self._times, self._marks, self._rows = [], [], [], 0
        if rows:
            self._left = batch_of(pl.concat(frames), self._type_info, np.concatenate(times), marks)
            return self._forward(timer_slice, step)
        if marks:
            self._output.emit_watermark(Watermark(marks[-1].watermark))
        return True

    def left(self) -> list[RecordBatch]:
        """Return the rows that have not been forwarded, in order."""
        batches = [] if self._left is None else [self._left.slice(self._left_from, self._left.num_rows)]
        if self._rows:
            times = np.concatenate(self._times)
            batches.append(batch_of(pl.concat(self._frames), self._type_info, times, self._marks))
        return batches

    def put_back(self, batch: RecordBatch) -> None:
        """Take back rows that a slice had left; before anything is collected."""
        self._left, self._left_from = batch, 0

    def _forward(self, timer_slice: TimerSlice, step: int) -> bool:
        while self._left is not None:
            start, rows = self._left_from, self._left.num_rows
            stop = min(start + step, rows)
            if not timer_slice.goes_on(stop - start):
                return False
            batch = self._left.slice(start, stop)
            self._left, self._left_from = (None, 0) if stop == rows else (self._left, stop)
            self._output.collect(batch)
        return True
