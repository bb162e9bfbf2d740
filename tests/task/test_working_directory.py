"""WorkingDirectory: a directory for each slot, gone with it, and swept if its process could not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runtime.common.configuration import Configuration
from runtime.task.working_directory import WorkingDirectory
from tests.support.programs import ROOT

KILLED = """
import os, signal, sys
from runtime.common.configuration import Configuration
from runtime.task.working_directory import WorkingDirectory
directory = WorkingDirectory(Configuration.from_dict({"io.tmp.dirs": sys.argv[1]}), "killed", 0)
(directory.path() / "state").write_text("big")
os.kill(os.getpid(), signal.SIGKILL)
"""


def directory_in(tmp_path: Path, number: int = 0, dirs: str | None = None) -> WorkingDirectory:
    return WorkingDirectory(Configuration.from_dict({"io.tmp.dirs": dirs or str(tmp_path)}), "job", number)


def leftovers(tmp_path: Path) -> list[Path]:
    return [entry for root in tmp_path.iterdir() for entry in root.iterdir()]


def test_it_is_made_when_it_is_asked_for_and_deleted_when_it_is_closed(tmp_path: Path) -> None:
    directory = directory_in(tmp_path)
    assert not list(tmp_path.iterdir())
    path = directory.path()
    assert directory.path() == path
    (path / "state").mkdir()
    (path / "state" / "file").write_text("x")
    directory.close()
    directory.close()
    assert not leftovers(tmp_path)


def test_slots_that_live_keep_theirs(tmp_path: Path) -> None:
    one, two = directory_in(tmp_path), directory_in(tmp_path)
    assert one.path() != two.path()
    assert one.path().is_dir()
    one.close()
    assert two.path().is_dir()
    two.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_what_a_killed_process_leaves_is_swept_by_the_next_one(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert len(leftovers(tmp_path)) == 1
    directory = directory_in(tmp_path)
    own = directory.path()
    assert leftovers(tmp_path) == [own]
    directory.close()


def test_slots_spread_over_several_directories(tmp_path: Path) -> None:
    dirs = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    paths = [directory_in(tmp_path, number, dirs) for number in (0, 1, 2)]
    assert [directory.path().parent.parent.name for directory in paths] == ["a", "b", "a"]
    for directory in paths:
        directory.close()
