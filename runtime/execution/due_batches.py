"""DueBatches: says when a job in micro-batches has something to do, so that none of its batches is for nothing.

A batch is due if the last one could have read more, if there is something to be read, if a source has found new splits,
or if time has come to what a task waits for: a timer, a window of processing time, the idleness of a split. Sources are
looked at between batches, about four times an interval. The host's thread only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.checkpoint.handles import TaskRestore
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import OperatorId, TaskId
from runtime.execution.batch_sources import BatchSources
from runtime.execution.passes.plan import TaskOutcome
from runtime.operators.source_lookout import SourceLookout
from runtime.task.messages import TaskDeployment

_LOOKS_PER_INTERVAL = 4
_LEAST_MS, _MOST_MS = 20.0, 1_000.0
"""Between two looks. More often, and looks cost a job with short intervals what they save; less often, and data waits
noticeably longer than for the next interval."""


class DueBatches:
    """Watches one attempt. At first a batch is due: nothing is known yet.

    Args:
        sources: of the job.
        clock: tells the time.
        configuration: of the job.
        interval_ms: between two batches.
    """

    def __init__(self, sources: BatchSources, clock: Clock, configuration: Configuration, interval_ms: int) -> None:
        self._sources = sources
        self._clock = clock
        self._configuration = configuration
        self._pause_ms = min(max(interval_ms / _LOOKS_PER_INTERVAL, _LEAST_MS), _MOST_MS)
        #: whether that is known
        self.is_due = True
        #: wall-clock time at which something of a task is due
        self._due_ms: int | None = None
        #: monotonic time of the next look
        self._look_at_ms = 0.0
        self._lookouts: list[SourceLookout] = []

    def read(
        self,
        outcomes: Mapping[TaskId, TaskOutcome],
        has_caught_up: bool,
        sources: Sequence[TaskDeployment],
        restores: Mapping[TaskId, TaskRestore],
    ) -> None:
        """Take note of a batch that is complete.

        Args:
            outcomes: of its tasks.
            has_caught_up: whether it has read all there was.
            sources: the tasks that read.
            restores: the state with which tasks go on.
        """
        self.close()
        self.is_due = not has_caught_up
        known = [outcome.next_due_ms for outcome in outcomes.values() if outcome.next_due_ms is not None]
        self._due_ms = min(known, default=None)
        self._look_at_ms = self._clock.monotonic_ms()
        self._lookouts = [
            self._sources.lookout(deployment, restores.get(deployment.task), self._configuration)
            for deployment in sources
            if not outcomes[deployment.task].is_finished
        ]

    def look(self, sources: Sequence[OperatorId]) -> bool:
        """Return whether a batch is due; looks at the sources if it is time for that.

        Args:
            sources: those whose splits are dealt here.

        Raises:
            Exception: whatever an enumerator raised.
        """
        if self.is_due:
            return True
        now_ms = self._clock.monotonic_ms()
        if self._due_ms is not None and self._clock.now_ms() >= self._due_ms:
            self.is_due = True
        elif now_ms >= self._look_at_ms:
            found = [self._sources.has_found(known) for known in sources]
            self.is_due = any(found) or any(lookout.has_something() for lookout in self._lookouts)
            is_looking = any(lookout.is_looking() for lookout in self._lookouts)
            self._look_at_ms = now_ms + (_LEAST_MS if is_looking else self._pause_ms)
        if self.is_due:
            self.close()
        return self.is_due

    def wait_ms(self) -> float:
        """Return how long `look` need not be called."""
        if self.is_due:
            return _MOST_MS
        wait_ms = self._look_at_ms - self._clock.monotonic_ms()
        return max(0.0, wait_ms if self._due_ms is None else min(wait_ms, self._due_ms - self._clock.now_ms()))

    def close(self) -> None:
        """Close what looks at the sources; idempotent."""
        while self._lookouts:
            self._lookouts.pop().close()
