"""The self-proving job in the test's own process, on its SparkSession: started, stopped, started again elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime.datastream import JobClient
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.slot_registry import SlotStatus
from runtime.jobmaster.status import JobStatusSnapshot
from tests.chaos.job import JobConfig, build
from tests.chaos.verify import FileWatch, compare, compare_state, pending_timers, positions_of
from tests.job_runs import record_run
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


class ProvingJob:
    """Runs one job at a time; the output continues from one to the next.

    Args:
        directory: empty; everything is below it.
        options: of all jobs.
    """

    def __init__(self, directory: Path, options: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self._options = dict(options or {})
        config = JobConfig(str(directory))
        config.make_directories()
        self.files = FileWatch(directory / "out")
        self.points = config.points
        self.client: JobClient | None = None

    def start(self, parallelism: int = 2, savepoint: str | None = None, **options: str) -> None:
        """Start the job, from a savepoint if one is given, and wait until it runs."""
        given = self._options | {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        if savepoint is not None:
            given["execution.state-recovery.path"] = savepoint
        config = JobConfig(str(self.directory), parallelism, options=given)
        self.client = build(config).execute_async("proving")
        record_run("spark local")
        wait_until(lambda: self.status.state is JobState.RUNNING, TIMEOUT_S, "the job's start")

    @property
    def status(self) -> JobStatusSnapshot:
        assert self.client is not None
        return self.client.get_status()

    @property
    def workers(self) -> list[int]:
        """Pids of the live slots."""
        return [slot.pid for slot in self.status.slots if slot.pid is not None and slot.status is SlotStatus.LIVE]

    def wait_checkpoints(self, more: int = 1) -> None:
        """Wait until so many more checkpoints are complete, and something is visible."""
        target = self.status.checkpoints.counts.completed + more
        wait_until(
            lambda: self.status.checkpoints.counts.completed >= target and self.files.read() > 0,
            TIMEOUT_S,
            f"{more} checkpoints and output",
        )

    def wait_attempt(self, attempt: int) -> None:
        """Wait until that attempt, or a later one, runs."""
        wait_until(
            lambda: self.status.attempt >= attempt and self.status.state is JobState.RUNNING,
            TIMEOUT_S,
            f"attempt {attempt}",
        )

    def stop(self) -> str:
        """Stop behind a savepoint, whose state is compared with the model; its directory."""
        assert self.client is not None
        target = str(self.directory / "savepoints")
        savepoint = self.client.stop_with_savepoint(False, target).result(TIMEOUT_S).removeprefix("file://")
        self.client.get_job_execution_result().result(TIMEOUT_S)
        _assert_state(savepoint)
        return savepoint

    def check_state(self) -> None:
        """Take a savepoint, whose state is compared with the model; the job goes on."""
        assert self.client is not None
        target = str(self.directory / "savepoints")
        _assert_state(self.client.trigger_savepoint(target).result(TIMEOUT_S).removeprefix("file://"))

    def assert_exact(self, savepoint: str) -> None:
        """All that is visible is what the savepoint covers, each record once, and nothing is hidden."""
        self.files.read()
        assert self.files.violations == []
        violations = compare("files", self.files.rows, positions_of(savepoint), pending_timers(savepoint))
        assert violations == [], violations[:10]
        assert self.files.hidden() == []

    def first_records_since(self, wall_s: float) -> Sequence[float]:
        """Seconds from then until each newer process had its first record in the last operator, in order."""
        found = [float(path.read_text() or 0) for path in (self.directory / "taps").iterdir()]
        return sorted(at - wall_s for at in found if at > wall_s)

    def cancel(self) -> float:
        """Cancel the job if it still runs; seconds until it had ended."""
        started = time.monotonic()
        if self.client is not None and not self.status.state.is_terminal:
            self.client.cancel().result(TIMEOUT_S)
        return time.monotonic() - started


def _assert_state(savepoint: str) -> None:
    violations = compare_state(positions_of(savepoint), savepoint)
    assert violations == [], violations
