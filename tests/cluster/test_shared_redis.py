"""A cluster on a Redis that is not its own: others have keys and queues there, and it goes away as it likes.

The cluster's user may touch nothing outside of its prefix. One stack serves all tests; through all of them runs a job,
which never restarts unless its TaskManager is replaced.
"""

from __future__ import annotations

import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from backend.supervisor.redis_server import RedisServer, configure_redis
from runtime.client.errors import ClientError
from tests.cluster.stack import Stack, running_stack
from tests.cluster.test_stack import HOLDS_SLOTS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

PREFIX = "acme:tidemark-1"
RECOVERY_S = 90.0
#: of another application, which uses Celery as well
OTHERS = {"celery": [b"a task"], "_kombu.binding.celery": [b"celery"], "tidemark:cluster": [b"another cluster's"]}
_PAUSE = threading.Event()


@dataclass
class SharedRedis:
    """A server that is started and ended by the test."""

    server: RedisServer
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """With a user who sees the prefix only."""
        return f"redis://acme:letmein@127.0.0.1:{self.server.port}/0"

    def admin(self) -> redis.Redis:
        return redis.Redis.from_url(self.server.url)

    def start(self) -> None:
        self.process = subprocess.Popen(self.server.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._answers, 10, "Redis's start")
        with self.admin() as admin:
            for key, items in OTHERS.items():
                admin.rpush(key, *items)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError), self.admin() as admin:
            return bool(admin.ping())
        return False


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedRedis]:
    directory = tmp_path_factory.mktemp("redis")
    made = SharedRedis(configure_redis(directory))
    with (directory / "redis.conf").open("a") as file:
        file.write(f"user acme on >letmein ~{PREFIX}:* resetchannels &{PREFIX}:* +@all -@dangerous +info +client\n")
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def stack(shared: SharedRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("home")
    with running_stack(home, REDIS_URL=shared.url, TIDEMARK_REDIS_PREFIX=PREFIX, TIDEMARK_SLOTS="6") as running:
        yield running


@pytest.fixture(scope="module")
def job_id(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    job_id = submit(stack, tmp_path_factory.mktemp("job"))
    wait_until(lambda: stack.client.live(job_id)["state"] == "RUNNING", RECOVERY_S, "the job runs")
    return job_id


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack outlives the tests; its processes are looked after by `running_stack`."""


def submit(stack: Stack, directory: Path) -> str:
    program = directory / "numbers.py"
    program.write_text(HOLDS_SLOTS)
    client = stack.client
    options = {"execution.checkpointing.interval": "500 ms"}
    return client.run(client.upload(program), [], options, 1, None)


@contextmanager
def unnoticed(stack: Stack, job_id: str, directory: Path) -> Iterator[None]:
    """The job goes on through the block without a restart; behind it news come, and another job can be run."""
    before = stack.client.live(job_id)
    completed = checkpoints_of(stack, job_id)
    yield
    # the document is that of a leader, and changes
    version = before["version"]
    wait_until(lambda: fresh(stack, job_id).get("version", 0) > version, RECOVERY_S, "news of the job")
    wait_until(lambda: checkpoints_of(stack, job_id) > completed + 2, RECOVERY_S, "checkpoints")
    after = stack.client.live(job_id)
    assert (after["attempt"], after["restarts"]) == (before["attempt"], before["restarts"]), after["exceptions"]
    other = submit(stack, directory)
    wait_until(lambda: stack.client.live(other)["state"] == "RUNNING", RECOVERY_S, "a job that is deployed now")
    stack.client.cancel(other)
    wait_until(lambda: stack.client.live(other)["state"] == "CANCELED", 30, "its end")


def fresh(stack: Stack, job_id: str) -> dict[str, Any]:
    """The job's document; empty while it is out of date, or nobody answers."""
    with suppress(ClientError):
        document = stack.client.live(job_id)
        return {} if document["freshness"]["is_stale"] else dict(document)
    return {}


def checkpoints_of(stack: Stack, job_id: str) -> int:
    with suppress(ClientError):
        latest = stack.client.checkpoints(job_id)["latest"]["completed"]
        return 0 if latest is None else int(latest["id"])
    return 0


def test_everything_in_redis_is_under_the_prefix_and_others_keys_are_left_alone(
    shared: SharedRedis, stack: Stack, job_id: str, tmp_path: Path
) -> None:
    with unnoticed(stack, job_id, tmp_path), shared.admin() as admin:
        keys = {key.decode() for key in admin.keys("*")}
        assert {key for key in keys if not key.startswith(f"{PREFIX}:")} == set(OTHERS)
        assert {f"{PREFIX}:{name}" for name in ("cluster", "beat", "events", f"job:{job_id}")} <= keys
        assert any(key.startswith(f"{PREFIX}:celery:") for key in keys)
        channels = [channel.decode() for channel in admin.pubsub_channels("*")]
        assert [channel for channel in channels if not channel.startswith(f"{PREFIX}:")] == []
        assert {key: admin.lrange(key, 0, -1) for key in OTHERS} == OTHERS
        denied = [entry for entry in admin.acl_log() if entry["username"] == "acme"]
        assert denied == []


def test_a_redis_that_is_paused_holds_no_job_up(shared: SharedRedis, stack: Stack, job_id: str, tmp_path: Path) -> None:
    with unnoticed(stack, job_id, tmp_path), shared.admin() as admin:
        admin.client_pause(20_000, all=True)
        _PAUSE.wait(20)


def test_a_redis_that_is_away_and_comes_back_empty_holds_no_job_up(
    shared: SharedRedis, stack: Stack, job_id: str, tmp_path: Path
) -> None:
    with unnoticed(stack, job_id, tmp_path):
        shared.stop()
        _PAUSE.wait(15)
        shared.start()


def test_a_worker_that_is_connected_but_gets_no_command_is_replaced(
    shared: SharedRedis, stack: Stack, job_id: str, tmp_path: Path
) -> None:
    before, taskmanager = stack.client.live(job_id), stack.pid_of("taskmanager")
    queues = [queue_of(name) for name in workers_of(stack)]
    over = threading.Event()
    # waits without a break, so it is served before the worker, who begins to wait anew each second
    thieves = [threading.Thread(target=steal, args=(shared, queues, over)) for _ in range(2)]
    for thief in thieves:
        thief.start()
    try:
        wait_until(lambda: stack.pid_of("taskmanager") != taskmanager, 150, "another TaskManager")
    finally:
        over.set()
        for thief in thieves:
            thief.join()
    assert "no command has arrived for" in "".join(stack.lines) + logs_of(stack)
    wait_until(lambda: stack.client.live(job_id)["attempt"] > before["attempt"], RECOVERY_S, "a later attempt")
    wait_until(lambda: stack.client.live(job_id)["state"] == "RUNNING", RECOVERY_S, "the job runs again")
    with unnoticed(stack, job_id, tmp_path):
        pass


def workers_of(stack: Stack) -> list[str]:
    """Names of the TaskManagers' Celery workers."""
    connection = sqlite3.connect(stack.home / "db.sqlite3")
    try:
        rows = connection.execute("SELECT worker_name FROM cluster_taskmanager WHERE state = 'REGISTERED'").fetchall()
    finally:
        connection.close()
    return [name for (name,) in rows]


def queue_of(worker_name: str) -> str:
    return f"{PREFIX}:celery:{worker_name}.dq2"


def steal(shared: SharedRedis, queues: list[str], over: threading.Event) -> None:
    with shared.admin() as client:
        while not over.is_set():
            client.blpop(queues, timeout=3)


def logs_of(stack: Stack) -> str:
    return "".join(path.read_text(errors="replace") for path in (stack.home / "logs").glob("taskmanager*.log"))
