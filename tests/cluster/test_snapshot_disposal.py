"""SnapshotDisposal over a directory: what is deleted, and what is answered when nothing is there any more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from backend.cluster.background import BackgroundWork
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.snapshot_disposal import LOOK_AGAIN_MS, NEVER, Document, SnapshotDisposal
from runtime.checkpoint.file_system import ArrowFileSystem
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries, default_file_system
from runtime.core.clock import SYSTEM_CLOCK
from runtime.jobmaster.restore_reader import LEFT_STOP_MS
from runtime.testing.clock import ManualClock
from tests.cluster.snapshots import completed
from tests.cluster.stack import ROOT
from tests.support.waiting import wait_until


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_disposal_that_is_repeated_finds_its_work_done(tmp_path: Path, is_begun: bool) -> None:
    location = completed(tmp_path, "c" * 32, 1).location
    # a storage that has something in it is not away
    completed(tmp_path, "c" * 32, 2)
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, SYSTEM_CLOCK)
    try:
        disposal.dispose("first", location)
        # the leader ends before it has recorded the answer, and the next one repeats the operation
        disposal.dispose("again", location, is_begun=is_begun)
        wait_until(lambda: disposal.answer("again") is not None, 10, "the second answer")
        assert disposal.answer("first") == {"location": location}
        answer = disposal.answer("again") or {}
        assert answer == {"location": location} if is_begun else "nothing exists" in answer["error"]
    finally:
        disposal.close()


def lost() -> bool:
    raise LeadershipLostError(1, 2, "another")


@pytest.mark.parametrize("may_act", [lambda: False, lost], ids=["lapsed", "lost"])
def test_a_leader_without_a_lease_deletes_nothing(tmp_path: Path, may_act: Callable[[], bool]) -> None:
    location = completed(tmp_path, "c" * 32, 1).location
    files = SnapshotFiles(default_file_system())
    disposal = SnapshotDisposal(files, may_act, SYSTEM_CLOCK)
    try:
        disposal.dispose("trigger", location)
        disposal.sweep("c" * 32, tmp_path.as_uri())
        # it is not answered: whoever leads next polls, looks again who needs the snapshot, and decides
        wait_until(lambda: disposal.answer("trigger") is None and "trigger" not in disposal, 10, "the refusal")
    finally:
        disposal.close()
    assert files.file_system.exists(location)
    # that of the job is begun again, too
    assert not disposal.swept() and not disposal._sweeps


def test_all_checkpoints_of_a_job_are_deleted_and_what_others_put_there_stays(tmp_path: Path) -> None:
    job = "c" * 32
    for number in (1, 2):
        completed(tmp_path, job, number)
    (tmp_path / job / "shared").mkdir()
    (tmp_path / job / "savepoint-cccccc-1").mkdir()
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, SYSTEM_CLOCK)
    try:
        disposal.sweep(job, tmp_path.as_uri())
        wait_until(lambda: disposal.swept() == [job], 10, "the deletion")
        assert disposal.swept() == [job], "the row may not say so yet"
        disposal.sweep_is_recorded(job)
        assert not disposal.swept()
    finally:
        disposal.close()
    assert [path.name for path in (tmp_path / job).iterdir()] == ["savepoint-cccccc-1"]


def test_what_the_storage_refuses_to_delete_is_not_asked_for_twice(tmp_path: Path) -> None:
    job = "c" * 32
    (tmp_path / job).write_text("no directory")
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, SYSTEM_CLOCK)
    try:
        disposal.sweep(job, tmp_path.as_uri())
        [first] = disposal._sweeps.values()
        assert first.result(10) == NEVER and not disposal.swept()
        disposal.sweep(job, tmp_path.as_uri())
        assert disposal._sweeps == {job: first}
    finally:
        disposal.close()


class Broken(SnapshotFiles):
    """Has a mistake in it."""

    def dispose(self, path: str) -> str:
        raise AttributeError("no such thing")


def test_a_disposal_that_fails_in_a_way_that_nobody_foresaw_is_answered(tmp_path: Path) -> None:
    disposal = SnapshotDisposal(Broken(default_file_system()), lambda: True, SYSTEM_CLOCK)
    disposal.dispose("trigger", tmp_path.as_uri())
    wait_until(lambda: disposal.answer("trigger") is not None, 10, "the answer")
    assert "no such thing" in (disposal.answer("trigger") or {})["error"]
    disposal.close()


HANGS = """
import threading
from backend.cluster.background import BackgroundWork
begun = threading.Event()
work = BackgroundWork("storage")
def hang():
    begun.set()
    threading.Event().wait()
work.submit(hang)
never = work.submit(print)
assert begun.wait(10)
work.close()
"""


def test_a_process_whose_storage_does_not_answer_ends_all_the_same() -> None:
    subprocess.run([sys.executable, "-c", HANGS], cwd=ROOT, check=True, timeout=20)


def test_what_fails_in_the_background_is_told_and_the_next_is_done() -> None:
    work = BackgroundWork("storage")
    failed, done = work.submit(lambda: 1 // 0), work.submit(lambda: 1)
    assert isinstance(failed.exception(10), ZeroDivisionError) and done.result(10) == 1
    work.close()


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


class Failing(ArrowFileSystem):
    """Deletes some files only, as if the leader died after them.

    Args:
        deletes: how many.
    """

    def __init__(self, deletes: int) -> None:
        super().__init__()
        self._deletes = deletes

    def delete_file(self, uri: str) -> None:
        self._deletes -= 1
        if self._deletes < 0:
            raise OSError("the storage is gone")
        super().delete_file(uri)

    def delete_directory(self, uri: str) -> None:
        raise OSError("the storage is gone")


def answer_of(disposal: SnapshotDisposal, location: str, *, is_begun: bool = False) -> Document:
    """Dispose of it, and return the answer."""
    disposal.dispose("trigger", location, is_begun=is_begun)
    wait_until(lambda: disposal.answer("trigger") is not None, 10, "the answer")
    return disposal.answer("trigger") or {}


@pytest.mark.parametrize("deletes", [0, 1, 2, 3])
@pytest.mark.parametrize("is_begun", [True, False], ids=["next leader", "asked again"])
def test_a_disposal_that_was_interrupted_is_finished(tmp_path: Path, deletes: int, is_begun: bool) -> None:
    location = completed(tmp_path, "c" * 32, 1).location
    for name in ("a-state", "z-state"):
        (local(location) / name).write_text("x")
    fails = SnapshotDisposal(SnapshotFiles(Failing(deletes), retries=Retries(())), lambda: True, SYSTEM_CLOCK)
    assert "the storage is gone" in answer_of(fails, location)["error"]
    assert local(location).exists() and (local(location) / "_metadata").exists() is (deletes == 0)
    fails.close()
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, SYSTEM_CLOCK)
    assert answer_of(disposal, location, is_begun=is_begun) == {"location": location}
    assert not local(location).exists()
    disposal.close()


def test_a_full_storage_that_takes_no_mark_is_emptied_all_the_same(tmp_path: Path) -> None:
    class Full(ArrowFileSystem):
        def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
            raise OSError("no space left on device")

    location = completed(tmp_path, "c" * 32, 1).location
    assert SnapshotFiles(Full(), retries=Retries(())).dispose(location) == location
    assert not local(location).exists()


def unmounted(share: Path) -> None:
    """Have an empty mount point where a share was."""
    share.rename(share.with_name("aside"))
    share.mkdir()


def mounted(share: Path) -> None:
    share.rmdir()
    share.with_name("aside").rename(share)


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_snapshot_whose_share_is_not_mounted_does_not_count_as_deleted(tmp_path: Path, comes_back: bool) -> None:
    share, clock = tmp_path / "share", ManualClock(0)
    location = completed(share, "c" * 32, 1).location
    unmounted(share)
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, clock)

    def poll() -> Document | None:
        """Look at it once more, as each poll of the leader does."""
        disposal.dispose("trigger", location, is_begun=True)
        wait_until(disposal._disposals["trigger"].done, 10, "a look at the storage")
        return disposal.answer("trigger")

    assert poll() is None
    clock.advance(LEFT_STOP_MS - 1)
    assert poll() is None and "trigger" not in disposal, "the next poll looks again"
    if comes_back:
        mounted(share)
        assert poll() == {"location": location} and not local(location).exists()
    else:
        clock.advance(1)
        assert "unless its storage is not mounted" in (poll() or {})["error"]
    disposal.close()


@pytest.mark.parametrize("took_any", [True, False])
def test_checkpoints_of_a_job_whose_share_is_not_mounted_do_not_count_as_deleted(
    tmp_path: Path, took_any: bool
) -> None:
    share, clock, job = tmp_path / "share", ManualClock(0), "c" * 32
    location = completed(share, job, 1).location
    unmounted(share)
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, clock)

    def poll() -> list[str]:
        disposal.sweep(job, share.as_uri(), took_any=took_any)
        wait_until(disposal._sweeps[job].done, 10, "a look at the storage")
        return disposal.swept()

    # a job that never took one has nothing there, as in a new cluster
    assert poll() == ([] if took_any else [job])
    if took_any:
        assert not disposal.sweeping, "the next poll looks again"
        mounted(share)
        assert poll() == [job] and not local(location).exists()
    disposal.close()


def test_a_storage_that_stays_empty_is_looked_at_again_after_minutes(tmp_path: Path) -> None:
    share, clock, job = tmp_path / "share", ManualClock(0), "c" * 32
    share.mkdir()
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True, clock)

    def poll(advance_ms: float) -> list[str]:
        clock.advance(advance_ms)
        disposal.sweep(job, share.as_uri(), took_any=True)
        wait_until(disposal._sweeps[job].done, 10, "a look at the storage")
        return disposal.swept()

    assert poll(0) == poll(LEFT_STOP_MS) == poll(LOOK_AGAIN_MS - 1) == []
    assert job in disposal.sweeping, "nobody reads its rows meanwhile"
    # of another job: the storage is there
    (share / ("d" * 32)).mkdir()
    assert poll(1) == [] and job not in disposal.sweeping
    assert poll(0) == [job]
    disposal.close()
