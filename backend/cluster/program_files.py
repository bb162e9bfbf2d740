"""ProgramFiles: the files of uploaded programs in the cluster's storage, which all processes reach.

A file is `artifacts/<sha256>.<cluster>-<8 hex digits>/<file name>` below the storage's root: every upload has a
directory of its own, so that the deletion of one never meets another of the same content, and other clusters on the
same storage know that it is not theirs. Programs of earlier releases are in `artifacts/<sha256>/` and
`artifacts/<sha256>.<8 hex digits>/`. Which files there are is in SQL. Blocking; any thread.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import Artifact
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.file_system import PIECE_BYTES, CheckpointFileSystem
from runtime.checkpoint.locations import join, name_of, parent_of
from runtime.checkpoint.state_files import default_file_system

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: the end of a program's location, whatever the storage's root was when it was uploaded
_LOCATION = re.compile(r".*/artifacts/([0-9a-f]{64}(?:\.(?:[0-9a-f]{8}-)?[0-9a-f]{8})?/[^/]+)")
_ENTRY = re.compile(r"[0-9a-f]{64}\.([0-9a-f]{8})-[0-9a-f]{8}")


class StorageProblem(Exception):
    """The storage cannot be used; the message may be shown to users.

    Attributes:
        is_full: whether it has no space left; else it is away, or refuses.
    """

    def __init__(self, message: str, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


def owner_of(entry: str) -> str:
    """Return the id of the cluster that an entry below the root belongs to; empty: it does not say."""
    match = _ENTRY.fullmatch(entry)
    return "" if match is None else match[1]


@contextmanager
def storage_problems(of: str) -> Iterator[None]:
    """Raise failures of the storage in the block as StorageProblem.

    Args:
        of: names what is stored, in the plural.
    """
    try:
        yield
    except CheckpointStorageError as error:
        raise StorageProblem(f"The storage of {of} cannot be used: {error}") from error
    except OSError as error:
        # neither path nor host: they are of no use to who sees this
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        if error.errno in _FULL:
            advice = "Nothing was stored. Delete what is not needed, or enlarge the storage, then try again."
            raise StorageProblem(f"The storage of {of} is full ({why}). {advice}", is_full=True) from error
        raise StorageProblem(f"The storage of {of} is unavailable at the moment ({why}); try again.") from error


@dataclass(frozen=True, slots=True)
class ProgramFiles:
    """Files of programs; their paths are relative to `root`."""

    files: CheckpointFileSystem
    root: str
    """URI."""

    def write(self, source: Path, digest: str, name: str, cluster_id: str) -> str:
        """Copy a file into the storage; it is there as a whole, or not at all.

        Args:
            source: the file.
            digest: its sha256, hex.
            name: its name in the storage.
            cluster_id: of this cluster.

        Returns:
            Its path.

        Raises:
            OSError: it cannot be written; nothing is left of it where the storage allows that.
        """
        path = f"{digest}.{cluster_id}-{secrets.token_hex(4)}/{name}"
        self.make_root()
        try:
            self.files.make_directory(parent_of(self.uri(path)))
            self.files.write_new(self.uri(path), _pieces(source))
        except BaseException:
            self.delete([path])
            raise
        return path

    def make_root(self) -> None:
        """Make the directory of all programs, unless it is there."""
        local = self.files.local_path(self.root)
        if local is not None:
            # programs are nobody else's business
            local.parent.mkdir(parents=True, exist_ok=True)
            local.mkdir(mode=0o700, exist_ok=True)

    def has(self, path: str) -> bool:
        """Return whether the file is there."""
        return self.files.exists(self.uri(path))

    def delete(self, paths: Collection[str]) -> None:
        """Delete files with their directories; what cannot be deleted is left for `unknown`."""
        for path in paths:
            try:
                self.files.delete_directory(parent_of(self.uri(path)))
            except OSError:
                continue

    def unknown(self, known: Collection[str]) -> list[str]:
        """Return the names of entries below the root to which none of the known paths leads."""
        directories = {path.partition("/")[0] for path in known}
        return [entry.name for entry in self.files.list(self.root) if entry.name not in directories]

    def delete_entry(self, name: str) -> None:
        """Delete an entry below the root, a file or a directory."""
        self.files.delete_directory(join(self.root, name))
        self.files.delete_file(join(self.root, name))

    def uri(self, path: str) -> str:
        """Return a file's URI."""
        return join(self.root, path)

    @contextmanager
    def opened(self, path: str) -> Iterator[Path]:
        """Yield the path of a local file with the program: the file itself, or a copy for the block.

        Raises:
            StorageProblem: it cannot be copied.
        """
        uri = self.uri(path)
        local = self.files.local_path(uri)
        if local is not None:
            yield local
            return
        with tempfile.TemporaryDirectory(prefix="tidemark-program-") as directory:
            copy = Path(directory) / "artifacts" / name_of(parent_of(uri)) / name_of(uri)
            copy.parent.mkdir(parents=True)
            with storage_problems("uploaded programs"), copy.open("wb") as file:
                for piece in self.files.pieces(uri):
                    file.write(piece)
            yield copy

    def import_location(self, path: str) -> str:
        """Return where slots import a program from: a path, if the storage is a directory; else a URI."""
        return str(self.files.local_path(self.uri(path)) or self.uri(path))

    def located(self, python_files: str) -> str:
        """Return the option `python.files` of a job with its program where the storage is now.

        A job that has not ended outlives a move of the storage, and an upgrade from a release that had none.
        """
        return ",".join(self._located(file) for file in python_files.split(","))

    def _located(self, file: str) -> str:
        match = _LOCATION.fullmatch(file)
        return file if match is None else self.import_location(match[1])


def program_files() -> ProgramFiles:
    """Return the files of the cluster's programs.

    Raises:
        UnknownFileSystemError: the configured storage is on no known file system.
    """
    return ProgramFiles(default_file_system(), cluster_storage().programs)


def copy_programs_of_home() -> int:
    """Copy programs that an earlier release kept in TIDEMARK_HOME into the storage; return their number.

    Raises:
        OSError: the storage refuses.
    """
    stored = program_files()
    home = Path(settings.TIDEMARK_HOME) / "artifacts"
    if stored.files.local_path(stored.root) == home:
        return 0
    copied = 0
    for paths in Artifact.objects.values_list("files", flat=True):
        for directory in {Path(path).parent.name for path in paths}:
            # the directory of an earlier release has a file for each name, and jobs import from older ones, too
            for source in sorted((home / directory).glob("*")):
                path = f"{directory}/{source.name}"
                if source.is_file() and not stored.has(path):
                    stored.make_root()
                    stored.files.make_directory(parent_of(stored.uri(path)))
                    with suppress(FileExistsError):
                        # another process has copied it just now
                        stored.files.write_new(stored.uri(path), _pieces(source))
                        copied += 1
    return copied


def _pieces(source: Path) -> Iterator[bytes]:
    with source.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
