"""PollInterval: decides when to ask again for news: soon after the last news, less and less often later on."""

from __future__ import annotations

from runtime.core.clock import Clock

#: Latency of a busy stream is at most the first, idle streams cost one look per the second.
SHORTEST_MS = 1
LONGEST_MS = 20


class PollInterval:
    """Doubles from SHORTEST_MS to LONGEST_MS while nothing comes."""

    __slots__ = ("_clock", "_wait_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait_ms = SHORTEST_MS

    def news(self) -> None:
        """Note that something came."""
        self._wait_ms = SHORTEST_MS

    def next_ms(self) -> int:
        """Return the wall-clock time of the next look; call it once after each look without news."""
        wait_ms = self._wait_ms
        self._wait_ms = min(LONGEST_MS, wait_ms * 2)
        return self._clock.now_ms() + wait_ms
