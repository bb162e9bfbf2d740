"""Commands to TaskManagers through a real broker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kombu.exceptions import OperationalError

from backend.cluster import commands
from backend.config.celery import app
from tests.cluster.redis_fixture import running_redis


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The process of a broker, of this test alone, that commands go to."""
    with running_redis(tmp_path) as url:
        monkeypatch.setattr(app.conf, "broker_write_url", url)
        with redis.Redis.from_url(url) as client:
            process = int(client.info("server")["process_id"])
        yield process


def test_a_command_through_a_frozen_broker_fails_soon(broker: int) -> None:
    commands.send("worker@here", commands.PING_TASK, 30.0)
    os.kill(broker, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(OperationalError):
        commands.send("worker@here", commands.PING_TASK, 30.0)
    assert time.monotonic() - started < 2 * commands.SEND_TIMEOUT_S
    os.kill(broker, signal.SIGCONT)
    commands.send("worker@here", commands.PING_TASK, 30.0)


def test_a_command_without_a_broker_fails(broker: int) -> None:
    os.kill(broker, signal.SIGKILL)
    with pytest.raises(OperationalError):
        commands.send("worker@here", commands.PING_TASK, 30.0)
