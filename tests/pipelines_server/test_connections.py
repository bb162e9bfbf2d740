"""Connections: names of secrets, never values; tested against real servers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.pipelines import connections
from tests.cluster.redis_fixture import running_redis
from tests.connectors.postgres_fixture import running_postgres
from tests.pipeline.pipelines import chain, node
from tests.pipelines_server.documents import BASE
from tests.pipelines_server.hostile_servers import Talk, drips, is_silent, logs_in, scans_for_ever, serving

CONNECTIONS = f"{BASE}/connections"
CANARY = "canary-2718281"


def test_a_connection_is_known_by_name_and_holds_no_secret(admins: APIClient, api: APIClient) -> None:
    assert admins.put(f"{CONNECTIONS}/pg-main", {"kind": "postgres"}, format="json").status_code == 200
    [row] = api.get(CONNECTIONS).json()["connections"]
    assert (row["name"], row["kind"], row["test"]) == ("pg-main", "postgres", None)
    assert row["secrets"] == [{"key": "url", "variable": "TIDEMARK_SECRET_PG_MAIN_URL", "is_known": False}]
    for kind, options in (("oracle", {}), ("postgres", {"password": CANARY}), ("postgres", {"x": 1}), ("redis", 7)):
        answer = admins.put(f"{CONNECTIONS}/other", {"kind": kind, "options": options}, format="json")
        assert answer.status_code == 400
        assert CANARY not in answer.content.decode()
    assert admins.put(f"{CONNECTIONS}/-x", {"kind": "redis"}, format="json").status_code == 400
    assert api.delete(f"{CONNECTIONS}/pg-main").status_code == 403
    assert admins.delete(f"{CONNECTIONS}/pg-main").status_code == 200
    assert api.get(f"{CONNECTIONS}/pg-main").status_code == 404


def test_the_audit_trail_has_a_connection_before_and_after(admins: APIClient) -> None:
    def told() -> tuple[Any, Any]:
        detail = AuditEvent.objects.latest("pk").detail
        return detail.get("before"), detail.get("after")

    old, new = {"kind": "postgres", "options": {}}, {"kind": "redis", "options": {}}
    assert admins.put(f"{CONNECTIONS}/pg", old, format="json").status_code == 200
    assert told() == (None, old)
    assert admins.put(f"{CONNECTIONS}/pg", new, format="json").status_code == 200
    assert told() == (old, new)
    refused = {"kind": "postgres", "options": {"password": "canary-7f3a"}}
    assert admins.put(f"{CONNECTIONS}/pg", refused, format="json").status_code == 400
    assert "canary" not in str(told())
    assert admins.delete(f"{CONNECTIONS}/pg").status_code == 200
    assert told() == (new, None)


def test_a_test_without_a_value_says_where_one_belongs(admins: APIClient) -> None:
    admins.put(f"{CONNECTIONS}/pg-main", {"kind": "postgres"}, format="json")
    answer = admins.post(f"{CONNECTIONS}/pg-main/test").json()
    assert answer["test"]["ok"] is False
    assert "TIDEMARK_SECRET_PG_MAIN_URL" in answer["test"]["message"]
    assert admins.get(f"{CONNECTIONS}/pg-main").json()["test"] == answer["test"]


@pytest.fixture
def here(settings: Settings) -> None:
    """Systems of this machine may be asked."""
    settings.TIDEMARK_OUTSIDE_ADDRESSES = ["127.0.0.0/8", "unix"]


@pytest.mark.usefixtures("here")
def test_postgresql_is_asked(admins: APIClient, api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    admins.put(f"{CONNECTIONS}/pg", {"kind": "postgres"}, format="json")
    with running_postgres() as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE bids (auction bigint PRIMARY KEY, price double precision)")
        monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", url)
        tested = admins.post(f"{CONNECTIONS}/pg/test").json()
        assert tested["test"]["ok"] is True and tested["test"]["message"].startswith("PostgreSQL")
        assert tested["secrets"][0]["is_known"] is True
        assert api.post(f"{CONNECTIONS}/pg/describe").json()["names"] == ["bids"]
        described = api.post(f"{CONNECTIONS}/pg/describe", {"table": "bids"}, format="json").json()
        assert [name for name, _ in described["columns"]] == ["auction", "price"]
        assert "auction" in described["row"]
        source = node("source.postgres", "Bids", connection="pg", table="bids")
        read = api.post(f"{BASE}/read-schema", {"document": chain(source), "node": "n0"}, format="json").json()
        assert read["columns"] == described["columns"] and read["origin"] == "bids of pg"
        missing = api.post(f"{CONNECTIONS}/pg/describe", {"table": "nothing"}, format="json")
        assert (missing.status_code, missing.json()["errors"][0]["code"]) == (409, "outside")
    monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", f"postgresql://me:{CANARY}@127.0.0.1:1/db")
    refused = admins.post(f"{CONNECTIONS}/pg/test").json()
    assert refused["test"]["ok"] is False
    assert CANARY not in json.dumps(refused)


@pytest.mark.usefixtures("here")
def test_redis_is_asked(admins: APIClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    admins.put(f"{CONNECTIONS}/r", {"kind": "redis"}, format="json")
    with running_redis(tmp_path) as url:
        monkeypatch.setenv("TIDEMARK_SECRET_R_URL", url)
        assert admins.post(f"{CONNECTIONS}/r/test").json()["test"]["ok"] is True
        with redis.Redis.from_url(url) as client:
            client.xadd("beats", {"a": "1"})
            client.set("other", "1")
        described = admins.post(f"{CONNECTIONS}/r/describe").json()
        assert (described["names"], described["is_all"]) == (["beats"], True)
        monkeypatch.setattr(connections, "MAX_NAMES", 0)
        described = admins.post(f"{CONNECTIONS}/r/describe").json()
        assert (described["names"], described["is_all"]) == ([], False)
    monkeypatch.setenv("TIDEMARK_SECRET_R_URL", f"nonsense {CANARY}")
    refused = admins.post(f"{CONNECTIONS}/r/test").json()
    assert (refused["test"]["ok"], CANARY in json.dumps(refused)) == (False, False)


def test_a_description_is_not_got_and_leaves_an_event(admins: APIClient, api: APIClient) -> None:
    admins.put(f"{CONNECTIONS}/pg", {"kind": "postgres"}, format="json")
    assert api.get(f"{CONNECTIONS}/pg/describe").status_code == 405
    before = AuditEvent.objects.count()
    assert api.post(f"{CONNECTIONS}/pg/describe", {"table": "bids"}, format="json").status_code == 409
    event = AuditEvent.objects.latest("pk")
    assert AuditEvent.objects.count() == before + 1
    assert (event.user, event.result, event.detail) == ("alice", "failed", {"table": "bids"})
    for table in ("x" * 201, 7, ["bids"]):
        assert api.post(f"{CONNECTIONS}/pg/describe", {"table": table}, format="json").status_code == 400


# --- systems that let one wait ----------------------------------------------------------------------------------------


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ASK_S", 0.5)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """The block takes no longer."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


@pytest.mark.usefixtures("here", "in_haste")
def test_a_redis_without_an_end_is_described_as_far_as_it_was_seen(
    admins: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    admins.put(f"{CONNECTIONS}/r", {"kind": "redis"}, format="json")
    with serving(scans_for_ever) as port, within(5.0):
        monkeypatch.setenv("TIDEMARK_SECRET_R_URL", f"redis://127.0.0.1:{port}")
        described = admins.post(f"{CONNECTIONS}/r/describe").json()
    assert (described["names"], described["is_all"]) == (["beats"], False)


@pytest.mark.usefixtures("here", "in_haste")
@pytest.mark.parametrize(
    ("kind", "url", "talk"),
    [
        ("redis", "redis://127.0.0.1:{port}", drips),
        ("redis", "redis://127.0.0.1:{port}", is_silent),
        ("postgres", "postgresql://me@127.0.0.1:{port}/db?sslmode=disable", logs_in([])),
        # the driver's limit would be for each host
        ("postgres", "host=127.0.0.1,127.0.0.1,127.0.0.1 port={port} sslmode=disable", is_silent),
    ],
)
def test_no_system_holds_a_thread_of_the_web_server(
    admins: APIClient, monkeypatch: pytest.MonkeyPatch, kind: str, url: str, talk: Talk
) -> None:
    admins.put(f"{CONNECTIONS}/c", {"kind": kind}, format="json")
    with serving(talk) as port:
        monkeypatch.setenv("TIDEMARK_SECRET_C_URL", url.format(port=port))
        with within(5.0):
            tested = admins.post(f"{CONNECTIONS}/c/test").json()["test"]
        assert (tested["ok"], tested["message"]) == (False, "it has not answered within 0.5 seconds")
        with within(5.0):
            described = admins.post(f"{CONNECTIONS}/c/describe")
        assert (described.status_code, described.json()["errors"][0]["message"]) == (409, tested["message"])
        if kind == "postgres":
            with within(5.0):
                assert admins.post(f"{CONNECTIONS}/c/describe", {"table": "bids"}, format="json").status_code == 409


@pytest.mark.usefixtures("here", "in_haste")
def test_postgresql_ends_statements_for_which_nobody_waits(admins: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[bytes] = []
    admins.put(f"{CONNECTIONS}/pg", {"kind": "postgres"}, format="json")
    with serving(logs_in(queries)) as port:
        monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", f"postgresql://me@127.0.0.1:{port}/db?sslmode=disable")
        for body in ({}, {"table": "bids"}):
            assert admins.post(f"{CONNECTIONS}/pg/describe", body, format="json").status_code == 409
    # in the transaction only: a pooler gives its session to others
    assert queries == [b"BEGIN", b"SET LOCAL statement_timeout = 500"] * 2
