"""/api/v1: what was asked of a job, and what it can be started again from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster import bus, services
from backend.cluster.models import Artifact, Checkpoint, Job, Operation
from tests.cluster.snapshots import completed
from tests.dispatcher import rows
from tests.support.bus_contents import put_fields

pytestmark = pytest.mark.usefixtures("bus_redis")


@pytest.fixture
def job(db: None) -> Job:
    return rows.running_job()


def savepoint(job: Job, user: User | None = None, location: str = "file:///sp", at: int = 50) -> Operation:
    operation = services.request_operation(job, Operation.Kind.SAVEPOINT, {"format": "NATIVE"}, user)
    result = {"location": location, "checkpoint_id": 4}
    Operation.objects.filter(trigger_id=operation.trigger_id).update(
        state=Operation.State.COMPLETED, finished_at=at, result=result
    )
    return operation


def completed_checkpoint(job: Job, number: int, location: str, at: int) -> None:
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=number,
        location=location,
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        attempt=0,
        triggered_at=at,
        completed_at=at,
        size=100,
    )


def test_operations_are_listed_with_who_asked_and_how_they_ended(api: APIClient, job: Job, oscar: User) -> None:
    done = savepoint(job, oscar)
    waiting = services.request_operation(job, Operation.Kind.STOP, {}, None)
    listed = api.get(f"/api/v1/jobs/{job.id}/operations").json()["operations"]
    assert {o["trigger_id"]: o["state"] for o in listed} == {
        done.trigger_id: "COMPLETED",
        waiting.trigger_id: "PENDING",
    }
    one = api.get(f"/api/v1/jobs/{job.id}/operations/{done.trigger_id}").json()
    assert (one["kind"], one["requested_by"], one["result"]["location"]) == ("savepoint", "oscar", "file:///sp")
    assert api.get(f"/api/v1/jobs/{job.id}/operations/{'f' * 32}").status_code == 404
    assert api.get(f"/api/v1/jobs/{rows.running_job().id}/operations/{done.trigger_id}").status_code == 404


def test_restore_points_are_checkpoints_and_savepoints_newest_first(api: APIClient, job: Job) -> None:
    savepoint(job, at=50)
    completed_checkpoint(job, 3, "file:///chk-3", 40)
    completed_checkpoint(job, 5, "file:///chk-5", 60)
    answer = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()
    assert [point["location"] for point in answer["points"]] == ["file:///chk-5", "file:///sp", "file:///chk-3"]
    assert answer["points"][0] == {
        "kind": "checkpoint",
        "location": "file:///chk-5",
        "checkpoint_id": 5,
        "timestamp": 60,
        "size": 100,
        "deleted_by": ["stop", "cancel"],
    }
    assert answer["points"][1]["deleted_by"] == []
    assert answer["program"] is None


def retaining(job: Job, retention: str | None) -> None:
    if retention is not None:
        given = {"execution.checkpointing.externalized-checkpoint-retention": retention}
        job.graph = {**job.graph, "configuration": {**job.graph["configuration"], **given}}
        job.save()


def own_checkpoint(job: Job, home: Path, number: int = 7) -> str:
    location = completed(home / "checkpoints", job.id, number).location
    completed_checkpoint(job, number, location, 40)
    return location


@pytest.mark.parametrize(
    ("retention", "state", "deleted_by"),
    [
        (None, "RUNNING", ["stop", "cancel"]),
        ("delete_on_cancellation", "RESTARTING", ["stop", "cancel"]),
        ("retain_on_cancellation", "RUNNING", ["stop"]),
        ("no_such_retention", "RUNNING", ["stop", "cancel"]),
        (None, "FAILED", []),
    ],
)
def test_a_restore_point_says_whether_it_ends_with_its_job(
    api: APIClient, job: Job, home: Path, retention: str | None, state: str, deleted_by: list[str]
) -> None:
    retaining(job, retention)
    location = own_checkpoint(job, home)
    Job.objects.update(state=state)
    points = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()["points"]
    assert [(point["location"], point["deleted_by"]) for point in points] == [(location, deleted_by)]
    # however it is written
    for path in (location, f"{location}/_metadata", location.removeprefix("file://")):
        checked = api.get(f"/api/v1/jobs/{job.id}/restore-points/check", {"location": path}).json()
        assert checked == {"deleted_by": deleted_by, "problem": ""}


def test_a_snapshot_is_looked_at_before_a_job_is_ended_for_it(api: APIClient, job: Job, home: Path) -> None:
    path = f"/api/v1/jobs/{job.id}/restore-points/check"
    kept = completed(home / "savepoints", "d" * 32, 1).location
    assert api.get(path, {"location": kept}).json() == {"deleted_by": [], "problem": ""}
    gone = own_checkpoint(job, home, 8)
    shutil.rmtree(gone.removeprefix("file://"))
    assert "nothing exists at this location" in api.get(path, {"location": gone}).json()["problem"]
    foreign = own_checkpoint(rows.running_job(), home)
    assert "which has not ended and may delete it" in api.get(path, {"location": foreign}).json()["problem"]
    assert api.get(path, {"location": "file:///etc"}).json()["problem"]
    for wrong in ("", "a\0b", "x" * 5_000):
        assert api.get(path, {"location": wrong}).status_code == 400


def test_a_disposed_savepoint_is_no_restore_point(api: APIClient, job: Job) -> None:
    savepoint(job, location="file:///gone", at=50)
    savepoint(job, location="file:///kept", at=40)
    Operation.objects.create(
        kind=Operation.Kind.DISPOSE,
        state=Operation.State.COMPLETED,
        created_at=0,
        progress={"directory": "file:///gone"},
        result={"location": "file:///gone"},
    )
    points = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()["points"]
    assert [point["location"] for point in points] == ["file:///kept"]


@pytest.mark.parametrize(
    ("claim_mode", "state", "has_own", "is_listed"),
    [
        ("no_claim", "RUNNING", True, True),
        ("no_claim", "FINISHED", False, True),
        ("claim", "RUNNING", False, True),
        ("claim", "RUNNING", True, False),
        ("claim", "FINISHED", False, False),
    ],
)
def test_what_a_job_was_started_from_is_listed_while_it_is_there(
    api: APIClient, job: Job, claim_mode: str, state: str, has_own: bool, is_listed: bool
) -> None:
    given = {"execution.state-recovery.path": "file:///before", "execution.state-recovery.claim-mode": claim_mode}
    job.graph = {**job.graph, "configuration": {**job.graph["configuration"], **given}}
    job.state = state
    job.save()
    if has_own:
        completed_checkpoint(job, 3, "file:///chk-3", job.created_at + 1)
    points = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()["points"]
    start: dict[str, Any] = {
        "kind": "start",
        "location": "file:///before",
        "checkpoint_id": None,
        "size": None,
        "deleted_by": [],
    }
    assert points[has_own:] == ([start | {"timestamp": job.created_at}] if is_listed else [])


@pytest.mark.parametrize("is_there", [True, False])
def test_what_an_ended_job_had_claimed_is_listed_unless_its_checkpoints_have_taken_its_place(
    api: APIClient, job: Job, home: Path, is_there: bool
) -> None:
    location = completed(home / "savepoints", "d" * 32, 1).location
    given = {"execution.state-recovery.path": location, "execution.state-recovery.claim-mode": "claim"}
    job.graph = {**job.graph, "configuration": {**job.graph["configuration"], **given}}
    job.state, job.state_times = "CANCELED", {"RUNNING": 1}
    job.save()
    if not is_there:
        shutil.rmtree(location.removeprefix("file://"))
    points = api.get(f"/api/v1/jobs/{job.id}/restore-points").json()["points"]
    assert [point["location"] for point in points] == ([location] if is_there else [])


def test_a_program_is_told_as_it_was_started_but_for_secrets(api: APIClient, job: Job) -> None:
    artifact = Artifact.objects.create(id="d" * 64, file_name="job.zip", size=1, uploaded_at=1)
    job.artifact, job.program_args = artifact, ["--rate", "3", "--token", "hunter2"]
    given = {"a.b": "c", "s3.secret-key": "hunter2", "api.token": "******", "url": "postgres://me:pw@host/db"}
    job.submission = {"entry": "main", "parallelism": 2, "configuration": given}
    job.save()
    answer = api.get(f"/api/v1/jobs/{job.id}/restore-points")
    assert answer.json()["program"] == {
        "id": f"{'d' * 64}_job.zip",
        "name": "job.zip",
        "args": ["--rate", "3", "--token", "******"],
        "entry": "main",
        "parallelism": 2,
        "configuration": {"a.b": "c"},
        "hidden": ["api.token", "s3.secret-key", "url"],
    }
    assert b"hunter2" not in answer.content


def test_details_of_a_running_jobs_checkpoints_are_redis(api: APIClient, job: Job) -> None:
    path = f"/jobs/{job.id}/checkpoints/details/1"
    assert api.get(path).json()["num_acknowledged_subtasks"] == 3
    details = dict((job.document or {})["checkpoint_details"]["1"]) | {"num_acknowledged_subtasks": 2}
    put_fields(bus.CHECKPOINTS_KEY.format(job.id), {"1": details})
    assert api.get(path).json()["num_acknowledged_subtasks"] == 2
    bus.client().delete(bus.CHECKPOINTS_KEY.format(job.id))
    assert api.get(path).json()["num_acknowledged_subtasks"] == 3
