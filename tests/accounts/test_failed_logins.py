"""Failed logins count for all web processes, and are counted without Redis, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.cache import cache
from pytest_django import Settings

from backend.accounts.failed_logins import MAX_FAILURES, PERIOD_S, is_exhausted, note_failure
from backend.cluster import bus
from tests.cluster.redis_fixture import running_redis


@pytest.fixture
def shared_redis(settings: Settings, tmp_path: Path) -> Iterator[None]:
    with running_redis(tmp_path) as url:
        settings.REDIS_URL = url
        bus.disconnect()
        yield
        bus.disconnect()


def test_another_web_process_knows_of_failures(shared_redis: None) -> None:
    for _ in range(MAX_FAILURES):
        assert not is_exhausted(["address:a", "user:u"])
        note_failure(["address:a"])
    # what this process has counted for itself
    cache.clear()
    assert is_exhausted(["address:a", "user:u"])
    assert not is_exhausted(["user:u"])
    [key] = bus.client().keys("*:failed-logins:*")
    assert 0 < bus.client().ttl(key) <= PERIOD_S


def test_failures_are_counted_while_redis_does_not_answer(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.disconnect()
    for _ in range(MAX_FAILURES):
        assert not is_exhausted(["user:u"])
        note_failure(["user:u"])
    assert is_exhausted(["user:u"])
    bus.disconnect()
