"""Counts the WebSockets that each user has open, over all web processes; any thread.

Each socket is a lease in Redis, renewed while it is open, so that those of a process that was killed end by themselves.
While Redis does not answer, each web process counts its own: nobody is locked out, and no gate stands open.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict

import redis

from backend.cluster import bus

logger = logging.getLogger(__name__)

LEASE_S = 90.0
RENEW_S = 30.0
"""Two renewals may fail before a lease ends."""

_HOLD = "redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) "
_TAKE = (
    bus.NOW_MS
    + "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) "
    # from before a clock was set back; those that are open are renewed
    + "redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. string.format('%.0f', now + ARGV[2]), '+inf') "
    + "if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end "
    + _HOLD
    + "return 1"
)


class OpenSockets:
    """The sockets of this process, and their leases.

    Args:
        lease_s: a lease ends so long after its last renewal.
    """

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self._lease_ms = round(lease_s * 1000)
        self._lock = threading.Lock()
        self._own: defaultdict[int, set[str]] = defaultdict(set)

    def take(self, user: int, socket: str, limit: int) -> bool:
        """Take a lease for a socket of a user, unless the user has as many; return whether it was taken."""
        with self._lock:
            if len(self._own[user]) >= limit:
                return False
            self._own[user].add(socket)
        try:
            with bus.reader().connected() as connection:
                is_taken = connection.eval(_TAKE, 1, bus.SOCKETS_KEY.format(user), socket, self._lease_ms, limit)
        except redis.RedisError as error:
            logger.warning("a socket is counted by this process only: %s", error)
            return True
        if not is_taken:
            self._forget(user, socket)
        return bool(is_taken)

    def renew(self, user: int, socket: str) -> None:
        """Renew the lease of a socket that is open; after Redis was away or lost it, also one that it does not have."""
        try:
            with bus.reader().connected() as connection:
                connection.eval(bus.NOW_MS + _HOLD, 1, bus.SOCKETS_KEY.format(user), socket, self._lease_ms)
        except redis.RedisError as error:
            logger.debug("the lease of a socket is not renewed: %s", error)

    def release(self, user: int, socket: str) -> None:
        """End the lease of a socket that is closed, if it has one."""
        self._forget(user, socket)
        try:
            with bus.reader().connected() as connection:
                connection.zrem(bus.SOCKETS_KEY.format(user), socket)
        except redis.RedisError as error:
            logger.debug("the lease of a closed socket ends by itself: %s", error)

    def _forget(self, user: int, socket: str) -> None:
        with self._lock:
            self._own[user].discard(socket)
            if not self._own[user]:
                del self._own[user]
