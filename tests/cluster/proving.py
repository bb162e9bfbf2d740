"""The self-proving job on a session cluster: what can be seen of it, and the comparison at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from runtime.client.errors import ClientError
from runtime.client.rest import RestClient, RestoreRequest
from tests.chaos.job import JobConfig
from tests.chaos.postgres import PostgresServer
from tests.chaos.verify import FileWatch, compare, compare_state, files_held, pending_timers, positions_of
from tests.cluster.stack import Stack
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).resolve().parent.parent / "chaos" / "session_program.py"
OPTIONS = {"execution.checkpointing.interval": "500 ms", "execution.checkpointing.num-retained": "3"}
#: a loaded machine takes a minute to start a JVM
RECOVERY_S = 90.0
MAX_SHOWN = 10


class Cluster(Protocol):
    """Running session cluster, as far as the job uses it."""

    home: Path

    @property
    def client(self) -> RestClient: ...


class ProvingJob:
    """The job, on a stack, with the file sink and PostgreSQL.

    Args:
        stack: a running one.
        directory: empty; what the job writes is below it.
        postgres: with an empty table; None: the file sink only.
        options: of the job, beside its own.
        parallelism: of all its vertices.
        rows_per_second: of each of its sources.
    """

    def __init__(
        self,
        stack: Cluster,
        directory: Path,
        postgres: PostgresServer | None,
        options: Mapping[str, str] | None = None,
        parallelism: int = 2,
        *,
        rows_per_second: float = JobConfig.rows_per_second,
    ) -> None:
        self.stack = stack
        self._postgres = postgres
        self._table_count = 0
        url = "" if postgres is None else postgres.url
        config = JobConfig(str(directory), postgres_url=url, rows_per_second=rows_per_second)
        config.make_directories()
        self.files = FileWatch(directory / "out")
        self._config = directory / "config.json"
        config.write(self._config)
        self._options = OPTIONS | dict(options or {})
        self._program = stack.client.upload(PROGRAM)
        self.id = self._run(self._options, parallelism, None)

    def resume(self, savepoint: str, options: Mapping[str, str], parallelism: int) -> None:
        """Start it again, as another job that goes on from the savepoint that it was stopped with.

        Args:
            savepoint: its location.
            options: in place of some of its own.
            parallelism: of all its vertices.
        """
        self.id = self._run(self._options | dict(options), parallelism, RestoreRequest(savepoint))

    def _run(self, options: Mapping[str, str], parallelism: int, restore: RestoreRequest | None) -> str:
        return self.stack.client.run(self._program, [str(self._config)], options, parallelism, None, restore)

    def live(self) -> dict[str, Any]:
        return dict(self.stack.client.live(self.id))

    def total(self) -> int:
        """Return the number of records in visible files."""
        self.files.read()
        return len(self.files.rows)

    def completed(self) -> int:
        """Number of its newest completed checkpoint."""
        latest = self.stack.client.checkpoints(self.id)["latest"]["completed"]
        return 0 if latest is None else int(latest["id"])

    def slots(self) -> set[int]:
        """Processes that its tasks run in."""
        return {subtask["pid"] for vertex in self.live()["vertices"] for subtask in vertex["subtasks"]}

    def wait_until_it_moves(self, what: str) -> float:
        """Wait until it runs, and more is visible in files and in the table; seconds."""
        before = self.total()
        took = wait_until(
            lambda: answers(lambda: self.live()["state"] == "RUNNING") and self.total() > before, RECOVERY_S, what
        )
        count = self._count()
        if self._postgres is not None:
            took += wait_until(lambda: self._count() > count, RECOVERY_S, f"{what}: rows in PostgreSQL")
        return took

    def check_that_nothing_visible_has_changed(self) -> None:
        """Files only become more, and so do rows."""
        assert self.aborted_reads() == []

    def aborted_reads(self) -> list[str]:
        """Return what was visible and is not any more, as violations, each of them once."""
        self.files.read()
        violations, self.files.violations = self.files.violations, []
        count = self._count()
        if count < self._table_count:
            violations.append(f"aborted read: {count} rows, there were {self._table_count}")
        self._table_count = count
        return violations

    def stop(self) -> None:
        """Stop it behind a savepoint, and compare all it has put out, and its state, with the model."""
        client = self.stack.client
        request_id = client.stop(self.id, None, "CANONICAL", drain=False)
        wait_until(lambda: client.operation(self.id, request_id)["state"] == "COMPLETED", RECOVERY_S, "the stop")
        result = client.operation(self.id, request_id)["result"]
        assert "error" not in result, result
        wait_until(lambda: self.live()["state"] == "FINISHED", RECOVERY_S, "the job's end")
        self.check_that_nothing_visible_has_changed()
        violations = self.violations(str(result["location"]))
        assert violations == [], violations[:MAX_SHOWN]

    def violations(self, savepoint: str) -> list[str]:
        """Return the differences of all it has put out, and of its state, from the model.

        Args:
            savepoint: that it has stopped with.
        """
        savepoint = savepoint.removeprefix("file://")
        positions, pending = positions_of(savepoint), pending_timers(savepoint)
        self.files.read()
        violations = [*self.files.violations, *compare("files", self.files.rows, positions, pending)]
        violations += compare_state(positions, savepoint)
        violations += self._leftover_files()
        if self._postgres is not None:
            violations += compare("table", self._postgres.rows(), positions, pending)
            violations += [f"left behind: {gid}" for gid in self._postgres.prepared()]
        left = (self.stack.home / "checkpoints").glob(f"{self.id}/*")
        return violations + [f"left behind: checkpoint {path.name}" for path in left]

    def _leftover_files(self) -> list[str]:
        hidden = {str(path) for path in self.files.hidden()}
        if hidden:
            # a savepoint that nobody has deleted can still be started from
            for savepoint in (self.stack.home / "savepoints").glob("*"):
                hidden -= files_held(savepoint)
        return [f"left behind: {Path(path).name}" for path in sorted(hidden)]

    def _count(self) -> int:
        if self._postgres is None:
            return 0
        count = self._postgres.count()
        assert count is not None, "PostgreSQL does not answer"
        return count


def answers(question: Callable[[], bool]) -> bool:
    """Return the answer to the question; False while the web process does not respond."""
    try:
        return question()
    except ClientError:
        return False


@contextmanager
def proving_job(
    stack: Stack, directory: Path, options: Mapping[str, str] | None = None, parallelism: int = 2
) -> Iterator[ProvingJob]:
    """The job with a PostgreSQL server of its own, which ends with the block; skips the test if there is none."""
    if not PostgresServer.is_installed():
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    postgres = PostgresServer()
    try:
        proving = ProvingJob(stack, directory, postgres, options, parallelism)
        try:
            yield proving
        finally:
            # the stack may be there for other tests
            with suppress(ClientError):
                stack.client.cancel(proving.id)
    finally:
        postgres.close()
