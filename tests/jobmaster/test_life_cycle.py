"""The machine by example: one test, one story."""

from __future__ import annotations

import pytest

from runtime.checkpoint.messages import RecordEnd
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.ids import Attempt, SlotId
from runtime.jobmaster.actions import (
    JobStateChanged,
    RefuseSlot,
    ReleaseAttempt,
    RequestSlots,
    SendToSlot,
)
from runtime.jobmaster.events import CancelRequested, SlotLost, Submitted
from runtime.jobmaster.job_state import TRANSITIONS, JobState
from runtime.jobmaster.phases import IllegalTransitionError, Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.jobmaster.status import MAX_HISTORY
from runtime.task.messages import (
    CancelTasks,
    CommitFinished,
    Deploy,
    FailureInfo,
    ReleaseSlot,
    SlotCommitted,
    SlotFailed,
    Start,
    TaskState,
    TaskStateChanged,
)
from tests.jobmaster.simulation import Simulation

S = JobState


def is_over(simulation: Simulation) -> list[bool]:
    """Return for each released slot whether it was told that the job is over."""
    sent = [action.message for action in simulation.actions if isinstance(action, SendToSlot)]
    return [message.is_over for message in sent if isinstance(message, ReleaseSlot)]


def test_a_job_goes_from_submission_to_finished() -> None:
    s = Simulation()
    s.run_to_running()
    s.finish_tasks()
    s.settle()
    assert s.states == [S.RUNNING, S.FINISHED]
    changes = s.machine.status().state_changes
    assert [(c.number, c.state, c.attempt) for c in changes] == [
        (1, S.CREATED, 0),
        (2, S.RUNNING, 0),
        (3, S.FINISHED, 0),
    ]
    assert s.sent(Deploy) == s.sent(Start) == s.sent(CommitFinished) == s.sent(ReleaseSlot) == [0, 1]
    assert s.killed() == []
    assert is_over(s) == [True, True]
    expected = [RequestSlots, ReleaseAttempt, JobStateChanged, RecordEnd]
    assert [type(a) for a in s.actions[:1] + s.actions[-3:]] == expected
    assert s.machine.next_deadline_ms() is None


def test_nothing_is_deployed_before_every_slot_has_registered() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    s.say(s.current(1).register())
    assert s.sent(Deploy) == []
    s.say(s.current(0).register())
    assert s.sent(Deploy) == [0, 1]


def test_tasks_start_together_and_learn_each_others_addresses() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    s.current(1).silent = True
    for slot in (0, 1):
        s.say(s.current(slot).register())
    s.settle()
    assert s.sent(Start) == []
    s.current(1).silent = False
    for message in s.current(1).answer(next(a.message for a in s.actions[::-1] if isinstance(a, SendToSlot))):
        s.say(message)
    start = next(a.message for a in s.actions if isinstance(a, SendToSlot) and isinstance(a.message, Start))
    assert start.peers == {0: "grpc://host:0", 1: "grpc://host:1"}


def test_a_short_task_may_finish_before_the_others_run() -> None:
    s = Simulation()
    s.deliver(Submitted())
    while s.machine.phase is not Phase.STARTED:
        s.deliver(s.queue.pop(0))
    s.queue.clear()  # none of them has said RUNNING
    finished = [
        TaskStateChanged(slot.slot, Attempt(0), task, TaskState.FINISHED)
        for slot in s.slots.values()
        for task in slot.tasks
    ]
    for message in finished[:-1]:
        s.say(message)
    assert s.states == []
    s.say(finished[-1])
    assert s.states == [S.RUNNING]
    assert s.sent(CommitFinished) == [0, 1]


def test_a_job_whose_slots_do_not_come_fails_and_says_which() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    s.say(s.current(0).register())
    s.advance(299_000)
    assert s.machine.state is S.CREATED
    s.advance(2_000)
    assert s.states == [S.FAILING, S.FAILED]
    assert "1 of 2 slots did not register within 300 s: [1]" in s.machine.status().exceptions[0].cause.message
    assert s.sent(ReleaseSlot) == [0]


def test_a_failing_task_fails_the_job_with_its_own_message() -> None:
    s = Simulation()
    s.run_to_running()
    s.fail_task(1)
    assert s.machine.state is S.FAILING
    assert s.sent(CancelTasks) == [0, 1]
    s.settle()
    assert s.states == [S.RUNNING, S.FAILING, S.FAILED]
    assert s.sent(ReleaseSlot) == [0, 1]
    assert is_over(s) == [False, False]
    assert s.killed() == []
    (entry,) = s.machine.status().exceptions
    assert (entry.cause.message, entry.suppressed) == ("ValueError: bad record", ())


def test_later_causes_are_suppressed(running: Simulation) -> None:
    running.fail_task(0, "first")
    running.fail_task(1, "second")
    (entry,) = running.machine.status().exceptions
    assert (entry.cause.message, [f.message for f in entry.suppressed]) == ("first", ["second"])


def test_a_cause_takes_the_place_of_its_symptom(running: Simulation) -> None:
    broken = FailureInfo("connection to slot 1 broke")
    running.say(SlotFailed(SlotId(0), running.machine.attempt, broken))
    running.deliver(SlotLost(SlotId(1), running.machine.attempt, "stream ended"))
    (entry,) = running.machine.status().exceptions
    assert "slot 1 (pid 1001 on host) was lost: stream ended; it ran Source: flights (2/2)" in entry.cause.message
    assert entry.suppressed == (broken,)


def test_a_restart_waits_for_its_delay_and_uses_a_new_attempt(running: Simulation) -> None:
    running.fail_task()
    running.settle()
    assert running.machine.state is S.RESTARTING
    assert running.machine.next_deadline_ms() == 1_000
    running.advance(999)
    assert running.machine.attempt == 0
    running.advance(1)
    assert running.machine.attempt == 1
    assert running.states == [S.RUNNING, S.FAILING, S.RESTARTING, S.RUNNING]
    assert running.machine.status().restarts == 1
    running.fail_task()
    running.settle()
    assert running.machine.state is S.FAILED
    assert [e.attempt for e in running.machine.status().exceptions] == [0, 1]


def test_a_job_says_when_its_next_attempt_is_due(running: Simulation) -> None:
    assert running.machine.status().next_attempt_ms is None
    running.fail_task()
    assert (running.machine.state, running.machine.status().next_attempt_ms) == (S.FAILING, 1_000)
    running.settle()
    assert (running.machine.state, running.machine.status().next_attempt_ms) == (S.RESTARTING, 1_000)
    running.advance(1_000)
    assert (running.machine.state, running.machine.status().next_attempt_ms) == (S.RUNNING, None)


def test_a_job_that_has_run_is_restarting_until_all_its_tasks_run_again(running: Simulation) -> None:
    running.register_automatically = False
    running.fail_task()
    running.advance(1_000)
    assert (running.machine.phase, running.machine.state) == (Phase.REQUESTING, S.RESTARTING)
    assert running.machine.status().restarts == 1
    running.deliver_registration(0)
    running.deliver(CancelRequested())
    running.settle()
    assert running.machine.state is S.CANCELED


def test_all_failures_are_counted_and_the_newest_are_kept() -> None:
    s = Simulation(strategy=FixedDelay(50, 0))
    s.run_to_running()
    for number in range(MAX_HISTORY + 5):
        s.fail_task(0, f"failure {number}")
        s.settle()
    status = s.machine.status()
    assert status.failures == MAX_HISTORY + 5
    assert [e.cause.message for e in status.exceptions] == [f"failure {5 + n}" for n in range(MAX_HISTORY)]


def test_tasks_say_when_they_were_deployed_and_when_they_ended() -> None:
    s = Simulation()
    s.advance(1_000)
    s.run_to_running()
    assert {(t.started_ms, t.ended_ms) for t in s.machine.status().tasks} == {(1_000, None)}
    s.advance(40)
    s.finish_tasks()
    s.settle()
    assert {(t.started_ms, t.ended_ms) for t in s.machine.status().tasks} == {(1_000, 1_040)}


def test_the_delay_runs_while_tasks_are_being_cancelled() -> None:
    s = Simulation(strategy=FixedDelay(1, 10_000))
    s.run_to_running()
    s.current(1).silent = True
    s.fail_task(0)
    s.settle()
    s.advance(3_000)
    assert s.machine.state is S.RESTARTING
    s.advance(6_999)
    assert s.machine.attempt == 0
    s.advance(1)
    assert s.machine.attempt == 1


def test_a_task_that_does_not_stop_is_killed_and_the_others_are_released(running: Simulation) -> None:
    running.current(1).silent = True
    running.fail_task(0)
    running.settle()
    running.advance(2_999)
    assert (running.killed(), running.machine.state) == ([], S.FAILING)
    running.advance(1)
    assert running.killed() == [1]
    assert running.sent(ReleaseSlot) == [0]
    assert running.machine.attempt == 1


def test_a_slot_that_does_not_leave_is_killed(running: Simulation) -> None:
    running.fail_task(0)
    running.current(1).silent = True  # its answer to CancelTasks is under way already
    running.settle()
    assert running.machine.phase is Phase.LEAVING
    running.advance(3_000)
    assert running.killed() == [1]


def test_a_lost_slot_is_killed_when_the_attempt_ends(running: Simulation) -> None:
    running.deliver(SlotLost(SlotId(1), running.machine.attempt, "connection reset"))
    running.settle()
    assert running.killed() == [1]
    assert running.sent(CancelTasks) == running.sent(ReleaseSlot) == [0]


def test_cancel_stops_a_running_job(running: Simulation) -> None:
    running.deliver(CancelRequested())
    assert running.machine.state is S.CANCELLING
    running.settle()
    assert running.states == [S.RUNNING, S.CANCELLING, S.CANCELED]
    assert running.machine.status().exceptions == ()


def test_cancel_before_submission_waiting_for_slots_failing_or_restarting() -> None:
    s = Simulation()
    s.deliver(CancelRequested())
    s.deliver(Submitted())
    assert s.states == [S.CANCELLING, S.CANCELED]
    assert s.slots == {}

    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    s.deliver(CancelRequested())
    assert s.machine.state is S.CANCELED
    (refusal,) = s.say(s.current(0).register())
    assert isinstance(refusal, RefuseSlot)

    s = Simulation(strategy=FixedDelay(9, 1_000))
    s.run_to_running()
    s.fail_task()
    s.deliver(CancelRequested())
    s.settle()
    assert s.states == [S.RUNNING, S.FAILING, S.CANCELLING, S.CANCELED]

    s = Simulation(strategy=FixedDelay(9, 1_000))
    s.run_to_running()
    s.fail_task()
    s.settle()
    s.deliver(CancelRequested())
    assert s.states[-3:] == [S.RESTARTING, S.CANCELLING, S.CANCELED]
    assert s.machine.next_deadline_ms() is None


def committing(s: Simulation) -> Simulation:
    s.finish_tasks()
    while s.machine.phase is not Phase.COMMITTING:
        s.deliver(s.queue.pop(0))
    s.queue.clear()
    return s


def test_a_cancelled_task_in_user_code_has_three_minutes_to_return(running: Simulation) -> None:
    running.current(0).stops = False
    running.deliver(CancelRequested())
    running.advance(179_000)
    assert (running.machine.state, running.killed()) == (S.CANCELLING, [])
    running.advance(2_000)
    assert (running.machine.state, running.killed()) == (S.CANCELED, [0])


def test_a_frozen_slot_does_not_hold_up_a_cancellation(running: Simulation) -> None:
    running.current(1).silent = True
    running.deliver(CancelRequested())
    running.advance(10_000)
    assert (running.machine.state, running.killed()) == (S.CANCELED, [1])


def test_cancel_lets_a_commit_that_has_begun_come_to_its_end(running: Simulation) -> None:
    committing(running).deliver(CancelRequested())
    running.say(SlotCommitted(SlotId(0), Attempt(0)))
    running.say(SlotCommitted(SlotId(1), Attempt(0)))
    running.settle()
    assert running.machine.state is S.FINISHED


def test_cancel_ends_a_commit_that_hangs(running: Simulation) -> None:
    committing(running).deliver(CancelRequested())
    running.advance(3_000)
    assert running.machine.state is S.CANCELED


def test_a_failure_ends_a_commit_that_was_to_be_cancelled(running: Simulation) -> None:
    committing(running).deliver(CancelRequested())
    running.deliver(SlotLost(SlotId(1), Attempt(0), "killed"))
    running.settle()
    assert running.states == [S.RUNNING, S.CANCELLING, S.CANCELED]


def test_a_slot_that_registers_while_the_attempt_is_torn_down_is_sent_away() -> None:
    s = Simulation()
    s.register_automatically = False
    s.deliver(Submitted())
    s.say(s.current(0).register())
    s.deliver(CancelRequested())
    assert s.machine.phase is Phase.LEAVING
    s.say(s.current(1).register())
    assert s.sent(ReleaseSlot) == [0, 1]
    s.settle()
    assert (s.machine.state, s.killed()) == (S.CANCELED, [])


def test_a_failure_while_committing_is_not_restarted(running: Simulation) -> None:
    committing(running).say(SlotCommitted(SlotId(0), Attempt(0)))
    running.deliver(SlotLost(SlotId(1), Attempt(0), "killed"))
    running.settle()
    assert running.machine.state is S.FAILED
    assert "the job is not restarted" in running.machine.status().exceptions[0].cause.message


@pytest.mark.parametrize("outcome", list(JobOutcome))
def test_a_job_that_an_earlier_jobmaster_has_ended_ends_the_same_way_and_nothing_begins(outcome: JobOutcome) -> None:
    s = Simulation()
    s.deliver(Submitted(outcome=outcome))
    s.settle()
    assert s.states == [JobState(outcome.value)]
    assert [type(action) for action in s.actions] == [JobStateChanged]
    causes = [entry.cause.message for entry in s.machine.status().exceptions]
    assert causes == (["the job had failed under an earlier JobMaster"] if outcome is JobOutcome.FAILED else [])
    assert s.machine.next_deadline_ms() is None


def test_an_illegal_transition_tells_the_story(running: Simulation) -> None:
    with pytest.raises(IllegalTransitionError, match="submitted twice") as caught:
        running.deliver(Submitted())
    assert any("slot 0 registered: pid 1000 on host" in line for line in caught.value.story)
    assert "job CREATED → RUNNING" in str(caught.value)


def test_every_state_can_be_reached_and_only_terminal_ones_have_no_way_out() -> None:
    reachable = {S.CREATED}.union(*TRANSITIONS.values())
    assert reachable == set(S) == TRANSITIONS.keys()
    assert {s for s in S if s.is_terminal} == {S.FINISHED, S.FAILED, S.CANCELED}
