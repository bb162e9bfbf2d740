"""LogText: the bytes of a log across the files that it is made of. Blocking; one thread; a context manager."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import BinaryIO, Self

from backend.cluster.log_segments import Segment
from backend.live.line_counts import line_ends_before


class LogText:
    """A log, opened for reading.

    Args:
        segments: its files, at least one; those of its begin may be deleted.

    Raises:
        FileNotFoundError: a file has been deleted since the log was listed.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._open: dict[Segment, BinaryIO] = {}
        self._stack = ExitStack()
        newest = segments[-1]
        #: offset of the first byte that is kept
        self.begin = segments[0].start
        try:
            #: size of the log, with what is not kept any more
            self.end = newest.start + self._file(newest).seek(0, 2)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, offset: int, limit: int) -> bytes:
        """Return up to `limit` bytes from an offset, `begin`..`end`; fewer at the end only."""
        parts = []
        stop = min(offset + limit, self.end)
        for segment in self._segments:
            low, high = max(offset, segment.start), min(stop, self._end_of(segment))
            if low < high:
                stream = self._file(segment)
                stream.seek(low - segment.start)
                parts.append(stream.read(high - low))
        return b"".join(parts)

    def read_line(self, offset: int, limit: int) -> bytes:
        """Return the rest of the line at an offset with its line end, up to `limit` bytes."""
        size = 4096
        while True:
            data = self.read(offset, min(size, limit))
            cut = data.find(b"\n") + 1
            if cut or size >= limit or len(data) < size:
                return data[:cut] if cut else data
            size *= 4

    def line_at(self, offset: int) -> int:
        """Return the number of the line that contains a byte; the first line that is kept is 1."""
        ends = 0
        for segment in self._segments:
            if segment.start < offset:
                ends += line_ends_before(self._file(segment), min(offset, self._end_of(segment)) - segment.start)
        return ends + 1

    def _end_of(self, segment: Segment) -> int:
        return self.end if segment is self._segments[-1] else segment.end

    def _file(self, segment: Segment) -> BinaryIO:
        stream = self._open.get(segment)
        if stream is None:
            stream = self._open[segment] = self._stack.enter_context(segment.path.open("rb"))
        return stream
