"""Redis: the bus between the processes and the place of live documents. Nothing here has to survive.

Every function may raise `redis.RedisError`; readers of documents fall back to SQL. Clients are shared by the threads of
a process. Key names are in this file only.

The age of what is told here is measured by the clock of Redis alone: the cluster's document is written with every beat
of the jobmanager and expires after `EXPIRY_S`, and what is left of that time says how long ago the beat was.
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
#: live documents of ended jobs, and of a cluster that nobody leads, are dropped after this; SQL has what must be known
EXPIRY_S = 3600
#: metrics of jobs that run are written every two seconds: what is older is of a job that nobody runs
METRICS_EXPIRY_S = 60
#: events that nobody takes (no jobmanager runs) are dropped, oldest first: heartbeats repeat what matters
MAX_EVENTS = 10_000
#: heartbeats that waited longer tell of the past
EVENT_EXPIRY_MS = 10_000
#: seconds that the cluster's own processes wait for an answer
WORK_TIMEOUT_S = 5.0
#: seconds that people wait who ask for a page; longer makes one frozen server freeze the other
READ_TIMEOUT_S = 1.0
#: while Redis does not answer, one reader in so many seconds tries again; all others are told at once
PROBE_S = 1.0
#: an announcement is a hint that a document has changed: readers look by themselves, too
ANNOUNCE_TIMEOUT_S = 2.0

Document = dict[str, Any]


class Reading(NamedTuple):
    """A document as Redis has it."""

    document: Document | None
    """None: there is none."""
    beat_age_ms: int | None
    """Since the jobmanager's last beat, which vouches for all documents; None: there is none."""


@cache
def client() -> redis.Redis:
    """The client of the cluster's own processes; a server that does not answer within 5 s raises."""
    return _connect(WORK_TIMEOUT_S)


def _connect(timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        socket_timeout=timeout_s,
        socket_connect_timeout=min(timeout_s, 2.0),
        # a connection that a restarted server has closed is made anew; a server that is silent is not asked again
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


class PromptReader:
    """Redis for those who cannot wait. Once it does not answer, one caller in a second finds out whether it does again,
    and all others fail at once. Any thread."""

    def __init__(self) -> None:
        self._client = _connect(READ_TIMEOUT_S)
        self._lock = threading.Lock()
        #: monotonic seconds; 0: it answers
        self._silent_until = 0.0

    @contextmanager
    def connected(self) -> Iterator[redis.Redis]:
        """The client, for one call.

        Raises:
            redis.ConnectionError: Redis did not answer a moment ago.
        """
        with self._lock:
            now = time.monotonic()
            if now < self._silent_until:
                raise redis.ConnectionError("it did not answer a moment ago")
            if self._silent_until:
                # this caller tries; the others need not wait with it
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
    """What web processes read with."""
    return PromptReader()


def disconnect() -> None:
    """End this process's connections; the next call makes new ones, as the settings then say."""
    for kept in (client, reader):
        if kept.cache_info().currsize:
            kept().close()
        kept.cache_clear()


def ping() -> None:
    """See whether Redis answers."""
    with reader().connected() as connection:
        connection.ping()


def put_document(key: str, document: Document, expiry_s: int | None = None) -> None:
    """Replace a live document."""
    client().set(key, json.dumps(document, separators=(",", ":")), ex=expiry_s)


def read_document(key: str) -> Reading:
    """A live document, if there is one, and how old what it says is."""
    with reader().connected() as connection:
        pipeline = connection.pipeline(transaction=False)
        pipeline.get(key)
        pipeline.pttl(CLUSTER_KEY)
        text, left_ms = pipeline.execute()
    # negative: there is no such key, or somebody wrote it who gives no beat
    age_ms = max(0, EXPIRY_S * 1000 - left_ms) if left_ms >= 0 else None
    return Reading(json.loads(text) if isinstance(text, str) else None, age_ms)


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
    with reader().connected() as connection:
        texts = connection.hmget(key, list(names))
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
    """Queue an event that it would come upon by itself, for a user who waits."""
    with reader().connected() as connection:
        _post(connection, event)


def _post(connection: redis.Redis, event: Document) -> None:
    pipeline = connection.pipeline(transaction=False)
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
