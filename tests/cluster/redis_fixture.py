"""A real Redis server for tests, on a free port, with a password, that keeps nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from backend.supervisor.redis_server import configure_redis

START_TIMEOUT_S = 10.0


@contextmanager
def running_redis(directory: Path) -> Iterator[str]:
    """The URL of a server that ends with the block."""
    server = configure_redis(directory)
    with subprocess.Popen(server.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(server.url)
            yield server.url
        finally:
            process.kill()


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise
