"""MemoryFileSystem: the file system of checkpoints as a dict, for simulations and tests.

It outlives whatever is restarted around it, and calls `before` ahead of every operation: what that raises is how the
operation fails, and whatever else it does happens at that moment. One thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from runtime.checkpoint.file_system import PIECE_BYTES, DirectoryEntry
from runtime.checkpoint.locations import name_of, parent_of

__all__ = ["MemoryFileSystem", "no_fault"]


def no_fault(operation: str, uri: str) -> None:
    """Do nothing: everything works."""


class MemoryFileSystem:
    """A CheckpointFileSystem in memory.

    Args:
        before: called as (operation, uri): write_new and landing (its content was taken, it is not visible yet), read,
            read_range, pieces, exists, list, make_directory, delete_file, delete_directory.
    """

    def __init__(self, before: Callable[[str, str], None] = no_fault) -> None:
        self.before = before
        #: by URI; tests may look into it and damage what is there
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = set()

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        self.before("write_new", uri)
        content = data if isinstance(data, bytes) else b"".join(data)
        self.before("landing", uri)
        if uri in self.files:
            raise _error(errno.EEXIST, uri)
        if parent_of(uri) not in self.directories:
            raise _error(errno.ENOENT, uri)
        self.files[uri] = content

    def read(self, uri: str) -> bytes:
        self.before("read", uri)
        return self._content(uri)

    def read_range(self, uri: str, offset: int, length: int) -> bytes:
        self.before("read_range", uri)
        return self._content(uri)[offset : offset + length]

    def pieces(self, uri: str) -> Iterator[bytes]:
        self.before("pieces", uri)
        content = self._content(uri)
        for start in range(0, len(content), PIECE_BYTES):
            yield content[start : start + PIECE_BYTES]

    def exists(self, uri: str) -> bool:
        self.before("exists", uri)
        return uri in self.files or uri in self.directories

    def list(self, uri: str) -> list[DirectoryEntry]:
        self.before("list", uri)
        entries = [DirectoryEntry(name_of(d), True, 0) for d in self.directories if parent_of(d) == uri]
        entries += [DirectoryEntry(name_of(f), False, len(self.files[f])) for f in self.files if parent_of(f) == uri]
        return sorted(entries, key=lambda entry: entry.name)

    def make_directory(self, uri: str) -> None:
        self.before("make_directory", uri)
        while uri and not uri.endswith(":/"):
            self.directories.add(uri)
            uri = parent_of(uri)

    def delete_file(self, uri: str) -> None:
        self.before("delete_file", uri)
        self.files.pop(uri, None)

    def delete_directory(self, uri: str) -> None:
        self.before("delete_directory", uri)
        self.files = {name: content for name, content in self.files.items() if not name.startswith(uri + "/")}
        self.directories = {name for name in self.directories if name != uri and not name.startswith(uri + "/")}

    def local_path(self, uri: str) -> Path | None:
        return None

    def _content(self, uri: str) -> bytes:
        content = self.files.get(uri)
        if content is None:
            raise _error(errno.ENOENT, uri)
        return content


def _error(code: int, uri: str) -> OSError:
    # OSError gives the class that belongs to the code
    return OSError(code, os.strerror(code), uri)
