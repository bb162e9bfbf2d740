"""Looking for a text that must be nowhere: in what a running cluster answers, sends, stores and prints."""

from __future__ import annotations

import base64
import json
import os
import re
import sqlite3
import threading
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import redis
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from backend.live.authentication import SUBPROTOCOL
from tests.cluster.stack import ROOT, Stack

_BASE64 = re.compile(rb'"([A-Za-z0-9+/]{40,}={0,2})"')
#: asks for a program to be run, and so for parameters
_NOT_ASKED = ("/v1/jars/{jar_id}/plan", "/v1/jobs/{job_id}/yarn-cancel")


def answers_with(stack: Stack, text: str, ids: Mapping[str, str]) -> tuple[list[str], int]:
    """Ask all GETs of the contract and /metrics as an administrator.

    Args:
        stack: the cluster.
        text: must be in no answer.
        ids: name of a parameter of routes → its value; routes with others are left out.

    Returns:
        Paths of the answers that have the text, and how many answers were good.
    """
    contract: dict[str, Any] = json.loads((ROOT / "docs" / "openapi.json").read_text())
    routes = [path for path, methods in contract["paths"].items() if "get" in methods and path not in _NOT_ASKED]
    found, good = [], 0
    for route in [*routes, "/metrics"]:
        wanted = re.findall(r"{(\w+)}", route)
        if not ids.keys() >= set(wanted):
            continue
        path = re.sub(r"{(\w+)}", lambda name: ids[name[1]], route)
        token = (stack.home / "admin-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"http://127.0.0.1:{stack.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                told = f"{response.headers}{response.read().decode(errors='replace')}"
                good += 1
        except urllib.error.HTTPError as error:
            told = f"{error.headers}{error.read().decode(errors='replace')}"
        if text in told:
            found.append(path)
    return found, good


@contextmanager
def frames_of(stack: Stack) -> Iterator[tuple[ClientConnection, list[str]]]:
    """A WebSocket, and all frames that it has brought so far."""
    frames: list[str] = []
    token = (stack.home / "admin-token").read_text().strip()
    host = f"127.0.0.1:{stack.port}"
    with connect(
        f"ws://{host}/ws/live",
        additional_headers={"Authorization": f"Bearer {token}", "Origin": f"http://{host}"},
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        max_size=None,
    ) as socket:

        def read() -> None:
            with suppress(ConnectionClosed):
                for frame in socket:
                    frames.append(str(frame))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield socket, frames
        finally:
            socket.close()
            reader.join()


def subscribe(socket: ClientConnection, topic: str) -> None:
    """Have the server send a topic's document and its changes."""
    socket.send(json.dumps({"type": "subscribe", "topic": topic}))


def stored_with(stack: Stack, text: str, kept: Collection[Path]) -> list[str]:
    """Return the keys of Redis, the tables of SQL and the files of the home that have a text, also within base64.

    Args:
        stack: the cluster.
        text: must be nowhere.
        kept: files that may have it.
    """
    bus = redis.Redis.from_url((stack.home / "redis-url").read_text().strip())
    found = keys_with(bus, text)
    bus.close()
    for table, rows in _tables(stack):
        if any(has_text(str(value).encode(errors="replace"), text) for row in rows for value in row):
            found.append(f"SQL: {table}")
    files = [path for path in stack.home.rglob("*") if path.is_file() and path not in kept]
    return found + [str(path) for path in files if has_text(path.read_bytes(), text)]


def _tables(stack: Stack) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    """Yield the name and the rows of each table."""
    url = os.environ.get("DATABASE_URL")
    database: Any
    if url:
        database, names = psycopg.connect(url), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    else:
        database = sqlite3.connect(f"file:{stack.home / 'db.sqlite3'}?mode=ro", uri=True)
        names = "SELECT name FROM sqlite_master WHERE type = 'table'"
    with closing(database):
        for (table,) in database.execute(names).fetchall():
            yield table, database.execute(f'SELECT * FROM "{table}"')


def keys_with(bus: redis.Redis, text: str) -> list[str]:
    """Return the keys of Redis that have a text in their names or values. A DUMP has them packed, and would hide it."""
    return [f"Redis: {key!r}" for key in bus.scan_iter() if has_text(key, text) or _has_value(bus, key, text)]


def _has_value(bus: Any, key: bytes, text: str) -> bool:
    read = {
        b"string": lambda: [bus.get(key)],
        b"list": lambda: bus.lrange(key, 0, -1),
        b"set": lambda: bus.smembers(key),
        b"zset": lambda: bus.zrange(key, 0, -1),
        b"hash": lambda: [part for field in bus.hgetall(key).items() for part in field],
        b"stream": lambda: [part for _, entry in bus.xrange(key) for field in entry.items() for part in field],
        # it has expired meanwhile
        b"none": list,
    }
    return any(has_text(part or b"", text) for part in read[bus.type(key)]())


def has_text(content: bytes, text: str) -> bool:
    """Return whether a text is in some bytes, or in a base64 text among them, as pickled functions are."""
    raw = text.encode()
    return raw in content or any(raw in base64.b64decode(_padded(part)) for part in _BASE64.findall(content))


def _padded(part: bytes) -> bytes:
    part = part.rstrip(b"=")
    return part[: len(part) - (len(part) % 4 == 1)] + b"=" * (-len(part) % 4)
