"""Which logs are deleted, and which are not, in directories with what may lie in them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pytest_django import Settings

from backend.cluster import services
from backend.cluster.job_logs import job_log_directory
from backend.cluster.job_store import JobStore
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.log_files import delete_attempts, delete_job, marked_jobs
from backend.cluster.log_retention import LOOK_MS, RETRY_MS, LogRetention
from backend.cluster.models import Job, Placement
from runtime.testing.clock import ManualClock
from tests.cluster.graphs import graph_json
from tests.cluster.leading import new_leader
from tests.support.hung_storage import HungStorage
from tests.support.waiting import wait_until

JOB, OTHER = "a" * 32, "b" * 32
CLUSTER = "01234567"


def write(root: Path, job: str, *attempts: int) -> Path:
    for attempt in attempts:
        directory = root / job / f"attempt-{attempt}"
        directory.mkdir(parents=True)
        (directory / "slot-0.out.e1.0").write_text("printed\n")
    return root / job


def left(job: Path) -> list[str]:
    return sorted(path.name for path in job.iterdir() if not path.name.startswith("."))


def allow() -> None:
    pass


# --- files ------------------------------------------------------------------------------------------------------------


def test_attempts_before_the_oldest_are_deleted_unless_a_region_runs_in_them(tmp_path: Path) -> None:
    job = write(tmp_path, JOB, 1, 2, 3, 4, 10)
    write(tmp_path, OTHER, 1)
    delete_attempts(tmp_path, JOB, CLUSTER, 4, {2}, allow)
    assert left(job) == ["attempt-10", "attempt-2", "attempt-4"]
    assert left(tmp_path / OTHER) == ["attempt-1"]


def test_other_names_and_links_in_a_jobs_directory_stay(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    job = write(root, JOB, 1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (job / "attempt-2").symlink_to(outside)
    (job / "attempt-1" / "link").symlink_to(outside)
    (job / "attempt-3").write_text("a file")
    for odd in ("attempt-01", "attempt--1", "attempt-1x", "attempt-", "notes", "attempt-٣"):
        (job / odd).mkdir()
    delete_attempts(root, JOB, CLUSTER, 100, (), allow)
    assert (outside / "precious").read_text() == "x"
    assert set(left(job)) == {
        *("attempt-2", "attempt-3", "attempt-01", "attempt--1", "attempt-1x", "attempt-", "notes", "attempt-٣"),
    }


@pytest.mark.parametrize("odd", ["", ".", "..", "../x", f"{JOB}/..", "A" * 32, "a" * 31, f"{JOB}\n", "/etc"])
def test_what_is_no_id_of_a_job_deletes_nothing(tmp_path: Path, odd: str) -> None:
    job = write(tmp_path, JOB, 1)
    with pytest.raises(OSError, match="no id of a job"):
        delete_attempts(tmp_path, odd, CLUSTER, 100, (), allow)
    with pytest.raises(OSError, match="no id of a job"):
        delete_job(tmp_path, odd, CLUSTER, allow)
    assert left(job) == ["attempt-1"]


def test_a_link_in_place_of_a_jobs_directory_is_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", OTHER, 1)
    (outside / f".cluster-{CLUSTER}").touch()
    root = tmp_path / "logs"
    root.mkdir()
    (root / JOB).symlink_to(outside)
    with pytest.raises(OSError, match=JOB):
        delete_attempts(root, JOB, CLUSTER, 100, (), allow)
    delete_job(root, JOB, CLUSTER, allow)
    assert marked_jobs(root, CLUSTER) == []
    assert left(outside) == ["attempt-1"]


def test_a_job_is_deleted_only_by_the_cluster_that_marked_it(tmp_path: Path) -> None:
    job = write(tmp_path, JOB, 1)
    write(tmp_path, OTHER, 1)
    delete_attempts(tmp_path, JOB, CLUSTER, 0, (), allow)
    assert marked_jobs(tmp_path, CLUSTER) == [JOB]
    assert marked_jobs(tmp_path, "76543210") == marked_jobs(tmp_path / "nowhere", CLUSTER) == []
    delete_job(tmp_path, JOB, "76543210", allow)
    delete_job(tmp_path, OTHER, CLUSTER, allow)
    assert left(job) == left(tmp_path / OTHER) == ["attempt-1"]
    delete_job(tmp_path, JOB, CLUSTER, allow)
    delete_job(tmp_path, JOB, CLUSTER, allow)
    assert [path.name for path in tmp_path.iterdir()] == [OTHER]


def test_a_job_without_logs_gets_no_directory(tmp_path: Path) -> None:
    delete_attempts(tmp_path, JOB, CLUSTER, 5, (), allow)
    assert list(tmp_path.iterdir()) == []


# --- when -------------------------------------------------------------------------------------------------------------


class Rows:
    """The part of a JobStore that is asked, over rows in memory."""

    def __init__(self) -> None:
        self.jobs: dict[str, int] = {}
        self.in_use: dict[str, set[int]] = {}

    def cluster_id(self) -> str:
        return CLUSTER

    def attempts(self) -> dict[str, int]:
        return dict(self.jobs)

    def attempts_in_use(self) -> dict[str, set[int]]:
        return dict(self.in_use)

    def without_row(self, job_ids: list[str]) -> set[str]:
        return set(job_ids) - set(self.jobs)


class Kept:
    """A LogRetention of two attempts over `root`, and what it is asked with."""

    def __init__(self, root: Path) -> None:
        self.rows = Rows()
        self.clock = ManualClock(0)
        self.allowed: bool | None = True
        self.retention = LogRetention(root, 2, cast(JobStore, self.rows), self._may_act, self.clock)

    def poll(self, **running: int) -> None:
        """Poll, and let what it begins be done and heard of."""
        for _ in range(3):
            self.retention.poll(running)
            wait_until(lambda: self.retention._work.is_idle, 10, "the threads")

    def _may_act(self) -> bool:
        if self.allowed is None:
            raise LeadershipLostError(1, 2, "another")
        return self.allowed


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.retention.close()


def test_a_new_attempt_has_the_oldest_one_deleted(kept: Kept, tmp_path: Path) -> None:
    job = write(tmp_path, JOB, 1, 2, 3)
    kept.rows.jobs[JOB], kept.rows.in_use[JOB] = 3, {1}
    kept.poll(**{JOB: 3})
    assert left(job) == ["attempt-1", "attempt-2", "attempt-3"]
    kept.rows.in_use[JOB] = {3}
    write(tmp_path, JOB, 4)
    kept.poll(**{JOB: 4})
    assert left(job) == ["attempt-3", "attempt-4"]


def test_a_new_leader_looks_at_the_logs_of_all_jobs(kept: Kept, tmp_path: Path) -> None:
    job = write(tmp_path, JOB, 1, 2, 3)
    kept.rows.jobs[JOB] = 3
    kept.poll()
    assert left(job) == ["attempt-2", "attempt-3"]


def test_the_logs_of_a_job_without_a_row_are_deleted_after_two_looks(kept: Kept, tmp_path: Path) -> None:
    job, unmarked = write(tmp_path, JOB, 1), write(tmp_path, OTHER, 1)
    kept.rows.jobs[JOB] = 1
    kept.poll()
    del kept.rows.jobs[JOB]
    kept.clock.advance(LOOK_MS)
    kept.poll()
    assert left(job) == ["attempt-1"]
    kept.clock.advance(LOOK_MS)
    kept.poll()
    assert not job.exists()
    assert left(unmarked) == ["attempt-1"], "it may be another cluster's"


def test_a_row_that_is_back_keeps_the_logs(kept: Kept, tmp_path: Path) -> None:
    job = write(tmp_path, JOB, 1)
    for rows in ({JOB: 1}, {}, {JOB: 1}, {}):
        kept.rows.jobs = rows
        kept.poll()
        kept.clock.advance(LOOK_MS)
    assert left(job) == ["attempt-1"]


def test_what_cannot_be_deleted_is_told_and_repeated(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = write(tmp_path, JOB, 1, 2, 3)
    kept.rows.jobs[JOB] = 4

    def refuse(*arguments: Any, **named: Any) -> None:
        raise PermissionError(13, "Permission denied", "slot-0.out.e1.0")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING):
        broken.setattr("shutil.rmtree", refuse)
        kept.poll(**{JOB: 4})
    assert f"logs of job {JOB} could not be deleted, and will be: [Errno 13] Permission denied" in caplog.text
    kept.poll(**{JOB: 4})
    assert left(job) == ["attempt-1", "attempt-2", "attempt-3"]
    kept.clock.advance(RETRY_MS)
    kept.poll(**{JOB: 4})
    assert left(job) == ["attempt-3"]


@pytest.mark.parametrize("allowed", [False, None], ids=["lapsed", "lost"])
def test_a_leader_without_a_lease_deletes_no_logs(
    kept: Kept, tmp_path: Path, allowed: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    job = write(tmp_path, JOB, 1, 2, 3)
    kept.rows.jobs[JOB], kept.allowed = 3, allowed
    kept.poll()
    assert left(job) == ["attempt-1", "attempt-2", "attempt-3"]
    assert not caplog.text
    kept.allowed = True
    kept.clock.advance(RETRY_MS)
    kept.poll()
    assert left(job) == ["attempt-2", "attempt-3"]


def test_a_storage_that_hangs_is_waited_for_by_one_thread(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [write(tmp_path, f"{number:032x}", 1, 2, 3) for number in range(5)]
    kept.rows.jobs = {job.name: 3 for job in jobs}
    storage = HungStorage(tmp_path, monkeypatch)
    storage.hang()
    for _ in range(3):
        kept.retention.poll({})
        kept.clock.advance(LOOK_MS)
    assert sum(thread.name == "log-retention" for thread in threading.enumerate()) <= 2, "one more looks"
    storage.answer()
    kept.poll()
    assert not storage.touched
    assert all(left(job) == ["attempt-2", "attempt-3"] for job in jobs)


@pytest.mark.django_db
def test_the_leader_keeps_as_many_as_the_option_says(home: Path, live_redis: str, settings: Settings) -> None:
    settings.TIDEMARK_KEPT_LOGS = 2
    job = services.submit_job(graph_json(1), None, [], {}, None)
    logs = write(job_log_directory(job.id).parent, job.id, 1, 4, 5, 6)
    Job.objects.filter(id=job.id).update(state="FINISHED", attempt=6)
    Placement.objects.create(
        job_id=job.id, region=0, attempt=1, leader_epoch=1, protocol=1, parallelism={}, slots=[], stages=[]
    )
    manager = new_leader(home, lambda *_, **__: None)
    try:

        def is_done() -> bool:
            manager.hasten()
            manager.step(0.01)
            return left(logs) == ["attempt-1", "attempt-5", "attempt-6"]

        wait_until(is_done, 10, "the deletion")
    finally:
        manager.close()
