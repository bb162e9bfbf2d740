"""Slot: one loop that runs the mailboxes of all its tasks in turn, and talks to the JobMaster.

Everything here runs on the loop's thread; network and control transports have threads of their own and only wake the
loop. `step()` never blocks, so that many slots can also be run in one loop (MiniCluster, simulation).
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.state_files import (
    DEFAULT_RETRIES,
    Retries,
    TaskStateReader,
    TaskStateWriter,
)
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.secrets import Redaction, providing
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId, TaskId
from runtime.network.channel import NetworkEnvironment
from runtime.task.control_link import ControlLink, ControlLostError, LeaderChanged
from runtime.task.failures import describe_failure, describe_task_failure
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
    StalledCall,
    Start,
    TaskDeployment,
    TaskState,
    TriggerCheckpoint,
)
from runtime.task.operator_chain import OperatorChain
from runtime.task.processing_time import TimerQueue
from runtime.task.python_files import add_to_python_path
from runtime.task.slot_reports import SlotReports
from runtime.task.slot_sources import SlotSources
from runtime.task.slot_storage import SlotStorage
from runtime.task.stalls import StackSampler
from runtime.task.task import Task
from runtime.task.time_accounting import Activity
from runtime.task.uploads import Uploads, UploadThreads

logger = logging.getLogger(__name__)

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
        self.clock = clock
        self.network = network
        self.timers = TimerQueue(clock)
        self.configuration = Configuration()
        self.job_parameters: dict[str, str] = {}
        self.uploads: Uploads = UploadThreads(f"uploads-{slot}") if uploads is None else uploads
        self.keeps_finished_open = False
        self.only_ends = False
        self.pass_number = 0
        self.job_id = ""
        self._storage = SlotStorage(slot, attempt, files, retries, self._publish_restored)
        #: actions that other threads have for the loop's thread; anyone appends, the loop takes
        self._posted: deque[Callable[[], None]] = deque()
        self._control = control
        self._tasks: list[Task] = []
        #: tasks that were never made because the slot failed before
        self._not_made: list[TaskId] = []
        self._released = False
        self._on_release: list[Callable[[], None]] = []
        self._heartbeat_sequence = 0
        self._last_metrics_ms = float("-inf")
        self._wakeup = threading.Event()
        self._on_wake: Callable[[], None] | None = None
        #: written by the loop's thread, read by the control link's when a stall is looked into
        self._loop_thread = threading.get_ident()
        self._current: TaskId | None = None
        self._stacks = StackSampler()
        self._is_deploying = False
        network.set_listener(self._wakeup.set)
        control.set_listener(self._wakeup.set)
        control.set_stall_probe(self.stalled_call)
        registration = RegisterSlot(slot, attempt, os.getpid(), host, network.address)
        self._reports = SlotReports(control, registration, clock)
        self.client = self._reports.client
        self._sources = SlotSources(slot, self._reports, self.timers, clock)

    # --- the loop -----------------------------------------------------------------------------------------------------

    @property
    def is_released(self) -> bool:
        """Return whether the slot is done: nothing will happen any more."""
        return self._released

    def wake(self) -> None:
        """Have the loop look at its tasks; any thread."""
        self._wakeup.set()
        if self._on_wake is not None:
            self._on_wake()

    def on_wake(self, action: Callable[[], None]) -> None:
        """Call `action` (from any thread) when a task has got mail: for a loop that steps several slots."""
        self._on_wake = action

    def stalled_call(self) -> StalledCall | None:
        """Return what the loop does right now; None while tasks are made, which may take long. Any thread."""
        if self._is_deploying:
            return None
        stack = self._stacks.sample(self._loop_thread)
        return StalledCall(self._current, stack.text, stack.in_user_code)

    def awaits_mail(self) -> bool:
        """Return whether a thread is at work for one of the tasks and will post mail."""
        return any(task.awaits_mail() or task.checkpoints.is_uploading for task in self._tasks)

    def run(self) -> None:
        """Step until released.

        Raises:
            ControlLostError: the JobMaster is gone.
        """
        try:
            while not self._released:
                if self.step():
                    continue
                self._wakeup.wait(self.idle_ms() / 1000.0)
                self._wakeup.clear()
        except ControlLostError:
            # another process may have taken our place: leave nothing half-written behind
            self._close_all()
            self._storage.close()
            raise

    def step(self) -> bool:
        """Take one turn: messages, timers, one slice of every task. Returns whether anything was done."""
        self._loop_thread = threading.get_ident()
        busy = self._take_messages()
        if self._released:
            return True
        busy = self._run_posted() or busy
        busy = self._fire_timers() or busy
        congested = not self.client.is_available()
        for task in self._tasks:
            self._current = task.task_id
            if task.checkpoints.is_active:
                busy = self._advance_checkpoints(task) or busy
            if task.state is not TaskState.RUNNING:
                continue
            if congested:
                task.time.switch(Activity.BACK_PRESSURED)
            else:
                busy = self._step_task(task) or busy
        self._current = None
        self._flush_due()
        self._check_network()
        self._publish_metrics()
        return busy

    def idle_ms(self) -> float:
        """Return how long `step` will have nothing to do if nothing arrives; at most MAX_WAIT_MS."""
        if any(task.has_work() for task in self._tasks) and self.client.is_available():
            return 0.0
        if self._posted or any(task.checkpoints.has_work() for task in self._tasks):
            return 0.0
        wait = MAX_WAIT_MS
        timer_ms = self.timers.wait_ms()
        if timer_ms is not None:
            wait = min(wait, timer_ms)
        running = [task for task in self._tasks if task.state is TaskState.RUNNING]
        flushes = [at for at in (task.next_flush_ms() for task in running) if at is not None]
        if flushes:
            wait = min(wait, min(flushes) - self.clock.monotonic_ms())
        return max(0.0, wait)

    def _step_task(self, task: Task) -> bool:
        try:
            worked = task.step()
        except Exception as error:
            self.task_failed(task, error)
            return True
        if task.state is TaskState.FINISHED:
            self._report(task)
        return worked

    def _advance_checkpoints(self, task: Task) -> bool:
        try:
            return task.advance_checkpoints()
        except Exception as error:
            self.task_failed(task, error)
            return True

    def _run_posted(self) -> bool:
        ran = False
        # those that are there now: what they bring about comes in the next step
        for _ in range(len(self._posted)):
            self._posted.popleft()()
            ran = True
        return ran

    def _fire_timers(self) -> bool:
        fired = False
        due = self.timers.pop_due()
        while due is not None:
            at_ms, callback = due
            callback(at_ms)
            fired = True
            due = self.timers.pop_due()
        return fired

    def _flush_due(self) -> None:
        now_ms = self.clock.monotonic_ms()
        for task in self._tasks:
            if task.state is TaskState.RUNNING:
                task.flush_due(now_ms)

    def _check_network(self) -> None:
        for failure in self.network.poll_failures():
            if self._tasks and not all(task.state.is_terminal for task in self._tasks):
                info = FailureInfo(f"connection broken: {failure.cause}", slot=self.slot_id)
                self._reports.slot_failed(info)

    def _publish_metrics(self) -> None:
        now = self.clock.monotonic_ms()
        if now - self._last_metrics_ms < METRICS_INTERVAL_MS:
            return
        self._last_metrics_ms = now
        memory = memory_metrics()
        metrics = {task.task_id: task.metrics() | memory for task in self._tasks}
        self._control.publish(
            Heartbeat(
                self.slot_id,
                self.attempt,
                self._heartbeat_sequence,
                metrics,
                restored_bytes=self._storage.restored_bytes,
            )
        )

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
                self._reports.tell_all({task.task_id: task.metrics() for task in self._tasks})
            case ResyncSources():
                self._resync_sources()
            case Deploy():
                self._is_deploying = True
                self._deploy(message)
                self._is_deploying = False
            case Start():
                self._start(message)
            case CancelTasks():
                self._cancel()
            case SnapshotCoordinators(checkpoint_id):
                self._reports.ledger.heard_of(checkpoint_id)
                self._sources.snapshot(checkpoint_id)
            case TriggerCheckpoint(checkpoint_id, timestamp_ms, checkpoint_options):
                self._reports.ledger.triggered(checkpoint_id, checkpoint_options)
                self._trigger(CheckpointBarrier(checkpoint_id, timestamp_ms, checkpoint_options))
            case NotifyCheckpointComplete(checkpoint_id):
                # a new JobMaster tells everybody again
                if self._reports.ledger.completed(checkpoint_id):
                    self._notify(lambda task: task.checkpoint_complete(checkpoint_id))
            case NotifyCheckpointAborted(checkpoint_id):
                self._reports.ledger.aborted(checkpoint_id)
                self._notify(lambda task: task.checkpoint_aborted(checkpoint_id))
            case NotifySavepointsFailed(savepoints):
                self._notify(lambda task: task.savepoints_failed(savepoints))
            case CommitFinished():
                self._commit()
            case ReleaseSlot(is_over):
                if is_over:
                    self._finish_job()
                self.release()
            case ClientAck(channel, position):
                self.client.acknowledge(channel, position)
            case HeartbeatRequest(sequence):
                self._heartbeat_sequence = sequence
            case DeliverOperatorEvent(event):
                self._deliver(event)

    def _deploy(self, deploy: Deploy) -> None:
        self.configuration = Configuration.from_dict(dict(deploy.configuration))
        self.job_parameters = dict(deploy.job_parameters)
        self.job_id = deploy.job_id
        self._storage.open(self.configuration, deploy.job_id)
        settings = CheckpointSettings.from_configuration(self.configuration)
        self.keeps_finished_open = settings.after_tasks_finish
        if deploy.stopped_by is not None:
            self.only_ends = True
            self._reports.ledger.deployed_to_stop(deploy.stopped_by)
        if deploy.secrets:
            self._reports.redact = self.client.redact = Redaction(deploy.secrets)
        with providing(deploy.secrets):
            self._create_all(deploy)

    def _create_all(self, deploy: Deploy) -> None:
        try:
            add_to_python_path((self.configuration.get(options.PYTHON_FILES) or "").split(","))
        except Exception as error:
            self._reports.slot_failed(describe_failure(error, slot=self.slot_id))
            is_ready = False
        else:
            is_ready = self._sources.create(deploy)
        if not is_ready:
            self._not_made = [deployment.task for deployment in deploy.tasks]
            return
        for deployment in deploy.tasks:
            self._create_task(deployment)

    def _create_task(self, deployment: TaskDeployment) -> None:
        try:
            task = Task(deployment, self)
        except Exception as error:
            failure = describe_failure(error, task=deployment.task, slot=self.slot_id)
            self._reports.task_state(deployment.task, TaskState.FAILED, failure)
            return
        self._tasks.append(task)
        try:
            task.initialize()
        except Exception as error:
            self.task_failed(task, error)
            return
        self._report(task)

    def _start(self, start: Start) -> None:
        self.network.connect(start.peers)
        for task in self._tasks:
            if task.state is TaskState.INITIALIZING:
                task.state = TaskState.RUNNING
                self._report(task)

    def _cancel(self) -> None:
        for task in self._tasks:
            if not task.state.is_terminal:
                task.state = TaskState.CANCELED
                self._close(task, after_failure=True)
                self._report(task)
        # the JobMaster waits for these too
        for not_made in self._not_made:
            self._reports.task_state(not_made, TaskState.CANCELED)
        self._not_made = []

    def _commit(self) -> None:
        if self._reports.has_committed:
            # the JobMaster that it was told to is gone
            self._reports.committed()
            return
        # what a user's close() raises must fail the job before anything becomes visible
        for step in (OperatorChain.close_finished, OperatorChain.commit_finished):
            for task in self._tasks:
                try:
                    step(task.chain)
                except Exception as error:
                    info = describe_task_failure(error, task, self.slot_id)
                    self._reports.slot_failed(info)
                    return
        self._reports.committed()

    def _finish_job(self) -> None:
        for task in self._tasks:
            try:
                task.chain.job_finished()
            except Exception:
                # all of the result is visible; what is left over harms nobody
                logger.warning("task %s was not cleaned up completely", task.name, exc_info=True)

    def _deliver(self, event: OperatorEvent) -> None:
        if event.target_subtask is None:
            self._sources.deliver(event)
            return
        payload = pickle.loads(event.payload)
        for task in self._tasks:
            if task.task_id.subtask_index == event.target_subtask and task.hosts(event.operator_id):
                if not task.state.is_terminal:
                    try:
                        task.handle_event(event.operator_id, payload)
                    except Exception as error:
                        self.task_failed(task, error)
                return

    def send_to_coordinator(self, operator_id: OperatorId, subtask_index: int, payload: bytes) -> None:
        """Send an operator's event to its coordinator, wherever that is."""
        self._reports.operator_event(operator_id, None, subtask_index, payload)

    def _resync_sources(self) -> None:
        self._sources.resync()
        for task in self._tasks:
            if not task.state.is_terminal:
                task.resync_source()

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _trigger(self, barrier: CheckpointBarrier) -> None:
        for task in self._tasks:
            was_finished = task.state is TaskState.FINISHED
            try:
                task.trigger_checkpoint(barrier)
            except Exception as error:
                if was_finished:
                    self.decline(task.task_id, barrier.checkpoint_id, error)
                else:
                    self.task_failed(task, error)
                continue
            if task.state is TaskState.FINISHED and not was_finished:
                self._report(task)
        for not_made in self._not_made:
            never = RuntimeError("the task was never created")
            self.decline(not_made, barrier.checkpoint_id, never, counts_as_failure=False)

    def _notify(self, tell: Callable[[Task], None]) -> None:
        for task in self._tasks:
            try:
                tell(task)
            except Exception as error:
                if task.state is TaskState.FINISHED:
                    info = describe_task_failure(error, task, self.slot_id)
                    self._reports.slot_failed(info)
                else:
                    self.task_failed(task, error)

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None:
        """Tell the JobMaster that a task's part of a checkpoint is stored."""
        self._reports.acknowledge(task, checkpoint_id, state, metrics)

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None:
        """Tell the JobMaster that a task takes no part in a checkpoint."""
        name = next((known.name for known in self._tasks if known.task_id == task), "")
        info = describe_failure(error, task=task, task_name=name, slot=self.slot_id)
        self._reports.decline(task, checkpoint_id, info, counts_as_failure)

    def post(self, action: Callable[[], None]) -> None:
        """Have the loop's thread run `action` in its next turn; any thread."""
        self._posted.append(action)
        self.wake()

    def state_writer(self, options: CheckpointOptions, checkpoint_id: CheckpointId, task: str) -> TaskStateWriter:
        """Return a writer for a task's files of a checkpoint."""
        return self._storage.writer(options, checkpoint_id, task)

    def state_reader(self, location: str | None) -> TaskStateReader:
        """Return a verifying reader for files of the checkpoint or savepoint in a directory."""
        return self._storage.reader(location)

    @property
    def state_compression(self) -> str:
        """Return the codec of snapshots."""
        return self._storage.compression

    def working_directory(self) -> Path:
        """Return the local directory, which exists for as long as the slot lives."""
        return self._storage.working_directory()

    def _publish_restored(self, restored_bytes: int) -> None:
        """Tell the progress; any thread. The loop publishes nothing until all is restored."""
        self._control.publish(Heartbeat(self.slot_id, self.attempt, 0, {}, restored_bytes=restored_bytes))

    # --- ending -------------------------------------------------------------------------------------------------------

    def task_failed(self, task: Task, error: Exception) -> None:
        """Fail a task: close it and tell the JobMaster why."""
        if task.state.is_terminal:
            return
        task.state = TaskState.FAILED
        failure = describe_task_failure(error, task, self.slot_id)
        self._close(task, after_failure=True)
        self._report(task, failure)

    def _close(self, task: Task, after_failure: bool) -> None:
        try:
            task.close(after_failure)
        except Exception as error:
            info = describe_task_failure(error, task, self.slot_id)
            self._reports.slot_failed(info)

    def _report(self, task: Task, failure: FailureInfo | None = None) -> None:
        final = task.metrics() if task.state.is_terminal else {}
        self._reports.task_state(task.task_id, task.state, failure, final)

    def on_release(self, action: Callable[[], None]) -> None:
        """Call `action` when the slot leaves, while it can still send."""
        self._on_release.append(action)

    def release(self) -> None:
        """Close everything and say good-bye; idempotent."""
        if self._released:
            return
        self._released = True
        self._close_all()
        self._storage.close()
        self.network.close()
        for action in self._on_release:
            action()
        self._reports.leaving()

    def _close_all(self) -> None:
        self.uploads.close()
        for task in self._tasks:
            # a task that failed or was cancelled is closed already; one that finished still holds its operators
            if task.state in (TaskState.FINISHED, TaskState.RUNNING, TaskState.INITIALIZING):
                self._close(task, after_failure=task.state is not TaskState.FINISHED)
        self._sources.close()
