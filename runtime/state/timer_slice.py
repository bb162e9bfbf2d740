"""TimerSlice: how much of what is due at once a task does before others have their turn.

A watermark may make millions of timers due, or windows with millions of rows. They fire in slices of about 20 ms, as
records are processed; a timer is the least that a slice takes. Used by the task's thread only.
Source: Flink, `execution.checkpointing.unaligned.interruptible-timers.enabled` and MailboxWatermarkProcessor.
"""

from __future__ import annotations

import math

from runtime.core.clock import Clock

_MAX_GRANTED = 256
"""Timers between two looks at the clock. With fewer its cost shows; more, each of 20 ms, would look like a stall."""


class TimerSlice:
    """The budget of a task's current step.

    Args:
        clock: measures the slice.
        max_ms: after so long nothing more is begun.
        max_timers: after so many timers, or rows of results, nothing more is begun; at least 1.

    Attributes:
        left: how many timers may fire before `renew` has to be asked; whoever fires one takes it off.
        max_timers: as given.
    """

    __slots__ = ("_began_ms", "_clock", "_granted", "_is_open", "_max_ms", "left", "max_timers")

    def __init__(self, clock: Clock, max_ms: float, max_timers: int) -> None:
        self._clock = clock
        self._max_ms = max_ms
        self.max_timers = max_timers
        self.begin()

    def begin(self) -> None:
        """Begin another slice."""
        self._is_open = True
        self._began_ms: float | None = None
        self._granted = 0
        self.left: float = 0

    def close(self) -> None:
        """Let nothing fire until the next slice begins: the output takes nothing."""
        self._is_open = False
        self.left = 0

    def renew(self) -> bool:
        """Grant more timers once `left` is used up; returns False if the slice is over."""
        took_ms = self._took_ms()
        if took_ms is None:
            return False
        # as many again, if at their pace there is time for them
        fitting = self._granted if took_ms <= 0 else int(self._granted * (self._max_ms - took_ms) / took_ms)
        granted = max(1, min(self._granted, fitting, _MAX_GRANTED, self.max_timers - self._granted))
        self._granted += granted
        self.left = granted
        return True

    def goes_on(self, rows: int = 1) -> bool:
        """Return whether work may be done that is long enough to be timed by itself: that of so many rows."""
        if self._took_ms() is None:
            return False
        self._granted += rows
        self.left = 0
        return True

    def _took_ms(self) -> float | None:
        """Return how long the slice has taken; None if it is over."""
        if not self._is_open or self._granted >= self.max_timers:
            return None
        now_ms = self._clock.monotonic_ms()
        if self._began_ms is None:
            self._began_ms = now_ms
        took_ms = now_ms - self._began_ms
        return took_ms if took_ms < self._max_ms else None


class _Endless(TimerSlice):
    """Fires everything at once."""

    __slots__ = ()

    def __init__(self) -> None:
        self.max_timers = 1 << 62
        self.left = math.inf

    def begin(self) -> None:
        """Change nothing."""

    def close(self) -> None:
        """Change nothing."""

    def renew(self) -> bool:
        return True

    def goes_on(self, rows: int = 1) -> bool:
        return True


ENDLESS: TimerSlice = _Endless()
"""For operators that nothing waits for."""
