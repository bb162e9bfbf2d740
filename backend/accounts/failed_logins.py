"""The limit on failed logins: counted in Redis, so that all web processes know of them; any thread.

While Redis does not answer, each web process counts for itself: nobody is locked out, and guessing stays slow.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import redis
from django.core.cache import cache

from backend.cluster import bus

logger = logging.getLogger(__name__)

MAX_FAILURES = 10
"""Failures of one counter within `PERIOD_S` after which further logins are refused."""
PERIOD_S = 60

_KEY = f"{bus.PREFIX}:failed-logins:{{}}"


def is_exhausted(counters: Sequence[str]) -> bool:
    """Return whether one of the counters has reached the limit."""
    try:
        with bus.reader().connected() as connection:
            shared = connection.mget([_KEY.format(counter) for counter in counters])
    except redis.RedisError as error:
        logger.warning("failed logins cannot be read: %s", error)
        shared = []
    own = cache.get_many(counters).values()
    return any(int(count or 0) >= MAX_FAILURES for count in (*shared, *own))


def note_failure(counters: Sequence[str]) -> None:
    """Count a failure; the count of a counter begins anew `PERIOD_S` after its first one."""
    try:
        with bus.reader().connected() as connection:
            pipeline = connection.pipeline()
            for counter in counters:
                pipeline.set(_KEY.format(counter), 0, ex=PERIOD_S, nx=True)
                pipeline.incr(_KEY.format(counter))
            pipeline.execute()
    except redis.RedisError as error:
        logger.warning("a failed login is counted by this process only: %s", error)
        for counter in counters:
            cache.add(counter, 0, PERIOD_S)
            cache.incr(counter)
