"""The files of a log: numbered segments, of which each leader writes its own, and marks that say how far they count.

A log is one slot's output of one kind. The segment `<log>.e<epoch>.<start>` was written by the leader of that epoch and
has the log's bytes from `start` on, up to where a segment of a later leader, or the next of the same, begins: what a
replaced leader writes after that is no part of the log. A file `<log>` without these numbers is from an earlier release
and comes first.

The mark `<log>.e<epoch>.mark` has two numbers: the log's end, and how many bytes of the slot's output are in the log.
It is written after each append, in two places in turn, so that one of them is whole whenever its writer is killed.
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

_SEGMENT = re.compile(r"(.+)\.e(\d{1,18})\.(\d{1,18})")
_MARK = re.compile(r"(.+)\.e(\d{1,18})\.mark")
_MARK_TEXT = re.compile(rb"(\d{1,18} \d{1,18} \d{1,18}) ([0-9a-f]{8}) *\n")
MARK_BYTES = 80
"""Size of each of the two places of a mark."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A file that has a part of a log."""

    path: Path
    epoch: int
    """Of the leader that wrote it; 0: an earlier release."""
    start: int
    """Offset in the log of its first byte."""
    end: int
    """Offset in the log after its last byte that counts."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """How far a log counts."""

    number: int
    """Rises with each mark of a leader."""
    end: int
    """Size of the log, bytes."""
    position: int
    """Number of bytes of the slot's output that are in it, or are known to be missing."""

    def to_bytes(self) -> bytes:
        """Return the mark as text of `MARK_BYTES`."""
        text = f"{self.number} {self.end} {self.position}"
        return f"{text} {zlib.crc32(text.encode()):08x}".ljust(MARK_BYTES - 1).encode() + b"\n"

    @classmethod
    def whole(cls, data: bytes) -> list[Mark]:
        """Return the whole marks of a file, newest first; none: its writer was killed before it had begun."""
        found = []
        for place in (data[:MARK_BYTES], data[MARK_BYTES:]):
            fields = _MARK_TEXT.fullmatch(place)
            if fields is not None and zlib.crc32(fields[1]) == int(fields[2], 16):
                found.append(cls(*map(int, fields[1].split())))
        return sorted(found, reverse=True)


def segment_path(log: Path, epoch: int, start: int) -> Path:
    """Return the file of a segment; `log` is the log's path without numbers."""
    return log.with_name(f"{log.name}.e{epoch}.{start}")


def mark_path(log: Path, epoch: int) -> Path:
    """Return the file of the mark of a leader."""
    return log.with_name(f"{log.name}.e{epoch}.mark")


def log_of(path: Path) -> Path:
    """Return the log that a segment belongs to; a path without numbers is its own."""
    match = _SEGMENT.fullmatch(path.name)
    return path if match is None else path.with_name(match[1])


def epoch_of(path: Path) -> int:
    """Return the epoch of the leader that wrote a file of a log; 0: an earlier release, or it is not such a file."""
    match = _SEGMENT.fullmatch(path.name) or _MARK.fullmatch(path.name)
    return 0 if match is None else int(match[2])


def files_of(log: Path) -> list[tuple[Path, int]]:
    """Return the files that may belong to a log, with their sizes; empty without the directory."""
    found = []
    with suppress(FileNotFoundError):
        for path in log.parent.iterdir():
            if path.name == log.name or path.name.startswith(f"{log.name}.e"):
                # another process may delete old ones
                with suppress(FileNotFoundError):
                    found.append((path, path.stat().st_size))
    return found


def segments(log: Path, sizes: Iterable[tuple[Path, int]]) -> list[Segment]:
    """Return the segments of a log in order, without those of which nothing counts.

    Args:
        log: the log's path without numbers.
        sizes: paths of files beside it, and their sizes; files of other logs are ignored.
    """
    found: list[tuple[int, int, int, Path]] = []
    for path, size in sizes:
        match = _SEGMENT.fullmatch(path.name)
        if path == log:
            found.append((0, 0, size, path))
        elif match is not None and match[1] == log.name:
            found.append((int(match[2]), int(match[3]), size, path))
    result: list[Segment] = []
    # from the newest to the oldest: each counts up to where a newer one begins
    limit: int | None = None
    for epoch, start, size, path in sorted(found, reverse=True):
        end = start + size if limit is None else limit
        if limit is None or start < limit:
            result.append(Segment(path, epoch, start, end))
            limit = start
    return result[::-1]


def read_only(path: Path) -> BufferedReader:
    """Open a file of a log; no link is followed that somebody puts in its place.

    Raises:
        FileNotFoundError: it is gone, or is a link now.
    """
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(error.errno, "it is a link", str(path)) from error
        raise


def marks(log: Path, sizes: Iterable[tuple[Path, int]]) -> dict[int, Path]:
    """Return the files of a log's marks by epoch; for the arguments see `segments`."""
    found = ((_MARK.fullmatch(path.name), path) for path, _ in sizes)
    return {int(match[2]): path for match, path in found if match is not None and match[1] == log.name}
