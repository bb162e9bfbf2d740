"""RecordWriter: the exit of a task's records to one edge; splits batches over the channels and gathers small parts.

A part waits for others of its channel until 8,192 rows or 1 MiB (of Python values 128 KiB) are together or the buffer
timeout has passed, so that a batch which was split sixteen ways does not travel as sixteen small ones. Used by the
task's thread only.
Source: Flink, RecordWriter, ChannelSelectorRecordWriter, `execution.buffer-timeout`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from runtime.core.batch import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_ROWS, NO_TIMESTAMP, Mark, RecordBatch
from runtime.core.clock import Clock
from runtime.core.elements import CheckpointBarrier, LatencyMarker, StreamElement, Watermark
from runtime.network.channel import Frame, OutputChannel
from runtime.network.partitioners import ChannelSelector
from runtime.network.sizes import SizeEstimator

VALUES_BATCH_BYTES = 128 << 10
"""Bytes of Python values that are enough for one batch. They take some ten times as much memory as bytes on the wire:
of more than this, the first ones have left the processor's cache when the consumer comes to them (measured: 1 MiB of
dicts, a sixth more time for all that is done with them). Of much less, the cost per batch shows.
"""
MANY_VALUES = 1_024
"""Number of values that are enough for one batch at that size; of fewer, larger ones, up to 1 MiB are gathered."""
FLUSH_ALWAYS = 0
"""Buffer timeout: flush after every emitted batch."""
FLUSH_WHEN_FULL = -1
"""Buffer timeout: flush only what is full."""


class _PendingParts:
    """Parts of one channel that wait to be sent together; all have the same form and type."""

    __slots__ = ("bytes", "markers", "parts", "rows", "trailing")

    def __init__(self) -> None:
        self.parts: list[RecordBatch] = []
        self.rows = 0
        self.bytes = 0
        #: marks that came behind the last part without rows of their own
        self.trailing: list[Mark] = []
        #: latency markers that came behind the first part
        self.markers: list[LatencyMarker] = []

    def fits(self, part: RecordBatch, size: int) -> bool:
        """Return whether the part can travel in one batch with those that wait."""
        if not self.parts:
            return True
        if self.rows + part.num_rows > DEFAULT_BATCH_ROWS or self.bytes + size > DEFAULT_BATCH_BYTES:
            return False
        if _are_enough(part, self.rows + part.num_rows, self.bytes + size):
            return False
        last = self.parts[-1]
        # converting one of two forms would cost more than a smaller batch does
        if last.has_arrow != part.has_arrow or not _same_type(last, part):
            return False
        return not part.has_arrow or last.arrow().schema.equals(part.arrow().schema)

    def add(self, part: RecordBatch, size: int) -> None:
        if self.trailing:
            part = part.with_marks([*(Mark(0, watermark) for _, watermark in self.trailing), *part.marks])
            self.trailing = []
        self.parts.append(part)
        self.rows += part.num_rows
        self.bytes += size

    def take(self) -> RecordBatch:
        """Return all that waits, as one batch; nothing waits afterwards."""
        parts, trailing, rows = self.parts, self.trailing, self.rows
        self.parts, self.trailing, self.rows, self.bytes = [], [], 0, 0
        batch = parts[0] if len(parts) == 1 else concat(parts)
        if trailing:
            batch = batch.with_marks([*batch.marks, *(Mark(rows, watermark) for _, watermark in trailing)])
        return batch


class RecordWriter:
    """Writes one operator's output to one edge.

    Args:
        selector: splits the batches; has as many channels as `channels`.
        channels: the producer's ends, in the order of the connected consumers.
        buffer_timeout_ms: how long a part may wait; 0 = not at all, -1 = until full.
        clock: its monotonic time is what `next_flush_ms` and `flush_due` speak of.
        choose: gives a random number in [0, n); picks the channel of a latency marker.
    """

    def __init__(
        self,
        selector: ChannelSelector,
        channels: Sequence[OutputChannel],
        buffer_timeout_ms: int,
        clock: Clock,
        choose: Callable[[int], int] = random.randrange,
    ) -> None:
        if selector.num_channels != len(channels):
            raise ValueError(f"a selector of {selector.num_channels} channels cannot write to {len(channels)}")
        if buffer_timeout_ms < FLUSH_WHEN_FULL:
            raise ValueError(f"the buffer timeout must be -1, 0 or a number of milliseconds, not {buffer_timeout_ms}")
        self.channels = list(channels)
        self._selector = selector
        self._timeout_ms = buffer_timeout_ms
        self._clock = clock
        self._choose = choose
        self._pending = [_PendingParts() for _ in channels]
        self._sizes = SizeEstimator()
        self._next_flush_ms: float | None = None

    @property
    def next_flush_ms(self) -> float | None:
        """Return the monotonic time (ms) at which `flush_due` has something to do; None if nothing waits for a time."""
        return self._next_flush_ms

    def is_available(self) -> bool:
        """Return whether every channel takes more; one emit may overdraw."""
        return all(channel.is_available() for channel in self.channels)

    def emit(self, batch: RecordBatch) -> None:
        """Send records, and the marks between them, to the channels that the selector chooses.

        Raises:
            PartitionError: user code failed on a record.
            KeyEncodingError: a key has no canonical form.
            FrameError: records that must leave the process cannot be pickled.
        """
        if not batch.num_rows and not batch.marks:
            return
        for index, part in enumerate(self._selector.split(batch)):
            if part is None:
                continue
            if isinstance(part, Watermark):
                self._add_watermark(index, part)
            elif part.num_rows:
                self._add_part(index, part)
            else:
                self._add_watermark(index, Watermark(part.marks[-1].watermark))
        if self._timeout_ms == FLUSH_ALWAYS:
            self.flush()

    def broadcast(self, element: StreamElement) -> None:
        """Send an element to every channel, behind everything that was emitted before."""
        self.flush()
        for channel in self.channels:
            channel.add(element)

    def broadcast_overtaking(self, barrier: CheckpointBarrier) -> list[tuple[OutputChannel, Sequence[Frame]]]:
        """Send a barrier to every channel, before everything that waits to be sent.

        Returns:
            What was overtaken, of the channels where there was something.
        """
        self.flush()
        overtaken = [(channel, channel.add_overtaking(barrier)) for channel in self.channels]
        return [(channel, frames) for channel, frames in overtaken if frames]

    def emit_randomly(self, marker: LatencyMarker) -> None:
        """Send a latency marker to one channel, behind what waits there: that wait is part of the latency."""
        index = self._choose(len(self.channels))
        if self._pending[index].parts:
            self._pending[index].markers.append(marker)
        else:
            self.channels[index].add(marker)

    @property
    def overdraft_bytes(self) -> int:
        """Return how far the fullest channel is beyond its window."""
        return max((channel.overdraft_bytes for channel in self.channels), default=0)

    def flush(self) -> None:
        """Send everything that waits."""
        for index in range(len(self.channels)):
            self._flush_channel(index)
        self._next_flush_ms = None

    def flush_after(self, slice_ms: float) -> None:
        """Send everything if a slice has taken longer than the buffer timeout: after the next slice it would be late.

        Args:
            slice_ms: how long the slice of the task has taken.
        """
        if self._next_flush_ms is not None and slice_ms >= self._timeout_ms:
            self.flush()

    def flush_due(self, now_ms: float) -> None:
        """Send what has waited for the buffer timeout. `now_ms` is the clock's monotonic time."""
        if self._next_flush_ms is not None and now_ms >= self._next_flush_ms:
            self.flush()

    def _add_part(self, index: int, part: RecordBatch) -> None:
        pending = self._pending[index]
        size = self._sizes.size_of(part)
        if not pending.fits(part, size):
            self._flush_channel(index)
        pending.add(part, size)
        rows, size = pending.rows, pending.bytes
        if rows >= DEFAULT_BATCH_ROWS or size >= DEFAULT_BATCH_BYTES or _are_enough(part, rows, size):
            self._flush_channel(index)
        elif self._next_flush_ms is None and self._timeout_ms > 0:
            self._next_flush_ms = self._clock.monotonic_ms() + self._timeout_ms

    def _add_watermark(self, index: int, watermark: Watermark) -> None:
        pending = self._pending[index]
        if pending.parts:
            pending.trailing.append(Mark(pending.rows, watermark.timestamp))
        else:
            self.channels[index].add(watermark)

    def _flush_channel(self, index: int) -> None:
        pending = self._pending[index]
        if pending.parts:
            markers, pending.markers = pending.markers, []
            self.channels[index].add(pending.take())
            for marker in markers:
                self.channels[index].add(marker)


def concat(parts: Sequence[RecordBatch]) -> RecordBatch:
    """Return one batch of all rows in order; marks keep their place.

    Args:
        parts: at least one, all of one type; all with columns of one schema, or none with columns.
    """
    marks: list[Mark] = []
    rows = 0
    for part in parts:
        marks.extend([Mark(rows + offset, watermark) for offset, watermark in part.marks])
        rows += part.num_rows
    arrow = pa.concat_batches([part.arrow() for part in parts]) if parts[0].has_arrow else None
    values = None
    if arrow is None or all(part.has_values for part in parts):
        values = list(chain.from_iterable([part.values() for part in parts]))
    keys = None
    if all(part.keys is not None for part in parts):
        keys = list(chain.from_iterable([part.keys or () for part in parts]))
    ts_array = None
    if any(part.has_timestamps for part in parts):
        ts_array = np.concatenate([_timestamps_of(part) for part in parts])
    return RecordBatch(rows, values, arrow, None, ts_array, marks, parts[0].type_info, keys)


def _are_enough(part: RecordBatch, rows: int, size: int) -> bool:
    """Return whether so many rows and bytes are enough for a batch of such parts, if they are Python values."""
    return size > VALUES_BATCH_BYTES and rows > MANY_VALUES and not part.has_arrow


def _same_type(one: RecordBatch, other: RecordBatch) -> bool:
    return one.type_info is other.type_info or one.type_info == other.type_info


def _timestamps_of(part: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    timestamps = part.timestamps_array()
    return np.full(part.num_rows, NO_TIMESTAMP, dtype=np.int64) if timestamps is None else timestamps
