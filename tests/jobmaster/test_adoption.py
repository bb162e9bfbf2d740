"""A new JobMaster and the slots of the one before: who comes over, what they are told, and what restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.checkpoint.handles import OperatorSubtaskState, TaskStateHandle
from runtime.checkpoint.layout import file_name
from runtime.checkpoint.messages import DeleteFiles, SweepOrphans
from runtime.core.checkpoint_options import AfterSnapshot, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, SlotId
from runtime.jobmaster.actions import KillSlots, RefuseSlot, ReleaseAttempt, RequestSlots, SendToSlot
from runtime.jobmaster.adoption import ADOPTION_TIMEOUT_MS
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    RecoveryDelayed,
    SavepointLeft,
    SavepointRequested,
    SlotLost,
    SlotMessageReceived,
    Submitted,
    Tick,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.state.handles import FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.task.messages import (
    CommitFinished,
    Deploy,
    FailureInfo,
    NotifyCheckpointComplete,
    ResyncSources,
    SlotFailed,
    SlotReport,
    TaskState,
    TriggerCheckpoint,
)
from tests.jobmaster.simulation import EVERY_SECOND, Simulation, keyed_job, saving_job, two_pipelines


def pipelines() -> Simulation:
    """Two regions that run, with checkpoints."""
    simulation = Simulation(two_pipelines(), FixedDelay(5, 1_000), EVERY_SECOND)
    simulation.run_to_running()
    return simulation


def checkpointed(old: Simulation, count: int = 1) -> Simulation:
    old.advance(1_000.0 * count)
    assert len(old.recorded) == count
    return old


def test_a_job_whose_slots_all_come_over_goes_on_under_its_attempt_and_takes_checkpoints() -> None:
    old = checkpointed(saving_job())
    new = old.successor()
    new.take_over()
    assert new.states == [JobState.RECONCILING, JobState.RUNNING]
    assert (new.machine.attempt, new.machine.status().restarts) == (old.machine.attempt, 0)
    assert not [a for a in new.actions if isinstance(a, RequestSlots | KillSlots | ReleaseAttempt)]
    assert sorted(new.sent(ResyncSources)) == [0, 1]
    assert JobState.RUNNING not in new.machine.status().state_since_ms, "it has been running all the time"
    [task] = {task.started_ms for task in new.machine.status().tasks}
    assert task == new.now_ms - 5_000
    new.advance(1_000)
    assert max(new.completed) == max(old.recorded)
    assert len(new.recorded) == 2


def test_a_job_without_checkpoints_and_without_a_restart_strategy_goes_on_too() -> None:
    old = Simulation(keyed_job())
    old.run_to_running()
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.RUNNING
    assert new.machine.attempt == old.machine.attempt


def test_a_job_that_is_cancelled_before_its_storage_answers_ends_the_slots_that_it_had() -> None:
    old = checkpointed(saving_job())
    new = old.successor()
    new.deliver(RecoveryDelayed("the storage does not answer"))
    new.deliver(CancelRequested())
    assert new.machine.state is JobState.CANCELED
    assert [a.attempt for a in new.actions if isinstance(a, ReleaseAttempt)] == [old.machine.attempt]
    assert sorted(new.killed()) == [0, 1]
    new.take_over()
    assert (new.machine.state, new.deleted) == (JobState.CANCELED, [])


def test_nothing_is_adopted_before_all_slots_of_the_region_have_reported() -> None:
    old = saving_job()
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    assert new.states == [JobState.RECONCILING]
    assert not new.sent(TriggerCheckpoint)
    new.advance(ADOPTION_TIMEOUT_MS - 1)
    assert new.machine.state is JobState.RECONCILING


def test_a_slot_that_does_not_come_over_in_time_is_killed_and_the_job_restarts_from_its_newest_checkpoint() -> None:
    old = checkpointed(saving_job())
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    new.advance(ADOPTION_TIMEOUT_MS)
    assert 1 in new.killed()
    new.settle()
    assert new.machine.state is JobState.RUNNING
    assert new.machine.attempt == old.machine.attempt + 1
    assert new.machine.status().restarts == 1
    assert set(new.restored_from()) == {1}
    [failure] = new.machine.status().exceptions
    assert "slot 1 did not report in time" in failure.cause.message


def test_a_job_of_which_nothing_can_be_adopted_fails_if_it_neither_restarts_nor_takes_checkpoints() -> None:
    old = Simulation(keyed_job())
    old.run_to_running()
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    new.advance(ADOPTION_TIMEOUT_MS + 10_000)
    assert new.machine.state is JobState.FAILED


def test_a_job_of_a_leader_that_ended_as_planned_has_not_failed_if_nothing_can_be_adopted() -> None:
    old = checkpointed(saving_job())
    for slot in (0, 1):
        old.current(slot).silent = True
    new = old.successor(was_suspended=True)
    new.take_over()
    new.advance(ADOPTION_TIMEOUT_MS)
    new.settle()
    assert new.machine.state is JobState.RUNNING
    assert (new.machine.attempt, new.machine.status().restarts, new.machine.status().exceptions) == (1, 0, ())
    assert set(new.restored_from()) == {1}


def test_only_the_region_that_cannot_be_adopted_restarts() -> None:
    old = checkpointed(pipelines())
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    new.advance(ADOPTION_TIMEOUT_MS)
    new.settle()
    assert new.machine.state is JobState.RUNNING
    assert new.killed() == [1]
    assert {slot: new.current(slot).attempt for slot in (0, 1)} == {0: Attempt(0), 1: Attempt(1)}
    new.advance(1_000)
    assert len(new.recorded) == 2


@pytest.mark.parametrize("state", [TaskState.INITIALIZING, TaskState.CANCELED, TaskState.FAILED])
def test_a_region_with_a_task_that_neither_runs_nor_has_finished_restarts(state: TaskState) -> None:
    old = pipelines()
    old.current(1).state = state
    new = old.successor()
    new.take_over()
    new.settle()
    assert new.current(0).attempt == 0
    assert new.current(1).attempt == 1
    assert new.machine.state is JobState.RUNNING


def test_a_slot_that_reports_a_failure_of_its_own_is_not_adopted() -> None:
    old = pipelines()
    old.current(0).failures.append(FailureInfo("connection broken", slot=SlotId(0)))
    new = old.successor()
    new.take_over()
    assert new.current(0).attempt == 1
    [failure] = new.machine.status().exceptions
    assert failure.cause.message == "connection broken"


def test_a_region_that_was_not_deployed_is_deployed() -> None:
    old = pipelines()
    del old.placement[1]
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.RUNNING
    assert {slot: new.current(slot).attempt for slot in (0, 1)} == {0: Attempt(0), 1: Attempt(1)}


def test_slots_of_another_version_are_not_adopted() -> None:
    old = pipelines()
    old.placement[0] = replace(old.placement[0], protocol=0)
    new = old.successor()
    new.take_over()
    assert new.current(0).attempt == 1
    assert new.current(1).attempt == 0


def test_a_slot_that_comes_over_too_late_is_sent_away() -> None:
    old = pipelines()
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    new.advance(ADOPTION_TIMEOUT_MS)
    new.settle()
    late = old.slots[Attempt(0), SlotId(1)]
    new.say(late.report()[0])
    assert [a.slot for a in new.actions if isinstance(a, RefuseSlot)] == [1]
    assert new.machine.status().refused_messages


def test_a_slot_that_is_lost_while_it_comes_over_restarts_its_region() -> None:
    old = pipelines()
    old.current(0).silent = True
    new = old.successor()
    new.take_over()
    new.deliver(SlotLost(SlotId(1), Attempt(0), "killed"))
    old.current(0).silent = False
    for message in old.current(0).report():
        new.say(message)
    new.settle()
    assert new.current(0).attempt == 0
    assert new.current(1).attempt == 1


def test_a_slot_that_fails_between_its_report_and_the_decision_restarts_its_region() -> None:
    old = pipelines()
    old.current(0).silent = True
    new = old.successor()
    new.take_over()
    new.say(SlotFailed(SlotId(1), Attempt(0), FailureInfo("connection broken", slot=SlotId(1))))
    old.current(0).silent = False
    for message in old.current(0).report():
        new.say(message)
    new.settle()
    assert {slot: new.current(slot).attempt for slot in (0, 1)} == {0: Attempt(0), 1: Attempt(1)}


def test_a_job_can_be_cancelled_while_its_slots_come_over() -> None:
    old = saving_job()
    old.current(1).silent = True
    new = old.successor()
    new.take_over()
    new.deliver(CancelRequested())
    new.settle()
    new.advance(10_000)
    assert new.machine.state is JobState.CANCELED
    assert new.killed() == [1]


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_that_is_recorded_is_told_to_be_complete_and_no_other() -> None:
    old = saving_job()
    old.storage_is_slow = True
    old.advance(1_000)
    old.answer_storage()  # it is recorded, and the old JobMaster dies before it says so
    new = old.successor()
    new.take_over()
    for slot in (0, 1):
        assert new.current(slot).told == [("complete", 1)]
    first = next(a for a in new.actions if isinstance(a, SendToSlot) and a.slot == 0)
    assert isinstance(first.message, NotifyCheckpointComplete), "before anything else"


def test_a_checkpoint_that_is_not_recorded_is_given_up_its_files_deleted_and_its_id_not_used_again() -> None:
    old = saving_job()
    old.storage_is_slow = True
    old.advance(1_000)
    assert old.current(0).pending
    new = old.successor()
    new.take_over()
    for slot in (0, 1):
        assert new.current(slot).told == [("aborted", 1)]
    assert new.deleted[0].endswith("/chk-1-0.0")
    deleted = [uri for a in new.actions if isinstance(a, DeleteFiles) for uri in a.files]
    assert all("/chk-1-0.0/" in uri for uri in deleted)
    new.advance(1_000)
    [trigger] = new.sent_to(0, TriggerCheckpoint)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.checkpoint_id == 2
    assert trigger.options.directory.endswith("/chk-2-1.0"), "the new leader's epoch, the old attempt"


def test_ids_that_slots_have_heard_of_are_not_used_again_even_if_nothing_is_pending() -> None:
    old = saving_job()
    for slot in (0, 1):
        old.current(slot).last_seen = CheckpointId(41)
    new = old.successor()
    new.take_over()
    new.advance(1_000)
    [trigger] = new.sent_to(0, TriggerCheckpoint)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.checkpoint_id == 42


def test_a_checkpoint_that_only_some_slots_have_heard_of_is_given_up_everywhere() -> None:
    old = saving_job()
    old.current(0).acknowledges = False
    old.advance(1_000)
    old.current(1).pending = {}
    new = old.successor()
    new.take_over()
    assert new.current(1).told == [("aborted", 1)]


def test_nothing_is_said_of_checkpoints_that_are_older_than_the_newest() -> None:
    old = checkpointed(saving_job())
    options = old.recorded[CheckpointId(1)].metadata.options
    old.advance(1_000)
    for slot in (0, 1):
        old.current(slot).pending = {CheckpointId(1): options, CheckpointId(2): options}
        old.current(slot).told = []
    new = old.successor()
    new.take_over()
    assert [new.current(slot).told for slot in (0, 1)] == [[("complete", 2)], [("complete", 2)]]


def test_the_sweep_spares_what_the_deployer_of_an_adopted_region_has_written() -> None:
    third = checkpointed(pipelines()).successor()
    third.take_over()
    third.advance(1_000)
    third.current(1).silent = True
    fourth = third.successor()
    fourth.take_over()
    fourth.advance(ADOPTION_TIMEOUT_MS)
    fourth.settle()
    assert fourth.machine.state is JobState.RUNNING
    sweeps = [a for a in (*third.actions, *fourth.actions) if isinstance(a, SweepOrphans)]
    assert [(sweep.leader_epoch, sweep.attempt) for sweep in sweeps] == [(0, 0), (0, 0)]


def test_a_checkpoint_that_builds_on_files_of_the_earlier_leader_which_no_retained_one_has_is_given_up() -> None:
    new = checkpointed(saving_job()).successor()
    new.take_over()
    slot = new.current(0)
    slot.acknowledges = False
    new.advance(1_000)
    [trigger] = new.sent_to(0, TriggerCheckpoint)
    assert isinstance(trigger, TriggerCheckpoint)
    options, acknowledgement = trigger.options, slot.ack(trigger, slot.tasks[0])
    name = file_name(options.directory.replace("/chk-2-1.0", "/chk-1-0.0"), "window", "state", "0" * 16)
    left = FileHandle(f"{options.shared_directory}/{name}", 1, "0" * 64, is_shared=True)
    state = KeyedStateHandle("test", KeyGroupRange(0, 127), 128, {"keyed": left})
    [operator] = acknowledgement.state.operators
    builds_on_it = TaskStateHandle({operator: OperatorSubtaskState(state)})
    new.say(replace(acknowledgement, state=builds_on_it))
    new.settle()
    assert slot.told == [("complete", 1), ("aborted", trigger.checkpoint_id)]
    assert trigger.checkpoint_id not in new.recorded


def test_a_job_whose_newest_checkpoint_cannot_be_read_is_not_adopted() -> None:
    old = checkpointed(saving_job(), 2)
    new = old.successor()
    new.deliver(Submitted((old.recorded[CheckpointId(1)],) if 1 in old.recorded else (), is_newest_damaged=True))
    assert sorted(new.killed()) == [0, 1]
    assert [a.attempt for a in new.actions if isinstance(a, ReleaseAttempt)] == [0]
    new.settle()
    assert new.machine.attempt == 1


# --- the end of the job -----------------------------------------------------------------------------------------------


def stopping(after: AfterSavepoint) -> Simulation:
    old = saving_job()
    old.storage_is_slow = True
    old.deliver(SavepointRequested("r", after=after))
    old.settle()
    return old


def test_a_job_whose_savepoint_to_stop_with_is_recorded_stops() -> None:
    old = stopping(AfterSavepoint.SUSPEND)
    old.answer_storage()
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.FINISHED
    assert len(new.recorded) == 1, "no checkpoint at the end beside it"


def test_a_stop_that_is_asked_for_again_is_answered_with_the_savepoint_that_is_complete() -> None:
    old = stopping(AfterSavepoint.SUSPEND)
    old.answer_storage()
    old.current(0).stops = False
    new = old.successor()
    for slot in (0, 1):
        new.current(slot).suspended_by = None  # its tasks take their time
    new.take_over()
    new.deliver(SavepointRequested("again", after=AfterSavepoint.SUSPEND))
    assert new.answers == {}
    new.finish_tasks()
    new.settle()
    assert new.machine.state is JobState.FINISHED
    assert (new.answers["again"].checkpoint_id, new.answers["again"].error) == (1, None)
    assert new.answers["again"].location == old.recorded[CheckpointId(1)].location


AGAIN = SavepointRequested("again", after=AfterSavepoint.SUSPEND)


@pytest.mark.parametrize(
    ("again", "is_refused"),
    [
        pytest.param(
            SavepointRequested("again", "file:///savepoints", after=AfterSavepoint.SUSPEND), False, id="there"
        ),
        pytest.param(
            SavepointRequested("again", "file:///elsewhere", after=AfterSavepoint.SUSPEND), True, id="elsewhere"
        ),
        pytest.param(SavepointRequested("again", after=AfterSavepoint.DRAIN), True, id="drained"),
        pytest.param(
            SavepointRequested("again", kind=SnapshotKind.FULL, after=AfterSavepoint.SUSPEND), True, id="another format"
        ),
    ],
)
def test_a_stop_with_another_savepoint_than_the_recorded_one_is_refused_and_told_where_that_is(
    again: SavepointRequested, is_refused: bool
) -> None:
    old = saving_job()
    old.storage_is_slow = True
    old.deliver(SavepointRequested("r", "file:///savepoints", after=AfterSavepoint.SUSPEND))
    old.settle()
    old.answer_storage()
    location = old.recorded[CheckpointId(1)].location
    assert location.startswith("file:///savepoints/savepoint-")
    old.current(0).stops = False
    new = old.successor()
    for slot in (0, 1):
        new.current(slot).suspended_by = None
    new.take_over()
    new.deliver(again)
    if is_refused:
        why = f"the job is stopping already, with the savepoint {location} (without --drain, canonical)"
        assert (new.answers["again"].location, new.answers["again"].error) == (None, why)
    new.finish_tasks()
    new.settle()
    assert new.machine.state is JobState.FINISHED
    assert new.answers["again"].location == (None if is_refused else location)


def test_a_job_is_cancelled_behind_the_savepoint_that_an_earlier_jobmaster_took() -> None:
    new = checkpointed(saving_job()).successor()
    left = SavepointLeft("r", "file:///sp", CheckpointId(7))
    new.deliver(replace(left, request_id="early"))
    assert new.answers["early"].is_premature, "nothing runs yet"
    new.take_over()
    new.deliver(left)
    assert (new.answers["r"].location, new.answers["r"].error) == ("file:///sp", None)
    new.settle()
    assert new.machine.state is JobState.CANCELED


def test_a_job_whose_savepoint_to_stop_with_is_not_recorded_goes_on() -> None:
    new = stopping(AfterSavepoint.SUSPEND).successor()
    new.take_over()
    assert new.machine.state is JobState.RUNNING
    assert new.current(0).told == [("aborted", 1)]


def test_a_job_that_was_drained_in_vain_restarts() -> None:
    old = checkpointed(saving_job())
    old.storage_is_slow = True
    old.deliver(SavepointRequested("r", after=AfterSavepoint.DRAIN))
    old.settle()
    assert old.current(0).state is TaskState.FINISHED
    assert AfterSnapshot.DRAIN in {options.after for options in old.current(0).pending.values()}
    new = old.successor()
    new.take_over()
    new.settle()
    assert new.machine.state is JobState.RUNNING
    assert new.machine.attempt == old.machine.attempt + 1


def test_a_job_that_was_committing_with_checkpoints_takes_no_other_one_at_its_end() -> None:
    old = checkpointed(saving_job())
    old.finish_tasks()
    while not old.sent(CommitFinished):
        old.deliver(old.queue.pop(0))
    assert old.current(0).committed
    number = len(old.recorded)
    for slot in (0, 1):
        old.current(slot).acknowledges = False  # their operators are closed
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.FINISHED
    assert len(new.recorded) == number


def test_a_stop_whose_end_was_told_to_all_slots_is_still_a_stop() -> None:
    old = stopping(AfterSavepoint.SUSPEND)
    old.answer_storage()
    old.deliver(old.queue.pop(0))
    assert old.current(0).stopped_by == 1
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.FINISHED
    assert len(new.recorded) == 1


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.DRAIN])
def test_a_stop_of_whose_slots_some_have_left_is_finished_by_an_attempt_that_only_ends(after: AfterSavepoint) -> None:
    old = stopping(after)
    old.answer_storage()
    old.current(1).silent = True
    new = old.successor()
    location = old.recorded[CheckpointId(1)].location
    new.deliver(Submitted(tuple(new.recorded[n] for n in new.completed)))
    assert new.machine.status().stops_with == location
    new.deliver(SavepointRequested("r", after=after))
    new.settle()
    new.advance(60_000)
    assert (new.machine.state, new.machine.status().restarts) == (JobState.FINISHED, 0)
    assert new.machine.attempt == old.machine.attempt + 1
    assert (new.answers["r"].location, new.answers["r"].error) == (location, None)
    deploys = [a.message for a in new.actions if isinstance(a, SendToSlot) and isinstance(a.message, Deploy)]
    assert [deploy.stopped_by for deploy in deploys] == [1, 1]
    assert len(new.recorded) == 1, "no checkpoint beside it"


def test_slots_that_have_given_up_the_savepoint_to_stop_with_are_not_adopted() -> None:
    old = stopping(AfterSavepoint.SUSPEND)
    between = old.successor()
    between.take_over()
    assert between.current(0).told == [("aborted", 1)]
    old.answer_storage()  # its metadata was written late, and is found by the next leader
    new = between.successor()
    new.completed, new.recorded = old.completed, old.recorded
    new.take_over()
    new.advance(60_000)
    assert new.machine.state is JobState.FINISHED
    assert new.machine.attempt == old.machine.attempt + 1
    assert ("complete", 1) not in [told for slot in new.slots.values() for told in slot.told]


def test_an_attempt_that_only_ends_is_adopted_like_any_other() -> None:
    old = stopping(AfterSavepoint.SUSPEND)
    old.answer_storage()
    old.current(1).silent = True
    between = old.successor()
    between.deliver(Submitted(tuple(between.recorded[n] for n in between.completed)))
    between.now_ms += ADOPTION_TIMEOUT_MS
    between.deliver(Tick())
    while not between.sent(CommitFinished):
        between.deliver(between.queue.pop(0))
    new = between.successor()
    new.take_over()
    assert (new.machine.state, new.machine.attempt) == (JobState.FINISHED, between.machine.attempt)
    assert len(new.recorded) == 1


def test_a_job_that_was_committing_commits_again_under_the_new_jobmaster() -> None:
    old = Simulation(keyed_job())
    old.run_to_running()
    old.current(1).silent = True
    old.finish_tasks()
    while old.queue:
        old.deliver(old.queue.pop(0))
    assert old.sent(CommitFinished) == [0, 1]
    old.current(1).silent = False
    new = old.successor()
    new.take_over()
    assert new.machine.state is JobState.FINISHED
    assert new.sent(CommitFinished) == [0, 1]


def test_messages_of_a_slot_that_has_not_reported_mean_nothing() -> None:
    old = saving_job()
    old.current(0).silent = old.current(1).silent = True
    new = old.successor()
    new.take_over()
    refused = new.machine.status().refused_messages
    new.deliver(SlotMessageReceived(SlotFailed(SlotId(0), Attempt(0), FailureInfo("of another time"))))
    assert new.machine.status().refused_messages == refused + 1
    assert new.machine.state is JobState.RECONCILING


def test_reports_are_of_the_slot_and_attempt_that_registered() -> None:
    report = saving_job().current(0).report()[0]
    assert isinstance(report, SlotReport)
    assert (report.slot, report.attempt) == (SlotId(0), Attempt(0))
