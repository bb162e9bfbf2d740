"""Checkpoints in the machine by example: what slots are told, what attempts start from, how requests end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import AfterSnapshot
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.actions import SendToSlot
from runtime.jobmaster.events import (
    AfterSavepoint,
    CancelRequested,
    CheckpointRequested,
    RecoveryDelayed,
    RescaleRequested,
    SavepointRequested,
    SlotLost,
    Submitted,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.task.messages import (
    CommitFinished,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    Deploy,
    FailureInfo,
    JobMasterMessage,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEvent,
    ReleaseSlot,
    SnapshotCoordinators,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from tests.jobmaster.simulation import Simulation, keyed_job

S = JobState
EVERY_SECOND = CheckpointSettings(interval_ms=1_000, savepoint_directory="file:///saved", rescale_cooldown_ms=10_000)


def running(settings: CheckpointSettings = EVERY_SECOND, restarts: int = 5, max_slots: int | None = None) -> Simulation:
    simulation = Simulation(strategy=FixedDelay(restarts, 1_000), settings=settings, max_slots=max_slots)
    simulation.run_to_running()
    return simulation


def restored_from(s: Simulation, slot: int = 0) -> list[int | None]:
    """What each task of a slot was told to go on from; empty: from nothing."""
    deploy = s.current(slot).deploy
    assert deploy is not None
    return [t.restore.checkpoint_id for t in deploy.tasks if t.restore is not None]


def sent_to(s: Simulation, slot: int, *kinds: type[JobMasterMessage]) -> list[JobMasterMessage]:
    return [
        a.message for a in s.actions if isinstance(a, SendToSlot) and a.slot == slot and isinstance(a.message, kinds)
    ]


def error_of(s: Simulation, request: str = "r") -> str:
    return s.answers[request].error or ""


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_every_slot_is_triggered_once_the_sources_coordinators_are_done() -> None:
    s = running()
    s.advance(1_000)
    assert s.sent(SnapshotCoordinators) == [0]
    assert s.sent(TriggerCheckpoint) == s.sent(NotifyCheckpointComplete) == [0, 1]
    assert s.completed == [1]
    status = s.machine.status().checkpoints
    assert (status.counts.completed, status.history[0].num_acknowledged) == (1, 4)


def test_what_coordinators_send_to_readers_waits_until_the_barrier_is_on_its_way() -> None:
    s = running()
    source = s.graph.vertices[0].head.operator_id
    s.deliver(CheckpointRequested("r"))
    held = OperatorEvent(s.machine.attempt, source, 1, None, b"split")
    s.say(held)
    s.say(OperatorEvent(s.machine.attempt, source, None, 1, b"more, please"))
    assert sent_to(s, 0, DeliverOperatorEvent) != [], "what readers send is not held back"
    assert sent_to(s, 1, DeliverOperatorEvent) == []
    s.settle()
    assert [type(m) for m in sent_to(s, 1, TriggerCheckpoint, DeliverOperatorEvent)] == [
        TriggerCheckpoint,
        DeliverOperatorEvent,
    ]


def test_what_was_held_back_is_let_go_if_the_checkpoint_is_given_up() -> None:
    s = running(replace(EVERY_SECOND, tolerable_failures=3))
    s.deliver(CheckpointRequested("r"))
    s.say(OperatorEvent(s.machine.attempt, s.graph.vertices[0].head.operator_id, 1, None, b"split"))
    s.say(DeclineCheckpoint(s.current(0).slot, s.machine.attempt, None, CheckpointId(1), FailureInfo("no")))
    assert len(sent_to(s, 1, DeliverOperatorEvent)) == 1
    assert error_of(s) == "no"


def test_a_failed_checkpoint_fails_the_job_and_the_next_attempt_goes_on_from_the_one_before() -> None:
    s = running()
    s.advance(1_000)
    s.current(1).acknowledges = False
    s.advance(1_000)
    s.say(DeclineCheckpoint(s.current(1).slot, Attempt(0), None, CheckpointId(2), FailureInfo("disk full")))
    assert s.machine.state is S.FAILING
    s.settle()
    s.advance(1_000)
    assert s.machine.state is S.RUNNING
    assert (s.machine.attempt, restored_from(s)) == (1, [1, 1])
    assert s.machine.status().exceptions[0].cause.message == "checkpoint 2 failed: disk full"
    assert s.sent(NotifyCheckpointAborted) == [0, 1]


# --- recovery ---------------------------------------------------------------------------------------------------------


def test_an_attempt_goes_on_from_the_newest_checkpoint() -> None:
    s = running()
    s.advance(3_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert restored_from(s) == restored_from(s, 1) == [3, 3]
    restored = s.machine.status().checkpoints.latest_restored
    assert restored is not None
    assert restored.checkpoint_id == 3
    report = s.machine.status().restored_from
    assert report is not None
    assert "matched  Window (uid window): as it was" in report.describe()


def test_it_is_not_deployed_before_it_is_known_which_one_that_is() -> None:
    s = running()
    s.advance(1_000)
    s.storage_is_slow = True
    s.advance(1_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert s.machine.phase is Phase.REQUESTING
    s.answer_storage()
    s.settle()
    assert restored_from(s) == [2, 2]


def test_nor_is_it_if_the_storage_then_says_no() -> None:
    s = running()
    s.advance(1_000)
    s.storage_is_slow = True
    s.advance(1_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    s.answer_storage("disk full")
    s.settle()
    assert restored_from(s) == [1, 1]


def damage(s: Simulation) -> None:
    slot = s.current(0)
    failure = FailureInfo("file is damaged", task=slot.tasks[0], slot=slot.slot, is_damaged_snapshot=True)
    s.say(TaskStateChanged(slot.slot, slot.attempt, slot.tasks[0], TaskState.FAILED, failure))


def restarted_up_to_deployment(settings: CheckpointSettings) -> Simulation:
    """A job whose second attempt is restoring."""
    s = Simulation(strategy=FixedDelay(1, 1_000), settings=settings)
    s.run_to_running()
    s.advance(2_000)
    s.fail_task()
    s.settle()
    s.now_ms += 1_000
    s.register_automatically = False
    s.advance(0)
    for slot in (0, 1):
        s.deliver_registration(slot)
    return s


def test_a_damaged_checkpoint_is_left_for_the_one_before_and_the_restart_strategy_is_not_asked() -> None:
    s = restarted_up_to_deployment(replace(EVERY_SECOND, num_retained=2))
    assert restored_from(s) == [2, 2]
    s.register_automatically = True
    damage(s)
    s.queue.clear()
    for slot in (0, 1):
        s.current(slot).gone = True
        s.deliver(SlotLost(s.current(slot).slot, s.machine.attempt, "gone"))
    s.settle()
    assert s.machine.state is S.RUNNING
    assert restored_from(s) == [1, 1]
    assert s.completed == [1]
    assert s.deleted == []


def test_without_an_older_one_the_job_fails_and_says_so() -> None:
    s = restarted_up_to_deployment(EVERY_SECOND)
    damage(s)
    s.settle()
    assert s.machine.state is S.FAILED
    assert "there is no older checkpoint to restore" in s.machine.status().exceptions[-1].cause.message


def test_a_task_that_runs_has_nothing_to_say_about_what_it_was_restored_from() -> None:
    s = Simulation(strategy=FixedDelay(2, 1_000), settings=EVERY_SECOND)
    s.run_to_running()
    s.advance(2_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert (s.machine.state, restored_from(s)) == (S.RUNNING, [2, 2])
    damage(s)
    s.settle()
    # as after any failure: the restart strategy is asked, and the checkpoint is taken again
    assert s.machine.state is S.RESTARTING
    s.advance(1_000)
    assert (s.machine.state, restored_from(s)) == (S.RUNNING, [2, 2])
    assert s.completed == [2]


def test_a_fatal_failure_is_not_followed_by_another_attempt() -> None:
    s = running()
    slot = s.current(0)
    failure = FailureInfo("the key cannot be read", is_fatal=True)
    s.say(TaskStateChanged(slot.slot, slot.attempt, slot.tasks[0], TaskState.FAILED, failure))
    s.settle()
    assert s.machine.state is S.FAILED


def snapshot_of(graph: JobGraph) -> CompletedCheckpoint:
    """A checkpoint of such a job."""
    s = Simulation(graph, settings=EVERY_SECOND)
    s.storage_is_slow = True
    s.run_to_running()
    s.advance(1_000)
    return CompletedCheckpoint(s.storing[0].metadata, is_owned=False)


def test_a_job_starts_from_what_it_is_told_to() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(Submitted(initial=snapshot_of(keyed_job())))
    s.settle()
    assert restored_from(s) == [1, 1]


def test_a_snapshot_that_does_not_fit_fails_the_job_before_it_asks_for_slots() -> None:
    point = snapshot_of(keyed_job())
    window, *others = (o for o in point.metadata.operators if o.uid == "window")
    stranger = replace(window, operator_id=OperatorId("0" * 32), uid="gone", name="Gone")
    point = replace(point, metadata=replace(point.metadata, operators=(*point.metadata.operators, stranger)))
    s = Simulation(settings=EVERY_SECOND, strategy=FixedDelay(3, 0))
    s.deliver(Submitted(initial=point))
    assert s.states == [S.FAILING, S.FAILED]
    assert s.slots == {}
    message = s.machine.status().exceptions[0].cause.message
    assert "operators that the job does not have: Gone (uid gone)" in message
    assert "execution.state-recovery.ignore-unclaimed-state" in message
    assert others == []


def test_it_stays_although_the_job_has_claimed_it() -> None:
    point = snapshot_of(keyed_job())
    (operator,) = (o for o in point.metadata.operators if o.uid == "window")
    stranger = replace(operator, operator_id=OperatorId("0" * 32), uid="gone", name="Gone")
    point = replace(point, is_owned=True, is_claimed=True, metadata=replace(point.metadata, operators=(stranger,)))
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(Submitted(initial=point))
    s.settle()
    assert s.machine.state is S.FAILED
    assert s.deleted == []
    assert s.machine.status().leaves_checkpoints


def test_so_it_does_although_the_job_has_run() -> None:
    s = Simulation(settings=EVERY_SECOND)
    point = replace(snapshot_of(keyed_job()), is_owned=True, is_claimed=True)
    s.deliver(Submitted(initial=point))
    s.settle()
    s.fail_task()
    s.settle()
    assert s.machine.state is S.FAILED
    assert s.deleted == []
    assert not s.machine.status().leaves_checkpoints


def test_a_job_waits_for_what_it_is_to_go_on_from_and_says_so() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(RecoveryDelayed("the storage is away"))
    s.advance(60_000)
    assert (s.machine.state, s.slots) == (S.CREATED, {})
    assert s.machine.status().waiting_for == "the storage is away"
    s.deliver(SavepointRequested("r"))
    assert "not all tasks of the job are running" in error_of(s)
    s.deliver(Submitted(initial=snapshot_of(keyed_job())))
    s.settle()
    assert restored_from(s) == [1, 1]
    assert s.machine.status().waiting_for == ""


def test_it_can_be_cancelled_meanwhile_and_leaves_everything_as_it_is() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(RecoveryDelayed("the storage is away"))
    s.deliver(CancelRequested())
    assert s.machine.state is S.CANCELED
    status = s.machine.status()
    assert (status.waiting_for, status.leaves_checkpoints) == ("", True)
    s.deliver(Submitted((snapshot_of(keyed_job()),)))
    s.settle()
    assert (s.machine.state, s.slots, s.deleted) == (S.CANCELED, {}, [])


def test_what_cannot_be_read_at_the_start_fails_the_job() -> None:
    s = Simulation(settings=EVERY_SECOND, strategy=FixedDelay(3, 0))
    s.deliver(Submitted(refusal="no such savepoint"))
    assert s.machine.state is S.FAILED
    assert s.machine.status().exceptions[0].cause.message == "no such savepoint"


# --- the end of a bounded job -----------------------------------------------------------------------------------------


def test_a_job_commits_and_ends_behind_a_last_checkpoint() -> None:
    s = running()
    s.advance(1_000)
    s.storage_is_slow = True
    s.finish_tasks()
    s.settle()
    assert s.sent(CommitFinished) == [], "what sinks hold could still be lost"
    s.answer_storage()
    s.settle()
    assert s.states[-1] is S.FINISHED
    messages = sent_to(s, 0, NotifyCheckpointComplete, CommitFinished, ReleaseSlot)
    assert [type(m) for m in messages] == [
        NotifyCheckpointComplete,
        NotifyCheckpointComplete,
        CommitFinished,
        ReleaseSlot,
    ]
    assert s.completed == []
    assert len(s.deleted) == 2


def test_without_checkpoints_it_commits_at_once() -> None:
    s = running(CheckpointSettings())
    s.finish_tasks()
    s.settle()
    assert s.machine.state is S.FINISHED
    assert s.sent(TriggerCheckpoint) == []


def test_a_crash_while_it_commits_is_followed_by_another_attempt_that_commits_again() -> None:
    s = running()
    s.finish_tasks()
    while s.machine.phase is not Phase.COMMITTING:
        s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.current(1).gone = True
    s.deliver(SlotLost(s.current(1).slot, s.machine.attempt, "killed"))
    s.settle()
    s.advance(4_000)
    assert s.machine.state is S.RUNNING
    assert restored_from(s) == [1, 1]


def test_a_last_checkpoint_that_fails_is_tried_again() -> None:
    s = running(replace(EVERY_SECOND, tolerable_failures=1))
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
    s = running()
    s.deliver(SavepointRequested("r"))
    s.settle()
    assert s.answers["r"].location == "file:///saved/savepoint-ffffff-000000000000"
    assert s.machine.state is S.RUNNING
    assert s.sent(NotifyCheckpointComplete) == []
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert restored_from(s) == [], "recovery does not start from a savepoint"


def test_a_savepoint_of_a_job_that_does_not_run_yet_is_refused() -> None:
    s = Simulation(settings=EVERY_SECOND)
    s.deliver(SavepointRequested("r"))
    assert error_of(s) == "not all tasks of the job are running"


@pytest.mark.parametrize("after", [AfterSavepoint.SUSPEND, AfterSavepoint.DRAIN])
@pytest.mark.parametrize("settings", [EVERY_SECOND, CheckpointSettings(savepoint_directory="file:///saved")])
def test_a_stopped_job_is_finished_behind_its_savepoint(after: AfterSavepoint, settings: CheckpointSettings) -> None:
    s = running(settings)
    s.deliver(SavepointRequested("r", after=after))
    s.settle()
    assert s.machine.state is S.FINISHED
    assert s.answers["r"].location is not None
    (trigger,) = sent_to(s, 0, TriggerCheckpoint)
    assert isinstance(trigger, TriggerCheckpoint)
    assert trigger.options.after is AfterSnapshot[after.name]
    # no other checkpoint is needed: every task has told its last state
    assert [type(m) for m in sent_to(s, 0, NotifyCheckpointComplete, CommitFinished)] == [
        NotifyCheckpointComplete,
        CommitFinished,
    ]
    assert s.deleted == []


def test_a_job_is_cancelled_behind_its_savepoint() -> None:
    s = running()
    s.deliver(SavepointRequested("r", after=AfterSavepoint.CANCEL))
    s.settle()
    assert s.machine.state is S.CANCELED
    assert s.answers["r"].error is None
    assert s.sent(NotifyCheckpointComplete) == []


def test_a_stop_that_cannot_be_stored_leaves_the_job_running() -> None:
    s = running()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    s.settle()
    s.answer_storage("disk full")
    s.settle()
    assert error_of(s) == "disk full"
    assert s.machine.state is S.RUNNING
    assert s.machine.attempt == 0
    assert s.sent(NotifyCheckpointAborted) == [0, 1]


def test_a_drain_that_fails_is_followed_by_another_attempt() -> None:
    s = running()
    s.advance(1_000)
    s.storage_is_slow = True
    s.deliver(SavepointRequested("r", after=AfterSavepoint.DRAIN))
    s.settle()
    s.storage_is_slow = False
    s.answer_storage("disk full")
    s.settle()
    assert error_of(s) == "disk full"
    assert (s.machine.state, s.machine.attempt, s.machine.restarts) == (S.RUNNING, 1, 0)
    assert restored_from(s) == [1, 1]


def test_a_job_that_fails_behind_the_savepoint_it_stops_with_goes_on_from_it() -> None:
    s = running()
    s.current(0).suspended_by = None
    s.deliver(SavepointRequested("r", after=AfterSavepoint.SUSPEND))
    while not s.completed:
        s.deliver(s.queue.pop(0))
    s.deliver(s.queue.pop(0))
    s.queue.clear()
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert "is complete, but the job did not stop after it: ValueError: bad record" in error_of(s)
    assert s.machine.state is S.RUNNING
    deploy = s.current(0).deploy
    assert deploy is not None
    assert all(t.restore is not None for t in deploy.tasks)


def test_requests_that_a_cancellation_overtakes_are_answered() -> None:
    s = running()
    s.storage_is_slow = True
    s.deliver(SavepointRequested("stop", after=AfterSavepoint.DRAIN))
    s.deliver(CheckpointRequested("checkpoint"))
    s.deliver(CancelRequested())
    s.settle()
    assert s.machine.state is S.CANCELED
    assert error_of(s, "stop") == "the job was cancelled"
    assert error_of(s, "checkpoint") != ""


# --- rescaling --------------------------------------------------------------------------------------------------------


def parallelism(s: Simulation, number: int) -> RescaleRequested:
    return RescaleRequested("r", {v.vertex_id: number for v in s.graph.vertices})


def test_a_job_goes_on_with_another_parallelism_from_a_checkpoint() -> None:
    s = running()
    s.advance(500)
    s.deliver(parallelism(s, 4))
    s.settle()
    assert s.machine.state is S.RUNNING
    assert s.answers["r"].error is None
    assert (s.machine.attempt, s.machine.restarts, len(s.sent(Deploy))) == (1, 0, 2 + 4)
    assert set(s.machine.status().parallelism.values()) == {4}
    assert [restored_from(s, slot) for slot in range(4)] == [[1, 1]] * 4
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
    s = running(max_slots=8)
    vertex = s.graph.vertices[1].vertex_id
    s.deliver(RescaleRequested("r", {vertex if k is None else k: n for k, n in asked.items()}))  # type: ignore[misc]
    assert why.replace(r"\.", ".") in error_of(s)
    assert s.machine.state is S.RUNNING


def test_the_same_parallelism_is_answered_at_once() -> None:
    s = running()
    s.deliver(parallelism(s, 2))
    assert s.answers["r"].error is None
    assert s.machine.attempt == 0


def test_a_checkpoint_that_fails_leaves_the_job_as_it_is() -> None:
    s = running()
    s.storage_is_slow = True
    s.deliver(parallelism(s, 4))
    s.settle()
    s.answer_storage("disk full")
    s.settle()
    assert "no checkpoint could be taken to rescale from: disk full" in error_of(s)
    assert (s.machine.state, s.machine.attempt) == (S.RUNNING, 0)


def test_one_rescaling_follows_another_after_the_cool_down() -> None:
    s = running()
    s.deliver(parallelism(s, 4))
    s.settle()
    first = s.now_ms
    s.answers.clear()
    s.deliver(parallelism(s, 3))
    s.deliver(RescaleRequested("impatient", {v.vertex_id: 1 for v in s.graph.vertices}))
    assert "being rescaled already" in error_of(s, "impatient")
    s.advance(9_999)
    assert s.machine.attempt == 1
    s.advance(1)
    assert s.now_ms == first + 10_000
    assert set(s.machine.status().parallelism.values()) == {3}


def test_a_job_goes_back_if_the_slots_for_more_do_not_come() -> None:
    s = running(restarts=0)
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
    assert "goes back: 2 of 4 slots did not register" in error_of(s)


# --- what is stored when its attempt is over already ------------------------------------------------------------------


def stored_too_late(event: SavepointRequested | RescaleRequested, settings: CheckpointSettings) -> Simulation:
    """A job that has failed, and run again, while what was asked for was being stored."""
    s = running(settings)
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
    assert (s.machine.state, s.machine.attempt) == (S.RUNNING, 1)
    return s


def test_a_stop_is_answered_and_the_next_attempt_takes_its_last_checkpoint_before_it_commits() -> None:
    s = stored_too_late(SavepointRequested("r", after=AfterSavepoint.SUSPEND), EVERY_SECOND)
    assert "is complete, but the job did not stop after it: ValueError: bad record" in error_of(s)
    assert restored_from(s) == [None, None], "from the savepoint"
    s.actions.clear()
    s.finish_tasks()
    s.settle()
    assert s.machine.state is S.FINISHED
    told = sent_to(s, 0, TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished)
    assert [type(m) for m in told] == [TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished]


def test_a_job_that_was_to_be_cancelled_behind_its_savepoint_is_said_to_go_on() -> None:
    s = stored_too_late(SavepointRequested("r", after=AfterSavepoint.CANCEL), EVERY_SECOND)
    assert "is complete, but the job was not cancelled after it" in error_of(s)


def test_a_rescaling_that_did_not_happen_is_not_said_to_have_happened() -> None:
    graph = keyed_job()
    asked = RescaleRequested("r", {v.vertex_id: 4 for v in graph.vertices})
    s = stored_too_late(asked, EVERY_SECOND)
    assert set(s.machine.status().parallelism.values()) == {2}
    assert "ValueError: bad record" in error_of(s)


def test_a_job_that_ends_while_its_stop_fails_takes_its_last_checkpoint_before_it_commits() -> None:
    s = running()
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
    assert error_of(s) == "disk full"
    assert s.machine.state is S.FINISHED
    told = sent_to(s, 0, TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished)
    assert [type(m) for m in told] == [TriggerCheckpoint, NotifyCheckpointComplete, CommitFinished]
