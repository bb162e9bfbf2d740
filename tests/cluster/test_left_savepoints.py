"""What earlier leaders have left of savepoints, in each state of their storage."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.cluster.leader_machine import LeftSavepoint, Remains
from backend.cluster.left_savepoints import LeftSavepoints
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.locations import AllowedRoots
from runtime.checkpoint.metadata import KIND, VERSION
from runtime.checkpoint.sealed import seal
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import Retries, default_file_system
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId
from runtime.jobmaster.restore_reader import LEFT_STOP_MS
from runtime.testing.clock import ManualClock
from tests.checkpoint.snapshots import with_checksum
from tests.support.waiting import wait_until

PROGRAM = """
import os, time
os.environ["DJANGO_SETTINGS_MODULE"] = "backend.config.settings"
import django
django.setup()
from backend.cluster.left_savepoints import LeftSavepoints
from runtime.core.clock import SYSTEM_CLOCK
class Hung:
    def load(self, directory):
        time.sleep(60)
left = LeftSavepoints(Hung(), lambda: True, SYSTEM_CLOCK)
left.seen("trigger", "file:///savepoint")
time.sleep(0.2)
left.close()
"""


def test_a_jobmanager_can_end_while_the_storage_does_not_answer() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=30)


def complete(directory: Path) -> None:
    uri = directory.as_uri()
    options = CheckpointOptions(uri, uri, is_savepoint=True)
    SnapshotFiles(default_file_system()).write_metadata(
        CheckpointMetadata(JobId("a" * 32), CheckpointId(7), 0, options, ())
    )


def without_metadata(directory: Path) -> None:
    directory.mkdir(parents=True)


def damaged(directory: Path) -> None:
    without_metadata(directory)
    complete(directory)
    metadata = directory / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-5])


def with_nonsense(directory: Path) -> None:
    without_metadata(directory)
    (directory / "_metadata").write_bytes(with_checksum(b"1", b"{"))


def written_by_a_newer_release(directory: Path) -> None:
    without_metadata(directory)
    (directory / "_metadata").write_bytes(seal(KIND, VERSION + 1, {}))


def gone_beside_another(directory: Path) -> None:
    (directory.parent / "savepoint-other").mkdir(parents=True)


def in_a_share_that_is_not_mounted(directory: Path) -> None:
    directory.parent.mkdir(parents=True)


def in_a_directory_that_is_gone(directory: Path) -> None:
    pass


def beyond_what_answers(directory: Path) -> None:
    """Looking below a file is an error of the storage."""
    directory.parent.parent.mkdir(parents=True, exist_ok=True)
    directory.parent.write_text("")


TRUTH = [
    pytest.param(without_metadata, Remains.PARTIAL, Remains.PARTIAL, id="no metadata"),
    pytest.param(damaged, Remains.PARTIAL, Remains.PARTIAL, id="damaged"),
    pytest.param(with_nonsense, Remains.PARTIAL, Remains.PARTIAL, id="nonsense"),
    pytest.param(written_by_a_newer_release, Remains.UNKNOWN, Remains.UNKNOWN, id="newer"),
    pytest.param(gone_beside_another, Remains.NOTHING, Remains.NOTHING, id="gone from a storage that is there"),
    pytest.param(in_a_share_that_is_not_mounted, Remains.UNKNOWN, Remains.NOTHING, id="an empty mount point"),
    pytest.param(in_a_directory_that_is_gone, Remains.UNKNOWN, Remains.NOTHING, id="nothing at all"),
    pytest.param(beyond_what_answers, Remains.UNKNOWN, Remains.UNKNOWN, id="the storage refuses"),
]


class Looking:
    """Asks as the leader's polls do."""

    def __init__(self, directory: Path, allowed: Path) -> None:
        self.clock = ManualClock(0)
        self._directory = directory.as_uri()
        files = SnapshotFiles(default_file_system(), AllowedRoots.of([allowed.as_uri()]), Retries(()))
        self._left = LeftSavepoints(files, lambda: True, self.clock)

    def now(self) -> LeftSavepoint:
        found: list[LeftSavepoint] = []

        def is_seen() -> bool:
            found.append(self._left.seen("trigger", self._directory))
            return found[-1].why != "nobody has looked at it yet"

        wait_until(is_seen, 5, "a look")
        return found[-1]

    def close(self) -> None:
        self._left.close()


@pytest.mark.parametrize(("prepare", "at_first", "later"), TRUTH)
def test_what_is_gone_is_told_from_what_may_come_back(
    prepare: Callable[[Path], None], at_first: Remains, later: Remains, tmp_path: Path
) -> None:
    directory = tmp_path / "storage" / "savepoints" / "savepoint-a"
    prepare(directory)
    looking = Looking(directory, tmp_path)
    assert looking.now().remains is at_first
    looking.clock.advance(int(LEFT_STOP_MS) - 1)
    assert looking.now().remains is at_first
    looking.clock.advance(1)
    assert looking.now().remains is later
    looking.close()


def test_a_savepoint_whose_storage_comes_back_is_found(tmp_path: Path) -> None:
    directory = tmp_path / "savepoints" / "savepoint-a"
    looking = Looking(directory, tmp_path)
    assert looking.now().remains is Remains.UNKNOWN
    without_metadata(directory)
    complete(directory)
    assert looking.now() == LeftSavepoint(directory.as_uri(), Remains.COMPLETE, 7)
    shutil.rmtree(directory.parent)
    looking.close()


def test_a_savepoint_in_a_directory_that_is_not_allowed_any_more_is_unknown(tmp_path: Path) -> None:
    looking = Looking(tmp_path / "savepoint-a", tmp_path / "elsewhere")
    seen = looking.now()
    assert seen.remains is Remains.UNKNOWN
    assert "not below a directory that is allowed" in seen.why
    looking.close()


class Broken(SnapshotFiles):
    """Has a mistake in it."""

    def load(self, path: str) -> CheckpointMetadata:
        raise AttributeError("no such thing")


def test_a_look_that_fails_in_a_way_that_nobody_foresaw_says_so(tmp_path: Path) -> None:
    left = LeftSavepoints(Broken(default_file_system()), lambda: True, ManualClock(0))
    wait_until(lambda: "no such thing" in left.seen("trigger", tmp_path.as_uri()).why, 5, "the look")
    left.discard("trigger", tmp_path.as_uri())
    wait_until(lambda: "no such thing" in left.seen("trigger", tmp_path.as_uri()).why, 5, "the deletion")
    left.close()


def test_where_there_is_no_thread_for_it_just_then_it_is_looked_at_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete(tmp_path / "savepoint")
    directory = (tmp_path / "savepoint").as_uri()
    left = LeftSavepoints(SnapshotFiles(default_file_system()), lambda: True, ManualClock(0))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        seen = left.seen("trigger", directory)
        assert (seen.remains, seen.why) == (Remains.UNKNOWN, "can't start new thread")
        left.discard("trigger", directory)
    wait_until(lambda: left.seen("trigger", directory).remains is Remains.COMPLETE, 60, "the look")
    left.close()
