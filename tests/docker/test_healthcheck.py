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

from tests.cluster.redis_fixture import running_redis

ROOT = Path(__file__).resolve().parents[2]
EXPIRY_MS = 3_600_000
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
        client.set("tidemark:cluster", json.dumps({"now": NOW, "taskmanagers": [line]}), px=EXPIRY_MS - age_ms)


def test_processes_are_healthy_while_the_jobmanager_reports(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 0, 1_000)
    assert checked("jobmanager", redis_url, tmp_path) == ""
    assert checked("taskmanager", redis_url, tmp_path) == ""


def test_a_taskmanager_without_heartbeats_is_unhealthy(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 0, 20_000)
    assert checked("taskmanager", redis_url, tmp_path) == "taskmanager: no TaskManager of this host is registered"


def test_a_silent_jobmanager_is_unhealthy(redis_url: str, tmp_path: Path) -> None:
    tell(redis_url, 20_000, 0)
    assert checked("jobmanager", redis_url, tmp_path) == "jobmanager: no jobmanager has reported lately"
