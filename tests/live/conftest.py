"""Fixtures of the live tests: the cast, and a Redis server of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import redis
from asgiref.sync import SyncToAsync
from channels.layers import channel_layers
from pytest_django import Settings

from backend.cluster import bus
from backend.live import documents
from tests.accounts.cast import alice, anonymous, api, no_failed_logins, oscar, victor
from tests.cluster.redis_fixture import running_redis

__all__ = ["alice", "anonymous", "api", "no_failed_logins", "oscar", "victor"]


@pytest.fixture(scope="package", autouse=True)
def sync_thread() -> None:
    """asgiref's one thread for synchronous code lives as long as the process: no test's own."""
    SyncToAsync.single_thread_executor.submit(int).result()


@pytest.fixture(scope="package")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis server."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def bus_redis(redis_url: str, settings: Settings) -> Iterator[redis.Redis]:
    """The empty bus and channel layer of one test."""
    settings.REDIS_URL = redis_url
    layer = settings.CHANNEL_LAYERS["default"]
    [host] = layer["CONFIG"]["hosts"]
    config = {**layer["CONFIG"], "hosts": [{**host, "address": redis_url}]}
    settings.CHANNEL_LAYERS = {"default": {**layer, "CONFIG": config}}
    channel_layers.backends.clear()
    bus.disconnect()
    documents._kept.clear()
    documents._reading.clear()
    client = bus.client()
    client.flushall()
    yield client
    bus.disconnect()
    channel_layers.backends.clear()


@pytest.fixture
def frozen(bus_redis: redis.Redis) -> Callable[[], AbstractContextManager[None]]:
    """Stops the Redis server for a block: it takes connections, and answers nothing."""
    pid = int(bus_redis.info("server")["process_id"])

    @contextmanager
    def freeze() -> Iterator[None]:
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return freeze


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """TIDEMARK_HOME of this test."""
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path
