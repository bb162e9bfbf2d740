"""BatchSources: the source coordinators of a job in micro-batches, which deal the splits of a batch before it begins.

A coordinator cannot be asked in the middle of a pass, here as little as from another machine. What is dealt stays in
flight there until the batch that has read it is complete. The host's thread only.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping

from runtime.checkpoint.handles import TaskRestore
from runtime.common.configuration import Configuration
from runtime.core.clock import Clock
from runtime.core.ids import OperatorId
from runtime.execution.passes.plan import SplitShare
from runtime.operators.operator import OperatorFactory
from runtime.operators.source import Source
from runtime.operators.source_coordinator import SourceCoordinator
from runtime.operators.source_lookout import SourceLookout
from runtime.operators.source_operator import SourceOperatorFactory
from runtime.operators.source_splits import SPLITS_STATE, saved_splits
from runtime.state.snapshot import OperatorSnapshot, OperatorStateSnapshot
from runtime.task.messages import TaskDeployment

_SPLITS_AHEAD, _MOST_AHEAD = 8, 1_024
"""Splits that each subtask of a source may begin in its first batch, and in any: they are dealt before the batch
begins. With more, one subtask may get what another has time for. With fewer, batches of small files are small, so that
there are twice as many whenever a batch could have read more."""


class BatchSources:
    """The source coordinators of one attempt.

    Args:
        clock: says when a search for splits is due.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._coordinators: dict[OperatorId, SourceCoordinator] = {}
        self._sources: dict[OperatorId, Source] = {}
        self._parallelism: dict[OperatorId, int] = {}
        self._discovery_due_ms: dict[OperatorId, int] = {}
        #: splits that are dealt ahead to each subtask
        self._ahead: dict[OperatorId, int] = {}
        #: sources whose first search for splits is under way: the first batch waits for what it finds
        self._first_searches: set[OperatorId] = set()

    def add(self, deployment: TaskDeployment, restored: OperatorSnapshot | None) -> None:
        """Make the coordinator of a source.

        Args:
            deployment: of its first subtask.
            restored: the coordinator's state; None: it begins empty.

        Raises:
            Exception: whatever the source's enumerator raised.
        """
        head = deployment.vertex.head
        factory: OperatorFactory = pickle.loads(head.factory)
        if not isinstance(factory, SourceOperatorFactory):
            raise TypeError(f"operator {head.name} is not a source and has no coordinator")
        coordinator = SourceCoordinator(factory.source, deployment.vertex.parallelism, restored)
        known = head.operator_id
        self._sources[known] = factory.source
        self._coordinators[known], self._parallelism[known] = coordinator, deployment.vertex.parallelism
        self._ahead[known] = _SPLITS_AHEAD
        if coordinator.discovery_delay_ms() is not None:
            # the first batch finds what is there
            self._discovery_due_ms[known] = self._clock.now_ms()
        if coordinator.is_discovering():
            self._first_searches.add(known)

    @property
    def first_searches(self) -> Iterable[OperatorId]:
        """Return the sources that look for their first splits."""
        return tuple(self._first_searches)

    def ends_first_search(self, known: OperatorId) -> bool:
        """Return whether a source's first search for splits has ended.

        Raises:
            Exception: it has failed; it counts as ended.
        """
        coordinator = self._coordinators[known]
        try:
            coordinator.discover()
        except Exception:
            self._first_searches.discard(known)
            raise
        if coordinator.is_discovering():
            return False
        self._first_searches.discard(known)
        self._schedule_discovery(known)
        return True

    def deal(self, known: OperatorId) -> OperatorStateSnapshot:
        """Deal a source's splits for the next batch, and return its coordinator's state behind that.

        Raises:
            Exception: whatever the enumerator raised.
        """
        self.has_found(known)
        coordinator = self._coordinators[known]
        coordinator.deal_ahead(self._ahead[known])
        return coordinator.snapshot()

    def has_found(self, known: OperatorId) -> bool:
        """Search for a source's new splits, if that is due; returns whether there are any.

        Raises:
            Exception: whatever the enumerator raised.
        """
        due_ms = self._discovery_due_ms.get(known)
        if due_ms is None or self._clock.now_ms() < due_ms:
            return False
        found = self._coordinators[known].discover()
        self._schedule_discovery(known)
        return found

    def lookout(
        self, deployment: TaskDeployment, restore: TaskRestore | None, configuration: Configuration
    ) -> SourceLookout:
        """Return what looks for one subtask of a source.

        Args:
            deployment: of the subtask.
            restore: the state with which it goes on.
            configuration: of the job.
        """
        known = deployment.vertex.head.operator_id
        restored = None if restore is None else restore.operators.get(known)
        state = None if restored is None else restored.operator_states.get(SPLITS_STATE)
        splits = saved_splits(self._sources[known], () if state is None else state.items)
        place = deployment.task.subtask_index, deployment.vertex.parallelism
        return SourceLookout(self._sources[known], splits, *place, configuration, self._clock)

    def deal_all(self, known: OperatorId) -> None:
        """Deal all splits of a bounded source.

        Raises:
            Exception: whatever the enumerator raised.
        """
        self._coordinators[known].deal_all()

    def shares(self) -> Mapping[tuple[OperatorId, int], SplitShare]:
        """Return what each subtask of a source may read in the next batch."""
        return {
            (known, subtask): coordinator.dealt_ahead(subtask)
            for known, coordinator in self._coordinators.items()
            for subtask in range(self._parallelism[known])
        }

    def confirm(self, known: OperatorId, numbers: Iterable[int]) -> None:
        """Forget splits that are in the completed snapshots of their readers."""
        self._coordinators[known].confirm(list(numbers))

    def ran_out(self, known: OperatorId) -> bool:
        """Return whether a source that has read what was dealt to one of its subtasks might have read more; the next
        batch is then dealt more.
        """
        if not self._coordinators[known].may_have_more:
            return False
        self._ahead[known] = min(2 * self._ahead[known], _MOST_AHEAD)
        return True

    def close(self) -> None:
        """Close all coordinators."""
        self._first_searches.clear()
        for coordinator in self._coordinators.values():
            coordinator.close()

    def _schedule_discovery(self, known: OperatorId) -> None:
        delay_ms = self._coordinators[known].discovery_delay_ms()
        if delay_ms is None:
            self._discovery_due_ms.pop(known, None)
        else:
            self._discovery_due_ms[known] = self._clock.now_ms() + delay_ms
