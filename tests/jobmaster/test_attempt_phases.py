"""The phases of an attempt, without a machine: what is asked of slots, when the next one comes, and when it is late."""

from __future__ import annotations

from runtime.core.ids import SlotId
from runtime.jobmaster.actions import KillSlots, ReleaseAttempt, RequestSlots, SendToSlot
from runtime.jobmaster.adoption import ADOPTION_TIMEOUT_MS
from runtime.jobmaster.attempt_phases import AttemptPhases
from runtime.jobmaster.attempt_run import AttemptRun
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.life_cycle import FIRST_ATTEMPT
from runtime.jobmaster.options import JobMasterOptions
from runtime.jobmaster.phases import Phase
from runtime.task.messages import CancelTasks, CommitFinished, ReleaseSlot, Start, TaskState
from tests.jobmaster.simulation import keyed_job

P = Phase
OPTIONS = JobMasterOptions(slot_request_timeout_ms=60_000, teardown_timeout_ms=3_000)
LEFT, RIGHT = SlotId(0), SlotId(1)


class Attempt:
    """An attempt of two slots, each of which does what the test says."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.actions = self.journal.begin(0)
        self.run = AttemptRun(keyed_job(), FIRST_ATTEMPT, self.journal)
        self.phases = AttemptPhases(self.run, OPTIONS, self.journal)

    def at(self, now_ms: float) -> None:
        self.actions = self.journal.begin(now_ms)

    def register(self, *slots: SlotId) -> None:
        for slot in slots:
            assert self.run.slots.register(slot, 1_000 + slot, "host", f"grpc://host:{slot}", self.journal.now_ms)

    def all_tasks(self, state: TaskState, *slots: SlotId) -> None:
        for task in list(self.run.execution.tasks_of(slots or None)):
            assert self.run.transition(task.task, state)

    def leave(self, *slots: SlotId) -> None:
        for slot in slots:
            self.run.give_up(slot, TaskState.CANCELED, left=True)

    def advance(self) -> bool:
        ended = self.phases.advance()
        self.phases.check_invariants()
        return ended

    def sent(self, kind: type) -> list[int]:
        return [a.slot for a in self.actions if isinstance(a, SendToSlot) and isinstance(a.message, kind)]

    def bring_up(self) -> None:
        self.phases.request(FIRST_ATTEMPT)
        self.register(LEFT, RIGHT)
        self.phases.deploying()
        self.all_tasks(TaskState.INITIALIZING)
        assert not self.advance()
        assert self.run.phase is P.STARTED


def test_tasks_start_once_all_of_them_are_made() -> None:
    a = Attempt()
    a.phases.request(FIRST_ATTEMPT)
    assert [action.attempt for action in a.actions if isinstance(action, RequestSlots)] == [FIRST_ATTEMPT]
    a.register(LEFT, RIGHT)
    assert not a.advance()
    assert a.run.phase is P.REQUESTING, "whether it is deployed is not decided here"
    a.phases.deploying()
    a.all_tasks(TaskState.INITIALIZING, LEFT)
    assert not a.advance()
    assert (a.run.phase, a.sent(Start)) == (P.DEPLOYING, [])
    a.all_tasks(TaskState.INITIALIZING, RIGHT)
    assert not a.advance()
    assert (a.run.phase, a.sent(Start), a.run.deadline_ms) == (P.STARTED, [LEFT, RIGHT], None)


def test_slots_are_released_once_all_tasks_have_stopped_and_the_attempt_ends_with_the_last_slot() -> None:
    a = Attempt()
    a.bring_up()
    a.phases.cancel(3_000)
    assert a.sent(CancelTasks) == [LEFT, RIGHT]
    a.all_tasks(TaskState.CANCELED, LEFT)
    assert not a.advance()
    assert a.run.phase is P.CANCELLING_TASKS
    a.all_tasks(TaskState.CANCELED, RIGHT)
    assert not a.advance()
    assert (a.run.phase, a.sent(ReleaseSlot)) == (P.LEAVING, [LEFT, RIGHT])
    a.leave(LEFT)
    assert not a.advance()
    a.leave(RIGHT)
    assert a.advance()
    assert (a.run.phase, a.run.deadline_ms) == (P.IDLE, None)
    assert [action for action in a.actions if isinstance(action, ReleaseAttempt)] == [ReleaseAttempt(FIRST_ATTEMPT)]
    assert not a.advance(), "it has ended once"


def test_an_attempt_without_slots_goes_down_in_one_step() -> None:
    a = Attempt()
    a.phases.request(FIRST_ATTEMPT)
    a.phases.cancel(3_000)
    assert a.advance()
    assert (a.run.phase, a.sent(CancelTasks), a.sent(ReleaseSlot)) == (P.IDLE, [], [])


def test_slots_are_released_for_good_once_all_have_committed() -> None:
    a = Attempt()
    a.bring_up()
    a.all_tasks(TaskState.FINISHED)
    a.phases.commit()
    assert a.sent(CommitFinished) == [LEFT, RIGHT]
    a.run.committed.add(LEFT)
    assert not a.advance()
    assert a.sent(ReleaseSlot) == []
    a.run.committed.add(RIGHT)
    assert not a.advance()
    assert a.run.phase is P.LEAVING
    released = [s.message for s in a.actions if isinstance(s, SendToSlot) and isinstance(s.message, ReleaseSlot)]
    assert released == [ReleaseSlot(is_over=True)] * 2


def test_each_phase_says_why_it_is_late() -> None:
    a = Attempt()
    a.phases.request(FIRST_ATTEMPT)
    a.at(59_999)
    assert not a.phases.is_due
    a.at(60_000)
    assert a.phases.is_due
    assert a.phases.describe_late().startswith("2 of 2 slots did not register within 60 s")
    a.register(LEFT, RIGHT)
    assert a.phases.describe_late() == "the storage did not say whether the newest checkpoint is complete"
    a.phases.deploying()
    assert not a.phases.is_due, "the time begins again"
    a.all_tasks(TaskState.INITIALIZING, LEFT)
    assert a.phases.describe_late().startswith("2 tasks were not deployed in time: ")


def test_a_phase_can_be_given_more_time_or_none() -> None:
    a = Attempt()
    a.phases.reconcile()
    assert a.run.deadline_ms == ADOPTION_TIMEOUT_MS
    a.at(1_000)
    a.phases.wait_longer(5_000)
    assert a.run.deadline_ms == 6_000
    a.phases.wait_until(None)
    a.at(100_000)
    assert not a.phases.is_due


def test_tasks_that_do_not_stop_in_time_are_killed_with_their_slot() -> None:
    a = Attempt()
    a.bring_up()
    a.phases.cancel(3_000)
    a.all_tasks(TaskState.CANCELED, LEFT)
    a.phases.give_up_late()
    assert [[p.slot for p in k.slots] for k in a.actions if isinstance(k, KillSlots)] == [[RIGHT]]
    assert not a.advance()
    assert (a.run.phase, a.sent(ReleaseSlot)) == (P.LEAVING, [LEFT])


def test_slots_that_do_not_leave_in_time_are_killed_when_the_attempt_ends() -> None:
    a = Attempt()
    a.bring_up()
    a.phases.cancel(3_000)
    a.all_tasks(TaskState.CANCELED)
    a.advance()
    a.leave(LEFT)
    a.phases.give_up_late()
    assert a.advance()
    assert [[p.slot for p in k.slots] for k in a.actions if isinstance(k, KillSlots)] == [[RIGHT]]


def test_a_request_that_is_withdrawn_leaves_nothing_behind() -> None:
    a = Attempt()
    a.phases.request(FIRST_ATTEMPT)
    a.phases.withdraw()
    assert (a.run.phase, a.run.deadline_ms) == (P.IDLE, None)
    assert ReleaseAttempt(FIRST_ATTEMPT) in a.actions


def test_an_attempt_that_is_broken_off_has_no_live_slot_and_asks_for_nothing() -> None:
    a = Attempt()
    a.bring_up()
    a.at(1)
    a.phases.break_off()
    assert (a.run.phase, a.run.slots.live(), a.actions) == (P.IDLE, [], [])
    a.phases.check_invariants()
