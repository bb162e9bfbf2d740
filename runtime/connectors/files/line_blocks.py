"""LineBlocks: the lines of a byte range of a file, in big blocks of whole lines.

A range [start, end) owns the lines that start in it: cut a file anywhere, and each line is in exactly one range. Lines
end at LF; what stands before it (a CR) is the caller's to remove. Reading in blocks lets splitting and decoding run in
C over a megabyte at a time. Source: the ownership rule is Hadoop's LineRecordReader's, made half-open.
"""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import IO, NamedTuple, cast

import pyarrow as pa

#: Below 256 KiB the cost per block shows, above 4 MiB a slice of records holds up the slot's loop.
BLOCK_BYTES = 1 << 20

COMPRESSED_SUFFIXES = frozenset({".gz", ".bz2", ".zst"})


class Block(NamedTuple):
    """Whole lines."""

    data: bytes
    """Ends with LF, unless the file's last line lacks it."""
    offset: int
    """Of the first byte: in the file, or for a compressed file in its unpacked content."""


def is_compressed(path: str) -> bool:
    """Whether the name says that the content is compressed; such a file is one split."""
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
        start: first byte of the range.
        end: the byte behind it; None = to the end of the file, and always so for a compressed file.
        position: where to go on, the start of a line as given by an earlier reader; None = at the beginning.
        block_bytes: size of a block; a longer line makes a longer block.
    """

    def __init__(
        self, path: str, start: int, end: int | None, position: int | None, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self._file = open_unpacked(path)
        self._end = end
        self._block_bytes = block_bytes
        self._carry = b""
        self._at_eof = False
        #: where the next block begins
        self.offset = 0
        if position is not None:
            self._skip_to(position, is_compressed(path))
        elif start > 0:
            # one byte back: if it is a line's end, the line at `start` is ours
            self._skip_to(start - 1, is_compressed(path))
            self._skip_line()

    def next_block(self) -> Block | None:
        """The next whole lines, or None behind the last."""
        if self._end is not None and self.offset >= self._end:
            return None
        pieces = [self._carry] if self._carry else []
        self._carry = b""
        data, cut = b"", 0
        while True:
            chunk = self._read()
            pieces.append(chunk)
            # a line of many blocks is joined once, when its end is in sight
            if self._at_eof or b"\n" in chunk:
                data = b"".join(pieces)
                cut = self._cut(data)
                if cut or self._at_eof:
                    break
                pieces = [data]
        if not data:
            return None
        block = Block(data[:cut], self.offset)
        self._carry = data[cut:]
        self.offset += cut
        return block

    def _cut(self, data: bytes) -> int:
        """Length of the whole lines in `data` that are owned; 0 if there is none yet."""
        if self._end is not None and self.offset + len(data) >= self._end:
            # the last line that is ours holds the range's last byte
            cut = data.find(b"\n", self._end - 1 - self.offset) + 1
        else:
            cut = data.rfind(b"\n") + 1
        return cut or (len(data) if self._at_eof else 0)

    def _read(self) -> bytes:
        chunk = self._file.read(self._block_bytes)
        if not chunk:
            self._at_eof = True
        return chunk

    def _skip_to(self, position: int, sequential: bool) -> None:
        if not sequential:
            self._file.seek(position)
            self.offset = position
            return
        while self.offset < position:
            chunk = self._file.read(min(self._block_bytes, position - self.offset))
            if not chunk:
                break
            self.offset += len(chunk)

    def _skip_line(self) -> None:
        while True:
            chunk = self._read()
            cut = chunk.find(b"\n") + 1
            self.offset += cut or len(chunk)
            if cut:
                self._carry = chunk[cut:]
                return
            if self._at_eof:
                return

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def line_number(path: str, offset: int) -> int:
    """1-based number of the line that begins at `offset`; reads the file up to there, for error messages."""
    number = 1
    with open_unpacked(path) as file:
        while offset > 0:
            chunk = file.read(min(BLOCK_BYTES, offset))
            if not chunk:
                break
            number += chunk.count(b"\n")
            offset -= len(chunk)
    return number
