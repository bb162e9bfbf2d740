"""What is left of many short jobs, restarts and requests; on the real services and the database."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backend.cluster import services
from backend.cluster.job_store import KEPT_EXCEPTIONS, JobStore
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.models import (
    TERMINAL_STATES,
    Checkpoint,
    CheckpointStatistics,
    Job,
    JobException,
    Operation,
    Scaling,
)
from backend.cluster.row_retention import (
    ANSWERS_KEPT_MS,
    KEPT_OPERATIONS,
    KEPT_SAVEPOINTS,
    LOOK_MS,
    MAX_JOBS_AT_ONCE,
    Answered,
    EndedJob,
    RowRetention,
    jobs_to_delete,
    operations_to_delete,
)
from runtime.testing import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import take_leadership

pytestmark = pytest.mark.django_db
HOUR_MS = 3_600_000


#: every table → what keeps it from growing without end, as docs/recovery.md tells
BOUNDS = {
    "accounts.ApiToken": "LedExpiry; else its user's to revoke",
    "accounts.LoginLink": "LedExpiry",
    "audit.AuditEvent": "never deleted",
    "admin.LogEntry": "never written",
    "auth.Group": "one of each role",
    "auth.Permission": "some of each model",
    "auth.User": "made by administrators",
    "cluster.Artifact": "uploaded by users, who delete them",
    "cluster.Checkpoint": "retained ones of a job; with the job",
    "cluster.CheckpointStatistics": "one of a job; with the job",
    "cluster.ClusterIdentity": "one",
    "cluster.Job": "RowRetention",
    "cluster.JobException": "JobStore; with the job",
    "cluster.LeaderEpoch": "one",
    "cluster.Operation": "RowRetention",
    "cluster.Placement": "regions of jobs that run",
    "cluster.PythonEnvironment": "LedEnvironments",
    "cluster.Scaling": "ScalingHistory; with the job",
    "cluster.TaskManager": "JobStore",
    "contenttypes.ContentType": "one of each model",
    "dispatcher.ExecutionSwitch": "SwitchRetention",
    "dispatcher.PendingUpload": "its upload; else an hour after it",
    "inbox.ReadMarker": "one of a user",
    "pipelines.Connection": "made by administrators",
    "pipelines.Deployment": "DeploymentRetention",
    "pipelines.Draft": "one of a user and pipeline",
    "pipelines.Mark": "one of each thing that is done once",
    "pipelines.Pipeline": "made by users",
    "pipelines.Version": "saved by users",
    "sessions.Session": "LedExpiry",
}


def test_every_table_has_a_bound() -> None:
    assert {model._meta.label for model in apps.get_models() if not model._meta.proxy} == BOUNDS.keys()


# --- what is decided --------------------------------------------------------------------------------------------------


def test_the_newest_jobs_of_each_sort_stay_and_those_that_are_needed() -> None:
    ended = [EndedJob(str(number), number % 3 == 0) for number in range(12, 0, -1)]
    assert jobs_to_delete(ended, 2, {"1"}) == ["2", "3", "4", "5", "6", "7", "8"]
    assert jobs_to_delete(ended, 20, ()) == []


def answered(number: int, follows: int | None = None, *, is_snapshot: bool = False, may_go: bool = True) -> Answered:
    return Answered(str(number), None if follows is None else str(follows), is_snapshot, may_go)


def test_operations_stay_while_they_are_new_or_followed() -> None:
    many = [answered(number) for number in range(KEPT_OPERATIONS + 3, 0, -1)]
    assert operations_to_delete(many) == ["1", "2", "3"]
    assert operations_to_delete([answered(0, follows=2), *many]) == ["1", "3", "4"]
    fresh = [answered(number, may_go=number != 2) for number in range(KEPT_OPERATIONS + 3, 0, -1)]
    assert operations_to_delete(fresh) == ["1", "3"]


def test_savepoints_have_a_limit_of_their_own() -> None:
    rows = [answered(number, is_snapshot=True) for number in range(KEPT_SAVEPOINTS + 1, 0, -1)]
    assert operations_to_delete([*rows, *(answered(-number) for number in range(KEPT_OPERATIONS))]) == ["1"]


# --- rows -------------------------------------------------------------------------------------------------------------


class Cluster:
    """Rows as users and a leader write them, and the leader's retention."""

    def __init__(self, kept_jobs: int) -> None:
        self.leadership = take_leadership("leader")
        self.store = JobStore(self.leadership)
        self.clock = ManualClock(10_000_000)
        self.needed: set[str] = set()
        self.retention = RowRetention(self.leadership, kept_jobs, lambda: self.needed, self.clock)
        self._graph = graph_json(1)
        self._num_ended = 0

    def job(self, **configuration: str) -> Job:
        """A job that this leader runs."""
        job = services.submit_job(self._graph, None, [], configuration, None)
        assert self.store.take(job)
        return job

    def end(
        self, job: Job, state: str = "FINISHED", *, is_clean: bool = True, failures: int = 0, hours_ago: float = 2
    ) -> Job:
        """Record its end, after those before, and that nothing is left of its checkpoints."""
        self._num_ended += 1
        job.state, job.ended_at = state, self.clock.now_ms() - round(hours_ago * HOUR_MS) + self._num_ended
        assert self.store.save(job, [failure(attempt) for attempt in range(failures)])
        if is_clean:
            Job.objects.filter(id=job.id).update(may_have_leftovers=False)
        return job

    def ask(self, job: Job | None, kind: Operation.Kind, result: dict[str, Any] | None, hours_ago: float = 2) -> str:
        """An operation, and its answer unless that is None."""
        row = services.request_operation(job, kind, {}, None)
        if result is not None:
            self.store.complete(row.trigger_id, result, self.clock.now_ms() - round(hours_ago * HOUR_MS))
        return row.trigger_id

    def settle(self, running: Iterable[str] = ()) -> int:
        """Poll until nothing more is deleted; return how often something was."""
        for times in range(100):
            before = Job.objects.count(), Operation.objects.count(), Checkpoint.objects.count()
            self.retention.poll(set(running))
            if before == (Job.objects.count(), Operation.objects.count(), Checkpoint.objects.count()):
                return times
            self.clock.advance(1_000)
        pytest.fail("the rows do not come to rest")

    def look(self) -> None:
        self.clock.advance(LOOK_MS)
        self.settle()


def failure(attempt: int) -> dict[str, Any]:
    texts = dict.fromkeys(("name", "message", "stacktrace", "task_name", "location", "taskmanager"), "x" * 200)
    return {"timestamp": attempt, "attempt": attempt, "suppressed": [], **texts}


def checkpoint(job: Job, location: str) -> None:
    Checkpoint.objects.create(
        job=job, checkpoint_id=1, location=location, is_owned=True, is_savepoint=False,
        leader_epoch=1, attempt=0, triggered_at=1, completed_at=2, size=3,
    )  # fmt: skip


@pytest.mark.parametrize("number", [120, pytest.param(500, marks=pytest.mark.slow)])
def test_many_short_jobs_leave_the_rows_of_those_that_are_kept(number: int) -> None:
    cluster = Cluster(kept_jobs=100)
    going = cluster.job()
    jobs = []
    for _ in range(number):
        job = cluster.job()
        CheckpointStatistics.objects.create(job=job, ended=1, record={})
        Scaling.objects.create(job=job, decided_at=1, stamp="2026-01-01T00:00Z", reason="", changes={})
        cluster.ask(job, Operation.Kind.CHECKPOINT, {"checkpoint_id": 1})
        jobs.append(cluster.end(job, failures=2).id)
    assert Job.objects.count() == number + 1
    assert cluster.settle() == math.ceil((number - 100) / MAX_JOBS_AT_ONCE)
    assert set(Job.objects.values_list("id", flat=True)) == {going.id, *jobs[-100:]}
    for rows in (JobException, Operation, CheckpointStatistics, Scaling):
        assert set(rows.objects.values_list("job_id", flat=True)) == set(jobs[-100:]), rows
    # nothing is asked of the database but how many there are until the next look
    with CaptureQueriesContext(connection) as queries:
        cluster.retention.poll(())
    assert len(queries) == 0


def test_two_hundred_restarts_leave_a_job_as_large_as_one_does() -> None:
    cluster = Cluster(kept_jobs=100)
    job = cluster.job()
    sizes = []
    for attempt in range(200):
        assert cluster.store.record_attempt(job.id, attempt)  # type: ignore[arg-type]
        job.attempt = job.restarts = attempt
        job.state_times = {**job.state_times, "RESTARTING": attempt, "RUNNING": attempt + 1}
        assert cluster.store.save(job, [failure(attempt)])
        row = Job.objects.filter(id=job.id).values().get()
        sizes.append(len(json.dumps(row)))
    assert JobException.objects.count() == KEPT_EXCEPTIONS
    assert cluster.store.num_failures(job.id) == 200
    assert max(sizes) - sizes[0] < 100


@pytest.mark.parametrize("state", TERMINAL_STATES)
def test_jobs_with_snapshots_are_kept_besides_until_those_are_disposed_of(state: str) -> None:
    cluster = Cluster(kept_jobs=2)
    taken, retained = cluster.job(), cluster.job()
    cluster.ask(taken, Operation.Kind.SAVEPOINT, {"location": "file:///s/1"}, hours_ago=5)
    checkpoint(retained, "file:///c/1")
    for job in (taken, retained):
        cluster.end(job, state)
    for _ in range(5):
        cluster.end(cluster.job(), state)
    cluster.settle()
    assert Job.objects.count() == 4 and Operation.objects.count() == 1 and Checkpoint.objects.count() == 1
    # the user disposes of both; the answers can still be asked for
    cluster.ask(None, Operation.Kind.DISPOSE, {"location": "file:///s/1"}, hours_ago=0)
    cluster.ask(None, Operation.Kind.DISPOSE, {"location": "file:///c/1"}, hours_ago=0)
    cluster.look()
    assert Job.objects.count() == 4 and Operation.objects.count() == 3
    cluster.clock.advance(ANSWERS_KEPT_MS + 1)
    cluster.look()
    assert not Job.objects.filter(id__in=[taken.id, retained.id]).exists()
    assert Job.objects.count() == 2 and not Operation.objects.exists() and not Checkpoint.objects.exists()


def test_a_disposal_that_failed_forgets_nothing() -> None:
    cluster = Cluster(kept_jobs=100)
    job = cluster.job()
    cluster.ask(job, Operation.Kind.SAVEPOINT, {"location": "file:///s/1"})
    cluster.ask(None, Operation.Kind.DISPOSE, {"error": "it is needed"})
    cluster.settle()
    assert [row.kind for row in Operation.objects.all()] == ["savepoint"]


def test_jobs_with_snapshots_are_bounded_too() -> None:
    cluster = Cluster(kept_jobs=2)
    for number in range(6):
        job = cluster.job()
        checkpoint(job, f"file:///c/{number}")
        cluster.end(job)
    cluster.settle()
    assert Job.objects.count() == 2


def test_nothing_goes_that_is_referred_to() -> None:
    cluster = Cluster(kept_jobs=0)
    needed, open_one, unclean, source, runs = (cluster.job() for _ in range(5))
    asked = cluster.ask(open_one, Operation.Kind.SAVEPOINT, None)
    cluster.ask(source, Operation.Kind.STOP, {"location": "file:///s/9"})
    later = cluster.job()
    # as it was resolved at the submission
    later.graph["configuration"] = {"execution.state-recovery.path": "file:///s/9"}
    later.save(update_fields=["graph"])
    for job in (needed, open_one, source, runs):
        cluster.end(job)
    cluster.end(unclean, "FAILED", is_clean=False)
    # the end of a job answers what was asked of it, but for a savepoint that may be complete
    Operation.objects.filter(trigger_id=asked).update(state="IN_PROGRESS")
    cluster.needed = {needed.id}
    cluster.settle(running=[runs.id])
    assert Job.objects.count() == 6
    cluster.needed = set()
    cluster.store.complete(asked, {"error": "gone"}, 1)
    cluster.store.leftovers_are_deleted(unclean.id)
    cluster.end(later)
    cluster.look()
    assert not Job.objects.exists()


def test_a_job_that_has_just_ended_stays_however_long_ago_it_was_submitted() -> None:
    """Its failures, and the answer to who stopped it, can still be asked for."""
    cluster = Cluster(kept_jobs=2)
    stream = cluster.job()
    for _ in range(4):
        cluster.end(cluster.job(), hours_ago=0.5)
    cluster.ask(stream, Operation.Kind.CANCEL, {"state": "CANCELED"}, hours_ago=0)
    cluster.end(stream, "CANCELED", hours_ago=0)
    cluster.look()
    assert Job.objects.count() == 5, "all ended within the hour"
    cluster.clock.advance(HOUR_MS)
    cluster.look()
    assert Job.objects.count() == 2 and Job.objects.filter(id=stream.id).exists(), "it was the last to end"


def test_a_job_that_was_restored_from_a_snapshot_meanwhile_keeps_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(kept_jobs=0)
    source = cluster.job()
    cluster.ask(source, Operation.Kind.STOP, {"location": "file:///s/9"})
    cluster.end(source)
    fenced = cluster.leadership.fenced

    def started_from_it_before() -> Any:
        monkeypatch.undo()
        later = cluster.job()
        later.graph["configuration"] = {"execution.state-recovery.path": "file:///s/9"}
        later.save(update_fields=["graph"])
        return fenced()

    monkeypatch.setattr(cluster.leadership, "fenced", started_from_it_before)
    cluster.retention._delete_jobs(())
    assert Job.objects.filter(id=source.id).exists()


def test_deletions_read_no_graphs() -> None:
    cluster = Cluster(kept_jobs=0)
    cluster.end(cluster.job())
    with CaptureQueriesContext(connection) as queries:
        cluster.retention.poll(())
    assert not Job.objects.exists()
    assert not [query["sql"] for query in queries if '"cluster_job"."document"' in query["sql"]]


def test_a_job_that_asks_for_a_savepoint_every_minute_keeps_the_newest_once_it_has_ended() -> None:
    """Before, nobody may claim one, which only its row forbids."""
    cluster = Cluster(kept_jobs=100)
    job = cluster.job()
    for number in range(KEPT_SAVEPOINTS + 30):
        cluster.ask(job, Operation.Kind.SAVEPOINT, {"location": f"file:///s/{number}"})
        cluster.ask(job, Operation.Kind.SAVEPOINT, {"error": "timeout"}, hours_ago=0 if number % 2 else 2)
    cluster.settle()
    rows = Operation.objects.filter(job=job)
    assert rows.filter(result__location__isnull=False).count() == KEPT_SAVEPOINTS + 30
    failed = rows.filter(result__error__isnull=False)
    assert KEPT_OPERATIONS <= failed.count() <= KEPT_OPERATIONS + (KEPT_SAVEPOINTS + 30) // 2
    # what was answered within the hour is still there to be asked for
    assert failed.filter(finished_at__gte=cluster.clock.now_ms() - HOUR_MS).count() == (KEPT_SAVEPOINTS + 30) // 2
    cluster.clock.advance(ANSWERS_KEPT_MS)
    cluster.look()
    assert failed.count() == KEPT_OPERATIONS
    cluster.end(job)
    cluster.look()
    assert rows.filter(result__location__isnull=False).count() == KEPT_SAVEPOINTS


def test_an_operation_and_its_followers_go_together() -> None:
    cluster = Cluster(kept_jobs=100)
    job = cluster.job()
    first = services.request_operation(job, Operation.Kind.RESCALE, {}, None)
    second = services.request_operation(job, Operation.Kind.RESCALE, {}, None, trigger_id="f" * 32)
    cluster.store.complete(first.trigger_id, {}, 1)
    Operation.objects.update(created_at=0)
    for _ in range(KEPT_OPERATIONS + 1):
        cluster.ask(job, Operation.Kind.CHECKPOINT, {})
    assert second.follows == first
    cluster.settle()
    assert not Operation.objects.filter(kind="rescale").exists()
    assert Operation.objects.count() <= KEPT_OPERATIONS


def test_a_leader_that_was_replaced_deletes_nothing() -> None:
    cluster = Cluster(kept_jobs=0)
    cluster.end(cluster.job())
    take_leadership("successor")
    with pytest.raises(LeadershipLostError):
        cluster.retention.poll(())
    assert Job.objects.count() == 1


def test_a_look_that_failed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(kept_jobs=0)
    cluster.end(cluster.job())

    def broken() -> set[str]:
        raise RuntimeError("the rows of an app above cannot be read")

    monkeypatch.setattr(cluster.retention, "_needed_elsewhere", broken)
    with pytest.raises(RuntimeError):
        cluster.retention.poll(())
    assert Job.objects.count() == 1
    monkeypatch.undo()
    cluster.look()
    assert not Job.objects.exists()


def test_what_a_job_leaves_in_the_storage_is_not_this_ones_to_delete(tmp_path: Path) -> None:
    cluster = Cluster(kept_jobs=0)
    job = cluster.job()
    (tmp_path / "chk-1").mkdir()
    checkpoint(job, (tmp_path / "chk-1").as_uri())
    cluster.end(job)
    cluster.settle()
    assert not Job.objects.exists() and (tmp_path / "chk-1").is_dir()
