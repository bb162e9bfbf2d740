"""Commands to TaskManagers through a real broker."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery.utils.nodenames import worker_direct
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


def test_commands_expire_by_the_brokers_clock_alone(broker: int) -> None:
    commands.send("worker@here", commands.DEPLOY_TASK, 20.0, epoch=1)
    with app.connection_for_write() as connection, redis.Redis.from_url(app.conf.broker_write_url) as client:
        channel: Any = connection.default_channel
        message = channel.basic_get(worker_direct("worker@here").name)
        seconds, _ = client.time()
    headers = message.headers
    # Celery's own expiry compares the clocks of two machines
    assert headers["expires"] is None
    assert not commands.is_expired(headers, seconds * 1000)
    assert not commands.is_expired(headers, (seconds + 18) * 1000)
    assert commands.is_expired(headers, (seconds + 22) * 1000)
    assert not commands.is_expired({}, seconds * 1000)
