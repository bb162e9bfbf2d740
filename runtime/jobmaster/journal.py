"""Journal: the time of the event that a job's machine handles, the actions that it leads to, and the job's story. Pure.

The parts of a machine share one, so that none has to be told the time or given a way to speak.
"""

from __future__ import annotations

from collections import deque

from runtime.jobmaster.actions import JobMasterAction

STORY_LENGTH = 200
"""Entries of the story that are kept: the deployment and the end of a job of some 50 tasks."""


class Journal:
    """The events of one job, one after the other."""

    def __init__(self) -> None:
        #: monotonic; never goes back
        self.now_ms = 0.0
        #: since the epoch, for what people see
        self.wall_ms = 0
        self._actions: list[JobMasterAction] = []
        self._story: deque[str] = deque(maxlen=STORY_LENGTH)

    def begin(self, now_ms: float, wall_ms: int | None = None) -> list[JobMasterAction]:
        """Begin an event. Return the list that its actions will be added to.

        Args:
            now_ms: monotonic; a time before that of the last event counts as that one's.
            wall_ms: since the epoch; None = the same as `now_ms`.
        """
        self.now_ms = max(self.now_ms, now_ms)
        self.wall_ms = int(now_ms) if wall_ms is None else wall_ms
        self._actions = []
        return self._actions

    def act(self, action: JobMasterAction) -> None:
        """Have the driver do something."""
        self._actions.append(action)

    def tell(self, what: str) -> None:
        """Add to the story."""
        self._story.append(f"{self.now_ms:.0f}: {what}")

    def story(self) -> tuple[str, ...]:
        """Return the newest entries, oldest first."""
        return tuple(self._story)
