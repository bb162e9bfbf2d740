from __future__ import annotations

import pytest

from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, Retention
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.checkpoint_options import Alignment, SnapshotKind


def read(**options: str) -> CheckpointSettings:
    """Options by their last parts, `_` for `-`."""
    return CheckpointSettings.from_configuration(
        Configuration.from_dict({f"execution.checkpointing.{k.replace('_', '-')}": v for k, v in options.items()})
    )


def test_the_defaults_are_flinks() -> None:
    settings = read()
    assert settings == CheckpointSettings()
    assert not settings.is_enabled
    assert (settings.timeout_ms, settings.max_concurrent, settings.tolerable_failures) == (600_000, 1, 0)
    assert (settings.num_retained, settings.retention) == (1, Retention.NO_EXTERNALIZED_CHECKPOINTS)
    assert (settings.kind, settings.alignment) == (SnapshotKind.FULL, Alignment.ALIGNED)
    assert settings.after_tasks_finish


def test_an_interval_turns_checkpoints_on_and_zero_turns_them_off() -> None:
    assert read(interval="5 s").interval_ms == 5_000
    assert not read(interval="0").is_enabled
    with pytest.raises(ConfigurationError, match="at least 10 ms"):
        read(interval="5 ms")


def test_a_pause_leaves_room_for_one_at_a_time() -> None:
    assert read(max_concurrent_checkpoints="3").max_concurrent == 3
    assert read(max_concurrent_checkpoints="3", min_pause="1 s").max_concurrent == 1


@pytest.mark.parametrize(
    ("options", "alignment", "switch_ms"),
    [
        ({"mode": "AT_LEAST_ONCE"}, Alignment.AT_LEAST_ONCE, None),
        ({"unaligned.enabled": "true"}, Alignment.UNALIGNED, None),
        ({"unaligned": "true"}, Alignment.UNALIGNED, None),
        ({"unaligned.enabled": "true", "aligned_checkpoint_timeout": "3 s"}, Alignment.ALIGNED, 3_000),
        ({"aligned_checkpoint_timeout": "3 s"}, Alignment.ALIGNED, None),
        ({"mode": "AT_LEAST_ONCE", "unaligned.enabled": "true"}, Alignment.AT_LEAST_ONCE, None),
    ],
)
def test_how_barriers_are_aligned(options: dict[str, str], alignment: Alignment, switch_ms: int | None) -> None:
    settings = read(**options)
    assert (settings.alignment, settings.switch_timeout_ms) == (alignment, switch_ms)


def test_unaligned_checkpoints_do_not_overlap() -> None:
    with pytest.raises(ConfigurationError, match="1 with unaligned"):
        read(max_concurrent_checkpoints="2", **{"unaligned.enabled": "true"})


def test_the_directory_is_what_the_storage_asks_for() -> None:
    assert read(dir="s3://bucket/c").directory == "s3://bucket/c"
    assert read(dir="s3://bucket/c", storage="jobmanager").directory is None
    assert read(storage="jobmanager").directory is None
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
        read(storage="filesystem")


def test_former_keys_are_read_where_the_new_ones_are_not_set() -> None:
    old = {
        "state.checkpoints.dir": "/old",
        "state.savepoints.dir": "/saved",
        "state.backend.incremental": "true",
        "state.checkpoints.num-retained": "4",
        "execution.savepoint.path": "/from",
        "execution.savepoint.ignore-unclaimed-state": "true",
        "execution.savepoint-restore-mode": "CLAIM",
    }
    settings = CheckpointSettings.from_configuration(Configuration.from_dict(old))
    assert (settings.directory, settings.savepoint_directory) == ("/old", "/saved")
    assert (settings.is_incremental, settings.num_retained) == (True, 4)
    assert settings.restore is not None
    assert (settings.restore.path, settings.restore.claim_mode) == ("/from", ClaimMode.CLAIM)
    assert settings.ignores_unclaimed_state
    new = CheckpointSettings.from_configuration(
        Configuration.from_dict({**old, "execution.checkpointing.dir": "/new", "execution.state-recovery.path": "/to"})
    )
    assert new.directory == "/new"
    assert new.restore is not None
    assert new.restore.path == "/to"


def test_a_history_is_as_long_as_the_traces_at_most() -> None:
    def history(size: str) -> int:
        configuration = Configuration.from_dict({"web.checkpoints.history": size})
        return CheckpointSettings.from_configuration(configuration).history_size

    assert (read().history_size, history("60")) == (10, 60)
    for wrong in ("0", "61"):
        with pytest.raises(ConfigurationError, match=r"web\.checkpoints\.history"):
            history(wrong)
