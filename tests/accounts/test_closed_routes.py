"""Every route of the URL configuration is closed to anonymous requests, whatever the method, but for a listed few."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest
from django.contrib.auth.models import User
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from tests.accounts.cast import PASSWORD

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
WRITES = ("POST", "PUT", "PATCH", "DELETE")
#: route → methods that anybody may use; the reason stands with each
OPEN = {
    "": METHODS,  # leads to the page
    "ui": METHODS,  # the same
    "ui/": METHODS,  # the page itself, which has no data in it
    "ui/<path:path>": METHODS,  # its files
    "static/<path:name>": METHODS,  # files of the admin's pages
    "livez": METHODS,  # health, for whoever watches the process
    "readyz": METHODS,
    "api/v1/session": ("POST",),  # logging in
    "login/<str:secret>": METHODS,  # the one-time link
}
#: of nothing: a small number may be the token that a test sends, which would be deleted
VALUES = {"str": "0" * 32, "path": "0" * 32, "int": "987654321"}
#: no id, of whatever
MALFORMED = {"str": "x", "path": "x", "int": "987654321"}


def _routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for item in patterns:
        route = prefix + str(item.pattern)
        if isinstance(item, URLResolver):
            yield from _routes(item.url_patterns, route)
        else:
            yield route


ROUTES = sorted(set(_routes(get_resolver().url_patterns)))
#: pages of Django's admin
ADMIN_ROUTES = [route for route in ROUTES if route == "admin" or route.startswith("admin/")]
CLOSED = {route: [method for method in METHODS if method not in OPEN.get(route, ())] for route in ROUTES}


def _path(route: str, values: Mapping[str, str] = VALUES) -> str:
    if route.startswith("^") or "(?P" in route:
        return "/nowhere"
    return "/" + re.sub(r"<(\w+):\w+>", lambda match: values[match[1]], route)


def test_the_list_of_routes_is_the_whole_list() -> None:
    assert len(ROUTES) > 80
    assert {"jobs/<str:job_id>", "v1/jobs/<str:job_id>", "api/v1/cluster"} <= set(ROUTES)
    assert OPEN.keys() <= set(ROUTES)
    assert len(ADMIN_ROUTES) > 25


@pytest.mark.parametrize("route", [route for route in ROUTES if CLOSED[route]])
def test_an_anonymous_request_is_refused(anonymous: APIClient, route: str) -> None:
    for method in CLOSED[route]:
        answer = anonymous.generic(method, _path(route), "{}", content_type="application/json")
        if route in ADMIN_ROUTES and method in ("GET", "HEAD"):
            assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, "/ui/login"), method
            continue
        assert answer.status_code in (401, 403), method
        if route in ADMIN_ROUTES:
            continue
        if method != "HEAD":
            assert list(answer.json()) == ["errors"], method


def test_an_anonymous_request_for_what_cannot_be_is_refused_no_other_way(anonymous: APIClient) -> None:
    closed = [route for route in ROUTES if "<str:" in route and "GET" in CLOSED[route] and route not in ADMIN_ROUTES]
    answers = {route: anonymous.get(_path(route, MALFORMED)).status_code for route in closed}
    assert len(answers) > 50 and set(answers.values()) == {401}, answers


@pytest.mark.parametrize("route", [route for route in ROUTES if CLOSED[route]])
def test_a_write_with_the_cookie_alone_is_refused(alice: User, route: str) -> None:
    """Sends the request that another site can make a browser send."""
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(alice)
    for method in WRITES:
        if method in CLOSED[route]:
            answer = browser.generic(method, _path(route), "{}", content_type="application/json")
            assert answer.status_code == 403, method
            assert b"CSRF" in answer.content, method


@pytest.mark.parametrize("route", [route for route in OPEN if not route.startswith("api/")])
def test_open_routes_show_no_data(anonymous: APIClient, alice: User, route: str) -> None:
    answer = anonymous.get(_path(route))
    assert answer.status_code in (200, 302, 404, 503)
    assert PASSWORD.encode() not in answer.content and b"alice" not in answer.content
