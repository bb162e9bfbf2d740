"""The control plane's tests once more, on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cluster.stack import ROOT, running_stack
from tests.cluster.test_stack import DEMO, is_running
from tests.connectors.postgres_fixture import running_postgres
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture
def postgresql() -> Iterator[str]:
    """URL of a database of a server that ends with the test."""
    with running_postgres() as url:
        yield url


LOCKED = """
import django, time
django.setup()
from django.db import OperationalError, connection
from tests.cluster.leading import take_leadership
began = time.monotonic()
try:
    take_leadership("test")
except OperationalError:
    print(round(time.monotonic() - began))
"""


def test_a_process_gives_up_a_table_that_stays_locked(postgresql: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "DATABASE_URL": postgresql,
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_ADMIN_TOKEN": "a-token-of-the-tests-that-nobody-guesses",
    }
    prepare = (sys.executable, str(ROOT / "manage.py"), "prepare")
    subprocess.run(prepare, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    with psycopg.connect(postgresql) as connection:
        connection.execute("LOCK TABLE cluster_leaderepoch IN ACCESS EXCLUSIVE MODE")
        command = (sys.executable, "-c", LOCKED)
        waits = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=-1, text=True, timeout=60)
    assert int(waits.stdout) <= 15


@pytest.mark.timeout(3600)
def test_the_same_tests_pass(postgresql: str) -> None:
    suites = ("accounts", "administration", "audit", "cluster", "dispatcher", "live", "pipelines_server")
    options = ("-q", "-n", "2", "--dist", "loadfile", "-m", "not slow and not spark")
    result = subprocess.run(
        (sys.executable, "-m", "pytest", *options, *(f"tests/{name}" for name in suites)),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": postgresql},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]


def test_the_whole_stack_runs(postgresql: str, tmp_path: Path) -> None:
    with running_stack(tmp_path / "home", DATABASE_URL=postgresql, TIDEMARK_SLOTS="2") as stack:
        wait_until(lambda: is_running(stack, DEMO), 40, "the demo runs")
        assert not (stack.home / "db.sqlite3").exists()
