"""CheckpointLedger: which checkpoints a slot still waits to hear of."""

from __future__ import annotations

from dataclasses import replace

from runtime.checkpoint.handles import CheckpointMetrics, TaskStateHandle
from runtime.core.checkpoint_options import AfterSnapshot, CheckpointOptions, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId, SlotId, TaskId, VertexId
from runtime.task.checkpoint_ledger import REMEMBERED, CheckpointLedger
from runtime.task.messages import AcknowledgeCheckpoint

OPTIONS = CheckpointOptions("file:///chk", "file:///shared", SnapshotKind.FULL)
SAVEPOINT = replace(OPTIONS, is_savepoint=True)
TASKS = [TaskId(VertexId("a"), 0), TaskId(VertexId("b"), 0)]


def acknowledgement(number: int, task: TaskId = TASKS[0]) -> AcknowledgeCheckpoint:
    handle, metrics = TaskStateHandle({}, ()), CheckpointMetrics()
    return AcknowledgeCheckpoint(SlotId(0), Attempt(1), task, CheckpointId(number), handle, metrics)


def pending(ledger: CheckpointLedger) -> list[int]:
    return sorted(ledger.pending)


def test_a_checkpoint_is_pending_until_it_is_said_how_it_ended() -> None:
    ledger = CheckpointLedger()
    for number in (3, 4, 5):
        ledger.triggered(CheckpointId(number), OPTIONS)
        ledger.acknowledged(acknowledgement(number), TASKS)
    ledger.aborted(CheckpointId(5))
    assert (pending(ledger), ledger.last_seen) == ([3, 4], 5)
    assert ledger.completed(CheckpointId(4))
    assert (pending(ledger), ledger.acknowledgements()) == ([], [])


def test_a_completion_that_is_told_again_is_known() -> None:
    ledger = CheckpointLedger()
    ledger.triggered(CheckpointId(3), OPTIONS)
    assert ledger.completed(CheckpointId(3))
    assert not ledger.completed(CheckpointId(3))
    assert not ledger.completed(CheckpointId(2))


def test_acknowledgements_are_kept_even_if_the_barrier_came_before_the_jobmasters_word() -> None:
    ledger = CheckpointLedger()
    ledger.acknowledged(acknowledgement(3), TASKS)
    assert [message.checkpoint_id for message in ledger.acknowledgements()] == [3]
    assert ledger.last_seen == 3


def test_an_attempt_that_only_ends_is_one_that_has_heard_that_its_savepoint_is_complete() -> None:
    ledger = CheckpointLedger()
    ledger.deployed_to_stop(CheckpointId(3))
    assert (ledger.stopped_by, ledger.last_seen, pending(ledger)) == (3, 3, [])
    assert not ledger.completed(CheckpointId(3))


def test_a_savepoint_is_done_with_when_every_task_has_acknowledged_it() -> None:
    ledger = CheckpointLedger()
    ledger.triggered(CheckpointId(3), SAVEPOINT)
    ledger.acknowledged(acknowledgement(3, TASKS[0]), TASKS)
    assert pending(ledger) == [3]
    ledger.acknowledged(acknowledgement(3, TASKS[1]), TASKS)
    assert (pending(ledger), ledger.acknowledgements()) == ([], [])


def test_a_savepoint_that_stops_the_job_waits_for_its_end() -> None:
    ledger = CheckpointLedger()
    ledger.triggered(CheckpointId(3), replace(SAVEPOINT, after=AfterSnapshot.SUSPEND))
    for task in TASKS:
        ledger.acknowledged(acknowledgement(3, task), TASKS)
    assert pending(ledger) == [3]


def test_a_ledger_of_which_nobody_decides_anything_does_not_grow_without_end() -> None:
    ledger = CheckpointLedger()
    for number in range(1, 3 * REMEMBERED):
        ledger.triggered(CheckpointId(number), OPTIONS)
        ledger.acknowledged(acknowledgement(number), TASKS)
    assert len(ledger.pending) == len(ledger.acknowledgements()) == REMEMBERED
    assert ledger.last_seen == 3 * REMEMBERED - 1
