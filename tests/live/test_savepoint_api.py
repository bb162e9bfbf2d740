"""/api/v1/savepoints."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.cluster import services
from backend.cluster.models import Job, Operation
from backend.live import savepoint_api
from runtime.common import options
from tests.cluster.snapshots import completed
from tests.dispatcher import rows
from tests.support.between_reads import after_read

pytestmark = pytest.mark.usefixtures("bus_redis")


@pytest.fixture
def job(home: Path, db: None) -> Job:
    return rows.running_job()


def taken(job: Job, home: Path, number: int, user: User | None = None, **parameters: Any) -> str:
    """A savepoint of the job with its files; its location."""
    location = completed(home / "savepoints", job.id, number).location
    Operation.objects.create(
        job=job,
        kind=Operation.Kind.SAVEPOINT,
        parameters=parameters,
        state=Operation.State.COMPLETED,
        created_at=0,
        finished_at=number,
        result={"location": location, "checkpoint_id": number},
        requested_by=user,
    )
    return location


def started_from(location: str, mode: str, state: str = "RUNNING") -> Job:
    """A job that was submitted to go on from there."""
    restore = {options.RECOVERY_PATH.key: location, options.RECOVERY_CLAIM_MODE.key: mode}
    job = rows.running_job("next")
    graph = job.graph | {"configuration": job.graph["configuration"] | restore}
    Job.objects.filter(id=job.id).update(state=state, configuration=restore, graph=graph)
    return job


def test_a_savepoint_is_found_by_its_job_however_many_others_have_followed(
    api: APIClient, job: Job, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoint_api, "MAX_SAVEPOINTS", 2)
    mine = taken(job, home, 1)
    other = rows.running_job("other")
    for number in (2, 3):
        taken(other, home, number)
    listed = api.get("/api/v1/savepoints").json()["savepoints"]
    assert [savepoint["job_name"] for savepoint in listed] == ["other", "other"]
    [found] = api.get("/api/v1/savepoints", {"job": job.id}).json()["savepoints"]
    assert found["location"] == mine
    assert api.get("/api/v1/savepoints", {"job": "ab" * 16}).json() == {"savepoints": [], "total": 0}


def test_more_savepoints_than_an_answer_has_are_found_page_by_page(api: APIClient, job: Job, home: Path) -> None:
    locations = [taken(job, home, number) for number in range(1, 6)][::-1]
    pages = [api.get("/api/v1/savepoints", {"limit": 2, "offset": offset}).json() for offset in (0, 2, 4, 6)]
    assert [page["total"] for page in pages] == [5] * 4
    assert [[each["location"] for each in page["savepoints"]] for page in pages] == [
        locations[:2],
        locations[2:4],
        locations[4:],
        [],
    ]


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "201"}, {"offset": "-1"}, {"offset": "x"}], ids=str)
def test_a_page_that_cannot_be_is_refused(api: APIClient, job: Job, query: dict[str, str]) -> None:
    refused = api.get("/api/v1/savepoints", query)
    assert refused.status_code == 400 and next(iter(query)) in refused.content.decode()


def test_savepoints_are_searched_by_job_location_and_user(api: APIClient, job: Job, home: Path, oscar: User) -> None:
    mine = taken(job, home, 1)
    other = rows.running_job("Other 50% job")
    theirs = taken(other, home, 2, oscar)

    def found(text: str) -> list[str]:
        return [each["location"] for each in api.get("/api/v1/savepoints", {"search": text}).json()["savepoints"]]

    assert found("fLiGhts") == [mine] and found("50%") == [theirs] and found(" ") == [theirs, mine]
    assert found(job.id[:12]) == [mine] and found(theirs[-20:]) == [theirs] and found("osca") == [theirs]
    assert found("nobody's") == []


def test_savepoints_of_all_jobs_are_listed_newest_first(api: APIClient, job: Job, home: Path, oscar: User) -> None:
    assert api.get("/api/v1/savepoints").json() == {"savepoints": [], "total": 0}
    first = taken(job, home, 1, oscar, format="NATIVE")
    second = taken(rows.ended_job("FINISHED", "ended"), home, 2)
    failed = services.request_operation(job, Operation.Kind.SAVEPOINT, {}, None)
    Operation.objects.filter(trigger_id=failed.trigger_id).update(state="COMPLETED", result={"error": "no"})
    newest, oldest = api.get("/api/v1/savepoints").json()["savepoints"]
    assert (newest["location"], newest["job_name"], newest["job_state"]) == (second, "ended", "FINISHED")
    assert newest["format"] == "CANONICAL" and newest["requested_by"] is None
    assert oldest == {
        "location": first,
        "checkpoint_id": 1,
        "kind": "savepoint",
        "format": "NATIVE",
        "created_at": 1,
        "requested_by": "oscar",
        "job_id": job.id,
        "job_name": "flights",
        "job_state": "RUNNING",
        "exists": True,
        "size": 0,
        "used_by": [],
        "needed_by": None,
        "needed_for": None,
    }


def test_a_job_that_is_deleted_meanwhile_does_not_cost_the_list(api: APIClient, home: Path, db: None) -> None:
    kept, gone = rows.running_job("kept"), rows.ended_job("FINISHED", "gone")
    taken(kept, home, 1)
    taken(gone, home, 2)
    with after_read(1, "cluster_operation", Job.objects.filter(id=gone.id).delete):
        listed = api.get("/api/v1/savepoints")
    assert listed.status_code == 200
    assert listed.json()["savepoints"][-1]["job_name"] == "kept"
    assert [savepoint["job_name"] for savepoint in api.get("/api/v1/savepoints").json()["savepoints"]] == ["kept"]


def test_a_savepoint_whose_files_are_gone_says_so(api: APIClient, job: Job, home: Path) -> None:
    location = taken(job, home, 1)
    shutil.rmtree(location.removeprefix("file://"))
    [listed] = api.get("/api/v1/savepoints").json()["savepoints"]
    assert (listed["exists"], listed["size"]) == (False, None)


def disposal(directory: str, result: dict[str, Any] | None) -> None:
    """A disposal of a savepoint, with its result; None: it has begun."""
    Operation.objects.create(
        kind=Operation.Kind.DISPOSE,
        parameters={"path": directory},
        state=Operation.State.IN_PROGRESS if result is None else Operation.State.COMPLETED,
        created_at=0,
        progress={"directory": directory},
        result=result,
    )


def test_a_disposed_savepoint_is_not_listed(api: APIClient, job: Job, home: Path) -> None:
    gone, kept, failed = (taken(job, home, number) for number in (1, 2, 3))
    disposal(gone, {"location": gone})
    disposal(kept, None)
    disposal(failed, {"error": "the disk is gone"})
    listed = api.get("/api/v1/savepoints").json()
    assert [savepoint["location"] for savepoint in listed["savepoints"]] == [failed, kept]
    assert listed["total"] == 2


def test_a_savepoint_names_the_jobs_that_were_started_from_it(api: APIClient, job: Job, home: Path) -> None:
    location = taken(job, home, 1)
    ended = started_from(location, "no_claim", "FAILED")
    [listed] = api.get("/api/v1/savepoints").json()["savepoints"]
    assert [user["job_id"] for user in listed["used_by"]] == [ended.id] and listed["needed_by"] is None
    claiming = started_from(location, "claim")
    [listed] = api.get("/api/v1/savepoints").json()["savepoints"]
    user = next(user for user in listed["used_by"] if user["job_id"] == claiming.id)
    assert user == {"job_id": claiming.id, "job_name": "next", "job_state": "RUNNING", "claim_mode": "CLAIM"}
    assert (listed["needed_by"], listed["needed_for"]) == (claiming.id, f"job {claiming.id}")
