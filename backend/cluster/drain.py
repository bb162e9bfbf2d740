"""Drain: how a TaskManager that is asked to end leaves. Pure; times are monotonic milliseconds.

It gets no more slots, and the leader moves its jobs to others from a checkpoint, as soon as there are enough. Shortly
before the deadline they have to go anyway: they then wait for slots with their state saved. The process ends when
nothing runs in it any more, at the deadline, or when there is nobody who could move anything.
Source: Flink's blocklist (no new slots on a blocked TaskManager), Kubernetes' termination grace period.
"""

from __future__ import annotations

#: time before the deadline that is left for a last checkpoint, and for Spark to end the stages; at most half of all
EVICTION_MS = 10_000.0
#: the leader hears within a second that nothing may begin here; what it began before arrives within another
SETTLED_MS = 3_000.0
#: a change of leader, or a restart of Redis, takes less
ALONE_MS = 5_000.0


class Drain:
    """The end of one TaskManager.

    Args:
        now_ms: when it was asked to end.
        timeout_ms: how long it may take, positive.
    """

    def __init__(self, now_ms: float, timeout_ms: float) -> None:
        self._began_ms = now_ms
        self._deadline_ms = now_ms + timeout_ms
        self._evicts_at_ms = self._deadline_ms - min(EVICTION_MS, timeout_ms / 2)
        self._alone_since_ms: float | None = None

    def evicts_in_ms(self, now_ms: float) -> int:
        """Return in how many milliseconds jobs have to leave even if there are no other slots for them."""
        return max(0, round(self._evicts_at_ms - now_ms))

    def why_over(self, now_ms: float, *, is_idle: bool, has_jobmanager: bool) -> str:
        """Return why the process may end now; "" if it may not.

        Args:
            now_ms: the time.
            is_idle: whether nothing runs in it.
            has_jobmanager: whether a jobmanager lives that can be reached.
        """
        if now_ms >= self._deadline_ms:
            return "the time to drain is over"
        if has_jobmanager:
            self._alone_since_ms = None
        elif self._alone_since_ms is None:
            self._alone_since_ms = now_ms
        if self._alone_since_ms is not None and now_ms - self._alone_since_ms >= ALONE_MS:
            return "there is no JobManager that could move its jobs"
        if is_idle and now_ms - self._began_ms >= SETTLED_MS:
            return "nothing runs on it any more"
        return ""
