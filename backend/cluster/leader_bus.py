"""The leader's side of the bus: events of TaskManagers and users come in, live documents go out.

Events are entries of a Redis stream. Reading leaves them there, so that each new leader reads the last ones, too. Their
age is measured by Redis's clock alone, which also gives entries their ids. Writes are fenced: Redis knows the epoch of
the leader with the latest beat and refuses those of earlier leaders.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

import redis
from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import channel_layers
from channels_redis.core import RedisChannelLayer

from backend.cluster import bus
from backend.cluster.bus import Document
from backend.cluster.events import MalformedEventError, ReceivedEvent, decode_event
from backend.cluster.metric_history import SampleWriter, StoredSample
from backend.cluster.seals import event_seal, is_seal
from backend.cluster.strangers import Strangers
from runtime.network.refusals import REFUSALS

logger = logging.getLogger(__name__)

#: a new leader reads events of this time: all TaskManagers that still live have reported in it
REVIEW_MS: Final = 10_000
#: a leader that has written nothing for this long no longer fences off others: a database that was restored from a
#: backup gives lower epochs
FENCE_MS: Final = 60_000
MAX_EVENTS_AT_ONCE: Final = 1_000
#: an announcement is only a hint that a document has changed: readers also poll
ANNOUNCE_TIMEOUT_S: Final = 2.0


class BusError(Exception):
    """The bus does not answer, or refuses; whatever was asked may have happened or not."""


class RefusedError(BusError):
    """A later leader publishes; nothing was written."""


class LeaderBus(Protocol):
    """Interface of the bus to the leader. Used by one thread.

    Every method may raise BusError; the writing ones also RefusedError. `add_sample` raises neither.
    """

    @property
    def is_behind(self) -> bool:
        """Whether the last call of `take_events` has left events unread that had arrived before it."""

    def take_events(self, wait_s: float) -> list[ReceivedEvent]:
        """Return the events that have arrived since the last call, in order; wait up to `wait_s` for the first.

        The first call also returns recent earlier ones. Malformed events are dropped. Of many events it returns the
        oldest, and `is_behind` tells of the others.
        """

    def beat(self) -> bool:
        """Vouch for all live documents until the next beat; return whether the bus still has what was written to it.

        False: it is empty, because it was restarted or flushed, or because no leader has used it yet.
        """

    def publish(self, topic: str, document: Document) -> None:
        """Replace the live document of a topic, "cluster" or "job:<id>", and announce its "version" to readers.

        It expires after `bus.EXPIRY_S`.
        """

    def put_fields(
        self, key: str, fields: Mapping[str, Document], expiry_s: int, dropped: Sequence[str] | None
    ) -> None:
        """Replace fields of a hash, drop others, and have the hash expire; at once.

        Args:
            key: of the hash.
            fields: the fields to set.
            expiry_s: of the hash.
            dropped: names of fields; None: all that are not in `fields`.
        """

    def add_sample(self, sample: StoredSample) -> None:
        """Have a sample added to the history of a job; at once, and what goes wrong is lost, so it raises nothing."""

    def close(self) -> None:
        """End the connections."""


_FENCE = """
local known = redis.call('GET', KEYS[1])
if known and tonumber(known) > tonumber(ARGV[1]) then return -1 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
"""
_BEAT = (
    _FENCE
    + """
local is_kept = redis.call('EXISTS', KEYS[2])
redis.call('SET', KEYS[2], '', 'EX', ARGV[3])
return is_kept"""
)
_PUBLISH = (
    _FENCE
    + """
redis.call('SET', KEYS[2], ARGV[4], 'EX', ARGV[3])
return 1"""
)
#: arguments after the expiry: number of fields to drop (-1: all), their names, then names and values of fields to set
_PUT_FIELDS = (
    _FENCE
    + """
local dropped = tonumber(ARGV[4])
if dropped < 0 then redis.call('DEL', KEYS[2]) end
local first = 5 + math.max(0, dropped)
for i = 5, first - 1 do redis.call('HDEL', KEYS[2], ARGV[i]) end
for i = first, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1"""
)


class RedisLeaderBus:
    """The bus of one leader over Redis.

    Args:
        epoch: of the leader.
    """

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._announcer = Announcer()
        self._samples = SampleWriter(epoch)
        #: id of the last entry read; "": none yet
        self._cursor = ""
        self._is_behind = False
        self._strangers = Strangers()

    @property
    def is_behind(self) -> bool:
        return self._is_behind

    def take_events(self, wait_s: float) -> list[ReceivedEvent]:
        with _errors():
            if not self._cursor:
                self._cursor = f"{max(0, _time_ms(bus.client().time()) - REVIEW_MS)}-0"
            pipeline = bus.client().pipeline(transaction=False)
            pipeline.xread({bus.EVENTS_KEY: self._cursor}, MAX_EVENTS_AT_ONCE, max(1, round(wait_s * 1000)))
            pipeline.time()
            pipeline.xrevrange(bus.EVENTS_KEY, count=1)
            found, now, newest = pipeline.execute()
        now_ms = _time_ms(now)
        # one stream was asked for
        entries = [entry for _, of_stream in _streams(found) for entry in of_stream]
        if entries:
            self._cursor = entries[-1][0]
        elif not newest or _position(newest[0][0]) < _position(self._cursor):
            # Redis lost entries, and gives ids below the cursor again
            self._cursor = ""
        self._is_behind = len(entries) >= MAX_EVENTS_AT_ONCE
        received = (_received(entry_id, fields or {}, now_ms, self._strangers) for entry_id, fields in entries)
        return [event for event in received if event is not None]

    def beat(self) -> bool:
        return self._write(_BEAT, bus.BEAT_KEY, bus.EXPIRY_S) == 1

    def publish(self, topic: str, document: Document) -> None:
        text = json.dumps(document, separators=(",", ":"))
        self._write(_PUBLISH, bus.TOPIC_KEY.format(topic), bus.EXPIRY_S, text)
        with _errors():
            self._announcer.announce(topic, document["version"])

    def put_fields(
        self, key: str, fields: Mapping[str, Document], expiry_s: int, dropped: Sequence[str] | None
    ) -> None:
        texts = [part for name, value in fields.items() for part in (name, json.dumps(value, separators=(",", ":")))]
        count = -1 if dropped is None else len(dropped)
        self._write(_PUT_FIELDS, key, expiry_s, count, *(dropped or ()), *texts)

    def add_sample(self, sample: StoredSample) -> None:
        self._samples.add(sample)

    def close(self) -> None:
        self._samples.close()
        self._announcer.close()

    def _write(self, script: str, key: str, *arguments: str | int) -> int:
        with _errors():
            written = bus.client().eval(script, 2, bus.EPOCH_KEY, key, self._epoch, FENCE_MS, *arguments)
        if written == -1:
            raise RefusedError(f"a leader with an epoch above {self._epoch} is publishing")
        return int(str(written))


class Announcer:
    """Tells the web processes that documents have changed. Has an event loop of its own for its lifetime, because a
    channel layer keeps its connections per loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # its own layer: closing it must not affect another thread's connections
        self._layer = channel_layers.make_backend(DEFAULT_CHANNEL_LAYER)

    def announce(self, topic: str, version: int) -> None:
        """Announce a new version of a topic; its group's name has a dot for the colon."""
        message = {"type": "live.changed", "topic": topic, "version": version}
        sending = self._layer.group_send(topic.replace(":", "."), message)
        self._loop.run_until_complete(asyncio.wait_for(sending, ANNOUNCE_TIMEOUT_S))

    def close(self) -> None:
        if isinstance(self._layer, RedisChannelLayer):
            self._loop.run_until_complete(self._layer.close_pools())
        self._loop.close()


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise BusError(str(error)) from error


def _received(entry_id: str, fields: Mapping[str, str], now_ms: int, strangers: Strangers) -> ReceivedEvent | None:
    """Decode an entry of the stream; None if it is malformed, or if no process of this cluster has written it."""
    text = fields.get(bus.EVENT_FIELD, "")
    if not is_seal(fields.get(bus.SEAL_FIELD), event_seal(text)):
        REFUSALS.count("events")
        sender = strangers.name(text, now_ms)
        if sender is not None:
            logger.warning(
                "dropped event %s of %s, which this cluster has not sealed: TIDEMARK_CLUSTER_KEY (where it is not "
                "set, TIDEMARK_SECRET_KEY) has another value there, or is missing; further events of this sender are "
                "dropped without a word for a minute",
                entry_id,
                sender,
            )
        return None
    try:
        event = decode_event(text)
    except MalformedEventError as error:
        REFUSALS.count("events")
        logger.warning("dropped event %s: %s", entry_id, error)
        return None
    return ReceivedEvent(event, max(0.0, now_ms - _position(entry_id)[0]))


def _streams(found: Any) -> list[Any]:
    """Return pairs of stream and entries of an answer to XREAD, which is a mapping in RESP 3."""
    return list(found.items()) if isinstance(found, dict) else list(found or ())


def _position(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence)


def _time_ms(time: Any) -> int:
    seconds, microseconds = time
    return int(seconds) * 1000 + int(microseconds) // 1000
