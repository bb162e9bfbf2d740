"""The quota of a job's logs: what is deleted for it, what stays, and who is told."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pytest_django import Settings

from backend.cluster import services
from backend.cluster.job_logs import JobLogs, SlotLogWriter, job_log_directory
from backend.cluster.job_store import JobStore
from backend.cluster.log_quota import Trimmed, trim
from backend.cluster.log_retention import LogRetention, growth_of
from backend.cluster.models import Job
from runtime.core.ids import Attempt, SlotId
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader
from tests.cluster.test_log_retention import JOB, Rows
from tests.support.waiting import wait_until

MIB = 1 << 20


def write(root: Path, name: str, size: int, age: int) -> Path:
    """Write a file of the job's logs that was changed so many seconds ago."""
    path = root / JOB / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    at = path.stat().st_mtime - age
    os.utime(path, (at, at))
    return path


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root / JOB)) for path in (root / JOB).rglob("*") if path.is_file())


def trimmed(root: Path, quota: int, *writing: int) -> Trimmed | None:
    return trim(root, JOB, quota, writing.__contains__, lambda: None)


# --- files ------------------------------------------------------------------------------------------------------------


def test_what_was_written_longest_ago_is_deleted_first(tmp_path: Path) -> None:
    write(tmp_path, "attempt-1/slot-0.out.e1.0", 100, age=50)
    write(tmp_path, "attempt-2/slot-0.out.e1.0", 100, age=40)
    # an attempt of a region that ran on
    write(tmp_path, "attempt-1/slot-1.out.e1.0", 100, age=10)
    write(tmp_path, "attempt-3/slot-0.log.e1.0", 100, age=5)
    assert trimmed(tmp_path, 250, 3) == Trimmed(2, 200, (1, 2), 200)
    assert left(tmp_path) == ["attempt-1/slot-1.out.e1.0", "attempt-3/slot-0.log.e1.0"]


def test_nothing_is_deleted_within_the_quota(tmp_path: Path) -> None:
    write(tmp_path, "attempt-1/slot-0.out.e1.0", 100, age=50)
    assert trimmed(tmp_path, 100) is None and trimmed(tmp_path / "nowhere", 100) is None
    assert left(tmp_path) == ["attempt-1/slot-0.out.e1.0"]


def test_the_current_file_of_a_slot_that_may_write_stays_however_old_and_large(tmp_path: Path) -> None:
    for name, age in (("out.e1.0", 90), ("out.e2.100", 80), ("log.e1.0", 70), ("out.e2.mark", 60)):
        write(tmp_path, f"attempt-5/slot-0.{name}", 100, age)
    # the slot may have written them late
    write(tmp_path, "attempt-4/slot-0.out.e1.0", 100, age=1)
    assert trimmed(tmp_path, 1, 5) == Trimmed(2, 200, (4, 5), 300)
    assert left(tmp_path) == [f"attempt-5/slot-0.{name}" for name in ("log.e1.0", "out.e2.100", "out.e2.mark")]


def test_all_of_an_attempt_that_writes_no_more_can_go(tmp_path: Path) -> None:
    write(tmp_path, "attempt-4/slot-0.out.e1.0", 100, age=9)
    write(tmp_path, "attempt-4/slot-0.out.e1.0.times", 10, age=9)
    write(tmp_path, "attempt-4/slot-0.out.e1.mark", 20, age=9)
    assert trimmed(tmp_path, 1) == Trimmed(2, 110, (4,), 20)
    assert left(tmp_path) == ["attempt-4/slot-0.out.e1.mark"]


def test_links_and_other_files_stay_and_count_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "logs", tmp_path / "outside"
    outside.mkdir()
    (outside / "slot-0.out.e1.0").write_bytes(bytes(1000))
    write(root, "attempt-1/slot-0.out.e1.0", 100, age=9)
    write(root, "attempt-1/notes", 1000, age=99)
    (root / JOB / "attempt-2").symlink_to(outside)
    (root / JOB / "attempt-1" / "slot-9.out.e1.0").symlink_to(outside / "slot-0.out.e1.0")
    assert trimmed(root, 100) is None
    assert trimmed(root, 99) == Trimmed(1, 100, (1,), 0)
    assert (outside / "slot-0.out.e1.0").stat().st_size == 1000
    assert (root / JOB / "attempt-1" / "notes").exists() and (root / JOB / "attempt-2").is_symlink()


@pytest.mark.parametrize("odd", ["..", "../x", f"{JOB}/..", "", "/etc"])
def test_what_is_no_id_of_a_job_loses_nothing(tmp_path: Path, odd: str) -> None:
    write(tmp_path, "attempt-1/slot-0.out.e1.0", 100, age=9)
    with pytest.raises(OSError, match="no id of a job"):
        trim(tmp_path, odd, 1, lambda _: False, lambda: None)
    assert left(tmp_path) == ["attempt-1/slot-0.out.e1.0"]


# --- when -------------------------------------------------------------------------------------------------------------


class Quota:
    """A LogRetention with a quota of 1 MiB, and what it tells."""

    def __init__(self, root: Path) -> None:
        self.rows, self.told, self.clock = Rows(), list[tuple[str, int, str]](), ManualClock(0)
        self.rows.jobs[JOB] = 9
        self.retention = LogRetention(
            root, 20, cast(JobStore, self.rows), lambda: True, self.clock, MIB, lambda *said: self.told.append(said)
        )

    def poll(self, *grown: str) -> None:
        for names in (grown, (), ()):
            self.retention.poll({JOB: 9}, names)
            wait_until(lambda: self.retention._work.is_idle, 10, "the threads")


@pytest.fixture
def quota(tmp_path: Path) -> Iterator[Quota]:
    made = Quota(tmp_path)
    yield made
    made.retention.close()


def test_the_job_and_the_process_are_told_what_the_quota_has_cost(
    quota: Quota, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "attempt-7/slot-0.out.e1.0", MIB, age=9)
    write(tmp_path, "attempt-8/slot-0.out.e1.0", MIB // 2, age=8)
    write(tmp_path, "attempt-9/slot-0.out.e1.0", MIB // 2, age=7)
    with caplog.at_level(logging.WARNING):
        quota.poll()
    text = (
        "the logs of this job had more than 1.0 MiB (TIDEMARK_JOB_LOGS_MIB): the oldest 1.0 MiB, of attempt 7, "
        "were deleted; 1.0 MiB are left"
    )
    assert quota.told == [(JOB, 9, text)] and f"job {JOB}: {text}" in caplog.text


def test_a_job_is_looked_at_when_it_has_written_and_not_before(quota: Quota, tmp_path: Path) -> None:
    quota.poll()
    old = write(tmp_path, "attempt-8/slot-0.out.e1.0", 2 * MIB, age=9)
    quota.poll()
    assert old.exists()
    quota.poll(JOB)
    assert not old.exists()


def test_a_job_that_prints_without_end_stays_within_its_quota(tmp_path: Path) -> None:
    """Rotation, counting and deletion together: three attempts of two slots print 24 MiB with a quota of 4."""
    limit, piece = 4 * MIB, b"x" * 65_535 + b"\n"
    rows = Rows()
    told: list[str] = []
    writer = SlotLogWriter(1, max_segment_bytes=MIB // 2)
    retention = LogRetention(
        tmp_path, 20, cast(JobStore, rows), lambda: True, ManualClock(0), limit, lambda _, __, text: told.append(text)
    )
    most = 0
    try:
        for attempt in (1, 2, 3):
            rows.jobs[JOB] = attempt
            logs = JobLogs(writer, tmp_path / JOB)
            for round in range(64):
                for slot in (SlotId(0), SlotId(1)):
                    logs.deliver(slot, Attempt(attempt), "stdout", round * len(piece), piece, lambda: None)
                wait_until(lambda: writer.is_written(tmp_path), 10, "what was printed")
                retention.poll({JOB: attempt}, writer.grown(growth_of(limit)))
                wait_until(lambda: retention._work.is_idle, 10, "the threads")
                most = max(most, sum(path.stat().st_size for path in (tmp_path / JOB).rglob("slot-*")))
            logs.close()
    finally:
        retention.close()
        writer.close()
    # what is written between two looks comes on top
    assert limit // 2 < most <= limit + 2 * growth_of(limit)
    assert told and all("TIDEMARK_JOB_LOGS_MIB" in text for text in told)


def test_what_was_written_is_told_once(tmp_path: Path) -> None:
    writer = SlotLogWriter(1)
    logs = JobLogs(writer, tmp_path / JOB)
    try:
        logs.deliver(SlotId(0), Attempt(1), "stdout", 0, bytes(100), lambda: None)
        wait_until(lambda: logs.are_written, 10, "what was printed")
        assert writer.grown(101) == []
        assert writer.grown(100) == [JOB] and writer.grown(1) == []
    finally:
        writer.close()


@pytest.mark.django_db
def test_the_leader_keeps_to_the_quota_that_is_set(home: Path, live_redis: str, settings: Settings) -> None:
    settings.TIDEMARK_JOB_LOGS_MIB = 1
    job = services.submit_job(graph_json(1), None, [], {}, None)
    Job.objects.filter(id=job.id).update(state="FINISHED", attempt=6)
    directory = job_log_directory(job.id)
    for attempt in (5, 6):
        (directory / f"attempt-{attempt}").mkdir(parents=True)
        (directory / f"attempt-{attempt}" / "slot-0.out.e1.0").write_bytes(bytes(MIB))
    manager = new_leader(home, lambda *_, **__: None)
    try:

        def is_done() -> bool:
            manager.hasten()
            manager.step(0.01)
            return not (directory / "attempt-5" / "slot-0.out.e1.0").exists()

        wait_until(is_done, 10, "the deletion")
        assert (directory / "attempt-6" / "slot-0.out.e1.0").exists()
    finally:
        manager.close()
