"""The audit trail: what is written, and that nothing of it goes away. The generated matrix has every route."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction
from rest_framework.test import APIClient

from backend.accounts import anonymous_events, services
from backend.accounts.roles import Role, set_role
from backend.audit import trail
from backend.audit.models import AuditEvent
from tests.accounts.cast import PASSWORD, client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db: None) -> APIClient:
    user = User.objects.create_user("root", password=PASSWORD)
    set_role(user, Role.ADMIN)
    return client_of(user)


def latest() -> AuditEvent:
    found = AuditEvent.objects.order_by("-pk").first()
    assert found is not None
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_event SET \"user\" = 'nobody'",
        "DELETE FROM audit_event",
        "DELETE FROM audit_event WHERE id > 0",
    ],
)
def test_the_database_changes_and_deletes_no_event(statement: str) -> None:
    trail.record("test", user="mallory")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert latest().user == "mallory"


REPLACING = """INSERT OR REPLACE INTO audit_event (id, at, "user", token, address, action, object, result, detail)
    SELECT id, at, 'nobody', token, address, action, object, result, detail FROM audit_event"""
UPSERT = """INSERT INTO audit_event (id, at, "user", token, address, action, object, result, detail)
    SELECT id, at, "user", token, address, action, object, result, detail FROM audit_event WHERE true
    ON CONFLICT (id) DO UPDATE SET "user" = 'nobody'"""


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(REPLACING, marks=pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's words")),
        UPSERT,
    ],
)
def test_nor_does_an_insert_replace_one(statement: str) -> None:
    trail.record("test", user="mallory")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert latest().user == "mallory"
    trail.record("test", user="trent")
    assert latest().user == "trent"


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no TRUNCATE; see test_postgresql.py")
@pytest.mark.parametrize("statement", ["TRUNCATE audit_event", "TRUNCATE audit_event RESTART IDENTITY CASCADE"])
def test_nor_does_it_empty_the_table(statement: str) -> None:
    trail.record("test", user="mallory")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    assert latest().user == "mallory"


def test_nor_does_a_model(admin: APIClient) -> None:
    trail.record("test", user="mallory")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        AuditEvent.objects.update(user="")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        latest().delete()


def test_a_login_is_written_with_name_address_and_way_and_without_the_password(
    anonymous: APIClient, alice: User
) -> None:
    anonymous.post("/api/v1/session", {"username": "alice", "password": "wrong one"}, format="json")
    refused = latest()
    assert (refused.user, refused.result, refused.status) == ("", "denied", 401)
    assert refused.detail == {"username": "alice", "by": "password"}
    anonymous.post("/api/v1/session", {"username": "alice", "password": PASSWORD}, format="json")
    done = latest()
    assert (done.user, done.action, done.result) == ("alice", "POST api/v1/session", "done")
    assert done.address == "127.0.0.1"
    assert PASSWORD not in str(AuditEvent.objects.values()) and "wrong one" not in str(AuditEvent.objects.values())


def test_a_flood_of_requests_without_a_login_leaves_a_few_events(
    anonymous: APIClient, admin: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    monkeypatch.setattr(anonymous_events, "MAX_OF_ADDRESS", 3)
    monkeypatch.setattr(anonymous_events, "MAX_OF_ALL", 5)
    # tests with transactions of their own leave theirs, as nothing deletes any
    before = AuditEvent.objects.count()

    def written() -> int:
        return AuditEvent.objects.count() - before

    for _ in range(10):
        assert anonymous.post("/v1/jars/upload").status_code == 401
    assert written() == 3 and "without a login" in latest().detail["left_out"]
    for number in range(10):
        anonymous.post("/v1/jars/upload", REMOTE_ADDR=f"10.0.0.{number}")
    assert written() == 5 and "left_out" in latest().detail
    # neither those of users nor failed logins are hidden by them
    assert admin.post("/v1/jars/upload").status_code == 400
    anonymous.post("/api/v1/session", {"username": "alice", "password": "wrong one"}, format="json")
    assert written() == 7
    assert latest().detail == {"username": "alice", "by": "password"}


def test_a_name_that_is_nobodys_is_not_written(
    anonymous: APIClient, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    """People type their passwords there."""
    names = []
    for typed in (PASSWORD, PASSWORD, "Alice", "x" * 1000):
        anonymous.post("/api/v1/session", {"username": typed, "password": "wrong one"}, format="json")
        assert typed not in str(latest().detail) and typed not in caplog.text
        names.append(latest().detail["username"])
    assert names[0] == names[1] != names[2]
    assert all(name.startswith("unknown:") and len(name) == 16 for name in names)


@pytest.mark.parametrize(
    "path",
    [
        "/login/{}/",
        "/login/{}/more",
        "/login/of/{}/",
        "//login/{}",
        "/LOGIN/{}",
        "/api/v1/login/{}",
        "/ui/login/{}",
        "/x/{}",
    ],
)
def test_a_login_link_that_is_misspelt_is_written_without_its_secret(alice: User, path: str) -> None:
    secret = services.create_login_link(alice).rpartition("/")[2]
    APIClient().post(path.format(secret))
    assert latest().action.startswith("POST") and secret not in f"{latest().action} {latest().object}"


def test_a_login_link_is_written_without_its_secret(alice: User) -> None:
    path = services.create_login_link(alice)
    APIClient().get(path)
    assert (latest().user, latest().object) == ("alice", "secret=******")


def test_the_token_that_was_used_is_named(api: APIClient) -> None:
    api.patch(f"/v1/jobs/{'0' * 32}")
    event = latest()
    assert (event.user, event.token, event.action) == ("alice", "test", "PATCH v1/jobs/<str:job_id>")
    assert (event.object, event.result, event.status) == (f"job_id={'0' * 32}", "failed", 404)


def test_an_event_takes_whatever_a_client_sends(anonymous: APIClient) -> None:
    anonymous.generic("POST", "/v1/jobs/" + "%00%ff" * 200, "")
    assert latest().result == "denied"
    detail: Any = {"long": "x" * 100_000, "short": 1}
    trail.record("test", user="u" * 1000, object="\0\ud800" * 500, detail=detail)
    assert len(latest().user) == 150 and latest().detail == {"long": "…", "short": 1}


def test_no_key_keeps_an_event_out_of_a_database() -> None:
    """PostgreSQL takes neither NUL nor a lone surrogate in JSON: whoever looks for such a key would leave no event."""
    trail.record("test", detail={"key": {"a\0": ["\ud800", "ä😀", 1, None]}, "pair": "\ud83d\ude00"})
    assert latest().detail == {"key": {"a\ufffd": ["\ufffd", "ä😀", 1, None]}, "pair": "😀"}


def test_what_looks_like_a_secret_is_hidden_whoever_notes_it() -> None:
    detail: dict[str, Any] = {
        "arguments": ["--db-password", "canary-1", "--rows", "7", "postgres://u:canary-2@db/x"],
        "options": {"s3.secret-key": "canary-3", "pipeline.global-job-parameters": "token:canary-4,day:1", "rows": "7"},
        "before": {"options": {"url": "redis://:canary-5@host/0", "password": "canary-6"}, "port": 5432},
        "refused": "cannot log in with password=canary-7",
        "name": "my-token",
    }
    trail.record("test", detail=detail)
    shown = latest().detail
    assert "canary" not in str(shown)
    assert shown["arguments"][2:4] == ["--rows", "7"] and shown["name"] == "my-token"
    assert shown["options"]["rows"] == "7" and "day:1" in str(shown["options"])
    assert shown["before"]["port"] == 5432


def test_administrators_read_the_trail_page_by_page(admin: APIClient) -> None:
    for number in range(5):
        trail.record("paged", object=str(number), user="mallory" if number % 2 else "")
    first = admin.get("/api/v1/audit", {"limit": "2", "action": "paged"}).json()
    assert [event["object"] for event in first["events"]] == ["4", "3"]
    second = admin.get("/api/v1/audit", {"limit": "2", "action": "paged", "before": str(first["next"])}).json()
    assert [event["object"] for event in second["events"]] == ["2", "1"]
    by_user = admin.get("/api/v1/audit", {"user": "mallory", "action": "paged"}).json()
    assert [event["object"] for event in by_user["events"]] == ["3", "1"] and by_user["next"] is None
    assert admin.get("/api/v1/audit", {"before": "x"}).status_code == 400


def test_nobody_else_reads_it(api: APIClient) -> None:
    assert api.get("/api/v1/audit").status_code == 403
