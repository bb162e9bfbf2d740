"""The admin as a whole: whom it lets in, what its pages load, and that nothing which the leader owns is editable."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError
from django.test import Client
from rest_framework.test import APIClient

import backend.administration.urls  # noqa: F401 (registers the tables)
from backend.accounts import directory
from backend.accounts import services as accounts
from backend.accounts.models import ApiToken
from backend.accounts.roles import Role, own_role_of, role_of, set_role
from backend.administration import confirmations
from backend.administration.site import site
from backend.audit import trail
from backend.audit.models import AuditEvent
from backend.cluster.models import Checkpoint, Job, Operation, TaskManager
from backend.live.pages import CONTENT_SECURITY_POLICY
from tests.accounts.cast import PASSWORD
from tests.administration.asking import confirm, hidden, text_of
from tests.dispatcher import rows

LISTS = sorted(f"/admin/{model._meta.app_label}/{model._meta.model_name}/" for model in site._registry)


def filled(job: Job) -> dict[str, str]:
    """A row of every table, by the path of its list."""
    rows.failure_of(job, 1, "login with password=hunter2 failed")
    operation = Operation.objects.create(
        job=job, kind="savepoint", state="COMPLETED", created_at=1, finished_at=2, result={"location": "file:///sp"}
    )
    checkpoint = Checkpoint.objects.create(
        job=job, checkpoint_id=1, location="file:///cp", is_owned=True, is_savepoint=False,
        leader_epoch=1, attempt=0, triggered_at=1, completed_at=2, size=3 << 20,
    )  # fmt: skip
    trail.record("test", user="mallory")
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None
    user = User.objects.get(username="root")
    accounts.create_token(user, "laptop")
    return {
        "/admin/cluster/job/": job.id,
        "/admin/administration/savepoint/": operation.trigger_id,
        "/admin/cluster/operation/": operation.trigger_id,
        "/admin/cluster/checkpoint/": str(checkpoint.pk),
        "/admin/cluster/taskmanager/": "localhost_3A4711-0a1b2c",
        "/admin/audit/auditevent/": str(event.pk),
        "/admin/auth/user/": str(user.pk),
        "/admin/accounts/apitoken/": str(ApiToken.objects.get(name="laptop").pk),
    }


def test_who_is_not_logged_in_is_led_to_the_page(client: Client) -> None:
    for path in ("/admin", "/admin/", "/admin/cluster/job/?state=RUNNING"):
        answer = client.get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/ui/login?next=/admin")
    assert client.get("/admin/cluster/job/?q=x")["Location"] == "/ui/login?next=/admin/cluster/job/%3Fq%3Dx"


def test_there_is_no_second_form_for_passwords(browser: Client, client: Client) -> None:
    assert client.get("/admin/login/").status_code == 302
    assert client.post("/admin/login/", {"username": "root", "password": PASSWORD}).status_code == 401
    assert "password" not in text_of(browser.get("/admin/")).lower()
    assert browser.get("/admin/password_change/").status_code == 404


def test_a_session_that_began_with_a_narrow_token_stays_outside(root: User) -> None:
    client = Client()
    for scope, status in (("developer", 403), ("admin", 200)):
        token = accounts.create_token(root, scope, scope=scope)
        client.post("/api/v1/session", {"token": token}, content_type="application/json")
        assert client.get("/admin/").status_code == status
    ApiToken.objects.all().delete()
    assert client.get("/admin/").status_code == 302


def test_who_is_administrator_no_more_is_out_at_once(browser: Client, root: User) -> None:
    assert browser.get("/admin/").status_code == 200
    set_role(root, Role.DEVELOPER)
    assert browser.get("/admin/").status_code == 403
    User.objects.filter(pk=root.pk).update(is_active=False)
    assert browser.get("/admin/").status_code == 302


def test_logging_out_ends_the_pages_session(browser: Client) -> None:
    assert browser.get("/admin/logout/").status_code == 405
    answer = browser.post("/admin/logout/")
    assert (answer.status_code, answer["Location"]) == (302, "/ui/login")
    assert browser.get("/api/v1/session").status_code in (401, 403)


def test_every_table_and_every_row_can_be_looked_at(browser: Client, job: Job, taskmanager: TaskManager) -> None:
    keys = filled(job)
    assert sorted(keys) == LISTS
    for path, key in keys.items():
        for page in (path, f"{path}{key}/change/", f"{path}?q=flights", f"{path}?o=1"):
            answer = browser.get(page)
            assert answer.status_code == 200, page
            assert answer["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert answer["X-Frame-Options"] == "DENY" and "no-store" in answer["Cache-Control"]
            assert b"hunter2" not in answer.content, page


def test_pages_load_files_of_this_server_only_and_no_script_is_inline(
    browser: Client, job: Job, taskmanager: TaskManager, client: Client
) -> None:
    keys = filled(job)
    pages = [
        "/admin/",
        "/admin/auth/user/add/",
        "/admin/accounts/apitoken/add/",
        f"/admin/cluster/job/ask/stop/?id={job.id}",
    ]
    pages += [*keys, *(f"{path}{key}/change/" for path, key in keys.items())]
    files = set()
    for page in pages:
        body = browser.get(page).content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*application/json)", body), page
        assert not re.search(r"\son\w+=\"", body), page
        files |= set(re.findall(r'(?:src|<link[^>]* href)="([^"]+)"', body))
    assert len(files) > 10
    assert all(file.startswith(("/static/", "/admin/jsi18n/")) for file in files), files
    for file in files:
        if file.startswith("/static/"):
            answer = client.get(file)
            assert answer.status_code == 200 and answer["X-Content-Type-Options"] == "nosniff", file


@pytest.mark.parametrize(
    "name", ["../settings.py", "admin/../../settings.py", "%2e%2e/settings.py", "admin/", "nothing.css", ""]
)
def test_no_other_file_is_served(client: Client, name: str) -> None:
    assert client.get(f"/static/{name}").status_code in (401, 404)


@pytest.mark.parametrize(
    "path", [path for path in LISTS if path not in ("/admin/auth/user/", "/admin/accounts/apitoken/")]
)
def test_what_the_leader_owns_cannot_be_edited(browser: Client, job: Job, taskmanager: TaskManager, path: str) -> None:
    key = filled(job)[path]
    page = browser.get(f"{path}{key}/change/")
    assert page.status_code == 200
    main = page.content.decode().partition('id="content-main"')[2]
    assert main
    assert not re.search(r'<(input|textarea|select)(?![^>]*type="hidden")', main.partition("</form>")[0])
    assert browser.post(f"{path}{key}/change/", {"name": "x", "state": "FINISHED"}).status_code == 405
    for route in ("add/", f"{key}/delete/", f"{key}/history/"):
        assert browser.post(f"{path}{route}", {"post": "yes"}).status_code == 404, route
    assert browser.put(f"{path}{key}/change/").status_code == 405
    job.refresh_from_db()
    assert (job.name, job.state) == ("flights", "RUNNING")


def test_a_database_that_does_not_answer_is_told(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(confirmations.Confirmation, "__call__", away)
    answer = browser.get("/admin/cluster/job/ask/cancel/?id=1")
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")


# --- users and tokens -------------------------------------------------------------------------------------------------


def test_a_user_is_created_changed_and_deleted(browser: Client) -> None:
    answer = browser.post("/admin/auth/user/add/", {"name": "dora", "role": "operator", "password": PASSWORD})
    assert answer.status_code == 302, text_of(answer)
    dora = User.objects.get(username="dora")
    assert role_of(dora) is Role.OPERATOR and dora.check_password(PASSWORD)
    path = f"/admin/auth/user/{dora.pk}/"
    answer = browser.post(f"{path}change/", {"role": "developer", "is_active": "on", "password": ""})
    assert answer.status_code == 302, text_of(answer)
    dora = User.objects.get(username="dora")
    assert role_of(dora) is Role.DEVELOPER and dora.check_password(PASSWORD)
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None
    assert event.detail == {"name": "dora", "role": ["operator", "developer"]} and event.result == "done"
    assert "Are you sure" in text_of(browser.get(f"{path}delete/"))
    assert browser.post(f"{path}delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(username="dora").exists()
    # a second click
    assert browser.post(f"{path}delete/", {"post": "yes"}).status_code == 404
    assert browser.post(f"{path}change/", {"role": "viewer"}).status_code == 404
    assert PASSWORD not in str(AuditEvent.objects.values())


def test_a_page_of_a_user_changes_only_what_was_changed_on_it(browser: Client) -> None:
    dora = directory.create_user("dora", "developer", PASSWORD)
    path = f"/admin/auth/user/{dora.pk}/change/"
    form = hidden(browser.get(path))
    assert form["initial-role"] == ["developer"]
    directory.change_user("dora", role="viewer", is_active=False)
    shown = {"role": "developer", "is_active": "on", "password": "another " + PASSWORD}
    assert browser.post(path, form | shown).status_code == 302
    dora = User.objects.get(username="dora")
    assert (dora.is_active, own_role_of(dora)) == (False, Role.VIEWER)
    assert dora.check_password("another " + PASSWORD)


def test_nothing_is_deleted_without_a_confirmation(browser: Client) -> None:
    dora = directory.create_user("dora", "viewer", PASSWORD)
    assert browser.post(f"/admin/auth/user/{dora.pk}/delete/").status_code == 400
    assert User.objects.filter(username="dora").exists()


@pytest.mark.parametrize(
    "path",
    [
        "/admin/auth/user/?password__startswith=md5",
        "/admin/accounts/apitoken/?digest__startswith=a",
        "/admin/cluster/job/?configuration__secret__startswith=a",
        "/admin/cluster/operation/?job__configuration__secret__startswith=a",
    ],
)
def test_what_pages_do_not_show_cannot_be_found_out_by_filters(browser: Client, path: str) -> None:
    assert browser.get(path).status_code in (302, 400)


def test_a_logout_is_recorded_with_its_user(browser: Client) -> None:
    browser.post("/admin/logout/")
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None
    assert (event.action, event.user) == ("POST admin/logout/", "root")


def test_a_change_is_answered_and_logged_while_the_database_is_away(
    browser: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("gone")

    # the session is read before the view, and the user again behind it
    monkeypatch.setattr(SessionStore, "load", away)
    monkeypatch.setattr(AuditEvent, "save", away)
    answer = browser.post("/admin/cluster/job/ask/cancel/", {"id": "1"})
    assert (answer.status_code, answer["Retry-After"]) == (503, "2")
    assert "an audit event could not be stored" in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "a b", "role": "viewer"}, "A name has up to 100 letters"),
        ({"name": "root", "role": "viewer"}, "There is a user root already."),
        ({"name": "dora", "role": "viewer", "password": "short"}, "too short"),
        ({"name": "dora", "role": "king"}, "Select a valid choice"),
        ({}, "This field is required"),
    ],
)
def test_a_user_that_cannot_be_is_refused_at_the_form(browser: Client, given: dict[str, str], said: str) -> None:
    answer = browser.post("/admin/auth/user/add/", given)
    assert answer.status_code == 400 and said in text_of(answer)
    assert User.objects.count() == 1
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None and event.result == "failed"


def test_the_last_administrator_stays_one(browser: Client, root: User) -> None:
    path = f"/admin/auth/user/{root.pk}/"
    answer = browser.post(f"{path}change/", {"role": "viewer", "is_active": "on"})
    assert answer.status_code == 400 and "This is the last administrator." in text_of(answer)
    answer = browser.post(f"{path}delete/", {"post": "yes"})
    assert answer.status_code == 409 and "This is the last administrator." in text_of(answer)
    assert role_of(User.objects.get(pk=root.pk)) is Role.ADMIN


def test_a_token_is_shown_once_and_revoked(browser: Client, alice: User) -> None:
    given = {"name": "robot", "user": alice.pk, "scope": "operator", "days": "30"}
    answer = browser.post("/admin/accounts/apitoken/add/", given)
    assert answer.status_code == 201, text_of(answer)
    found = re.search(r"<code>([^<]+)</code>", answer.content.decode())
    assert found is not None
    robot = APIClient()
    robot.credentials(HTTP_AUTHORIZATION=f"Bearer {found[1]}")
    assert robot.get("/api/v1/session").json()["user"] == {"name": "alice", "role": "operator"}
    token = ApiToken.objects.get(name="robot")
    path = f"/admin/accounts/apitoken/{token.pk}/"
    for page in ("/admin/accounts/apitoken/", f"{path}change/"):
        assert found[1] not in browser.get(page).content.decode()
    assert browser.post("/admin/accounts/apitoken/add/", given).status_code == 400
    assert browser.post("/admin/accounts/apitoken/add/", {**given, "name": "x", "scope": "admin"}).status_code == 400
    assert browser.post(f"{path}change/", {"scope": "developer"}).status_code == 405
    assert browser.post(f"{path}delete/", {"post": "yes"}).status_code == 302
    assert robot.get("/api/v1/session").status_code == 401
    assert found[1] not in str(AuditEvent.objects.values())


def test_hidden_fields_are_read_as_a_browser_does(browser: Client, job: Job) -> None:
    """The helpers of these tests: a form without its fields would make them pass for nothing."""
    path = f"/admin/cluster/job/ask/cancel/?id={job.id}"
    assert hidden(browser.get(path)).keys() == {"csrfmiddlewaretoken", "request", "id"}
    assert confirm(browser, path).status_code == 302
