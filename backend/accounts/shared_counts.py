"""Counts of the last minute that all web processes share through Redis; any thread.

While Redis does not answer, each web process counts for itself: nobody is locked out, and no gate stands open.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import redis
from django.core.cache import cache

from backend.cluster import bus

logger = logging.getLogger(__name__)

PERIOD_S = 60
"""A count begins anew so long after its first event."""

_READ = "return {tonumber(redis.call('GET', KEYS[1]) or 0), redis.call('TTL', KEYS[1])}"
# a key without an expiry would count for ever, and one from before a clock was set back for too long
_ADD = (
    "local n = redis.call('INCR', KEYS[1]) "
    "local left = redis.call('TTL', KEYS[1]) "
    "if left < 0 or left > tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], ARGV[1]) end "
    "return {n, redis.call('TTL', KEYS[1])}"
)


class Count(NamedTuple):
    """Number of events that were counted under one name."""

    events: int
    left_s: int
    """The count begins anew after so long at the latest, >= 1."""


class SharedCounts:
    """Counts of one kind of event, by name.

    Args:
        kind: part of the keys, with hyphens.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def read(self, names: Sequence[str]) -> list[Count]:
        """Return the counts under these names."""
        return self._with_own(names, self._ask(_READ, names))

    def add(self, names: Sequence[str]) -> list[Count]:
        """Count an event under each of these names; return the counts that include it."""
        shared = self._ask(_ADD, names)
        if shared is None:
            for name in names:
                cache.add(self._key(name), 0, PERIOD_S)
                # it may have expired in between
                with suppress(ValueError):
                    cache.incr(self._key(name))
        return self._with_own(names, shared)

    def _ask(self, script: str, names: Sequence[str]) -> list[Count] | None:
        """Run a script for each name; None: Redis does not answer."""
        try:
            with bus.reader().connected() as connection:
                pipeline = connection.pipeline()
                for name in names:
                    pipeline.eval(script, 1, bus.COUNT_KEY.format(self._kind, name), PERIOD_S)
                answers: list[Any] = pipeline.execute()
        except redis.RedisError as error:
            logger.warning("%s are counted by this process only: %s", self._kind.replace("-", " "), error)
            return None
        return [Count(int(events), int(left_s)) for events, left_s in answers]

    def _with_own(self, names: Sequence[str], shared: Sequence[Count] | None) -> list[Count]:
        """Add what this process has counted for itself."""
        counts = []
        for name, (events, left_s) in zip(names, shared or [Count(0, 0)] * len(names), strict=True):
            own = int(cache.get(self._key(name)) or 0)
            counts.append(Count(events + own, PERIOD_S if own else max(1, left_s)))
        return counts

    def _key(self, name: str) -> str:
        return f"{self._kind}:{name}"
