"""JobMasterTime: a slot's estimate of its JobMaster's wall clock, by which barriers tell when they were born.

The machines' own clocks may be hours apart. Every message that names its time of sending bounds the distance from
above: it has travelled, and waited for the loop. The least distance of late counts. Loop's thread only.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from runtime.core.clock import Clock

KEPT: Final = 8
"""Messages that the estimate rests on; heartbeats come every second. Fewer: a loop that is busy for seconds makes
barriers look young; more: it takes longer to notice that a clock was set."""


class JobMasterTime:
    """The estimate of one slot.

    Args:
        clock: of the slot.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: the slot's wall clock minus the JobMaster's, and the time that the message took; ms
        self._distances_ms: deque[int] = deque(maxlen=KEPT)

    def heard(self, sent_ms: int) -> None:
        """Take a message that was sent at that time, by the JobMaster's wall clock."""
        self._distances_ms.append(self._clock.now_ms() - sent_ms)

    def forget(self) -> None:
        """Begin anew: there is another JobMaster, with a clock of its own."""
        self._distances_ms.clear()

    def age_ms(self, at_ms: int) -> int:
        """Return how long ago that was by the JobMaster's wall clock; 0 if nothing was heard of it yet."""
        if not self._distances_ms:
            return 0
        return max(0, self._clock.now_ms() - min(self._distances_ms) - at_ms)
