"""The metadata files of checkpoints and savepoints, and deletion: CheckpointFiles over a file system.

`_metadata` is written last, once, and as a whole; a directory without it was never completed. Users' locations are
checked against the allowed roots before they are accessed. Any thread but the job machine's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from runtime.checkpoint.errors import NotASnapshotError, StorageAwayError
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import DISPOSED, METADATA, writer_of_directory
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots, join, name_of, parent_of
from runtime.checkpoint.metadata import decode_metadata, encode_metadata
from runtime.checkpoint.signatures import NO_KEYS, SnapshotKeys
from runtime.checkpoint.state_files import DEFAULT_RETRIES, Retries, TaskStateReader, write_once
from runtime.state.handles import DamagedSnapshotError


def snapshot_directory(uri: str) -> str:
    """Return the URI of a snapshot's directory, given that or the URI of the metadata in it."""
    return parent_of(uri) if name_of(uri) == METADATA else uri


class SnapshotFiles:
    """Reads, writes and deletes whole checkpoints and savepoints.

    Args:
        files: the file system.
        allowed: where they may be.
        retries: of failed operations.
        keys: sign what is written, and check what is read.
    """

    def __init__(
        self,
        files: CheckpointFileSystem,
        allowed: AllowedRoots = EVERYWHERE,
        retries: Retries = DEFAULT_RETRIES,
        keys: SnapshotKeys = NO_KEYS,
    ) -> None:
        self.file_system = files
        self._allowed = allowed
        self._retries = retries
        self._keys = keys

    def write_metadata(self, metadata: CheckpointMetadata) -> int:
        """Write `_metadata` into the checkpoint's directory, atomically; returns its size in bytes.

        Raises:
            OSError: it could not be written, or another one exists already.
        """
        data = encode_metadata(metadata, self._keys)
        write_once(self.file_system, join(metadata.options.directory, METADATA), data, self._retries)
        return len(data)

    def read_metadata(self, location: str) -> CheckpointMetadata:
        """Return the metadata in the directory of a completed checkpoint.

        Raises:
            DamagedSnapshotError: it is missing from its directory, or corrupt.
            ForeignSnapshotError: none of the keys has signed it, and others are not taken.
            StorageAwayError: the directory is missing, too.
            OSError: the storage cannot be reached.
        """
        try:
            return self._load(location)
        except NotASnapshotError as error:
            if not self.file_system.exists(location):
                raise StorageAwayError(location) from error
        # again: the storage may have become available in between
        try:
            return self._load(location)
        except NotASnapshotError as error:
            raise DamagedSnapshotError(join(location, METADATA), str(error)) from error

    def load(self, path: str) -> CheckpointMetadata:
        """Return the metadata of a checkpoint or savepoint that a user names by its directory or the file in it.

        Raises:
            NotASnapshotError: there is no checkpoint or savepoint.
            DamagedSnapshotError: its metadata is corrupt.
            NewerSnapshotError: it was written by a newer program.
            ForeignSnapshotError: none of the keys has signed it, and others are not taken.
            LocationNotAllowedError: it, or a file that it refers to, is outside the allowed roots.
            OSError: the storage cannot be reached.
        """
        metadata = self._load(self.directory_of(path))
        for file in metadata.files():
            self._allowed.check(file.uri)
        return metadata

    def directory_of(self, path: str) -> str:
        """Return the URI of the snapshot's directory for a user's `path`.

        Raises:
            LocationNotAllowedError: it is outside of the allowed roots.
            UnknownFileSystemError: checkpoints cannot be stored to such a URI.
        """
        return snapshot_directory(self._allowed.check(path))

    def may_be_away(self, directory: str) -> bool:
        """Return whether the storage of a snapshot's directory, which cannot be found, may only be unavailable.

        Nothing is beside it either then, as in the mount point of a share that is not mounted. The first snapshot in a
        new place looks the same: whoever waits for it should not wait for ever.

        Raises:
            OSError: the storage cannot be reached.
        """
        return not self.file_system.list(parent_of(directory))

    def verify(self, metadata: CheckpointMetadata) -> int:
        """Read every file of a snapshot and compare it with its checksum; returns the bytes read.

        Raises:
            DamagedSnapshotError: a file is missing or corrupt.
            OSError: the storage cannot be reached.
        """
        reader = TaskStateReader(self.file_system, self._retries)
        files = dict.fromkeys(metadata.files())
        for file in files:
            reader.verify(file)
        return sum(file.size for file in files)

    def delete(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Delete files, and directories with their contents; missing ones are no error.

        `_metadata` of each directory is deleted first, so that a partly deleted snapshot cannot be restored by mistake.

        Raises:
            OSError: something is left.
        """
        failed: OSError | None = None
        work = [(self.file_system.delete_file, join(uri, METADATA)) for uri in directories]
        work += [(self.file_system.delete_file, uri) for uri in files]
        work += [(self.file_system.delete_directory, uri) for uri in directories]
        for delete, uri in work:
            try:
                self._retries.call(lambda delete=delete, uri=uri: delete(uri))  # type: ignore[misc]
            except OSError as error:
                # the others are deleted nevertheless
                failed = failed or error
        if failed is not None:
            raise failed

    def dispose(self, path: str) -> str:
        """Delete a savepoint or checkpoint that a user names; returns the URI of what was deleted.

        Files outside the directory are kept, because other checkpoints may refer to them. A disposal that was
        interrupted can be repeated: a mark, which is deleted last, tells what is left of a snapshot from anything else.

        Raises:
            NotASnapshotError: it is not a snapshot, or the directory has other contents as well.
            LocationNotAllowedError: it is outside of the allowed roots.
            OSError: something is left.
        """
        directory = self.directory_of(path)
        mark = join(directory, DISPOSED)
        is_begun = self._retries.call(lambda: self.file_system.exists(mark))
        if not is_begun:
            # a damaged one may be deleted
            with contextlib.suppress(DamagedSnapshotError):
                self._load(directory)
        entries = self.file_system.list(directory)
        strangers = [entry.name for entry in entries if entry.is_directory]
        if strangers:
            raise NotASnapshotError(directory, f"it contains directories ({', '.join(strangers[:3])})")
        if not is_begun:
            # a storage that is full takes no mark, and must be emptied all the same
            with contextlib.suppress(OSError):
                write_once(self.file_system, mark, b"", self._retries)
        others = [join(directory, entry.name) for entry in entries if entry.name not in (METADATA, DISPOSED)]
        self.delete([join(directory, METADATA), *others], [])
        self.delete([], [directory])
        return directory

    def _load(self, directory: str) -> CheckpointMetadata:
        uri = join(directory, METADATA)
        try:
            data = self._retries.call(lambda: self.file_system.read(uri))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            is_there = self.file_system.exists(directory)
            why = f"it has no {METADATA} file" if is_there else "nothing exists at this location"
            raise NotASnapshotError(directory, why) from None
        metadata = decode_metadata(data, directory, self._keys)
        writer = writer_of_directory(directory)
        if writer is not None and writer.checkpoint_id != metadata.checkpoint_id:
            raise DamagedSnapshotError(uri, f"it belongs to checkpoint {metadata.checkpoint_id}")
        return metadata
