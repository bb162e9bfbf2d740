"""Owners: with TIDEMARK_OWNERS_ONLY others are refused, whatever they act on and by which route; and how many jobs a
user may have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.ownership import NotTheOwner, Owned, check_owner, owned_snapshot
from backend.accounts.roles import Role, limit_role, set_role
from backend.accounts.services import create_token
from backend.audit.models import AuditEvent
from backend.cluster import bus, services
from backend.cluster.models import Artifact, Checkpoint, Job, Operation
from backend.pipelines.models import Pipeline
from tests.accounts.test_matrix import NEEDED, OFFERED
from tests.cluster.graphs import graph_json
from tests.dispatcher import rows

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
