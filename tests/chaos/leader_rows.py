"""What SQL says of a session cluster's leader, jobs and operations, for whoever kills leaders: read past the product.

Each look is a query of its own over a connection that no process of the cluster knows of.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

LOCK_TIMEOUT_S = 0.2


@dataclass(frozen=True, slots=True)
class LeaderRow:
    """The lease."""

    epoch: int
    pid: int
    """Of the leader; 0: nobody leads."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job, and the processes that run it."""

    state: str
    attempt: int
    restarts: int
    parallelism: frozenset[int]
    """Those of its vertices that were rescaled."""
    pids: frozenset[int]
    """Of its slots, as a new leader would find them."""


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation."""

    kind: str
    state: str
    finished_at: int | None
    result: str
    """JSON."""


class ClusterRows:
    """Reads the database of a cluster.

    Args:
        url: of PostgreSQL; "": SQLite.
        path: of SQLite's file.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path

    def leader(self) -> LeaderRow:
        """Return the lease."""
        [(epoch, holder)] = self._query("SELECT epoch, holder FROM cluster_leaderepoch")
        return LeaderRow(int(epoch), int(str(holder).rpartition(":")[2] or 0))

    def job(self, job_id: str) -> JobRow:
        """Return a job."""
        query = "SELECT state, attempt, restarts, CAST(vertex_parallelism AS TEXT) FROM cluster_job WHERE id = '{}'"
        [(state, attempt, restarts, parallelism)] = self._query(query.format(job_id))
        placed = self._query(f"SELECT CAST(slots AS TEXT) FROM cluster_placement WHERE job_id = '{job_id}'")
        pids = frozenset(int(pid) for (slots,) in placed for _, pid, *_ in json.loads(slots))
        return JobRow(state, int(attempt), int(restarts), frozenset(json.loads(parallelism).values()), pids)

    def running(self, epoch: int) -> int:
        """Return the number of jobs that run under a leader, as that has recorded."""
        [(count,)] = self._query(f"SELECT COUNT(*) FROM cluster_job WHERE state = 'RUNNING' AND leader_epoch = {epoch}")
        return int(count)

    def newest_checkpoint(self, job_id: str) -> int:
        """Return the number of a job's newest completed checkpoint; 0: none."""
        [(number,)] = self._query(f"SELECT MAX(checkpoint_id) FROM cluster_checkpoint WHERE job_id = '{job_id}'")
        return int(number or 0)

    def completed_ms(self, job_id: str, above: int) -> int | None:
        """Return when the present leader completed a job's first checkpoint above a number, epoch ms; None: not yet."""
        query = (
            "SELECT MIN(completed_at) FROM cluster_checkpoint WHERE job_id = '{}' AND checkpoint_id > {}"
            " AND leader_epoch = (SELECT epoch FROM cluster_leaderepoch)"
        )
        [(completed_ms,)] = self._query(query.format(job_id, above))
        return None if completed_ms is None else int(completed_ms)

    def operations(self) -> dict[str, OperationRow]:
        """Return all operations, by their ids."""
        query = "SELECT trigger_id, kind, state, finished_at, CAST(result AS TEXT) FROM cluster_operation"
        return {trigger_id: OperationRow(*row) for trigger_id, *row in self._query(query)}

    def operation(self, trigger_id: str) -> OperationRow:
        """Return an operation."""
        return self.operations()[trigger_id]

    def is_locked(self) -> bool:
        """Return whether nobody can write, because somebody stands still in a transaction; SQLite only."""
        if self._url:
            return False
        with closing(sqlite3.connect(self._path, isolation_level=None, timeout=LOCK_TIMEOUT_S)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

    def _query(self, query: str) -> Sequence[Any]:
        with self._connection() as connection:
            return list(connection.execute(query).fetchall())

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self._url:
            with psycopg.connect(self._url, autocommit=True) as connection:
                yield connection
        else:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=20)) as connection:
                yield connection
