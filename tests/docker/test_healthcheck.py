"""The containers' health check, as a process against a real Redis."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from backend.cluster import bus
from tests.cluster.redis_fixture import running_redis

ROOT = Path(__file__).resolve().parents[2]
NOW = 1_000_000


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_redis(tmp_path_factory.mktemp("redis")) as url:
        yield url


def checked(role: str, redis_url: str, home: Path) -> str:
    """Run the check; return why it fails, empty if it does not."""
    env = os.environ | {"REDIS_URL": redis_url, "TIDEMARK_HOME": str(home)}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, "docker/healthcheck.py", role]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr.strip()


def tell(redis_url: str, age_ms: int, heartbeat_age_ms: int) -> None:
    """Write the cluster's document as a jobmanager did `age_ms` ago."""
    line = {"host": socket.gethostname(), "state": "REGISTERED", "last_heartbeat": NOW - heartbeat_age_ms}
    with redis.Redis.from_url(redis_url) as client:
        client.set(bus.CLUSTER_KEY, json.dumps({"now": NOW, "taskmanagers": [line]}))
        client.set(bus.BEAT_KEY, "", px=bus.EXPIRY_S * 1000 - age_ms)


def show_jobmanager(redis_url: str, host: str, age_ms: int) -> None:
    """Show a jobmanager of that host as it did `age_ms` ago."""
    with redis.Redis.from_url(redis_url) as client:
        client.delete(bus.JOBMANAGERS_KEY)
        seconds, _ = client.time()
        client.zadd(bus.JOBMANAGERS_KEY, {f"{host}:7": seconds * 1000 - age_ms})


def test_processes_are_healthy_while_they_report(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 0, 1_000)
    # the check takes seconds to start on a loaded machine, and nobody shows itself again meanwhile
    show_jobmanager(redis_url, socket.gethostname(), -60_000)
    assert checked("jobmanager", redis_url, tmp_path) == ""
    assert checked("taskmanager", redis_url, tmp_path) == ""


def test_a_taskmanager_without_heartbeats_is_unhealthy(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 0, 20_000)
    assert checked("taskmanager", redis_url, tmp_path) == "taskmanager: no TaskManager of this host is registered"


def test_without_a_leader_no_taskmanager_is_healthy(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 20_000, 0)
    assert checked("taskmanager", redis_url, tmp_path) == "taskmanager: no leader has reported lately"


@pytest.mark.parametrize(("host", "age_ms"), [(socket.gethostname(), 20_000), ("another", 0)])
def test_a_silent_jobmanager_is_unhealthy(host: str, age_ms: int, redis_url: str, tmp_path: Path) -> None:
    show_jobmanager(redis_url, host, age_ms)
    expected = "jobmanager: no jobmanager of this host has reported lately"
    assert checked("jobmanager", redis_url, tmp_path) == expected
