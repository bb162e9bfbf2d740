"""A new leader and running jobs: their placements, the stages that it adopts, the jobs that it restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from backend.cluster import commands, services
from backend.cluster.checkpoint_store import SqlCompletedStore
from backend.cluster.job_store import JobStore
from backend.cluster.leader_machine import SLOTS_LOST, AdoptJob, EndJob, JobRow, LeaderMachine, RunJob, TakeJob
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import Checkpoint, Job, Operation
from backend.cluster.placement_records import PlacementRecords
from backend.cluster.placements import ClusterPlacement, placed_stages, placements_of
from backend.cluster.resource_manager import DEPLOY_TIMEOUT_MS, ResourceManager
from backend.cluster.slot_pool import SlotRequest, Stage, StageKey
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import Attempt, CheckpointId, SlotId, VertexId
from runtime.jobmaster.placement import PlacedRegion, PlacedSlot
from runtime.testing.clock import ManualClock
from tests.cluster.failing_database import FailingDatabase, Loss
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership
from tests.cluster.snapshots import completed

STAGE = Stage(StageKey("job", Attempt(3), 0), 0, "tm", (SlotId(0),))


class Cluster:
    """A new leader's resources, and a TaskManager of two slots."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.clock.advance(60_000)
        self.ended: list[str] = []
        self.told: list[tuple[str, int]] = []
        self.granted_to: list[Sequence[Stage]] = []
        self.resources = ResourceManager(2, self.clock, self._send)
        self.resources.adopt([STAGE])

    def _send(self, worker_name: str, task: str, expires_s: float, **arguments: Any) -> None:
        if task == commands.LEAD_TASK:
            self.told.append((task, arguments["epoch"]))
        if task == commands.END_TASK:
            self.ended.append(f"{arguments['job_id']}-{arguments['attempt']}-{arguments.get('stages')}")

    def heartbeat(self, *stages: tuple[str, int, int], age_ms: float = 0.0) -> None:
        report = {"id": "tm", "worker_name": "worker", "slots": 2}
        self.resources.heartbeat(report, stages, 0, age_ms)

    @property
    def free(self) -> int:
        [(_, free)] = self.resources.taskmanagers()
        return free

    # JobSlots

    def granted(self, request: SlotRequest, stages: Sequence[Stage]) -> None:
        self.granted_to.append(stages)

    def stage_ended(self, stage: Stage, error: str | None) -> None:
        self.ended.append(f"{stage.key} is over")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_stage_that_a_job_goes_on_with_is_taken_and_not_ended(cluster: Cluster) -> None:
    cluster.heartbeat(("job", 3, 0))
    assert (cluster.free, cluster.ended) == (1, [])
    cluster.heartbeat(("job", 3, 0), ("job", 2, 0))
    assert cluster.ended == ["job-2-[0]"]


def test_a_report_from_before_the_change_of_leader_says_nothing_of_younger_stages(cluster: Cluster) -> None:
    cluster.resources.attach("job", cluster)
    cluster.clock.advance(1_000)
    cluster.heartbeat(age_ms=5_000)
    cluster.heartbeat(("job", 3, 0))
    assert (cluster.free, cluster.ended) == (1, [])


def test_a_stage_that_is_gone_under_the_new_leader_is_over_at_once(cluster: Cluster) -> None:
    assert DEPLOY_TIMEOUT_MS > 1_000
    cluster.resources.attach("job", cluster)
    cluster.clock.advance(1_000)
    cluster.heartbeat()
    assert (cluster.free, cluster.ended) == (2, ["job-3-0 is over"])


def test_stages_of_a_job_that_is_not_adopted_are_ended(cluster: Cluster) -> None:
    cluster.resources.disown("job")
    cluster.heartbeat(("job", 3, 0))
    assert cluster.ended == ["job-3-[0]"]
    assert cluster.free == 2


def test_stages_of_a_job_that_is_disowned_later_are_ended_too(cluster: Cluster) -> None:
    cluster.heartbeat(("job", 3, 0))
    cluster.resources.disown("job")
    cluster.heartbeat(("job", 3, 0))
    assert cluster.ended == ["job-3-[0]"]


def test_no_slots_are_kept_for_a_job_that_is_disowned(cluster: Cluster) -> None:
    """Its need came with the heartbeat that placed its stages: nobody else would ever take it back."""
    cluster.heartbeat(("job", 3, 0))
    cluster.resources.attach("other", cluster)
    cluster.resources.request(SlotRequest("other", Attempt(0), 0, ((SlotId(0), SlotId(1)),)))
    assert cluster.granted_to == []
    cluster.resources.disown("job")
    assert len(cluster.granted_to) == 1
    assert cluster.resources.slots().lacking == {}


def test_a_taskmanager_that_is_heard_first_is_told_who_leads(cluster: Cluster) -> None:
    """Commands of an earlier leader that wakes up are not carried out any more."""
    cluster.heartbeat()
    cluster.heartbeat()
    assert cluster.told == [(commands.LEAD_TASK, 2)]


def test_a_region_that_is_given_up_before_its_taskmanager_is_heard_is_ended(cluster: Cluster) -> None:
    cluster.resources.end_attempt("job", Attempt(3), {0})
    cluster.heartbeat(("job", 3, 0))
    assert cluster.ended == ["job-3-[0]"]


# --- the leader's decision --------------------------------------------------------------------------------------------

ROW = JobRow("a", "RUNNING", 6, 3, has_run=True, is_placed=True)


@pytest.mark.parametrize(
    ("row", "action"),
    [
        (ROW, AdoptJob("a")),
        (replace(ROW, state="RESTARTING"), AdoptJob("a")),
        (replace(ROW, restarts=False), AdoptJob("a")),
        (replace(ROW, is_cancelled=True), EndJob("a", "CANCELED")),
        (replace(ROW, state="CANCELLING"), EndJob("a", "CANCELED")),
        (replace(ROW, leader_epoch=7), RunJob("a")),
        (replace(ROW, stored_attempt=3), AdoptJob("a")),
        # the row is from a backup: its slots are gone
        (replace(ROW, stored_attempt=4), TakeJob("a", "RESTARTING", 5, SLOTS_LOST)),
    ],
)
def test_a_job_that_is_placed_is_adopted_unless_it_is_cancelled(row: JobRow, action: object) -> None:
    assert LeaderMachine(7).job(row) == action


# --- rows -------------------------------------------------------------------------------------------------------------


def placement(job_id: str, region: int, attempt: int = 3) -> ClusterPlacement:
    slots = (PlacedSlot(SlotId(region), 11, "host", f"grpc+tcp://host:{region}"),)
    placed = PlacedRegion(region, Attempt(attempt), slots, {VertexId("v"): 2}, epoch=1)
    return ClusterPlacement(
        placed, (Stage(StageKey(job_id, Attempt(attempt), region), region, "tm", (SlotId(region),)),)
    )


def running_job(store: JobStore) -> Job:
    """A job of that leader that runs in two regions."""
    job = services.submit_job(graph_json(2), None, [], {}, None)
    job.state, job.attempt = "RUNNING", 3
    assert store.take(job)
    store.record_placements(job.id, lambda: [placement(job.id, 0), placement(job.id, 1)])
    return job


def regions_of(job: Job) -> list[int]:
    return [placed.region.region for placed in placements_of(job.id)]


@pytest.mark.django_db
def test_placements_are_read_as_they_were_written() -> None:
    job = running_job(JobStore(take_leadership("first")))
    [first, second] = placements_of(job.id)
    [expected, _] = [placement(job.id, 0), placement(job.id, 1)]
    assert first.region == replace(expected.region, slots=list(expected.region.slots))
    assert [stage.key for stage in (*first.stages, *second.stages)] == [stage.key for stage in placed_stages()]


@pytest.mark.django_db
def test_a_job_that_is_adopted_keeps_its_placements_and_its_attempt() -> None:
    job = running_job(JobStore(take_leadership("first")))
    assert JobStore(take_leadership("second")).take(job, adopts=True)
    assert regions_of(job) == [0, 1]
    assert Job.objects.get(id=job.id).attempt == 3


@pytest.mark.django_db
def test_the_next_attempt_of_a_region_is_recorded_with_the_end_of_its_placement() -> None:
    store = JobStore(take_leadership("first"))
    job = running_job(store)
    assert store.record_attempt(job.id, Attempt(4), [1])
    assert regions_of(job) == [0]
    assert Job.objects.get(id=job.id).attempt == 4
    assert store.record_attempt(job.id, Attempt(3), [0]), "of another region; a later one is saved already"
    assert (regions_of(job), Job.objects.get(id=job.id).attempt) == ([], 4)
    take_leadership("second")
    with pytest.raises(LeadershipLostError):
        store.record_attempt(job.id, Attempt(5), [0])


@pytest.mark.django_db
def test_a_job_that_begins_anew_or_has_ended_is_placed_nowhere() -> None:
    store = JobStore(take_leadership("first"))
    job = running_job(store)
    assert store.take(job)
    assert regions_of(job) == []
    store.record_placements(job.id, lambda: [placement(job.id, 0)])
    job.state, job.ended_at = "FINISHED", 5
    store.save(job, [])
    assert regions_of(job) == []
    store.record_placements(job.id, lambda: [placement(job.id, 0)])
    assert regions_of(job) == [], "too late"


@pytest.mark.django_db
def test_a_placement_that_could_not_be_recorded_is_written_until_the_next_attempt_of_its_region() -> None:
    store = JobStore(take_leadership("first"))
    job = running_job(store)
    assert store.record_attempt(job.id, Attempt(4), [0, 1])
    records = PlacementRecords(job.id, store)
    records.add([placement(job.id, 0, 4), placement(job.id, 1, 4)])
    with FailingDatabase(2, Loss.REQUEST).in_use(), pytest.raises(OperationalError):
        records.write()
    assert regions_of(job) == []
    records.drop([1])
    records.write()
    assert regions_of(job) == [0], "of region 1 the next attempt is about to begin"
    store.record_attempt(job.id, Attempt(5), [0])
    records.write()
    assert regions_of(job) == [], "it is written once"


@pytest.mark.django_db
def test_slots_that_stand_behind_a_checkpoint_that_is_forgotten_are_adopted_by_nobody(tmp_path: Path) -> None:
    """Whoever forgets it may be lost before the next attempt is recorded."""
    leadership = take_leadership("first")
    job = running_job(JobStore(leadership))
    store = SqlCompletedStore(leadership, job.id, [], SYSTEM_CLOCK)
    for number in (1, 2, 3):
        assert store.complete(completed(tmp_path, job.id, number))
    store.remove([CheckpointId(1)])
    assert regions_of(job) == [0, 1]
    store.remove([CheckpointId(3)])
    assert regions_of(job) == []


@pytest.mark.django_db
def test_a_job_of_another_leader_is_placed_by_that_one_alone() -> None:
    first = JobStore(take_leadership("first"))
    job = running_job(first)
    second = JobStore(take_leadership("second"))
    assert second.take(job)
    with pytest.raises(Exception, match="epoch"):
        first.record_placements(job.id, lambda: [placement(job.id, 0)])
    assert regions_of(job) == []


@pytest.mark.django_db
def test_a_stop_whose_leader_was_lost_is_answered_with_the_savepoint_that_the_job_has_ended_with() -> None:
    store = JobStore(take_leadership("first"))
    job = running_job(store)
    begun = {"directory": "file:///sp", "attempt": 0}
    stop = Operation.objects.create(
        job=job, kind="stop", state=Operation.State.IN_PROGRESS, created_at=1, progress=begun
    )
    # asked again, when the first had been answered with an error: it was given a directory, and the job has one already
    again = Operation.objects.create(
        job=job,
        kind="stop",
        state=Operation.State.IN_PROGRESS,
        created_at=2,
        progress={"directory": "file:///other", "attempt": 0},
    )
    late = Operation.objects.create(job=job, kind="stop", created_at=2)
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=9,
        location="file:///sp",
        is_owned=False,
        is_savepoint=True,
        leader_epoch=1,
        triggered_at=1,
        completed_at=2,
        size=3,
    )
    job.state, job.ended_at = "FINISHED", 5
    store.save(job, [])
    stop.refresh_from_db()
    again.refresh_from_db()
    late.refresh_from_db()
    assert stop.result == again.result == {"location": "file:///sp", "checkpoint_id": 9}
    assert late.result is not None and "FINISHED" in late.result["error"]
