"""The watermark at each row of a batch, so that the effect of marks is computed for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.core.batch import Mark
from runtime.operators.columnar.panes import Times


def watermarks_at(watermark: int, marks: Sequence[Mark], num_rows: int) -> Times | int:
    """Return the watermark at each row: shape (num_rows,), or one for all.

    Args:
        watermark: before the batch.
        marks: of the batch, ascending.
        num_rows: of the batch.
    """
    if not marks:
        return watermark
    bounds = [0, *(offset for offset, _ in marks), num_rows]
    return np.repeat(np.array([watermark, *(mark.watermark for mark in marks)], dtype=np.int64), np.diff(bounds))


def moved_marks(marks: Sequence[Mark], rows: npt.NDArray[np.int64]) -> list[Mark]:
    """Return the marks with their offsets counted in `rows` (ascending) only."""
    offsets = np.searchsorted(rows, [mark.offset for mark in marks]).tolist()
    return [Mark(offset, mark.watermark) for offset, mark in zip(offsets, marks, strict=True)]
