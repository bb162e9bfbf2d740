"""A session cluster on PostgreSQL under faults that follow one another: no job is ever RUNNING without output.

The self-proving job runs with RocksDB and unaligned checkpoints. `TIDEMARK_CHAOS_SEEDS=10-19` runs other orders of the
faults; the bounds are generous, what was measured is printed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from runtime.client.errors import ClientError
from tests.chaos.postgres import PostgresServer
from tests.cluster.proving import RECOVERY_S, ProvingJob, answers, proving_job
from tests.cluster.stack import Stack, running_stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

OPTIONS = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "300 ms",
    "execution.checkpointing.unaligned.enabled": "true",
}
_FIRST, _, _LAST = os.environ.get("TIDEMARK_CHAOS_SEEDS", "0-0").partition("-")
SEEDS = range(int(_FIRST), int(_LAST) + 1)
_PAUSE = threading.Event()


class Cluster:
    """Faults of a cluster; each returns when the fault is over."""

    def __init__(self, stack: Stack, job: ProvingJob, database: PostgresServer, draw: random.Random) -> None:
        self.stack, self.job, self._database, self._draw = stack, job, database, draw

    def cut_connections(self) -> None:
        """End every connection to the cluster's database."""
        for _ in range(5):
            self._database.terminate_connections()
            _PAUSE.wait(self._draw.uniform(0.1, 1.0))

    def crash_database(self) -> None:
        """End the database as if its machine had, start it, and kill a slot while everybody comes back."""
        self._crash(self._draw.uniform(1.0, 5.0))
        self.kill_slot()

    def crash_database_and_kill_a_process_after_15_s(self) -> None:
        """Kill a slot while nothing can be written down."""
        self._crash(15.0, self.kill_slot)

    def crash_database_and_kill_a_process_after_40_s(self) -> None:
        """Kill a slot while nothing has been written down for long."""
        self._crash(40.0, self.kill_slot)

    def crash_database_and_kill_the_jobmanager(self) -> None:
        """Have a new leader begin while the database is away."""
        self._crash(5.0, self.kill_jobmanager)

    def restart_database(self) -> None:
        """Restart the database as its administrator does, and kill a slot when it is back."""
        self._crash(self._draw.uniform(0.0, 2.0), sign=signal.SIGINT)
        self.kill_slot()

    def lock_tables_for_40_s(self) -> None:
        """Lock all tables of the cluster, as a migration does; ask for a savepoint and kill a slot meanwhile."""
        slot = self._slot()
        with self._database.locked_tables("cluster_%"):
            _PAUSE.wait(15)
            # it is told to try again
            assert not answers(lambda: bool(self.stack.client.trigger_savepoint(self.job.id, None, "CANONICAL")))
            with suppress(ProcessLookupError):
                os.kill(slot, signal.SIGKILL)
            _PAUSE.wait(25)

    def stop_slot(self) -> None:
        """Freeze a slot for 30 s."""
        pid = self._slot()
        os.kill(pid, signal.SIGSTOP)
        try:
            _PAUSE.wait(30)
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill_slot(self) -> None:
        os.kill(self._slot(), signal.SIGKILL)

    def kill_jobmanager(self) -> None:
        self._kill("jobmanager")

    def kill_taskmanager(self) -> None:
        self._kill("taskmanager")

    def take_savepoint_and_kill_its_slot(self) -> None:
        client = self.stack.client
        request_id = client.trigger_savepoint(self.job.id, None, "CANONICAL")
        _PAUSE.wait(self._draw.uniform(0.0, 0.3))
        self.kill_slot()
        wait_until(
            lambda: answers(lambda: client.operation(self.job.id, request_id)["state"] == "COMPLETED"),
            RECOVERY_S,
            "the answer to the savepoint",
        )

    def all(self) -> list[Callable[[], None]]:
        """All of them, in an order of their own."""
        faults = [
            self.cut_connections,
            self.crash_database,
            self.crash_database_and_kill_a_process_after_15_s,
            self.crash_database_and_kill_a_process_after_40_s,
            self.crash_database_and_kill_the_jobmanager,
            self.stop_slot,
            self.kill_jobmanager,
            self.kill_taskmanager,
            self.take_savepoint_and_kill_its_slot,
        ]
        self._draw.shuffle(faults)
        return faults

    def _crash(
        self, away_s: float, meanwhile: Callable[[], None] = lambda: None, sign: signal.Signals = signal.SIGQUIT
    ) -> None:
        # found before: the database is asked for them
        slot = self._slot()
        self._database.stop(sign)
        try:
            _PAUSE.wait(away_s)
            if meanwhile == self.kill_slot:
                with suppress(ProcessLookupError):
                    os.kill(slot, signal.SIGKILL)
            else:
                meanwhile()
        finally:
            self._database.start()

    def _slot(self) -> int:
        def pids() -> list[int]:
            with suppress(ClientError):
                return sorted(pid for pid in self.job.slots() if pid and psutil.pid_exists(pid))
            return []

        wait_until(lambda: bool(pids()), RECOVERY_S, "a slot")
        return self._draw.choice(pids())

    def _kill(self, name: str) -> None:
        pid = self.stack.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.stack.pid_of(name) != pid, RECOVERY_S, f"another {name}")


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """The stack's processes are looked after by `running_stack`."""


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    if not PostgresServer.is_installed():
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_behind_every_fault_there_is_output_again_and_nothing_is_lost_or_twice(
    seed: int, database: PostgresServer, tmp_path: Path
) -> None:
    run_under(Cluster.all, seed, database, tmp_path)


def test_behind_a_restart_and_a_long_lock_of_the_tables_nothing_is_stranded(
    database: PostgresServer, tmp_path: Path
) -> None:
    def faults(cluster: Cluster) -> list[Callable[[], None]]:
        return [cluster.restart_database, cluster.lock_tables_for_40_s, cluster.take_savepoint_and_kill_its_slot]

    run_under(faults, 0, database, tmp_path)


def run_under(
    faults: Callable[[Cluster], list[Callable[[], None]]], seed: int, database: PostgresServer, tmp_path: Path
) -> None:
    """Run the job under faults, one after the other, and compare all it has put out with the model."""
    (tmp_path / "job").mkdir()
    with (
        running_stack(tmp_path / "home", DATABASE_URL=database.url, TIDEMARK_SLOTS="6") as stack,
        proving_job(stack, tmp_path / "job", OPTIONS) as job,
    ):
        job.wait_until_it_moves("the job runs")
        for fault in faults(Cluster(stack, job, database, random.Random(seed))):
            fault()
            took = job.wait_until_it_moves(fault.__name__)
            print(f"seed {seed}, {fault.__name__}: output after {took:.1f} s")
            job.check_that_nothing_visible_has_changed()
        job.stop()
