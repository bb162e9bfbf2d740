"""Where the cluster's checkpoints and savepoints are: by default in TIDEMARK_HOME, and in no place that is not allowed.

Locations that users name are checked here before anything of theirs is read, written or deleted: whoever may trigger a
savepoint does not thereby own the account that writes it. Any process, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import AllowedRoots, resolved
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration


@dataclass(frozen=True, slots=True)
class ClusterStorage:
    """URIs."""

    checkpoints: str
    savepoints: str
    allowed: AllowedRoots

    def checkpoints_of(self, configuration: Configuration) -> str:
        """The directory of the checkpoints of a job with these options, which `with_cluster_directories` has made."""
        return configuration.get(options.CHECKPOINT_DIRECTORY) or self.checkpoints

    def files(self) -> SnapshotFiles:
        """What reads, writes and deletes there."""
        return SnapshotFiles(default_file_system(), self.allowed)


def cluster_storage() -> ClusterStorage:
    """As the settings say.

    Raises:
        UnknownFileSystemError: a directory of the settings can never be one.
    """
    home = Path(settings.TIDEMARK_HOME)
    checkpoints = resolved(settings.TIDEMARK_CHECKPOINT_DIR or home / "checkpoints")
    savepoints = resolved(settings.TIDEMARK_SAVEPOINT_DIR or home / "savepoints")
    allowed = AllowedRoots.of([checkpoints, savepoints, *settings.TIDEMARK_STORAGE_ROOTS])
    return ClusterStorage(checkpoints, savepoints, allowed)


def with_cluster_directories(configuration: Mapping[str, str], storage: ClusterStorage) -> dict[str, str]:
    """A job's options, with the directories that it is to use.

    Args:
        configuration: as the job was submitted.
        storage: the cluster's.

    Raises:
        ConfigurationError: a directory that the job names is not allowed, or an option cannot be read.
    """
    wanted = CheckpointSettings.from_configuration(Configuration.from_dict(dict(configuration)))
    given = {
        options.CHECKPOINT_DIRECTORY: wanted.directory or storage.checkpoints,
        options.SAVEPOINT_DIRECTORY: wanted.savepoint_directory or storage.savepoints,
    }
    if wanted.restore is not None:
        given[options.RECOVERY_PATH] = wanted.restore.path
    checked: dict[str, str] = {}
    for option, location in given.items():
        try:
            checked[option.key] = storage.allowed.check(location)
        except CheckpointStorageError as error:
            raise ConfigurationError(option.key, location, f"what the cluster allows: {error}") from error
    return {**configuration, **checked}
