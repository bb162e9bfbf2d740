"""/api/v1/session, as the page uses it."""

from __future__ import annotations

import base64

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.accounts import failed_logins, services
from backend.accounts.models import ApiToken
from tests.accounts.cast import PASSWORD, fail

SESSION = "/api/v1/session"


@pytest.fixture
def browser(db: None) -> APIClient:
    """Keeps cookies and is checked for CSRF, as a browser is."""
    return APIClient(enforce_csrf_checks=True)


def test_a_name_and_its_password_log_in(browser: APIClient, alice: User) -> None:
    answer = browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json")
    assert answer.status_code == 200
    assert answer.json() == {"user": {"name": "alice", "role": "developer"}, "submission": ""}
    cookie = browser.cookies["tidemark-session"]
    assert cookie["httponly"] and cookie["samesite"] == "Lax"
    assert browser.get(SESSION).json() == answer.json()


def test_a_token_logs_in(browser: APIClient, alice: User) -> None:
    token = services.create_token(alice, "laptop")
    assert browser.post(SESSION, {"token": token}, format="json").status_code == 200
    assert browser.get(SESSION).json()["user"]["name"] == "alice"


@pytest.mark.parametrize(
    "body",
    [
        {"username": "alice", "password": "wrong"},
        {"username": "nobody", "password": "wrong"},
        {"token": "wrong"},
    ],
)
def test_wrong_credentials_are_refused_without_saying_which_part(
    browser: APIClient, alice: User, body: dict[str, str]
) -> None:
    answer = browser.post(SESSION, body, format="json")
    assert answer.status_code == 401
    [error] = answer.json()["errors"]
    assert error["code"] == "authentication_failed"
    assert error["message"] == ("The token is wrong." if "token" in body else "Wrong name or password.")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"username": "alice"},
        {"username": ["alice"], "password": "x"},
        {"username": "a" * 1025, "password": "x"},
        {"token": "\0"},
        {"token": "x" * 1025},
        [1],
        "x",
    ],
)
def test_a_body_that_is_no_login_is_a_bad_request(browser: APIClient, body: object) -> None:
    answer = browser.post(SESSION, body, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0].keys() == {"code", "field", "message"}


def test_broken_json_is_a_bad_request(browser: APIClient) -> None:
    answer = browser.post(SESSION, b'{"token": ', content_type="application/json")
    assert answer.status_code == 400


def test_a_form_cannot_log_in(browser: APIClient, alice: User) -> None:
    """Another site can make a browser send a form, and so log its victim in as somebody else."""
    answer = browser.post(SESSION, f"username=alice&password={PASSWORD}", content_type="text/plain")
    assert answer.status_code == 415


def test_guessing_is_slowed_down_without_locking_the_owner_out(browser: APIClient, alice: User) -> None:
    right = {"username": "alice", "password": PASSWORD}
    wrong = right | {"password": "x"}
    statuses = [browser.post(SESSION, wrong, format="json").status_code for _ in range(failed_logins.FREE_FAILURES)]
    assert set(statuses) == {401}
    fail("alice", "127.0.0.1", 6)
    answer = browser.post(SESSION, right, format="json")
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    elsewhere = browser.post(SESSION, right, format="json", REMOTE_ADDR="192.0.2.7")
    assert elsewhere.status_code == 200


def test_logging_in_often_is_no_guessing(browser: APIClient, alice: User) -> None:
    token = services.create_token(alice, "laptop")
    for _ in range(failed_logins.MAX_FAILURES_OF_ADDRESS + 2):
        assert browser.post(SESSION, {"token": token}, format="json").status_code == 200


def test_writing_with_the_cookie_takes_the_csrf_token(browser: APIClient, alice: User) -> None:
    browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json")
    assert browser.delete(SESSION).status_code == 403
    answer = browser.delete(SESSION, HTTP_X_CSRFTOKEN=browser.cookies["csrftoken"].value)
    assert answer.status_code == 200
    assert browser.get(SESSION).status_code == 401


def test_the_session_gets_a_new_id_at_login(browser: APIClient, alice: User) -> None:
    browser.cookies["tidemark-session"] = "0" * 32
    browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json")
    assert browser.cookies["tidemark-session"].value != "0" * 32


def test_a_login_ends_the_session_before_it_whoever_knows_that(browser: APIClient, alice: User) -> None:
    token = services.create_token(alice, "of a script", scope="viewer")
    browser.post(SESSION, {"token": token}, format="json")
    known = browser.cookies["tidemark-session"].value
    csrf = browser.cookies["csrftoken"].value
    answer = browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json", HTTP_X_CSRFTOKEN=csrf)
    assert answer.json()["user"]["role"] == "developer"
    assert browser.cookies["tidemark-session"].value != known
    copy = APIClient()
    copy.cookies["tidemark-session"] = known
    assert copy.get(SESSION).status_code == 401


def test_a_login_link_logs_in_once_and_leads_to_the_page(browser: APIClient, alice: User) -> None:
    path = services.create_login_link(alice)
    answer = browser.get(path)
    assert (answer.status_code, answer["Location"]) == (302, "/ui/")
    assert answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"]
    assert browser.get(SESSION).status_code == 200

    other = APIClient()
    again = other.get(path)
    assert again["Location"] == "/ui/login?link=expired"
    assert other.get(SESSION).status_code == 401


def test_looking_at_a_login_link_does_not_use_it_up(browser: APIClient, alice: User) -> None:
    path = services.create_login_link(alice)
    assert browser.head(path).status_code == 405
    assert browser.get(path)["Location"] == "/ui/"


def test_a_wrong_token_is_refused_even_beside_a_good_cookie(browser: APIClient, alice: User) -> None:
    browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json")
    answer = browser.get(SESSION, HTTP_AUTHORIZATION="Bearer wrong")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")


def _basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"token:{token}".encode()).decode()


def test_a_token_may_be_the_password_of_an_address(anonymous: APIClient, alice: User) -> None:
    token = services.create_token(alice, "laptop")
    assert anonymous.get(SESSION, HTTP_AUTHORIZATION=_basic(token)).status_code == 200
    assert anonymous.get(SESSION, HTTP_AUTHORIZATION=_basic("wrong")).status_code == 401
    assert anonymous.get(SESSION, HTTP_AUTHORIZATION="Basic ???").status_code == 401


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Site"])
def test_a_browser_may_not_send_a_password_from_an_address(anonymous: APIClient, alice: User, header: str) -> None:
    token = services.create_token(alice, "laptop")
    answer = anonymous.get(SESSION, HTTP_AUTHORIZATION=_basic(token), headers={header: "cross-site"})
    assert answer.status_code == 401


def test_a_session_that_nobody_uses_ends(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = APIClient()
    assert (
        browser.post("/api/v1/session", {"username": "alice", "password": PASSWORD}, format="json").status_code == 200
    )
    began = services.now_ms()
    # used once an hour, it lasts
    for hour in range(30):
        monkeypatch.setattr(services, "now_ms", lambda at=began + hour * 3_600_000: at)
        assert browser.get("/api/v1/session").status_code == 200
    monkeypatch.setattr(services, "now_ms", lambda: began + 29 * 3_600_000 + services.IDLE_MS + 1)
    assert browser.get("/api/v1/session").status_code in (401, 403)


def test_who_comes_back_after_that_logs_in_again(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = APIClient()
    credentials = {"username": "alice", "password": PASSWORD}
    assert browser.post(SESSION, credentials, format="json").status_code == 200
    later = services.now_ms() + services.IDLE_MS + 1
    monkeypatch.setattr(services, "now_ms", lambda: later)
    assert browser.get(SESSION).status_code == 401
    # with the cookie of the session that has ended
    assert browser.post(SESSION, credentials, format="json").status_code == 200
    assert browser.get(SESSION).status_code == 200


def test_a_session_ends_after_a_week_however_much_it_is_used(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = APIClient()
    assert browser.post(SESSION, {"username": "alice", "password": PASSWORD}, format="json").status_code == 200
    began = services.now_ms()
    for hours in range(0, 7 * 24, 6):
        monkeypatch.setattr(services, "now_ms", lambda at=began + hours * 3_600_000: at)
        assert browser.get(SESSION).status_code == 200
    monkeypatch.setattr(services, "now_ms", lambda: began + services.SESSION_LIFE_MS + 60_000)
    assert browser.get(SESSION).status_code == 401


def test_a_token_that_is_revoked_while_it_logs_in_begins_no_session_that_lasts(
    browser: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = services.create_token(alice, "of a script", scope="viewer")
    monkeypatch.setattr(failed_logins, "note_success", lambda *_: ApiToken.objects.all().delete())
    browser.post(SESSION, {"token": token}, format="json")
    assert browser.get(SESSION).status_code == 401
