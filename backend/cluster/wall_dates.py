"""WallDates: the wall-clock times of what a leader has timed by its monotonic clock. Pure.

A date holds once it is told, although the clocks move apart: monotonic time stands still while the machine sleeps. Only
if the wall clock is set back, dates move: else what happens next would come before what has happened. So all dates of
one leader are in the order in which things happened, and fit what others have dated meanwhile.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Final

JITTER_MS: Final = 50.0
"""Smaller changes of the clocks' offset are none: they come from reading one clock after the other."""
MAX_OFFSETS: Final = 200
"""Older dates than the first of them move with that."""


class WallDates:
    """Used by one thread.

    Args:
        wall_ms: wall-clock time at first, epoch ms.
        monotonic_ms: monotonic time then.
    """

    def __init__(self, wall_ms: float = 0.0, monotonic_ms: float = 0.0) -> None:
        #: monotonic time → wall-clock time minus monotonic time of what comes after it; both rise
        self._offsets = [(-math.inf, wall_ms - monotonic_ms)]
        self._looked_ms = monotonic_ms

    @property
    def offset_ms(self) -> float:
        """Wall-clock time minus monotonic time, as of the last look."""
        return self._offsets[-1][1]

    def look(self, wall_ms: float, monotonic_ms: float) -> None:
        """Note what the clocks show; what is timed after the last look is dated by this one."""
        offset_ms = wall_ms - monotonic_ms
        since_ms, self._looked_ms = self._looked_ms, monotonic_ms
        if abs(offset_ms - self.offset_ms) <= JITTER_MS:
            return
        while self._offsets and self._offsets[-1][1] >= offset_ms:
            since_ms, _ = self._offsets.pop()
        self._offsets.append((since_ms, offset_ms))
        del self._offsets[:-MAX_OFFSETS]

    def at(self, monotonic_ms: float) -> int:
        """Return the wall-clock time of a monotonic one, epoch ms."""
        index = bisect_left(self._offsets, monotonic_ms, key=lambda offset: offset[0])
        return round(monotonic_ms + self._offsets[max(0, index - 1)][1])
