"""Role by role, route by route, method by method: who may do what, compared with a list, for every route there is."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from backend.accounts.roles import Role, set_role
from backend.audit.models import AuditEvent
from tests.accounts.cast import client_of
from tests.accounts.test_closed_routes import ADMIN_ROUTES, OPEN, ROUTES, _path

VIEWER, OPERATOR, DEVELOPER, ADMIN = Role
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: (method, route) → the lowest role that may; there is no other write, and all other reads are for whoever is logged in
NEEDED: dict[tuple[str, str], Role] = {
    # Flink's, with and without /v1
    ("POST", "applications/<str:application_id>/cancel"): OPERATOR,
    ("DELETE", "jars/<str:jar_id>"): DEVELOPER,
    ("GET", "jars/<str:jar_id>/plan"): DEVELOPER,
    ("POST", "jars/<str:jar_id>/plan"): DEVELOPER,
    ("POST", "jars/<str:jar_id>/run"): DEVELOPER,
    ("POST", "jars/upload"): DEVELOPER,
    ("POST", "jobs"): VIEWER,  # refused for everybody: it takes Java programs
    ("PATCH", "jobs/<str:job_id>"): OPERATOR,
    ("POST", "jobs/<str:job_id>/checkpoints"): OPERATOR,
    ("PATCH", "jobs/<str:job_id>/rescaling"): OPERATOR,
    ("PUT", "jobs/<str:job_id>/resource-requirements"): OPERATOR,
    ("POST", "jobs/<str:job_id>/savepoints"): OPERATOR,
    ("POST", "jobs/<str:job_id>/stop"): OPERATOR,
    ("GET", "jobs/<str:job_id>/yarn-cancel"): OPERATOR,
    ("POST", "savepoint-disposal"): OPERATOR,
    # Tidemark's own
    ("GET", "api/v1/audit"): ADMIN,
    ("PUT", "api/v1/inbox"): VIEWER,  # one's own
    ("PUT", "api/v1/jobs/<str:job_id>/autoscaler"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/peeks"): OPERATOR,
    ("GET", "api/v1/jobs/<str:job_id>/peeks/<str:peek_id>"): OPERATOR,
    ("DELETE", "api/v1/jobs/<str:job_id>/peeks/<str:peek_id>"): OPERATOR,
    ("GET", "api/v1/jobs/<str:job_id>/restore-points/check"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/state/keys"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/state/lookup"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/state/export"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/switch"): DEVELOPER,
    ("PUT", "api/v1/jobs/<str:job_id>/tags"): OPERATOR,
    ("POST", "api/v1/jobs/<str:job_id>/vertices/<str:vertex_id>/stacks"): VIEWER,  # only looks
    ("POST", "api/v1/pipelines"): DEVELOPER,
    ("PATCH", "api/v1/pipelines/<str:pipeline_id>"): DEVELOPER,
    ("DELETE", "api/v1/pipelines/<str:pipeline_id>"): DEVELOPER,
    ("POST", "api/v1/pipelines/<str:pipeline_id>/compatibility"): OPERATOR,
    ("POST", "api/v1/pipelines/<str:pipeline_id>/deployments"): OPERATOR,
    ("GET", "api/v1/pipelines/<str:pipeline_id>/draft"): DEVELOPER,
    ("PUT", "api/v1/pipelines/<str:pipeline_id>/draft"): DEVELOPER,
    ("DELETE", "api/v1/pipelines/<str:pipeline_id>/draft"): DEVELOPER,
    ("POST", "api/v1/pipelines/<str:pipeline_id>/restore"): DEVELOPER,
    ("POST", "api/v1/pipelines/<str:pipeline_id>/versions"): DEVELOPER,
    ("POST", "api/v1/pipelines/compile"): VIEWER,  # pure
    ("POST", "api/v1/pipelines/validate"): VIEWER,  # pure
    ("PUT", "api/v1/pipelines/connections/<str:name>"): ADMIN,
    ("DELETE", "api/v1/pipelines/connections/<str:name>"): ADMIN,
    ("POST", "api/v1/pipelines/connections/<str:name>/describe"): DEVELOPER,
    ("POST", "api/v1/pipelines/connections/<str:name>/test"): ADMIN,
    ("POST", "api/v1/pipelines/export"): VIEWER,  # pure
    ("POST", "api/v1/pipelines/import"): DEVELOPER,
    ("POST", "api/v1/pipelines/preview"): DEVELOPER,
    ("GET", "api/v1/pipelines/preview/<str:preview_id>"): DEVELOPER,
    ("DELETE", "api/v1/pipelines/preview/<str:preview_id>"): DEVELOPER,
    ("POST", "api/v1/pipelines/plan"): DEVELOPER,
    ("POST", "api/v1/pipelines/read-schema"): DEVELOPER,
    ("POST", "api/v1/pipelines/rename"): VIEWER,  # pure
    ("POST", "api/v1/pipelines/tests"): DEVELOPER,
    ("POST", "api/v1/session"): VIEWER,
    ("DELETE", "api/v1/session"): VIEWER,
    ("POST", "api/v1/tokens"): VIEWER,  # one's own
    ("DELETE", "api/v1/tokens/<int:token_id>"): VIEWER,
    ("GET", "api/v1/users"): ADMIN,
    ("POST", "api/v1/users"): ADMIN,
    ("PATCH", "api/v1/users/<str:name>"): ADMIN,
    ("DELETE", "api/v1/users/<str:name>"): ADMIN,
}
#: GETs that change something, or run programs
WRITING_GETS = {"jars/<str:jar_id>/plan", "jobs/<str:job_id>/yarn-cancel", "login/<str:secret>"}
#: routes of Django's views without a class
FUNCTIONS = {"", "ui", "ui/", "ui/<path:path>", "livez", "readyz", "login/<str:secret>", "static/<path:name>"}


def _callbacks(patterns: list[URLPattern | URLResolver], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in patterns:
        route = prefix + str(item.pattern)
        if isinstance(item, URLResolver):
            found |= _callbacks(item.url_patterns, route)
        else:
            found[route] = item.callback
    return found


VIEWS = {route: getattr(callback, "cls", None) for route, callback in _callbacks(get_resolver().url_patterns).items()}
OFFERED = {
    (method, route)
    for route, view in VIEWS.items()
    if view is not None
    for method in METHODS
    if hasattr(view, method.lower())
}


def _is_catch_all(route: str) -> bool:
    return "(?P" in route or route == "api/<path:path>"


def needed(method: str, route: str) -> Role | None:
    """The lowest role for a method of a route; None: nobody has said."""
    own = route.removeprefix("v1/")
    if (method, own) in NEEDED:
        return NEEDED[method, own]
    return VIEWER if method == "GET" or _is_catch_all(route) else None


def test_every_write_of_every_route_is_in_the_list_and_nothing_else() -> None:
    assert {route for route, view in VIEWS.items() if view is None} == FUNCTIONS | set(ADMIN_ROUTES)
    assert set(VIEWS) == set(ROUTES)
    assert {(method, route) for method, route in OFFERED if needed(method, route) is None} == set()
    assert {entry for entry in NEEDED if entry not in OFFERED} == set()


@pytest.fixture
def members(db: None) -> dict[Role, APIClient]:
    clients = {}
    for role in Role:
        user = User.objects.create_user(f"a-{role.group_name}")
        set_role(user, role)
        clients[role] = client_of(user)
    return clients


def _call(client: APIClient, method: str, route: str) -> tuple[int, int]:
    """Status of a request, and how many audit events it has left."""
    before = AuditEvent.objects.count()
    answer = client.generic(method, _path(route), "{}", content_type="application/json")
    return answer.status_code, AuditEvent.objects.count() - before


def _cases() -> list[tuple[str, str]]:
    """Every offered method of every route; of reads that everybody may, one is enough for Flink's two prefixes."""
    return sorted(
        (method, route)
        for method, route in OFFERED
        if not (route.startswith("v1/") and method == "GET" and needed(method, route) is VIEWER)
    )


@pytest.mark.parametrize(("method", "route"), _cases())
def test_each_role_may_what_the_list_says_and_every_write_leaves_one_event(
    members: dict[Role, APIClient], method: str, route: str
) -> None:
    least = needed(method, route)
    assert least is not None
    is_write = method != "GET" or route.removeprefix("v1/") in WRITING_GETS
    for role in Role:
        if method in OPEN.get(route, ()):
            continue
        status, events = _call(members[role], method, route)
        if role < least:
            assert status == 403, role
        else:
            assert status not in (401, 403), role
        assert events == (1 if is_write else 0), role
    status, events = _call(APIClient(), method, route)
    assert status in ((400, 401) if method in OPEN.get(route, ()) else (401, 403))
    assert events == (1 if is_write else 0)


@pytest.mark.parametrize(
    "route", sorted({route for (method, route) in _cases() if method == "GET" and needed(method, route) is not VIEWER})
)
def test_a_head_request_takes_the_role_of_its_get(members: dict[Role, APIClient], route: str) -> None:
    """The framework runs GET's handler for it."""
    least = needed("GET", route)
    assert least is not None
    for role in Role:
        status, events = _call(members[role], "HEAD", route)
        assert (status == 403) is (role < least), role
        assert events == (route.removeprefix("v1/") in WRITING_GETS), role


@pytest.fixture
def browsers(members: dict[Role, APIClient]) -> dict[Role, APIClient]:
    """The same people, logged in at the page: the admin takes no tokens."""
    clients = {role: APIClient() for role in members}
    for role, client in clients.items():
        client.force_login(User.objects.get(username=f"a-{role.group_name}"))
    return clients


@pytest.mark.parametrize(
    "route", [route for method, route in _cases() if method == "GET" and route.removeprefix("v1/") in WRITING_GETS]
)
def test_a_get_that_acts_is_taken_from_the_own_page_only(browsers: dict[Role, APIClient], route: str) -> None:
    path = _path(route)
    for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {}):
        answer = browsers[ADMIN].get(path, headers=headers)
        assert answer.status_code == 403 and "own page" in str(answer.json()), (route, headers)
        assert browsers[ADMIN].head(path, headers=headers).status_code == 403, (route, headers)
    assert browsers[ADMIN].get(path, headers={"sec-fetch-site": "same-origin"}).status_code != 403


@pytest.mark.parametrize("method", METHODS)
def test_the_admin_is_for_administrators_and_every_write_leaves_one_event(
    browsers: dict[Role, APIClient], members: dict[Role, APIClient], method: str
) -> None:
    written = 0 if method == "GET" else 1
    for route in ADMIN_ROUTES:
        for role in Role:
            status, events = _call(browsers[role], method, route)
            assert (status == 403) is (role < ADMIN) and status < 500 and status != 401, (route, role)
            assert events == written, (route, role)
            if (method, route, role) == ("POST", "admin/logout/", ADMIN):
                browsers[role].force_login(User.objects.get(username="a-admin"))
        for outsider in (APIClient(), members[ADMIN]):
            assert _call(outsider, method, route) == (401 if written else 302, written), route


@pytest.mark.parametrize("route", sorted(FUNCTIONS))
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_writes_to_pages_leave_one_event_too(members: dict[Role, APIClient], method: str, route: str) -> None:
    assert _call(members[VIEWER], method, route)[1] == 1
