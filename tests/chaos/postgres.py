"""A private PostgreSQL server that can be stopped, killed and started again with what it holds."""

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
from psycopg import sql

from backend.supervisor.checks import free_port
from tests.chaos.stream import OUT_FIELDS
from tests.connectors.postgres_fixture import _answers, _program
from tests.support.waiting import wait_until

TABLE = f"CREATE TABLE out ({', '.join(f'{name} bigint' for name in OUT_FIELDS)}, UNIQUE (source, seq, kind))"


class PostgresServer:
    """Runs as user postgres if we are root, which the server refuses to be. `close` removes everything.

    Args:
        host: the address that it listens on; everybody who reaches it is trusted.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._directory, self._port = Path(tempfile.mkdtemp(prefix="tidemark-chaos-postgres-")), free_port()
        self._data = self._directory / "data"
        self._data.mkdir()
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            self._directory.chmod(0o755)
            shutil.chown(self._data, self._user)
        self._server: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://tide@{host}:{self._port}/postgres"
        initdb = _program("initdb")
        assert initdb is not None
        subprocess.run(
            (initdb, "-D", self._data, "-U", "tide", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"),
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._user,
            cwd=self._data,
        )
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")
        self.start()
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(TABLE)

    @staticmethod
    def is_installed() -> bool:
        """Return whether a server is installed."""
        return _program("postgres") is not None and _program("initdb") is not None

    def start(self) -> None:
        """Start the server on what it held, and wait until it answers."""
        server = _program("postgres")
        assert server is not None
        settings = ("-c", "fsync=off", "-c", "max_prepared_transactions=64", "-c", "max_connections=60")
        with (self._directory / "server.log").open("ab") as log:
            self._server = subprocess.Popen(
                (server, "-D", self._data, "-p", str(self._port), "-h", self._host, "-k", str(self._data), *settings),
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._data,
            )
        wait_until(lambda: _answers(self.url), 30, "PostgreSQL's start")

    def stop(self, sign: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT in good order, SIGQUIT as if it had crashed."""
        server, self._server = self._server, None
        if server is not None:
            server.send_signal(sign)
            server.wait(30)

    def terminate_connections(self) -> int:
        """Cut the job's connections; how many there were."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            clients = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'tide'"
            return len(connection.execute(f"SELECT pg_terminate_backend(pid) {clients}").fetchall())

    @contextmanager
    def locked_tables(self, pattern: str) -> Iterator[None]:
        """Lock the tables whose names are LIKE the pattern, for everybody else, while the block lasts."""
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE %s", [pattern]).fetchall()
            tables = sql.SQL(", ").join(sql.Identifier(name) for (name,) in found)
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(tables))
            yield

    def clear(self) -> None:
        """Empty the table."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("TRUNCATE out")

    def count(self) -> int | None:
        """Visible rows; None if the server is away."""
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True, connect_timeout=5) as connection:
            found = connection.execute("SELECT count(*) FROM out").fetchone()
            return None if found is None else int(found[0])
        return None

    def rows(self) -> list[tuple[int, ...]]:
        """Everything in the table."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute("SELECT source, seq, key, n, tally, kind, bad, crc FROM out").fetchall()

    def prepared(self) -> list[str]:
        """Names of prepared transactions."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return [gid for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()]

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
