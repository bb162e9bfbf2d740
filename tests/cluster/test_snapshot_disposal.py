"""SnapshotDisposal over a directory: what is deleted, and what is answered when nothing is there any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.cluster.snapshot_disposal import SnapshotDisposal
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from tests.cluster.snapshots import completed
from tests.support.waiting import wait_until


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_disposal_that_is_repeated_finds_its_work_done(tmp_path: Path, is_begun: bool) -> None:
    location = completed(tmp_path, "c" * 32, 1).location
    disposal = SnapshotDisposal(SnapshotFiles(default_file_system()))
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
