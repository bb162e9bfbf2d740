"""Counts of a recent period that all web processes share through Redis; any thread.

While Redis does not answer, each web process counts for itself: nobody is locked out, and no gate stands open.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import redis
from django.core.cache import cache

from backend.cluster import bus

logger = logging.getLogger(__name__)

PERIOD_S = 60
"""A count begins anew so long after its first event, unless it has another period."""

_READ = "return {tonumber(redis.call('GET', KEYS[1]) or 0), redis.call('TTL', KEYS[1])}"
# a key without an expiry would count for ever, and one from before a clock was set back for too long
_ADD = (
    "local n = redis.call('INCR', KEYS[1]) "
    "local left = redis.call('TTL', KEYS[1]) "
    "if left < 0 or left > tonumber(ARGV[1]) or ARGV[2] == '1' then redis.call('EXPIRE', KEYS[1], ARGV[1]) end "
    "return {n, redis.call('TTL', KEYS[1])}"
)
# of two that have read the same count, one adds
_ADD_IF = "if tonumber(redis.call('GET', KEYS[1]) or 0) ~= tonumber(ARGV[3]) then return {-1, 0} end " + _ADD
_TAKE_BACK = "if tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then redis.call('DECR', KEYS[1]) end return {0, 0}"
_FORGET = "return {0, redis.call('DEL', KEYS[1])}"


class Count(NamedTuple):
    """Number of events that were counted under one name."""

    events: int
    left_s: int
    """The count begins anew after so long at the latest, >= 1."""


class SharedCounts:
    """Counts of one kind of event, by name.

    Args:
        kind: part of the keys, with hyphens.
        period_s: a count begins anew so long after its first event,
        is_prolonged: or after its last one.
    """

    def __init__(self, kind: str, period_s: int = PERIOD_S, *, is_prolonged: bool = False) -> None:
        self._kind = kind
        self.period_s = period_s
        self._is_prolonged = is_prolonged
        self._lock = threading.Lock()

    def read(self, names: Sequence[str]) -> list[Count]:
        """Return the counts under these names."""
        return self._with_own(names, self._ask(_READ, names))

    def add(self, names: Sequence[str]) -> list[Count]:
        """Count an event under each of these names; return the counts that include it."""
        shared = self._ask(_ADD, names)
        if shared is None:
            for name in names:
                self._add_own(name)
        return self._with_own(names, shared)

    def add_if(self, name: str, seen: Count) -> bool:
        """Count an event under a name if none was counted there since; return whether it was counted."""
        own = int(cache.get(self._key(name)) or 0)
        shared = self._ask(_ADD_IF, [name], seen.events - own)
        if shared is not None:
            return shared[0].events > 0
        with self._lock:
            is_same = int(cache.get(self._key(name)) or 0) == seen.events
            if is_same:
                self._add_own(name)
        return is_same

    def take_back(self, name: str) -> None:
        """Count one event less under a name."""
        if self._ask(_TAKE_BACK, [name]) is None:
            with self._lock:
                if int(cache.get(self._key(name)) or 0) > 0:
                    cache.decr(self._key(name))

    def forget(self, name: str) -> None:
        """Begin the count under a name anew."""
        self._ask(_FORGET, [name])
        cache.delete(self._key(name))

    def _ask(self, script: str, names: Sequence[str], *arguments: int) -> list[Count] | None:
        """Run a script for each name; None: Redis does not answer."""
        try:
            with bus.reader().connected() as connection:
                pipeline = connection.pipeline()
                for name in names:
                    key = bus.COUNT_KEY.format(self._kind, name)
                    pipeline.eval(script, 1, key, self.period_s, int(self._is_prolonged), *arguments)
                answers: list[Any] = pipeline.execute()
        except redis.RedisError as error:
            logger.warning("%s are counted by this process only: %s", self._kind.replace("-", " "), error)
            return None
        return [Count(int(events), int(left_s)) for events, left_s in answers]

    def _add_own(self, name: str) -> None:
        key, end = self._key(name), time.monotonic() + self.period_s
        if cache.add(key, 0, self.period_s) or self._is_prolonged:
            cache.touch(key, self.period_s)
            cache.set(f"{key}:end", end, self.period_s)
        # it may have expired in between
        with suppress(ValueError):
            cache.incr(key)

    def _with_own(self, names: Sequence[str], shared: Sequence[Count] | None) -> list[Count]:
        """Add what this process has counted for itself."""
        counts = []
        for name, (events, left_s) in zip(names, shared or [Count(0, 0)] * len(names), strict=True):
            own = int(cache.get(self._key(name)) or 0)
            if own:
                left_s = max(left_s, math.ceil(cache.get(f"{self._key(name)}:end", 0.0) - time.monotonic()))
            counts.append(Count(events + own, max(1, left_s)))
        return counts

    def _key(self, name: str) -> str:
        return f"{self._kind}:{name}"
