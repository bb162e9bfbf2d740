"""Users and tokens over REST: what administrators do, what everybody may, and what takes effect at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from backend.accounts import services
from backend.accounts.models import ApiToken
from backend.accounts.roles import Role, role_of, set_role
from backend.audit.models import AuditEvent
from tests.accounts.cast import PASSWORD, client_of
from tests.support.between_reads import after_read

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(db: None) -> APIClient:
    user = User.objects.create_user("root", password=PASSWORD)
    set_role(user, Role.ADMIN)
    return client_of(user)


def with_token(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def made(client: APIClient, **given: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/tokens", given, format="json")
    assert answer.status_code == 201, answer.json()
    return dict(answer.json())


def role_with(client: APIClient) -> str:
    return str(client.get("/api/v1/session").json()["user"]["role"])


# --- users ------------------------------------------------------------------------------------------------------------


def test_a_user_is_created_changed_and_deleted(admin: APIClient) -> None:
    answer = admin.post("/api/v1/users", {"name": "dora", "role": "operator", "password": PASSWORD}, format="json")
    assert answer.status_code == 201
    assert answer.json() == {
        "name": "dora",
        "role": "operator",
        "is_active": True,
        "has_password": True,
        "last_login": None,
        "tokens": 0,
    }
    dora = APIClient()
    assert dora.post("/api/v1/session", {"username": "dora", "password": PASSWORD}, format="json").status_code == 200
    assert role_with(dora) == "operator"
    assert admin.patch("/api/v1/users/dora", {"role": "viewer"}, format="json").json()["role"] == "viewer"
    assert role_with(dora) == "viewer"
    event = AuditEvent.objects.order_by("-pk").first()
    assert event is not None and event.detail == {"role": ["operator", "viewer"]}
    admin.patch("/api/v1/users/dora", {"is_active": False}, format="json")
    assert dora.get("/api/v1/session").status_code in (401, 403)
    assert admin.delete("/api/v1/users/dora").status_code == 200
    assert [user["name"] for user in admin.get("/api/v1/users").json()["users"]] == ["root"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": "", "role": "viewer"}, 400),
        ({"name": "a b", "role": "viewer"}, 400),
        ({"name": "../x", "role": "viewer"}, 400),
        ({"name": "x" * 101, "role": "viewer"}, 400),
        ({"name": "dora", "role": "king"}, 400),
        ({"name": "dora"}, 400),
        ({"name": "dora", "role": "viewer", "password": "short"}, 400),
        ({"name": "dora", "role": "viewer", "is_superuser": True}, 400),
        ({"name": ["dora"], "role": "viewer"}, 400),
        ({"name": "root", "role": "viewer"}, 409),
        ({"name": "Root", "role": "viewer"}, 409),
        ({"name": "ROOT", "role": "admin"}, 409),
    ],
)
def test_a_user_that_cannot_be_is_refused(admin: APIClient, given: dict[str, Any], status: int) -> None:
    assert admin.post("/api/v1/users", given, format="json").status_code == status
    assert User.objects.count() == 1


@pytest.mark.parametrize("change", [{"role": "developer"}, {"is_active": False}])
def test_the_last_administrator_stays_one(admin: APIClient, change: dict[str, Any]) -> None:
    assert admin.patch("/api/v1/users/root", change, format="json").status_code == 409
    assert admin.delete("/api/v1/users/root").status_code == 409
    assert role_with(admin) == "admin"


def test_the_last_superuser_stays_one_without_any_group(db: None) -> None:
    token = "the token of the administrator, long"
    services.ensure_admin(token)
    admin = with_token(token)
    for change in ({"role": "viewer"}, {"is_active": False}):
        assert admin.patch("/api/v1/users/admin", change, format="json").status_code == 409
    assert admin.delete("/api/v1/users/admin").status_code == 409
    made_user = admin.post("/api/v1/users", {"name": "other", "role": "admin"}, format="json")
    assert made_user.status_code == 201
    # who is deactivated administers nothing
    assert admin.patch("/api/v1/users/other", {"is_active": False}, format="json").status_code == 200
    assert admin.patch("/api/v1/users/admin", {"role": "viewer"}, format="json").status_code == 409
    assert role_with(admin) == "admin"


def test_a_superuser_who_gets_another_role_is_one_no_more(admin: APIClient) -> None:
    services.ensure_admin("the token of the administrator, long")
    admin.patch("/api/v1/users/admin", {"role": "viewer"}, format="json")
    assert role_of(User.objects.get(username="admin")) is Role.VIEWER


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_expires_by_itself_and_is_revoked_at_once(api: APIClient, alice: User) -> None:
    answer = made(api, name="laptop")
    entry = answer["entry"]
    days = (entry["expires_at"] - entry["created_at"]) / services.DAY_MS
    assert days == pytest.approx(90) and entry["scope"] is None
    client = with_token(answer["token"])
    assert role_with(client) == "developer"
    listed = api.get("/api/v1/tokens").json()["tokens"]
    assert {token["name"] for token in listed} == {"test", "laptop"} and answer["token"] not in str(listed)
    assert api.delete(f"/api/v1/tokens/{entry['id']}").status_code == 200
    assert client.get("/api/v1/session").status_code == 401


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "\u202egnp", "two\nlines"])
def test_a_token_is_named_by_what_can_be_read(api: APIClient, name: str) -> None:
    assert api.post("/api/v1/tokens", {"name": name}, format="json").status_code == 400


def test_a_token_gives_no_more_than_its_scope(api: APIClient) -> None:
    client = with_token(made(api, name="dashboard", scope="viewer")["token"])
    assert role_with(client) == "viewer"
    assert client.patch(f"/v1/jobs/{'0' * 32}").status_code == 403
    assert api.patch(f"/v1/jobs/{'0' * 32}").status_code == 404


def test_a_scope_above_the_role_is_refused(api: APIClient) -> None:
    answer = api.post("/api/v1/tokens", {"name": "x", "scope": "admin"}, format="json")
    assert answer.status_code == 400 and "above the role developer" in str(answer.json())


def test_a_token_makes_no_token_above_its_own_scope(api: APIClient, alice: User) -> None:
    narrow = with_token(made(api, name="narrow", scope="operator")["token"])
    assert narrow.post("/api/v1/tokens", {"name": "wide", "scope": "developer"}, format="json").status_code == 400
    child = made(narrow, name="child")
    assert child["entry"]["scope"] == "operator"
    set_role(alice, Role.ADMIN)
    assert role_with(with_token(child["token"])) == "operator"


def test_a_token_follows_its_owners_role_down(api: APIClient, alice: User) -> None:
    client = with_token(made(api, name="laptop", scope="developer")["token"])
    set_role(alice, Role.OPERATOR)
    assert role_with(client) == "operator"


def test_a_session_that_began_with_a_token_has_its_scope_and_ends_with_it(api: APIClient) -> None:
    answer = made(api, name="kiosk", scope="viewer")
    browser = APIClient()
    assert browser.post("/api/v1/session", {"token": answer["token"]}, format="json").json()["user"]["role"] == "viewer"
    assert role_with(browser) == "viewer"
    api.delete(f"/api/v1/tokens/{answer['entry']['id']}")
    assert browser.get("/api/v1/session").status_code in (401, 403)


def test_nobody_touches_the_tokens_of_others(api: APIClient, oscar: User) -> None:
    services.create_token(oscar, "his")
    his = ApiToken.objects.get(name="his")
    assert api.delete(f"/api/v1/tokens/{his.pk}").status_code == 404
    assert api.get("/api/v1/tokens", {"all": "1"}).status_code == 403
    assert api.post("/api/v1/tokens", {"name": "x", "user": "oscar"}, format="json").status_code == 404
    assert "his" not in str(api.get("/api/v1/tokens").json())


def test_administrators_make_and_revoke_tokens_of_others(admin: APIClient, oscar: User) -> None:
    services.ensure_admin("the token of the administrator, long")
    answer = made(with_token("the token of the administrator, long"), name="robot", user="oscar", days=None)
    assert answer["entry"]["user"] == "oscar" and answer["entry"]["expires_at"] is None
    assert role_with(with_token(answer["token"])) == "operator"
    assert {token["user"] for token in admin.get("/api/v1/tokens", {"all": "1"}).json()["tokens"]} == {
        "admin",
        "root",
        "oscar",
    }
    assert admin.delete(f"/api/v1/tokens/{answer['entry']['id']}").status_code == 200


@pytest.mark.parametrize("days", [None, 1, 3650])
@pytest.mark.parametrize("scope", ["viewer", ""])
def test_a_token_makes_none_that_gives_more_or_ends_later(admin: APIClient, days: int | None, scope: str) -> None:
    given = {"scope": scope} if scope else {}
    parent = made(admin, name="parent", days=1, **given)
    child = made(with_token(parent["token"]), name="child", days=days)["entry"]
    assert child["expires_at"] <= parent["entry"]["expires_at"]
    assert child["scope"] == parent["entry"]["scope"] == (scope or None)
    of_another = made(admin, name="operators", scope="admin", days=1)
    oscar = User.objects.create_user("oscar")
    for_oscar = made(with_token(of_another["token"]), name="his", user=oscar.username, days=None)["entry"]
    assert for_oscar["scope"] == "viewer" and for_oscar["expires_at"] <= of_another["entry"]["expires_at"]


def test_what_was_made_with_a_token_is_revoked_with_it_and_does_not_grow_with_its_owner(
    admin: APIClient, alice: User
) -> None:
    parent = made(admin, name="dashboard", user="alice", scope="viewer", days=1)
    browser = APIClient()
    assert browser.post("/api/v1/session", {"token": parent["token"]}, format="json").status_code == 200
    child = made(with_token(parent["token"]), name="child", days=None)
    grandchild = made(with_token(child["token"]), name="grandchild")
    of_session = made(browser, name="by session")
    set_role(alice, Role.ADMIN)
    tokens = [answer["token"] for answer in (child, grandchild, of_session)]
    assert [role_with(with_token(token)) for token in tokens] == ["viewer"] * 3
    assert admin.delete(f"/api/v1/tokens/{parent['entry']['id']}").status_code == 200
    assert [with_token(token).get("/api/v1/session").status_code for token in tokens] == [401] * 3
    assert not ApiToken.objects.filter(user=alice).exists()


def test_what_was_made_with_a_users_tokens_goes_with_the_user(admin: APIClient) -> None:
    dora = User.objects.create_user("dora", password=PASSWORD)
    set_role(dora, Role.ADMIN)
    made(client_of(dora), name="robot", user="root")
    assert admin.delete("/api/v1/users/dora").status_code == 200
    assert not ApiToken.objects.filter(name="robot").exists()


def test_a_token_neither_lists_nor_revokes_what_gives_more(admin: APIClient) -> None:
    services.ensure_admin("the token of the administrator, long")
    narrow = made(admin, name="narrow", scope="viewer", days=1)
    same = made(admin, name="same", scope="viewer")["entry"]
    wide = [made(admin, name="wide", scope="admin")["entry"], made(admin, name="own")["entry"]]
    client = with_token(narrow["token"])
    assert {token["name"] for token in client.get("/api/v1/tokens").json()["tokens"]} == {"narrow", "same"}
    for entry in wide:
        answer = client.delete(f"/api/v1/tokens/{entry['id']}")
        assert answer.status_code == 403 and "gives more" in str(answer.json())
        event = AuditEvent.objects.order_by("-pk").first()
        assert event is not None and (event.result, event.object) == ("denied", f"token_id={entry['id']}")
    assert ApiToken.objects.filter(name__in=("wide", "own")).count() == 2
    assert client.delete(f"/api/v1/tokens/{same['id']}").status_code == 200
    assert client.delete(f"/api/v1/tokens/{narrow['entry']['id']}").status_code == 200
    listed = {token["name"] for token in admin.get("/api/v1/tokens", {"all": "1"}).json()["tokens"]}
    assert {"wide", "own", services.ADMIN_TOKEN_NAME} <= listed


def test_a_token_that_is_revoked_meanwhile_makes_none(admin: APIClient) -> None:
    parent = made(admin, name="parent", user="root")
    with after_read(2, "accounts_apitoken", lambda: ApiToken.objects.filter(name="parent").delete()):
        answer = with_token(parent["token"]).post("/api/v1/tokens", {"name": "child"}, format="json")
    assert answer.status_code == 403, answer.json()
    assert not ApiToken.objects.filter(name="child").exists()


def test_of_two_tokens_of_one_name_at_once_one_is_made(admin: APIClient) -> None:
    root = User.objects.get(username="root")
    with after_read(1, "accounts_apitoken", lambda: services.create_token(root, "ci")):
        answer = admin.post("/api/v1/tokens", {"name": "ci"}, format="json")
    assert answer.status_code == 409 and "ci already" in str(answer.json())
    assert ApiToken.objects.filter(user=root, name="ci").count() == 1


def test_a_user_who_is_deleted_meanwhile_gets_no_token(admin: APIClient) -> None:
    dora = User.objects.create_user("dora", password=PASSWORD)
    with after_read(1, "accounts_apitoken", lambda: User.objects.filter(pk=dora.pk).delete()):
        answer = admin.post("/api/v1/tokens", {"name": "ci", "user": "dora"}, format="json")
    assert answer.status_code == 404, answer.json()
    assert not ApiToken.objects.filter(name="ci").exists()


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"name": ""}, 400),
        ({"name": "x" * 101}, 400),
        ({"name": "TIDEMARK_ADMIN_TOKEN"}, 400),
        ({"name": "x", "days": 0}, 400),
        ({"name": "x", "days": 4000}, 400),
        ({"name": "x", "days": True}, 400),
        ({"name": "x", "scope": "king"}, 400),
        ({"name": "test"}, 409),
    ],
)
def test_a_token_that_cannot_be_is_refused(api: APIClient, given: dict[str, Any], status: int) -> None:
    assert api.post("/api/v1/tokens", given, format="json").status_code == status
    assert ApiToken.objects.count() == 1


def test_a_token_number_that_no_database_takes_is_unknown(api: APIClient) -> None:
    assert api.delete(f"/api/v1/tokens/{10**30}").status_code == 404


def test_values_that_a_query_does_not_know_are_refused_and_not_taken_for_another(admin: APIClient) -> None:
    for path in ("tokens?all=true", "tokens?all=", "audit?result=ok", "pipelines?archived=yes"):
        assert admin.get(f"/api/v1/{path}").status_code == 400, path
    for path in ("tokens?all=1", "audit?result=denied", "pipelines?archived=false"):
        assert admin.get(f"/api/v1/{path}").status_code == 200, path
