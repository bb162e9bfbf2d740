"""FileFormat: how the records of a file are found, and the reader that all line formats share.

A format is a picklable description. `cut` says at which byte offsets (or row groups) a file may be divided, `open`
reads one part. What cannot be read is told as a SourceError with the file and the line or offset.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.files.line_blocks import Block, LineBlocks, is_compressed, line_number
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReadStatus, SourceError, SourceSplit, SplitReader

UTF8_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class FileSplit(SourceSplit):
    """A part of a file: bytes [start, end), or for formats with row groups those groups."""

    path: str
    start: int
    end: int | None
    """None = to the end of the file."""


class FileFormat(ABC):
    """Reads one kind of file."""

    @property
    def takes_from_file(self) -> bool:
        """Whether the format has to be resolved against a file before it is used."""
        return False

    def resolve(self, path: str) -> FileFormat:
        """The same format with everything known that it takes from the source's first file: column names and types.

        Raises:
            SourceError: the file does not tell.
        """
        return self

    @abstractmethod
    def produced_type(self) -> TypeInformation | None:
        """Type of the records, once resolved; None: Python objects."""

    @abstractmethod
    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        """Divide a file into at most `parts` ranges, in order, that cover it."""

    @abstractmethod
    def open(self, split: FileSplit, position: Any | None, limiter: RateLimiter) -> SplitReader:
        """A reader of a split, from its start or from a position."""


class LineFormat(FileFormat):
    """A format whose records are lines."""

    @abstractmethod
    def decode(self, data: bytes) -> RecordBatch:
        """The records of whole lines.

        Raises:
            ValueError: a line is no record.
        """

    def skips(self, line: bytes) -> bool:
        """Whether a line (without its LF) is no record: blank, for example."""
        return False

    def first_record_offset(self, path: str) -> int:
        """Where the records begin, behind a header."""
        return 0

    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        size = Path(path).stat().st_size
        if is_compressed(path):
            return [(0, None)]
        parts = max(1, min(parts, size))
        bounds = [size * part // parts for part in range(parts + 1)]
        return list(itertools.pairwise(bounds))

    def open(self, split: FileSplit, position: Any | None, limiter: RateLimiter) -> SplitReader:
        return LineReader(self, split, position, limiter)


class LineReader(SplitReader):
    """Reads a split of a line format; its position is the byte offset of the next line."""

    def __init__(self, line_format: LineFormat, split: FileSplit, position: int | None, limiter: RateLimiter) -> None:
        self._format = line_format
        self._path = split.path
        self._limiter = limiter
        try:
            if position is None and split.start == 0:
                position = line_format.first_record_offset(split.path)
            self._blocks = LineBlocks(split.path, split.start, split.end, position)
        except (OSError, EOFError) as error:
            raise _unreadable(split.path, error) from error
        self._block = Block(b"", self._blocks.offset)
        self._batch: RecordBatch | None = None
        self._row = 0

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        while self._batch is None or self._row == self._batch.num_rows:
            if not self._next_block():
                return ReadStatus.END_OF_SPLIT
        batch = self._batch
        rows = self._limiter.take(min(max_rows, batch.num_rows - self._row))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        start, self._row = self._row, self._row + rows
        return batch if rows == batch.num_rows else batch.slice(start, self._row)

    @property
    def position(self) -> int:
        if self._batch is None or self._row == self._batch.num_rows:
            return self._blocks.offset
        return self._block.offset + _line_offset(self._format, self._block.data, self._row)

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._blocks.close()

    def _next_block(self) -> bool:
        try:
            block = self._blocks.next_block()
        except (OSError, EOFError) as error:
            raise _unreadable(self._path, error) from error
        if block is None:
            self._batch = None
            return False
        self._block, self._row = block, 0
        data = block.data
        if block.offset == 0 and data.startswith(UTF8_BOM):
            data = data[len(UTF8_BOM) :]
        try:
            self._batch = self._format.decode(data)
        except ValueError as error:
            raise self._bad_record(block) from error
        return True

    def _bad_record(self, block: Block) -> SourceError:
        lines = block.data.split(b"\n")
        first, last = 0, len(lines)
        while last - first > 1:
            middle = (first + last) // 2
            if self._why_bad(lines[first:middle]) is not None:
                last = middle
            else:
                first = middle
        reason = self._why_bad(lines[first:last])
        offset = block.offset + sum(map(len, lines[:first])) + first
        shown = repr(lines[first][:200])[1:]
        return SourceError(f"{self._path}, line {line_number(self._path, offset)} (byte {offset}): {reason}: {shown}")

    def _why_bad(self, lines: list[bytes]) -> str | None:
        try:
            self._format.decode(b"\n".join(lines) + b"\n")
        except ValueError as error:
            return str(error).strip()
        return None


def _line_offset(line_format: LineFormat, data: bytes, row: int) -> int:
    """Byte offset of the line that holds record number `row` of a block."""
    offset = 0
    for line in data.split(b"\n"):
        if not line_format.skips(line):
            if row == 0:
                break
            row -= 1
        offset += len(line) + 1
    return min(offset, len(data))


def _unreadable(path: str, error: Exception) -> SourceError:
    reason = getattr(error, "strerror", None) or str(error)
    return SourceError(f"{path} cannot be read: {reason}")


def to_lines(data: bytes) -> list[bytes]:
    """Lines without their ends (LF or CR LF); a last line without an end counts, an empty one does not."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if b"\r" in data:
        lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    return lines
