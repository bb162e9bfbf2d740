"""SlotSources: the source coordinators that a slot hosts, and their mail.

Each source has one coordinator, in the slot of its first subtask. What one coordinator knows and others need, such as
the watermarks of alignment groups, goes to those by way of the JobMaster. The loop's thread only.
"""

from __future__ import annotations

import logging
import pickle

from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, OperatorId, SlotId
from runtime.graph.job_graph import ChainedOperator, JobVertex
from runtime.operators.operator import OperatorFactory
from runtime.operators.source_operator import SourceCoordinator, SourceOperatorFactory
from runtime.operators.watermark_alignment import AlignmentGroup
from runtime.task.failures import describe_failure
from runtime.task.messages import Deploy, OperatorEvent
from runtime.task.processing_time import TimerQueue
from runtime.task.slot_reports import SlotReports

logger = logging.getLogger(__name__)


class SlotSources:
    """Coordinators of one slot.

    Args:
        slot: whose they are.
        reports: to the JobMaster; takes the failures of coordinators, which are the slot's.
        timers: call for the next search for splits.
        clock: says when that is.
    """

    def __init__(self, slot: SlotId, reports: SlotReports, timers: TimerQueue, clock: Clock) -> None:
        self._slot_id = slot
        self._reports = reports
        self._timers = timers
        self._clock = clock
        self._coordinators: dict[OperatorId, SourceCoordinator] = {}
        #: sources of the coordinators here, also of those that could not be made
        self._heads: dict[OperatorId, ChainedOperator] = {}
        #: all sources of the job that have a coordinator, here or elsewhere
        self._sources: list[OperatorId] = []
        self._closed = False

    def create(self, deploy: Deploy) -> bool:
        """Create the coordinators that belong here.

        Returns:
            False if one could not be created: the slot has failed then, and the JobMaster knows why.
        """
        self._sources = list(deploy.coordinator_slots)
        for operator_id, slot in deploy.coordinator_slots.items():
            if slot != self._slot_id:
                continue
            try:
                self._create(operator_id, deploy)
            except Exception as error:
                self._failed(operator_id, error)
                return False
        return True

    def _create(self, operator_id: OperatorId, deploy: Deploy) -> None:
        vertex = _vertex_of_source(operator_id, deploy)
        self._heads[operator_id] = vertex.head
        factory: OperatorFactory = pickle.loads(vertex.head.factory)
        if not isinstance(factory, SourceOperatorFactory):
            raise TypeError(f"operator {vertex.head.name} is not a source and has no coordinator")
        strategy = factory.watermark_strategy
        group = None if strategy.alignment is None else AlignmentGroup(strategy.alignment, operator_id)
        restored = deploy.coordinator_states.get(operator_id)
        self._coordinators[operator_id] = SourceCoordinator(factory.source, vertex.parallelism, restored, group)
        self._schedule_discovery(operator_id)

    def _schedule_discovery(self, operator_id: OperatorId) -> None:
        delay_ms = self._coordinators[operator_id].discovery_delay_ms()
        if delay_ms is not None:
            self._timers.register_timer(self._clock.now_ms() + delay_ms, lambda _: self._discover(operator_id))

    def _discover(self, operator_id: OperatorId) -> None:
        if self._closed:
            return
        try:
            self._coordinators[operator_id].discover()
        except Exception as error:
            self._failed(operator_id, error)
            return
        self._schedule_discovery(operator_id)

    def deliver(self, event: OperatorEvent) -> None:
        """Give a coordinator an event: of one of its subtasks, or news of another coordinator."""
        coordinator = self._coordinators.get(event.operator_id)
        if coordinator is None:
            return
        payload = pickle.loads(event.payload)
        if event.source_subtask is None:
            coordinator.hear(payload)
            return

        def reply(subtask: int, answer: object) -> None:
            self._reports.operator_event(event.operator_id, subtask, None, pickle.dumps(answer))

        try:
            coordinator.handle_event(event.source_subtask, payload, reply)
            self._spread_news(event.operator_id, coordinator)
        except Exception as error:
            self._failed(event.operator_id, error)

    def resync(self) -> None:
        """Tell the other coordinators everything again: a new JobMaster may have lost what was on its way."""
        for operator_id, coordinator in self._coordinators.items():
            coordinator.forget_news()
            self._spread_news(operator_id, coordinator)

    def _spread_news(self, operator_id: OperatorId, coordinator: SourceCoordinator) -> None:
        news = coordinator.news()
        if news is not None:
            payload = pickle.dumps(news)
            for other in self._sources:
                if other != operator_id:
                    self._reports.operator_event(other, None, None, payload)

    def snapshot(self, checkpoint_id: CheckpointId) -> None:
        """Take the snapshots of all coordinators for a checkpoint, or decline it."""
        try:
            states = {operator_id: coordinator.snapshot() for operator_id, coordinator in self._coordinators.items()}
        except Exception as error:
            self._reports.decline(None, checkpoint_id, describe_failure(error, slot=self._slot_id))
            return
        self._reports.coordinators_snapshotted(checkpoint_id, states)

    def close(self) -> None:
        """Close all coordinators; idempotent."""
        self._closed = True
        for operator_id, coordinator in self._coordinators.items():
            try:
                coordinator.close()
            except Exception:
                # a user's enumerator; the slot has to leave nevertheless
                logger.warning("the enumerator of source %s failed to close", operator_id, exc_info=True)

    def _failed(self, operator_id: OperatorId, error: Exception) -> None:
        head = self._heads.get(operator_id)
        self._reports.slot_failed(describe_failure(error, slot=self._slot_id, operator=head))


def _vertex_of_source(operator_id: OperatorId, deploy: Deploy) -> JobVertex:
    for deployment in deploy.tasks:
        if deployment.vertex.head.operator_id == operator_id:
            return deployment.vertex
    raise LookupError(f"the slot of source {operator_id}'s coordinator does not host the source")
