"""The search for secrets finds them wherever they may be."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import redis

from tests.cluster.leaks import has_text, keys_with

CANARY = "k4n4ry-8d1f0c"
#: long and repetitive, so that Redis packs it
DOCUMENT = json.dumps([{"name": f"number {number}", "secret": CANARY if number == 50 else ""} for number in range(100)])


@pytest.mark.parametrize("kind", ["string", "list", "set", "zset", "hash", "field", "stream", "name"])
def test_a_text_is_found_in_keys_of_every_type(live_redis: str, kind: str) -> None:
    with redis.Redis.from_url(live_redis) as bus:
        client: Any = bus
        client.set("other", "x" * 1_000)
        {
            "string": lambda: client.set("key", DOCUMENT),
            "list": lambda: client.rpush("key", "x", DOCUMENT),
            "set": lambda: client.sadd("key", "x", DOCUMENT),
            "zset": lambda: client.zadd("key", {"x": 1.0, DOCUMENT: 2.0}),
            "hash": lambda: client.hset("key", mapping={"x": "x", "y": DOCUMENT}),
            "field": lambda: client.hset("key", mapping={DOCUMENT: "x"}),
            "stream": lambda: client.xadd("key", {"event": DOCUMENT}),
            "name": lambda: client.set(f"key {CANARY}", "x"),
        }[kind]()
        found = keys_with(bus, CANARY)
    assert len(found) == 1 and "key" in found[0]


def test_a_text_is_found_within_base64() -> None:
    for before in range(3):
        packed = base64.b64encode(b"x" * (40 + before) + CANARY.encode() + b"y").decode()
        assert has_text(json.dumps({"function": packed}).encode(), CANARY)
    assert not has_text(json.dumps({"function": "A" * 60}).encode(), CANARY)
