"""Redis: the bus between the processes and the store of live documents. Nothing here has to survive.

Every function may raise `redis.RedisError`; readers of documents fall back to SQL. The threads of a process share
clients. Key names are defined in this file only.

The age of documents is measured by Redis's clock alone: the jobmanager writes the cluster's document with every beat,
to expire after `EXPIRY_S`; the remaining time to live tells how long ago the beat was.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import redis
from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import channel_layers
from channels_redis.core import RedisChannelLayer
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

JOB_KEY = "tidemark:job:{}"
METRICS_KEY = "tidemark:metrics:{}"
CHECKPOINTS_KEY = "tidemark:checkpoints:{}"
CLUSTER_KEY = "tidemark:cluster"
EVENTS_KEY = "tidemark:events:jobmanager"
#: live documents of ended jobs, and of a cluster without a leader, are dropped after this; SQL has the durable facts
EXPIRY_S = 3600
#: metrics of running jobs are written every two seconds; older ones are from a job that no jobmanager runs
METRICS_EXPIRY_S = 60
#: events beyond this (no jobmanager takes them) are dropped, oldest first; heartbeats repeat what matters
MAX_EVENTS = 10_000
#: heartbeats that waited longer in the queue are out of date
EVENT_EXPIRY_MS = 10_000
#: seconds that the cluster's own processes wait for an answer
WORK_TIMEOUT_S = 5.0
#: seconds that a user's request for a page waits; longer: a frozen Redis freezes the web server, too
READ_TIMEOUT_S = 1.0
#: while Redis does not answer, one reader per this many seconds tries again; all others fail at once
PROBE_S = 1.0
#: an announcement is only a hint that a document has changed: readers also poll
ANNOUNCE_TIMEOUT_S = 2.0

Document = dict[str, Any]


class Reading(NamedTuple):
    """A document read from Redis."""

    document: Document | None
    """None: there is none."""
    beat_age_ms: int | None
    """Time since the jobmanager's last beat, which vouches for all documents; None: there was none."""


@cache
def client() -> redis.Redis:
    """Return the client of the cluster's own processes; it raises if Redis does not answer within 5 s."""
    return _connect(WORK_TIMEOUT_S)


def _connect(timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=timeout_s,
        socket_connect_timeout=min(timeout_s, 2.0),
        # reconnect if a restarted server has closed the connection; do not retry if the server is silent
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


class PromptReader:
    """Redis client for callers that cannot wait. Once Redis does not answer, one caller per second tries again and all
    others fail at once. Any thread."""

    def __init__(self) -> None:
        self._client = _connect(READ_TIMEOUT_S)
        self._lock = threading.Lock()
        #: monotonic seconds; 0: it answers
        self._silent_until = 0.0

    @contextmanager
    def connected(self) -> Iterator[redis.Redis]:
        """Yield the client for one call.

        Raises:
            redis.ConnectionError: Redis did not answer a moment ago.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._silent_until:
                raise redis.ConnectionError("it did not answer a moment ago")
            if self._silent_until:
                # this caller tries; others fail at once meanwhile
                self._silent_until = now + READ_TIMEOUT_S + PROBE_S
        try:
            yield self._client
        except (redis.ConnectionError, redis.TimeoutError):
            self._silent_until = time.monotonic() + PROBE_S
            raise
        self._silent_until = 0.0

    def close(self) -> None:
        """End the connections."""
        self._client.close()


@cache
def reader() -> PromptReader:
    """Return the reader of this web process."""
    return PromptReader()


def disconnect() -> None:
    """Close this process's connections; the next call makes new ones with the settings of that time."""
    for kept in (client, reader):
        if kept.cache_info().currsize:
            kept().close()
        kept.cache_clear()


def ping() -> None:
    """Raise if Redis does not answer."""
    with reader().connected() as connection:
        connection.ping()


def put_document(key: str, document: Document, expiry_s: int | None = None) -> None:
    """Replace a live document."""
    client().set(key, json.dumps(document, separators=(",", ":")), ex=expiry_s)


def read_document(key: str) -> Reading:
    """Read a live document, if there is one, and its age."""
    with reader().connected() as connection:
        pipeline = connection.pipeline(transaction=False)
        pipeline.get(key)
        pipeline.pttl(CLUSTER_KEY)
        text, left_ms = pipeline.execute()
    # negative: the key does not exist, or its writer has set no expiry
    age_ms = max(0, EXPIRY_S * 1000 - left_ms) if left_ms >= 0 else None
    return Reading(json.loads(text) if isinstance(text, str) else None, age_ms)


def put_fields(key: str, fields: Mapping[str, Document], expiry_s: int | None, dropped: Sequence[str] = ()) -> None:
    """Replace fields of a hash and drop others; without an expiry the hash stays."""
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
    """Read fields of a hash, in the order of `names`; {} for missing ones."""
    if not names:
        return []
    with reader().connected() as connection:
        texts = connection.hmget(key, list(names))
    return [json.loads(text) if isinstance(text, str) else {} for text in texts]


class Announcer:
    """Tells the web processes that documents have changed. Used by one thread; has an event loop of its own for its
    lifetime, because a channel layer keeps its connections per loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # its own layer: closing it must not affect another thread's connections
        self._layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)

    def announce(self, topic: str, version: int) -> None:
        """Announce a new version of a topic, "cluster" or "job:<id>"; its group's name has a dot for the colon."""
        message = {"type": "live.changed", "topic": topic, "version": version}
        sending = self._layer.group_send(topic.replace(":", "."), message)
        self._loop.run_until_complete(asyncio.wait_for(sending, ANNOUNCE_TIMEOUT_S))

    def close(self) -> None:
        """End the connections."""
        if isinstance(self._layer, RedisChannelLayer):
            self._loop.run_until_complete(self._layer.close_pools())
        self._loop.close()


def post_event(event: Document) -> None:
    """Queue an event for the jobmanager."""
    _post(client(), event)


def wake_jobmanager(event: Document) -> None:
    """Queue an event that only saves a waiting user time: the jobmanager would find the change by polling."""
    with reader().connected() as connection:
        _post(connection, event)


def _post(connection: redis.Redis, event: Document) -> None:
    pipeline = connection.pipeline(transaction=False)
    pipeline.rpush(EVENTS_KEY, json.dumps(event))
    pipeline.ltrim(EVENTS_KEY, -MAX_EVENTS, -1)
    pipeline.execute()


def take_events(timeout_s: float, limit: int = 1000) -> list[Document]:
    """Take queued events in order; wait up to `timeout_s` for the first."""
    first = client().blpop([EVENTS_KEY], timeout=timeout_s)
    if not isinstance(first, (list, tuple)):
        return []
    rest = client().lpop(EVENTS_KEY, limit)
    texts = [first[1], *(rest if isinstance(rest, list) else [])]
    return [json.loads(text) for text in texts]
