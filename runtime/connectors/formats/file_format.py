"""FileFormat: finds the records of a file; and the reader that all line formats share.

A format is a picklable description. `cut` says at which byte offsets (or row groups) a file may be divided, `open`
reads one part. What cannot be read is told as a SourceError with the file and the line or offset.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from runtime.common import options
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.bad_records import SALVAGE_AT_ONCE, BadRecord, BadRecordHandler, salvage
from runtime.connectors.formats.line_blocks import (
    BLOCK_BYTES,
    Block,
    LineBlocks,
    LineTooLongError,
    is_compressed,
    line_number,
)
from runtime.connectors.rate_limiter import RateLimiter
from runtime.core.batch import RecordBatch
from runtime.core.column_condition import ColumnCondition
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

    position_of: ClassVar[str] = ""
    """What its ranges and positions count: a job goes on from those of any format that counts the same. "" = something
    of its own. Part of saved state."""
    formerly: ClassVar[tuple[str, ...]] = ()
    """Names of the classes under which earlier versions saved such positions."""

    @property
    def takes_from_file(self) -> bool:
        """Return whether the format has to be resolved against a file before it is used."""
        return False

    def resolve(self, path: str) -> FileFormat:
        """Return the same format completed from the source's first file: column names and types.

        Raises:
            SourceError: the file does not tell.
        """
        return self

    @abstractmethod
    def produced_type(self) -> TypeInformation | None:
        """Return the type of the records, once resolved; None: Python objects."""

    def reading(self, columns: frozenset[str], conditions: Sequence[ColumnCondition]) -> FileFormat:
        """Return the same format for readers that look at some columns of its records only; see `Source.reading`."""
        return self

    @abstractmethod
    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        """Divide a file into at most `parts` ranges, in order, that cover it."""

    @property
    def tells_bad_records(self) -> bool:
        """Return whether one bad record leaves those after it readable; else a bad file fails as a whole."""
        return False

    @abstractmethod
    def open(
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        """A reader of a split, from its start or from a position.

        Args:
            split: what to read.
            position: of an earlier reader; None = from the start.
            limiter: says how many records may be read now.
            bad_records: takes what is no record; without it, that is an error.
            max_record_bytes: where a reader that looks for the end of a record gives up. Formats that say how long a
                record is need none.
        """


class LineFormat(FileFormat):
    """A format whose records are lines."""

    position_of = "bytes of lines"
    formerly = ("TextLineFormat", "NdjsonFormat", "CsvFormat", "_CsvSchemaFormat", "RawLineFormat")
    block_bytes: int = BLOCK_BYTES
    """Bytes that are read and decoded at a time."""

    @abstractmethod
    def decode(self, data: bytes) -> RecordBatch:
        """Return the records of whole lines.

        Raises:
            ValueError: a line is no record.
        """

    def decode_messages(self, messages: Sequence[bytes]) -> RecordBatch:
        """Return the records of messages that are one line each, with or without its end.

        Args:
            messages: at least one.

        Raises:
            ValueError: a message is no record, or has a line end inside.
        """
        data = b"\n".join([message.rstrip(b"\r\n") for message in messages]) + b"\n"
        if data.count(b"\n") != len(messages):
            raise ValueError("a line end inside a message")
        return self.decode(data)

    def skips(self, line: bytes) -> bool:
        """Return whether to skip a line (given without its LF) that is not a record: a blank one, for example."""
        return False

    def first_record_offset(self, path: str) -> int:
        """Return the offset of the first record, after a header."""
        return 0

    def cut(self, path: str, parts: int) -> list[tuple[int, int | None]]:
        if is_compressed(path):
            return [(0, None)]
        return even_ranges(Path(path).stat().st_size, parts)

    @property
    def tells_bad_records(self) -> bool:
        return True

    def open(
        self,
        split: FileSplit,
        position: Any | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_record_bytes: int | None = None,
    ) -> SplitReader:
        return LineReader(self, split, position, limiter, bad_records, max_record_bytes)


def even_ranges(size: int, parts: int) -> list[tuple[int, int | None]]:
    """Return at most `parts` ranges [start, end) of about one length, in order, that cover [0, size); at least one."""
    parts = max(1, min(parts, size))
    return [(size * part // parts, size * (part + 1) // parts) for part in range(parts)]


def even_share(rows: int, max_rows: int) -> int:
    """Return how many rows of a decoded block to hand on at once: no small rest is left, which costs as much."""
    slices = -(-rows // max_rows)
    return -(-rows // slices)


class _BadLine(NamedTuple):
    """A line that is not a record."""

    rank: int
    """How many records of the block come before it."""
    offset: int
    error: str
    line: bytes


class LineReader(SplitReader):
    """Reads a split of a line format; its position is the byte offset of the next line."""

    def __init__(
        self,
        line_format: LineFormat,
        split: FileSplit,
        position: int | None,
        limiter: RateLimiter,
        bad_records: BadRecordHandler | None = None,
        max_line_bytes: int | None = None,
    ) -> None:
        self._format = line_format
        self._path = split.path
        self._limiter = limiter
        try:
            if position is None and split.start == 0:
                position = line_format.first_record_offset(split.path)
            self._blocks = LineBlocks(
                split.path, split.start, split.end, position, line_format.block_bytes, max_line_bytes
            )
        except (OSError, EOFError) as error:
            raise _unreadable(split.path, error) from error
        self._block = Block(b"", self._blocks.offset)
        #: parts of a block in which there is a bad record, still to be decoded
        self._parts: deque[Block] = deque()
        self._batch: RecordBatch | None = None
        self._row = 0
        self._bad_records = bad_records
        #: the block's bad lines, and those of them that lie behind the next row
        self._bad_lines: set[int] = set()
        self._bad_ahead: deque[_BadLine] = deque()

    def prepare(self) -> bool:
        if self._batch is not None and self._row < self._batch.num_rows:
            return False
        if not self._next_block():
            return False
        self._set_bad_aside()
        return True

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        while self._batch is None or self._row == self._batch.num_rows:
            if not self.prepare():
                return ReadStatus.END_OF_SPLIT
            if self._batch is not None and self._batch.num_rows == 0 and self._bad_lines:
                # a step of its own: a file of nothing else must not hold up the slot's loop
                return self._batch
        batch = self._batch
        rows = self._limiter.take(even_share(batch.num_rows - self._row, max_rows))
        if rows == 0:
            return ReadStatus.NOTHING_YET
        start, self._row = self._row, self._row + rows
        self._set_bad_aside()
        return batch if rows == batch.num_rows else batch.slice(start, self._row)

    @property
    def position(self) -> int:
        if self._batch is None or self._row == self._batch.num_rows:
            return self._parts[0].offset if self._parts else self._blocks.offset
        return self._block.offset + _line_offset(self._format, self._block.data, self._row, self._bad_lines)

    def take_dead_letters(self) -> RecordBatch | None:
        return None if self._bad_records is None else self._bad_records.take()

    def next_read_ms(self) -> int | None:
        return self._limiter.next_ms()

    def close(self) -> None:
        self._blocks.close()

    def _next_block(self) -> bool:
        try:
            block = self._parts.popleft() if self._parts else self._blocks.next_block()
        except (OSError, EOFError) as error:
            raise _unreadable(self._path, error) from error
        except LineTooLongError as error:
            where = f"{self._path}, line {line_number(self._path, error.offset)} (byte {error.offset})"
            raise SourceError(f"{where}: {error}; {options.MAX_RECORD_BYTES.key} allows no more") from error
        if block is None:
            self._batch = None
            return False
        self._block, self._row, self._bad_lines = block, 0, set()
        data = block.data
        if block.offset == 0 and data.startswith(UTF8_BOM):
            data = data[len(UTF8_BOM) :]
        try:
            self._batch = self._format.decode(data)
        except ValueError as error:
            if self._bad_records is None or not self._bad_records.is_tolerant:
                raise self._bad_record(block) from error
            self._decode_what_is_good(data)
        return True

    def _decode_what_is_good(self, data: bytes) -> None:
        """Decode a block in which there is a bad record; a long one is cut in two first."""
        lines = to_lines(data)
        if len(lines) > SALVAGE_AT_ONCE:
            self._parts.extendleft(reversed(_halves(self._block)))
            self._batch = None
            return
        self._batch, bad = salvage(self._decode_lines, lines, self._format.produced_type())
        self._bad_lines = {record.index for record in bad}
        self._bad_ahead.extend(_bad_lines(bad, self._block))

    def _decode_lines(self, lines: Sequence[bytes]) -> RecordBatch:
        return self._format.decode(b"\n".join(lines) + b"\n")

    def _set_bad_aside(self) -> None:
        """Hand over the bad lines up to the next row: from here on the position is behind them."""
        while self._bad_ahead and self._bad_ahead[0].rank <= self._row:
            assert self._bad_records is not None
            bad = self._bad_ahead.popleft()
            self._bad_records.add(self._path, str(bad.offset), bad.error, bad.line)

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


def _line_offset(line_format: LineFormat, data: bytes, row: int, bad_lines: Container[int]) -> int:
    """Return the byte offset of the line that holds record number `row` of a block."""
    offset = 0
    for index, line in enumerate(data.split(b"\n")):
        if index not in bad_lines and not line_format.skips(line):
            if row == 0:
                break
            row -= 1
        offset += len(line) + 1
    return min(offset, len(data))


def _halves(block: Block) -> tuple[Block, Block]:
    """Return the first and the second half of a block's lines, of which there must be two."""
    middle = block.data.find(b"\n", len(block.data) // 2, -1) + 1
    # the second half of the bytes may hold no other line
    middle = middle or block.data.rfind(b"\n", 0, len(block.data) // 2) + 1
    return Block(block.data[:middle], block.offset), Block(block.data[middle:], block.offset + middle)


def _bad_lines(bad: Sequence[BadRecord], block: Block) -> list[_BadLine]:
    lines = block.data.split(b"\n")
    offsets = list(itertools.accumulate((len(line) + 1 for line in lines), initial=block.offset))
    return [_BadLine(r.rank, offsets[r.index], r.error, lines[r.index].removesuffix(b"\r")) for r in bad]


def _unreadable(path: str, error: Exception) -> SourceError:
    reason = getattr(error, "strerror", None) or str(error)
    return SourceError(f"{path} cannot be read: {reason}")


def to_lines(data: bytes) -> list[bytes]:
    """Return lines without their ends (LF or CR LF); a last line without an end counts, an empty one does not."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if b"\r" in data:
        lines = [line[:-1] if line.endswith(b"\r") else line for line in lines]
    return lines
