"""Ages: for how long this leader has known of things in SQL, by its own monotonic clock.

The times in rows are those of other machines' clocks, which may be hours ahead or behind: nothing is timed by them.
Used by the jobmanager's loop.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from runtime.core.clock import Clock


class Ages:
    """Ages of things by their keys.

    Args:
        clock: of this process.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: when each was seen first, monotonic ms
        self._since_ms: dict[Hashable, float] = {}

    def of(self, key: Hashable) -> int:
        """Return how long ago this leader asked for the first time, ms."""
        now_ms = self._clock.monotonic_ms()
        return round(now_ms - self._since_ms.setdefault(key, now_ms))

    def keep(self, keys: Collection[Hashable]) -> None:
        """Forget all but these."""
        for key in self._since_ms.keys() - set(keys):
            del self._since_ms[key]
