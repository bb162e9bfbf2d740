"""RowBuffer: gathers the rows of many batches and turns them into partials by pane.

One aggregation of 64 K rows costs a third of eight of 8 K: the buffer is emptied when it is full, when a window fires
and before a snapshot. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from runtime.operators.columnar.panes import Panes, Times
from runtime.operators.columnar.segments import PANE
from runtime.operators.columnar.window_plan import WindowPlan

MAX_ROWS = 1 << 16
"""Rows that wait. Fewer, and the fixed cost of an aggregation shows; more only takes memory and delays a checkpoint."""
_MAX_SINGLE_PANES = 16
"""Panes that are aggregated one by one, which is half the cost a row of aggregating by pane and key, but has a fixed
cost for each."""


class RowBuffer:
    """Rows on their way into panes.

    Args:
        plan: what is aggregated.
        panes: of the windows.
        holds_partials: whether "rows" are partials that were made before an exchange.
    """

    def __init__(self, plan: WindowPlan, panes: Panes, holds_partials: bool = False) -> None:
        self._plan = plan
        self._panes = panes
        self._holds_partials = holds_partials
        self._frames: list[pl.DataFrame] = []
        self._times: list[Times] = []
        self.num_rows = 0
        #: rows that have come so far
        self.sequence = 0

    @property
    def is_full(self) -> bool:
        return self.num_rows >= MAX_ROWS

    def add(self, rows: pl.DataFrame, times: Times) -> None:
        """Take rows in.

        Args:
            rows: have the plan's input columns, or those of partials.
            times: of rows, or of the partials' panes; shape (rows.height,).
        """
        self._frames.append(rows)
        self._times.append(times)
        self.num_rows += rows.height

    def take(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Empty the buffer: the partials of each pane, with its start."""
        if not self.num_rows:
            return
        frame = self._frames[0] if len(self._frames) == 1 else pl.concat(self._frames)
        times = self._times[0] if len(self._times) == 1 else np.concatenate(self._times)
        self._frames, self._times, self.num_rows = [], [], 0
        if not self._holds_partials:
            frame = self._plan.rows(frame, self.sequence)
            self.sequence += frame.height
        starts = self._panes.starts(times)
        lowest, highest = int(starts.min()), int(starts.max())
        if lowest == highest:
            yield lowest, self._aggregated(frame)
            return
        if (starts[1:] < starts[:-1]).any():
            places = (starts - lowest) // self._panes.width_ms
            # small numbers are sorted by radix
            order = np.argsort(places.astype(np.uint16) if places.max() < 1 << 16 else places, kind="stable")
            frame, starts = frame[order], starts[order]
        yield from self._by_pane(frame, starts)

    def _by_pane(self, frame: pl.DataFrame, starts: Times) -> Iterator[tuple[int, pl.DataFrame]]:
        """Aggregate rows that are in the order of their panes."""
        found, bounds = _runs(starts)
        if len(found) <= _MAX_SINGLE_PANES:
            for start, low, high in zip(found, bounds, bounds[1:], strict=False):
                yield start, self._aggregated(frame.slice(low, high - low))
            return
        by_pane = self._aggregated(frame.with_columns(pl.Series(PANE, starts)), [PANE]).sort(PANE)
        found, bounds = _runs(by_pane.drop_in_place(PANE).to_numpy())
        for start, low, high in zip(found, bounds, bounds[1:], strict=False):
            yield start, by_pane.slice(low, high - low)

    def _aggregated(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        aggregate = self._plan.merged if self._holds_partials else self._plan.aggregated
        return aggregate(rows, within)


def _runs(values: Times) -> tuple[list[int], list[int]]:
    """The different values of an ascending array, and where each begins, with the array's length behind."""
    begins = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    return values[begins].tolist(), [*begins.tolist(), len(values)]
