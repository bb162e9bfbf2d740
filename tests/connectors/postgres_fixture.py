"""A real PostgreSQL server for tests, from the machine's packages, run as user postgres; it keeps nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from backend.supervisor.checks import free_port
from tests.support.waiting import wait_until


def _program(name: str) -> str | None:
    """Debian keeps the server's programs out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=2).close()
        return True
    return False


@contextmanager
def running_postgres(max_prepared_transactions: int = 0) -> Iterator[str]:
    """URL of a database of a server that ends with the block; skips the test if there is none to be started.

    Args:
        max_prepared_transactions: how many the server keeps; PostgreSQL's own default.
    """
    server, initdb = _program("postgres"), _program("initdb")
    if server is None or initdb is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    # not below pytest's own directory, which nobody else may enter
    directory, port = Path(tempfile.mkdtemp(prefix="tidemark-postgres-")), free_port()
    data = directory / "data"
    data.mkdir()
    # the server refuses to run as root
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        directory.chmod(0o755)
        shutil.chown(data, user)
    subprocess.run(
        (initdb, "-D", data, "-U", "tide", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"),
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
        cwd=data,
    )
    settings = ("-c", "fsync=off", "-c", f"max_prepared_transactions={max_prepared_transactions}")
    command = (server, "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", str(data), *settings)
    with (
        (directory / "server.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=data) as process,
    ):
        url = f"postgresql://tide@127.0.0.1:{port}/postgres"
        try:
            wait_until(lambda: _answers(url), 30, "PostgreSQL's start")
            yield url
        finally:
            # fast: without waiting for clients that have not hung up
            process.send_signal(signal.SIGINT)
            process.wait()
            shutil.rmtree(directory, ignore_errors=True)
