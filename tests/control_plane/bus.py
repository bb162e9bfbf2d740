"""The bus of a simulated cluster, in memory: what Redis keeps, and the leader's side of it. It fails and is flushed."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import redis

from backend.cluster import bus
from backend.cluster.events import MalformedEventError, ReceivedEvent, decode_event
from backend.cluster.leader_bus import FENCE_MS, MAX_EVENTS_AT_ONCE, REVIEW_MS, BusError, RefusedError
from backend.cluster.metric_history import StoredSample
from tests.control_plane.scenario import Action, Point

if TYPE_CHECKING:
    from tests.control_plane.fibers import Waiter
    from tests.control_plane.world import World

Document = dict[str, Any]


class Redis:
    """Memory that all processes share, in place of Redis."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.away_until_ms = 0.0
        self.documents: dict[str, Document] = {}
        #: time, number and text of each event
        self.stream: list[tuple[float, int, str]] = []
        self.num_events = 0
        self.readers: deque[Waiter] = deque()
        self.has_beat = False
        #: epoch of the leader that wrote last, and when
        self.fence: tuple[int, float] = (0, 0.0)

    @property
    def is_away(self) -> bool:
        return self._world.clock.monotonic_ms() < self.away_until_ms

    def flush(self) -> None:
        """Lose everything."""
        self.documents.clear()
        self.stream.clear()
        self.has_beat = False
        self.fence = (0, 0.0)

    def post(self, event: Document) -> None:
        """Add an event, as `bus.post_event` does.

        Raises:
            redis.ConnectionError: Redis is away.
        """
        world = self._world
        world.edge()
        if self.is_away:
            raise redis.ConnectionError("Redis is away")
        fault = None
        if event["type"] in ("heartbeat", "stage_ended", "gone"):
            fault = world.passes(Point.EVENT, event["type"])
        text = json.dumps(event)
        if fault is None:
            self.add(text)
        elif fault.action is Action.FAIL:
            raise redis.ConnectionError(str(fault))
        elif fault.action is Action.LATE:
            world.scheduler.later(fault.ms, lambda: self.add(text))
        else:
            self.add(text)
            world.scheduler.later(200.0, lambda: self.add(text))

    def wake(self, event: Document) -> None:
        """Add an event, as `bus.wake_jobmanager` does."""
        if self.is_away:
            raise redis.ConnectionError("Redis is away")
        self.add(json.dumps(event))

    def add(self, text: str) -> None:
        """Add an entry to the stream."""
        self.num_events += 1
        self.stream.append((self._world.clock.monotonic_ms(), self.num_events, text))
        del self.stream[: -bus.MAX_EVENTS]
        self._world.scheduler.wake_all(self.readers)


class SimulatedLeaderBus:
    """Implements LeaderBus.

    Args:
        world: the simulation.
        epoch: of the leader.
    """

    def __init__(self, world: World, epoch: int) -> None:
        self._world = world
        self._redis = world.redis
        self._epoch = epoch
        self._cursor: int | None = None
        self._is_behind = False

    @property
    def is_behind(self) -> bool:
        return self._is_behind

    def take_events(self, wait_s: float) -> list[ReceivedEvent]:
        world, shared = self._world, self._redis
        self._call("take events")
        now_ms = world.clock.monotonic_ms()
        if self._cursor is None:
            old = [number for time_ms, number, _ in shared.stream if time_ms < now_ms - REVIEW_MS]
            self._cursor = old[-1] if old else 0
        answered_ms = now_ms
        if not self._after(self._cursor, now_ms):
            world.scheduler.wait(shared.readers, wait_s * 1000.0)
            self._check()
            # the answer is of the moment of the first event, though a process that is frozen reads it later
            first_ms = [time_ms for time_ms, number, _ in shared.stream if number > self._cursor][:1]
            answered_ms = min([now_ms + wait_s * 1000.0, *first_ms])
        entries = self._after(self._cursor, answered_ms)[:MAX_EVENTS_AT_ONCE]
        self._is_behind = len(entries) == MAX_EVENTS_AT_ONCE
        if entries:
            self._cursor = entries[-1][1]
        received = []
        for time_ms, _, text in entries:
            try:
                received.append(ReceivedEvent(decode_event(text), answered_ms - time_ms))
            except MalformedEventError:
                continue
        return received

    def beat(self) -> bool:
        self._write("beat")
        kept, self._redis.has_beat = self._redis.has_beat, True
        return kept

    def publish(self, topic: str, document: Document) -> None:
        self._write(f"publish {topic}")
        self._redis.documents[bus.TOPIC_KEY.format(topic)] = document

    def put_fields(
        self, key: str, fields: Mapping[str, Document], expiry_s: int, dropped: Sequence[str] | None
    ) -> None:
        self._write(f"put {key}")

    def add_sample(self, sample: StoredSample) -> None:
        """Lose it: that is nobody's fault, and nothing depends on it."""

    def close(self) -> None:
        pass

    def _after(self, cursor: int, until_ms: float) -> list[tuple[float, int, str]]:
        newest = itertools.takewhile(lambda entry: entry[1] > cursor, reversed(self._redis.stream))
        return [entry for entry in newest if entry[0] <= until_ms][::-1]

    def _check(self) -> None:
        self._world.edge()
        if self._redis.is_away:
            raise BusError("Redis is away")

    def _call(self, what: str) -> None:
        world = self._world
        self._check()
        fault = world.passes(Point.BUS, what)
        if fault is None:
            return
        world.befall(fault)
        self._check()
        if fault.action is Action.FAIL:
            raise BusError(str(fault))

    def _write(self, what: str) -> None:
        # a call that is begun under the lease may arrive when it has lapsed: then the fence decides
        process: Any = self._world.scheduler.process
        process.act()
        self._call(what)
        epoch, since_ms = self._redis.fence
        now_ms = self._world.clock.monotonic_ms()
        if epoch > self._epoch and now_ms - since_ms < FENCE_MS:
            self._world.refused["bus"] += 1
            raise RefusedError(f"a leader with an epoch above {self._epoch} is publishing")
        self._redis.fence = (self._epoch, now_ms)
