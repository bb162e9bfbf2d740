"""Routes whose storage does not answer: a 503 that names it, and no request that waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from backend.cluster import storage_calls
from backend.cluster.models import Job, Operation
from backend.cluster.storage_calls import StorageCalls
from backend.live import savepoint_api
from tests.cluster.snapshots import completed
from tests.dispatcher import rows
from tests.support.hung_storage import HungStorage

pytestmark = pytest.mark.usefixtures("bus_redis")


@pytest.fixture
def job(home: Path, db: None) -> Job:
    job = rows.running_job()
    directory = home / "logs" / "jobs" / job.id / "attempt-0"
    directory.mkdir(parents=True)
    (directory / "slot-0.out").write_text("printed\n")
    return job


@pytest.fixture
def storage(home: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[HungStorage]:
    """The cluster's storage, which answers until it is told not to; see `hang`."""
    made = HungStorage(home, monkeypatch)
    yield made
    made.answer()
    assert not made.touched, f"the request has touched it itself:\n{made.touched[0]}"


def hang(storage: HungStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the storage answer nobody, and have nobody wait for it for long."""
    monkeypatch.setattr(storage_calls, "_calls", StorageCalls(answer_s=0.2))
    storage.hang()


@pytest.mark.parametrize("path", ["logs", "logs/attempt-0/slot-0.out", "log-search?name=attempt-0/slot-0.out&query=p"])
def test_logs_on_a_storage_that_hangs_are_503(
    api: APIClient, job: Job, storage: HungStorage, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = f"/api/v1/jobs/{job.id}/{path}"
    assert api.get(route).status_code == 200
    hang(storage, monkeypatch)
    answer = api.get(route)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["errors"][0]["message"] == "The storage of logs does not answer; try again."
    assert api.get(f"/api/v1/jobs/{job.id}/live").status_code == 200


def test_a_savepoint_on_a_storage_that_hangs_is_listed_as_unknown(
    api: APIClient, job: Job, home: Path, storage: HungStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoint_api, "LOOK_S", 0.2)
    location = completed(home / "savepoints", job.id, 1).location
    Operation.objects.create(
        job=job,
        kind=Operation.Kind.SAVEPOINT,
        state=Operation.State.COMPLETED,
        created_at=0,
        finished_at=1,
        result={"location": location, "checkpoint_id": 1},
    )
    hang(storage, monkeypatch)
    [listed] = api.get("/api/v1/savepoints").json()["savepoints"]
    assert (listed["location"], listed["exists"], listed["size"]) == (location, None, None)


def test_a_directory_that_a_user_names_on_a_storage_that_hangs_is_named(
    api: APIClient, job: Job, home: Path, storage: HungStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(storage, monkeypatch)
    location = str(home / "savepoints" / "mine")
    answer = api.post(f"/v1/jobs/{job.id}/savepoints", {"target-directory": location}, format="json")
    assert answer.status_code == 503
    assert f"The storage of {location} does not answer" in answer.json()["errors"][0]
    assert not Operation.objects.exists()
