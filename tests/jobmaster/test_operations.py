"""The operations of a job by example: what is pending, what follows from it, and that each is answered once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.messages import RequestDone, TriggerRequested
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions
from runtime.core.ids import CheckpointId, JobId
from runtime.jobmaster.actions import RequestAnswered
from runtime.jobmaster.decisions import Decision, FailAttempt, RedeployJob
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    CheckpointRequested,
    RescaleRequested,
    SavepointRequested,
    SlotLost,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.journal import Journal
from runtime.jobmaster.operations import JobOperations
from runtime.jobmaster.phases import Phase
from runtime.task.messages import (
    CheckpointDue,
    CommitFinished,
    Deploy,
    FailureInfo,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    ReleaseSlot,
    SlotFailed,
    TriggerCheckpoint,
)
from tests.jobmaster.simulation import EVERY_SECOND, Simulation, keyed_job, saving_job

S = JobState


# --- the end of a bounded job -----------------------------------------------------------------------------------------


def test_a_job_commits_and_ends_behind_a_last_checkpoint() -> None:
    s = saving_job()
    s.advance(1_000)
    s.storage_is_slow = True
    s.finish_tasks()
    s.settle()
    assert s.sent(CommitFinished) == [], "what sinks hold could still be lost"
    s.answer_storage()
    s.settle()
    assert s.states[-1] is S.FINISHED
    messages = s.sent_to(0, NotifyCheckpointComplete, CommitFinished, ReleaseSlot)
    assert [type(m) for m in messages] == [
        NotifyCheckpointComplete,
        NotifyCheckpointComplete,
        CommitFinished,
        ReleaseSlot,
    ]
    assert s.completed == []
    assert len(s.deleted) == 2


def test_a_checkpoint_that_a_batch_waits_for_is_taken_once_however_often_it_is_asked_for() -> None:
    s = saving_job(replace(EVERY_SECOND, is_micro_batch=True))
    s.advance(5_000)
    assert s.sent(TriggerCheckpoint) == [], "nobody has asked"
    slot = s.current(0)
    for _ in range(3):
        s.say(CheckpointDue(slot.slot, slot.attempt))
    s.settle()
    assert len(s.sent_to(0, TriggerCheckpoint)) == 1
    s.say(CheckpointDue(slot.slot, slot.attempt))
    s.settle()
    assert len(s.sent_to(0, TriggerCheckpoint)) == 2


def test_without_checkpoints_it_commits_at_once() -> None:
    s = saving_job(CheckpointSettings())
    s.finish_tasks()
    s.settle()
    assert s.machine.state is S.FINISHED
    assert s.sent(TriggerCheckpoint) == []


def test_a_crash_while_it_commits_is_followed_by_another_attempt_that_commits_again() -> None:
    s = saving_job()
    s.finish_tasks()
    while s.machine.phase is not Phase.COMMITTING:
        s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.current(1).gone = True
    s.deliver(SlotLost(s.current(1).slot, s.machine.attempt, "killed"))
    s.settle()
    s.advance(4_000)
    assert s.machine.state is S.RUNNING
    assert s.restored_from() == [1, 1]


def test_a_last_checkpoint_that_fails_is_tried_again() -> None:
    s = saving_job(replace(EVERY_SECOND, tolerable_failures=1))
    s.storage_is_slow = True
    s.finish_tasks()
    s.settle()
    s.answer_storage("away")
    s.settle()
    assert s.storing == []
    s.storage_is_slow = False
    s.advance(1_000)
    assert s.machine.state is S.FINISHED


# --- savepoints -------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_answered_and_the_job_goes_on() -> None:
    s = saving_job()
    s.deliver(SavepointRequested("r"))
    s.settle()
    assert s.answers["r"].location == "file:///saved/savepoint-ffffff-000000000000"
    assert s.machine.state is S.RUNNING
    assert s.sent(NotifyCheckpointComplete) == []
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert s.restored_from() == [], "recovery does not start from a savepoint"


def test_a_savepoint_of_a_job_that_does_not_run_yet_is_refused() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(SavepointRequested("r"))
    assert s.error_of() == "not all tasks of the job are running"
    assert s.answers["r"].is_premature


def test_a_savepoint_that_fails_once_it_was_begun_is_not_asked_for_again() -> None:
    s = saving_job()
    s.deliver(SavepointRequested("r"))
    s.fail_task()
    s.settle()
    assert s.error_of()
    assert not s.answers["r"].is_premature


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.DRAIN])
@pytest.mark.parametrize("settings", [EVERY_SECOND, CheckpointSettings(savepoint_directory="file:///saved")])
def test_a_stopped_job_is_finished_behind_its_savepoint(after: AfterSavepoint, settings: CheckpointSettings) -> None:
    s = saving_job(settings)
    s.deliver(SavepointRequested("r", after=after))
    s.settle()
    assert s.machine.state is S.FINISHED
    assert s.answers["r"].location is not None
    (trigger,) = s.sent_to(0, TriggerCheckpoint)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.options.after is AfterSnapshot[after.name]
    # no other checkpoint is needed: every task has told its last state
    assert [type(m) for m in s.sent_to(0, NotifyCheckpointComplete, CommitFinished)] == [
        NotifyCheckpointComplete,
        CommitFinished,
    ]
    assert s.deleted == []


def test_a_job_is_cancelled_behind_its_savepoint() -> None:
    s = saving_job()
    s.deliver(SavepointRequested("r", after=AfterSavepoint.CANCEL))
    s.settle()
    assert s.machine.state is S.CANCELED
    assert s.answers["r"].error is None
    assert s.sent(NotifyCheckpointComplete) == []


def test_a_stop_that_cannot_be_stored_leaves_the_job_running() -> None:
    s = saving_job()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    s.settle()
    s.answer_storage("disk full")
    s.settle()
    assert s.error_of() == "disk full"
    assert s.machine.state is S.RUNNING
    assert s.machine.attempt == 0
    assert s.sent(NotifyCheckpointAborted) == [0, 1]


def test_a_drain_that_fails_is_followed_by_another_attempt() -> None:
    s = saving_job()
    s.advance(1_000)
    s.storage_is_slow = True
    s.deliver(SavepointRequested("r", after=AfterSavepoint.DRAIN))
    s.settle()
    s.storage_is_slow = False
    s.answer_storage("disk full")
    s.settle()
    assert s.error_of() == "disk full"
    assert (s.machine.state, s.machine.attempt, s.machine.status().restarts) == (S.RUNNING, 1, 0)
    assert s.restored_from() == [1, 1]


def test_a_job_that_fails_behind_the_savepoint_it_stops_with_ends_with_it_in_its_next_attempt() -> None:
    s = saving_job()
    s.current(0).suspended_by = None
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    while not s.completed:
        s.deliver(s.queue.pop(0))
    s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.fail_task()
    s.settle()
    assert s.answers == {}, "it has not stopped yet"
    s.advance(1_000)
    s.settle()
    assert (s.machine.state, s.machine.attempt) == (S.FINISHED, 1)
    assert (s.answers["r"].checkpoint_id, s.answers["r"].error) == (1, None)
    deploy = s.current(0).deploy
    assert deploy is not None
    assert deploy.stopped_by == 1 and all(t.restore is not None for t in deploy.tasks)
    assert len(s.recorded) == 1, "nothing is taken behind it"


def stopping_behind_a_damaged_savepoint(num_retained: int = 2) -> Simulation:
    """A job that has found, as it restores the savepoint to stop with, that this is damaged."""
    s = saving_job(replace(EVERY_SECOND, num_retained=num_retained))
    s.advance(1_000)
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    while s.completed[-1:] != [2]:
        s.deliver(s.queue.pop(0))
    s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.register_automatically = False
    s.fail_task()
    s.settle()
    s.advance(1_000)
    s.register_automatically = True
    for slot in (0, 1):
        s.current(slot).silent = True
        s.deliver_registration(slot)
    damaged = s.current(0)
    s.storage_is_slow = True
    s.say(SlotFailed(damaged.slot, damaged.attempt, FailureInfo("sha256 differs", is_damaged_snapshot=True)))
    s.settle()
    return s


def test_a_job_whose_savepoint_to_stop_with_is_damaged_goes_on_from_an_older_checkpoint() -> None:
    s = stopping_behind_a_damaged_savepoint()
    assert s.answers == {}, "another JobMaster would still stop the job with it"
    s.storage_is_slow = False
    s.record_damage()
    s.settle()
    s.advance(60_000)
    assert "the savepoint to stop with is damaged, and the job did not stop: sha256 differs" in s.error_of()
    assert s.machine.state is S.RUNNING
    assert 2 not in s.restored_from()


def test_a_job_that_ends_before_the_damage_is_recorded_says_so() -> None:
    s = stopping_behind_a_damaged_savepoint()
    s.deliver(CancelRequested())
    s.settle()
    s.advance(60_000)
    assert s.machine.state is S.CANCELED
    assert s.error_of() == (
        "the savepoint to stop with is damaged, which was not recorded before the job ended here: sha256 differs; the "
        "job is CANCELED"
    )


def test_a_stop_whose_only_savepoint_is_damaged_is_told_at_the_end() -> None:
    """Until the end is recorded, another JobMaster would find the savepoint, and stop the job with it."""
    s = stopping_behind_a_damaged_savepoint(num_retained=1)
    s.settle()
    s.advance(60_000)
    assert s.machine.state is S.FAILED
    assert "is damaged, which was not recorded before the job ended here" in s.error_of()


def test_the_record_of_damage_is_waited_for_and_no_failure() -> None:
    s = stopping_behind_a_damaged_savepoint()
    restarts = s.machine.status().failures
    s.advance(1_000_000)
    assert (s.machine.phase, s.machine.status().failures) == (Phase.REQUESTING, restarts)
    s.storage_is_slow = False
    s.record_damage()
    s.settle()
    s.advance(1_000)
    assert s.machine.state is S.RUNNING


@pytest.mark.parametrize("waits_ms", [0, 1_000])
def test_a_jobmaster_that_is_replaced_deploys_nothing_from_an_older_checkpoint(waits_ms: float) -> None:
    """The refusal comes during the teardown, or when the next attempt has its slots."""
    s = stopping_behind_a_damaged_savepoint()
    s.advance(waits_ms)
    s.record_damage(is_fenced=True)
    s.settle()
    s.advance(60_000)
    assert s.machine.state is S.FAILED
    assert s.current(0).deploy is None
    assert "which was not recorded" in s.error_of()


def test_a_job_that_is_not_restarted_behind_the_savepoint_it_stops_with_names_it() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.run_to_running()
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    while not s.completed:
        s.deliver(s.queue.pop(0))
    s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.fail_task()
    s.settle()
    assert s.machine.state is S.FAILED
    assert "is complete, but the job did not stop after it: the job is FAILED" in s.error_of()


def test_requests_that_a_cancellation_overtakes_are_answered() -> None:
    s = saving_job()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("stop", after=AfterSavepoint.DRAIN))
    s.deliver(CheckpointRequested("checkpoint"))
    s.deliver(CancelRequested())
    s.settle()
    assert s.machine.state is S.CANCELED
    assert s.error_of("stop") == "the job was cancelled"
    assert s.error_of("checkpoint") != ""


# --- rescaling --------------------------------------------------------------------------------------------------------


def parallelism(s: Simulation, number: int) -> RescaleRequested:
    return RescaleRequested("r", {v.vertex_id: number for v in s.graph.vertices})


def test_a_job_goes_on_with_another_parallelism_from_a_checkpoint() -> None:
    s = saving_job()
    s.advance(500)
    s.deliver(parallelism(s, 4))
    s.settle()
    assert s.machine.state is S.RUNNING
    assert s.answers["r"].error is None
    assert (s.machine.attempt, s.machine.status().restarts, len(s.sent(Deploy))) == (1, 0, 2 + 4)
    assert set(s.machine.status().parallelism.values()) == {4}
    assert [s.restored_from(slot) for slot in range(4)] == [[1, 1]] * 4
    assert S.FAILING not in s.states
    s.advance(1_000)
    assert s.machine.status().checkpoints.history[0].num_subtasks == 8


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"0" * 32: 3}, "no vertex"),
        ({None: 0}, r"parallelism 0 is not in 1..128"),
        ({None: 129}, r"parallelism 129 is not in 1..128"),
        ({None: 9}, "would need 9 slots, and there are 8"),
    ],
)
def test_parallelisms_that_cannot_be_are_refused(asked: dict[str | None, int], why: str) -> None:
    s = saving_job(max_slots=8)
    vertex = s.graph.vertices[1].vertex_id
    s.deliver(RescaleRequested("r", {vertex if k is None else k: n for k, n in asked.items()}))  # type: ignore[misc]
    assert why.replace(r"\.", ".") in s.error_of()
    assert s.machine.state is S.RUNNING


def test_the_same_parallelism_is_answered_at_once() -> None:
    s = saving_job()
    s.deliver(parallelism(s, 2))
    assert s.answers["r"].error is None
    assert s.machine.attempt == 0


def test_a_job_moves_to_other_slots_from_a_checkpoint_with_the_same_parallelism() -> None:
    s = saving_job()
    s.deliver(parallelism(s, 4))
    s.settle()
    s.answers.clear()
    # whatever the cool-down says
    s.deliver(RescaleRequested("move", {}, is_move=True))
    s.settle()
    assert s.answers["move"].error is None
    assert (s.machine.state, s.machine.attempt, s.machine.status().restarts) == (S.RUNNING, 2, 0)
    assert set(s.machine.status().parallelism.values()) == {4}
    assert any("the job is moved to other slots" in line for line in s.machine.story())
    assert S.FAILING not in s.states


def test_a_job_that_gave_up_its_slots_as_told_waits_for_others_as_long_as_it_takes() -> None:
    s = saving_job(restarts=0)
    s.advance(1_000)
    s.deliver(RescaleRequested("move", {}, is_move=True))
    while s.machine.phase is not Phase.REQUESTING:
        s.deliver(s.queue.pop(0))
    granted, s.queue = s.queue, []
    for _ in range(12):
        s.advance(301_000)
        s.settle()
    assert (s.machine.state, s.machine.phase) == (S.RESTARTING, Phase.REQUESTING)
    assert "move" not in s.answers
    s.queue = granted
    s.settle()
    assert (s.machine.state, s.machine.attempt, s.machine.status().restarts) == (S.RUNNING, 1, 0)
    assert s.answers["move"].error is None
    assert S.FAILING not in s.states


def test_a_job_that_has_left_its_slots_waits_under_the_next_jobmaster_as_it_did() -> None:
    old = saving_job(restarts=0)
    old.register_automatically = False
    old.deliver(RescaleRequested("move", {}, is_move=True))
    old.settle()
    assert (old.machine.state, old.machine.phase) == (S.RESTARTING, Phase.REQUESTING)
    [saved] = old.completed
    new = old.successor(has_run=True)
    new.register_automatically = False
    new.take_over()
    for _ in range(12):
        new.advance(301_000)
        new.settle()
    assert (new.machine.state, new.machine.phase) == (S.CREATED, Phase.REQUESTING)
    for slot in (0, 1):
        new.deliver_registration(slot)
    new.settle()
    assert (new.machine.state, new.machine.attempt, new.machine.status().restarts) == (S.RUNNING, 2, 0)
    assert new.machine.status().exceptions == ()
    assert set(new.restored_from()) == {saved}


def test_a_checkpoint_that_fails_leaves_the_job_as_it_is() -> None:
    s = saving_job()
    s.storage_is_slow = True
    s.deliver(parallelism(s, 4))
    s.settle()
    s.answer_storage("disk full")
    s.settle()
    assert "no checkpoint could be taken to rescale from: disk full" in s.error_of()
    assert (s.machine.state, s.machine.attempt) == (S.RUNNING, 0)


def test_one_rescaling_follows_another_after_the_cool_down() -> None:
    s = saving_job()
    s.deliver(parallelism(s, 4))
    s.settle()
    first = s.now_ms
    s.answers.clear()
    s.deliver(parallelism(s, 3))
    s.deliver(RescaleRequested("impatient", {v.vertex_id: 1 for v in s.graph.vertices}))
    assert "being rescaled already" in s.error_of("impatient")
    s.advance(9_999)
    assert s.machine.attempt == 1
    s.advance(1)
    assert s.now_ms == first + 10_000
    assert set(s.machine.status().parallelism.values()) == {3}


def test_a_rescaling_that_is_urgent_does_not_wait_for_the_cool_down() -> None:
    s = saving_job()
    s.deliver(parallelism(s, 4))
    s.settle()
    s.answers.clear()
    s.deliver(replace(parallelism(s, 3), at_once=True))
    s.settle()
    assert s.answers["r"].error is None
    assert (s.machine.attempt, set(s.machine.status().parallelism.values())) == (2, {3})
    # and is none where nothing changes
    s.answers.clear()
    s.deliver(replace(parallelism(s, 3), at_once=True))
    assert s.answers["r"].error is None
    assert s.machine.attempt == 2


def test_a_rescaling_fails_because_the_job_is_stopped_meanwhile() -> None:
    s = saving_job()
    s.deliver(parallelism(s, 4))
    s.settle()
    s.answers.clear()
    # it waits for the cool-down
    s.deliver(parallelism(s, 3))
    s.deliver(SavepointRequested("stop", after=AfterSavepoint.SUSPEND))
    s.settle()
    assert s.answers["stop"].error is None
    assert "no checkpoint" not in s.error_of()
    assert s.error_of() == "the job is FINISHED"


def test_a_rescaling_fails_because_the_job_is_being_stopped() -> None:
    s = saving_job()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("stop", after=AfterSavepoint.SUSPEND))
    s.settle()
    s.deliver(replace(parallelism(s, 3), at_once=True))
    s.settle()
    assert s.error_of() == "the job is being stopped and is not rescaled"
    assert "stop" not in s.answers


def test_a_job_goes_back_if_the_slots_for_more_do_not_come() -> None:
    s = saving_job(restarts=0)
    s.advance(1_000)
    s.deliver(parallelism(s, 4))
    while s.machine.phase is not Phase.REQUESTING:
        s.deliver(s.queue.pop(0))
    # two of the four register
    s.queue = s.queue[:2]
    s.settle()
    s.advance(310_000)
    s.settle()
    assert s.machine.state is S.RUNNING
    assert set(s.machine.status().parallelism.values()) == {2}
    assert "keeps the old one: 2 of 4 slots did not register" in s.error_of()


# --- what is stored when its attempt is over already ------------------------------------------------------------------


def stored_too_late(event: SavepointRequested | RescaleRequested, settings: CheckpointSettings) -> Simulation:
    """A job that has failed, and run again, while what was asked for was being stored."""
    s = saving_job(settings)
    s.advance(1_000)
    s.storage_is_slow = True
    s.deliver(event)
    s.settle()
    s.fail_task()
    s.settle()
    s.storage_is_slow = False
    s.answer_storage()
    s.settle()
    s.advance(1_000)
    s.settle()
    assert s.machine.attempt == 1
    return s


def test_a_stop_whose_savepoint_is_stored_behind_its_attempt_is_finished_by_the_next_one() -> None:
    s = stored_too_late(SavepointRequested("r", after=AfterSavepoint.SUSPEND), EVERY_SECOND)
    assert s.machine.state is S.FINISHED
    assert (s.answers["r"].checkpoint_id, s.answers["r"].error) == (2, None)
    assert s.restored_from() == [None, None], "from the savepoint"
    assert s.completed == [], "nothing is taken behind it, and its own are forgotten"
    told = s.sent_to(0, TriggerCheckpoint, CommitFinished, ReleaseSlot)
    assert [type(m) for m in told][-2:] == [CommitFinished, ReleaseSlot]


def test_a_job_that_was_to_be_cancelled_behind_its_savepoint_is_said_to_go_on() -> None:
    s = stored_too_late(SavepointRequested("r", after=AfterSavepoint.CANCEL), EVERY_SECOND)
    assert s.machine.state is S.RUNNING
    assert "is complete, but the job was not cancelled after it" in s.error_of()


def test_a_rescaling_that_did_not_happen_is_not_said_to_have_happened() -> None:
    graph = keyed_job()
    asked = RescaleRequested("r", {v.vertex_id: 4 for v in graph.vertices})
    s = stored_too_late(asked, EVERY_SECOND)
    assert set(s.machine.status().parallelism.values()) == {2}
    assert "ValueError: bad record" in s.error_of()


def test_a_job_that_ends_while_its_stop_fails_takes_its_last_checkpoint_before_it_commits() -> None:
    s = saving_job()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    s.settle()
    s.finish_tasks()
    s.settle()
    s.storage_is_slow = False
    s.actions.clear()
    s.answer_storage("disk full")
    s.settle()
    s.advance(0)
    assert s.error_of() == "disk full"
    assert s.machine.state is S.FINISHED
    told = s.sent_to(0, TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished)
    assert [type(m) for m in told] == [TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished]


# --- exactly once -----------------------------------------------------------------------------------------------------


@dataclass
class Snapshots:
    """Takes snapshots when the test says so; none after one that is the last of its attempt, as the coordinator."""

    settings: CheckpointSettings = EVERY_SECOND
    can_restore: bool = True
    is_damage_recorded: bool = True
    #: whether each is being stored: then it outlives its attempt
    pending: dict[str, tuple[TriggerRequested, bool]] = field(default_factory=dict)
    is_sealed: bool = False
    refused: list[TriggerRequested] = field(default_factory=list)
    stopped_by: CompletedCheckpoint | None = None

    def trigger(self, request: TriggerRequested) -> None:
        if self.is_sealed or self.stopped_by is not None:
            self.refused.append(request)
            return
        self.is_sealed = request.is_last
        self.pending[request.request_id] = request, False


def saved(after: AfterSnapshot) -> CompletedCheckpoint:
    options = CheckpointOptions("file:///saved/1", "file:///saved/1", is_savepoint=True, after=after)
    return CompletedCheckpoint(CheckpointMetadata(JobId("e" * 32), CheckpointId(1), 0, options, ()), is_owned=False)


class Operations:
    """JobOperations without a job: the snapshots that they ask for are taken, one step after the other."""

    def __init__(self) -> None:
        self.graph = keyed_job()
        self.snapshots = Snapshots()
        self.decisions: list[Decision] = []
        self.journal = Journal()
        self.operations = JobOperations(self.snapshots, None, self.decisions.append, self.journal)
        self.actions = self.journal.begin(0)
        self.asked = 0

    def answers(self) -> list[str]:
        return [action.request_id for action in self.actions if isinstance(action, RequestAnswered)]

    def ask(self, kind: str) -> None:
        self.asked += 1
        request_id = f"r{self.asked}"
        match kind:
            case "checkpoint":
                self.operations.request_checkpoint(CheckpointRequested(request_id))
            case "rescale":
                wanted = {v.vertex_id: 3 + self.asked for v in self.graph.vertices}
                rescale = RescaleRequested(request_id, wanted)
                self.operations.request_rescale(rescale, self.graph, JobState.RUNNING)
            case _:
                self.operations.request_savepoint(SavepointRequested(request_id, after=AfterSavepoint[kind]))

    def store(self) -> None:
        for request_id, (request, _) in self.snapshots.pending.items():
            self.snapshots.pending[request_id] = request, True

    def end_next(self, error: str | None = None) -> None:
        if self.snapshots.pending:
            self.end(next(iter(self.snapshots.pending)), error)

    def end(self, request_id: str, error: str | None) -> None:
        request, _ = self.snapshots.pending.pop(request_id)
        drained = error is not None and request.after is AfterSnapshot.DRAIN
        if request.is_last and error is not None and not drained:
            self.snapshots.is_sealed = False
        number, location = (CheckpointId(1), "file:///saved/1") if error is None else (None, None)
        if error is None and request.after is not AfterSnapshot.GO_ON:
            self.snapshots.stopped_by = saved(request.after)
        self.operations.done(RequestDone(request.request_id, number, location, error, drained))

    def end_attempt(self) -> None:
        self.snapshots.is_sealed = False
        for request_id, (_, is_stored) in list(self.snapshots.pending.items()):
            if not is_stored:
                self.end(request_id, "a task failed")
        self.operations.attempt_ended("a task failed")
        self.decisions.clear()

    def run_again(self) -> None:
        self.end_attempt()
        # what an attempt may be restored from is decided before it runs
        for request_id, (request, _) in list(self.snapshots.pending.items()):
            if not request.is_savepoint:
                self.end(request_id, None)
        self.operations.attempt_running()

    def refuse(self) -> None:
        """Answer what was asked for behind the last snapshot of an attempt."""
        while self.snapshots.refused:
            self.operations.done(RequestDone(self.snapshots.refused.pop().request_id, None, None, "being stopped"))


REQUESTS = ("checkpoint", "rescale", "GO_ON", "CANCEL", "SUSPEND", "DRAIN")
STEPS = st.sampled_from([*REQUESTS, "store", "done", "fail", "end attempt", "run again", "finish", "wait"])


@given(steps=st.lists(STEPS, max_size=30), outcome=st.sampled_from([S.FINISHED, S.CANCELED, S.FAILED]))
def test_whatever_happens_every_request_is_answered_once(steps: list[str], outcome: JobState) -> None:
    o = Operations()
    for step in steps:
        match step:
            case "store":
                o.store()
            case "done":
                o.end_next()
            case "fail":
                o.end_next("disk full")
            case "end attempt":
                o.end_attempt()
            case "run again":
                o.run_again()
            case "finish":
                o.operations.all_finished()
            case "wait":
                o.journal.now_ms += 5_000
                o.operations.tick()
            case _:
                o.ask(step)
        o.refuse()
        o.operations.check_invariants()
        assert len(set(o.answers())) == len(o.answers())
    o.operations.job_ended(outcome)
    while o.snapshots.pending:
        o.end_next("the job has ended")
    assert sorted(o.answers()) == sorted(f"r{i + 1}" for i in range(o.asked))


@pytest.mark.parametrize("outcome", [S.FINISHED, S.CANCELED, S.FAILED])
def test_a_stop_whose_savepoint_is_complete_is_answered_when_the_job_ends_and_names_it(outcome: JobState) -> None:
    o = Operations()
    o.operations.attempt_running()
    o.ask("SUSPEND")
    o.end_next()
    o.end_attempt()
    o.run_again()
    assert (o.answers(), o.decisions) == ([], []), "the job has not stopped yet"
    assert o.operations.all_finished(), "no checkpoint at the end beside it"
    o.operations.job_ended(outcome)
    location = "file:///saved/1"
    why = f"the savepoint {location} is complete, but the job did not stop after it: the job is {outcome.value}"
    stopped = RequestAnswered("r1", location, CheckpointId(1))
    assert o.actions == [stopped if outcome is S.FINISHED else RequestAnswered("r1", error=why)]


@pytest.mark.parametrize("can_restore", [True, False])
def test_a_drain_that_fails_needs_another_attempt(can_restore: bool) -> None:
    o = Operations()
    o.snapshots.can_restore = can_restore
    o.operations.attempt_running()
    o.ask("DRAIN")
    o.end_next("disk full")
    assert [type(decision) for decision in o.decisions] == [RedeployJob if can_restore else FailAttempt]
