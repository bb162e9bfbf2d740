"""The coordinator by example: one test, one story."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.checkpoint.completed_store import CompletedCheckpoint
from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.handles import CheckpointMetrics
from runtime.checkpoint.messages import (
    Acknowledged,
    AttemptEnded,
    DamageFound,
    Declined,
    DeleteFiles,
    FailJob,
    ForgetCheckpoints,
    Forgotten,
    JobEnded,
    NotifyAborted,
    NotifyComplete,
    ReleaseSources,
    SavepointsFailed,
    StoreCheckpoint,
    Stored,
    SweepOrphans,
    TaskFinished,
    TriggerTasks,
)
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.pending_checkpoint import Stage
from runtime.checkpoint.settings import CheckpointSettings, Retention
from runtime.checkpoint.statistics import CheckpointStatus
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, SnapshotKind
from runtime.core.ids import Attempt, CheckpointId
from tests.checkpoint.coordinator_rig import GRAPH, ROOT, TASKS, WALL_MS, Rig, claimed, completed

SETTINGS = CheckpointSettings(interval_ms=1_000)
JOB = GRAPH.job_id


def running(settings: CheckpointSettings = SETTINGS) -> Rig:
    rig = Rig(settings)
    rig.start()
    return rig


# --- one checkpoint ---------------------------------------------------------------------------------------------------


def test_a_checkpoint_asks_sources_then_tasks_then_the_storage_and_then_tells_everybody() -> None:
    rig = running()
    rig.advance(999)
    assert rig.begun() == []
    rig.advance(1)
    assert rig.begun() == [1]
    assert rig.of_kind(TriggerTasks) == []
    rig.answer_sources(1)
    (trigger,) = rig.of_kind(TriggerTasks)
    assert isinstance(trigger, TriggerTasks)
    assert trigger.timestamp_ms == WALL_MS + 1_000
    assert trigger.options.directory == f"{ROOT}/{JOB}/chk-1-3.0"
    assert trigger.options.shared_directory == f"{ROOT}/{JOB}/shared"
    for task in TASKS[:-1]:
        rig.acknowledge(1, task)
    assert rig.storing == []
    rig.acknowledge(1, TASKS[-1])
    assert rig.coordinator.pending() == {1: Stage.STORING}
    assert rig.of_kind(NotifyComplete) == []
    assert rig.coordinator.restore_point() is None
    rig.finish_storing()
    assert rig.of_kind(NotifyComplete) == [NotifyComplete(CheckpointId(1))]
    point = rig.coordinator.restore_point()
    assert point is not None
    assert (point.checkpoint_id, point.is_owned) == (1, True)


def test_the_metadata_have_every_operator_with_its_uid_and_every_edge() -> None:
    rig = running()
    rig.complete_checkpoint()
    metadata = rig.pointers[CheckpointId(1)]
    assert [(o.uid, o.parallelism, len(o.subtasks)) for o in metadata.operators if o.uid == "window"] == [
        ("window", 2, 2)
    ]
    assert len(metadata.operators) == sum(len(v.operators) for v in GRAPH.vertices)
    window = next(o for o in metadata.operators if o.uid == "window")
    (edge,) = metadata.edges.values()
    assert (edge.source, edge.target) == (GRAPH.vertices[0].head.operator_id, window.operator_id)
    assert metadata.timestamp_ms == WALL_MS + 1_000
    assert len(metadata.files()) == len(TASKS)


def test_the_next_one_begins_an_interval_later_and_the_older_one_is_deleted() -> None:
    rig = running()
    rig.complete_checkpoint()
    rig.advance(999)
    assert rig.begun() == [1]
    rig.advance(1)
    rig.complete(2)
    assert rig.of_kind(ForgetCheckpoints) == [ForgetCheckpoints((CheckpointId(1),))]
    assert rig.of_kind(DeleteFiles) == [DeleteFiles((), (f"{ROOT}/{JOB}/chk-1-3.0",))]
    assert all("/chk-2-" in file for file in rig.files)


def test_as_many_are_retained_as_the_settings_say() -> None:
    rig = running(replace(SETTINGS, num_retained=3))
    for _ in range(5):
        rig.complete_checkpoint()
    assert sorted(rig.pointers) == [3, 4, 5]


# --- when -------------------------------------------------------------------------------------------------------------


def test_while_one_is_under_way_the_next_waits_and_then_begins_at_once() -> None:
    rig = running()
    rig.advance(1_000)
    rig.advance(2_500)
    assert rig.begun() == [1]
    rig.complete(1)
    assert rig.begun() == [1, 2]


def test_several_may_be_under_way_if_the_settings_say_so() -> None:
    rig = running(replace(SETTINGS, max_concurrent=2))
    rig.advance(1_000)
    rig.advance(1_000)
    assert rig.begun() == [1], "the sources of one are asked at a time"
    rig.answer_sources(1)
    assert rig.begun() == [1, 2]
    rig.answer_sources(2)
    rig.advance(1_000)
    assert rig.begun() == [1, 2]


def test_the_pause_is_kept_from_the_end_of_one_to_the_begin_of_the_next() -> None:
    rig = running(replace(SETTINGS, min_pause_ms=700))
    rig.advance(1_000)
    rig.advance(900)
    rig.complete(1)
    rig.advance(699)
    assert rig.begun() == [1]
    rig.advance(1)
    assert rig.begun() == [1, 2]


def test_nothing_begins_without_an_attempt_or_an_interval() -> None:
    rig = Rig(SETTINGS)
    rig.advance(5_000)
    assert rig.actions == []
    rig = running(CheckpointSettings())
    assert rig.coordinator.next_deadline_ms() is None
    rig.advance(5_000)
    assert rig.actions == []


def test_checkpoints_stop_when_a_task_has_finished_if_they_are_not_to_go_on() -> None:
    rig = running(replace(SETTINGS, after_tasks_finish=False))
    rig.do(TaskFinished(TASKS[0]))
    rig.advance(5_000)
    assert rig.begun() == []
    rig.request("r")
    assert "some tasks have finished" in (rig.done["r"].error or "")


def test_they_go_on_by_default() -> None:
    rig = running()
    rig.do(TaskFinished(TASKS[0]))
    rig.advance(1_000)
    assert rig.begun() == [1]


# --- failure ----------------------------------------------------------------------------------------------------------


def test_the_first_declined_checkpoint_fails_the_job_and_nothing_of_it_is_left() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge(1, TASKS[0])
    rig.do(Declined(Attempt(0), CheckpointId(1), "disk full"))
    assert rig.of_kind(FailJob) == [FailJob("checkpoint 1 failed: disk full")]
    assert rig.of_kind(NotifyAborted) == [NotifyAborted(CheckpointId(1))]
    assert rig.files == set()
    rig.advance(10_000)
    assert rig.begun() == [1], "nothing begins while the job fails"


def test_as_many_failures_in_a_row_are_tolerated_as_the_settings_say() -> None:
    rig = running(replace(SETTINGS, tolerable_failures=1))
    rig.advance(1_000)
    rig.do(Declined(Attempt(0), CheckpointId(1), "no"))
    rig.complete_checkpoint()
    rig.advance(1_000)
    rig.do(Declined(Attempt(0), CheckpointId(3), "no"))
    assert rig.of_kind(FailJob) == []
    rig.advance(1_000)
    rig.do(Declined(Attempt(0), CheckpointId(4), "no, again"))
    (failure,) = rig.of_kind(FailJob)
    assert isinstance(failure, FailJob)
    assert failure.cause == "2 checkpoints in a row failed, 1 are tolerated; the last, 4: no, again"


def test_a_decline_that_does_not_count_is_no_failure_of_the_job() -> None:
    rig = running()
    rig.advance(1_000)
    rig.do(Declined(Attempt(0), CheckpointId(1), "not ready", counts_as_failure=False))
    assert rig.of_kind(FailJob) == []
    assert rig.coordinator.statistics().counts.failed == 1
    assert rig.of_kind(ReleaseSources) != []


def test_one_that_takes_too_long_is_given_up_and_counts() -> None:
    rig = running(replace(SETTINGS, timeout_ms=5_000))
    rig.advance(1_000)
    rig.answer_sources(1)
    for task in TASKS[1:]:
        rig.acknowledge(1, task)
    rig.advance(5_000)
    (failure,) = rig.of_kind(FailJob)
    assert isinstance(failure, FailJob)
    assert failure.cause == "checkpoint 1 failed: it expired after 5 s: 1 tasks had not answered"
    assert rig.files == set()


def test_one_that_is_being_stored_does_not_expire() -> None:
    rig = running(replace(SETTINGS, timeout_ms=5_000))
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge_all(1)
    rig.advance(60_000)
    rig.finish_storing()
    assert sorted(rig.pointers) == [1]


def test_a_storage_that_refuses_fails_the_checkpoint() -> None:
    rig = running(replace(SETTINGS, tolerable_failures=5))
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge_all(1)
    rig.finish_storing(succeeds=False)
    assert rig.files == set()
    assert rig.of_kind(NotifyAborted) == [NotifyAborted(CheckpointId(1))]
    rig.complete_checkpoint()
    assert sorted(rig.pointers) == [2]


def test_whoever_has_been_replaced_deletes_nothing_any_more_tells_nobody_how_it_ended_and_ends() -> None:
    rig = running()
    rig.complete_checkpoint()
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    before = set(rig.files)
    rig.finish_storing(succeeds=False, is_fenced=True)
    (failure,) = rig.of_kind(FailJob)
    assert isinstance(failure, FailJob)
    assert failure.is_fatal
    assert rig.of_kind(NotifyAborted) == [], "it may be recorded, for all that this one knows"
    rig.do(AttemptEnded("the job fails"))
    rig.do(JobEnded(JobOutcome.FAILED))
    assert rig.files == before


def test_what_an_attempt_had_under_way_ends_with_it_and_does_not_count() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge(1, TASKS[0])
    rig.fail_attempt()
    assert rig.of_kind(FailJob) == []
    assert rig.of_kind(NotifyAborted) == [], "its slots are being told to cancel"
    assert rig.files == set()
    rig.start()
    assert rig.complete_checkpoint() == 2


def test_one_that_is_being_stored_outlives_its_attempt() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge_all(1)
    rig.fail_attempt()
    assert rig.coordinator.is_undecided
    rig.finish_storing()
    assert not rig.coordinator.is_undecided
    assert sorted(rig.pointers) == [1]
    assert rig.of_kind(NotifyComplete) == [], "its slots are gone"


# --- late and wrong answers -------------------------------------------------------------------------------------------


def test_files_of_an_acknowledgement_that_comes_too_late_are_deleted() -> None:
    rig = running(replace(SETTINGS, tolerable_failures=9, is_incremental=True))
    rig.complete_checkpoint()
    kept = set(rig.files)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.do(Declined(Attempt(0), CheckpointId(2), "no"))
    rig.acknowledge(2, TASKS[0])
    assert rig.files == kept
    assert rig.coordinator.statistics().refused == 1


def test_files_that_an_older_attempt_acknowledges_are_deleted() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.fail_attempt()
    rig.start()
    rig.acknowledge(1, TASKS[0], attempt=Attempt(0))
    assert rig.files == set()


def test_the_same_acknowledgement_twice_harms_nothing() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge(1, TASKS[0])
    again = Acknowledged(
        Attempt(0), TASKS[0], CheckpointId(1), rig.acks[CheckpointId(1)][TASKS[0]], CheckpointMetrics()
    )
    rig.do(again)
    for task in TASKS[1:]:
        rig.acknowledge(1, task)
    rig.do(again)
    rig.finish_storing()
    rig.do(again)
    assert rig.coordinator.statistics().refused == 3


def test_an_answer_of_the_storage_to_nothing_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="not asked to be"):
        running().do(Stored(CheckpointId(7)))


# --- shared files -----------------------------------------------------------------------------------------------------


def test_a_shared_file_lives_as_long_as_a_retained_checkpoint_refers_to_it() -> None:
    rig = running(replace(SETTINGS, is_incremental=True))
    shared = []
    for _ in range(4):
        rig.complete_checkpoint()
        shared.append({f for f in rig.files if "/shared/" in f})
    # each checkpoint refers to its own file and to the two before
    assert [len(s) // len(TASKS) for s in shared] == [1, 2, 3, 3]
    assert shared[3].isdisjoint(shared[0])


def test_files_of_a_dropped_checkpoint_wait_for_those_that_may_build_on_it() -> None:
    rig = running(replace(SETTINGS, is_incremental=True, max_concurrent=2))
    rig.complete_checkpoint()
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.advance(1_000)
    rig.answer_sources(3)  # its tasks build on 1: they have not heard of 2
    rig.acknowledge_all(2, compacts=True)
    rig.finish_storing()
    assert sorted(rig.pointers) == [2]
    rig.acknowledge_all(3)
    rig.finish_storing()
    assert sorted(rig.pointers) == [3]
    rig.complete_checkpoint()
    assert not any("chk-1-" in file for file in rig.files)


def test_the_older_of_two_gives_way_if_the_newer_is_faster() -> None:
    rig = running(replace(SETTINGS, max_concurrent=2))
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    rig.finish_storing()
    assert rig.coordinator.pending() == {}
    assert rig.of_kind(FailJob) == []
    assert rig.of_kind(NotifyAborted) == [NotifyAborted(CheckpointId(1))]


def test_the_older_of_two_is_not_stored_behind_the_newer() -> None:
    rig = running(replace(SETTINGS, max_concurrent=2))
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    rig.acknowledge_all(1)
    assert rig.coordinator.pending() == {2: Stage.STORING}


# --- savepoints -------------------------------------------------------------------------------------------------------


def test_a_savepoint_goes_where_it_is_told_and_the_job_goes_on_as_if_nothing_had_been() -> None:
    rig = running(replace(SETTINGS, is_incremental=True, is_unaligned=True))
    rig.request("r", is_savepoint=True, target_directory="file:///saved")
    rig.answer_sources(1)
    options = rig.triggers[CheckpointId(1)].options
    assert options.directory == options.shared_directory == f"file:///saved/savepoint-{JOB[:6]}-000000000000"
    assert (options.kind, options.alignment, options.is_savepoint) == (SnapshotKind.CANONICAL, Alignment.ALIGNED, True)
    rig.acknowledge_all(1)
    (store,) = rig.of_kind(StoreCheckpoint)
    assert isinstance(store, StoreCheckpoint)
    assert (store.is_owned, store.is_recorded) == (False, False)
    rig.finish_storing()
    assert rig.done["r"].location == options.directory
    assert rig.coordinator.restore_point() is None
    # sinks must not commit: recovery would go back behind what they have committed
    assert rig.of_kind(NotifyComplete) == []
    rig.complete_checkpoint()
    rig.do(JobEnded(JobOutcome.FINISHED))
    assert len(rig.files) == len(TASKS), "a savepoint is the user's"


def test_a_savepoint_waits_neither_for_a_checkpoint_nor_for_the_pause_but_for_another_savepoint() -> None:
    rig = running(replace(SETTINGS, min_pause_ms=60_000, savepoint_directory="file:///saved"))
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.request("a", is_savepoint=True)
    rig.request("b", is_savepoint=True)
    assert rig.begun() == [1, 2]
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    assert rig.begun() == [1, 2]
    rig.finish_storing()
    assert rig.begun() == [1, 2, 3]


def test_a_failed_savepoint_is_told_and_does_not_fail_the_job() -> None:
    rig = running()
    rig.request("r", is_savepoint=True, target_directory="file:///saved")
    rig.answer_sources(1)
    rig.acknowledge(1, TASKS[0])
    rig.do(Declined(Attempt(0), CheckpointId(1), "disk full"))
    assert rig.done["r"].error == "disk full"
    assert rig.of_kind(FailJob) == []
    assert rig.files == set()


def test_the_next_attempts_hear_of_the_savepoints_that_failed_and_of_no_other() -> None:
    rig = running()
    for number, name in enumerate(("complete", "declined", "cut off"), 1):
        rig.request(name, is_savepoint=True, target_directory="file:///saved")
        rig.answer_sources(number)
        if name == "complete":
            for task in TASKS:
                rig.acknowledge(number, task)
            rig.finish_storing()
        elif name == "declined":
            rig.do(Declined(Attempt(0), CheckpointId(number), "disk full"))
    rig.advance(SETTINGS.interval_ms or 0)
    assert rig.of_kind(SavepointsFailed) == []
    rig.fail_attempt()
    assert rig.done["complete"].error is None
    assert {name for name, done in rig.done.items() if done.error} == {"declined", "cut off"}
    for attempt in (1, 2):
        rig.start()
        failed = SavepointsFailed(((Attempt(0), CheckpointId(2)), (Attempt(0), CheckpointId(3))))
        assert rig.of_kind(SavepointsFailed)[attempt - 1 :] == [failed]
        rig.fail_attempt()


@pytest.mark.parametrize("after", [AfterSnapshot.SUSPEND, AfterSnapshot.DRAIN])
def test_behind_a_savepoint_that_stops_the_job_nothing_begins_and_recovery_starts_from_it(after: AfterSnapshot) -> None:
    rig = running()
    rig.request("r", is_savepoint=True, target_directory="file:///saved", after=after, is_last=True)
    rig.answer_sources(1)
    rig.advance(10_000)
    rig.request("more", is_savepoint=True, target_directory="file:///saved")
    assert "being stopped" in (rig.done["more"].error or "")
    assert rig.begun() == [1]
    rig.acknowledge_all(1)
    rig.finish_storing()
    assert rig.of_kind(NotifyComplete) == [NotifyComplete(CheckpointId(1))]
    assert sorted(rig.pointers) == [1]
    rig.advance(10_000)
    assert rig.begun() == [1]
    rig.do(JobEnded(JobOutcome.FINISHED))
    assert len(rig.files) == len(TASKS)


def test_behind_a_stop_nothing_begins_although_a_savepoint_of_an_older_attempt_fails() -> None:
    rig = running()
    rig.request("cancel", is_savepoint=True, target_directory="file:///saved", is_last=True)
    rig.answer_sources(1)
    rig.acknowledge_all(1)
    rig.fail_attempt()
    rig.start()
    stop = AfterSnapshot.SUSPEND
    rig.request("stop", is_savepoint=True, target_directory="file:///saved", after=stop, is_last=True)
    rig.answer_sources(2)
    rig.finish_storing(succeeds=False)
    assert rig.done["cancel"].error == "disk full"
    rig.advance(10_000)
    assert rig.begun() == [1, 2]
    rig.acknowledge_all(2)
    rig.finish_storing()
    rig.advance(10_000)
    assert rig.begun() == [1, 2]
    assert rig.coordinator.stopped_by == rig.coordinator.restore_point()


def test_a_stop_that_fails_before_the_sources_hear_of_it_changes_nothing() -> None:
    rig = running()
    rig.request("r", is_savepoint=True, target_directory="file:///saved", after=AfterSnapshot.SUSPEND, is_last=True)
    rig.do(Declined(Attempt(0), CheckpointId(1), "no"))
    assert not rig.done["r"].has_drained
    rig.complete_checkpoint()


def test_tasks_that_were_suspended_go_on_when_the_stop_fails() -> None:
    rig = running()
    rig.request("r", is_savepoint=True, target_directory="file:///saved", after=AfterSnapshot.SUSPEND, is_last=True)
    rig.answer_sources(1)
    rig.do(Declined(Attempt(0), CheckpointId(1), "no"))
    assert rig.of_kind(NotifyAborted) == [NotifyAborted(CheckpointId(1))]
    rig.complete_checkpoint()


def test_a_drain_that_fails_says_that_sources_have_ended() -> None:
    rig = running()
    rig.request("r", is_savepoint=True, target_directory="file:///saved", after=AfterSnapshot.DRAIN, is_last=True)
    rig.answer_sources(1)
    rig.do(Declined(Attempt(0), CheckpointId(1), "no"))
    assert rig.done["r"].has_drained
    rig.advance(10_000)
    assert rig.begun() == [1], "their barriers would never come"


def test_requests_are_refused_with_the_reason() -> None:
    rig = Rig(SETTINGS)
    rig.request("early", is_savepoint=True, target_directory="file:///saved")
    rig.start()
    rig.request("nowhere", is_savepoint=True)
    assert rig.done["early"].error == "not all tasks of the job are running"
    assert "no directory is given" in (rig.done["nowhere"].error or "")


def test_a_request_that_waits_is_answered_when_the_attempt_ends() -> None:
    rig = running()
    rig.advance(1_000)
    rig.request("r")
    assert "r" not in rig.done
    rig.fail_attempt()
    assert rig.done["r"].error == "a task failed"


def test_a_checkpoint_may_be_asked_for_and_is_like_any_other() -> None:
    rig = running(CheckpointSettings())
    rig.request("r", kind=SnapshotKind.INCREMENTAL)
    rig.complete(1)
    assert rig.done["r"].location == f"{ROOT}/{JOB}/chk-1-3.0"
    assert rig.triggers[CheckpointId(1)].options.kind is SnapshotKind.INCREMENTAL
    assert sorted(rig.pointers) == [1]


# --- what was there before --------------------------------------------------------------------------------------------


def test_a_new_leader_goes_on_from_what_is_retained_and_numbers_on() -> None:
    rig = Rig(SETTINGS)
    rig.coordinator.recover([completed(3, rig)])
    rig.start()
    point = rig.coordinator.restore_point()
    assert point is not None
    assert point.checkpoint_id == 3
    assert [type(a) for a in rig.actions] == [SweepOrphans]
    assert rig.complete_checkpoint() == 4
    assert sorted(rig.pointers) == [4]
    assert len(rig.files) == len(TASKS)


def claimed_and_running(rig: Rig) -> CompletedCheckpoint:
    """A job that goes on from what it has claimed."""
    point = claimed(rig)
    rig.coordinator.recover([], point)
    rig.start()
    return point


CLAIMING = replace(SETTINGS, is_incremental=True, num_retained=2)


@pytest.mark.parametrize("num_retained", [1, 2])
def test_a_claimed_snapshot_is_deleted_when_checkpoints_have_taken_its_place(num_retained: int) -> None:
    rig = Rig(replace(CLAIMING, num_retained=num_retained))
    theirs = set(claimed_and_running(rig).metadata.files())
    before = set(rig.files)
    for _ in range(num_retained):
        assert before <= rig.files
        rig.complete_checkpoint()
    assert not any("chk-1-" in file for file in rig.files)
    # what newer ones refer to stays
    needed = {file for metadata in rig.pointers.values() for file in metadata.files()}
    assert theirs & needed
    assert {file.uri for file in needed} <= rig.files


@pytest.mark.parametrize("retention", list(Retention))
@pytest.mark.parametrize("outcome", list(JobOutcome))
@pytest.mark.parametrize("num_own", [0, 1])
def test_it_stays_whole_if_the_job_ends_before_that(retention: Retention, outcome: JobOutcome, num_own: int) -> None:
    rig = Rig(replace(CLAIMING, retention=retention))
    claimed_and_running(rig)
    before = set(rig.files)
    for _ in range(num_own):
        rig.complete_checkpoint()
    rig.fail_attempt()
    rig.do(JobEnded(outcome))
    assert before <= rig.files
    assert bool(rig.pointers) is bool(rig.files - before) is bool(num_own and retention.keeps(outcome))


def test_it_stays_although_a_checkpoint_is_stored_after_the_end_which_is_not_kept() -> None:
    rig = Rig(replace(CLAIMING, num_retained=1))
    claimed_and_running(rig)
    before = set(rig.files)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    rig.fail_attempt()
    rig.do(JobEnded(JobOutcome.CANCELED))
    rig.finish_storing()
    assert rig.files == before
    assert rig.pointers == {}


def test_it_is_gone_back_to_when_the_first_checkpoint_is_damaged_and_stays_then() -> None:
    rig = Rig(CLAIMING)
    point = claimed_and_running(rig)
    before = set(rig.files)
    rig.complete_checkpoint()
    rig.do(DamageFound(CheckpointId(2), "sha256"))
    assert rig.coordinator.restore_point() == point
    assert rig.pointers == {}
    rig.do(JobEnded(JobOutcome.CANCELED))
    assert before <= rig.files


def test_a_new_leader_knows_of_the_claimed_snapshot_whose_files_checkpoints_refer_to() -> None:
    rig = Rig(CLAIMING)
    point = claimed_and_running(rig)
    before = set(rig.files)
    number = rig.complete_checkpoint()
    own = CompletedCheckpoint(rig.pointers[CheckpointId(number)])
    rig.coordinator = CheckpointCoordinator(rig.settings, JOB, ROOT)
    rig.coordinator.recover([own], point)
    assert rig.coordinator.restore_point() == own
    rig.start()
    rig.fail_attempt()
    rig.do(JobEnded(JobOutcome.CANCELED))
    assert rig.files == before


def test_what_is_damaged_is_not_forgotten_before_the_end_if_there_is_nothing_else() -> None:
    rig = running()
    rig.complete_checkpoint()
    rig.do(DamageFound(CheckpointId(1), "sha256"))
    assert sorted(rig.pointers) == [1]
    rig.fail_attempt()
    rig.do(JobEnded(JobOutcome.FAILED))
    assert rig.pointers == {}


def test_an_unclaimed_snapshot_stays_and_the_first_checkpoint_refers_to_nothing_of_it() -> None:
    rig = Rig(replace(SETTINGS, is_incremental=True, tolerable_failures=3))
    rig.coordinator.recover([], completed(1, rig, is_owned=False))
    before = set(rig.files)
    rig.start()
    rig.advance(1_000)
    assert rig.begun() == [2]
    rig.do(Declined(Attempt(0), CheckpointId(2), "no"))
    rig.complete_checkpoint()
    rig.complete_checkpoint()
    kinds = [rig.triggers[CheckpointId(i)].options.kind for i in (3, 4)]
    assert kinds == [SnapshotKind.FULL, SnapshotKind.INCREMENTAL]
    rig.do(JobEnded(JobOutcome.FINISHED))
    assert rig.files == before


def test_a_damaged_checkpoint_is_never_used_again_and_its_files_stay() -> None:
    rig = running(replace(SETTINGS, num_retained=2))
    rig.complete_checkpoint()
    rig.complete_checkpoint()
    before = set(rig.files)
    rig.do(DamageFound(CheckpointId(2), "sha256"))
    point = rig.coordinator.restore_point()
    assert point is not None
    assert point.checkpoint_id == 1
    assert sorted(rig.pointers) == [1]
    assert rig.files == before


@pytest.mark.parametrize("is_fenced", [False, True])
def test_what_is_restored_is_undecided_until_damage_is_recorded(is_fenced: bool) -> None:
    """A JobMaster that takes over would restore what this one has gone back behind."""
    rig = running(replace(SETTINGS, num_retained=2))
    rig.complete_checkpoint()
    rig.complete_checkpoint()
    rig.do(DamageFound(CheckpointId(2), "sha256"))
    assert rig.coordinator.is_undecided
    rig.do(Forgotten(CheckpointId(2), is_fenced))
    assert rig.coordinator.is_undecided is is_fenced, "the other one decides"
    assert rig.of_kind(FailJob) == ([FailJob("another JobMaster has taken over", is_fatal=True)] if is_fenced else [])


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "ended", "is_kept"),
    [
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, JobEnded(JobOutcome.FAILED), False),
        (Retention.DELETE_ON_CANCELLATION, JobEnded(JobOutcome.FAILED), True),
        (Retention.DELETE_ON_CANCELLATION, JobEnded(JobOutcome.CANCELED), False),
        (Retention.RETAIN_ON_CANCELLATION, JobEnded(JobOutcome.CANCELED), True),
        (Retention.RETAIN_ON_CANCELLATION, JobEnded(JobOutcome.FINISHED), False),
    ],
)
def test_what_is_kept_when_the_job_ends(retention: Retention, ended: JobEnded, is_kept: bool) -> None:
    rig = running(replace(SETTINGS, retention=retention))
    rig.complete_checkpoint()
    rig.fail_attempt()
    rig.do(ended)
    assert bool(rig.files) is bool(rig.pointers) is is_kept


def test_one_that_is_stored_after_the_end_of_the_job_is_deleted_then() -> None:
    rig = running()
    rig.advance(1_000)
    rig.answer_sources(1)
    rig.acknowledge_all(1)
    rig.fail_attempt()
    rig.do(JobEnded(JobOutcome.CANCELED))
    assert rig.files
    rig.finish_storing()
    assert rig.files == set()
    assert rig.pointers == {}


def test_one_that_is_stored_after_the_end_of_the_job_replaces_none_that_is_kept() -> None:
    """Users may have been told of those that were there at the job's end, and start others from them."""
    rig = running(replace(SETTINGS, retention=Retention.RETAIN_ON_CANCELLATION))
    rig.complete_checkpoint()
    kept = set(rig.files)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2)
    rig.fail_attempt()
    rig.do(JobEnded(JobOutcome.FAILED))
    rig.finish_storing()
    assert kept < rig.files
    assert set(rig.pointers) == {1, 2}


def test_the_last_checkpoint_counts_as_a_failure_if_it_fails() -> None:
    rig = running()
    rig.request("final", is_last=True, counts_as_failure=True)
    rig.do(Declined(Attempt(0), CheckpointId(1), "no"))
    assert rig.of_kind(FailJob) == [FailJob("checkpoint 1 failed: no")]


def test_statistics_tell_the_story() -> None:
    rig = running(replace(SETTINGS, tolerable_failures=1))
    rig.complete_checkpoint()
    rig.advance(1_000)
    rig.do(Declined(Attempt(0), CheckpointId(2), "no"))
    rig.request("r", is_savepoint=True, target_directory="file:///saved")
    told = rig.coordinator.statistics()
    assert (told.counts.total, told.counts.completed, told.counts.failed, told.counts.in_progress) == (3, 1, 1, 1)
    assert [c.checkpoint_id for c in told.history] == [3, 2, 1]
    failed = told.find(2)
    assert failed is not None
    assert (failed.status, failed.failure_message) == (CheckpointStatus.FAILED, "no")
    rig.coordinator.note_restored(WALL_MS)
    restored = rig.coordinator.statistics().latest_restored
    assert restored is not None
    assert restored.checkpoint_id == 1


# --- files that are gone ----------------------------------------------------------------------------------------------


def test_a_checkpoint_that_builds_on_a_file_which_is_gone_is_given_up() -> None:
    """A barrier can come by the data channels before the task has heard of the last completed checkpoint."""
    rig = running(replace(SETTINGS, is_incremental=True))
    rig.complete_checkpoint()
    heard_of = dict(rig.base)
    rig.advance(1_000)
    rig.answer_sources(2)
    rig.acknowledge_all(2, compacts=True)
    rig.finish_storing()
    rig.base.update({TASKS[0]: heard_of[TASKS[0]]})
    rig.advance(1_000)
    rig.answer_sources(3)
    rig.acknowledge_all(3)
    assert rig.coordinator.pending() == {}
    assert rig.of_kind(NotifyAborted) == [NotifyAborted(CheckpointId(3))]
    assert rig.of_kind(FailJob) == []
    assert sorted(rig.pointers) == [2]


def test_behind_an_unclaimed_snapshot_that_is_gone_back_to_the_next_checkpoint_is_full_again() -> None:
    rig = Rig(replace(SETTINGS, is_incremental=True, num_retained=2))
    rig.coordinator.recover([], completed(1, rig, is_owned=False))
    rig.start()
    rig.complete_checkpoint()
    rig.fail_attempt()
    rig.do(DamageFound(CheckpointId(2), "sha256"))
    rig.start()
    rig.advance(1_000)
    rig.answer_sources(3)
    assert rig.triggers[CheckpointId(3)].options.kind is SnapshotKind.FULL
