"""The base path: what is behind it, what leads to it, and what it may not be called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django import Settings

from backend.config import environment
from backend.config.base_path import WithBasePath, WithoutBasePath, without
from backend.live import pages

BASE = "/tidemark"
INDEX = (
    '<meta name="base-path" content="/" /><script src="/ui/theme.js"></script><link href="/ui/assets/index-1.css">'
    '<a href="https://example.com/">'
)


class Seen:
    """An application that keeps what it is asked."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)


def asked(path: str, base_path: str = BASE, kind: str = "http") -> tuple[Any, Any]:
    """Return what the two middlewares hand on of a request."""
    between, behind = Seen(), Seen()
    scope = {"type": kind, "path": path}
    async_to_sync(WithoutBasePath(between, base_path))(scope, None, None)
    async_to_sync(WithBasePath(behind, base_path))(between.scopes[0], None, None)
    return between.scopes[0], behind.scopes[0]


@pytest.mark.parametrize("path", ["/tidemark/jobs/overview", "/jobs/overview"])
def test_a_path_with_the_base_path_and_without_it_are_the_same(path: str) -> None:
    between, behind = asked(path)
    assert between["path"] == "/jobs/overview"
    assert (behind["path"], behind["root_path"]) == ("/tidemark/jobs/overview", BASE)


def test_only_a_whole_segment_is_the_base_path() -> None:
    assert [without(BASE, path) for path in ("/tidemark", "/tidemark/", "/tidemarks/x", "/x/tidemark/y")] == [
        "/", "/", "/tidemarks/x", "/x/tidemark/y",
    ]  # fmt: skip


def test_a_web_socket_stays_without_it() -> None:
    between, behind = asked("/tidemark/ws/live", kind="websocket")
    assert between["path"] == behind["path"] == "/ws/live"


def test_without_a_base_path_nothing_is_touched() -> None:
    scope, _ = asked("/tidemark/jobs", base_path="")
    assert scope == {"type": "http", "path": "/tidemark/jobs"}


def test_the_index_is_served_with_it_in_its_paths(client: Client, settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(INDEX)
    (tmp_path / "theme.js").write_text('x="/ui/"')
    settings.FRONTEND_DIR = tmp_path
    pages._listing.cache_clear()
    plain = client.get("/ui/")
    assert plain.content.decode() == INDEX
    settings.TIDEMARK_BASE_PATH = BASE
    below = client.get("/ui/")
    assert below.content.decode() == INDEX.replace('"/', '"/tidemark/')
    assert below["ETag"] != plain["ETag"]
    assert client.get("/ui/theme.js").content == b'x="/ui/"'


@pytest.mark.django_db
def test_redirects_lead_below_it(client: Client, settings: Settings) -> None:
    settings.TIDEMARK_BASE_PATH = settings.FORCE_SCRIPT_NAME = BASE
    assert client.get("/")["Location"] == "/tidemark/ui/"
    assert client.get("/login/nonsense")["Location"] == "/tidemark/ui/login?link=expired"
    assert client.get("/admin/cluster/job/?q=x")["Location"] == "/tidemark/ui/login?next=/admin/cluster/job/%3Fq%3Dx"


def test_no_base_path_may_be_called_as_a_route() -> None:
    def begins(patterns: list[URLPattern | URLResolver]) -> set[str]:
        found = set[str]()
        for item in patterns:
            text = str(item.pattern)
            found |= begins(item.url_patterns) if isinstance(item, URLResolver) and not text else {text.split("/")[0]}
        return found

    # the last route of all takes every path
    routes = {name for name in begins(get_resolver().url_patterns) if name and not name.startswith("^")}
    assert routes | {"ws"} == environment.ROUTES
