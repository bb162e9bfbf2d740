"""Arrival times of the parts of a log: stamps beside each of its segments, for lines that say no time themselves.

A stamp is two numbers: an offset in the log, and the leader's wall-clock ms when what begins there was appended. There
is at most one a second, fewer the more a segment has. Stamps are a help for readers: what cannot be written is left
out, and a stamp that makes no sense is ignored.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from backend.cluster.log_segments import Segment, read_only

INTERVAL_MS: Final = 1_000
"""Between stamps. Shorter: programs that print little have more stamps than output; longer: lines of several slots are
merged in the wrong order."""
STAMPS_PER_INTERVAL: Final = 1 << 16
"""After so many stamps the interval doubles: a segment that takes a year has ten MB of them."""
_STAMP = np.dtype("<u8")
_STAMP_BYTES: Final = 16
_MAX_BYTES: Final = 64 << 20
Stamps = npt.NDArray[np.uint64]
"""Shape (n, 2): offset and ms, by ascending offset."""


def times_path(segment: Path) -> Path:
    """Return the file of a segment's stamps."""
    return segment.with_name(f"{segment.name}.times")


class TimesWriter:
    """Stamps of the segment that a log appends to. One thread.

    Args:
        segment: its path.
        is_new: whether stamps of a file of the same name are of something else.
    """

    def __init__(self, segment: Path, is_new: bool) -> None:
        self._file: int | None = None
        self._count = 0
        self._last_ms = float("-inf")
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if is_new else 0)
            self._file = os.open(times_path(segment), flags, 0o644)
            # a stamp that was torn is overwritten
            self._count = os.fstat(self._file).st_size // _STAMP_BYTES

    def note(self, offset: int, now_ms: int) -> None:
        """Note that what begins at an offset of the log is appended now."""
        interval = INTERVAL_MS << (self._count // STAMPS_PER_INTERVAL)
        if self._file is None or self._last_ms <= now_ms < self._last_ms + interval:
            return
        self._last_ms = now_ms
        with suppress(OSError):
            stamp = np.array([offset, now_ms], _STAMP).tobytes()
            if os.pwrite(self._file, stamp, self._count * _STAMP_BYTES) == _STAMP_BYTES:
                self._count += 1

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)


def read_times(segment: Segment, begin: int = 0, end: int | None = None) -> Stamps:
    """Return the stamps of a segment, or those that tell of the bytes from `begin` to `end`.

    Of a segment of an earlier release there are none. A program that prints for days has megabytes of stamps.
    """
    data = b""
    with suppress(OSError), read_only(times_path(segment.path)) as stream:
        file = stream.fileno()

        def offset(index: int) -> int:
            return int.from_bytes(os.pread(file, _STAMP_BYTES, index * _STAMP_BYTES)[: _STAMP_BYTES // 2], "little")

        known = range(min(os.fstat(file).st_size, _MAX_BYTES) // _STAMP_BYTES)
        first = max(0, bisect_right(known, begin, key=offset) - 1) if begin > segment.start else 0
        last = len(known) if end is None else bisect_right(known, end, first, key=offset)
        data = os.pread(file, (last - first) * _STAMP_BYTES, first * _STAMP_BYTES)
    stamps = np.frombuffer(data[: len(data) // _STAMP_BYTES * _STAMP_BYTES], _STAMP).reshape(-1, 2).astype(np.uint64)
    offsets = stamps[:, 0]
    stamps = stamps[(offsets >= segment.start) & (offsets < segment.end) & (stamps[:, 1] > 0)]
    # an append that failed is followed by another one at its offset
    return stamps[np.argsort(stamps[:, 0], kind="stable")]


def times_at(stamps: Stamps, offsets: Sequence[int]) -> list[int | None]:
    """Return when the byte at each offset arrived, epoch ms; None: nobody knows."""
    if not len(stamps):
        return [None] * len(offsets)
    indices = np.searchsorted(stamps[:, 0], np.array(offsets, np.uint64), "right").tolist()
    known = [None, *stamps[:, 1].tolist()]
    return [known[index] for index in indices]


def time_at(stamps: Stamps, offset: int) -> int | None:
    """Return when the byte at an offset arrived, epoch ms; None: nobody knows."""
    return times_at(stamps, [offset])[0]
