"""A file system on which things go wrong as told: operations fail, something happens right before a write lands."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runtime.checkpoint.file_system import ArrowFileSystem, CheckpointFileSystem, DirectoryEntry
from runtime.checkpoint.state_files import Retries

NO_PAUSES = Retries((0.0, 0.0), pause=lambda _: None)


class FaultyFileSystem:
    """Passes everything on to another file system, but for the faults.

    Attributes:
        fail: called as (operation, uri) before each operation; what it raises is the operation's failure.
        before_landing: called as (uri) after a write's content was taken and before it appears under its name.
    """

    def __init__(self, files: CheckpointFileSystem | None = None) -> None:
        self.files = files or ArrowFileSystem(survives_power_loss=False)
        self.fail: Callable[[str, str], None] = lambda operation, uri: None
        self.before_landing: Callable[[str], None] = lambda uri: None
        self.calls: list[tuple[str, str]] = []

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        self._called("write_new", uri)
        taken = data if isinstance(data, bytes) else b"".join(data)
        self.before_landing(uri)
        self.files.write_new(uri, taken)

    def read(self, uri: str) -> bytes:
        self._called("read", uri)
        return self.files.read(uri)

    def read_range(self, uri: str, offset: int, length: int) -> bytes:
        self._called("read_range", uri)
        return self.files.read_range(uri, offset, length)

    def pieces(self, uri: str) -> Iterator[bytes]:
        self._called("pieces", uri)
        return self.files.pieces(uri)

    def exists(self, uri: str) -> bool:
        self._called("exists", uri)
        return self.files.exists(uri)

    def list(self, uri: str) -> list[DirectoryEntry]:
        self._called("list", uri)
        return self.files.list(uri)

    def make_directory(self, uri: str) -> None:
        self._called("make_directory", uri)
        self.files.make_directory(uri)

    def delete_file(self, uri: str) -> None:
        self._called("delete_file", uri)
        self.files.delete_file(uri)

    def delete_directory(self, uri: str) -> None:
        self._called("delete_directory", uri)
        self.files.delete_directory(uri)

    def local_path(self, uri: str) -> Path | None:
        return self.files.local_path(uri)

    def _called(self, operation: str, uri: str) -> None:
        self.calls.append((operation, uri))
        self.fail(operation, uri)


def failing(operation: str, part_of_uri: str = "", times: int = 10**9, code: int = errno.EIO) -> Callable[..., None]:
    """A `fail` that refuses an operation on some URIs so many times."""
    left = [times]

    def fail(called: str, uri: str) -> None:
        if called == operation and part_of_uri in uri and left[0] > 0:
            left[0] -= 1
            raise OSError(code, f"{operation} refused", uri)

    return fail


def once(action: Callable[[], object], part_of_uri: str = "") -> Callable[[str], None]:
    """A `before_landing` that does something before the first write to some URI lands."""
    done = [False]

    def before_landing(uri: str) -> None:
        if part_of_uri in uri and not done[0]:
            done[0] = True
            action()

    return before_landing
