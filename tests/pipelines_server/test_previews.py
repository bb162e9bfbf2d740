"""Previews over REST, with a real Redis and real children."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.services import read_preview
from backend.pipelines import previews
from tests.accounts.cast import client_of
from tests.cluster.redis_fixture import running_redis
from tests.pipelines_server.documents import BASE, document
from tests.support.waiting import wait_until

PREVIEW = f"{BASE}/preview"


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis server."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def live(no_redis: None, redis_url: str, settings: Settings) -> Iterator[redis.Redis]:
    """The empty bus of one test; no preview outlives it."""
    settings.REDIS_URL = redis_url
    layer = settings.CHANNEL_LAYERS["default"]
    [host] = layer["CONFIG"]["hosts"]
    settings.CHANNEL_LAYERS = {
        "default": {**layer, "CONFIG": {**layer["CONFIG"], "hosts": [{**host, "address": redis_url}]}}
    }
    bus.disconnect()
    bus.client().flushall()
    yield bus.client()
    for run in list(previews._running.values()):
        run.stopped.set()
    wait_until(lambda: not previews._running, 20, "previews have ended")
    bus.disconnect()


def start(api: APIClient, **more: Any) -> Any:
    answer = api.post(PREVIEW, {"document": document(rows=500, **more)}, format="json")
    assert answer.status_code == 202, answer.json()
    return answer.json()


def ended(api: APIClient, preview_id: str) -> Any:
    wait_until(lambda: api.get(f"{PREVIEW}/{preview_id}").json()["state"] != "running", 60, "the preview has ended")
    return api.get(f"{PREVIEW}/{preview_id}").json()


def slow() -> dict[str, Any]:
    return {"code": ["import time", "time.sleep(600)"]}


def test_a_preview_shows_rows_and_is_its_users_own(live: redis.Redis, api: APIClient, bobs: APIClient) -> None:
    started = start(api)
    assert (started["state"], started["ports"], "owner" in started) == ("running", {}, False)
    shown = ended(api, started["id"])
    assert (shown["state"], shown["end"]["simulated"]) == ("finished", True), shown["end"]
    assert shown["ports"]["n1"]["out"]["rows"] == shown["ports"]["n2"]["in"]["rows"] > 0
    assert shown["version"] > started["version"]
    for method in (bobs.get, bobs.delete):
        assert method(f"{PREVIEW}/{started['id']}").status_code == 404
    assert api.get(f"{PREVIEW}/{'0' * 32}").status_code == 404
    assert api.get(f"{PREVIEW}/x").status_code == 400


def test_a_preview_is_stopped_within_a_second_from_anywhere(live: redis.Redis, api: APIClient) -> None:
    first = start(api, **slow())["id"]
    began = time.monotonic()
    assert api.delete(f"{PREVIEW}/{first}").status_code == 200
    assert ended(api, first)["state"] == "stopped"
    assert time.monotonic() - began < 2
    second = start(api, **slow())["id"]
    # as another web process does
    live.set(bus.PREVIEW_STOP_KEY.format(second), 1)
    assert ended(api, second)["state"] == "stopped"


def test_a_new_preview_stops_the_users_former_one(live: redis.Redis, api: APIClient) -> None:
    first = start(api, **slow())["id"]
    second = start(api, **slow())["id"]
    assert ended(api, first)["state"] == "stopped"
    assert api.get(f"{PREVIEW}/{second}").json()["state"] == "running"


def test_a_preview_whose_process_is_gone_is_lost(live: redis.Redis, api: APIClient, alice: User) -> None:
    name = "a" * 32
    live.set(
        bus.PREVIEW_KEY.format(name), json.dumps({"id": name, "owner": alice.pk, "version": 1, "state": "running"})
    )
    assert read_preview(name)["state"] == "lost"


def test_only_some_run_at_a_time(live: redis.Redis, api: APIClient, bob: User, admins: APIClient) -> None:
    start(api, **slow())
    start(client_of(bob), **slow())
    refused = admins.post(PREVIEW, {"document": document()}, format="json")
    assert refused.status_code == 503


def test_an_error_names_its_node(live: redis.Redis, api: APIClient) -> None:
    shown = ended(api, start(api, code=["raise ValueError('mine')"])["id"])
    assert shown["state"] == "failed" and "mine" in shown["end"]["message"]


def test_who_may_preview(api: APIClient, oscar: User, victor: User) -> None:
    for user in (oscar, victor):
        assert client_of(user).post(PREVIEW, {"document": document()}, format="json").status_code == 403
    for rows in (0, -1, 100_001, "1", True, None):
        assert api.post(PREVIEW, {"document": document(), "rows": rows}, format="json").status_code == 400
    # Redis is away
    assert api.post(PREVIEW, {"document": document()}, format="json").status_code == 503
