"""The rows of completed checkpoints: complete by compare-and-set, the last one forgotten behind the job's end only."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from django.db import connections

from backend.cluster import services
from backend.cluster.checkpoint_counts import read_statistics, write_statistics
from backend.cluster.checkpoint_store import JobGivenUpError, SqlCompletedStore, completed_checkpoints
from backend.cluster.job_store import JobStore
from backend.cluster.leadership import LeadershipLostError, read_lease, take_over
from backend.cluster.lease import LEASE_MS
from backend.cluster.models import Checkpoint, CheckpointStatistics, Job, Operation
from backend.cluster.open_stops import left_stop
from runtime.checkpoint.errors import FencedError
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import RecordedDistribution, StatisticsRecord
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import CheckpointId
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.cluster.snapshots import completed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(home: Path) -> Job:
    return services.submit_job(graph_json(), None, [], {}, None)


def store_of(job: Job, epoch_holder: str = "me") -> SqlCompletedStore:
    return SqlCompletedStore(take_leadership(epoch_holder), job.id, completed_checkpoints(job.id), SYSTEM_CLOCK)


def test_a_checkpoint_is_complete_when_its_row_is_there(job: Job, tmp_path: Path) -> None:
    store, checkpoint = store_of(job), completed(tmp_path, job.id, 3, attempt=7)
    assert store.complete(checkpoint)
    # asked again, because the first answer was lost
    assert store.complete(checkpoint)
    row = Checkpoint.objects.get()
    assert (row.checkpoint_id, row.location, row.attempt, row.is_owned) == (3, checkpoint.location, 7, True)
    assert row.leader_epoch == 1
    assert [pointer.checkpoint_id for pointer in completed_checkpoints(job.id)] == [3]


@pytest.mark.parametrize("is_over", [False, True])
def test_a_savepoint_to_stop_with_that_is_forgotten_is_given_up_unless_the_job_has_ended(
    job: Job, tmp_path: Path, is_over: bool
) -> None:
    """Else the next leader would take it for one that is complete and not recorded yet, and restore it again."""
    store, savepoint = store_of(job), replace(completed(tmp_path, job.id, 3), is_owned=False)
    asked = services.request_operation(job, Operation.Kind.STOP, {}, None)
    Operation.objects.filter(pk=asked.pk).update(progress={"directory": savepoint.location})
    assert store.complete(savepoint) and store.complete(completed(tmp_path, job.id, 4))
    store.remove([CheckpointId(4)])
    assert left_stop(job.id) == savepoint.location
    if is_over:
        store.end(JobOutcome.FINISHED)
        store.end_is_saved()
    store.remove([CheckpointId(3)])
    assert left_stop(job.id) == (savepoint.location if is_over else None)


def test_an_older_leader_completes_nothing(job: Job, tmp_path: Path) -> None:
    old = store_of(job)
    assert old.complete(completed(tmp_path, job.id, 1))
    new = store_of(job, "another")
    assert not old.complete(completed(tmp_path, job.id, 2))
    assert [pointer.checkpoint_id for pointer in new.retained()] == [1]
    assert new.complete(completed(tmp_path, job.id, 2, epoch=2))
    assert [pointer.checkpoint_id for pointer in new.retained()] == [1, 2]


def test_nothing_is_written_without_a_lease(job: Job) -> None:
    clock = ManualClock(1_700_000_000_000)
    leadership = take_over(read_lease(), "a", "", clock)
    assert leadership is not None
    store = SqlCompletedStore(leadership, job.id, [], clock)
    assert store.may_write()
    clock.advance(LEASE_MS)
    assert not store.may_write()
    leadership.renew()
    assert store.may_write()
    take_leadership("b")
    with pytest.raises(LeadershipLostError):
        leadership.renew()
    with pytest.raises(FencedError, match="leader epoch 1 was replaced by epoch 2"):
        store.may_write()


def test_older_checkpoints_are_forgotten_at_once(job: Job, tmp_path: Path) -> None:
    store = store_of(job)
    for number in (1, 2):
        assert store.complete(completed(tmp_path, job.id, number))
    store.remove([CheckpointId(1)])
    assert [pointer.checkpoint_id for pointer in store.retained()] == [2]
    assert Checkpoint.objects.get().checkpoint_id == 2


def test_the_last_one_is_forgotten_once_the_jobs_end_is_saved(job: Job, tmp_path: Path) -> None:
    store = store_of(job)
    assert store.complete(completed(tmp_path, job.id, 1))
    store.end(JobOutcome.FINISHED)
    store.end_is_saved()
    store.remove([CheckpointId(1)])
    assert not Checkpoint.objects.exists()


def test_a_damaged_one_is_forgotten_while_the_job_goes_on_from_what_it_was_started_from(
    job: Job, tmp_path: Path
) -> None:
    store = store_of(job)
    assert store.complete(completed(tmp_path, job.id, 1))
    store.remove([CheckpointId(1)])
    assert not Checkpoint.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_last_one_stays_if_this_process_ends_first(job: Job, tmp_path: Path) -> None:
    store = store_of(job)
    assert store.complete(completed(tmp_path, job.id, 1))
    store.end(JobOutcome.FINISHED)
    raised: list[BaseException] = []

    def remove() -> None:
        try:
            store.remove([CheckpointId(1)])
        except JobGivenUpError as error:
            raised.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=remove)
    thread.start()
    store.give_up()
    wait_until(lambda: not thread.is_alive(), 10, "the thread's end")
    assert len(raised) == 1
    assert Checkpoint.objects.count() == 1


def counted(completed_ones: int, failed: int = 0, savepoints: int = 0) -> StatisticsRecord:
    sizes = RecordedDistribution(completed_ones, 1.0, 2.0, 3.0, (1.0, 2.0))
    return StatisticsRecord(0, completed_ones, failed, {"state_size": sizes}, savepoints)


def test_counts_are_recorded_with_the_checkpoint_or_not_at_all(job: Job, tmp_path: Path) -> None:
    old = store_of(job)
    assert old.complete(replace(completed(tmp_path, job.id, 1), statistics=counted(1)))
    assert read_statistics(job.id) == counted(1) == old.statistics
    new = store_of(job, "another")
    assert not old.complete(replace(completed(tmp_path, job.id, 2), statistics=counted(2)))
    assert read_statistics(job.id) == counted(1)
    assert new.complete(replace(completed(tmp_path, job.id, 2, epoch=2), statistics=counted(2, failed=1)))
    assert read_statistics(job.id) == counted(2, failed=1)


@pytest.mark.parametrize(
    ("record", "took_any"),
    [
        pytest.param(None, False, id="none"),
        pytest.param(counted(2, failed=1, savepoints=3), False, id="savepoints only"),
        pytest.param(counted(2, savepoints=1), True, id="one besides"),
        pytest.param(counted(0, failed=1), True, id="one that failed, whose files may be left"),
    ],
)
def test_only_what_is_no_savepoint_may_be_in_the_jobs_directory(
    job: Job, record: StatisticsRecord | None, took_any: bool
) -> None:
    store = JobStore(take_leadership("me"))
    if record is not None:
        write_statistics(job.id, record)
    assert read_statistics(job.id) == record
    assert store.took_checkpoints(job.id) is took_any
    # as earlier releases wrote it
    for row in CheckpointStatistics.objects.all():
        del row.record["savepoints"]
        row.save()
        assert store.took_checkpoints(job.id)


def test_counts_never_go_back(job: Job) -> None:
    assert read_statistics(job.id) is None
    write_statistics(job.id, counted(3, failed=1))
    write_statistics(job.id, counted(3))
    assert read_statistics(job.id) == counted(3, failed=1)
