"""Ages: for how long this leader has known of things in SQL, by its own monotonic clock.

The times in rows are those of other machines' clocks, which may be hours ahead or behind: nothing is timed by them.
Used by the jobmanager's loop.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

from runtime.core.clock import Clock

Key = TypeVar("Key", bound=Hashable)


class Ages(Generic[Key]):
    """Ages of things by their keys.

    Args:
        clock: of this process.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: when each was seen first, monotonic ms
        self._since_ms: dict[Key, float] = {}

    def of(self, key: Key) -> int:
        """Return how long ago this leader asked for the first time, ms."""
        now_ms = self._clock.monotonic_ms()
        return round(now_ms - self._since_ms.setdefault(key, now_ms))

    def known(self) -> Collection[Key]:
        """Return the keys of what was asked for."""
        return tuple(self._since_ms)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all but these."""
        for key in self._since_ms.keys() - set(keys):
            del self._since_ms[key]
