"""Where the checkpoints of a job are."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.state_files import default_file_system
from runtime.common.config_options import ConfigurationError
from runtime.jobmaster.checkpoint_home import CheckpointHome
from runtime.jobmaster.storage_worker import StorageWorker
from runtime.testing.clock import ManualClock
from tests.jobmaster.storage_rig import JOB, SETTINGS, Rig


def test_slots_that_may_be_anywhere_need_a_directory_that_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
        CheckpointHome.of(SETTINGS, JOB, slots_are_local=False)
    assert CheckpointHome.of(CheckpointSettings(), JOB, slots_are_local=False).root is None


def test_local_ones_get_a_private_directory_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = CheckpointHome.of(SETTINGS, JOB, slots_are_local=True)
    (directory,) = tmp_path.iterdir()
    assert directory.stat().st_mode & 0o777 == 0o700
    StorageWorker(home, SETTINGS, JOB, ManualClock(0), lambda _: None, is_inline=True).close()
    assert list(tmp_path.iterdir()) == []


def test_the_file_log_is_the_default(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.store(1)
    store = FileCompletedStore(rig.root, JOB, 0, default_file_system(), "reader")
    assert [p.checkpoint_id for p in store.retained()] == [1]
