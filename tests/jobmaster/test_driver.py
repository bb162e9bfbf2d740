"""JobMasterDriver: whatever breaks a JobMaster ends its job, with the error as the cause, and leaves nobody waiting."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, get_args

import pytest

from runtime.checkpoint.messages import ForgetDamaged, StoreCheckpoint
from runtime.common import Configuration, Types
from runtime.connectors import PrintSink
from runtime.core.ids import Attempt, SlotId
from runtime.datastream import StreamExecutionEnvironment
from runtime.execution.application import JobHandle, submit
from runtime.execution.errors import JobExecutionError
from runtime.jobmaster.actions import AdoptSlots, JobMasterAction, SendToSlot, SlotProcess, StopWanted
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.driver import JobMasterDriver, JobRequestError
from runtime.jobmaster.events import SlotLost, SlotMessageReceived
from runtime.jobmaster.execution_graph import ExecutionGraph, Region
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.jobmaster.slot_provider import SlotProvider
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.task.messages import (
    Deploy,
    FailureInfo,
    JobMasterMessage,
    RegisterSlot,
    StopDue,
    TaskState,
    TaskStateChanged,
)
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import graph
from tests.execution.jobs import ticks
from tests.job_runs import record_run
from tests.support.waiting import wait_until

WAIT_S = 20.0
#: but for what only the JobMaster of another leader's job does, see the test of that
ACTIONS = [action for action in get_args(JobMasterAction) if action is not AdoptSlots]


class BrokenError(Exception):
    """An unforeseen error of an action."""


def started(directory: Path) -> JobHandle:
    """A job that prints and takes checkpoints, until it is cancelled."""
    configuration = Configuration.from_dict(
        {
            "execution.target": "mini-cluster",
            "execution.checkpointing.interval": "20 ms",
            "execution.checkpointing.dir": directory.as_uri(),
            "execution.checkpointing.num-retained": "2",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 s",
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    ticks(env, 200.0).map(str, Types.STRING()).sink_to(PrintSink())
    record_run("mini-cluster")
    return submit(env.create_job_graph("ticks"))


def is_restoring(sent: SendToSlot) -> bool:
    """Return whether a slot is told to restore a checkpoint."""
    return isinstance(sent.message, Deploy) and sent.attempt > 0


def damage_found(deployment: SendToSlot) -> TaskStateChanged:
    """Return the message of a task that cannot read what it is to restore."""
    assert isinstance(deployment.message, Deploy)
    slot, attempt, task = deployment.slot, deployment.attempt, deployment.message.tasks[0].task
    failure = FailureInfo("sha256 does not match", task=task, slot=slot, is_damaged_snapshot=True)
    return TaskStateChanged(slot, attempt, task, TaskState.FAILED, failure)


def lead_through_every_action(handle: JobHandle) -> None:
    """Have the JobMaster do all that it can do; it may break on the way, and nobody waits for it then."""
    driver = handle._driver

    def has_come(what: Any) -> None:
        wait_until(lambda: handle.result.done() or what(), WAIT_S, "the job's next step")

    def completed() -> int:
        return driver.status().checkpoints.counts.completed

    has_come(lambda: completed() >= 3)
    asked = handle.trigger_checkpoint()
    has_come(asked.done)
    # somebody of an attempt that is over, and a process that is lost: it is refused, and killed
    driver.post(SlotMessageReceived(RegisterSlot(SlotId(0), Attempt(-1), 1, "localhost", "nowhere"), SlotId(0)))
    driver.post(SlotLost(SlotId(0), Attempt(0), "the test says so"))
    has_come(lambda: driver.status().restarts == 1 and driver.status().state is JobState.RUNNING)
    before = completed()
    has_come(lambda: completed() > before + 1)
    handle.cancel()
    has_come(lambda: False)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_an_action_that_breaks_the_jobmaster_ends_the_job_and_answers_everybody(
    action: type[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    perform = JobMasterDriver._perform
    open_requests: list[Future[Any]] = []

    def break_at(driver: JobMasterDriver, given: JobMasterAction) -> None:
        if isinstance(given, action):
            open_requests.append(driver.trigger_savepoint((tmp_path / "savepoints").as_uri()))
            raise BrokenError(action.__name__)
        if action is StopWanted and isinstance(given, StoreCheckpoint):
            for slot in {task.slot for task in driver.status().tasks}:
                driver.post(SlotMessageReceived(StopDue(slot, Attempt(0)), slot))
        if action is ForgetDamaged and isinstance(given, SendToSlot) and is_restoring(given):
            driver.post(SlotMessageReceived(damage_found(given), given.slot))
            return
        perform(driver, given)

    monkeypatch.setattr(JobMasterDriver, "_perform", break_at)
    handle = started(tmp_path / "checkpoints")
    lead_through_every_action(handle)

    cause = f"the JobMaster failed: BrokenError('{action.__name__}')"
    with pytest.raises(JobExecutionError) as raised:
        handle.wait(WAIT_S)
    assert isinstance(raised.value.__cause__, BrokenError)
    status = handle.status()
    # a job that had ended before is not brought back to fail
    assert status.state in (JobState.FAILED, JobState.CANCELED)
    assert (status.state is JobState.FAILED) == (cause in str(raised.value))
    assert status.exceptions[-1].cause.message == cause
    assert status.leaves_checkpoints
    assert all(task.state.is_terminal for task in status.tasks)
    assert "JobMaster of job" in caplog.text
    for request in (*open_requests, handle.stop_with_savepoint(), handle.trigger_checkpoint(), handle.rescale({})):
        with pytest.raises(JobRequestError, match=action.__name__):
            request.result(WAIT_S)
    handle.cancel()


def test_an_adoption_that_breaks_the_jobmaster_ends_the_job_and_answers_everybody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    perform = JobMasterDriver._perform
    open_requests: list[Future[Any]] = []

    def break_at(driver: JobMasterDriver, given: JobMasterAction) -> None:
        if isinstance(given, AdoptSlots):
            open_requests.append(driver.trigger_checkpoint())
            raise BrokenError("AdoptSlots")
        perform(driver, given)

    monkeypatch.setattr(JobMasterDriver, "_perform", break_at)
    slots = NoSlots()
    job, attempt = graph(), Attempt(3)
    regions = ExecutionGraph(job, attempt).regions
    parallelism = {vertex.vertex_id: vertex.parallelism for vertex in job.vertices}
    placement = [
        PlacedRegion(
            region.index, attempt, [PlacedSlot(slot, 11, "h", "nowhere") for slot in region.slots], parallelism
        )
        for region in regions
    ]
    driver = JobMasterDriver(
        job, lambda post: slots, ClientOutputs(), ManualClock(0), Attempt(4), is_inline=True, placement=placement
    )
    while driver.step():
        pass

    status, cause = driver.status(), "the JobMaster failed: BrokenError('AdoptSlots')"
    assert isinstance(driver.broken, BrokenError) and driver.ended.is_set()
    assert status.state is JobState.FAILED and status.leaves_checkpoints
    assert status.exceptions[-1].cause.message == cause
    assert all(task.state.is_terminal for task in status.tasks)
    # what runs under its earlier leader is not left running without one
    assert slots.released == [attempt] and slots.is_closed
    assert "JobMaster of job" in caplog.text
    for request in (*open_requests, driver.trigger_savepoint(), driver.trigger_checkpoint(), driver.rescale({})):
        with pytest.raises(JobRequestError, match="AdoptSlots"):
            request.result(0)
    assert open_requests


def test_a_storage_thread_that_breaks_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_at(worker: StorageWorker, action: StoreCheckpoint) -> None:
        raise BrokenError("storage")

    monkeypatch.setattr(StorageWorker, "_complete", break_at)
    # with a thread of its own for the storage, as on Spark
    monkeypatch.setattr("runtime.execution.mini_cluster.JobMasterDriver", ThreadedDriver)
    handle = started(tmp_path / "checkpoints")
    with pytest.raises(JobExecutionError, match="storage"):
        handle.wait(WAIT_S)
    assert handle.status().state is JobState.FAILED


def test_a_request_that_the_end_of_the_jobmaster_overtakes_is_refused() -> None:
    driver = JobMasterDriver(graph(), lambda post: NoSlots(), ClientOutputs(), ManualClock(0), is_inline=True)
    # once the request is registered, before anybody handles it
    driver.on_post = lambda: driver.break_off(BrokenError("between"))
    for asked in (driver.trigger_checkpoint(), driver.trigger_checkpoint()):
        with pytest.raises(JobRequestError, match="between"):
            asked.result(0)


class NoSlots(SlotProvider):
    """Has no slots, and takes what it is told."""

    def __init__(self) -> None:
        self.released: list[Attempt] = []
        self.is_closed = False

    def request_slots(self, attempt: Attempt, regions: Sequence[Region]) -> None:
        pass

    def record_placement(self, regions: Sequence[PlacedRegion]) -> None:
        pass

    def adopt_slots(self, regions: Sequence[PlacedRegion]) -> None:
        pass

    def send(self, slot: SlotId, attempt: Attempt, message: JobMasterMessage) -> None:
        pass

    def refuse(self, slot: SlotId, attempt: Attempt, cause: str) -> None:
        pass

    def kill_slots(self, attempt: Attempt, processes: Sequence[SlotProcess]) -> None:
        pass

    def release_attempt(self, attempt: Attempt, regions: Sequence[Region] | None = None) -> None:
        self.released.append(attempt)

    def close(self) -> None:
        self.is_closed = True


class ThreadedDriver(JobMasterDriver):
    """Does the work of the storage in a thread."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named | {"is_inline": False})


def test_a_status_is_made_once_for_each_event(tmp_path: Path) -> None:
    handle = started(tmp_path)
    running = handle._driver.status()
    handle.cancel()
    with pytest.raises(JobExecutionError):
        handle.wait(WAIT_S)
    ended = handle._driver.status()
    assert running.state is not ended.state
    assert handle._driver.status() is ended
