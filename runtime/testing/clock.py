"""ManualClock: time that stands still until a test advances it. Not thread-safe."""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """A `runtime.core.clock.Clock` whose two times advance together, unless the wall clock jumps.

    Args:
        now_ms: wall-clock time to start at, ms since the epoch; monotonic time starts at 0.
    """

    __slots__ = ("_elapsed_ms", "_start_ms")

    def __init__(self, now_ms: int = 0) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        return self._elapsed_ms

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass.

        Raises:
            ValueError: `ms` is negative; time does not go back.
        """
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._elapsed_ms += ms

    def jump(self, ms: int) -> None:
        """Set the wall clock ahead, or back if `ms` is negative; monotonic time continues unchanged."""
        self._start_ms += ms
