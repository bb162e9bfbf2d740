"""Panes: pieces of event time that make up windows, so that a row is kept once, not once per window.

Tumbling windows are a pane each; sliding windows share panes as wide as the greatest common divisor of size and slide,
cumulative ones panes of one step. Pure arithmetic in ms; window ends are exclusive.
Source: Flink SQL's slice assigners; Krishnamurthy et al., panes of sliding-window aggregates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows

Times = npt.NDArray[np.int64]
NEVER = 2**63 - 1
"""Stands for the end of a window that does not exist."""


@dataclass(frozen=True)
class Panes:
    """The panes of one kind of windows.

    Args:
        width_ms: of a pane.
        size_ms: of the largest window.
        step_ms: between the ends of two windows.
        offset_ms: of the windows' starts.
        is_cumulative: whether windows share their start until they reach their full size.
    """

    width_ms: int
    size_ms: int
    step_ms: int
    offset_ms: int
    is_cumulative: bool = False

    def starts(self, times: Times) -> Times:
        """Return the start of each time's pane, shape (n,)."""
        # // by a constant is vectorised in numpy, % is not
        starts: Times = (times - self.offset_ms) // self.width_ms * self.width_ms + self.offset_ms
        return starts

    def first_open_ends(self, times: Times, watermarks: Times | int) -> Times:
        """Return the end of the first window of each time that the watermark has not passed, NEVER if there is none.

        Args:
            times: shape (n,); of rows, or the starts of their panes.
            watermarks: for each of them, or for all.
        """
        # additions saturate: a watermark may be the largest possible number
        after = np.maximum(times, np.minimum(watermarks, NEVER - 2 * self.size_ms) + 1) + 1
        origin = self.offset_ms if self.is_cumulative else self.offset_ms + self.size_ms
        ends = origin - (origin - after) // self.step_ms * self.step_ms
        return np.where(ends <= self.last_ends(times), ends, NEVER)

    def last_ends(self, times: Times) -> Times:
        """Return the end of the last window of each time; of a time in no window, an end that it is not before."""
        series = self.size_ms if self.is_cumulative else self.step_ms
        ends: Times = (times - self.offset_ms) // series * series + self.offset_ms + self.size_ms
        return ends

    def windows(self, pane: int, after: int, until: int) -> list[tuple[int, int]]:
        """Return the windows of a pane that a watermark rising from `after` to `until` passes: (start, end), by end."""
        first = self.first_end(pane, after)
        if self.is_cumulative:
            start = pane - (pane - self.offset_ms) % self.size_ms
            last = min(start + self.size_ms, until + 1)
            return [(start, end) for end in range(first, last + 1, self.step_ms)]
        last_end = pane - (pane - self.offset_ms) % self.step_ms + self.size_ms
        return [(end - self.size_ms, end) for end in range(first, min(last_end, until + 1) + 1, self.step_ms)]

    def first_end(self, pane: int, after: int) -> int:
        """Return the end of a pane's first window that a watermark `after` has not passed; NEVER if there is none."""
        # as `first_open_ends`, without an array of one
        behind = max(pane, min(after, NEVER - 2 * self.size_ms) + 1) + 1
        origin = self.offset_ms if self.is_cumulative else self.offset_ms + self.size_ms
        end = origin - (origin - behind) // self.step_ms * self.step_ms
        return end if end <= self.last_end(pane) else NEVER

    def last_end(self, pane: int) -> int:
        """Return the end of the last window of a pane."""
        series = self.size_ms if self.is_cumulative else self.step_ms
        return (pane - self.offset_ms) // series * series + self.offset_ms + self.size_ms

    def of_window(self, start: int, end: int) -> range:
        """Return the starts of a window's panes."""
        return range(start, end, self.width_ms)


def panes_of(assigner: WindowAssigner[Any, Any]) -> Panes | None:
    """Return the panes of windows that consist of panes; None for others."""
    if isinstance(assigner, CumulativeEventTimeWindows):
        return Panes(assigner.step_ms, assigner.max_size_ms, assigner.step_ms, assigner.offset_ms, True)
    if isinstance(assigner, (TumblingEventTimeWindows, SlidingEventTimeWindows)):
        width = math.gcd(assigner.size_ms, assigner.slide_ms)
        return Panes(width, assigner.size_ms, assigner.slide_ms, assigner.offset_ms)
    return None


def processing_time_panes_of(assigner: WindowAssigner[Any, Any]) -> Panes | None:
    """Return the panes of windows of processing time; None for others."""
    if isinstance(assigner, (TumblingProcessingTimeWindows, SlidingProcessingTimeWindows)):
        width = math.gcd(assigner.size_ms, assigner.slide_ms)
        return Panes(width, assigner.size_ms, assigner.slide_ms, assigner.offset_ms)
    return None
