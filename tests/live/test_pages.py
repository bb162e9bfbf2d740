"""The page's files, the way to them, and health."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import redis
from django.test import Client
from pytest_django import Settings

from backend.cluster import bus
from backend.live import pages


@pytest.fixture
def dist(settings: Settings, tmp_path: Path) -> Path:
    """A built front end, and a secret beside it."""
    directory = tmp_path / "dist"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text("<!doctype html><title>Tidemark</title>")
    (directory / "assets" / "index-1a2b3c.js").write_text("export default 1;" * 100)
    (directory / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("secret")
    (directory / "link.txt").symlink_to(tmp_path / "secret.txt")
    settings.FRONTEND_DIR = directory
    pages._listing.cache_clear()
    return directory


def test_the_root_leads_to_the_page(client: Client) -> None:
    for path in ("/", "/ui"):
        answer = client.get(path)
        assert (answer.status_code, answer["Location"]) == (302, "/ui/")


@pytest.mark.parametrize("path", ["/ui/", "/ui/login", "/ui/jobs/0123/exceptions", "/ui/index.html"])
def test_the_pages_own_routes_get_its_index(client: Client, dist: Path, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert b"<title>Tidemark</title>" in answer.content
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer["Cache-Control"] == "no-cache"
    assert "csrftoken" in answer.cookies


def test_the_page_may_load_from_its_own_origin_only(client: Client, dist: Path) -> None:
    answer = client.get("/ui/")
    policy = dict(part.split(" ", 1) for part in answer["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"


def test_files_with_a_hash_in_their_names_are_kept(client: Client, dist: Path) -> None:
    answer = client.get("/ui/assets/index-1a2b3c.js", headers={"Accept-Encoding": "gzip"})
    assert answer["Content-Type"] == "text/javascript; charset=utf-8"
    assert "immutable" in answer["Cache-Control"]
    assert "csrftoken" not in answer.cookies
    assert answer["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.content).startswith(b"export default")
    again = client.get("/ui/assets/index-1a2b3c.js", headers={"If-None-Match": answer["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_new_build_is_seen(client: Client, dist: Path) -> None:
    assert client.get("/ui/assets/index-new.js").status_code == 404
    (dist / "assets" / "index-new.js").write_text("export default 2;")
    (dist / "index.html").write_text("<!doctype html><title>New</title>")
    assert client.get("/ui/assets/index-new.js").status_code == 200
    assert b"New" in client.get("/ui/").content


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "..%252fsecret.txt",
        "assets/../../secret.txt",
        "link.txt",
        "assets/missing.js",
        "/etc/passwd.txt",
        "..\\secret.txt",
    ],
)
def test_nothing_but_the_pages_files_is_served(client: Client, dist: Path, path: str) -> None:
    answer = client.get(f"/ui/{path}")
    assert answer.status_code in (302, 404)
    assert b"secret" not in answer.content


def test_a_page_that_is_not_built_says_how_to_build_it(client: Client, settings: Settings, tmp_path: Path) -> None:
    settings.FRONTEND_DIR = tmp_path
    answer = client.get("/ui/")
    assert answer.status_code == 503
    assert b"make" in answer.content


@pytest.mark.django_db
def test_writing_to_pages_is_refused(client: Client, dist: Path) -> None:
    for path in ("/", "/ui/", "/livez", "/readyz"):
        assert client.post(path).status_code == 405


# --- health -----------------------------------------------------------------------------------------------------------


def test_the_process_lives(client: Client) -> None:
    assert client.get("/livez").status_code == 200


@pytest.mark.django_db
def test_the_process_is_ready_when_database_and_redis_answer(client: Client, bus_redis: redis.Redis) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"database": "ok", "redis": "ok"})


@pytest.mark.django_db
def test_the_process_is_not_ready_without_redis(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    answer = client.get("/readyz")
    bus.disconnect()
    assert (answer.status_code, answer.json()["redis"]) == (503, "unreachable")
