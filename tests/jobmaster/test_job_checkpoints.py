"""Checkpoints in the machine by example: what slots are told, what attempts start from, how requests end."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.ids import Attempt, CheckpointId, OperatorId
from runtime.graph.job_graph import JobGraph
from runtime.jobmaster.events import (
    CancelRequested,
    CheckpointRequested,
    RecoveryDelayed,
    SavepointRequested,
    SlotLost,
    Submitted,
)
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.phases import Phase
from runtime.jobmaster.restart_strategy import FixedDelay
from runtime.task.messages import (
    CheckpointDue,
    DeclineCheckpoint,
    DeliverOperatorEvent,
    FailureInfo,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    OperatorEvent,
    SnapshotCoordinators,
    TaskState,
    TaskStateChanged,
    TriggerCheckpoint,
)
from tests.jobmaster.simulation import EVERY_SECOND, Simulation, keyed_job, saving_job

S = JobState


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_every_slot_is_triggered_once_the_sources_coordinators_are_done() -> None:
    s = saving_job()
    s.advance(1_000)
    assert s.sent(SnapshotCoordinators) == [0]
    assert s.sent(TriggerCheckpoint) == s.sent(NotifyCheckpointComplete) == [0, 1]
    assert s.completed == [1]
    status = s.machine.status().checkpoints
    assert (status.counts.completed, status.history[0].num_acknowledged) == (1, 4)


def test_what_coordinators_send_to_readers_waits_until_the_barrier_is_on_its_way() -> None:
    s = saving_job()
    source = s.graph.vertices[0].head.operator_id
    s.deliver(CheckpointRequested("r"))
    held = OperatorEvent(s.machine.attempt, source, 1, None, b"split")
    s.say(held)
    s.say(OperatorEvent(s.machine.attempt, source, None, 1, b"more, please"))
    assert s.sent_to(0, DeliverOperatorEvent) != [], "what readers send is not held back"
    assert s.sent_to(1, DeliverOperatorEvent) == []
    s.settle()
    assert [type(m) for m in s.sent_to(1, TriggerCheckpoint, DeliverOperatorEvent)] == [
        TriggerCheckpoint,
        DeliverOperatorEvent,
    ]


def test_what_was_held_back_is_let_go_if_the_checkpoint_is_given_up() -> None:
    s = saving_job(replace(EVERY_SECOND, tolerable_failures=3))
    s.deliver(CheckpointRequested("r"))
    s.say(OperatorEvent(s.machine.attempt, s.graph.vertices[0].head.operator_id, 1, None, b"split"))
    s.say(DeclineCheckpoint(s.current(0).slot, s.machine.attempt, None, CheckpointId(1), FailureInfo("no")))
    assert len(s.sent_to(1, DeliverOperatorEvent)) == 1
    assert s.error_of() == "no"


def test_a_failed_checkpoint_fails_the_job_and_the_next_attempt_goes_on_from_the_one_before() -> None:
    s = saving_job()
    s.advance(1_000)
    s.current(1).acknowledges = False
    s.advance(1_000)
    s.say(DeclineCheckpoint(s.current(1).slot, Attempt(0), None, CheckpointId(2), FailureInfo("disk full")))
    assert s.machine.state is S.FAILING
    s.settle()
    s.advance(1_000)
    assert s.machine.state is S.RUNNING
    assert (s.machine.attempt, s.restored_from()) == (1, [1, 1])
    assert s.machine.status().exceptions[0].cause.message == "checkpoint 2 failed: disk full"
    assert s.sent(NotifyCheckpointAborted) == [0, 1]


# --- recovery ---------------------------------------------------------------------------------------------------------


def test_an_attempt_goes_on_from_the_newest_checkpoint() -> None:
    s = saving_job()
    s.advance(3_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert s.restored_from() == s.restored_from(1) == [3, 3]
    restored = s.machine.status().checkpoints.latest_restored
    assert restored is not None
    assert restored.checkpoint_id == 3
    report = s.machine.status().restored_from
    assert report is not None
    assert "matched  Window (uid window): as it was" in report.describe()


def test_it_is_not_deployed_before_it_is_known_which_one_that_is() -> None:
    s = saving_job()
    s.advance(1_000)
    s.storage_is_slow = True
    s.advance(1_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert s.machine.phase is Phase.REQUESTING
    s.answer_storage()
    s.settle()
    assert s.restored_from() == [2, 2]


def test_nor_is_it_if_the_storage_then_says_no() -> None:
    s = saving_job()
    s.advance(1_000)
    s.storage_is_slow = True
    s.advance(1_000)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    s.answer_storage("disk full")
    s.settle()
    assert s.restored_from() == [1, 1]


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
    assert s.restored_from() == [2, 2]
    s.register_automatically = True
    s.storage_is_slow = True
    damage(s)
    s.queue.clear()
    for slot in (0, 1):
        s.current(slot).gone = True
        s.deliver(SlotLost(s.current(slot).slot, s.machine.attempt, "gone"))
    s.settle()
    assert s.current(0).deploy is None, "a JobMaster that takes over would still restore the damaged one"
    assert s.machine.status().waiting_for == "the storage to report the latest checkpoint"
    s.record_damage()
    s.storage_is_slow = False
    s.settle()
    assert s.machine.state is S.RUNNING
    assert s.restored_from() == [1, 1]
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
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [2, 2])
    damage(s)
    s.settle()
    # as after any failure: the restart strategy is asked, and the checkpoint is taken again
    assert s.machine.state is S.RESTARTING
    s.advance(1_000)
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [2, 2])
    assert s.completed == [2]


def in_micro_batches() -> Simulation:
    """A job whose second attempt goes on from checkpoint 2."""
    settings = replace(EVERY_SECOND, num_retained=2, is_micro_batch=True)
    s = Simulation(strategy=FixedDelay(2, 1_000), settings=settings)
    s.run_to_running()
    for _ in range(2):
        take_batch(s)
    s.fail_task()
    s.settle()
    s.advance(1_000)
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [2, 2])
    return s


def take_batch(s: Simulation) -> None:
    """Ask for the checkpoint of a batch, as the host does when one is due."""
    slot = s.current(0)
    s.say(CheckpointDue(slot.slot, slot.attempt))
    s.advance(1_000)


def test_a_first_batch_that_cannot_restore_leaves_the_checkpoint_for_the_one_before() -> None:
    s = in_micro_batches()
    damage(s)
    s.settle()
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [1, 1])
    assert s.completed == [1]


def test_a_later_batch_that_cannot_restore_says_nothing_of_what_its_attempt_began_with() -> None:
    s = in_micro_batches()
    take_batch(s)
    assert s.completed == [2, 3]
    damage(s)
    s.settle()
    assert s.machine.state is S.RESTARTING
    s.advance(1_000)
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [3, 3])
    # the first batch of the next attempt finds it so, too
    damage(s)
    s.settle()
    assert (s.machine.state, s.restored_from()) == (S.RUNNING, [2, 2])


def test_a_fatal_failure_is_not_followed_by_another_attempt() -> None:
    s = saving_job()
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
    assert s.restored_from() == [1, 1]


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
    assert "not all tasks of the job are running" in s.error_of()
    s.deliver(Submitted(initial=snapshot_of(keyed_job())))
    s.settle()
    assert s.restored_from() == [1, 1]
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
