"""What a user may submit in a minute: over every route, all web processes, and without Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.accounts.services import create_token
from backend.accounts.shared_counts import PERIOD_S
from backend.accounts.submission_rate import TooManySubmissions, excess, note_submission
from backend.administration.acts import Asking, RefusedAct, RestoreJob
from backend.audit.models import AuditEvent
from backend.cluster import bus
from backend.cluster.models import Job, new_id
from tests.accounts.cast import client_of
from tests.accounts.test_closed_routes import _path
from tests.accounts.test_matrix import OFFERED, needed
from tests.accounts.test_submission import DRAFTS, PROGRAMS
from tests.administration.test_acts import taken
from tests.cluster.redis_fixture import running_redis
from tests.cluster.snapshots import completed
from tests.dispatcher.test_jars import PROGRAM, jar_id, upload

pytestmark = pytest.mark.django_db


@pytest.fixture
def shared_redis(settings: Settings, tmp_path: Path) -> Iterator[None]:
    with running_redis(tmp_path) as url:
        settings.REDIS_URL = url
        bus.disconnect()
        yield
        bus.disconnect()


@pytest.fixture
def no_redis(settings: Settings) -> Iterator[None]:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    yield
    bus.disconnect()


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path


def note(user: User, times: int) -> None:
    for _ in range(times):
        note_submission(user)


def test_web_processes_count_together_and_each_user_alone(
    shared_redis: None, settings: Settings, alice: User, oscar: User
) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 5
    note(alice, 4)
    assert excess(alice) is None
    # another web process has counted nothing for itself
    cache.clear()
    note_submission(alice)
    refused = excess(alice)
    assert refused is not None and 0 < refused.wait <= PERIOD_S
    with pytest.raises(TooManySubmissions, match=r"more than 5 programs.*TIDEMARK_SUBMISSIONS_PER_MINUTE"):
        note_submission(alice)
    note(oscar, 5)
    [key] = bus.client().keys(f"*:submissions:user:{alice.pk}")
    # the minute begins with the first one, and no refusal prolongs it
    bus.client().expire(key, 7)
    with pytest.raises(TooManySubmissions) as told:
        note_submission(alice)
    assert told.value.wait in (6, 7)
    bus.client().delete(key)
    note(alice, 5)


def test_a_count_that_lost_its_end_does_not_lock_out_for_ever(
    shared_redis: None, settings: Settings, alice: User
) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 5
    note_submission(alice)
    [key] = bus.client().keys("*:submissions:*")
    bus.client().persist(key)
    note_submission(alice)
    assert 0 < bus.client().ttl(key) <= PERIOD_S
    # Redis's clock was set back by an hour
    bus.client().expire(key, PERIOD_S + 3600)
    note_submission(alice)
    assert 0 < bus.client().ttl(key) <= PERIOD_S


def test_each_process_counts_for_itself_while_redis_does_not_answer(
    no_redis: None, settings: Settings, alice: User, oscar: User
) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 3
    note(alice, 3)
    with pytest.raises(TooManySubmissions):
        note_submission(alice)
    note(oscar, 3)


def test_what_was_counted_without_redis_counts_on_when_it_is_back(
    no_redis: None, settings: Settings, alice: User, tmp_path: Path
) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 3
    note(alice, 2)
    with running_redis(tmp_path) as url:
        settings.REDIS_URL = url
        bus.disconnect()
        note_submission(alice)
        with pytest.raises(TooManySubmissions):
            note_submission(alice)
        bus.disconnect()


def test_all_that_runs_programs_is_limited_and_nothing_else(no_redis: None, settings: Settings, home: Path) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 1
    user = User.objects.create_user("root")
    set_role(user, Role.ADMIN)
    client = client_of(user)
    note_submission(user)
    limited = set()
    for method, route in sorted(OFFERED):
        if method == "GET" and needed(method, route) is Role.VIEWER:
            continue
        before = AuditEvent.objects.count()
        answer = client.generic(method, _path(route), "{}", content_type="application/json")
        if answer.status_code != 429:
            continue
        assert 0 < int(answer["Retry-After"]) <= PERIOD_S
        event = AuditEvent.objects.latest("pk")
        assert AuditEvent.objects.count() == before + 1, (method, route)
        assert (event.user, event.action, event.result) == ("root", f"{method} {route}", "denied")
        assert "TIDEMARK_SUBMISSIONS_PER_MINUTE" in event.detail["refused"]
        limited.add((method, route.removeprefix("v1/")))
    assert limited == PROGRAMS | DRAFTS


def test_a_further_token_gives_no_more(no_redis: None, settings: Settings, api: APIClient, alice: User) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 1
    assert upload(api, "flights.py", PROGRAM).status_code == 200
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {create_token(alice, 'another')}")
    answer = api.post("/api/v1/pipelines/preview", {}, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (429, "too_many_submissions")
    assert api.get("/v1/jars").status_code == 200


def test_nothing_is_limited_where_the_limit_is_none(no_redis: None, settings: Settings, alice: User) -> None:
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 0
    note(alice, 300)
    assert excess(alice) is None


def test_what_the_admin_restores_counts(
    no_redis: None, settings: Settings, api: APIClient, alice: User, home: Path
) -> None:
    jar = jar_id(upload(api, "flights.py", PROGRAM))
    job_id = api.post(f"/v1/jars/{jar}/run", {}, format="json").json()["jobid"]
    location = completed(home / "savepoints", job_id, 1).location
    job = Job.objects.get(id=job_id)
    taken(job, location)
    Job.objects.filter(id=job_id).update(state="FAILED")
    job.refresh_from_db()
    given = {"snapshot": location, "claim_mode": "NO_CLAIM", "allow_non_restored_state": False}
    settings.TIDEMARK_SUBMISSIONS_PER_MINUTE = 1
    note_submission(alice)
    with pytest.raises(RefusedAct, match="try again in"):
        RestoreJob().do(job, Asking(alice, new_id(), given, lambda: False))
    assert Job.objects.count() == 1
