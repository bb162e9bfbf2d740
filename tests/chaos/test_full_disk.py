"""A file system that fills up under a running job, on Spark: a clear error, and nothing lost when there is room again.

Each test mounts a small tmpfs where the job keeps its checkpoints, its output, or RocksDB's files, and fills it to the
last byte. Only root can mount; elsewhere these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.chaos.in_process import ProvingJob
from tests.chaos.shuffling_program import EXPECTED
from tests.execution.test_spark_micro_batch import lines
from tests.job_runs import record_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

FULL = "No space left on device"
PATIENCE_S = 120.0


class SmallDisk:
    """A file system of a few MiB at a directory.

    Args:
        directory: there, empty.
    """

    def __init__(self, directory: Path) -> None:
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        """Take what room is left; again, what has become free since."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass

    def make_room(self) -> None:
        """Give everything back."""
        self._ballast.unlink()

    def wait_while_full(self, condition: Callable[[], bool], what: str) -> None:
        """Keep it full until something is seen."""

        def still() -> bool:
            self.fill()
            return condition()

        wait_until(still, PATIENCE_S, what)


@contextmanager
def small_disk(directory: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount one for the block; the test is skipped where that is not allowed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    command = ("mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(directory))
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no small file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(directory)
    finally:
        subprocess.run(("umount", "-l", str(directory)), check=False)


def latest_failure(job: ProvingJob) -> str:
    """Why the last checkpoint failed that did."""
    failed = job.status.checkpoints.latest_failed
    return "" if failed is None else failed.failure_message or ""


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_checkpoints_fail_with_the_reason_and_go_on_when_there_is_room(job: ProvingJob, backend: str) -> None:
    with small_disk(job.directory / "checkpoints", 64) as disk:
        job.start(state__backend__type=backend)
        job.wait_checkpoints()
        attempt = job.status.attempt
        disk.wait_while_full(lambda: FULL in latest_failure(job), "a checkpoint that fails for want of room")
        disk.wait_while_full(lambda: job.status.checkpoints.counts.failed > 2, "some more")
        disk.make_room()
        job.wait_checkpoints(2)
        assert job.status.attempt == attempt, job.status.exceptions[-1].cause.message
        job.assert_exact(job.stop())
        # the whole of what failed checkpoints had written is gone
        assert list((job.directory / "checkpoints").iterdir()) == []


def test_a_batch_that_cannot_be_stored_is_taken_again_until_there_is_room(job: ProvingJob) -> None:
    with small_disk(job.directory / "checkpoints", 64) as disk:
        job.start(
            execution__mode="micro-batch",
            execution__micro_batch__max_rows="2000",
            restart_strategy__fixed_delay__delay="500 ms",
        )
        job.wait_checkpoints()

        def is_told() -> bool:
            return any(FULL in entry.cause.message for entry in job.status.exceptions)

        disk.wait_while_full(is_told, "a batch that fails for want of room")
        disk.make_room()
        job.wait_checkpoints(2)
        job.assert_exact(job.stop())
        assert list((job.directory / "checkpoints").iterdir()) == []


def test_a_batch_without_room_for_its_shuffle_says_so_and_is_run_when_there_is_some(tmp_path: Path) -> None:
    shuffles = tmp_path / "shuffles"
    shuffles.mkdir()
    with small_disk(shuffles, 128) as disk:
        command = [sys.executable, "-m", "tests.chaos.shuffling_program", str(tmp_path)]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "started\n"
            disk.fill()
            (tmp_path / "full").touch()
            assert FULL in program.stdout.readline()
            disk.make_room()
            assert program.wait(PATIENCE_S) == 0
        finally:
            program.kill()
            program.communicate()
    record_run("spark local")
    assert lines(tmp_path / "out") == EXPECTED


def test_a_sink_that_cannot_write_fails_the_job_with_the_file_named_until_there_is_room(job: ProvingJob) -> None:
    with small_disk(job.directory / "out", 64) as disk:
        job.start(restart_strategy__fixed_delay__delay="500 ms")
        job.wait_checkpoints()

        def has_failed() -> bool:
            messages = [entry.cause.message for entry in job.status.exceptions]
            return any(FULL in message and str(job.directory / "out") in message for message in messages)

        disk.wait_while_full(has_failed, "a sink that fails for want of room")
        disk.make_room()
        job.wait_checkpoints(2)
        job.assert_exact(job.stop())


def test_a_rocksdb_without_room_loses_nothing(job: ProvingJob) -> None:
    with small_disk(job.directory / "tmp", 256) as disk:
        job.start(state__backend__type="rocksdb", restart_strategy__fixed_delay__delay="500 ms")
        job.wait_checkpoints()

        def is_told() -> bool:
            causes = [entry.cause.message for entry in job.status.exceptions]
            return any(FULL in cause for cause in [*causes, latest_failure(job)])

        disk.wait_while_full(is_told, "a failure for want of room")
        disk.make_room()
        job.wait_checkpoints(2)
        job.assert_exact(job.stop())
