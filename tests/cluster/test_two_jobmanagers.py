"""Two real jobmanagers over one database and one Redis: one leads, the other stands by and takes over."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backend.cluster import bus
from tests.cluster.stack import ROOT
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

START_TIMEOUT_S = 60.0
SUBMIT = """
import django
django.setup()
from backend.cluster import services
from tests.cluster.graphs import graph_json
print(services.submit_job(graph_json(1), None, [], {}, None).id)
"""
_PAUSE = threading.Event()


class Pair:
    """Jobmanagers as processes, over a database of their own."""

    def __init__(self, home: Path, redis_url: str) -> None:
        self._home = home
        self._database = home / "db.sqlite3"
        #: of its processes
        self.environment = os.environ | {
            "DATABASE_URL": f"sqlite:///{self._database}",
            "REDIS_URL": redis_url,
            "TIDEMARK_HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.run("manage.py", "migrate", "-v", "0")

    def run(self, *arguments: str, **environment: str) -> str:
        """Run a process of its own to its end; return what it has printed."""
        command, settings = (sys.executable, *arguments), self.environment | environment
        done = subprocess.run(command, cwd=ROOT, env=settings, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def submit(self, **environment: str) -> str:
        """Submit a job; return its id."""
        return self.run("-c", SUBMIT, **environment)

    def epoch_of(self, process: subprocess.Popen[bytes]) -> int:
        """Return the epoch with which it leads; 0: it does not."""
        with closing(sqlite3.connect(self._database)) as connection:
            query = "SELECT epoch FROM cluster_leaderepoch WHERE holder = ?"
            row = connection.execute(query, (name_of(process),)).fetchone()
        return 0 if row is None else int(row[0])

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start another one; returns once it shows itself."""
        with (self._home / f"jobmanager-{len(self.processes)}.log").open("wb") as log:
            command = (sys.executable, "manage.py", "jobmanager")
            settings = self.environment | environment
            process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=log, stderr=log)
        self.processes.append(process)
        wait_until(lambda: name_of(process) in bus.jobmanagers(), START_TIMEOUT_S, "the jobmanager")
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self._home / f"jobmanager-{self.processes.index(process)}.log").read_text()


def name_of(process: subprocess.Popen[bytes]) -> str:
    return f"{socket.gethostname()}:{process.pid}"


@pytest.fixture
def pair(tmp_path: Path, live_redis: str) -> Iterator[Pair]:
    made = Pair(tmp_path, live_redis)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait()


def test_two_jobmanagers_change_the_epoch_once_in_a_minute(pair: Pair) -> None:
    first, second = pair.start(), pair.start()
    wait_until(lambda: pair.epoch_of(first) == 1, 10, "the first one leads")
    for _ in range(60):
        _PAUSE.wait(1)
        assert pair.epoch_of(first) == 1
    assert first.poll() is None and second.poll() is None
    assert bus.jobmanagers() == sorted([name_of(first), name_of(second)])
    assert "standing by" in pair.log(second)


def test_a_standby_leads_when_the_leader_is_killed_or_frozen_or_stopped(pair: Pair) -> None:
    first, second = pair.start(), pair.start()
    wait_until(lambda: pair.epoch_of(first) == 1, 10, "the first one leads")
    key = bus.JOB_KEY.format(pair.submit())

    def age_ms() -> int:
        return bus.read_document(key).beat_age_ms or 0

    wait_until(lambda: bus.read_document(key).document is not None, 10, "the job is taken")
    first.kill()
    killed_s = wait_until(lambda: pair.epoch_of(second) == 2, 10, "the other one leads")
    wait_until(lambda: age_ms() < 1_000, 10, "its first beat")
    third = pair.start()
    second.send_signal(signal.SIGSTOP)
    frozen_s = wait_until(lambda: pair.epoch_of(third) == 3, 10, "a third one leads")
    wait_until(lambda: age_ms() < 1_000, 10, "its first beat")
    second.send_signal(signal.SIGCONT)
    assert second.wait(10) != 0
    assert "epoch 2 is over" in pair.log(second)
    fourth, began_s = pair.start(), time.monotonic()
    third.terminate()
    stopped_s = wait_until(lambda: pair.epoch_of(fourth) == 4, 10, "a fourth one leads")
    print(f"killed: {killed_s:.2f} s, frozen: {frozen_s:.2f} s, stopped: {stopped_s:.2f} s")
    assert third.wait(10) == 0 and time.monotonic() - began_s < 10
    assert killed_s < 3 and frozen_s < 5 and stopped_s < 2
