"""Owners: with TIDEMARK_OWNERS_ONLY others are refused, whatever they act on and by which route; and how many jobs a
user may have."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.ownership import NotTheOwner, Owned, check_owner, check_restore, owned_snapshot
from backend.accounts.roles import Role, limit_role, set_role
from backend.accounts.services import create_token
from backend.audit.models import AuditEvent
from backend.cluster import bus, services
from backend.cluster.models import Artifact, Checkpoint, Job, Operation
from backend.cluster.services import CheckedLocations
from backend.pipelines.deployments import named_snapshot
from backend.pipelines.models import Pipeline
from runtime.common import options
from tests.accounts.test_matrix import NEEDED, OFFERED
from tests.cluster.graphs import graph_json
from tests.cluster.snapshots import completed
from tests.dispatcher import rows
from tests.dispatcher.test_jars import jar_id, upload
from tests.support.databases import needs_processes

pytestmark = pytest.mark.django_db

OWNED_ROUTES = sorted(
    (method, route)
    for (method, route), role in NEEDED.items()
    if role in (Role.OPERATOR, Role.DEVELOPER) and ("job_id>" in route or "application_id>" in route)
)


@pytest.fixture(autouse=True)
def owners_only(settings: Settings, tmp_path: Path) -> None:
    settings.TIDEMARK_OWNERS_ONLY = True
    settings.TIDEMARK_HOME = tmp_path
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()


@pytest.fixture
def bob(db: None) -> User:
    """A developer in alice's team."""
    user = User.objects.create_user("bob")
    set_role(user, Role.DEVELOPER)
    return user


@pytest.fixture
def root(db: None) -> User:
    user = User.objects.create_user("root")
    set_role(user, Role.ADMIN)
    return user


@pytest.fixture
def job(alice: User) -> Job:
    """A running job of alice's."""
    found = rows.running_job()
    found.submitted_by = alice
    found.save()
    return found


def as_user(user: User) -> APIClient:
    """Return a client that sends a token of a user."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(user, os.urandom(4).hex())}")
    return client


def call(user: User, method: str, route: str, job: Job, body: Any = None) -> Any:
    path = "/" + route
    values = {"<str:job_id>": job.id, "<str:application_id>": job.id, "<str:peek_id>": "0" * 32}
    for placeholder, value in values.items():
        path = path.replace(placeholder, value)
    return as_user(user).generic(method, path, "{}" if body is None else body, content_type="application/json")


@pytest.mark.parametrize(("method", "route"), OWNED_ROUTES)
def test_nobody_acts_on_the_job_of_another(bob: User, job: Job, method: str, route: str) -> None:
    answer = call(bob, method, route, job)
    assert answer.status_code == 403
    assert "belongs to alice" in answer.content.decode()
    event = AuditEvent.objects.latest("pk")
    assert (event.user, event.result) == ("bob", "denied")
    assert not Operation.objects.exists()


@pytest.mark.parametrize(("method", "route"), OWNED_ROUTES)
def test_owners_and_administrators_act(alice: User, root: User, job: Job, method: str, route: str) -> None:
    for user in (alice, root):
        assert call(user, method, route, job).status_code not in (401, 403)


def test_the_routes_of_jobs_are_all_there() -> None:
    assert len(OWNED_ROUTES) >= 15
    assert set(OWNED_ROUTES) <= OFFERED


def test_everybody_sees_everything(victor: User, bob: User, job: Job) -> None:
    for user in (victor, bob):
        assert as_user(user).get(f"/jobs/{job.id}").status_code == 200
        assert as_user(user).get(f"/v1/jobs/{job.id}/config").json()["owner"] == "alice"


def test_without_the_setting_a_role_is_enough(bob: User, job: Job, settings: Settings) -> None:
    settings.TIDEMARK_OWNERS_ONLY = False
    assert as_user(bob).patch(f"/jobs/{job.id}").status_code == 202


def test_the_job_of_a_deleted_user_is_for_administrators(alice: User, bob: User, root: User, job: Job) -> None:
    alice.delete()
    refused = as_user(bob).patch(f"/jobs/{job.id}")
    assert refused.status_code == 403 and "belongs to nobody" in refused.content.decode()
    assert as_user(root).patch(f"/jobs/{job.id}").status_code == 202


def test_a_token_of_less_scope_makes_no_administrator(root: User) -> None:
    limit_role(root, "developer")
    with pytest.raises(NotTheOwner, match="belongs to nobody"):
        check_owner(root, Owned("Job x", None))


def test_programs_are_deleted_by_their_owner(alice: User, bob: User) -> None:
    now = services.now_ms()
    made = Artifact.objects.create(id="a" * 64, file_name="job.py", size=1, uploaded_at=now, uploaded_by=alice)
    path = f"/jars/{made.public_id}"
    assert as_user(bob).delete(path).status_code == 403
    assert as_user(bob).get("/jars").json()["files"][0]["owner"] == "alice"
    assert Artifact.objects.exists()


def test_snapshots_belong_to_who_asked_for_them_or_to_their_jobs_owner(
    alice: User, bob: User, job: Job, tmp_path: Path
) -> None:
    savepoint, checkpoint = (f"file://{tmp_path}/savepoints/{name}" for name in ("sp", "chk-3"))
    asked = services.request_operation(job, Operation.Kind.SAVEPOINT, {"format": "NATIVE"}, bob)
    Operation.objects.filter(pk=asked.pk).update(state="COMPLETED", result={"location": savepoint, "checkpoint_id": 2})
    Checkpoint.objects.create(
        job=job,
        checkpoint_id=3,
        location=checkpoint,
        is_owned=True,
        is_savepoint=False,
        leader_epoch=1,
        attempt=0,
        triggered_at=1,
        completed_at=2,
        size=1,
    )
    assert owned_snapshot(f"{savepoint}/_metadata").owner == bob
    assert owned_snapshot(checkpoint).owner == alice
    assert owned_snapshot(f"file://{tmp_path}/other").owner is None
    refused = as_user(alice).post("/savepoint-disposal", {"savepoint-path": savepoint}, "json")
    assert refused.status_code == 403 and "belongs to bob" in refused.content.decode()
    assert as_user(bob).post("/savepoint-disposal", {"savepoint-path": savepoint}, "json").status_code == 200


@pytest.fixture
def savepoint_of_bob(bob: User, job: Job, tmp_path: Path) -> str:
    """Location of a savepoint that bob has asked for; alice's job has taken it, and has ended."""
    location = completed(tmp_path / "savepoints", "c" * 32, 1).location
    asked = services.request_operation(job, Operation.Kind.SAVEPOINT, {"format": "NATIVE"}, bob)
    Operation.objects.filter(pk=asked.pk).update(state="COMPLETED", result={"location": location, "checkpoint_id": 1})
    Job.objects.update(state="FINISHED")
    return location


@pytest.mark.parametrize("claim_mode", ["CLAIM", "NO_CLAIM"])
def test_nobody_starts_a_job_from_the_savepoint_of_another(
    alice: User, bob: User, savepoint_of_bob: str, claim_mode: str
) -> None:
    program = upload(as_user(alice), "job.py", "the program is not even looked at")
    body = {"savepointPath": f"{savepoint_of_bob}/_metadata", "claimMode": claim_mode}
    refused = as_user(alice).post(f"/jars/{jar_id(program)}/run", body, "json")
    assert refused.status_code == 403 and "belongs to bob" in refused.content.decode()
    assert AuditEvent.objects.latest("pk").result == "denied"
    # an option of the submission, or of the program itself, leads to the same place
    given = {
        options.RECOVERY_PATH.key: savepoint_of_bob.replace("/savepoints/", "/savepoints/../savepoints/"),
        options.RECOVERY_CLAIM_MODE.key: claim_mode,
    }
    graph = graph_json(1, **given)
    with pytest.raises(NotTheOwner, match="belongs to bob"):
        services.submit_job(graph, None, [], given, alice, check=partial(check_restore, alice))
    assert Job.objects.count() == 1
    services.submit_job(graph, None, [], given, bob, check=partial(check_restore, bob))


def test_snapshots_of_nobody_are_claimed_by_administrators_and_read_by_all(
    bob: User, root: User, settings: Settings
) -> None:
    unknown = CheckedLocations("file:///elsewhere/sp", claims=False)
    check_restore(bob, unknown)
    claimed = CheckedLocations("file:///elsewhere/sp", claims=True)
    with pytest.raises(NotTheOwner, match="belongs to nobody"):
        check_restore(bob, claimed)
    check_restore(root, claimed)
    settings.TIDEMARK_OWNERS_ONLY = False
    check_restore(bob, claimed)


def test_a_pipeline_is_not_deployed_from_the_savepoint_of_another(alice: User, savepoint_of_bob: str) -> None:
    with pytest.raises(NotTheOwner, match="belongs to bob"):
        check_restore(alice, named_snapshot({options.RECOVERY_PATH.key: savepoint_of_bob}))
    check_restore(alice, named_snapshot({}))


def test_pipelines_are_changed_by_their_owner(alice: User, bob: User, root: User) -> None:
    pipeline = Pipeline.objects.create(name="flights", owner=alice, tags=[], head=1, created_at=1, updated_at=1)
    path = f"/api/v1/pipelines/{pipeline.id}"
    for method, route in (
        ("DELETE", ""),
        ("PATCH", ""),
        ("PUT", "/draft"),
        ("POST", "/versions"),
        ("POST", "/restore"),
        ("POST", "/deployments"),
    ):
        answer = as_user(bob).generic(method, path + route, "{}", content_type="application/json")
        assert answer.status_code == 403 and "belongs to alice" in answer.content.decode(), route
    assert as_user(root).delete(path).status_code not in (401, 403)


def submit(user: User, **given: Any) -> Job:
    return services.submit_job(graph_json(1), None, [], {}, user, **given)


def test_a_user_has_so_many_jobs_and_no_more(alice: User, bob: User, settings: Settings) -> None:
    settings.TIDEMARK_JOBS_PER_USER = 2
    first, _ = submit(alice), submit(alice)
    with pytest.raises(services.TooManyJobsError, match="TIDEMARK_JOBS_PER_USER"):
        submit(alice)
    submit(bob)
    assert submit(alice, is_limited=False)
    Job.objects.filter(submitted_by=alice).exclude(id=first.id).update(state="CANCELED")
    submit(alice)


def test_the_limit_is_off_with_zero_and_counts_no_request_twice(alice: User, settings: Settings) -> None:
    settings.TIDEMARK_JOBS_PER_USER = 1
    submit(alice, job_id="c" * 32)
    with pytest.raises(services.JobExistsError):
        submit(alice, job_id="c" * 32)
    settings.TIDEMARK_JOBS_PER_USER = 0
    submit(alice)


@needs_processes
@pytest.mark.django_db(transaction=True)
def test_of_requests_at_once_so_many_become_jobs(alice: User, settings: Settings) -> None:
    settings.TIDEMARK_JOBS_PER_USER = 2
    graph, together = graph_json(1), threading.Barrier(6, timeout=60)

    def ask(_: int) -> bool:
        try:
            together.wait()
            services.submit_job(graph, None, [], {}, alice)
        except services.TooManyJobsError:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(ask, range(6))) == [False] * 4 + [True] * 2
    assert Job.objects.count() == 2
