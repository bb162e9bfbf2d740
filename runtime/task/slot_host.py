"""SlotHost: what the tasks of a slot know of their job, and what the slot does for them.

The loop's thread only, but for `post` and `wake`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter
from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.references import all_filled
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.clock import Clock
from runtime.core.ids import Attempt, CheckpointId, OperatorId, TaskId
from runtime.network.channel import NetworkEnvironment
from runtime.operators.operator import ClientChannel
from runtime.task.jobmaster_time import JobMasterTime
from runtime.task.loop_inbox import LoopInbox
from runtime.task.messages import Deploy
from runtime.task.peek_values import PeekedValues
from runtime.task.processing_time import TimerQueue
from runtime.task.slot_reports import SlotReports
from runtime.task.slot_storage import SlotStorage
from runtime.task.slot_tasks import SlotTasks
from runtime.task.task import Task
from runtime.task.uploads import Uploads


class SlotHost:
    """The services of one slot. Implements SlotServices.

    Args:
        attempt: of the job.
        clock: of the loop.
        network: has the channels.
        timers: of the loop.
        uploads: writes snapshots to storage.
        storage: where state is.
        inbox: of the loop.
        reports: to the JobMaster.
        tasks: those that this is for; told which of them fail.
    """

    def __init__(
        self,
        attempt: Attempt,
        clock: Clock,
        network: NetworkEnvironment,
        timers: TimerQueue,
        uploads: Uploads,
        storage: SlotStorage,
        inbox: LoopInbox,
        reports: SlotReports,
        tasks: SlotTasks,
    ) -> None:
        self.attempt = attempt
        self.clock = clock
        self.network = network
        self.timers = timers
        self.jobmaster_time = JobMasterTime(clock)
        self.uploads = uploads
        self.configuration = Configuration()
        self.job_parameters: dict[str, str] = {}
        self.job_id = ""
        self.pass_number = 0
        self.keeps_finished_open = False
        self.only_ends = False
        self._storage = storage
        self._inbox = inbox
        self._reports = reports
        self._tasks = tasks

    def deployed(self, deploy: Deploy) -> None:
        """Take the settings of the job, before its tasks are made."""
        self.configuration = Configuration.from_dict(dict(deploy.configuration))
        self.job_parameters = all_filled(deploy.job_parameters, deploy.secrets)
        self.job_id = deploy.job_id
        self._storage.open(self.configuration, deploy.job_id)
        self.keeps_finished_open = CheckpointSettings.from_configuration(self.configuration).after_tasks_finish
        self.only_ends = deploy.stopped_by is not None

    @property
    def client(self) -> ClientChannel:
        return self._reports.client

    def row_values(self) -> PeekedValues | None:
        """Return what makes rows of the job JSON for those who look; None: nobody may see any."""
        if not self.configuration.get(options.PEEK_ENABLED):
            return None
        # the secrets of the job are known by the time that a row is shown
        return PeekedValues.of_job(self.configuration, lambda text: self._reports.redact(text))

    def wake(self) -> None:
        """Have the loop look at its tasks; any thread."""
        self._inbox.wake()

    def post(self, action: Callable[[], None]) -> None:
        """Have the loop's thread run `action` in its next turn; any thread."""
        self._inbox.post(action)

    def send_to_coordinator(self, operator_id: OperatorId, subtask_index: int, payload: bytes) -> None:
        """Send an operator's event to its coordinator, wherever that is."""
        self._reports.operator_event(operator_id, None, subtask_index, payload)

    def task_failed(self, task: Task, error: Exception) -> None:
        """Fail a task: close it and tell the JobMaster why."""
        self._tasks.failed(task, error)

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def acknowledge(
        self, task: TaskId, checkpoint_id: CheckpointId, state: TaskStateHandle, metrics: CheckpointMetrics
    ) -> None:
        """Tell the JobMaster that a task's part of a checkpoint is stored."""
        self._reports.acknowledge(task, checkpoint_id, state, metrics)

    def decline(
        self, task: TaskId, checkpoint_id: CheckpointId, error: Exception, counts_as_failure: bool = True
    ) -> None:
        """Tell the JobMaster that a task takes no part in a checkpoint."""
        self._tasks.decline(task, checkpoint_id, error, counts_as_failure)

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
