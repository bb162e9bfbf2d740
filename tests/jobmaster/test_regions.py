"""Regions that are restarted alone: one test, one story. Slot 0 is the left pipeline, slot 1 the right one."""

from __future__ import annotations

import pytest

from runtime.checkpoint.messages import SweepOrphans
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.ids import Attempt, CheckpointId, OperatorId, SlotId
from runtime.jobmaster.actions import ReleaseAttempt, RequestSlots, SendToSlot
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    RescaleRequested,
    SavepointRequested,
    SlotLost,
    StageEnded,
    Submitted,
    Tick,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.task.messages import (
    CancelTasks,
    CommitFinished,
    DeliverOperatorEvent,
    Deploy,
    FailureInfo,
    Heartbeat,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    NotifySavepointsFailed,
    OperatorEvent,
    ReleaseSlot,
    SlotFailed,
    StalledCall,
    Start,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from tests.jobmaster.simulation import Simulation, two_pipelines

S = JobState
SETTINGS = CheckpointSettings(interval_ms=1_000, savepoint_directory="file:///saved", timeout_ms=60_000)
LEFT, RIGHT = 0, 1


def pipelines(settings: CheckpointSettings | None = None, attempts: int = 3, delay_ms: int = 500) -> Simulation:
    s = Simulation(two_pipelines(), FixedDelay(attempts, delay_ms), settings)
    s.run_to_running()
    s.actions.clear()
    return s


@pytest.fixture
def plain() -> Simulation:
    return pipelines()


@pytest.fixture
def saving() -> Simulation:
    """With checkpoints, one of which is complete."""
    s = pipelines(SETTINGS)
    s.advance(1_100)
    assert s.completed == [1]
    s.actions.clear()
    return s


def released(s: Simulation) -> list[tuple[int, list[int] | None]]:
    return [
        (a.attempt, None if a.regions is None else [region.index for region in a.regions])
        for a in s.actions
        if isinstance(a, ReleaseAttempt)
    ]


def requested(s: Simulation) -> list[tuple[int, list[int]]]:
    return [(a.attempt, [region.index for region in a.regions]) for a in s.actions if isinstance(a, RequestSlots)]


def attempts(s: Simulation) -> dict[int, int]:
    return {task.slot: task.attempt for task in s.machine.status().tasks}


def test_the_region_of_a_failed_task_restarts_and_the_other_one_hears_nothing_of_it(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    assert s.machine.state is S.RESTARTING
    s.settle()
    s.advance(600)
    assert s.states == [S.RUNNING, S.RESTARTING, S.RUNNING]
    for kind in (CancelTasks, ReleaseSlot, Deploy, Start):
        assert s.sent(kind) == [RIGHT], kind
    assert requested(s) == [(1, [RIGHT])]
    assert released(s) == [(0, [RIGHT])]
    status = s.machine.status()
    assert (status.attempt, status.restarts) == (1, 1)
    assert attempts(s) == {LEFT: 0, RIGHT: 1}
    assert {task.state for task in status.tasks} == {TaskState.RUNNING}
    (failure,) = status.exceptions
    assert (failure.attempt, failure.cause.slot, failure.cause.message) == (0, RIGHT, "ValueError: bad record")


def test_the_delay_of_the_restart_strategy_holds_for_a_region(plain: Simulation) -> None:
    plain.fail_task(RIGHT)
    plain.settle()
    plain.advance(400)
    assert requested(plain) == []
    plain.advance(200)
    assert requested(plain) == [(1, [RIGHT])]


def test_when_no_restart_is_left_the_whole_job_fails() -> None:
    s = pipelines(attempts=1)
    for _ in range(2):
        s.fail_task(RIGHT)
        s.settle()
        s.advance(600)
    assert s.states == [S.RUNNING, S.RESTARTING, S.RUNNING, S.FAILING, S.FAILED]
    assert released(s) == [(0, [RIGHT]), (0, [LEFT]), (1, [RIGHT])]
    assert s.machine.next_deadline_ms() is None


def test_a_region_whose_process_died_restarts_alone_too(plain: Simulation) -> None:
    s = plain
    s.deliver(SlotLost(SlotId(RIGHT), Attempt(0), "the control stream broke"))
    s.deliver(StageEnded(1, Attempt(0), "exit code 137"))
    s.settle()
    s.advance(600)
    assert s.machine.state is S.RUNNING
    assert requested(s) == [(1, [RIGHT])]
    assert s.killed() == [RIGHT]
    (failure,) = s.machine.status().exceptions
    assert "was lost" in failure.cause.message


def test_a_stage_that_ends_under_a_region_that_runs_fails_that_region(plain: Simulation) -> None:
    plain.deliver(StageEnded(0, Attempt(0), None))
    plain.settle()
    plain.advance(600)
    assert requested(plain) == [(1, [LEFT])]
    assert "the stage of region 0 ended" in plain.machine.status().exceptions[0].cause.message


def test_the_failover_strategy_full_restarts_the_whole_job() -> None:
    s = Simulation(two_pipelines(), FixedDelay(1, 500), options=JobMasterOptions(restarts_regions=False))
    s.run_to_running()
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert s.states == [S.RUNNING, S.FAILING, S.RESTARTING, S.RUNNING]
    assert attempts(s) == {LEFT: 1, RIGHT: 1}


def test_a_job_that_never_ran_restarts_as_a_whole() -> None:
    s = Simulation(two_pipelines(), FixedDelay(1, 500))
    s.deliver(Submitted())
    while s.machine.phase is not Phase.STARTED:
        s.deliver(s.queue.pop(0))
    s.fail_task(RIGHT)
    assert s.machine.state is S.FAILING


def test_both_regions_can_be_down_at_the_same_time(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.advance(300)
    s.fail_task(LEFT)
    s.settle()
    s.advance(300)
    assert s.machine.state is S.RESTARTING
    s.advance(300)
    assert s.machine.state is S.RUNNING
    assert requested(s) == [(1, [RIGHT]), (2, [LEFT])]
    assert attempts(s) == {LEFT: 2, RIGHT: 1}
    s.fail_task(LEFT)
    s.settle()
    s.advance(600)
    assert attempts(s) == {LEFT: 3, RIGHT: 1}
    assert s.machine.status().restarts == 3


def test_a_second_failure_while_a_region_comes_up_restarts_it_again(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.current(RIGHT).silent = True
    s.say(s.current(RIGHT).register())
    s.deliver(SlotLost(SlotId(RIGHT), Attempt(1), "it died while it restored"))
    s.register_automatically = True
    s.settle()
    s.advance(600)
    assert s.machine.state is S.RUNNING
    assert requested(s) == [(1, [RIGHT]), (2, [RIGHT])]
    assert len(s.machine.status().exceptions) == 2


def test_what_breaks_while_a_region_goes_down_is_noted_with_its_failure(plain: Simulation) -> None:
    s = plain
    s.say(SlotFailed(SlotId(RIGHT), Attempt(0), FailureInfo("connection broken", slot=SlotId(RIGHT))))
    task = s.current(RIGHT).tasks[0]
    failure = FailureInfo("ValueError: the cause", task=task, slot=SlotId(RIGHT))
    s.say(TaskStateChanged(SlotId(RIGHT), Attempt(0), task, TaskState.FAILED, failure))
    (entry,) = s.machine.status().exceptions
    assert entry.cause.message == "ValueError: the cause"
    assert [f.message for f in entry.suppressed] == ["connection broken"]


def test_a_region_that_hangs_is_killed_and_restarted(plain: Simulation) -> None:
    s = plain
    task = s.current(RIGHT).tasks[0]
    s.current(RIGHT).silent = True
    s.say(TaskStateChanged(SlotId(RIGHT), Attempt(0), task, TaskState.FAILED, FailureInfo("x", task=task)))
    s.advance(3_100)
    assert s.killed() == [RIGHT]
    s.advance(600)
    assert s.machine.state is S.RUNNING


def test_a_region_that_has_restarted_stands_in_no_call_of_before(plain: Simulation) -> None:
    s = plain
    call = StalledCall(None, 'File "job.py", line 3, in ask')
    s.say(Heartbeat(SlotId(RIGHT), Attempt(0), 3, {}, stalled_ms=9_000, stalled_in=call))
    assert [stall.slot for stall in s.machine.status().stalls] == [RIGHT]
    assert "user code that has not returned" in s.machine.status().waiting_for
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert s.machine.state is S.RUNNING
    assert s.machine.status().stalls == ()
    assert s.machine.status().waiting_for == ""


def test_slots_that_do_not_come_fail_the_region_again() -> None:
    s = pipelines(attempts=2)
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.register_automatically = True
    s.advance(301_000)
    assert requested(s)[:2] == [(1, [RIGHT]), (2, [RIGHT])]
    assert released(s) == [(0, [RIGHT]), (1, [RIGHT])]
    assert s.machine.state is S.RUNNING
    assert "1 of 1 slots did not register" in s.machine.status().exceptions[1].cause.message
    # who comes now is too late
    before = s.machine.status().refused_messages
    s.say(s.slots[Attempt(1), SlotId(RIGHT)].register())
    assert s.machine.status().refused_messages == before + 1


def test_a_slot_that_imports_user_code_need_not_answer(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.current(RIGHT).silent = True
    s.say(s.current(RIGHT).register())
    s.advance(30_000)
    assert s.machine.state is S.RESTARTING
    assert s.killed() == []
    s.current(RIGHT).tasks = s.slots[Attempt(0), SlotId(RIGHT)].tasks
    for message in s.current(RIGHT).states(TaskState.INITIALIZING):
        s.say(message)
    s.advance(6_000)
    assert "no heartbeat" in s.machine.status().exceptions[-1].cause.message


def test_a_region_that_reads_on_has_all_the_time_that_it_takes(plain: Simulation) -> None:
    s = plain
    s.register_automatically = False
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    coming = s.current(RIGHT)
    s.say(coming.register())
    s.queue.clear()
    coming.silent = True
    for minute in range(1, 11):
        s.advance(60_000)
        s.say(Heartbeat(SlotId(RIGHT), Attempt(1), minute, {}, restored_bytes=minute))
    assert s.machine.attempt == 1
    s.advance(290_000)
    assert s.machine.attempt == 1
    s.advance(20_000)
    assert "not deployed in time" in s.machine.status().exceptions[-1].cause.message


def test_cancelling_a_job_that_restarts_a_region_ends_all_of_it(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.deliver(CancelRequested())
    s.settle()
    assert s.machine.state is S.CANCELED
    assert released(s) == [(0, [RIGHT]), (0, [LEFT]), (1, [RIGHT])]
    assert s.machine.next_deadline_ms() is None


def test_a_slot_that_froze_while_it_imported_user_code_does_not_hold_up_a_cancellation(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.current(RIGHT).silent = True
    s.say(s.current(RIGHT).register())
    s.deliver(CancelRequested())
    s.settle()
    s.advance(6_000)
    assert s.machine.state is S.CANCELED
    assert s.killed() == [RIGHT]


def test_a_region_that_has_finished_is_not_run_again(plain: Simulation) -> None:
    s = plain
    for message in s.current(LEFT).states(TaskState.FINISHED):
        s.say(message)
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert attempts(s) == {LEFT: 0, RIGHT: 1}
    assert s.sent(CommitFinished) == []
    for message in s.current(RIGHT).states(TaskState.FINISHED):
        s.say(message)
    s.settle()
    assert s.sent(CommitFinished) == [LEFT, RIGHT]
    assert s.states[-1] is S.FINISHED


def test_a_finished_region_whose_process_dies_is_run_again_before_the_commit(plain: Simulation) -> None:
    s = plain
    for message in s.current(LEFT).states(TaskState.FINISHED):
        s.say(message)
    s.deliver(SlotLost(SlotId(LEFT), Attempt(0), "killed"))
    for message in s.current(RIGHT).states(TaskState.FINISHED):
        s.say(message)
    assert s.sent(CommitFinished) == []
    s.settle()
    s.advance(600)
    assert s.machine.state is S.RUNNING
    assert attempts(s) == {LEFT: 1, RIGHT: 0}
    for message in s.current(LEFT).states(TaskState.FINISHED):
        s.say(message)
    s.settle()
    assert s.states[-1] is S.FINISHED


def test_what_a_region_says_counts_by_its_own_attempt(plain: Simulation) -> None:
    s = plain
    stale = s.current(RIGHT)
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    before = s.machine.status().refused_messages
    s.say(stale.register())
    s.say(Heartbeat(SlotId(RIGHT), Attempt(0), 1, {}))
    assert s.machine.status().refused_messages == before + 2
    s.say(Heartbeat(SlotId(LEFT), Attempt(0), 1, {}))
    s.say(Heartbeat(SlotId(RIGHT), Attempt(1), 1, {}))
    assert s.machine.status().refused_messages == before + 2
    s.say(Heartbeat(SlotId(LEFT), Attempt(1), 1, {}))
    assert s.machine.status().refused_messages == before + 3


def test_news_of_a_source_reach_one_of_a_region_with_another_attempt(plain: Simulation) -> None:
    s = plain
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    sources = {slot: operator for operator, slot in s.machine._run.coordinator_slots.items()}
    s.say(OperatorEvent(Attempt(0), OperatorId(sources[SlotId(RIGHT)]), None, None, b"watermark"))
    delivered = [a for a in s.actions if isinstance(a, SendToSlot) and isinstance(a.message, DeliverOperatorEvent)]
    assert [(a.slot, a.attempt) for a in delivered] == [(RIGHT, 1)]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_region_goes_on_from_the_newest_checkpoint_and_checkpoints_from_there(saving: Simulation) -> None:
    s = saving
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert s.machine.state is S.RUNNING
    assert s.current(RIGHT).attempt == 1
    assert s.restored_from(RIGHT) == [1, 1]
    s.advance(1_100)
    assert s.completed == [2]
    assert s.sent(NotifyCheckpointComplete) == [LEFT, RIGHT]


def test_orphans_are_those_of_attempts_that_no_region_is_of(saving: Simulation) -> None:
    s = saving
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert [a.attempt for a in s.actions if isinstance(a, SweepOrphans)] == [0]
    s.fail_task(LEFT)
    s.settle()
    s.advance(600)
    assert [a.attempt for a in s.actions if isinstance(a, SweepOrphans)] == [0, 1]


def test_a_savepoint_that_fails_is_named_by_the_attempt_of_each_region_that_prepared_something_for_it(
    saving: Simulation,
) -> None:
    s = saving
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert attempts(s) == {LEFT: 0, RIGHT: 1}
    s.current(RIGHT).acknowledges = False
    s.deliver(SavepointRequested("r", "file:///savepoints"))
    s.settle()
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert attempts(s) == {LEFT: 0, RIGHT: 2}
    assert s.answers["r"].error is not None
    [told] = s.sent_to(RIGHT, NotifySavepointsFailed)
    assert told == NotifySavepointsFailed(((Attempt(0), CheckpointId(2)), (Attempt(1), CheckpointId(2))))


def test_a_checkpoint_under_way_is_given_up_and_the_other_region_told(saving: Simulation) -> None:
    s = saving
    s.current(RIGHT).acknowledges = False
    s.advance(1_000)
    assert s.sent(TriggerCheckpoint) == [LEFT, RIGHT]
    s.fail_task(RIGHT)
    assert s.sent(NotifyCheckpointAborted) == [LEFT]
    # none is begun before all tasks run again
    s.settle()
    s.advance(400)
    assert s.sent(TriggerCheckpoint) == [LEFT, RIGHT]
    s.advance(5_000)
    assert s.completed[-1] > 2
    assert s.machine.status().checkpoints.counts.failed == 1


def test_a_checkpoint_being_recorded_when_a_region_fails_completes_and_is_restored(saving: Simulation) -> None:
    s = saving
    s.storage_is_slow = True
    s.advance(1_000)
    assert len(s.storing) == 1
    s.fail_task(RIGHT)
    s.settle()
    s.advance(600)
    assert s.sent(Deploy) == []
    s.answer_storage()
    s.settle()
    assert s.sent(NotifyCheckpointComplete) == [LEFT]
    assert s.restored_from(RIGHT)[0] == 2


def test_a_damaged_checkpoint_restarts_the_whole_job_from_the_one_before() -> None:
    s = pipelines(CheckpointSettings(interval_ms=1_000, num_retained=2))
    s.advance(2_100)
    assert s.completed == [1, 2]
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.current(RIGHT).silent = True
    s.say(s.current(RIGHT).register())
    s.register_automatically = True
    task = s.current(RIGHT).deploy
    assert task is None  # it is silent: only the machine knows
    damage = FailureInfo("sha256 differs", slot=SlotId(RIGHT), is_damaged_snapshot=True)
    s.say(SlotFailed(SlotId(RIGHT), Attempt(1), damage))
    s.settle()
    s.advance(3_500)
    assert s.machine.state is S.RUNNING
    assert attempts(s) == {LEFT: 2, RIGHT: 2}
    assert s.restored_from(LEFT)[0] == 1


def test_a_region_that_runs_is_restarted_alone_whatever_it_says_is_damaged() -> None:
    s = pipelines(CheckpointSettings(interval_ms=1_000, num_retained=2))
    s.advance(2_100)
    s.fail_task(RIGHT)
    s.settle()
    s.register_automatically = False
    s.advance(600)
    s.deliver_registration(RIGHT)
    s.register_automatically = True
    # while the other one is being restored
    s.say(SlotFailed(SlotId(LEFT), Attempt(0), FailureInfo("block checksum", is_damaged_snapshot=True)))
    assert s.completed == [1, 2]
    s.settle()
    s.advance(3_500)
    assert s.machine.state is S.RUNNING
    assert attempts(s) == {LEFT: 2, RIGHT: 1}


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.DRAIN, AfterSavepoint.CANCEL])
def test_a_failure_while_the_job_is_being_stopped_restarts_all_of_it(saving: Simulation, after: AfterSavepoint) -> None:
    s = saving
    for slot in (LEFT, RIGHT):
        s.current(slot).acknowledges = False
    s.deliver(SavepointRequested("r", after=after))
    s.settle()
    s.fail_task(RIGHT)
    assert s.machine.state is S.FAILING
    s.settle()
    assert s.answers["r"].error is not None


def test_requests_are_answered_when_a_region_fails(saving: Simulation) -> None:
    s = saving
    s.current(LEFT).acknowledges = False
    s.deliver(SavepointRequested("savepoint"))
    s.settle()
    s.fail_task(RIGHT)
    assert s.machine.state is S.RESTARTING
    error = s.answers["savepoint"].error
    assert error is not None
    assert "bad record" in error
    s.deliver(RescaleRequested("rescale", {}))
    s.deliver(SavepointRequested("another"))
    assert s.answers["rescale"].error is not None
    assert s.answers["another"].error == "not all tasks of the job are running"
    s.settle()
    s.deliver(Tick())
