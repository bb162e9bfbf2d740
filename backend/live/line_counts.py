"""Numbers of lines in files that only grow: counted once, and cached per file. Blocking; any thread."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import BinaryIO, Final

_BLOCK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 512
_MAX_COUNTED_FILES: Final = 256


@dataclass(slots=True)
class _Counted:
    """Cached line counts of one file."""

    head: bytes
    """Its first bytes; they differ in another file that reuses the inode."""
    ends: list[int]
    """Number of line ends before byte 0, 1 MiB, 2 MiB, ..."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the file is read: a long file holds up nobody who reads another one."""

    def fits(self, head: bytes, size: int) -> bool:
        """Return whether these are the counts of a file with that beginning and size."""
        return head.startswith(self.head) and len(self.ends) <= size // _BLOCK_BYTES + 1


class _LineCounts:
    """Counts lines of files and caches the counts of recently used files. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: by device and inode; least recently used first
        self._files: OrderedDict[tuple[int, int], _Counted] = OrderedDict()

    def before(self, stream: BinaryIO, offset: int) -> int:
        """Return the number of lines that end before the byte at `offset`."""
        status = os.fstat(stream.fileno())
        key = (status.st_dev, status.st_ino)
        stream.seek(0)
        head = stream.read(_HEAD_BYTES)
        known = self._counted(key, head, status.st_size)
        with known.lock:
            ends = known.ends
            while len(ends) <= offset // _BLOCK_BYTES:
                stream.seek((len(ends) - 1) * _BLOCK_BYTES)
                ends.append(ends[-1] + stream.read(_BLOCK_BYTES).count(b"\n"))
            block = offset // _BLOCK_BYTES
            stream.seek(block * _BLOCK_BYTES)
            return ends[block] + stream.read(offset - block * _BLOCK_BYTES).count(b"\n")

    def _counted(self, key: tuple[int, int], head: bytes, size: int) -> _Counted:
        with self._lock:
            known = self._files.get(key)
            if known is None or not known.fits(head, size):
                known = self._files[key] = _Counted(head, [0])
            self._files.move_to_end(key)
            if len(self._files) > _MAX_COUNTED_FILES:
                self._files.popitem(last=False)
            return known


_counts = _LineCounts()


def line_ends_before(stream: BinaryIO, offset: int) -> int:
    """Return the number of lines of a file that end before the byte at `offset`."""
    return _counts.before(stream, offset)
