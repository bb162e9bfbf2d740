"""Previews over REST, with a real Redis and real children."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import redis
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from backend.cluster import bus
from backend.cluster.services import read_preview
from backend.pipelines import previews
from backend.pipelines.building import _connections_in, compiled, connections_read
from backend.pipelines.documents import check
from runtime.client.confinement import Confinement
from runtime.client.preview import preview_spares
from runtime.pipeline import read_document
from tests.accounts.cast import client_of
from tests.cluster.redis_fixture import running_redis
from tests.connectors.postgres_fixture import running_postgres
from tests.pipeline.pipelines import chain, node, orders
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


def test_of_previews_that_a_user_starts_at_once_the_last_one_runs(live: redis.Redis, alice: User) -> None:
    checked = check(document(rows=500, **slow()))
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: previews.start_preview(alice, checked)["id"], range(8)))

    def running() -> list[str]:
        assert sum(run.has_begun for run in list(previews._running.values())) <= previews.MAX_OF_USER
        return [name for name in started if read_preview(name)["state"] == "running"]

    wait_until(lambda: len(running()) == 1, 60, "the others have ended")
    assert running() == [live.get(bus.PREVIEW_OF_KEY.format(alice.pk))]


def test_who_starts_one_preview_after_the_other_has_few_processes(live: redis.Redis, alice: User) -> None:
    checked = check(document(rows=500, **slow()))
    started = [previews.start_preview(alice, checked)["id"] for _ in range(8)]

    def ended() -> list[str]:
        assert sum(run.has_begun for run in list(previews._running.values())) <= previews.MAX_OF_USER
        return [name for name in started if read_preview(name)["state"] == "stopped"]

    wait_until(lambda: ended() == started[:-1], 60, "the former ones have ended")


def test_what_a_start_answers_stays_as_it_was(live: redis.Redis, alice: User) -> None:
    started = previews.start_preview(alice, check(document(rows=500)))
    wait_until(lambda: read_preview(started["id"])["state"] != "running", 60, "the preview has ended")
    # the answer is written while the preview runs
    assert started["ports"] == {}


def test_many_ports_are_written_together(live: redis.Redis, api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = previews._Run.write

    def counting(run: previews._Run) -> None:
        written.append(sum(map(len, run._document["ports"].values())))
        write(run)

    monkeypatch.setattr(previews._Run, "write", counting)
    filters = [node("filter", f"Dear {i}", condition=f"price > {i}") for i in range(30)]
    drawn = chain(node("source.nexmark", "Bids", kind="bids", events=500), *filters, node("sink.print", "Show"))
    answer = api.post(PREVIEW, {"document": drawn}, format="json")
    shown = ended(api, answer.json()["id"])
    assert (shown["state"], len(shown["ports"])) == ("finished", 32), shown["end"]
    # each write has all ports: one for each frame would take the time of the square of their number
    assert written[-1] == 32
    assert len(written) < 32


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


#: looks for the values of secrets where no program has any business
THIEF = [
    "import gc",
    "from runtime.common.secrets import SecretRef",
    "def stolen(row):",
    "    values = [ref._value for ref in gc.get_objects() if isinstance(ref, SecretRef) and ref._value]",
    "    print('found', values)",
    "    if row == 'bad':",
    "        raise ValueError(values[0])",
    "    return values[0], row",
]


@pytest.fixture
def network(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Previews may use the network."""
    settings.TIDEMARK_PREVIEW_CONFINEMENT = Confinement(has_network=True)
    spares = preview_spares(confinement=settings.TIDEMARK_PREVIEW_CONFINEMENT)
    monkeypatch.setattr(previews, "spares", spares)
    yield
    spares.close()


def behind_a_connection(code: list[str], **more: Any) -> dict[str, Any]:
    """A pipeline that reads a Redis stream, and writes to a system that a preview does not ask."""
    source = {"connection": "store", "streams": ["orders"], "format": {"kind": "text"}, "bounded": True}
    return chain(
        node("source.redis_streams", "Orders", **source),
        node("python.map", "Mapped", code=code, type=[["url", "string"], ["value", "string"]]),
        node("sink.redis_streams", "Copies", connection="unheard-of", streams=["copies"]),
        **more,
    )


@pytest.mark.usefixtures("network")
def test_what_is_behind_a_connection_is_previewed_and_its_secret_is_not_shown(
    live: redis.Redis, api: APIClient, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_STORE_URL", redis_url)
    password = redis_url.split(":")[2].split("@")[0]
    for number in range(3):
        live.xadd("orders", {"value": str(number)})
    answer = api.post(PREVIEW, {"document": behind_a_connection(THIEF)}, format="json")
    shown = ended(api, answer.json()["id"])
    assert (shown["state"], shown["end"]["simulated"]) == ("finished", False), shown["end"]
    found = [(row["url"], row["value"]) for row in shown["ports"]["n1"]["out"]["sample"]]
    assert found == [("<store.url>", str(number)) for number in range(3)]
    assert "found ['<store.url>', '<store.url>']" in shown["end"]["output"]
    live.xadd("orders", {"value": "bad"})
    failed = ended(api, api.post(PREVIEW, {"document": behind_a_connection(THIEF)}, format="json").json()["id"])
    assert failed["state"] == "failed" and "<store.url>" in failed["end"]["message"]
    for each in (shown, failed):
        kept = live.get(bus.PREVIEW_KEY.format(each["id"]))
        assert isinstance(kept, str) and password not in kept and password not in json.dumps(each)


@pytest.mark.usefixtures("network")
def test_a_preview_without_the_value_of_a_secret_says_where_it_belongs(live: redis.Redis, api: APIClient) -> None:
    shown = ended(api, api.post(PREVIEW, {"document": behind_a_connection(THIEF)}, format="json").json()["id"])
    assert shown["state"] == "failed"
    assert "SecretRef('store', 'url') (variable TIDEMARK_SECRET_STORE_URL" in shown["end"]["message"]
    assert "unheard-of" not in shown["end"]["message"], "sinks are replaced"
    # pinned rows stand in the place of the source
    pinned = {"n0": {"rows": [["7", None]], "pinned": True}}
    body = {"document": behind_a_connection(["def same(row):", "    return 'x', row"], samples=pinned)}
    shown = ended(api, api.post(PREVIEW, body, format="json").json()["id"])
    assert shown["state"] == "finished", shown["end"]
    assert shown["ports"]["n1"]["out"]["sample"] == [{"url": "x", "value": "7"}]


def test_connections_are_found_wherever_a_node_names_them() -> None:
    source = {"connection": {"$parameter": "which"}, "streams": ["orders"], "format": {"kind": "text"}}
    document = read_document(
        chain(
            node("source.redis_streams", "Orders", **source),
            node("sink.redis_streams", "Copies", connection="other", streams=["copies"]),
            parameters=[{"name": "which", "type": "string", "default": "store", "help": ""}],
        )
    )
    program = compiled(document)
    assert connections_read(document, program) == {"store"}
    assert connections_read(document, program, {"n0"}) == set()
    nested = {"oneOf": [{"properties": {"to": {"type": "array", "items": {"x-widget": "connection"}}}}]}
    assert list(_connections_in(nested, {"to": ["one", "two"]})) == ["one", "two"]
    assert list(_connections_in({"type": "object"}, {"connection": "one"})) == []


def test_without_a_network_no_secret_is_handed_out(
    live: redis.Redis, api: APIClient, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_SECRET_STORE_URL", redis_url)
    shown = ended(api, api.post(PREVIEW, {"document": behind_a_connection(THIEF)}, format="json").json()["id"])
    assert shown["state"] == "failed"
    assert "have no network here, so they cannot read what is behind store" in shown["end"]["message"]


@pytest.mark.parametrize(
    ("parameter", "listed", "reason"),
    [
        ("${env:SHOP_PASSWORD}", {}, "TIDEMARK_REFERENCE_VARIABLES of the JobManager does not list it"),
        ("${env:SHOP_OTHER}", {"TIDEMARK_REFERENCE_VARIABLES": "SHOP_*"}, "has no such variable"),
        ("${env:REDIS_URL}", {"TIDEMARK_REFERENCE_VARIABLES": "R*"}, "does not list it"),
        ("${file:/etc/passwd}", {}, "TIDEMARK_REFERENCE_FILES of the JobManager does not list it"),
        ("${env:SHOP_PASSWORD}", {"TIDEMARK_REFERENCE_FILES": "relative"}, "is not an absolute path"),
    ],
)
def test_a_reference_that_may_not_be_read_ends_the_preview_before_it_runs(
    parameter: str,
    listed: dict[str, str],
    reason: str,
    live: redis.Redis,
    api: APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "c4n4ry")
    for name, value in listed.items():
        monkeypatch.setenv(name, value)
    asked = document()
    asked["settings"] = {"options": {"pipeline.global-job-parameters": f"db.password:{parameter}"}}
    shown = ended(api, api.post(PREVIEW, {"document": asked}, format="json").json()["id"])
    assert shown["state"] == "failed" and reason in shown["end"]["message"], shown["end"]
    assert "c4n4ry" not in json.dumps(shown)


@pytest.mark.usefixtures("network")
def test_a_look_up_is_previewed(live: redis.Redis, api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_postgres() as url:
        monkeypatch.setenv("TIDEMARK_SECRET_PG_URL", url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE items (item text, colour text)")
            connection.execute("INSERT INTO items VALUES ('pen', 'blue'), ('ink', 'black')")
        look_up = node(
            "join.lookup",
            "Colours",
            connection="pg",
            table="items",
            on=[["item", "item"]],
            type=[["colour", "string"]],
        )
        document = chain(orders(), look_up, node("sink.print", "Print"))
        shown = ended(api, api.post(PREVIEW, {"document": document}, format="json").json()["id"])
    assert shown["state"] == "finished", shown["end"]
    assert sorted(row["colour"] for row in shown["ports"]["n1"]["out"]["sample"]) == ["black", "blue", "blue"]


def test_who_may_preview(api: APIClient, oscar: User, victor: User) -> None:
    for user in (oscar, victor):
        assert client_of(user).post(PREVIEW, {"document": document()}, format="json").status_code == 403
    for rows in (0, -1, 100_001, "1", True, None):
        assert api.post(PREVIEW, {"document": document(), "rows": rows}, format="json").status_code == 400
    # Redis is away
    assert api.post(PREVIEW, {"document": document()}, format="json").status_code == 503


def test_a_preview_is_gone_only_where_redis_says_so(live: redis.Redis, api: APIClient, settings: Settings) -> None:
    """A page that gets a 404 takes the preview for lost, and asks no more."""
    name = start(api, **slow())["id"]
    address, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    bus.disconnect()
    for method in (api.get, api.delete):
        assert method(f"{PREVIEW}/{name}").status_code == 503
    settings.REDIS_URL = address
    bus.disconnect()
    assert api.get(f"{PREVIEW}/{name}").json()["state"] == "running"
    live.delete(bus.PREVIEW_KEY.format(name))
    for method in (api.get, api.delete):
        assert method(f"{PREVIEW}/{name}").status_code == 404
