"""The tasks of a slot, without the slot: what becomes of each, and what the JobMaster hears of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.checkpoint.state_files import DEFAULT_RETRIES
from runtime.common import WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.elements import CheckpointBarrier
from runtime.core.ids import CheckpointId, SlotId, TaskId
from runtime.network.local import LocalNetwork
from runtime.task.loop_inbox import LoopInbox
from runtime.task.messages import (
    DeclineCheckpoint,
    Deploy,
    OperatorEvent,
    RegisterSlot,
    SlotCommitted,
    SlotFailed,
    TaskState,
    TaskStateChanged,
)
from runtime.task.operator_chain import OperatorChain
from runtime.task.processing_time import TimerQueue
from runtime.task.running_task import running_task
from runtime.task.slot_host import SlotHost
from runtime.task.slot_reports import SlotReports
from runtime.task.slot_sources import SlotSources
from runtime.task.slot_storage import SlotStorage
from runtime.task.slot_tasks import SlotTasks
from runtime.task.task import Task
from runtime.task.time_accounting import Activity
from runtime.task.uploads import InlineUploads
from runtime.testing.clock import ManualClock
from tests.task.rigs import ATTEMPT, FakeControlLink, SlotRig, environment

SLOT = SlotId(0)
SEVENTH = CheckpointId(7)
BARRIER = CheckpointBarrier(SEVENTH, 0, CheckpointOptions("file:///nowhere/chk-7", "file:///nowhere/shared"))


def breaks_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


class Rig:
    """Two tasks in one slot: "left" fails on its third record, "right" ends."""

    def __init__(self) -> None:
        env = environment()
        for name, function in (("left", breaks_on_three), ("right", abs)):
            numbers = env.from_source(NumberSequenceSource(1, 5), WatermarkStrategy.no_watermarks(), name)
            numbers.map(function).sink_to(BlackHoleSink())
        job = SlotRig(env)
        self.clock = ManualClock(1_000_000)
        self.link = FakeControlLink()
        self._timers = timers = TimerQueue(self.clock)
        reports = SlotReports(self.link, RegisterSlot(SLOT, ATTEMPT, 1, "localhost", ""), self.clock)
        storage = SlotStorage(SLOT, ATTEMPT, None, DEFAULT_RETRIES, lambda restored_bytes: None)
        self.sources = SlotSources(SLOT, reports, timers, self.clock)
        self.tasks = SlotTasks(SLOT, reports)
        network = LocalNetwork(1 << 20).environment(SLOT)
        uploads = InlineUploads()
        self.host = SlotHost(ATTEMPT, self.clock, network, timers, uploads, storage, LoopInbox(), reports, self.tasks)
        self.deploy = Deploy(
            job_id=job.graph.job_id,
            job_name="job",
            attempt=ATTEMPT,
            configuration=job.graph.configuration,
            job_parameters={},
            tasks=job.execution.deployments(SLOT),
            coordinator_slots=job.execution.coordinator_slots,
            coordinator_states={},
        )
        self.host.deployed(self.deploy)
        assert self.sources.create(self.deploy)
        self._num_routed = 0

    def start(self) -> Rig:
        self.tasks.create(self.deploy.tasks, self.host)
        self.tasks.start()
        return self

    @property
    def left(self) -> Task:
        return next(task for task in self.tasks.all if "left" in task.name)

    @property
    def right(self) -> Task:
        return next(task for task in self.tasks.all if "right" in task.name)

    def route(self) -> bool:
        """Do the JobMaster's part for events of sources."""
        fresh, self._num_routed = self.link.sent[self._num_routed :], len(self.link.sent)
        events = [message for message in fresh if isinstance(message, OperatorEvent)]
        for event in events:
            (self.sources if event.target_subtask is None else self.tasks).deliver(event)
        return bool(events)

    def run(self) -> None:
        for _ in range(100):
            busy = [self.tasks.step(task, is_congested=False) for task in self.tasks.all]
            if not self.route() and not any(busy):
                return
        raise AssertionError("still busy")

    def timer(self, task: Task, action: Callable[[int], None]) -> None:
        """Fire a timer of a task at once."""
        task._timers.register_timer(self.clock.now_ms(), action)
        due = self._timers.pop_due()
        assert due is not None
        due[1](due[0])

    def states(self, task: Task) -> list[TaskState]:
        return [m.state for m in self.link.all(TaskStateChanged) if m.task == task.task_id]

    def close(self) -> None:
        self.tasks.close()
        self.sources.close()


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.close()


def test_what_a_task_raises_fails_it_and_no_other(rig: Rig) -> None:
    rig.start().run()
    assert rig.states(rig.left) == [TaskState.INITIALIZING, TaskState.RUNNING, TaskState.FAILED]
    assert rig.states(rig.right) == [TaskState.INITIALIZING, TaskState.RUNNING, TaskState.FINISHED]
    [failure] = [m.failure for m in rig.link.all(TaskStateChanged) if m.failure is not None]
    assert "three" in failure.message
    assert (failure.task, failure.slot) == (rig.left.task_id, SLOT)
    assert rig.tasks.have_ended()
    assert not rig.tasks.have_work()


def test_whose_code_runs_is_known_while_it_runs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[TaskId | None] = []

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **options: Any) -> Any:
            ran.append(running_task())
            return call(*args, **options)

        return noting

    for name in ("initialize", "step", "close"):
        monkeypatch.setattr(Task, name, noted(getattr(Task, name)))
    rig.start()
    rig.timer(rig.left, lambda _: ran.append(running_task()))
    assert ran == [rig.left.task_id, rig.right.task_id, rig.left.task_id]
    rig.run()
    assert set(ran) == {rig.left.task_id, rig.right.task_id}
    assert running_task() is None


def test_a_task_fails_once(rig: Rig) -> None:
    rig.start()
    rig.tasks.failed(rig.left, OSError("first"))
    rig.host.task_failed(rig.left, OSError("second"))
    assert rig.states(rig.left).count(TaskState.FAILED) == 1
    assert not rig.tasks.have_ended()


def test_a_task_that_is_congested_does_nothing_and_its_time_is_back_pressure(rig: Rig) -> None:
    rig.start()
    assert not rig.tasks.step(rig.right, is_congested=True)
    rig.clock.advance(100)
    assert not rig.tasks.step(rig.right, is_congested=True)
    assert rig.right.time.totals_ms()[Activity.BACK_PRESSURED] == 100
    assert not rig.link.all(OperatorEvent), "it has not asked for a split"


def test_those_that_were_never_made_are_cancelled_and_take_no_part_in_checkpoints(rig: Rig) -> None:
    rig.tasks.cannot_be_made(rig.deploy.tasks)
    rig.tasks.trigger(BARRIER)
    declined = rig.link.all(DeclineCheckpoint)
    assert [(m.checkpoint_id, m.counts_as_failure) for m in declined] == [(SEVENTH, False)] * 2
    rig.tasks.cancel()
    rig.tasks.cancel()
    assert [m.state for m in rig.link.all(TaskStateChanged)] == [TaskState.CANCELED] * 2


def test_whoever_declines_a_checkpoint_is_named(rig: Rig) -> None:
    rig.start()
    rig.host.decline(rig.right.task_id, SEVENTH, OSError("disk full"))
    [declined] = rig.link.all(DeclineCheckpoint)
    assert (declined.cause.task_name, declined.counts_as_failure) == (rig.right.name, True)


def refuse(task: Task) -> None:
    raise OSError("cannot commit")


def test_what_a_running_task_raises_when_it_hears_of_a_checkpoint_is_its_own_failure(rig: Rig) -> None:
    rig.start()
    rig.tasks.notify(refuse)
    assert {task.state for task in rig.tasks.all} == {TaskState.FAILED}
    assert not rig.link.all(SlotFailed)


def test_what_a_finished_task_raises_is_the_slots_failure(rig: Rig) -> None:
    rig.start().run()
    rig.tasks.notify(refuse)
    assert [m.failure.task for m in rig.link.all(SlotFailed)] == [rig.right.task_id]
    assert rig.right.state is TaskState.FINISHED


def test_an_event_for_a_reader_that_has_ended_is_dropped(rig: Rig) -> None:
    rig.start()
    rig.tasks.cancel()
    before = len(rig.link.sent)
    head = rig.right.deployment.vertex.head.operator_id
    rig.tasks.deliver(OperatorEvent(ATTEMPT, head, 0, None, pickle.dumps("too late")))
    assert len(rig.link.sent) == before


def test_a_commit_is_done_once_and_told_to_whoever_asks(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[OperatorChain] = []
    monkeypatch.setattr(OperatorChain, "commit_finished", committed.append)
    rig.start().run()
    rig.tasks.commit()
    rig.tasks.commit()
    assert committed == [rig.left.chain, rig.right.chain]
    assert len(rig.link.all(SlotCommitted)) == 2
