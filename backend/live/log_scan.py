"""LogScan: what is wanted of one log, block by block, from its end or from its begin. Blocking; one thread.

An entry is a record of a slot's log with all its lines, or a line that belongs to none, as what was printed. Times come
from the records themselves, else from the log's stamps (`log_times`); within a log the order is that of the file,
whatever its times say. Files may grow, be cut off or vanish meanwhile: what is not there is passed over.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from backend.cluster.log_segments import Segment, read_only
from backend.cluster.log_times import read_times, time_at, times_at
from backend.live.logs import LogFile
from backend.live.process_logs import ProcessLog
from runtime.task.log_records import HEAD, Head, head_of

FIRST_BLOCK_BYTES: Final = 64 << 10
"""Of each log that a search looks at; larger: a page of the newest lines of many slots reads more than it shows."""
FIRST_BLOCKS_BYTES: Final = 1 << 20
"""Of all logs together: all are split into entries before the first one is known. Larger: a few searches at once in
400 logs take several seconds."""
MAX_BLOCK_BYTES: Final = 1 << 20
"""Longer lines are searched in pieces of that size."""
MAX_RECORD_BYTES: Final = 256 << 10
"""Further lines of a longer record count as lines that belong to none."""
MAX_READY: Final = 1_000
"""Entries of a log that are held at a time: an answer has no more. More: empty lines of many slots fill the memory."""
SLACK_MS: Final = 60_000
"""By so much clocks of machines may differ, and lines be late."""
_SMALL: Final = np.uint8(0x20)
_LOOKED_AT_LINES: Final = 50
"""Lines without a head that are looked at for the time of a block in which nothing is wanted."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Conditions of a search; everything that is given must hold."""

    texts: Sequence[bytes] = ()
    """In lower case as ASCII has it: one of them must be in the entry."""
    levels: frozenset[bytes] | None = None
    """As records have them."""
    vertex: bytes = b""
    """First digits of an id, as records have them."""
    operator: bytes = b""
    """First digits of an id, as records have them."""
    since_ms: int | None = None
    """Earlier entries are left out."""

    @property
    def is_everything(self) -> bool:
        """Return whether blocks cannot be passed over as a whole."""
        return self.levels is None and not self.vertex and not self.operator and not self.texts

    def may_be_in(self, block: bytes | bytearray, folded: bytes | bytearray, end: int) -> bool:
        """Return False if nothing in a block is wanted.

        Args:
            block: begins with the block.
            folded: the same, `folded`; only looked at if texts are wanted.
            end: where the block ends.
        """
        return (
            (self.levels is None or any(block.find(b" %b " % level, 0, end) >= 0 for level in self.levels))
            and (not self.vertex or block.find(b" [%b#" % self.vertex, 0, end) >= 0)
            and (not self.operator or block.find(b"/%b] " % self.operator, 0, end) >= 0)
            and (not self.texts or any(folded.find(fold(text), 0, end) >= 0 for text in self.texts))
        )

    def has(self, head: re.Match[bytes] | None, lowered: bytes, begin: int, end: int) -> bool:
        """Return whether an entry is wanted, but for its time.

        Args:
            head: match of its head; None: it has none.
            lowered: the block in lower case; only if texts are wanted.
            begin: of the entry in the block.
            end: of the entry in the block.
        """
        if self.levels is not None and (head is None or head[3] not in self.levels):
            return False
        if self.vertex and (head is None or head[4] != self.vertex):
            return False
        if self.operator and (head is None or head[6] != self.operator):
            return False
        return not self.texts or any(lowered.find(text, begin, end) >= 0 for text in self.texts)


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, or a line that belongs to none."""

    file: LogFile | ProcessLog
    offset: int
    data: bytes
    head: Head | None
    time_ms: int | None
    """None: nobody knows."""

    @property
    def end(self) -> int:
        """Offset in the log after it."""
        return self.offset + len(self.data)


class BlockBuffer:
    """Memory of a search for blocks in which nothing is wanted: they are read and folded in place, and not copied.

    Twice as fast as a `bytes` for each block and one for each of its forms. One thread.
    """

    def __init__(self) -> None:
        self.block = bytearray(MAX_BLOCK_BYTES)
        self.folded = bytearray(MAX_BLOCK_BYTES)
        self._from = np.frombuffer(self.block, np.uint8)
        self._to = np.frombuffer(self.folded, np.uint8)

    def read(self, segment: Segment, low: int, high: int) -> int:
        """Read a part of a file of a log into `block`; returns its size.

        Args:
            segment: the file.
            low: offset in the log.
            high: offset in the log; at most `MAX_BLOCK_BYTES` more.

        Raises:
            FileNotFoundError: it is gone.
        """
        with read_only(segment.path) as stream:
            stream.seek(low - segment.start)
            return stream.readinto(memoryview(self.block)[: high - low])

    def may_have(self, wanted: Wanted, end: int) -> bool:
        """Return False if nothing is wanted of what `block` has before `end`."""
        if wanted.texts:
            np.bitwise_or(self._from[:end], _SMALL, out=self._to[:end])
        return wanted.may_be_in(self.block, self.folded, end)


class LogScan:
    """A search in one log.

    Args:
        file: the log.
        end: where it ends for this search.
        wanted: what is looked for.
        is_backward: whether it begins at the end.
        start: offset at which it goes on; None: it begins.
        logs: number of logs that are searched at the same time.
        buffer: of the search, for what can be passed over; None: nothing is.
    """

    def __init__(
        self,
        file: LogFile,
        end: int,
        wanted: Wanted,
        *,
        is_backward: bool,
        start: int | None = None,
        logs: int = 1,
        buffer: BlockBuffer | None = None,
    ) -> None:
        self.file = file
        self._buffer = None if wanted.is_everything else buffer
        #: whether times of arrival tell what is too old; the times that lines say need not ascend
        self._has_arrivals = False
        self.begin = file.segments[0].start if wanted.since_ms is None else self._first_since(wanted.since_ms)
        self.end = max(self.begin, end)
        if start is not None and not is_backward and file.segments[-1].epoch:
            # what a leader had not finished when it was lost is written there again
            self.end = max(self.end, start)
        self._wanted = wanted
        self._is_backward = is_backward
        self._first_block_bytes = min(FIRST_BLOCK_BYTES, FIRST_BLOCKS_BYTES // logs)
        self._block_bytes = self._first_block_bytes
        #: key; offset; block, and where it is in it; head; time
        self._ready: deque[tuple[float, int, bytes, int, int, Head | None, int | None]] = deque()
        #: no entry that is still to come is newer; or, forward, older
        self._edge: float = file.mtime if is_backward else float("-inf")
        if start is None:
            start = self.end if is_backward else self.begin
        #: what has been scanned lies on the other side of it
        self._at = self._start = min(max(start, self.begin), self.end)

    @property
    def has_ready(self) -> bool:
        """Return whether `take` has an entry."""
        return bool(self._ready)

    @property
    def is_exhausted(self) -> bool:
        """Return whether nothing is left to scan."""
        if self._at == (self.begin if self._is_backward else self.end):
            return True
        since = self._wanted.since_ms
        return since is not None and self._is_backward and not self._has_arrivals and self._edge < since - SLACK_MS

    @property
    def has_advanced(self) -> bool:
        """Return whether another search would go on elsewhere than this one began."""
        return self.position != self._start

    @property
    def key(self) -> float:
        """Time of the next entry as far as it counts for the order of logs, epoch ms; or a bound of it."""
        return self._ready[0][0] if self._ready else self._edge

    @property
    def position(self) -> int:
        """Offset at which another search goes on, so that no entry comes twice or never."""
        if not self._ready:
            return self._at
        _, offset, _, begin, end, _, _ = self._ready[0]
        return offset + end - begin if self._is_backward else offset

    @property
    def left_bytes(self) -> int:
        """Number of bytes that are still to be searched."""
        if self.is_exhausted and not self._ready:
            return 0
        return self.position - self.begin if self._is_backward else self.end - self.position

    def take(self) -> Entry:
        """Remove and return the next entry that is ready."""
        _, offset, block, begin, end, head, time_ms = self._ready.popleft()
        return Entry(self.file, offset, block[begin:end], head, time_ms)

    def scan(self) -> int:
        """Search the next block; returns its size. Nothing must be ready."""
        segment = self._segment()
        low, high = max(segment.start, self.begin), min(self._end_of(segment), self.end)
        try:
            if self._block_bytes == MAX_BLOCK_BYTES and (passed := self._pass_over(low, high, segment)):
                return passed
            if self._is_backward:
                base, block = self._read_before(low, segment)
                self._at = base
            else:
                base, high = self._at, min(high, self._at + self._block_bytes)
                block = self._read_after(high, segment)
                self._at = base + len(block) if block else high
        except FileNotFoundError:
            # by rotation, which begins with the oldest; or the job's logs are deleted
            self._at = self.begin if self._is_backward else high
            return 0
        self._find(base, block, segment)
        self._block_bytes = self._first_block_bytes if self._ready else min(2 * self._block_bytes, MAX_BLOCK_BYTES)
        return len(block)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _segment(self) -> Segment:
        """Return the file of the next block."""
        segments = self.file.segments
        if self._is_backward:
            return next(s for s in reversed(segments) if s.start < self._at)
        return next(s for s in segments if self._at < self._end_of(s))

    def _end_of(self, segment: Segment) -> int:
        return self.end if segment is self.file.segments[-1] else segment.end

    def _pass_over(self, low: int, high: int, segment: Segment) -> int:
        """Pass over the next block if nothing in it is wanted, and return its size; 0: it has to be looked at."""
        buffer = self._buffer
        if buffer is None:
            return 0
        base = max(low, self._at - MAX_BLOCK_BYTES) if self._is_backward else self._at
        size = min(MAX_BLOCK_BYTES, (self._at if self._is_backward else high) - base)
        if buffer.read(segment, base, base + size) != size or buffer.may_have(self._wanted, size):
            return 0
        block, begin, end = buffer.block, 0, size
        if self._is_backward and base > low:
            begin = self._first_entry(block, size)
        if not self._is_backward and base + size < high:
            end = self._last_entry(block, size)
        if begin < 0 or end <= begin:
            # a record, or a line, that is longer
            return 0
        self._move_edge(self._time_of_block(base, block, begin, end, segment))
        self._at = base + (begin if self._is_backward else end)
        return end - begin

    def _first_entry(self, block: bytearray, size: int) -> int:
        """Return where the first entry begins that begins behind a line end; -1: not near."""
        at = block.find(b"\n", 0, size) + 1
        for _ in range(_LOOKED_AT_LINES):
            if not 0 < at < size:
                break
            if not self._has_heads or HEAD.match(block, at, size) is not None:
                return at
            at = block.find(b"\n", at, size) + 1
        return -1

    def _last_entry(self, block: bytearray, size: int) -> int:
        """Return where the last entry begins, or whole lines end; -1: not near."""
        at = block.rfind(b"\n", 0, size) + 1
        for _ in range(_LOOKED_AT_LINES):
            if at <= 0 or not self._has_heads or HEAD.match(block, at, size) is not None:
                break
            at = block.rfind(b"\n", 0, at - 1) + 1
        else:
            return -1
        return at or -1

    def _read_before(self, low: int, segment: Segment) -> tuple[int, bytes]:
        """Return the offset of the block before, which begins with a record if it can, and the block."""
        size = self._block_bytes
        pieces: tuple[int, bytes] | None = None
        while True:
            base, block = self._whole_before(max(low, self._at - size), segment)
            if not self._has_heads or base <= self.begin or HEAD.match(block) is not None:
                return base, block
            pieces = pieces or (base, block)
            if size >= MAX_RECORD_BYTES or self._at - size <= low:
                return pieces
            size *= 4

    def _whole_before(self, low: int, segment: Segment) -> tuple[int, bytes]:
        """Read a block, and cut off what begins before it; returns the offset of the rest, and the rest."""
        block = _read(segment, low, self._at)
        if low > segment.start:
            cut = block.find(b"\n") + 1
            if not 0 < cut < len(block):
                # a piece of a line that is longer
                return low, block
            low, block = low + cut, block[cut:]
        if self._has_heads and low > self.begin and HEAD.match(block) is None:
            first = next((begin for begin, head in _lines(block) if head is not None), None)
            if first is not None:
                # the record of which these are the last lines comes with the next block
                return low + first, block[first:]
        return low, block

    def _read_after(self, high: int, segment: Segment) -> bytes:
        """Return the block that follows, which ends with a record if it can."""
        last = min(self._end_of(segment), self.end)
        pieces: bytes | None = None
        while True:
            block = _read(segment, self._at, high)
            if high >= last:
                return block
            whole = block[: block.rfind(b"\n") + 1] or block
            if not self._has_heads:
                return whole
            at = len(whole)
            while (at := whole.rfind(b"\n", 0, max(at - 1, 0)) + 1) > 0:
                if HEAD.match(whole, at) is not None:
                    return whole[:at]
            pieces = pieces or whole
            if high - self._at >= MAX_RECORD_BYTES or HEAD.match(whole) is None:
                return pieces
            high = min(last, self._at + 4 * (high - self._at))

    @property
    def _has_heads(self) -> bool:
        return self.file.kind == "log"

    # --- entries ------------------------------------------------------------------------------------------------------

    def _find(self, base: int, block: bytes, segment: Segment) -> None:
        """Make what is wanted of a block ready, and move the edge."""
        if not self._wanted.may_be_in(block, fold(block) if self._wanted.texts else b"", len(block)):
            self._move_edge(self._time_of_block(base, block, 0, len(block), segment))
            return
        lowered = block.lower() if self._wanted.texts else b""
        entries = self._entries(base, block, segment, lowered)
        since = self._wanted.since_ms
        for begin, end, head, time_ms, is_wanted in reversed(entries) if self._is_backward else entries:
            if len(self._ready) == MAX_READY:
                self._at = base + (end if self._is_backward else begin)
                break
            self._move_edge(time_ms)
            if is_wanted and (since is None or (self._edge if time_ms is None else time_ms) >= since):
                self._ready.append((self._edge, base + begin, block, begin, end, head, time_ms))

    def _entries(
        self, base: int, block: bytes, segment: Segment, lowered: bytes
    ) -> list[tuple[int, int, Head | None, int | None, bool]]:
        """Return begin and end of entries of a block, their heads and times, and whether they are wanted.

        What is not wanted is left out, but for the first and the last one, whose times count.
        """
        lines = [*_lines(block)] if self._has_heads else [(begin, None) for begin in _begins(block)]
        # lines after a head belong to its record
        is_in_record = False
        kept: list[tuple[int, re.Match[bytes] | None]] = []
        for begin, head in lines:
            is_in_record = is_in_record or head is not None
            if head is not None or not is_in_record:
                kept.append((begin, head))
        kept.append((len(block), None))
        found = []
        for (begin, match), (end, _) in pairwise(kept):
            is_wanted = self._wanted.has(match, lowered, begin, end)
            if is_wanted or begin == 0 or end == len(block):
                found.append((begin, end, None if match is None else head_of(block, begin), is_wanted))
        bare = [base + begin for begin, _, head, _ in found if head is None]
        arrived = iter(times_at(read_times(segment, base, base + len(block)), bare) if bare else ())
        return [
            (begin, end, head, next(arrived) if head is None else head.time_ms, is_wanted)
            for begin, end, head, is_wanted in found
        ]

    def _time_of_block(self, base: int, block: bytes | bytearray, begin: int, end: int, segment: Segment) -> int | None:
        """Return the time of the edge of a part of a block: of its first entry, or forward its last.

        Args:
            base: offset of the block in the log.
            block: the block.
            begin: of the part, with an entry.
            end: of the part.
            segment: the file that it is of.
        """
        if not self._has_heads:
            return self._arrived(segment, base + begin if self._is_backward else base + max(begin, end - 1))
        at = begin if self._is_backward else end
        for _ in range(_LOOKED_AT_LINES):
            if not self._is_backward:
                at = block.rfind(b"\n", begin, max(at - 1, begin)) + 1 or begin
            head = head_of(block, at)
            if head is not None:
                return head.time_ms
            if self._is_backward:
                at = block.find(b"\n", at, end) + 1 or begin
            if at == begin:
                break
        return self._arrived(segment, base + begin)

    def _move_edge(self, time_ms: int | None) -> None:
        if time_ms is not None:
            self._edge = min(self._edge, time_ms) if self._is_backward else max(self._edge, time_ms)

    @staticmethod
    def _arrived(segment: Segment, offset: int) -> int | None:
        return time_at(read_times(segment, offset, offset), offset)

    def _first_since(self, since_ms: int) -> int:
        """Return an offset before which all has arrived too early."""
        limit = max(0, since_ms - SLACK_MS)
        first = self.file.segments[0].start
        for segment in self.file.segments:
            stamps = read_times(segment)
            if not len(stamps):
                return segment.start
            self._has_arrivals = True
            # the leader's clock, too, may have been set back
            newer = np.flatnonzero(stamps[:, 1] > limit)
            if len(newer):
                return int(stamps[newer[0] - 1, 0]) if newer[0] else segment.start
            first = int(stamps[-1, 0])
        return first


def _read(segment: Segment, low: int, high: int) -> bytes:
    with read_only(segment.path) as stream:
        stream.seek(low - segment.start)
        return stream.read(max(0, high - low))


def fold(text: bytes) -> bytes:
    """Make small letters of capitals, and other signs of some signs: five times as fast as `lower`."""
    return (np.frombuffer(text, np.uint8) | _SMALL).tobytes()


def _begins(block: bytes) -> Iterator[int]:
    """Yield where each line begins."""
    at = 0
    while at < len(block):
        yield at
        at = block.find(b"\n", at) + 1 or len(block)


def _lines(block: bytes) -> Iterator[tuple[int, re.Match[bytes] | None]]:
    """Yield where each line begins, and the match of its head."""
    match = HEAD.match
    for at in _begins(block):
        # most lines that are no heads do not begin with a digit
        yield at, match(block, at) if 48 <= block[at] <= 57 else None
