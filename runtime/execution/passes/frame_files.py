"""Frames in files: written by one process, read by others of the same machine, which are told where each frame lies.

A file has no form: frames lie behind one another as they are. Nothing is written before the first frame. One thread.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, NamedTuple

_FORM: Final = struct.Struct("<QQ")


class FiledFrame(NamedTuple):
    """Where a frame lies."""

    file: str
    """Name in the directory."""
    offset: int
    length: int

    def to_bytes(self) -> bytes:
        """Return the place as bytes."""
        return _FORM.pack(self.offset, self.length) + self.file.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> FiledFrame:
        """Return the place that `to_bytes` has written."""
        return cls(data[_FORM.size :].decode(), *_FORM.unpack_from(data))


class FrameFile:
    """A file of frames.

    Args:
        directory: returns where it is; called with the first frame.
        name: in the directory; there is no such file yet.
    """

    def __init__(self, directory: Callable[[], Path], name: str) -> None:
        self._directory = directory
        self._name = name
        self._file: IO[bytes] | None = None
        #: how much has been written
        self.num_bytes = 0

    def add(self, frame: bytes) -> FiledFrame:
        """Write a frame, which others can read then.

        Raises:
            OSError: there is no room for it.
        """
        if self._file is None:
            # without a buffer: frames are large, and read by others as soon as these know of them
            self._file = (self._directory() / self._name).open("xb", buffering=0)
        left = memoryview(frame)
        while left:
            left = left[self._file.write(left) :]
        filed = FiledFrame(self._name, self.num_bytes, len(frame))
        self.num_bytes += len(frame)
        return filed

    def close(self) -> None:
        """Close the file, which stays; idempotent."""
        if self._file is not None:
            self._file.close()


class FrameReader:
    """Reads frames from the files of a directory."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, str], IO[bytes]] = {}
        self._open = ExitStack()

    def read(self, directory: Path, frame: FiledFrame) -> bytes:
        """Return a frame.

        Raises:
            OSError: it cannot be read.
        """
        known = directory, frame.file
        if known not in self._files:
            self._files[known] = self._open.enter_context((directory / frame.file).open("rb", buffering=0))
        data = os.pread(self._files[known].fileno(), frame.length, frame.offset)
        if len(data) < frame.length:
            raise OSError(f"{directory / frame.file} ends in the middle of a frame")
        return data

    def close(self) -> None:
        """Close the files; idempotent."""
        self._files.clear()
        self._open.close()
