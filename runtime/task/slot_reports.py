"""SlotReports: what a slot tells its JobMaster, and what it tells the next one again.

Nothing is queued for a JobMaster that is gone: what it has to know is derived from what is known here. Loop's thread
only, but for `client_output`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from runtime.checkpoint.batch_trace import BatchTrace
from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId, OperatorId, TaskId
from runtime.state.snapshot import OperatorStateSnapshot
from runtime.task.checkpoint_ledger import CheckpointLedger
from runtime.task.client_output import SlotClientChannel
from runtime.task.control_link import ControlLink
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    BatchCompleted,
    CheckpointDue,
    ClientOutput,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    FailureInfo,
    OperatorEvent,
    RegisterSlot,
    SlotCommitted,
    SlotFailed,
    SlotLeaving,
    SlotReport,
    StopDue,
    TaskReport,
    TaskState,
    TaskStateChanged,
)

REMEMBERED_FAILURES = 20
"""Number of failures of the slot as a whole that are told again; one is enough to restart its region."""


@dataclass(slots=True)
class _KnownTask:
    state: TaskState
    failure: FailureInfo | None
    metrics: Mapping[str, object]
    made_ms: float
    ended_ms: float | None = None


class SlotReports:
    """Sends a slot's messages.

    Args:
        link: to the JobMaster.
        registration: who the slot is; sent at once.
        clock: for the age of tasks.
    """

    def __init__(self, link: ControlLink, registration: RegisterSlot, clock: Clock) -> None:
        self.ledger = CheckpointLedger()
        self.client = SlotClientChannel(self._send_client_output)
        self._link = link
        self._registration = registration
        self._slot, self._attempt = registration.slot, registration.attempt
        self._clock = clock
        self._tasks: dict[TaskId, _KnownTask] = {}
        self._failures: deque[FailureInfo] = deque(maxlen=REMEMBERED_FAILURES)
        self.has_committed = False
        #: takes out of the texts of failures what nobody may see
        self.redact: Callable[[str], str] = str
        link.send(registration)

    def task_state(
        self,
        task: TaskId,
        state: TaskState,
        failure: FailureInfo | None = None,
        metrics: Mapping[str, object] | None = None,
    ) -> None:
        """Tell the state of a task; final metrics with a terminal one."""
        now_ms = self._clock.monotonic_ms()
        failure = None if failure is None else self._redacted(failure)
        known = self._tasks.setdefault(task, _KnownTask(state, None, {}, now_ms))
        known.state, known.failure, known.metrics = state, failure, metrics or {}
        known.ended_ms = now_ms if state.is_terminal else None
        self._link.send(TaskStateChanged(self._slot, self._attempt, task, state, failure, known.metrics))

    def slot_failed(self, failure: FailureInfo) -> None:
        """Tell that something broke which belongs to no task."""
        failure = self._redacted(failure)
        self._failures.append(failure)
        self._link.send(SlotFailed(self._slot, self._attempt, failure))

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None:
        """Tell that a task's part of a checkpoint is stored."""
        message = AcknowledgeCheckpoint(self._slot, self._attempt, task, checkpoint_id, state, metrics)
        self.ledger.acknowledged(message, self._tasks.keys())
        self._link.send(message)

    def decline(
        self, task: TaskId | None, checkpoint_id: CheckpointId, cause: FailureInfo, counts_as_failure: bool = True
    ) -> None:
        """Tell that a task, or the slot as a whole, takes no part in a checkpoint."""
        cause = self._redacted(cause)
        self._link.send(DeclineCheckpoint(self._slot, self._attempt, task, checkpoint_id, cause, counts_as_failure))

    def coordinators_snapshotted(
        self, checkpoint_id: CheckpointId, states: Mapping[OperatorId, OperatorStateSnapshot]
    ) -> None:
        """Tell the state of the source coordinators."""
        self._link.send(CoordinatorsSnapshotted(self._slot, self._attempt, checkpoint_id, states))

    def operator_event(self, operator_id: OperatorId, target: int | None, source: int | None, payload: bytes) -> None:
        """Send an event between an operator's coordinator (None) and its subtasks."""
        self._link.send(OperatorEvent(self._attempt, operator_id, target, source, payload))

    def committed(self) -> None:
        """Tell that all sinks have committed."""
        self.has_committed = True
        self._link.send(SlotCommitted(self._slot, self._attempt))

    def checkpoint_due(self) -> None:
        """Tell that the job's next checkpoint may begin."""
        self._link.send(CheckpointDue(self._slot, self._attempt))

    def stop_due(self) -> None:
        """Tell that there is no other batch."""
        self._link.send(StopDue(self._slot, self._attempt))

    def batch_completed(self, checkpoint_id: CheckpointId, batch: BatchTrace) -> None:
        """Tell what a batch has done."""
        self._link.send(BatchCompleted(self._slot, self._attempt, checkpoint_id, batch))

    def leaving(self) -> None:
        """Say good-bye, and end the stream."""
        self._link.send(SlotLeaving(self._slot, self._attempt))
        self._link.close()

    def tell_all(self, metrics: Mapping[TaskId, Mapping[str, object]]) -> None:
        """Tell a JobMaster that knows nothing of the slot everything that it has to know.

        Args:
            metrics: of the tasks that have not ended.
        """
        now_ms = self._clock.monotonic_ms()
        report = SlotReport(
            self._registration,
            [self._report(task, known, metrics.get(task, {}), now_ms) for task, known in self._tasks.items()],
            tuple(self._failures),
            self.ledger.pending,
            self.ledger.last_seen,
            self.ledger.stopped_by,
            self.has_committed,
        )
        # no output of another thread comes before the report, and none twice
        self.client.send_again(lambda: self._link.send(report))
        for message in self.ledger.acknowledgements():
            self._link.send(message)

    def _report(self, task: TaskId, known: _KnownTask, metrics: Mapping[str, object], now_ms: float) -> TaskReport:
        ended_ms_ago = None if known.ended_ms is None else now_ms - known.ended_ms
        return TaskReport(
            task, known.state, known.failure, known.metrics or metrics, now_ms - known.made_ms, ended_ms_ago
        )

    def _redacted(self, failure: FailureInfo) -> FailureInfo:
        told = replace(failure, message=self.redact(failure.message), traceback=self.redact(failure.traceback))
        return told.shortened()

    def _send_client_output(self, channel: str, position: int, payload: bytes) -> None:
        self._link.send(ClientOutput(self._slot, self._attempt, channel, position, payload))
