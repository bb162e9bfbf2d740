"""Window aggregates by column that give results before their windows are over: at each multiple of an interval.

As a ContinuousEventTimeTrigger, or a ContinuousProcessingTimeTrigger in windows by the clock: when time reaches a
multiple of the interval, every open window gives a result for each key that has a row with an earlier time in it. The
result at the window's end comes in any case. One thing differs from the triggers: they look at the row of a key that
came first, and this at the earliest one, so a row that comes out of order may bring a result that they leave out. Panes
begin at multiples of the interval, too. Used by the task's thread. Source: Flink, ContinuousEventTimeTrigger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from runtime.operators.columnar.panes import NEVER, Panes, Times
from runtime.operators.columnar.processing_time_windows import ProcessingTimeWindowOperator
from runtime.operators.columnar.segments import PaneId
from runtime.operators.columnar.window_aggregate import WindowAggregateOperator, WindowAggregateSpec

MAX_PANES = 100_000
"""Of all windows that are open at a time, each counted on its own: above, looking for them takes seconds."""


def early_panes(panes: Panes, interval_ms: int) -> Panes:
    """Return the panes of the same windows, such that each multiple of the interval begins one.

    Raises:
        ValueError: they would be too many: size and interval have hardly a common divisor, or many windows overlap.
    """
    width_ms = math.gcd(panes.width_ms, panes.offset_ms, interval_ms)
    open_at_once = max(1, panes.size_ms // panes.step_ms)
    if panes.size_ms // width_ms * open_at_once > MAX_PANES:
        raise ValueError(
            f"windows of {panes.size_ms} ms, {open_at_once} open at a time, with early results each {interval_ms} ms "
            f"would be kept in pieces of {width_ms} ms, more than {MAX_PANES} in all: take an interval that divides "
            "the window, or windows that overlap less"
        )
    return replace(panes, width_ms=width_ms)


class EarlyWindowOperator(WindowAggregateOperator):
    """Windows of event time with early results."""

    def __init__(self, spec: WindowAggregateSpec) -> None:
        assert spec.early_ms is not None
        self._interval_ms = spec.early_ms
        super().__init__(spec)

    def _multiple_after(self, time: int) -> int:
        return (time // self._interval_ms + 1) * self._interval_ms

    def _stops(self, times: Times, watermarks: Times | int) -> Times:
        ends = super()._stops(times, watermarks)
        # additions saturate: a watermark may be the largest possible number
        reached = np.maximum(times, np.minimum(watermarks, NEVER - 2 * self._interval_ms))
        early = (reached // self._interval_ms + 1) * self._interval_ms + 1
        return np.where(ends == NEVER, ends, np.minimum(ends, early))

    def _first_stop(self, time: int) -> int:
        return min(super()._first_stop(time), self._multiple_after(time) + 1)

    def _add(self, frame: pl.DataFrame, times: Times, ends: Times | None) -> None:
        super()._add(frame, times, ends)
        if frame.height and ends is None:
            reached = max(int(times.min()), self._watermark)
            self._next_end = min(self._next_end, self._multiple_after(reached) + 1)

    def _find_next_end(self) -> None:
        super()._find_next_end()
        early = self._next_early()
        if early != NEVER:
            self._next_end = min(self._next_end, early + 1)

    def _fire_until(self, watermark: int) -> Iterator[None]:
        # the greatest watermark is as great as NEVER
        while (early := self._next_early()) != NEVER and early <= watermark:
            yield from super()._fire_until(early - 1)
            self._fire_early(early)
            # nothing has yielded in between, so a snapshot has all early results of a time, or none
            yield from super()._fire_until(early)
            yield
        yield from super()._fire_until(watermark)

    def _next_early(self) -> int:
        """Return the next time at which an open window with rows gives early results; NEVER if there is none."""
        found = NEVER
        for pane in self._store:
            early = self._multiple_after(max(pane.start, self._watermark, pane.fired_until))
            if early < min(found, self._panes.last_end(pane.start) - 1):
                found = early
        return found

    def _fire_early(self, at: int) -> None:
        open_windows: dict[tuple[int, int], list[PaneId]] = {}
        for pane in self._store:
            last_end = self._panes.last_end(pane.start)
            for window in self._panes.windows(pane.start, max(at, pane.fired_until), last_end):
                open_windows.setdefault(window, []).append(pane)
        for window in sorted(open_windows, key=lambda window: window[::-1]):
            panes = open_windows[window]
            # a restore may have set event time back behind results that have left
            begun = [pane for pane in panes if pane.start < at and pane.fired_until < at]
            if not begun:
                continue
            merged = self._store.merged(panes)
            assert merged is not None
            if len(begun) < len(panes):
                keys = pl.concat([self._store.of_pane(pane).select(self._plan.keys) for pane in begun]).unique()
                merged = merged.join(keys, on=self._plan.keys, how="semi", nulls_equal=True)
            self._num_fired += merged.height
            self._emit(merged, *window)


class EarlyProcessingTimeWindowOperator(EarlyWindowOperator, ProcessingTimeWindowOperator):
    """Windows by the clock with early results; a batch, which is one moment, has none."""

    def _next_early(self) -> int:
        return NEVER if self._is_batch else super()._next_early()
