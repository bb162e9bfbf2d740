"""The cluster's storage: checkpoints, savepoints, uploaded programs and logs; by default in TIDEMARK_HOME.

Locations that users name are checked here before anything there is read, written or deleted: the right to trigger a
savepoint must not give access to all files of the account that writes it. A check waits for the storage: the leader's
loop has `location_checks` do it. Any process, any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.utils.crypto import salted_hmac

from backend.audit.redaction import redacted_text
from backend.cluster.location_checks import CheckLocation
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.locations import AllowedRoots, join, to_uri
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.signatures import SnapshotKeys
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration

_SNAPSHOT_SALT = "tidemark.snapshot"


@dataclass(frozen=True, slots=True)
class ClusterStorage:
    """The cluster's directories (URIs), and the roots that users may name directories in."""

    checkpoints: str
    savepoints: str
    programs: str
    """Uploaded programs; not an allowed root: users name no files there."""
    environments: str
    """Python packages of jobs; not an allowed root either."""
    logs: str
    """Logs of jobs; not an allowed root either."""
    leaders: str
    """Epochs of leaders (`storage_traces`); not an allowed root either."""
    allowed: AllowedRoots

    def checkpoints_of(self, configuration: Configuration) -> str:
        """Return the checkpoint directory of a job with these options, which come from `with_cluster_options`."""
        return configuration.get(options.CHECKPOINT_DIRECTORY) or self.checkpoints

    def files(self) -> SnapshotFiles:
        """Return the access to snapshot files in the allowed roots, whoever has written them."""
        return SnapshotFiles(default_file_system(), self.allowed)

    def signed_files(self) -> SnapshotFiles:
        """Return the access of who writes, restores or shows snapshots: with the cluster's signatures."""
        return SnapshotFiles(default_file_system(), self.allowed, keys=snapshot_keys())


def snapshot_keys() -> SnapshotKeys:
    """Return the keys that sign this cluster's snapshots: of the cluster's key, and of former ones."""
    secrets = settings.TIDEMARK_CLUSTER_KEYS
    keys = (salted_hmac(_SNAPSHOT_SALT, "", secret, algorithm="sha256").digest() for secret in secrets)
    return SnapshotKeys(tuple(keys), settings.TIDEMARK_FOREIGN_SNAPSHOTS)


def cluster_storage() -> ClusterStorage:
    """Return the storage that the settings configure; does not look at it.

    Raises:
        UnknownFileSystemError: a configured directory is on no known file system.
    """
    root = to_uri(settings.TIDEMARK_STORAGE_DIR or Path(settings.TIDEMARK_HOME))
    checkpoints = to_uri(settings.TIDEMARK_CHECKPOINT_DIR or join(root, "checkpoints"))
    savepoints = to_uri(settings.TIDEMARK_SAVEPOINT_DIR or join(root, "savepoints"))
    allowed = AllowedRoots.of([checkpoints, savepoints, *settings.TIDEMARK_STORAGE_ROOTS])
    logs, leaders = join(root, "logs", "jobs"), join(root, "leaders")
    programs, environments = join(root, "artifacts"), join(root, "environments")
    return ClusterStorage(checkpoints, savepoints, programs, environments, logs, leaders, allowed)


def check_location(location: str) -> str:
    """Return a location as a resolved URI; waits for its storage.

    Raises:
        CheckpointStorageError: it is not allowed, or there can be no checkpoints.
    """
    return cluster_storage().allowed.check(location)


def with_cluster_options(
    configuration: Mapping[str, str], storage: ClusterStorage, check: CheckLocation | None = None
) -> dict[str, str]:
    """Return a job's options as they apply in the cluster: with the directories that it is to use, and run by it
    whatever `execution.target` says.

    Args:
        configuration: the options that the job was submitted with.
        storage: the cluster's storage.
        check: checks a directory; None: wait for its storage.

    Raises:
        ConfigurationError: a directory that the job names is not allowed, or an option is malformed.
        StorageSilentError: `check` has no answer yet.
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
            checked[option.key] = (check or storage.allowed.check)(location)
        except CheckpointStorageError as error:
            shown = redacted_text(location)
            raise ConfigurationError(option.key, shown, f"what the cluster allows: {error}") from error
    return {**configuration, **checked, options.EXECUTION_TARGET.key: "spark"}
