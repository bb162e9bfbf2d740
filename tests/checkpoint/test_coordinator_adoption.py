"""CheckpointCoordinator of a JobMaster that adopts slots: how checkpoints end that an earlier one had under way."""

from __future__ import annotations

import pytest

from runtime.checkpoint.coordinator import CheckpointCoordinator
from runtime.checkpoint.messages import DeleteFiles, NotifyAborted, SlotsAdopted
from runtime.checkpoint.settings import CheckpointSettings
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId, JobId

DIRECTORY = "file:///somewhere/7"


@pytest.mark.parametrize("is_savepoint", [False, True])
def test_a_savepoint_that_may_have_been_answered_is_not_deleted(is_savepoint: bool) -> None:
    coordinator = CheckpointCoordinator(CheckpointSettings(), JobId("f" * 32), "file:///checkpoints", 2, lambda: "name")
    options = CheckpointOptions(DIRECTORY, DIRECTORY, is_savepoint=is_savepoint)
    seven = CheckpointId(7)
    actions = coordinator.handle(SlotsAdopted({seven: options}, seven), 0.0, 0)
    assert NotifyAborted(seven) in actions
    deleted = [directory for action in actions if isinstance(action, DeleteFiles) for directory in action.directories]
    assert deleted == ([] if is_savepoint else [DIRECTORY])
