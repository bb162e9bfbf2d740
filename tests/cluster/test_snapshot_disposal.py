"""SnapshotDisposal over a directory: what is deleted, and what is answered when nothing is there any more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.cluster.background import BackgroundWork
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.snapshot_disposal import SnapshotDisposal
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from tests.cluster.snapshots import completed
from tests.cluster.stack import ROOT
from tests.support.waiting import wait_until


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_disposal_that_is_repeated_finds_its_work_done(tmp_path: Path, is_begun: bool) -> None:
    location = completed(tmp_path, "c" * 32, 1).location
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True)
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
    disposal = SnapshotDisposal(files, may_act)
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
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True)
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
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()), lambda: True)
    try:
        disposal.sweep(job, tmp_path.as_uri())
        [first] = disposal._sweeps.values()
        assert first.result(10) is False and not disposal.swept()
        disposal.sweep(job, tmp_path.as_uri())
        assert disposal._sweeps == {job: first}
    finally:
        disposal.close()


class Broken(SnapshotFiles):
    """Has a mistake in it."""

    def dispose(self, path: str) -> str:
        raise AttributeError("no such thing")


def test_a_disposal_that_fails_in_a_way_that_nobody_foresaw_is_answered(tmp_path: Path) -> None:
    disposal = SnapshotDisposal(Broken(default_file_system()), lambda: True)
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
