"""Redis: the bus between the processes and the store of live documents. Nothing here has to survive.

Every function may raise `redis.RedisError`; readers of documents fall back to SQL. The threads of a process share
clients. Key names are defined in this file only.

Ages are measured by Redis's clock alone: documents, and the key that the leader's beat writes, expire after `EXPIRY_S`;
the remaining time to live tells how long ago each was written. `leader_bus` is the leader's side.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import msgspec
import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from backend.cluster.seals import event_seal
from backend.config import environment

#: every key begins with it
PREFIX = environment.redis_prefix()
TOPIC_KEY = f"{PREFIX}:{{}}"
JOB_KEY = TOPIC_KEY.format("job:{}")
METRICS_KEY = f"{PREFIX}:metrics:{{}}"
STACKS_KEY = f"{PREFIX}:stacks:{{}}"
#: hash whose field "seen" is what a peek has seen
PEEK_KEY = f"{PREFIX}:peek:{{}}"
#: what a peek looks at, for as long as somebody looks
PEEK_LEASE_KEY = f"{PREFIX}:peek-lease:{{}}"
CHECKPOINTS_KEY = f"{PREFIX}:checkpoints:{{}}"
TRACES_KEY = f"{PREFIX}:checkpoint-traces:{{}}"
#: streams of a job's packed samples: of every five seconds, and averaged over every minute
HISTORY_KEY = f"{PREFIX}:history:{{}}"
MINUTES_KEY = f"{PREFIX}:history-minutes:{{}}"
#: hash of the layouts of a job's samples, by their ids
LAYOUTS_KEY = f"{PREFIX}:history-layouts:{{}}"
CLUSTER_KEY = TOPIC_KEY.format("cluster")
PREVIEW_KEY = TOPIC_KEY.format("preview:{}")
#: lives while the process that runs a preview does
PREVIEW_BEAT_KEY = f"{PREFIX}:preview-beat:{{}}"
#: is there if a preview is to stop
PREVIEW_STOP_KEY = f"{PREFIX}:preview-stop:{{}}"
#: user → the preview that the user has begun last
PREVIEW_OF_KEY = f"{PREFIX}:preview-of:{{}}"
#: lives for `EXPIRY_S` after the leader's last beat
BEAT_KEY = f"{PREFIX}:beat"
#: epoch of the leader that published last
EPOCH_KEY = f"{PREFIX}:epoch"
#: stream of events for the leader, each JSON in one field
EVENTS_KEY = f"{PREFIX}:events"
EVENT_FIELD = "event"
#: proves that a process of the cluster has written the event
SEAL_FIELD = "seal"
#: sorted set of the jobmanagers' names by the time at which they were last seen, Redis's clock, ms
JOBMANAGERS_KEY = f"{PREFIX}:jobmanagers"
#: what a jobmanager or TaskManager says of its process: `process_report`
PROCESS_KEY = f"{PREFIX}:process:{{}}"
#: list of the newest parts of the log of such a process: `process_log`
PROCESS_LOG_KEY = f"{PREFIX}:process-log:{{}}"
#: sorted set of a user's WebSockets by the time at which their leases end, Redis's clock, ms
SOCKETS_KEY = f"{PREFIX}:sockets:{{}}"
#: number of events of a kind in the last minute, by name
COUNT_KEY = f"{PREFIX}:{{}}:{{}}"
#: a jobmanager shows itself every second
JOBMANAGER_EXPIRY_MS = 5_000
#: live documents are dropped after this unless a leader publishes them again; SQL has the durable facts
EXPIRY_S = 3600
#: metrics of running jobs are written every two seconds; older ones are from a job that no jobmanager runs
METRICS_EXPIRY_S = 60
#: what was seen of stacks goes stale; whoever looks again asks again
STACKS_EXPIRY_S = 600
#: processes report every five seconds
PROCESS_EXPIRY_S = 60
#: so long the log of a process that has ended can be read
PROCESS_LOG_EXPIRY_S = 600
#: so long after somebody has looked at a peek for the last time, it ends
PEEK_LEASE_S = 30
#: the stream keeps about this many events, the newest; heartbeats repeat what matters
MAX_EVENTS = 10_000
#: seconds that the cluster's own processes wait for an answer
WORK_TIMEOUT_S = 5.0
#: seconds that a user's request for a page waits; longer: a frozen Redis freezes the web server, too
READ_TIMEOUT_S = 1.0
#: while Redis does not answer, one reader per this many seconds tries again; all others fail at once
PROBE_S = 1.0

Document = dict[str, Any]


class Reading(NamedTuple):
    """A document read from Redis."""

    document: Document | None
    """None: there is none."""
    beat_age_ms: int | None
    """Time since the leader's last beat, which vouches for all documents; None: there was none."""
    document_age_ms: int | None = None
    """Time since the document was written; None: unknown."""

    @property
    def vouched_for_ms(self) -> int:
        """Time from the writing of the document to the leader's last beat; 0 if that is unknown."""
        if self.beat_age_ms is None or self.document_age_ms is None:
            return 0
        return max(0, self.document_age_ms - self.beat_age_ms)


@cache
def client() -> redis.Redis:
    """Return the client of the cluster's own processes; it raises if Redis does not answer within 5 s."""
    return _connect(WORK_TIMEOUT_S)


def _connect(timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        decode_responses=True,
        # whatever others have written there
        encoding_errors="replace",
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


def time_ms() -> int:
    """Return the time by Redis's clock, epoch ms."""
    seconds, microseconds = client().time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def ping() -> None:
    """Raise if Redis does not answer."""
    with reader().connected() as connection:
        connection.ping()


def read_document(key: str) -> Reading:
    """Read a live document, if there is one, and its age."""
    with reader().connected() as connection:
        pipeline = connection.pipeline(transaction=False)
        pipeline.get(key)
        pipeline.pttl(BEAT_KEY)
        pipeline.pttl(key)
        text, *left_ms = pipeline.execute()
    return Reading(_document(text), *map(_age_ms, left_ms))


def begin_peek(peek_id: str, lease: Document) -> None:
    """Note what a peek looks at, for PEEK_LEASE_S."""
    with reader().connected() as connection:
        connection.set(PEEK_LEASE_KEY.format(peek_id), json.dumps(lease), ex=PEEK_LEASE_S)


def look_at_peek(peek_id: str) -> tuple[Document | None, float]:
    """Return what a peek looks at, and how many seconds are left of its lease; None: it has ended."""
    with reader().connected() as connection:
        pipeline = connection.pipeline(transaction=False)
        pipeline.get(PEEK_LEASE_KEY.format(peek_id))
        pipeline.pttl(PEEK_LEASE_KEY.format(peek_id))
        text, left_ms = pipeline.execute()
    return _document(text), left_ms / 1000


def renew_peek(peek_id: str) -> bool:
    """Begin the lease of a peek anew; False: it has ended."""
    with reader().connected() as connection:
        return bool(connection.expire(PEEK_LEASE_KEY.format(peek_id), PEEK_LEASE_S))


def end_peek(peek_id: str) -> bool:
    """End the lease of a peek, and forget what it has seen; False: it has ended."""
    with reader().connected() as connection:
        pipeline = connection.pipeline()
        pipeline.delete(PEEK_LEASE_KEY.format(peek_id))
        pipeline.delete(PEEK_KEY.format(peek_id))
        was_open, _ = pipeline.execute()
    return bool(was_open)


def read_documents(keys: Sequence[str]) -> list[Reading]:
    """Read live documents at once, in the order of their keys."""
    if not keys:
        return []
    with reader().connected() as connection:
        pipeline = connection.pipeline(transaction=False)
        pipeline.mget(keys)
        pipeline.pttl(BEAT_KEY)
        for key in keys:
            pipeline.pttl(key)
        texts, beat_left, *left_ms = pipeline.execute()
    return [
        Reading(_document(text), _age_ms(beat_left), _age_ms(left)) for text, left in zip(texts, left_ms, strict=True)
    ]


def _document(text: object) -> Document | None:
    return _decoded(text) if isinstance(text, str) else None


def _decoded(text: str) -> Any:
    """Decode JSON, in a third of the standard library's time; what msgspec refuses, such as NaN, that library reads."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text)


def _age_ms(left_ms: int) -> int | None:
    # negative: the key does not exist, or its writer has set no expiry
    return max(0, EXPIRY_S * 1000 - left_ms) if left_ms >= 0 else None


def get_fields(key: str, names: Sequence[str]) -> list[Document]:
    """Read fields of a hash, in the order of `names`; {} for missing ones."""
    if not names:
        return []
    with reader().connected() as connection:
        texts = connection.hmget(key, list(names))
    return [_decoded(text) if isinstance(text, str) else {} for text in texts]


def get_all_fields(key: str) -> dict[str, Document]:
    """Read a whole hash; {} if there is none."""
    with reader().connected() as connection:
        found: Any = connection.hgetall(key)
    return {str(name): _decoded(text) for name, text in found.items()}


def post_event(event: Document) -> None:
    """Queue an event for the jobmanager."""
    _post(client(), event)


def wake_jobmanager(event: Document) -> None:
    """Queue an event that only saves a waiting user time: the jobmanager would find the change by polling."""
    with reader().connected() as connection:
        _post(connection, event)


def _post(connection: redis.Redis, event: Document) -> None:
    # trimmed to whole nodes of the stream, which costs the server nothing
    text = json.dumps(event)
    fields: Any = {EVENT_FIELD: text, SEAL_FIELD: event_seal(text)}
    connection.xadd(EVENTS_KEY, fields, maxlen=MAX_EVENTS, approximate=True)


#: beginning of a script that needs the time by Redis's clock, `now`, epoch ms
NOW_MS = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "


_FORGET_OTHERS = "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1]) "


def show_jobmanager(name: str) -> None:
    """Note that a jobmanager lives; forget those that do not, whether or not somebody reads them."""
    script = NOW_MS + _FORGET_OTHERS + "redis.call('ZADD', KEYS[1], now, ARGV[2])"
    client().eval(script, 1, JOBMANAGERS_KEY, JOBMANAGER_EXPIRY_MS, name)


def hide_jobmanager(name: str) -> None:
    """Forget a jobmanager that ends."""
    client().zrem(JOBMANAGERS_KEY, name)


def jobmanagers() -> list[str]:
    """Return the names of the jobmanagers seen lately, sorted; forget the others."""
    script = NOW_MS + _FORGET_OTHERS + "return redis.call('ZRANGE', KEYS[1], 0, -1)"
    with reader().connected() as connection:
        names: Any = connection.eval(script, 1, JOBMANAGERS_KEY, JOBMANAGER_EXPIRY_MS)
    return sorted(names)
