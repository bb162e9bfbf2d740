"""Redis: the bus between the processes and the place of live documents. Nothing here has to survive.

Every function may raise `redis.RedisError`; readers of documents fall back to SQL. One client per process, which is
safe to share between threads. Key names are in this file only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import redis
from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import channel_layers
from channels_redis.core import RedisChannelLayer
from django.conf import settings

JOB_KEY = "tidemark:job:{}"
METRICS_KEY = "tidemark:metrics:{}"
CHECKPOINTS_KEY = "tidemark:checkpoints:{}"
CLUSTER_KEY = "tidemark:cluster"
EVENTS_KEY = "tidemark:events:jobmanager"
#: live documents of ended jobs are dropped after this; SQL has their last one
EXPIRY_S = 3600
#: metrics of jobs that run are written every two seconds: what is older is of a job that nobody runs
METRICS_EXPIRY_S = 60
#: events that nobody takes (no jobmanager runs) are dropped, oldest first: heartbeats repeat what matters
MAX_EVENTS = 10_000
#: heartbeats that waited longer tell of the past
EVENT_EXPIRY_MS = 10_000

Document = dict[str, Any]


@cache
def client() -> redis.Redis:
    """The process's client; a server that does not answer within 5 s raises."""
    return redis.Redis.from_url(
        settings.REDIS_URL, decode_responses=True, socket_timeout=5.0, socket_connect_timeout=2.0
    )


def put_document(key: str, document: Document, expiry_s: int | None = None) -> None:
    """Replace a live document."""
    client().set(key, json.dumps(document, separators=(",", ":")), ex=expiry_s)


def get_document(key: str) -> Document | None:
    """A live document, if there is one."""
    text = client().get(key)
    return json.loads(text) if isinstance(text, str) else None


def put_fields(key: str, fields: Mapping[str, Document], expiry_s: int | None, dropped: Sequence[str] = ()) -> None:
    """Replace fields of a hash, and drop others; without an expiry it stays."""
    texts: dict[Any, str] = {name: json.dumps(value, separators=(",", ":")) for name, value in fields.items()}
    pipeline = client().pipeline(transaction=False)
    if texts:
        pipeline.hset(key, mapping=texts)
    if dropped:
        pipeline.hdel(key, *dropped)
    if expiry_s is None:
        pipeline.persist(key)
    else:
        pipeline.expire(key, expiry_s)
    pipeline.execute()


def get_fields(key: str, names: Sequence[str]) -> list[Document]:
    """Fields of a hash, in that order; {} for what is not there."""
    if not names:
        return []
    texts = client().hmget(key, list(names))
    return [json.loads(text) if isinstance(text, str) else {} for text in texts]


class Announcer:
    """Tells the web processes that documents have changed. Used by one thread, which it gives an event loop that lives
    as long as this does: a channel layer keeps its connections per loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # of its own: closing it must not touch another thread's connections
        self._layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)

    def announce(self, topic: str, version: int) -> None:
        """`topic` is "cluster" or "job:<id>"; its group has a dot for the colon."""
        message = {"type": "live.changed", "topic": topic, "version": version}
        self._loop.run_until_complete(self._layer.group_send(topic.replace(":", "."), message))

    def close(self) -> None:
        """End the connections."""
        if isinstance(self._layer, RedisChannelLayer):
            self._loop.run_until_complete(self._layer.close_pools())
        self._loop.close()


def post_event(event: Document) -> None:
    """Queue an event for the jobmanager."""
    pipeline = client().pipeline(transaction=False)
    pipeline.rpush(EVENTS_KEY, json.dumps(event))
    pipeline.ltrim(EVENTS_KEY, -MAX_EVENTS, -1)
    pipeline.execute()


def take_events(timeout_s: float, limit: int = 1000) -> list[Document]:
    """Events in order; waits up to `timeout_s` for the first."""
    first = client().blpop([EVENTS_KEY], timeout=timeout_s)
    if not isinstance(first, (list, tuple)):
        return []
    rest = client().lpop(EVENTS_KEY, limit)
    texts = [first[1], *(rest if isinstance(rest, list) else [])]
    return [json.loads(text) for text in texts]
