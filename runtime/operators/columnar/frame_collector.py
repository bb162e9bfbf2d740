"""FrameCollector: collects the frames that an operator emits for one batch, with marks between them, and forwards them.

The counterpart of `runtime.operators.collector`, which collects values. Used by the task's thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import DEFAULT_BATCH_ROWS, Mark
from runtime.core.elements import Watermark
from runtime.operators.columnar.frames import batch_of
from runtime.operators.output import Output


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

    def flush(self) -> None:
        """Forward everything collected, in batches of the usual size; marks without rows become a plain watermark."""
        frames, times, marks, rows = self._frames, self._times, self._marks, self._rows
        self._frames, self._times, self._marks, self._rows = [], [], [], 0
        if not rows:
            if marks:
                self._output.emit_watermark(Watermark(marks[-1].watermark))
            return
        batch = batch_of(pl.concat(frames), self._type_info, np.concatenate(times), marks)
        for start in range(0, rows, DEFAULT_BATCH_ROWS):
            self._output.collect(batch.slice(start, min(start + DEFAULT_BATCH_ROWS, rows)))
