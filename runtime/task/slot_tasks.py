"""SlotTasks: the tasks of a slot: what they are told, and what becomes of each of them. The loop's thread only.

Whatever a task raises is its failure: the task is closed, and the JobMaster is told. Where a task has finished before,
it is the slot's.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Mapping

from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId, SlotId, TaskId
from runtime.task.failures import describe_failure, describe_task_failure
from runtime.task.messages import FailureInfo, OperatorEvent, TaskDeployment, TaskState
from runtime.task.operator_chain import OperatorChain
from runtime.task.running_task import AsTask
from runtime.task.slot_reports import SlotReports
from runtime.task.task import SlotServices, Task
from runtime.task.time_accounting import Activity

logger = logging.getLogger(__name__)


class SlotTasks:
    """Tasks of one slot.

    Args:
        slot: whose they are.
        reports: to the JobMaster.
    """

    def __init__(self, slot: SlotId, reports: SlotReports) -> None:
        #: those that were made, in topological order
        self.all: list[Task] = []
        self._slot_id = slot
        self._reports = reports
        #: tasks that were never made because the slot failed before
        self._not_made: list[TaskId] = []

    @property
    def _running(self) -> Iterable[Task]:
        return (task for task in self.all if task.state is TaskState.RUNNING)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def step(self, task: Task, is_congested: bool) -> bool:
        """Advance a task's checkpoints, then let it do one slice of work; returns whether anything was done.

        Args:
            task: one of these.
            is_congested: whether nothing may be done that is printed.
        """
        with AsTask(task.task_id):
            advanced = task.checkpoints.is_active and self._guarded(task, task.advance_checkpoints)
            if task.state is not TaskState.RUNNING:
                return advanced
            if is_congested:
                task.time.switch(Activity.BACK_PRESSURED)
                return advanced
            return self._work(task) or advanced

    def _work(self, task: Task) -> bool:
        worked = self._guarded(task, task.step)
        if task.state is TaskState.FINISHED:
            self._report(task)
        return worked

    def _guarded(self, task: Task, action: Callable[[], bool]) -> bool:
        try:
            return action()
        except Exception as error:
            self.failed(task, error)
            return True

    def flush_due(self, now_ms: float) -> None:
        """Send what has waited for the buffer timeout; `now_ms` is monotonic."""
        for task in self._running:
            task.flush_due(now_ms)

    def next_flush_ms(self) -> float | None:
        """Return when `flush_due` has something to do, monotonic ms."""
        return min((at for at in (task.next_flush_ms() for task in self._running) if at is not None), default=None)

    def have_work(self) -> bool:
        """Return whether a step would do something now, unless it is congested."""
        return any(task.has_work() for task in self.all)

    def have_checkpoints_to_advance(self) -> bool:
        """Return whether a step would do something now, even if it is congested."""
        return any(task.checkpoints.has_work() for task in self.all)

    def await_mail(self) -> bool:
        """Return whether a thread is at work for one of the tasks and will post mail."""
        return any(task.awaits_mail() or task.checkpoints.is_uploading for task in self.all)

    def have_ended(self) -> bool:
        """Return whether there are none that go on."""
        return all(task.state.is_terminal for task in self.all)

    def metrics(self) -> Mapping[TaskId, dict[str, object]]:
        """Return the metrics of each."""
        return {task.task_id: task.metrics() for task in self.all}

    # --- their life ---------------------------------------------------------------------------------------------------

    def create(self, deployments: Iterable[TaskDeployment], services: SlotServices) -> None:
        """Make the tasks, restore and open them; one that cannot be is reported as failed."""
        for deployment in deployments:
            self._create(deployment, services)

    def _create(self, deployment: TaskDeployment, services: SlotServices) -> None:
        try:
            with AsTask(deployment.task):
                task = Task(deployment, services)
        except Exception as error:
            failure = describe_failure(error, task=deployment.task, slot=self._slot_id)
            self._reports.task_state(deployment.task, TaskState.FAILED, failure)
            return
        self.all.append(task)
        try:
            with AsTask(task.task_id):
                task.initialize()
        except Exception as error:
            self.failed(task, error)
            return
        self._report(task)

    def cannot_be_made(self, deployments: Iterable[TaskDeployment]) -> None:
        """Note that the slot has failed before any of them."""
        self._not_made = [deployment.task for deployment in deployments]

    def start(self) -> None:
        """Have those run that are made."""
        for task in self.all:
            if task.state is TaskState.INITIALIZING:
                task.state = TaskState.RUNNING
                self._report(task)

    def interrupt(self) -> None:
        """Have what they wait for end: they are cancelled next. Any thread."""
        for task in list(self.all):
            for operator in list(task.chain.operators):
                try:
                    operator.interrupt()
                except Exception:
                    logger.exception("operator of task %s cannot be interrupted", task.task_id)

    def cancel(self) -> None:
        """End those that have not ended."""
        for task in self.all:
            if not task.state.is_terminal:
                task.state = TaskState.CANCELED
                self._close(task, after_failure=True)
                self._report(task)
        # the JobMaster waits for these too
        for not_made in self._not_made:
            self._reports.task_state(not_made, TaskState.CANCELED)
        self._not_made = []

    def commit(self) -> None:
        """Commit what all of them have written, and say so; or say what failed."""
        if self._reports.has_committed:
            # the JobMaster that it was told to is gone
            self._reports.committed()
            return
        # what a user's close() raises must fail the job before anything becomes visible
        for step in (OperatorChain.close_finished, OperatorChain.commit_finished):
            for task in self.all:
                try:
                    with AsTask(task.task_id):
                        step(task.chain)
                except Exception as error:
                    self._reports.slot_failed(describe_task_failure(error, task, self._slot_id))
                    return
        self._reports.committed()

    def job_finished(self) -> None:
        """Clean up what was kept until everybody had committed."""
        for task in self.all:
            try:
                with AsTask(task.task_id):
                    task.chain.job_finished()
            except Exception:
                # all of the result is visible; what is left over harms nobody
                logger.warning("task %s was not cleaned up completely", task.name, exc_info=True)

    def failed(self, task: Task, error: Exception) -> None:
        """Fail a task: close it and tell the JobMaster why."""
        if task.state.is_terminal:
            return
        task.state = TaskState.FAILED
        failure = describe_task_failure(error, task, self._slot_id)
        self._close(task, after_failure=True)
        self._report(task, failure)

    def close(self) -> None:
        """Release what they hold."""
        for task in self.all:
            # a task that failed or was cancelled is closed already; one that finished still holds its operators
            if task.state in (TaskState.FINISHED, TaskState.RUNNING, TaskState.INITIALIZING):
                self._close(task, after_failure=task.state is not TaskState.FINISHED)

    def _close(self, task: Task, after_failure: bool) -> None:
        try:
            with AsTask(task.task_id):
                task.close(after_failure)
        except Exception as error:
            self._reports.slot_failed(describe_task_failure(error, task, self._slot_id))

    def _report(self, task: Task, failure: FailureInfo | None = None) -> None:
        final = task.metrics() if task.state.is_terminal else {}
        self._reports.task_state(task.task_id, task.state, failure, final)

    # --- sources ------------------------------------------------------------------------------------------------------

    def deliver(self, event: OperatorEvent) -> None:
        """Give a reader its coordinator's event; dropped if it has ended."""
        payload = pickle.loads(event.payload)
        for task in self.all:
            if task.task_id.subtask_index == event.target_subtask and task.hosts(event.operator_id):
                if not task.state.is_terminal:
                    try:
                        with AsTask(task.task_id):
                            task.handle_event(event.operator_id, payload)
                    except Exception as error:
                        self.failed(task, error)
                return

    def resync(self) -> None:
        """Have readers find out what was lost between them and their coordinators."""
        for task in self.all:
            if not task.state.is_terminal:
                task.resync_source()

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def trigger(self, barrier: CheckpointBarrier) -> None:
        """Begin a checkpoint."""
        for task in self.all:
            was_finished = task.state is TaskState.FINISHED
            try:
                with AsTask(task.task_id):
                    task.trigger_checkpoint(barrier)
            except Exception as error:
                if was_finished:
                    self.decline(task.task_id, barrier.checkpoint_id, error)
                else:
                    self.failed(task, error)
                continue
            if task.state is TaskState.FINISHED and not was_finished:
                self._report(task)
        for not_made in self._not_made:
            never = RuntimeError("the task was never created")
            self.decline(not_made, barrier.checkpoint_id, never, counts_as_failure=False)

    def notify(self, tell: Callable[[Task], None]) -> None:
        """Tell each of them how a checkpoint has ended."""
        for task in self.all:
            try:
                with AsTask(task.task_id):
                    tell(task)
            except Exception as error:
                if task.state is TaskState.FINISHED:
                    self._reports.slot_failed(describe_task_failure(error, task, self._slot_id))
                else:
                    self.failed(task, error)

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None:
        """Tell the JobMaster that a task takes no part in a checkpoint."""
        name = next((known.name for known in self.all if known.task_id == task), "")
        info = describe_failure(error, task=task, task_name=name, slot=self._slot_id)
        self._reports.decline(task, checkpoint_id, info, counts_as_failure)
