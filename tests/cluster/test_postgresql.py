"""The control plane's tests once more, on a real PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backend.supervisor.checks import free_port
from tests.cluster.stack import ROOT, running_stack
from tests.cluster.test_stack import DEMO, is_running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]


def binary(name: str) -> str | None:
    """A program of the server: Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def answers(url: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=2).close()
        return True
    return False


@pytest.fixture
def postgresql() -> Iterator[str]:
    """URL of a database of a server that ends with the test."""
    server, initdb = binary("postgres"), binary("initdb")
    if server is None or initdb is None:
        pytest.skip("PostgreSQL is not installed")
    # not below pytest's own directory, which nobody else may enter
    directory, port = Path(tempfile.mkdtemp(prefix="tidemark-postgresql-")), free_port()
    data = directory / "data"
    data.mkdir()
    # the server refuses to run as root
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        directory.chmod(0o755)
        shutil.chown(data, user)
    login: dict[str, Any] = {"user": user, "cwd": data}
    subprocess.run((initdb, "-D", data, "-U", "tide", "-A", "trust", "--no-sync"), check=True, stdout=-3, **login)
    command = (server, "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", str(data), "-c", "fsync=off")
    with (
        (directory / "server.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, **login) as process,
    ):
        url = f"postgres://tide@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: answers(url), 30, "PostgreSQL's start")
            yield url
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(directory, ignore_errors=True)


LOCKED = """
import django, time
django.setup()
from django.db import OperationalError, connection
from backend.cluster.leadership import take_leadership
began = time.monotonic()
try:
    take_leadership("test", 1)
except OperationalError:
    print(round(time.monotonic() - began))
"""


def test_a_process_gives_up_a_table_that_stays_locked(postgresql: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "DATABASE_URL": postgresql,
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
        "TIDEMARK_HOME": str(tmp_path),
        "TIDEMARK_ADMIN_TOKEN": "a-token-of-the-tests",
    }
    prepare = (sys.executable, str(ROOT / "manage.py"), "prepare")
    subprocess.run(prepare, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=120)
    with psycopg.connect(postgresql) as connection:
        connection.execute("LOCK TABLE cluster_leaderepoch IN ACCESS EXCLUSIVE MODE")
        command = (sys.executable, "-c", LOCKED)
        waits = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=-1, text=True, timeout=60)
    assert int(waits.stdout) <= 15


def test_the_same_tests_pass(postgresql: str) -> None:
    suites = [name for name in ("accounts", "cluster", "dispatcher", "live") if (ROOT / "tests" / name).exists()]
    result = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-m", "not slow and not spark", *(f"tests/{name}" for name in suites)),
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
