"""Time as a dependency: code that needs the time is handed a Clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of wall-clock and monotonic time; `runtime.testing.ManualClock` is the one that tests advance."""

    def now_ms(self) -> int:
        """Return the wall-clock time, milliseconds since the epoch; may jump."""
        ...

    def monotonic_ms(self) -> float:
        """Return milliseconds since an arbitrary origin; never goes back. For leases, timeouts and rates."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


SYSTEM_CLOCK = SystemClock()
