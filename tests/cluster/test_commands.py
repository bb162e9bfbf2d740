"""Commands to TaskManagers through a real broker."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery.utils.nodenames import worker_direct
from kombu.exceptions import OperationalError

from backend.cluster import commands, tasks
from backend.cluster.seals import command_seal
from backend.config.celery import app
from tests.cluster.redis_fixture import running_redis
from tests.support.waiting import wait_until


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


def test_a_worker_that_is_forgotten_leaves_nothing_with_the_broker(broker: int) -> None:
    with redis.Redis.from_url(app.conf.broker_write_url) as client:

        def kept() -> dict[bytes, int]:
            sizes = {}
            for key in client.scan_iter():
                kind = client.type(key)
                sizes[key] = client.llen(key) if kind == b"list" else client.scard(key) if kind == b"set" else 1
            return sizes

        commands.send("worker@here", commands.PING_TASK, 30.0)
        before = kept()
        commands.send("worker@gone", commands.PING_TASK, 30.0)
        commands.send("worker@gone", commands.END_TASK, 30.0)
        assert kept() != before
        commands.forget("worker@gone")
        assert kept() == before
        # one that nobody has sent to
        commands.forget("worker@unknown")
        assert kept() == before
        # it lived after all
        commands.send("worker@gone", commands.PING_TASK, 30.0)
        assert len(kept()) == len(before) + 1


def test_a_broker_that_is_away_forgets_nobody(broker: int) -> None:
    os.kill(broker, signal.SIGKILL)
    with pytest.raises(OperationalError):
        commands.forget("worker@here")


SEALED = {"worker_name": "worker@here", "task": commands.DEPLOY_TASK, "arguments": {"command_id": "1", "epoch": 3}}


def sealed_headers(**changed: Any) -> dict[str, Any]:
    given = SEALED | changed
    seal = command_seal(given["worker_name"], given["task"], 1000, given["arguments"])
    return {commands.DEADLINE_HEADER: 1000, commands.SEAL_HEADER: seal}


def is_sealed(headers: dict[str, Any]) -> bool:
    return commands.is_sealed(headers, "worker@here", commands.DEPLOY_TASK, {"command_id": "1", "epoch": 3})


def test_a_command_of_the_cluster_carries_its_seal(broker: int) -> None:
    arguments = {"epoch": 1, "job_id": "ä", "slots": [1, 2], "window": 1.5, "token": None}
    commands.send("worker@here", commands.DEPLOY_TASK, 20.0, **arguments)
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        message = channel.basic_get(worker_direct("worker@here").name)
    _, kwargs, _ = message.decode()
    assert {name: value for name, value in kwargs.items() if name != "command_id"} == arguments
    assert commands.is_sealed(message.headers, "worker@here", commands.DEPLOY_TASK, kwargs)
    assert not commands.is_sealed(message.headers, "worker@there", commands.DEPLOY_TASK, kwargs)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {commands.DEADLINE_HEADER: 1000},
        sealed_headers() | {commands.SEAL_HEADER: "guess"},
        sealed_headers() | {commands.SEAL_HEADER: 1},
        # a later deadline: the same command again tomorrow
        sealed_headers() | {commands.DEADLINE_HEADER: 10**15},
        sealed_headers(worker_name="worker@there"),
        sealed_headers(task=commands.KILL_TASK),
        sealed_headers(arguments={"command_id": "1", "epoch": 3, "control_address": "grpc://evil:1"}),
    ],
)
def test_a_command_of_anybody_else_is_not_sealed(headers: dict[str, Any]) -> None:
    assert is_sealed(sealed_headers())
    assert not is_sealed(headers)


class Received:
    """A receiver that notes what is executed."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def deploy(self, command_id: str, epoch: int, deployment: dict[str, object]) -> None:
        self.epochs.append(epoch)

    def end(self, epoch: int, job_id: str, attempt: int, stages: list[int] | None = None) -> None: ...

    def kill(self, epoch: int, processes: list[tuple[str, int]]) -> None: ...

    def answered(self) -> None: ...


def test_a_worker_carries_out_sealed_commands_only(broker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a worker of Celery itself, as it takes them from its queue."""
    received = Received()
    monkeypatch.setattr(tasks._Process, "receiver", received)
    monkeypatch.setattr(tasks._Process, "worker_name", "taskmanager@sealed")
    monkeypatch.setattr(app.conf, "broker_read_url", app.conf.broker_write_url)
    name = "taskmanager@sealed"
    queue: Any = worker_direct(name)
    app.send_task(commands.DEPLOY_TASK, kwargs={"command_id": "1", "epoch": 1}, queue=queue, ignore_result=True)
    forged = {commands.DEADLINE_HEADER: 2**52, commands.SEAL_HEADER: "0" * 64}
    app.send_task(
        commands.DEPLOY_TASK, kwargs={"command_id": "2", "epoch": 2}, queue=queue, headers=forged, ignore_result=True
    )
    commands.send(name, commands.DEPLOY_TASK, 60.0, epoch=3)
    app.conf.task_queues = []
    worker: Any = app.WorkController(
        app=app, hostname=name, pool="solo", queues=[], without_mingle=True, without_gossip=True, without_heartbeat=True
    )
    running = threading.Thread(target=worker.start, daemon=True)
    running.start()
    wait_until(lambda: bool(received.epochs), 30, "the sealed command")
    worker.stop()
    running.join(10)
    assert received.epochs == [3]
