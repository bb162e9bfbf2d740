"""PlannedSplits: the enumerator of sources that have to ask a server for their splits.

The question is asked on a thread of its own; subtasks wait meanwhile. What was planned is part of the snapshot, so it
is asked once in the life of a job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from runtime.connectors.background import BackgroundCall
from runtime.operators.source import NoSplit, SourceSplit, SplitEnumerator

#: How often the plan is asked for while it is being made.
POLL_MS = 5


class PlannedSplits(SplitEnumerator):
    """Deals out splits in order once they are known.

    Args:
        plan: finds the splits; called on another thread. None: they are known.
        split_to_json: as `Source.split_to_json`; for the snapshot.
        splits: those that are known.
    """

    def __init__(
        self,
        plan: Callable[[], Sequence[SourceSplit]] | None,
        split_to_json: Callable[[SourceSplit], Any],
        splits: Sequence[SourceSplit] = (),
    ) -> None:
        self._splits = deque(splits)
        self._split_to_json = split_to_json
        self._plan = None if plan is None else BackgroundCall("plan-splits", plan)

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        if self._splits:
            return self._splits.popleft()
        return NoSplit.NEVER if self._plan is None else NoSplit.LATER

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._splits.extendleft(reversed(splits))

    def snapshot(self) -> Any:
        if self._plan is not None:
            return None
        return [self._split_to_json(split) for split in self._splits]

    def discovery_delay_ms(self) -> int | None:
        return None if self._plan is None else POLL_MS

    def discover(self) -> bool:
        plan = self._plan
        if plan is None or not plan.is_done:
            return False
        self._plan = None
        self._splits.extend(plan.result())
        return True

    def is_discovering(self) -> bool:
        return self._plan is not None

    def close(self) -> None:
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.close()
