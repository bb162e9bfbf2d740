"""Slot: one loop that runs the mailboxes of all its tasks in turn, and does what the JobMaster says.

Everything here runs on the loop's thread; network and control transports have threads of their own and only wake the
loop. `step()` never blocks, so that many slots can also be run in one loop (MiniCluster, simulation). Its parts:
SlotTasks (what becomes of the tasks), SlotHost (what they get of the slot), SlotReports (what the JobMaster is told),
SlotSources (coordinators), SlotPeeks (what users see of the rows), SlotStorage, LoopInbox (what other threads want of
the loop) and LoopWatch (what it does).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.state_files import DEFAULT_RETRIES, Retries
from runtime.common.secrets import providing
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, SlotId
from runtime.network.channel import NetworkEnvironment
from runtime.task.control_link import ControlLink, ControlLostError, LeaderChanged
from runtime.task.failures import describe_failure
from runtime.task.loop_inbox import LoopInbox
from runtime.task.memory import memory_metrics
from runtime.task.messages import (
    CancelTasks,
    ClientAck,
    CommitFinished,
    DeliverOperatorEvent,
    Deploy,
    FailureInfo,
    Heartbeat,
    HeartbeatRequest,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifySavepointsFailed,
    OperatorEvent,
    RegisterSlot,
    ReleaseSlot,
    ResyncSources,
    SnapshotCoordinators,
    Start,
    StartPeek,
    StopPeek,
    TriggerCheckpoint,
)
from runtime.task.peeks import SlotPeeks
from runtime.task.processing_time import TimerQueue
from runtime.task.python_files import import_files
from runtime.task.slot_host import SlotHost
from runtime.task.slot_redaction import redaction_of
from runtime.task.slot_reports import SlotReports
from runtime.task.slot_sources import SlotSources
from runtime.task.slot_storage import SlotStorage
from runtime.task.slot_tasks import SlotTasks
from runtime.task.stalls import LoopWatch
from runtime.task.uploads import Uploads, UploadThreads

#: the loop looks up at least this often, whatever it is told; bounds the harm of a lost wake-up
MAX_WAIT_MS = 200.0
METRICS_INTERVAL_MS = 500.0


class Slot:
    """A slot of one attempt of a job.

    Args:
        uploads: writes snapshots to storage; None = threads of its own.
        files: where snapshots are; None = the real file systems.
        retries: of what the storage refuses.
    """

    def __init__(
        self,
        slot: SlotId,
        attempt: Attempt,
        host: str,
        network: NetworkEnvironment,
        control: ControlLink,
        clock: Clock,
        uploads: Uploads | None = None,
        files: CheckpointFileSystem | None = None,
        retries: Retries = DEFAULT_RETRIES,
    ) -> None:
        self.slot_id = slot
        self.attempt = attempt
        self.network = network
        self._clock = clock
        self._control = control
        self._inbox = LoopInbox()
        self._watch = LoopWatch()
        self._timers = TimerQueue(clock)
        self._storage = SlotStorage(slot, attempt, files, retries, self._publish_restored)
        self._released = False
        self._on_release: list[Callable[[], None]] = []
        self._heartbeat_sequence = 0
        self._last_metrics_ms = float("-inf")
        network.set_listener(self._inbox.interrupt)
        control.set_listener(self._inbox.interrupt)
        control.set_watch(self._watch, lambda text: self._reports.redact(text))
        registration = RegisterSlot(slot, attempt, os.getpid(), host, network.address)
        self._reports = SlotReports(control, registration, clock)
        self.client = self._reports.client
        self._sources = SlotSources(slot, self._reports, self._timers, clock)
        self._tasks = SlotTasks(slot, self._reports)
        self._watch.interrupt = self._tasks.interrupt
        self._peeks = SlotPeeks(slot, attempt, self._tasks.all, control, clock)
        self._host = SlotHost(
            attempt,
            clock,
            network,
            self._timers,
            UploadThreads(f"uploads-{slot}") if uploads is None else uploads,
            self._storage,
            self._inbox,
            self._reports,
            self._tasks,
        )

    # --- the loop -----------------------------------------------------------------------------------------------------

    @property
    def is_released(self) -> bool:
        """Return whether the slot is done: nothing will happen any more."""
        return self._released

    def on_wake(self, action: Callable[[], None]) -> None:
        """Call `action` (from any thread) when a task has got mail: for a loop that steps several slots."""
        self._inbox.on_wake(action)

    def awaits_mail(self) -> bool:
        """Return whether a thread is at work for one of the tasks and will post mail."""
        return self._tasks.await_mail()

    def run(self) -> None:
        """Step until released.

        Raises:
            ControlLostError: the JobMaster is gone.
        """
        try:
            while not self._released:
                if self.step():
                    continue
                self._inbox.wait(self.idle_ms())
        except ControlLostError:
            # another process may have taken our place: leave nothing half-written behind
            self._close_all()
            self._storage.close()
            raise

    def step(self) -> bool:
        """Take one turn: messages, timers, one slice of every task. Returns whether anything was done."""
        self._watch.turn()
        busy = self._take_messages()
        if self._released:
            return True
        busy = self._inbox.run() or busy
        busy = self._fire_timers() or busy
        is_congested = not self.client.is_available()
        for task in self._tasks.all:
            self._watch.task = task.task_id
            busy = self._tasks.step(task, is_congested) or busy
        self._watch.task = None
        self._tasks.flush_due(self._clock.monotonic_ms())
        self._check_network()
        self._publish_metrics()
        if self._peeks:
            self._peeks.advance()
        return busy

    def idle_ms(self) -> float:
        """Return how long `step` will have nothing to do if nothing arrives; at most MAX_WAIT_MS."""
        if self._tasks.have_work() and self.client.is_available():
            return 0.0
        if self._inbox or self._tasks.have_checkpoints_to_advance():
            return 0.0
        wait = MAX_WAIT_MS
        timer_ms = self._timers.wait_ms()
        if timer_ms is not None:
            wait = min(wait, timer_ms)
        flush_ms = self._tasks.next_flush_ms()
        if flush_ms is not None:
            wait = min(wait, flush_ms - self._clock.monotonic_ms())
        return max(0.0, wait)

    def _fire_timers(self) -> bool:
        fired = False
        due = self._timers.pop_due()
        while due is not None:
            at_ms, callback = due
            callback(at_ms)
            fired = True
            due = self._timers.pop_due()
        return fired

    def _check_network(self) -> None:
        for failure in self.network.poll_failures():
            if not self._tasks.have_ended():
                info = FailureInfo(f"connection broken: {failure.cause}", slot=self.slot_id)
                self._reports.slot_failed(info)

    def _publish_metrics(self) -> None:
        now = self._clock.monotonic_ms()
        if now - self._last_metrics_ms < METRICS_INTERVAL_MS:
            return
        self._last_metrics_ms = now
        memory = memory_metrics()
        metrics = {task: values | memory for task, values in self._tasks.metrics().items()}
        self._control.publish(
            Heartbeat(
                self.slot_id,
                self.attempt,
                self._heartbeat_sequence,
                metrics,
                restored_bytes=self._storage.restored_bytes,
            )
        )

    def _publish_restored(self, restored_bytes: int) -> None:
        """Tell the progress; any thread. The loop publishes nothing until all is restored."""
        self._control.publish(Heartbeat(self.slot_id, self.attempt, 0, {}, restored_bytes=restored_bytes))

    # --- messages -----------------------------------------------------------------------------------------------------

    def _take_messages(self) -> bool:
        taken = False
        message = self._control.poll()
        while message is not None:
            taken = True
            self._handle(message)
            if self._released:
                break
            message = self._control.poll()
        return taken

    def _handle(self, message: JobMasterMessage | LeaderChanged) -> None:
        match message:
            case LeaderChanged():
                self._host.jobmaster_time.forget()
                self._reports.tell_all(self._tasks.metrics())
            case ResyncSources():
                self._sources.resync()
                self._tasks.resync()
            case Deploy():
                self._watch.is_excused = True
                self._deploy(message)
                self._watch.is_excused = False
            case Start(peers):
                self.network.connect(peers)
                self._tasks.start()
            case CancelTasks():
                self._tasks.cancel()
            case SnapshotCoordinators(checkpoint_id):
                self._reports.ledger.heard_of(checkpoint_id)
                self._sources.snapshot(checkpoint_id)
            case TriggerCheckpoint(checkpoint_id, timestamp_ms, checkpoint_options):
                self._host.jobmaster_time.heard(timestamp_ms)
                self._reports.ledger.triggered(checkpoint_id, checkpoint_options)
                self._tasks.trigger(CheckpointBarrier(checkpoint_id, timestamp_ms, checkpoint_options))
            case NotifyCheckpointComplete(checkpoint_id):
                # a new JobMaster tells everybody again
                if self._reports.ledger.completed(checkpoint_id):
                    self._tasks.notify(lambda task: task.checkpoint_complete(checkpoint_id))
            case NotifyCheckpointAborted(checkpoint_id):
                self._reports.ledger.aborted(checkpoint_id)
                self._tasks.notify(lambda task: task.checkpoint_aborted(checkpoint_id))
            case NotifySavepointsFailed(savepoints):
                self._tasks.notify(lambda task: task.savepoints_failed(savepoints))
            case CommitFinished():
                self._tasks.commit()
            case ReleaseSlot(is_over):
                if is_over:
                    self._tasks.job_finished()
                self.release()
            case ClientAck(channel, position):
                self.client.acknowledge(channel, position)
            case HeartbeatRequest(sequence, sent_ms):
                self._heartbeat_sequence = sequence
                self._host.jobmaster_time.heard(sent_ms)
            case DeliverOperatorEvent(event):
                self._deliver(event)
            case StartPeek():
                self._peeks.start(message, self._host.configuration, self._reports.redact)
            case StopPeek(peek_id):
                self._peeks.stop(peek_id)

    def _deliver(self, event: OperatorEvent) -> None:
        if event.target_subtask is None:
            self._sources.deliver(event)
        else:
            self._tasks.deliver(event)

    def _deploy(self, deploy: Deploy) -> None:
        self._host.deployed(deploy)
        if deploy.stopped_by is not None:
            self._reports.ledger.deployed_to_stop(deploy.stopped_by)
        self._reports.redact = self.client.redact = redaction_of(deploy.secrets)
        with providing(deploy.secrets):
            if self._can_import() and self._sources.create(deploy):
                self._tasks.create(deploy.tasks, self._host)
            else:
                self._tasks.cannot_be_made(deploy.tasks)

    def _can_import(self) -> bool:
        """Make the program's files importable; False: the slot has failed."""
        try:
            import_files(self._host.configuration)
        except Exception as error:
            self._reports.slot_failed(describe_failure(error, slot=self.slot_id))
            return False
        return True

    # --- ending -------------------------------------------------------------------------------------------------------

    def on_release(self, action: Callable[[], None]) -> None:
        """Call `action` when the slot leaves, while it can still send."""
        self._on_release.append(action)

    def release(self) -> None:
        """Close everything and say good-bye; idempotent."""
        if self._released:
            return
        self._released = True
        self._peeks.close()
        self._close_all()
        self._storage.close()
        self.network.close()
        for action in self._on_release:
            action()
        self._reports.leaving()

    def _close_all(self) -> None:
        self._host.uploads.close()
        self._tasks.close()
        self._sources.close()
