"""SlotWatch: what the slots of a job say, that they fall silent, are lost, or leave. Pure.

Messages of older attempts, and of slots that were given up, are refused and counted. What is left is noted with the
slots and tasks of the attempt, or passed on: to the checkpoints, to other slots, to the client. Failures, and that
something has come along, are told to the machine, which knows what follows.
Source: Flink, JobMaster, HeartbeatManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runtime.core.ids import SlotId
from runtime.jobmaster.actions import DeliverClientOutput, RefuseSlot
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.events import SlotLost, StageEnded
from runtime.jobmaster.job_checkpoints import JobCheckpoints
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.regions import RegionRestarts
from runtime.task.messages import (
    AcknowledgeCheckpoint,
    BatchCompleted,
    CheckpointDue,
    ClientOutput,
    CoordinatorsSnapshotted,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    FailureInfo,
    Heartbeat,
    HeartbeatRequest,
    OperatorEvent,
    RegisterSlot,
    SlotCommitted,
    SlotFailed,
    SlotLeaving,
    SlotMessage,
    SlotReport,
    StopDue,
    TaskState,
    TaskStateChanged,
)

#: phases in which a slot that does not answer is lost; one that imports user code cannot
_JUDGED = (Phase.REQUESTING, Phase.STARTED, Phase.COMMITTING, Phase.CANCELLING_TASKS)


@dataclass(frozen=True, slots=True)
class SlotWatchOwner:
    """Actions of the machine for what becomes of slots."""

    fail: Callable[[FailureInfo, SlotId, bool], None]
    """Makes the region of a slot fail, or the whole job; the last argument: the cause may be another slot's."""
    advance: Callable[[], None]
    """Takes every step that slots and tasks allow."""
    reported: Callable[[SlotReport], None]
    """Takes the report of a slot that has come over from an earlier JobMaster."""
    is_working: Callable[[], bool]
    """Returns whether the job runs, in part at least."""
    batch_due: Callable[[], None]
    """Takes the checkpoint that a batch waits for."""
    stop_due: Callable[[], None]
    """Stops the job with a savepoint: no slot has another batch."""


class SlotWatch:
    """The slots of one job, attempt after attempt.

    Args:
        run: the first attempt; `watch` is called with each later one.
        regions: those that restart alone.
        checkpoints: of the job.
        options: timeouts.
        owner: the machine.
        journal: of the machine.
    """

    def __init__(
        self,
        run: AttemptRun,
        regions: RegionRestarts,
        checkpoints: JobCheckpoints,
        options: JobMasterOptions,
        owner: SlotWatchOwner,
        journal: Journal,
    ) -> None:
        self._regions = regions
        #: messages of older attempts, and of slots that had been given up
        self.refused_messages = 0
        self._checkpoints = checkpoints
        self._options = options
        self._owner = owner
        self._journal = journal
        self._heartbeat_sequence = 0
        #: slots that have no more batches
        self._stop_due: set[SlotId] = set()
        self.watch(run)

    def watch(self, run: AttemptRun) -> None:
        """Watch the slots of a new attempt."""
        self._run = run
        self._next_heartbeat_ms = self._journal.now_ms + self._options.heartbeat_interval_ms

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> float | None:
        """Return when a heartbeat is due, or a slot will have been silent for too long."""
        if self._run.phase is Phase.IDLE or not self._run.slots.live():
            return None
        silence_ms = None
        if self._run.phase in _JUDGED:
            silence_ms = self._run.slots.next_silence_ms(self._options.heartbeat_timeout_ms)
        return self._next_heartbeat_ms if silence_ms is None else min(self._next_heartbeat_ms, silence_ms)

    def expire(self, due_ms: float | None) -> None:
        """Give up the slots that have been silent for too long.

        Args:
            due_ms: when the machine was to look again; None = never.
        """
        late_ms = 0 if due_ms is None else self._journal.now_ms - due_ms
        if late_ms > self._options.heartbeat_interval_ms:
            # this process itself was stopped: it was not listening, and cannot tell who was silent
            self._journal.tell(f"tick is late by {late_ms:.0f} ms; leases start again")
            self._run.slots.renew_all(self._journal.now_ms)
        if self._run.phase in _JUDGED:
            for slot in self._run.slots.silent(self._journal.now_ms, self._options.heartbeat_timeout_ms):
                self._lose(slot, f"no heartbeat for {self._options.heartbeat_timeout_ms / 1000:g} s")

    def request_heartbeats(self) -> None:
        """Ask the live slots whether they are, when that is due."""
        if self._run.phase is not Phase.IDLE and self._journal.now_ms >= self._next_heartbeat_ms:
            self._next_heartbeat_ms = self._journal.now_ms + self._options.heartbeat_interval_ms
            self._heartbeat_sequence += 1
            self._run.send(self._run.slots.live(), HeartbeatRequest(self._heartbeat_sequence, self._journal.wall_ms))

    # --- ends ---------------------------------------------------------------------------------------------------------

    def on_lost(self, event: SlotLost) -> None:
        """Give up a slot whose stream or process has ended."""
        slots = self._run.slots
        if self._run.is_current(event.attempt, event.slot) and event.slot in slots and not slots.is_gone(event.slot):
            self._lose(event.slot, event.cause)

    def on_stage_ended(self, event: StageEnded) -> None:
        """Give up the slots that a stage has left behind."""
        if not 0 <= event.region < len(self._run.regions):
            return
        slots = self._run.regions[event.region].slots
        if not self._run.is_current(event.attempt, slots[0]):
            return
        stranded = [slot for slot in slots if not self._run.slots.is_gone(slot)]
        was_expected = self._regions.is_going_down(slots[0])
        for slot in stranded:
            # a stage that returned has no process left; one that failed may have (Spark reaps them seconds later)
            self.give_up(slot, left=event.error is None)
        if stranded and (event.error is not None or not was_expected):
            why = event.error or "it returned although its slots were in use"
            self._fail(FailureInfo(f"the stage of region {event.region} ended: {why}", slot=stranded[0]), stranded[0])
        self._owner.advance()

    def give_up(self, slot: SlotId, left: bool = False) -> None:
        """Expect nothing more from a slot; its unfinished tasks end with it."""
        is_going_down = self._regions.is_going_down(slot)
        self._run.give_up(slot, TaskState.CANCELED if is_going_down else TaskState.FAILED, left)

    def _lose(self, slot: SlotId, cause: str) -> None:
        entry = self._run.slots.entry(slot)
        where = f" (pid {entry.pid} on {entry.host})" if entry.pid is not None else " (never registered)"
        tasks = ", ".join(t.name for t in self._run.execution.tasks_in(slot)[:3])
        self.give_up(slot)
        self._fail(FailureInfo(f"slot {slot}{where} was lost: {cause}; it ran {tasks}", slot=slot), slot)
        self._owner.advance()

    def _fail(self, cause: FailureInfo, slot: SlotId, is_symptom: bool = False) -> None:
        self._owner.fail(cause, slot, is_symptom)

    # --- messages -----------------------------------------------------------------------------------------------------

    def on_message(self, message: SlotMessage, stream_slot: SlotId | None) -> None:
        """Handle a message of whatever slot and attempt.

        Args:
            message: what it says.
            stream_slot: the slot that the control stream belongs to, if the driver knows.
        """
        sender = stream_slot if isinstance(message, OperatorEvent) else message.slot
        is_current = self._run.is_current(message.attempt, sender)
        if isinstance(message, AcknowledgeCheckpoint | DeclineCheckpoint | CoordinatorsSnapshotted):
            # of whatever attempt: files of those that come too late are to be deleted
            self._checkpoints.message(message, is_current)
            if is_current:
                return
        if not is_current:
            self._refuse(message, f"attempt {message.attempt} is over")
        elif isinstance(message, RegisterSlot):
            self._on_register(message)
        elif isinstance(message, SlotReport):
            self._on_report(message)
        elif sender is not None and not self._run.slots.is_live(sender):
            self._refuse(message, f"slot {sender} is not live")
        else:
            self._on_current(message)

    def _on_current(self, message: SlotMessage) -> None:
        match message:
            case Heartbeat():
                self._on_heartbeat(message)
            case ClientOutput(slot, attempt, channel, position, payload):
                self._journal.act(DeliverClientOutput(slot, attempt, channel, position, payload))
            case OperatorEvent():
                if not self._checkpoints.hold(message, self._deliver):
                    self._deliver(message)
            case TaskStateChanged():
                self._on_task_state(message)
            case SlotFailed(failure=failure):
                self._journal.tell(f"slot {message.slot} failed: {failure.message}")
                self._fail(failure, message.slot, is_symptom=failure.task is None)
            case SlotCommitted():
                self._on_committed(message)
            case CheckpointDue():
                self._owner.batch_due()
            case StopDue(slot):
                self._stop_due.add(slot)
                if self._stop_due.issuperset(self._run.slots.live()):
                    self._owner.stop_due()
            case BatchCompleted(checkpoint_id=checkpoint_id, batch=batch):
                self._checkpoints.batch_completed(checkpoint_id, batch)
            case SlotLeaving():
                self._on_leaving(message.slot)

    def _on_register(self, message: RegisterSlot) -> None:
        slot = message.slot
        if not self._run.slots.register(slot, message.pid, message.host, message.data_address, self._journal.now_ms):
            self._refuse(message, f"slot {slot} is unknown, registered already, or given up")
            return
        self._stop_due.discard(slot)
        self._journal.tell(f"slot {slot} registered: pid {message.pid} on {message.host}")
        if self._regions.is_going_down(slot):
            self._run.release((slot,))
        else:
            self._owner.advance()

    def _on_report(self, message: SlotReport) -> None:
        slot, of = message.slot, message.registration
        if not self._run.slots.register(slot, of.pid, of.host, of.data_address, self._journal.now_ms):
            self._refuse(message, f"slot {slot} is unknown, has reported already, or was given up")
            return
        self._journal.tell(f"slot {slot} has come over: pid {of.pid} on {of.host}")
        if self._run.phase is Phase.RECONCILING:
            self._owner.reported(message)
            self._owner.advance()
        else:
            self._run.release((slot,))

    def _on_heartbeat(self, message: Heartbeat) -> None:
        if message.restored_bytes > self._run.restored_bytes.get(message.slot, 0):
            self._regions.prolong_restore(message.slot)
        self._run.heartbeat(message)
        is_working = self._owner.is_working() and self._regions.is_up(message.slot)
        if is_working and 0 < self._options.stall_timeout_ms <= message.stalled_ms:
            # the process answers, but nothing in it will get anywhere, and no checkpoint completes
            call = message.stalled_in
            who = "user code" if call is None or call.in_user_code else "the runtime"
            self._lose(
                message.slot,
                f"{who} has not returned for {message.stalled_ms / 1000:.0f} s, longer than task.stall.timeout allows",
            )

    def _deliver(self, event: OperatorEvent) -> None:
        target = self._run.execution.operator_slot(event.operator_id, event.target_subtask)
        if target is None or not self._run.slots.is_live(target):
            self._refuse(event, f"no live slot hosts subtask {event.target_subtask} of operator {event.operator_id}")
        else:
            self._run.send((target,), DeliverOperatorEvent(event))

    def _on_task_state(self, message: TaskStateChanged) -> None:
        task = self._run.tasks.get(message.task)
        if task is None or task.slot != message.slot:
            self._refuse(message, f"slot {message.slot} does not host {message.task}")
            return
        if not self._run.transition(message.task, message.state):
            self._refuse(message, f"{task.name} cannot go from {task.state.name} to {message.state.name}")
            return
        self._journal.tell(f"{task.name}: {message.state.name}")
        if message.metrics:
            task.metrics = message.metrics
        if message.state is TaskState.FAILED:
            task.failure = message.failure or FailureInfo(f"{task.name} failed", task=task.task, task_name=task.name)
            self._fail(task.failure, task.slot)
        elif message.state is TaskState.FINISHED:
            self._checkpoints.task_finished(task.task)
        elif message.state in (TaskState.CANCELING, TaskState.CANCELED) and not self._regions.is_going_down(task.slot):
            failure = FailureInfo(
                f"{task.name} was cancelled, but nobody had requested it", task=task.task, task_name=task.name
            )
            self._fail(failure, task.slot)
        self._owner.advance()

    def _on_committed(self, message: SlotCommitted) -> None:
        if self._run.phase is not Phase.COMMITTING:
            self._refuse(message, "nothing was to be committed")
            return
        self._journal.tell(f"slot {message.slot} committed")
        self._run.committed.add(message.slot)
        self._owner.advance()

    def _on_leaving(self, slot: SlotId) -> None:
        self._journal.tell(f"slot {slot} left")
        was_expected = self._regions.is_going_down(slot)
        self.give_up(slot, left=True)
        if not was_expected:
            self._fail(FailureInfo(f"slot {slot} left although it was in use", slot=slot), slot)
        self._owner.advance()

    def _refuse(self, message: SlotMessage, why: str) -> None:
        self.refused_messages += 1
        self._journal.tell(f"refused {type(message).__name__}: {why}")
        if isinstance(message, RegisterSlot | SlotReport):
            self._journal.act(RefuseSlot(message.slot, message.attempt, why))
