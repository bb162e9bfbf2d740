"""Line numbers of log files, and text search in them. Blocking; any thread.

Log files only grow, so the lines before an offset are counted once and cached per file.
"""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

MAX_MATCHES: Final = 1000
DEFAULT_MATCHES: Final = 200
MAX_QUERY_CHARS: Final = 500
MAX_TEXT_CHARS: Final = 500
"""Maximum length of a line shown as a match."""
MAX_LINE_BYTES: Final = 1 << 20
"""Maximum length of a line in a search; the rest of a longer line is searched as a separate line."""
SEARCH_S: Final = 2.0
"""A search stops after this time and reports how far it got; the next request continues from there."""
_BLOCK_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 512
_MAX_COUNTED_FILES: Final = 256


@dataclass(frozen=True, slots=True)
class Match:
    """A line that contains the text."""

    line: int
    """Line number, from 1."""
    offset: int
    """Offset of its first byte."""
    text: str
    """The line without its line end; at most 500 characters around the first match."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search."""

    matches: list[Match]
    searched_to: int
    """All lines that begin before this byte have been searched."""
    is_complete: bool
    """True if the whole file was searched."""


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


def line_at(stream: BinaryIO, offset: int) -> int:
    """Return the number of the line that contains the byte at `offset`; the first line is 1."""
    return _counts.before(stream, offset) + 1


def search(
    path: Path,
    query: str,
    *,
    is_case_sensitive: bool = False,
    start: int = 0,
    limit: int = DEFAULT_MATCHES,
    monotonic: Callable[[], float] = time.monotonic,
) -> Found:
    """Find the lines that contain a text.

    Args:
        path: the file.
        query: the literal text, without line breaks.
        is_case_sensitive: whether "Error" differs from "error".
        start: offset of the first line to search.
        limit: maximum number of matches.
        monotonic: clock in seconds.
    """
    # for bytes, re.IGNORECASE covers ASCII letters only
    texts = [query] if is_case_sensitive else [query, query.lower(), query.upper()]
    pattern = re.compile(
        b"|".join(re.escape(text.encode()) for text in texts), 0 if is_case_sensitive else re.IGNORECASE
    )
    deadline = monotonic() + SEARCH_S
    matches: list[Match] = []
    with path.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        at = min(start, size)
        line = line_at(stream, at)
        stream.seek(at)
        while at < size:
            # whole lines only, so that no match is cut in two; data written during the search is not searched
            block = stream.read(min(_BLOCK_BYTES, size - at))
            if at + len(block) < size and not block.endswith(b"\n"):
                block += stream.readline(MAX_LINE_BYTES)
            starts = [0, *(found.end() for found in re.finditer(b"\n", block))]
            reached = -1
            for found in pattern.finditer(block):
                index = bisect_right(starts, found.start()) - 1
                if index <= reached:
                    continue
                if len(matches) == limit:
                    return Found(matches, at + starts[index], False)
                reached = index
                end = starts[index + 1] if index + 1 < len(starts) else len(block)
                text = _shown(block[starts[index] : end], found.start() - starts[index])
                matches.append(Match(line + index, at + starts[index], text))
            at += len(block)
            line += len(starts) - 1
            if at < size and monotonic() > deadline:
                return Found(matches, at, False)
    return Found(matches, size, True)


def _shown(line: bytes, place: int) -> str:
    """Return the line, or for a long line the part around the match."""
    text = line.rstrip(b"\r\n").decode(errors="replace")
    if len(text) <= MAX_TEXT_CHARS:
        return text
    before = len(line[:place].decode(errors="replace"))
    begin = max(0, min(before - MAX_TEXT_CHARS // 4, len(text) - MAX_TEXT_CHARS))
    return text[begin : begin + MAX_TEXT_CHARS]
