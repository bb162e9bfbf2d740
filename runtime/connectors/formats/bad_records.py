"""Policies for records that cannot be read: the job fails, or they are skipped, or they go to a side output.

Both of the latter count them in `numRecordsInErrors`. A policy travels with the source; each reader has a handler,
which the reader's thread alone uses. `salvage` finds the bad ones among many by halving, because decoders are quick
with many records at a time and say nothing about which of them was wrong.
Source: Flink, the `ignore-parse-errors` options of its formats; dead letters are Tidemark's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import row_of
from runtime.core.batch import RecordBatch
from runtime.metrics.metricbase import Counter
from runtime.operators.output_tag import OutputTag

DEAD_LETTER_TYPE = Types.ROW_NAMED(
    ["origin", "position", "error", "data"],
    [Types.STRING(), Types.STRING(), Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())],
)
"""Row of a bad record: the file or stream that it is from, its position (byte offset, message id), the error, its
bytes.
"""

DEAD_LETTERS = OutputTag("dead-letters", DEAD_LETTER_TYPE)
"""The side output for bad records, unless the user names another one."""

_FIELDS = ("origin", "position", "error", "data")
#: So many records at most are searched for bad ones in one step, each with a call of the decoder of some 100 µs: more
#: would hold up the slot's loop, fewer would make small batches.
SALVAGE_AT_ONCE = 64
ERRORS_METRIC = "numRecordsInErrors"


@dataclass(frozen=True, slots=True)
class BadRecords:
    """A source's policy. Made by `fail`, `skip` or `to_side_output`."""

    is_tolerant: bool
    tag: OutputTag | None

    @staticmethod
    def fail() -> BadRecords:
        """Fail the job, with an error that shows the record; the default."""
        return BadRecords(False, None)

    @staticmethod
    def skip() -> BadRecords:
        """Skip and count them."""
        return BadRecords(True, None)

    @staticmethod
    def to_side_output(tag: OutputTag = DEAD_LETTERS) -> BadRecords:
        """Count them and emit them as rows of DEAD_LETTER_TYPE: `stream.get_side_output(tag)`.

        Raises:
            ValueError: the tag has another type.
        """
        if tag.type_info not in (None, DEAD_LETTER_TYPE):
            raise ValueError(f"the side output of bad records has the type {DEAD_LETTER_TYPE}, not {tag.type_info}")
        return BadRecords(True, OutputTag(tag.tag_id, DEAD_LETTER_TYPE))


class BadRecordHandler:
    """Handles the bad records of one reader.

    Args:
        policy: what becomes of them.
        counter: `numRecordsInErrors`.
    """

    def __init__(self, policy: BadRecords, counter: Counter) -> None:
        self.is_tolerant = policy.is_tolerant
        self._keeps = policy.tag is not None
        self._counter = counter
        self._letters: list[tuple[str, str, str, bytes]] = []

    def add(self, origin: str, position: str, error: str, data: bytes) -> None:
        """Set a record aside."""
        self._counter.count += 1
        if self._keeps:
            self._letters.append((origin, position, error, data))

    def take(self) -> RecordBatch | None:
        """Return what was set aside since the last call, for the side output."""
        if not self._letters:
            return None
        letters, self._letters = self._letters, []
        return RecordBatch.of_values([row_of(letter, _FIELDS) for letter in letters], type_info=DEAD_LETTER_TYPE)


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read, among many."""

    index: int
    """Index among all of them."""
    rank: int
    """Number of records before it that can be read."""
    error: str


def salvage(
    decode: Callable[[Sequence[bytes]], RecordBatch], raw: Sequence[bytes], type_info: TypeInformation | None
) -> tuple[RecordBatch, list[BadRecord]]:
    """Decode as many records as possible.

    Args:
        decode: the records of some of `raw`, in order; raises ValueError if one of them is bad. An element may give
            no record.
        raw: lines or messages.
        type_info: of the records.

    Returns:
        The good records, and the bad ones in order.
    """
    pieces: list[RecordBatch] = []
    bad: list[BadRecord] = []
    #: halves still to be decoded, the next one last: bad input must not nest calls
    todo = [(0, len(raw))] if raw else []
    rows = 0
    while todo:
        start, stop = todo.pop()
        try:
            piece = decode(raw[start:stop])
        except ValueError as error:
            if stop - start == 1:
                bad.append(BadRecord(start, rows, str(error).strip()))
            else:
                middle = (start + stop) // 2
                todo += [(middle, stop), (start, middle)]
            continue
        if piece.num_rows:
            pieces.append(piece)
            rows += piece.num_rows
    return join_batches(pieces, type_info), bad


def join_batches(pieces: Sequence[RecordBatch], type_info: TypeInformation | None) -> RecordBatch:
    """Join batches of one type, without times, into one."""
    if len(pieces) == 1:
        return pieces[0]
    if pieces and type_info is not None and all(piece.has_arrow for piece in pieces):
        table = pa.Table.from_batches([piece.arrow() for piece in pieces]).combine_chunks()
        return RecordBatch.of_arrow(table.to_batches()[0], type_info)
    return RecordBatch.of_values([value for piece in pieces for value in piece.values()], type_info=type_info)
