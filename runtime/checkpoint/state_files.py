"""Writes and reads the files of checkpoints: unique names, sha256 of everything, retries of transient failures.

State backends and tasks get `TaskStateWriter` and `TaskStateReader` as StateFileWriter and StateFileReader; the upload
threads of a slot share them. A file is never written twice: each try has its own name, so that a try that ends late, or
belongs to another attempt, does no harm.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from runtime.checkpoint.errors import StorageAwayError
from runtime.checkpoint.file_system import PIECE_BYTES, ArrowFileSystem, CheckpointFileSystem, DurableDirectories
from runtime.checkpoint.layout import METADATA, file_name
from runtime.checkpoint.locations import join, parent_of
from runtime.core.checkpoint_options import CheckpointOptions
from runtime.core.ids import CheckpointId
from runtime.state.handles import DamagedSnapshotError, FileHandle

T = TypeVar("T")

_LASTING: Final = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENAMETOOLONG, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EISDIR),
}
"""Permanent failures."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of retries of a storage operation, and the pauses before them."""

    pauses_s: tuple[float, ...] = (0.1, 0.5, 2.0)
    """One pause before each further try, seconds in total well below the checkpoint's timeout and the time that a
    restore may take; shorter ones would not cover the few seconds that object stores ask for."""
    pause: Callable[[float], None] = time.sleep

    def call(self, action: Callable[[], T]) -> T:
        """Call the function, repeatedly if needed.

        Raises:
            OSError: it failed permanently, or too often.
        """
        for pause_s in self.pauses_s:
            try:
                return action()
            except OSError as error:
                if not is_transient(error):
                    raise
            self.pause(pause_s)
        return action()


DEFAULT_RETRIES: Final = Retries()


def is_transient(error: OSError) -> bool:
    """Return whether the same operation may succeed soon."""
    return error.errno not in _LASTING


class TaskStateWriter:
    """Writes the files of one task's part of one checkpoint.

    Args:
        files: the file system.
        options: of the checkpoint; its directories.
        checkpoint_id: its number.
        task: the task's name, for file names.
        retries: of failed operations.
    """

    def __init__(
        self,
        files: CheckpointFileSystem,
        options: CheckpointOptions,
        checkpoint_id: CheckpointId,
        task: str,
        retries: Retries = DEFAULT_RETRIES,
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self._files = files
        self._options = options
        self._task = task
        self._retries = retries
        self._lock = threading.Lock()
        #: guarded by the lock, as uploads run in parallel
        self._directories: set[str] = set()
        self._written: list[FileHandle] = []
        #: names under which a failed try may have left a file
        self._doubtful: list[str] = []

    @property
    def written_bytes(self) -> int:
        """Return the bytes of all files written so far."""
        with self._lock:
            return sum(file.size for file in self._written)

    def write(self, name: str, data: bytes | Iterable[bytes], *, shared: bool = False) -> FileHandle:
        """Write a new file; it is durable when this returns.

        Args:
            name: a hint for people.
            data: the content, whole or in pieces; pieces that can be iterated only once are not retried.
            shared: into the shared directory, where later checkpoints may refer to it.

        Raises:
            OSError: it cannot be written; nothing refers to what is left of it.
        """
        options = self._options
        directory = options.shared_directory if shared else options.directory
        is_shared = shared and options.shared_directory != options.directory
        retries = Retries((), self._retries.pause) if isinstance(data, Iterator) else self._retries

        tried: list[str] = []

        def try_once() -> FileHandle:
            self._make(directory)
            uri = join(directory, file_name(options.directory, self._task, name, uuid.uuid4().hex[:16]))
            tried.append(uri)
            measured = Measured((data,) if isinstance(data, bytes) else data)
            self._files.write_new(uri, measured)
            return FileHandle(uri, measured.size, measured.sha256, is_shared)

        try:
            handle = retries.call(try_once)
        except OSError:
            with self._lock:
                self._doubtful += tried
            raise
        with self._lock:
            self._written.append(handle)
        # a try may have succeeded although its response was lost
        self._delete(tried[:-1])
        return handle

    def upload(self, name: str, path: Path, *, shared: bool = False) -> FileHandle:
        """Write a local file's content, like `write`."""
        return self.write(name, _LocalPieces(path), shared=shared)

    def discard(self) -> None:
        """Delete the written files as far as possible: the checkpoint will not be acknowledged."""
        with self._lock:
            unwanted = [*(file.uri for file in self._written), *self._doubtful]
            self._written, self._doubtful = [], []
        self._delete(unwanted)

    def _delete(self, uris: Sequence[str]) -> None:
        for uri in uris:
            # the cleanup of orphans finds files that remain or appear later
            with contextlib.suppress(OSError):
                self._files.delete_file(uri)

    def _make(self, directory: str) -> None:
        with self._lock:
            is_known = directory in self._directories
        if not is_known:
            self._files.make_directory(directory)
            with self._lock:
                self._directories.add(directory)


LARGE_BYTES = 64 << 20
"""Files beyond this are read piece by piece, so that progress shows; smaller ones at once, which is quicker."""


class TaskStateReader:
    """Reads files of checkpoints and verifies them.

    Args:
        files: the file system.
        retries: of failed operations.
        snapshot: URI of the directory of the snapshot that all files belong to: a file that cannot be found counts as
            missing only if the snapshot's `_metadata` exists. None: always.
        on_read: told how many more bytes were read, of large files piece by piece; any thread.
    """

    def __init__(
        self,
        files: CheckpointFileSystem,
        retries: Retries = DEFAULT_RETRIES,
        snapshot: str | None = None,
        on_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._retries = retries
        self._snapshot = snapshot
        self._on_read = on_read

    def read(self, file: FileHandle) -> bytes:
        """Return a file's content, verified.

        Raises:
            DamagedSnapshotError: it is missing, or size or sha256 differ.
            OSError: the storage cannot be reached or is unavailable.
        """
        if file.size > LARGE_BYTES:
            return self._retries.call(lambda: b"".join(self._verified(file)))
        data = self._retries.call(lambda: self._found(file, lambda: self._files.read(file.uri)))
        _check(file, len(data), hashlib.sha256(data).hexdigest())
        self._on_read(len(data))
        return data

    def read_range(self, file: FileHandle, offset: int, length: int) -> bytes:
        """Return a part of a file; only its length is checked.

        Raises:
            DamagedSnapshotError: the file is missing or shorter.
            OSError: the storage cannot be reached or is unavailable.
        """
        data = self._retries.call(lambda: self._found(file, lambda: self._files.read_range(file.uri, offset, length)))
        if len(data) != length:
            raise DamagedSnapshotError(file.uri, f"{length} bytes at {offset} are missing")
        self._on_read(length)
        return data

    def download(self, file: FileHandle, path: Path) -> None:
        """Copy a file to a new local one and verify it; nothing is left at `path` if it is damaged.

        Raises:
            DamagedSnapshotError, OSError: as `read`.
        """

        def copy() -> None:
            with path.open("wb") as target:
                for piece in self._verified(file):
                    target.write(piece)

        try:
            self._retries.call(copy)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def verify(self, file: FileHandle) -> None:
        """Read a file to its end to verify it.

        Raises:
            DamagedSnapshotError, OSError: as `read`.
        """

        def look() -> None:
            for _ in self._verified(file):
                pass

        self._retries.call(look)

    def _verified(self, file: FileHandle) -> Iterator[bytes]:
        """Yield a file's pieces; raises after the last one if they are corrupt."""
        measured = Measured(self._files.pieces(file.uri))
        pieces = iter(measured)
        while piece := self._found(file, lambda: next(pieces, b"")):
            self._on_read(len(piece))
            yield piece
        _check(file, measured.size, measured.sha256)

    def _found(self, file: FileHandle, action: Callable[[], T]) -> T:
        """Perform an action on a file; a missing file is damage, unless the storage is unavailable."""
        try:
            return action()
        except IsADirectoryError as error:
            raise DamagedSnapshotError(file.uri, "it is a directory") from error
        except (FileNotFoundError, NotADirectoryError) as error:
            # in this order: a storage that becomes available in between has both
            if self._snapshot is not None and (
                not self._files.exists(join(self._snapshot, METADATA)) or self._files.exists(file.uri)
            ):
                raise StorageAwayError(self._snapshot) from error
            raise DamagedSnapshotError(file.uri, "it is missing") from error


def write_once(files: CheckpointFileSystem, uri: str, data: bytes, retries: Retries = DEFAULT_RETRIES) -> None:
    """Write a small file exclusively, creating its directory if needed.

    A try that succeeded without a response is recognised by the file's content.

    Raises:
        FileExistsError: another writer has written it.
        OSError: it cannot be written.
    """

    def write() -> None:
        files.make_directory(parent_of(uri))
        try:
            files.write_new(uri, data)
        except FileExistsError:
            if files.read(uri) != data:
                raise

    retries.call(write)


class Measured:
    """Counts and hashes pieces during iteration; once only."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.size = 0
        self._pieces = pieces
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Return the hex digest of all pieces so far."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            self.size += len(piece)
            yield piece


class _LocalPieces:
    """Pieces of a local file; may be iterated again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb", buffering=0) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece


def _check(file: FileHandle, size: int, sha256: str) -> None:
    if size != file.size:
        raise DamagedSnapshotError(file.uri, f"it has {size} bytes instead of {file.size}")
    if sha256 != file.sha256:
        raise DamagedSnapshotError(file.uri, "its SHA-256 is not the recorded one")


#: of this process
_DURABLE = DurableDirectories()


def default_file_system() -> CheckpointFileSystem:
    """Return the real file system: local files, and pyarrow.fs for everything else."""
    return ArrowFileSystem(durable=_DURABLE)
