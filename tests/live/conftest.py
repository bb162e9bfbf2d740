"""Fixtures of the live tests: the cast, and a Redis server of their own."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from channels.layers import channel_layers
from pytest_django import Settings

from backend.cluster import bus
from backend.live import documents
from tests.accounts.cast import alice, anonymous, api, no_failed_logins, oscar, victor
from tests.support.waiting import wait_until

__all__ = ["alice", "anonymous", "api", "no_failed_logins", "oscar", "victor"]


@pytest.fixture(scope="package")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis server on a free port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    directory = tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(directory)]
    with (directory / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        url = f"redis://127.0.0.1:{port}/0"
        try:
            with redis.Redis.from_url(url) as client:
                wait_until(lambda: _answers(client), 10.0, "Redis answers")
            yield url
        finally:
            process.terminate()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture
def bus_redis(redis_url: str, settings: Settings) -> Iterator[redis.Redis]:
    """The empty bus and channel layer of one test."""
    settings.REDIS_URL = redis_url
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [redis_url]}}
    }
    channel_layers.backends.clear()
    bus.client.cache_clear()
    documents._kept.clear()
    client = bus.client()
    client.flushall()
    yield client
    client.close()
    bus.client.cache_clear()
    channel_layers.backends.clear()


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """TIDEMARK_HOME of this test."""
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path
