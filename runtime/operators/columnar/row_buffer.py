"""RowBuffer: collects the rows of many batches and turns them into partials by pane.

One aggregation of 64 K rows costs a third of eight aggregations of 8 K. The buffer is emptied when it is full, when a
window fires and before a snapshot. Used by the task's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from runtime.operators.columnar.panes import Panes, Times
from runtime.operators.columnar.segments import PANE, runs_of, with_panes
from runtime.operators.columnar.window_plan import WindowPlan

MAX_ROWS = 1 << 18
"""Maximum number of waiting rows. With fewer, the rows between two watermarks yield more partials of a key; more only
take memory and delay a checkpoint.
"""
MAX_BYTES = 32 << 20
"""Maximum bytes of waiting rows: limits long strings and lists."""
_MAX_SINGLE_PANES = 16
"""Maximum number of panes that are aggregated one by one, which costs half as much per row as aggregating by pane and
key, but has a fixed cost for each pane.
"""


class RowBuffer:
    """Rows on their way into panes.

    Args:
        plan: what is aggregated.
        panes: of the windows.
        holds_partials: whether "rows" are partials from before an exchange.
    """

    def __init__(self, plan: WindowPlan, panes: Panes, holds_partials: bool = False) -> None:
        self._plan = plan
        self._panes = panes
        self._holds_partials = holds_partials
        self._frames: list[pl.DataFrame] = []
        self._times: list[Times] = []
        self._num_bytes = 0
        self.num_rows = 0
        #: rows that have arrived so far
        self.sequence = 0

    @property
    def is_full(self) -> bool:
        return self.num_rows >= MAX_ROWS or self._num_bytes >= MAX_BYTES

    def add(self, rows: pl.DataFrame, times: Times) -> None:
        """Take rows in.

        Args:
            rows: have the plan's input columns, or those of partials.
            times: of rows, or of the partials' panes; shape (rows.height,).
        """
        self._frames.append(rows)
        self._times.append(times)
        self.num_rows += rows.height
        self._num_bytes += int(rows.estimated_size())

    def take(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Empty the buffer and yield the partials of each pane, with its start, one for each key."""
        if not self.num_rows:
            return iter(())
        frame, starts = self._taken()
        together = self._together(frame, starts)
        return self._by_pane(frame, starts) if together is None else _parted(together)

    def take_together(self) -> list[pl.DataFrame]:
        """Empty the buffer and return all panes' partials, one for each key and pane; the pane's start is in PANE."""
        if not self.num_rows:
            return []
        frame, starts = self._taken()
        together = self._together(frame, starts)
        if together is not None:
            return [together]
        return [with_panes(partials, np.full(partials.height, at)) for at, partials in self._by_pane(frame, starts)]

    def _taken(self) -> tuple[pl.DataFrame, Times]:
        """Return the content of the buffer, ready to be aggregated, and the starts of the panes."""
        frame = self._frames[0] if len(self._frames) == 1 else pl.concat(self._frames)
        times = self._times[0] if len(self._times) == 1 else np.concatenate(self._times)
        self._frames, self._times, self.num_rows, self._num_bytes = [], [], 0, 0
        if not self._holds_partials:
            frame = self._plan.rows(frame, self.sequence)
            self.sequence += frame.height
        return frame, self._panes.starts(times)

    def _together(self, frame: pl.DataFrame, starts: Times) -> pl.DataFrame | None:
        """Return the partials of all panes, ordered by pane, PANE first; None if they cannot be computed in arrays."""
        arrays = self._plan.arrays
        if arrays is None:
            return None
        # panes are numbered without gaps, so that they lie close together
        width, offset = self._panes.width_ms, self._panes.offset_ms
        frame = with_panes(frame, (starts - offset) // width)
        made = arrays.of_partials(frame, [PANE]) if self._holds_partials else arrays.of_rows(frame, [PANE])
        if made is None:
            return None
        return with_panes(made, made.drop_in_place(PANE).to_numpy() * width + offset)

    def _by_pane(self, frame: pl.DataFrame, starts: Times) -> Iterator[tuple[int, pl.DataFrame]]:
        lowest, highest = int(starts.min()), int(starts.max())
        if lowest == highest:
            yield lowest, self._aggregated(frame)
            return
        if (starts[1:] < starts[:-1]).any():
            places = (starts - lowest) // self._panes.width_ms
            # small numbers are sorted by radix
            order = np.argsort(places.astype(np.uint16) if places.max() < 1 << 16 else places, kind="stable")
            frame, starts = frame[order], starts[order]
        found, bounds = runs_of(starts)
        if len(found) <= _MAX_SINGLE_PANES:
            for start, low, high in zip(found, bounds, bounds[1:], strict=False):
                yield start, self._aggregated(frame.slice(low, high - low))
        else:
            yield from _parted(self._aggregated(with_panes(frame, starts), [PANE]).sort(PANE))

    def _aggregated(self, rows: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
        aggregate = self._plan.merged if self._holds_partials else self._plan.aggregated
        return aggregate(rows, within)


def _parted(by_pane: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the rows of each pane, which are in the order of PANE, without it."""
    found, bounds = runs_of(by_pane.drop_in_place(PANE).to_numpy())
    for start, low, high in zip(found, bounds, bounds[1:], strict=False):
        yield start, by_pane.slice(low, high - low)
