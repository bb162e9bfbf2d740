"""File system for checkpoints: a small protocol, and its implementation over pyarrow.fs.

Files are immutable: they are written once, as a whole, under a new name, and then only read and deleted. Everything
takes URIs (see locations.py). Objects may be shared between threads. On the local file system a new file appears under
its name complete and on disk, or not at all, and never replaces another. Object stores show an object when its upload
ends; stores that cannot refuse to replace one are first asked whether it exists, so names must be unique in any case.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow.fs as pafs

from runtime.checkpoint.errors import UnknownFileSystemError
from runtime.checkpoint.locations import is_local, local_path, to_uri

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
"""Bytes read at once. Less costs more calls (round trips on object stores), more costs memory for each transfer in
progress.
"""
_MAX_DURABLE: Final = 4096
"""Directories remembered as durable. More: memory. Fewer: their names are synced more often."""
_NOT_OPENED: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors of syncing a directory that this process may not open: whoever set it up answers for its names."""
_NO_LINKS: Final = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a directory."""

    name: str
    is_directory: bool
    size: int
    """Bytes; 0 for directories."""


class CheckpointFileSystem(Protocol):
    """Operations of a file system that checkpoint storage needs; any thread. Failures are OSErrors."""

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file that does not exist yet; its directory exists. It is durable when this returns.

        Raises:
            FileExistsError: it exists; it was not changed.
            OSError: it cannot be written; nothing is left of it where the file system allows that.
        """

    def read(self, uri: str) -> bytes:
        """Return a file's content.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def read_range(self, uri: str, offset: int, length: int) -> bytes:
        """Return a part of a file; shorter where the file ends."""

    def pieces(self, uri: str) -> Iterator[bytes]:
        """Yield a file's content, piece by piece."""

    def exists(self, uri: str) -> bool:
        """Return whether there is a file or directory."""

    def list(self, uri: str) -> list[DirectoryEntry]:
        """Return the entries of a directory, by name; none if it does not exist."""

    def make_directory(self, uri: str) -> None:
        """Make a directory and those above it, unless they exist."""

    def delete_file(self, uri: str) -> None:
        """Delete a file if it exists."""

    def delete_directory(self, uri: str) -> None:
        """Delete a directory with its contents if it exists."""

    def local_path(self, uri: str) -> Path | None:
        """Return the file's path, if it is an ordinary file of this machine."""


class DurableDirectories:
    """Local directories of which the name, and the names that lead to it, have been synced; any thread.

    That another process deletes one and makes it again is not noticed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths: set[str] = set()

    def __contains__(self, directory: Path) -> bool:
        return str(directory) in self._paths

    def add(self, directory: Path) -> None:
        with self._lock:
            if len(self._paths) >= _MAX_DURABLE:
                self._paths.clear()
            self._paths.add(str(directory))

    def forget(self, directory: Path) -> None:
        """Forget a directory and those in it: another process may make them again."""
        with self._lock:
            below = f"{directory}/"
            self._paths -= {path for path in self._paths if path.startswith(below)} | {str(directory)}


class ArrowFileSystem:
    """Local files by the operating system, everything else by pyarrow.fs: s3, hdfs, gs, abfs by URI.

    pyarrow finds credentials (environment, profiles, instance metadata); they never come from options.

    Args:
        resolve: gives the pyarrow file system of a URI, and the path in it.
        survives_power_loss: whether local files are synced to disk before they count; without it they only outlive
            processes, and writing many small files is several times faster.
        durable: the directories that need no sync; None: none are known yet.
    """

    def __init__(
        self,
        resolve: Callable[[str], tuple[Any, str]] = pafs.FileSystem.from_uri,
        survives_power_loss: bool = True,
        durable: DurableDirectories | None = None,
    ) -> None:
        self._resolve = resolve
        self._syncs = survives_power_loss
        self._lock = threading.Lock()
        #: one file system for each scheme and host: connecting is expensive
        self._known: dict[str, tuple[Any, str]] = {}
        self._durable = DurableDirectories() if durable is None else durable

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        pieces = (data,) if isinstance(data, bytes) else data
        if is_local(uri):
            _write_new_local(local_path(uri), pieces, self._syncs)
            return
        files, path = self._of(uri)
        if files.get_file_info(path).type != pafs.FileType.NotFound:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), uri)
        try:
            with files.open_output_stream(path) as stream:
                for piece in pieces:
                    stream.write(piece)
        except BaseException:
            # leaving the block has completed the upload of the data written so far
            with contextlib.suppress(OSError):
                files.delete_file(path)
            raise

    def read(self, uri: str) -> bytes:
        if is_local(uri):
            return local_path(uri).read_bytes()
        files, path = self._of(uri)
        with files.open_input_file(path) as file:
            data: bytes = file.read()
        return data

    def read_range(self, uri: str, offset: int, length: int) -> bytes:
        if is_local(uri):
            with local_path(uri).open("rb") as local:
                local.seek(offset)
                return local.read(length)
        files, path = self._of(uri)
        with files.open_input_file(path) as file:
            data: bytes = file.read_at(max(0, min(length, file.size() - offset)), offset)
        return data

    def pieces(self, uri: str) -> Iterator[bytes]:
        if is_local(uri):
            with local_path(uri).open("rb", buffering=0) as local:
                while piece := local.read(PIECE_BYTES):
                    yield piece
            return
        files, path = self._of(uri)
        with files.open_input_stream(path) as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece

    def exists(self, uri: str) -> bool:
        if is_local(uri):
            return local_path(uri).exists()
        files, path = self._of(uri)
        return bool(files.get_file_info(path).type != pafs.FileType.NotFound)

    def list(self, uri: str) -> list[DirectoryEntry]:
        if is_local(uri):
            return _list_local(local_path(uri))
        files, path = self._of(uri)
        found = files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        entries = [
            DirectoryEntry(info.base_name, info.type == pafs.FileType.Directory, info.size or 0) for info in found
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def make_directory(self, uri: str) -> None:
        if is_local(uri):
            self._make_local_directory(local_path(uri))
            return
        files, path = self._of(uri)
        files.create_dir(path, recursive=True)

    def delete_file(self, uri: str) -> None:
        if is_local(uri):
            local_path(uri).unlink(missing_ok=True)
            return
        files, path = self._of(uri)
        if files.get_file_info(path).type != pafs.FileType.NotFound:
            files.delete_file(path)

    def delete_directory(self, uri: str) -> None:
        if is_local(uri):
            directory = local_path(uri)
            # before, so that whoever makes it again syncs it; after, because a thread may have made it meanwhile
            self._durable.forget(directory)
            _delete_local_directory(directory)
            self._durable.forget(directory)
            return
        files, path = self._of(uri)
        if files.get_file_info(path).type != pafs.FileType.NotFound:
            files.delete_dir(path)

    def local_path(self, uri: str) -> Path | None:
        return local_path(uri) if is_local(uri) else None

    def _make_local_directory(self, directory: Path) -> None:
        """Make a directory, and sync its name and those that lead to it, whoever made them.

        A process that was killed may have made directories that it has not synced.
        """
        is_there = directory.is_dir()
        if is_there and (not self._syncs or directory in self._durable or directory == directory.parent):
            return
        self._make_local_directory(directory.parent)
        if not is_there:
            directory.mkdir(exist_ok=True)
        if self._syncs:
            try:
                _sync_directory(directory.parent)
            except OSError as error:
                if error.errno not in _NOT_OPENED:
                    raise
                if not is_there:
                    logger.warning("a loss of power may take %s away: %s", directory, error)
            self._durable.add(directory)

    def _of(self, uri: str) -> tuple[Any, str]:
        """Return the pyarrow file system of a URI and the path in it."""
        scheme, _, rest = to_uri(uri).partition("://")
        scheme = {"s3a": "s3", "gcs": "gs"}.get(scheme, scheme)
        host, _, path = rest.partition("/")
        with self._lock:
            known = self._known.get(f"{scheme}://{host}")
            if known is None:
                try:
                    known = self._resolve(f"{scheme}://{host}/")
                except (ValueError, NotImplementedError) as error:
                    raise UnknownFileSystemError(uri, str(error)) from error
                self._known[f"{scheme}://{host}"] = known
        files, root = known
        return files, f"{root.rstrip('/')}/{path}" if root and path else root or path


# --- local files ------------------------------------------------------------------------------------------------------


def _write_new_local(path: Path, pieces: Iterable[bytes], syncs: bool) -> None:
    """Write under a temporary name, sync, and link to the final name: a link never replaces a file."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with draft.open("xb", buffering=0) as file:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[file.write(view) :]
            if syncs:
                os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            if syncs:
                # a try before may have failed after the link: whoever finds its own data there takes it as written
                _sync_directory(path.parent)
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # no links here: the name is reserved, then replaced; a reader in between finds a damaged file
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    if syncs:
        _sync_directory(path.parent)


def _list_local(directory: Path) -> list[DirectoryEntry]:
    entries = []
    try:
        with os.scandir(directory) as found:
            for item in found:
                with contextlib.suppress(FileNotFoundError):
                    is_directory = item.is_dir(follow_symlinks=False)
                    size = 0 if is_directory else item.stat(follow_symlinks=False).st_size
                    entries.append(DirectoryEntry(item.name, is_directory, size))
    except FileNotFoundError:
        return []
    return sorted(entries, key=lambda entry: entry.name)


def _delete_local_directory(directory: Path) -> None:
    # another process may be deleting it too
    while directory.is_dir() and not directory.is_symlink():
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue


def _sync_directory(directory: Path) -> None:
    """Make new names durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some file systems (network shares) sync files only
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
