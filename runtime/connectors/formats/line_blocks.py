"""LineBlocks: the lines of a byte range of a file, in big blocks of whole lines.

A range [start, end) owns the lines that start in it: cut a file anywhere, and each line is in exactly one range. Lines
end at LF; what stands before it (a CR) is the caller's to remove. Reading in blocks lets splitting and decoding run in
C over a megabyte at a time. Source: the ownership rule is Hadoop's LineRecordReader's, made half-open.
"""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa

#: Below 256 KiB the cost per block shows, above 4 MiB a slice of records holds up the slot's loop.
BLOCK_BYTES = 1 << 20

#: Where a block ends is looked for in pieces of so many bytes, a few lines, which grow with the line.
PROBE_BYTES = 4 << 10

COMPRESSED_SUFFIXES = frozenset({".gz", ".bz2", ".zst"})


class LineTooLongError(Exception):
    """A line is longer than allowed.

    Attributes:
        offset: of its first byte, as in Block.
        max_bytes: what is allowed.
    """

    def __init__(self, offset: int, max_bytes: int) -> None:
        super().__init__(f"the line has more than {max_bytes:,} bytes")
        self.offset = offset
        self.max_bytes = max_bytes


class Block(NamedTuple):
    """Whole lines."""

    data: bytes
    """Ends with LF, unless the file's last line lacks it."""
    offset: int
    """Of the first byte: in the file, or for a compressed file in its unpacked content."""


def is_compressed(path: str) -> bool:
    """Return whether the name says that the content is compressed; such a file is one split."""
    return Path(path).suffix in COMPRESSED_SUFFIXES


def open_unpacked(path: str) -> IO[bytes]:
    """Open for reading, unpacking .gz, .bz2 and .zst.

    Raises:
        OSError: the file cannot be opened.
    """
    suffix = Path(path).suffix
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.open(path, "rb"))
    if suffix == ".zst":
        return cast(IO[bytes], pa.CompressedInputStream(pa.OSFile(path, "rb"), "zstd"))
    return Path(path).open("rb", buffering=0)


class LineBlocks:
    """Reads the lines that a range owns, or the rest of them.

    Args:
        path: the file.
        start: first byte of the range; 0 for a compressed file.
        end: the byte behind it; None = to the end of the file, and always so for a compressed file.
        position: where to go on, the start of a line as given by an earlier reader; None = at the beginning.
        block_bytes: size of a block; a longer line makes a longer block.
        max_line_bytes: how long a line may be, without its end; None = as long as it likes.
    """

    def __init__(
        self,
        path: str,
        start: int,
        end: int | None,
        position: int | None,
        block_bytes: int = BLOCK_BYTES,
        max_line_bytes: int | None = None,
    ) -> None:
        self._file = open_unpacked(path)
        self._end = end
        self._block_bytes = block_bytes
        self._max_line_bytes = max_line_bytes
        self._is_compressed = is_compressed(path)
        #: of a compressed file: unpacked bytes that are in no block yet
        self._carry = b""
        #: where the next block begins
        self.offset = 0
        if position is not None:
            self._skip_to(position)
        elif start > 0:
            # One byte back: if it is a line's end, the line at `start` is ours. Not beyond the range: of a line that
            # covers many, each would be read to its end.
            self.offset = self._line_end(start - 1, self._end)

    def next_block(self) -> Block | None:
        """The next whole lines, or None behind the last.

        Raises:
            LineTooLongError: the first of them that is longer than allowed; it was not read as a whole.
        """
        if self._end is not None and self.offset >= self._end:
            return None
        data = self._unpacked_lines() if self._is_compressed else self._lines()
        if not data:
            return None
        self._check_lines(data)
        block = Block(data, self.offset)
        self.offset += len(data)
        return block

    def _lines(self) -> bytes:
        """Read the lines by one read of just the bytes: cutting and joining them afterwards would copy them."""
        last = self.offset + self._block_bytes
        if self._end is not None:
            # the last line that is ours holds the range's last byte
            last = min(last, self._end)
        if self._max_line_bytes is None:
            return self._bytes(self.offset, self._line_end(last - 1, None))
        stop = last + self._max_line_bytes + 1
        end = self._line_end(last - 1, stop)
        if end < stop:
            return self._bytes(self.offset, end)
        before = self._bytes(self.offset, last)
        self._check_lines(before)
        raise LineTooLongError(self.offset + before.rfind(b"\n", 0, -1) + 1, self._max_line_bytes)

    def _line_end(self, position: int, stop: int | None) -> int:
        """Behind the line that the byte at `position` is in, or if it is longer a place in it at or behind `stop`."""
        probe = PROBE_BYTES
        while (stop is None or position < stop) and (chunk := os.pread(self._file.fileno(), probe, position)):
            cut = chunk.find(b"\n") + 1
            if cut:
                return position + cut
            position += len(chunk)
            probe = min(2 * probe, BLOCK_BYTES)
        return position

    def _check_lines(self, data: bytes) -> None:
        # as a rule the limit is far above a block: nothing is looked at
        if self._max_line_bytes is None or len(data) <= self._max_line_bytes:
            return
        offset = self.offset
        for line in data.split(b"\n"):
            if len(line) > self._max_line_bytes:
                raise LineTooLongError(offset, self._max_line_bytes)
            offset += len(line) + 1

    def _bytes(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop), as far as the file has them."""
        data = b""
        # one call gives at most 2 GiB
        while chunk := os.pread(self._file.fileno(), stop - start - len(data), start + len(data)):
            data = data + chunk if data else chunk
        return data

    def _unpacked_lines(self) -> bytes:
        pieces = [self._carry] if self._carry else []
        self._carry = b""
        size = len(pieces[0]) if pieces else 0
        while chunk := self._file.read(self._block_bytes):
            pieces.append(chunk)
            size += len(chunk)
            # a line of many blocks is joined once, when its end is in sight
            if b"\n" in chunk:
                data = b"".join(pieces)
                cut = data.rfind(b"\n") + 1
                self._carry = data[cut:]
                return data[:cut]
            if self._max_line_bytes is not None and size > self._max_line_bytes:
                raise LineTooLongError(self.offset, self._max_line_bytes)
        return b"".join(pieces)

    def _skip_to(self, position: int) -> None:
        if not self._is_compressed:
            self.offset = position
            return
        while self.offset < position:
            chunk = self._file.read(min(self._block_bytes, position - self.offset))
            if not chunk:
                break
            self.offset += len(chunk)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def line_number(path: str, offset: int) -> int:
    """Return the 1-based number of the line that begins at `offset`; reads the file up to there, for error messages."""
    number = 1
    with open_unpacked(path) as file:
        while offset > 0:
            chunk = file.read(min(BLOCK_BYTES, offset))
            if not chunk:
                break
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number
