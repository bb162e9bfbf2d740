"""Where connections lead when they are tested or described: URLs that would reach what only this process reaches."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pytest_django import Settings
from redis import RedisError
from rest_framework.test import APIClient

from backend.audit.models import AuditEvent
from backend.pipelines.addresses import AddressRefusedError, Outside, pinned_conninfo, pinned_redis
from backend.pipelines.deadline import Deadline
from tests.cluster.redis_fixture import running_redis
from tests.pipeline.pipelines import chain, node
from tests.pipelines_server.documents import BASE

CONNECTIONS = f"{BASE}/connections"
POSTGRES = (
    "postgresql://u:p@127.0.0.1:5432/db",
    "postgresql://localhost/db",
    "postgresql://127.1/db",
    "postgresql://2130706433/db",
    "postgresql://0x7f000001/db",
    "postgresql://0177.0.0.1/db",
    "postgresql://0/db",
    "postgresql://0.0.0.0/db",
    "postgresql://[::1]/db",
    "postgresql://[::]/db",
    "postgresql://[::ffff:127.0.0.1]/db",
    "postgresql://[::ffff:a9fe:a9fe]/db",
    "postgresql://[::127.0.0.1]/db",
    "postgresql://[64:ff9b::7f00:1]/db",
    "postgresql://[2002:7f00:1::]/db",
    "postgresql://[2001:0:7f00:1::1]/db",
    "postgresql://[fe80::1]/db",
    "postgresql://[fd00::1]/db",
    "postgresql://[fec0::1]/db",
    "postgresql://[feff:ffff::1]/db",
    "postgresql://[3fff::1]/db",
    "postgresql://[3fff:fff:ffff::1]/db",
    "postgresql://[5f00::1]/db",
    "postgresql://[64:ff9b:1::808:808]/db",
    "postgresql://192.0.0.8/db",
    "postgresql://192.0.0.171/db",
    "postgresql://192.88.99.1/db",
    "postgresql://[::ffff:192.0.0.8]/db",
    "postgresql://[64:ff9b::c000:8]/db",
    "postgresql://[ff02::1]/db",
    "postgresql://169.254.169.254:5432/latest/meta-data",
    "postgresql://10.0.0.1/db",
    "postgresql://172.16.0.1/db",
    "postgresql://192.168.1.1/db",
    "postgresql://100.64.0.1/db",
    "postgresql://192.0.2.1/db",
    "postgresql://198.18.0.1/db",
    "postgresql://224.0.0.1/db",
    "postgresql://255.255.255.255/db",
    "postgresql://8.8.8.8:22/db",
    "postgresql://8.8.8.8:80,1.1.1.1:5432/db",
    "postgresql://8.8.8.8,10.0.0.1/db",
    "postgresql://%31%30.0.0.1/db",
    "postgresql://example.invalid/db?hostaddr=10.0.0.1",
    "postgresql://8.8.8.8/db?host=10.0.0.1",
    "postgresql:///db",
    "postgresql://%2Fvar%2Frun%2Fpostgresql/db",
    "host=169.254.169.254 dbname=x",
    "hostaddr=127.0.0.1",
    "dbname=x",
    "service=other",
)
REDIS = (
    "redis://127.0.0.1:6379/0",
    "redis://localhost",
    "redis://",
    "redis:///0?host=10.0.0.1",
    "redis://2130706433",
    "redis://0x7f.1",
    "redis://[::ffff:10.0.0.1]",
    "redis://169.254.169.254:80/",
    "redis://8.8.8.8:25/",
    "rediss://10.0.0.1:6379",
    "unix:///var/run/redis.sock",
    "redis://8.8.8.8?connection_class=x",
    "redis://8.8.8.8?retry=x",
)


@pytest.fixture
def never_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connecting fails the test."""

    def connected(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was begun")

    monkeypatch.setattr(psycopg, "connect", connected)
    monkeypatch.setattr(socket.socket, "connect", connected)


@pytest.mark.usefixtures("never_connected")
@pytest.mark.parametrize(("kind", "urls"), [("postgres", POSTGRES), ("redis", REDIS)])
def test_urls_that_lead_to_this_machine_or_its_neighbours_are_refused(
    admins: APIClient, api: APIClient, monkeypatch: pytest.MonkeyPatch, kind: str, urls: Sequence[str]
) -> None:
    admins.put(f"{CONNECTIONS}/c", {"kind": kind}, format="json")
    for url in urls:
        monkeypatch.setenv("TIDEMARK_SECRET_C_URL", url)
        tested = admins.post(f"{CONNECTIONS}/c/test").json()["test"]
        assert tested["ok"] is False, url
        assert AuditEvent.objects.latest("pk").detail == {"ok": False, "refused": tested["message"]}, url
        described = api.post(f"{CONNECTIONS}/c/describe")
        assert described.status_code == 409, url
        assert described.json()["errors"][0]["message"] == tested["message"]
        event = AuditEvent.objects.latest("pk")
        assert (event.user, event.result, event.detail["refused"]) == ("alice", "failed", tested["message"]), url
    source = node("source.postgres", "Bids", connection="c", table="bids")
    if kind == "postgres":
        read = api.post(f"{BASE}/read-schema", {"document": chain(source), "node": "n0"}, format="json")
        assert read.status_code == 400 and "service" in read.content.decode()
        assert "service" in AuditEvent.objects.latest("pk").detail["refused"]


@pytest.mark.usefixtures("never_connected")
def test_the_setting_that_is_missing_is_named(admins: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    admins.put(f"{CONNECTIONS}/c", {"kind": "redis"}, format="json")
    monkeypatch.setenv("TIDEMARK_SECRET_C_URL", "redis://:canary-31415@127.0.0.1:6379")
    message = admins.post(f"{CONNECTIONS}/c/test").json()["test"]["message"]
    assert message == (
        "this cluster does not connect to 127.0.0.1 port 6379: it is this machine. TIDEMARK_OUTSIDE_ADDRESSES of the "
        "web process lists what else is allowed"
    )


@pytest.mark.usefixtures("never_connected")
@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("redis", "redis://:hunter2/x9@host:6379"),
        ("redis", "redis://:hunter2[x9zz]/@host:6379"),
        ("redis", "redis://:hunter2"),
        ("redis", "redis://:x9@host:hunter2"),
        # too short to be hidden in texts
        ("redis", "redis://:x9/hunter2@host:6379"),
        ("postgres", "postgresql://u:hunter2/x9@h/db"),
        ("postgres", "postgresql://u:x9/hunter2@h/db"),
        ("postgres", "postgresql://u:p@h:hunter2/db"),
        ("postgres", "host=h port=hunter2"),
    ],
)
def test_what_is_taken_for_a_port_is_not_shown(
    admins: APIClient, api: APIClient, monkeypatch: pytest.MonkeyPatch, kind: str, url: str
) -> None:
    admins.put(f"{CONNECTIONS}/c", {"kind": kind}, format="json")
    monkeypatch.setenv("TIDEMARK_SECRET_C_URL", url)
    tested = admins.post(f"{CONNECTIONS}/c/test").json()["test"]
    described = api.post(f"{CONNECTIONS}/c/describe")
    assert (tested["ok"], described.status_code) == (False, 409)
    assert "its host and port cannot be read" in tested["message"]
    told = [json.dumps(tested), described.content.decode(), *(str(event.detail) for event in AuditEvent.objects.all())]
    for secret in ("hunter2", "x9"):
        assert not [text for text in told if secret in text]


@pytest.mark.parametrize("path", ["http://169.254.169.254/latest", "s3://bucket/x.csv"])
def test_files_of_nodes_are_files_of_this_machine(api: APIClient, path: str) -> None:
    source = node("source.files", "Flights", paths=[path], format={"kind": "csv"})
    answer = api.post(f"{BASE}/read-schema", {"document": chain(source), "node": "n0"}, format="json")
    assert answer.status_code == 400, answer.json()


# --- what is allowed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("listed", "host", "port", "is_allowed"),
    [
        ("10.0.0.0/8", "10.1.2.3", 5432, True),
        ("10.0.0.0/8", "11.1.2.3", 5432, True),  # public
        ("10.0.0.0/8", "172.16.0.1", 5432, False),
        ("10.0.0.0/8", "10.1.2.3", 443, False),
        ("10.1.2.3:443", "10.1.2.3", 443, True),
        ("10.1.2.3:443", "10.1.2.3", 5432, False),
        ("[fd00::1]:5433", "fd00::1", 5433, True),
        ("[fd00::1]:5433", "fd00::2", 5433, False),
        ("fd00::/8", "fd00::2", 5432, True),
        ("8.8.8.8:443", "8.8.8.8", 443, True),
        ("127.0.0.0/8", "::ffff:127.0.0.1", 5432, False),
    ],
)
def test_what_is_listed_is_allowed_and_no_more(listed: str, host: str, port: int, is_allowed: bool) -> None:
    outside = Outside([listed])
    if is_allowed:
        assert outside.addresses(host, port) == [host]
    else:
        with pytest.raises(AddressRefusedError):
            outside.addresses(host, port)


def test_a_listed_name_is_allowed_wherever_it_leads() -> None:
    outside = Outside(["db.internal:5432"], lambda host, port: ["10.0.0.7"])
    assert outside.addresses("DB.internal.", 5432) == ["10.0.0.7"]
    for host, port in (("db.internal", 5433), ("db.internal.evil.example", 5432), ("xdb.internal", 5432)):
        with pytest.raises(AddressRefusedError):
            outside.addresses(host, port)


def test_one_address_of_many_is_enough_to_refuse_a_name() -> None:
    outside = Outside([], lambda host, port: ["8.8.8.8", "10.0.0.7"])
    with pytest.raises(AddressRefusedError, match=r"db\.example \(10\.0\.0\.7\) port 5432: it is no public"):
        outside.addresses("db.example", 5432)


@pytest.mark.parametrize("entry", ["10.0.0.0/99", "a:b:c/d", "host:0", "host:x", ":5432"])
def test_a_list_that_cannot_be_read_says_which_entry(entry: str) -> None:
    with pytest.raises(ValueError, match=r"no port|TIDEMARK_OUTSIDE_ADDRESSES"):
        Outside([entry])


def test_a_list_that_cannot_be_read_allows_nothing(
    admins: APIClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TIDEMARK_OUTSIDE_ADDRESSES = ["10.0.0.0/99"]
    admins.put(f"{CONNECTIONS}/c", {"kind": "redis"}, format="json")
    monkeypatch.setenv("TIDEMARK_SECRET_C_URL", "redis://8.8.8.8")
    tested = admins.post(f"{CONNECTIONS}/c/test").json()["test"]
    assert tested["ok"] is False and "10.0.0.0/99" in tested["message"]


# --- pinned -----------------------------------------------------------------------------------------------------------


class Rebinding:
    """A name server whose first answer is allowed, and each later one is not."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return ["127.0.0.1"] if self.asked == 1 else ["127.0.0.2"]


def test_a_name_that_is_bound_anew_leads_where_it_led(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = Rebinding()
    with running_redis(tmp_path) as url:
        named = url.replace("127.0.0.1", "rebinding.example").replace("localhost", "rebinding.example")
        assert "rebinding.example" in named
        with (
            Deadline(60.0) as deadline,
            pinned_redis(named, Outside(["127.0.0.1"], resolve), deadline, retry=None) as client,
        ):
            assert client.ping() and resolve.asked == 1
            client.connection_pool.disconnect()
            assert client.ping() and resolve.asked == 1


def test_postgresql_is_pinned_with_its_name_kept_for_its_certificate() -> None:
    resolve = Rebinding()
    pinned = pinned_conninfo("postgresql://u@rebinding.example:5433/db", Outside(["127.0.0.1"], resolve))
    assert psycopg.conninfo.conninfo_to_dict(pinned) == {
        "user": "u",
        "dbname": "db",
        "host": "rebinding.example",
        "hostaddr": "127.0.0.1",
        "port": "5433",
    }
    both = Outside([], lambda host, port: ["8.8.8.8", "8.8.4.4"])
    given = psycopg.conninfo.conninfo_to_dict(pinned_conninfo("postgresql://a.example,b.example/db", both))
    assert given["host"] == "a.example,a.example,b.example,b.example"
    assert given["hostaddr"] == "8.8.8.8,8.8.4.4,8.8.8.8,8.8.4.4" and given["port"] == "5432,5432,5432,5432"


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """The port of a server that gives every request the same answer."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(1 << 16):
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def test_a_server_cannot_send_this_process_elsewhere(
    admins: APIClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as a cluster's node that has moved, nor by Redis's notices of maintenance."""
    with answering(b"+OK\r\n") as elsewhere, answering(f"-MOVED 1 127.0.0.1:{elsewhere}\r\n".encode()) as port:
        settings.TIDEMARK_OUTSIDE_ADDRESSES = [f"127.0.0.1:{port}"]
        admins.put(f"{CONNECTIONS}/c", {"kind": "redis"}, format="json")
        monkeypatch.setenv("TIDEMARK_SECRET_C_URL", f"redis://127.0.0.1:{port}")
        tested = admins.post(f"{CONNECTIONS}/c/test").json()["test"]
        assert tested["ok"] is False and "127.0.0.1" in json.dumps(tested)
        with (
            pytest.raises(RedisError),
            Deadline(60.0) as deadline,
            pinned_redis(f"redis://127.0.0.1:{port}", Outside([f"127.0.0.1:{port}"]), deadline, retry=None) as client,
        ):
            client.info("server")
