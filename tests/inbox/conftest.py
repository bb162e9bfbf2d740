"""Fixtures of the inbox's tests: the cast, and a Redis server of their own."""

from __future__ import annotations

from tests.accounts.cast import alice, anonymous, api, no_failed_logins, oscar, victor
from tests.live.conftest import bus_redis, redis_url

__all__ = ["alice", "anonymous", "api", "bus_redis", "no_failed_logins", "oscar", "redis_url", "victor"]
