"""EnvironmentFiles: the packages that jobs need, one archive for each environment, in the cluster's storage.

A file is `environments/<sha256 of what was asked for>.<cluster>-<8 hex digits>/<sha256 of the archive>.zip` below the
storage's root: every publication has a directory of its own, so that the deletion of one never meets another, and
whoever unpacks an archive sees whether it is what was stored. Which ones there are is in SQL (`PythonEnvironment`).
Blocking; any thread.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backend.cluster.checkpoint_home import cluster_storage
from runtime.checkpoint.file_system import PIECE_BYTES, CheckpointFileSystem
from runtime.checkpoint.locations import join, parent_of
from runtime.checkpoint.state_files import default_file_system
from runtime.common.config_options import ConfigurationError
from runtime.common.options import PYTHON_ENVIRONMENT

_PATH = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{8}-[0-9a-f]{8}/[0-9a-f]{64}\.zip")


@dataclass(frozen=True, slots=True)
class EnvironmentFiles:
    """Archives of environments; their paths are relative to `root`."""

    files: CheckpointFileSystem
    root: str
    """URI."""

    def write(self, archive: Path, digest: str, key: str, cluster_id: str) -> str:
        """Copy an archive into the storage; it is there as a whole, or not at all. Return its path.

        Args:
            archive: the file.
            digest: its sha256, hex.
            key: sha256 of what was asked for, hex.
            cluster_id: of this cluster.

        Raises:
            OSError: it cannot be written; nothing is left of it where the storage allows that.
        """
        path = f"{key}.{cluster_id}-{secrets.token_hex(4)}/{digest}.zip"
        local = self.files.local_path(self.root)
        if local is not None:
            local.parent.mkdir(parents=True, exist_ok=True)
            local.mkdir(mode=0o700, exist_ok=True)
        try:
            self.files.make_directory(parent_of(self._uri(path)))
            self.files.write_new(self._uri(path), _pieces(archive))
        except BaseException:
            self.delete(path)
            raise
        return path

    def has(self, path: str) -> bool:
        """Return whether the archive is there."""
        return self.files.exists(self._uri(path))

    def delete(self, path: str) -> None:
        """Delete an archive with its directory; what cannot be deleted is left over."""
        with suppress(OSError):
            self.files.delete_directory(parent_of(self._uri(path)))

    def entries(self) -> list[str]:
        """Return the names of the directories below the root."""
        return [entry.name for entry in self.files.list(self.root)]

    def delete_entry(self, name: str) -> None:
        """Delete a directory below the root."""
        self.files.delete_directory(join(self.root, name))

    def location(self, path: str) -> str:
        """Return where slots find an archive: a path, if the storage is a directory; else a URI.

        Raises:
            ConfigurationError: it is no path of an archive.
        """
        if not _PATH.fullmatch(path):
            raise ConfigurationError(
                PYTHON_ENVIRONMENT.key, path[:200], "an environment of this cluster, which sets it"
            )
        return str(self.files.local_path(self._uri(path)) or self._uri(path))

    def _uri(self, path: str) -> str:
        return join(self.root, path)


def environment_files() -> EnvironmentFiles:
    """Return the files of the cluster's environments.

    Raises:
        UnknownFileSystemError: the configured storage is on no known file system.
    """
    return EnvironmentFiles(default_file_system(), cluster_storage().environments)


def _pieces(archive: Path) -> Iterator[bytes]:
    with archive.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
