"""Fixtures of the cluster's tests: a real Redis, and job graphs of a real program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channels.layers import channel_layers
from pytest_django import Settings

from backend.cluster import bus
from runtime.jobmaster.control_server import ControlServer
from tests.cluster.redis_fixture import running_redis


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the whole test run."""
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(autouse=True)
def ended_servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the control servers that a leader without a lease leaves to the end of its process."""
    made: list[ControlServer] = []
    make = ControlServer.__init__

    def note(self: ControlServer, *args: Any) -> None:
        make(self, *args)
        made.append(self)

    monkeypatch.setattr(ControlServer, "__init__", note)
    yield
    for server in made:
        server.stop()


@pytest.fixture
def live_redis(settings: Settings, redis_url: str) -> Iterator[str]:
    """The settings name a server that is empty."""
    settings.REDIS_URL = redis_url
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [redis_url]}}
    }
    bus.disconnect()
    channel_layers.backends.clear()
    bus.client().flushall()
    yield redis_url
    bus.disconnect()
    channel_layers.backends.clear()


@pytest.fixture
def home(settings: Settings, tmp_path: Path) -> Path:
    """TIDEMARK_HOME of this test."""
    settings.TIDEMARK_HOME = tmp_path
    return tmp_path
