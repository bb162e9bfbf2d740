"""HeldRows: rows of an input that wait until it has ended, on the task's local disk where they are many.

In a batch an operator may want its input key by key, or behind another one. Rows are held in memory up to a number of
bytes; then they go to a file: sorted, as a *run*, if the order is by key, else as they are. Reading back merges the
runs. Loop's thread only. Source: Flink, MultiInputSortingDataInput and its ExternalSorter.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from runtime.common.typeinfo import TypeInformation
from runtime.core.batch import DEFAULT_BATCH_ROWS, NO_TIMESTAMP, RecordBatch
from runtime.core.ids import Attempt
from runtime.core.keys import encode_key
from runtime.network.channel import ChannelId
from runtime.network.frame_codec import FrameDecoder, FrameEncoder
from runtime.network.frames import decode_header
from runtime.network.sizes import SizeEstimator

DEFAULT_HELD_BYTES = 64 << 20
"""Bytes of rows, as their channel counts them, that an input holds in memory: Python objects take some three times as
much. Below some MiB a sort has many runs, each with an open file; above, tasks of one slot fill its memory together."""
_FRAME_BYTES = 1 << 18
"""Size of a frame in a file. A merge has one of each run in memory."""
_SIZE = struct.Struct(">I")
_NOBODYS_CHANNEL = ChannelId(0, 0, 0)

KeysOf = Callable[[RecordBatch], Sequence[Any]]


class SortedRow(NamedTuple):
    """A row in its place: rows of one key are together, by event time, then by arrival."""

    order: tuple[bytes, int]
    """Encoded key and event time."""
    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """Rows as an operator is given them."""

    input_index: int
    batch: RecordBatch


class HeldRows:
    """The rows of one input.

    Args:
        record_type: of the rows; None = Python objects.
        keys_of: gives the keys of a batch; None = the order of arrival.
        directory: makes the place for files; called when the first is written.
        max_bytes: what may be in memory.
    """

    def __init__(
        self,
        record_type: TypeInformation | None,
        keys_of: KeysOf | None,
        directory: Callable[[], Path],
        max_bytes: int = DEFAULT_HELD_BYTES,
    ) -> None:
        self._record_type = record_type
        self._keys_of = keys_of
        self._directory = directory
        self._max_bytes = max_bytes
        self._sizes = SizeEstimator()
        self._held: list[RecordBatch] = []
        self._held_bytes = 0
        self._files: list[Path] = []

    @property
    def num_files(self) -> int:
        """Return how many files were written."""
        return len(self._files)

    def add(self, batch: RecordBatch) -> None:
        """Hold the rows of a batch; its marks are left out: event time has not begun while the input is incomplete.

        Raises:
            FrameError: the rows cannot be pickled, and have to go to the disk.
            OSError: they cannot be written there.
        """
        if not batch.num_rows:
            return
        self._held.append(batch.with_marks(()) if batch.marks else batch)
        self._held_bytes += self._sizes.size_of(batch)
        if self._held_bytes >= self._max_bytes:
            self._spill()

    def in_order(self) -> Iterator[RecordBatch]:
        """Yield all rows in the order of arrival, and forget them."""
        files, held = self._files, self._held
        self._files, self._held = [], []
        for file in files:
            yield from self._read(file)
            file.unlink()
        while held:
            yield held.pop(0)

    def by_key(self) -> Iterator[SortedRow]:
        """Yield all rows sorted, and forget them; needs `keys_of`."""
        files, held = self._files, self._held
        self._files, self._held = [], []
        # of equal rows those of the first run come first, and so the order of arrival is kept
        yield from heapq.merge(*map(self._run, files), self._sorted(held), key=itemgetter(0))
        for file in files:
            file.unlink()

    def _run(self, file: Path) -> Iterator[SortedRow]:
        for batch in self._read(file):
            yield from self._rows(batch)

    def _sorted(self, batches: Sequence[RecordBatch]) -> list[SortedRow]:
        rows = [row for batch in batches for row in self._rows(batch)]
        rows.sort(key=itemgetter(0))
        return rows

    def _rows(self, batch: RecordBatch) -> Iterator[SortedRow]:
        assert self._keys_of is not None
        keys = self._keys_of(batch)
        timestamps = batch.timestamps() or [NO_TIMESTAMP] * batch.num_rows
        for key, timestamp, value in zip(keys, timestamps, batch.values(), strict=True):
            yield SortedRow((encode_key(key), timestamp), key, value)

    def _spill(self) -> None:
        directory = self._directory()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"held-{id(self):x}-{len(self._files)}"
        encoder = FrameEncoder(_NOBODYS_CHANNEL, Attempt(0), self._record_type)
        held, self._held, self._held_bytes = self._held, [], 0
        batches: Iterator[RecordBatch] = iter(held)
        if self._keys_of is not None:
            batches = batches_of(iter(self._sorted(held)), held[0].type_info)
        self._files.append(path)
        with path.open("wb") as file:
            for batch in batches:
                for frame in encoder.encode_sliced(batch, _FRAME_BYTES):
                    file.write(_SIZE.pack(len(frame)))
                    file.write(frame)

    def _read(self, path: Path) -> Iterator[RecordBatch]:
        decoder = FrameDecoder(self._record_type)
        with path.open("rb") as file:
            while size := file.read(_SIZE.size):
                frame = file.read(_SIZE.unpack(size)[0])
                element = decoder.decode(decode_header(frame), frame)
                assert isinstance(element, RecordBatch)
                yield element


def batches_of(
    rows: Iterator[SortedRow], type_info: TypeInformation | None, max_rows: int = DEFAULT_BATCH_ROWS
) -> Iterator[RecordBatch]:
    """Yield sorted rows as batches of values, with their keys."""
    values: list[Any] = []
    timestamps: list[int] = []
    keys: list[Any] = []
    for (_, timestamp), key, value in rows:
        values.append(value)
        timestamps.append(timestamp)
        keys.append(key)
        if len(values) == max_rows:
            yield RecordBatch.of_values(values, timestamps, (), type_info, keys)
            values, timestamps, keys = [], [], []
    if values:
        yield RecordBatch.of_values(values, timestamps, (), type_info, keys)


def merged(inputs: Sequence[tuple[int, HeldRows, TypeInformation | None]]) -> Iterator[HeldBatch]:
    """Yield the rows of inputs that are keyed alike: key by key, the rows of a key by event time, whatever the input.

    Args:
        inputs: index, rows and record type of each; of rows that are equal in order, the first input's come first.
    """
    if len(inputs) == 1:
        index, rows, record_type = inputs[0]
        for batch in batches_of(rows.by_key(), record_type):
            yield HeldBatch(index, batch)
        return
    types = {index: record_type for index, _, record_type in inputs}

    def numbered(index: int, rows: HeldRows) -> Iterator[tuple[tuple[bytes, int], int, SortedRow]]:
        for row in rows.by_key():
            yield row.order, index, row

    run: list[SortedRow] = []
    current = -1
    for _, index, row in heapq.merge(*(numbered(index, rows) for index, rows, _ in inputs), key=itemgetter(0)):
        if run and (index != current or len(run) == DEFAULT_BATCH_ROWS):
            yield from (HeldBatch(current, batch) for batch in batches_of(iter(run), types[current]))
            run = []
        current = index
        run.append(row)
    if run:
        yield from (HeldBatch(current, batch) for batch in batches_of(iter(run), types[current]))
