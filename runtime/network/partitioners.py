"""Partitioners: which rows of a batch go to which channel, and which subtasks an edge connects.

A ChannelSelector splits one batch into one part per channel in one pass. Within a channel rows keep their order, and
every channel gets every mark of the batch at its place between the channel's own rows: where a channel gets no row, the
marks become a plain Watermark (the last one). Used by the task's thread only.
Source: Flink, StreamPartitioner and its subclasses, KeyGroupStreamPartitioner, EdgeManagerBuildUtil.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import Types
from runtime.core.arrow_views import without_views
from runtime.core.batch import Mark, RecordBatch
from runtime.core.batch_keys import BatchKeySelector
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import Watermark
from runtime.core.keys import encode_key
from runtime.graph.partitioning import Partitioning
from runtime.network.columnar import Channels, KeyChannels, split_columns
from runtime.state.key_groups import key_group_of, operator_index_for_key_group

Part = RecordBatch | Watermark | None
"""A channel's part of a batch; None = nothing."""

KEY_CACHE_SIZE = 1 << 16
"""Number of keys of one type whose channel is remembered. Smaller thrashes at common key counts; larger only costs
memory, about 100 bytes a key.
"""
_MANY_KEYS = 256
"""Minimum of numbers whose channels are found as those of a column: for fewer, the fixed cost of some 10 µs shows."""
_NUMBER_KEYS = ColumnKeys(("f0",), Types.TUPLE([Types.LONG()]))

_CACHEABLE = frozenset({str, int, bytes, bool})
"""Types whose equal values have equal encodings. A tuple is not one: (1,) == (1.0,) == (True,)."""


class PartitionError(Exception):
    """The user's key selector or partition function failed, or chose a channel that does not exist.

    Attributes:
        record: the record that it was called with.
    """

    def __init__(self, message: str, record: Any) -> None:
        super().__init__(message)
        self.record = record


class ChannelSelector(ABC):
    """Splits batches over the channels of one producer subtask.

    Args:
        num_channels: channels that the producer is connected to, >= 1.
    """

    def __init__(self, num_channels: int) -> None:
        if num_channels < 1:
            raise ValueError("a producer must be connected to at least one channel")
        self.num_channels = num_channels

    @abstractmethod
    def split(self, batch: RecordBatch) -> list[Part]:
        """Return the part of each channel; length `num_channels`.

        Raises:
            PartitionError: user code failed on a record.
            KeyEncodingError: a key has no canonical form.
        """


class SingleChannelSelector(ChannelSelector):
    """Sends all rows to channel 0: FORWARD (which has no other) and GLOBAL."""

    def split(self, batch: RecordBatch) -> list[Part]:
        if self.num_channels == 1:
            return [batch]
        rest = _last_watermark(batch)
        return [batch, *[rest] * (self.num_channels - 1)]


class BroadcastSelector(ChannelSelector):
    """Sends all rows to every channel."""

    def split(self, batch: RecordBatch) -> list[Part]:
        return [batch] * self.num_channels


class RoundRobinSelector(ChannelSelector):
    """Deals rows out evenly, as one contiguous run per channel and batch: REBALANCE and RESCALE.

    The counts of any two channels differ by one row at most, at any time; which channel is ahead moves on from batch to
    batch. A run costs a slice where single rows would cost an index list.

    Args:
        first_channel: where the first row goes; differs between producers, so that many small inputs spread.
    """

    def __init__(self, num_channels: int, first_channel: int = 0) -> None:
        super().__init__(num_channels)
        self._next = first_channel % num_channels

    def split(self, batch: RecordBatch) -> list[Part]:
        if self.num_channels == 1:
            return [batch]
        share, extra = divmod(batch.num_rows, self.num_channels)
        parts: list[Part] = [None] * self.num_channels
        start = 0
        for turn in range(self.num_channels):
            channel = (self._next + turn) % self.num_channels
            stop = start + share + (turn < extra)
            if stop > start:
                marks = [Mark(min(max(at, start), stop) - start, watermark) for at, watermark in batch.marks]
                parts[channel] = batch.slice(start, stop).with_marks(marks)
            else:
                parts[channel] = _last_watermark(batch)
            start = stop
        self._next = (self._next + extra) % self.num_channels
        return parts


class ShuffleSelector(ChannelSelector):
    """Sends each row to a random channel.

    Args:
        random: the source of randomness; a seeded one makes runs repeatable.
    """

    def __init__(self, num_channels: int, random: np.random.Generator) -> None:
        super().__init__(num_channels)
        self._random = random

    def split(self, batch: RecordBatch) -> list[Part]:
        if self.num_channels == 1:
            return [batch]
        return _deal(batch, self._random.integers(0, self.num_channels, batch.num_rows).tolist(), self.num_channels)


class KeyGroupSelector(ChannelSelector):
    """Sends each row to the subtask that owns its key's key group, with the keys attached to the parts.

    Columns that are keyed by columns are split as columns, without keys: their consumer has no use for values.

    Args:
        num_channels: the consumer's parallelism.
        key_selector: value → key; also an object with `get_key`, or ColumnKeys.
        max_parallelism: the consumer's number of key groups.
    """

    def __init__(self, num_channels: int, key_selector: Any, max_parallelism: int) -> None:
        super().__init__(num_channels)
        self._key_of: Callable[[Any], Any] = getattr(key_selector, "get_key", key_selector)
        self._key_channels = (
            KeyChannels(key_selector, max_parallelism, num_channels) if isinstance(key_selector, ColumnKeys) else None
        )
        self._all_keys_of = key_selector.get_keys if isinstance(key_selector, BatchKeySelector) else None
        self._max_parallelism = max_parallelism
        self._channels_of: dict[type, dict[Any, int]] = {kind: {} for kind in _CACHEABLE}
        self._number_channels = KeyChannels(_NUMBER_KEYS, max_parallelism, num_channels)

    def split(self, batch: RecordBatch) -> list[Part]:
        # values, where there are any, may be of other row kinds than INSERT, which columns do not hold
        if self._key_channels is not None and batch.has_arrow and not batch.has_values and batch.num_rows:
            if self.num_channels == 1:
                return [batch]
            return split_columns(batch, self._key_channels.of(batch.arrow()), self.num_channels)
        # batch.keys may stem from an earlier key_by and mean nothing here
        values = batch.values()
        keys = None if self._all_keys_of is None else self._all_keys_of(values)
        if keys is None:
            keys = _apply(self._key_of, values, "the key selector")
        keyed = batch.with_marks(batch.marks)
        keyed.keys = keys
        if self.num_channels == 1:
            return [keyed]
        return _deal(keyed, self._channels(keys), self.num_channels)

    def _channels(self, keys: list[Any]) -> list[int] | Channels:
        kinds = set(map(type, keys))
        if len(kinds) != 1 or not kinds <= _CACHEABLE:
            return [self._channel(key) for key in keys]
        kind = kinds.pop()
        if kind is int and len(keys) >= _MANY_KEYS:
            try:
                numbers = np.array(keys, np.int64)
            except OverflowError:
                pass
            else:
                return self._number_channels.of(pa.RecordBatch.from_arrays([pa.array(numbers)], ["f0"]))
        known = self._channels_of[kind]
        channels: list[int | None] = list(map(known.get, keys))
        if None in channels:
            for row, channel in enumerate(channels):
                if channel is None:
                    channels[row] = self._channel(keys[row])
        return channels  # type: ignore[return-value]  # the loop has filled every gap

    def _channel(self, key: Any) -> int:
        known = self._channels_of.get(type(key))
        channel = None if known is None else known.get(key)
        if channel is None:
            group = key_group_of(encode_key(key), self._max_parallelism)
            channel = operator_index_for_key_group(self._max_parallelism, self.num_channels, group)
            if known is not None:
                if len(known) >= KEY_CACHE_SIZE:
                    known.clear()
                known[key] = channel
        return channel


class CustomSelector(ChannelSelector):
    """Sends each row to the channel that the user's function chooses.

    Args:
        partition: (key, number of channels) → channel; also an object with `partition`.
        key_selector: value → key; also an object with `get_key`.
    """

    def __init__(self, num_channels: int, partition: Any, key_selector: Any) -> None:
        super().__init__(num_channels)
        self._partition: Callable[[Any, int], int] = getattr(partition, "partition", partition)
        self._key_of: Callable[[Any], Any] = getattr(key_selector, "get_key", key_selector)

    def split(self, batch: RecordBatch) -> list[Part]:
        values = batch.values()
        num_channels, partition, key_of = self.num_channels, self._partition, self._key_of
        channels = _apply(lambda value: partition(key_of(value), num_channels), values, "the partitioner")
        for row, channel in enumerate(channels):
            if not isinstance(channel, int | np.integer) or not 0 <= channel < num_channels:
                raise PartitionError(
                    f"the partitioner chose channel {channel!r} of {num_channels} for {values[row]!r}", values[row]
                )
        return [batch] if num_channels == 1 else _deal(batch, channels, num_channels)


def create_selector(
    partitioning: Partitioning,
    num_channels: int,
    producer_index: int,
    partitioner: Any = None,
    max_parallelism: int = 128,
    random: np.random.Generator | None = None,
) -> ChannelSelector:
    """Return the selector of one producer subtask of an edge.

    Args:
        num_channels: channels that this producer is connected to: `len(connected_consumers(...))`.
        producer_index: subtask index of the producer.
        partitioner: unpickled `JobEdge.partitioner`.
        max_parallelism: the consumer's; KEY_GROUP only.
        random: SHUFFLE only; None = seeded by the producer's index.
    """
    match partitioning:
        case Partitioning.FORWARD:
            if num_channels != 1:
                raise ValueError(f"a forward edge has one channel for each producer, not {num_channels}")
            return SingleChannelSelector(1)
        case Partitioning.GLOBAL:
            return SingleChannelSelector(num_channels)
        case Partitioning.BROADCAST:
            return BroadcastSelector(num_channels)
        case Partitioning.REBALANCE | Partitioning.RESCALE:
            return RoundRobinSelector(num_channels, producer_index)
        case Partitioning.SHUFFLE:
            return ShuffleSelector(num_channels, random or np.random.default_rng(producer_index))
        case Partitioning.KEY_GROUP:
            return KeyGroupSelector(num_channels, partitioner, max_parallelism)
        case Partitioning.CUSTOM:
            partition, key_selector = partitioner
            return CustomSelector(num_channels, partition, key_selector)


def connected_consumers(partitioning: Partitioning, producer_index: int, producers: int, consumers: int) -> list[int]:
    """Return the subtask indexes of the consumers that a producer subtask has a channel to, ascending.

    Args:
        producers: parallelism of the producer.
        consumers: parallelism of the consumer.

    Raises:
        ValueError: a forward edge between unequal parallelisms.

    Source: Flink, EdgeManagerBuildUtil.connectPointwise.
    """
    if not partitioning.is_pointwise:
        return list(range(consumers))
    _check_pointwise(partitioning, producers, consumers)
    if producers >= consumers:
        # consumer c takes producers [c·P/C, (c+1)·P/C): the c with that range around this producer
        return [((producer_index + 1) * consumers - 1) // producers]
    start = (producer_index * consumers + producers - 1) // producers
    stop = ((producer_index + 1) * consumers + producers - 1) // producers
    return list(range(start, stop))


def connected_producers(partitioning: Partitioning, consumer_index: int, producers: int, consumers: int) -> list[int]:
    """Return the producers that a consumer subtask has a channel from, ascending; see `connected_consumers`."""
    if not partitioning.is_pointwise:
        return list(range(producers))
    _check_pointwise(partitioning, producers, consumers)
    if producers >= consumers:
        return list(range(consumer_index * producers // consumers, (consumer_index + 1) * producers // consumers))
    return [consumer_index * producers // consumers]


def _check_pointwise(partitioning: Partitioning, producers: int, consumers: int) -> None:
    if partitioning is Partitioning.FORWARD and producers != consumers:
        raise ValueError(f"a forward edge cannot join parallelism {producers} to {consumers}")


def _apply(function: Callable[[Any], Any], values: Sequence[Any], what: str) -> list[Any]:
    """Return the function's result for each value; a failure names the record."""
    results: list[Any] = []
    try:
        results.extend(map(function, values))
    except Exception as error:
        # extend keeps what came before the failure, so its length is the failing row
        record = values[len(results)]
        raise PartitionError(f"{what} failed on {record!r}: {type(error).__name__}: {error}", record) from error
    return results


def _last_watermark(batch: RecordBatch) -> Watermark | None:
    return Watermark(batch.marks[-1].watermark) if batch.marks else None


def _deal(batch: RecordBatch, channels: list[int] | Channels, num_channels: int) -> list[Part]:
    """Split by the channel of each row. If all rows share a channel, the batch goes there as it is."""
    if batch.has_arrow:
        batch = _with_plain_columns(batch)
    of_rows: npt.NDArray[Any]
    if isinstance(channels, np.ndarray):
        # numbers of one or two bytes are sorted by their digits
        of_rows = channels.astype(np.uint8 if num_channels <= 256 else np.uint16)
    elif num_channels <= 256:
        # bytes() reads a list of small numbers in a third of the time that NumPy takes
        of_rows = np.frombuffer(bytes(channels), np.uint8)
    else:
        of_rows = np.array(channels, dtype=np.int64)
    rows = np.argsort(of_rows, kind="stable")
    stops = np.cumsum(np.bincount(of_rows, minlength=num_channels)).tolist()
    parts: list[Part] = []
    start = 0
    for stop in stops:
        if start == stop:
            parts.append(_last_watermark(batch))
        elif stop - start == batch.num_rows:
            parts.append(batch)
        else:
            picked = rows[start:stop]
            parts.append(batch.take(picked).with_marks(_marks_between(batch.marks, picked)))
        start = stop
    return parts


def _marks_between(marks: Sequence[Mark], picked: npt.NDArray[np.int64]) -> list[Mark]:
    """Return the marks with their offsets counted in picked rows (ascending) only."""
    if not marks:
        return []
    offsets: npt.NDArray[np.int64] = np.searchsorted(picked, [offset for offset, _ in marks])
    return [Mark(offset, mark.watermark) for offset, mark in zip(offsets.tolist(), marks, strict=True)]


def _with_plain_columns(batch: RecordBatch) -> RecordBatch:
    columns = batch.arrow()
    plain = without_views(columns)
    if plain is columns:
        return batch
    return RecordBatch(
        batch.num_rows,
        batch.values() if batch.has_values else None,
        plain,
        None,
        batch.timestamps_array(),
        batch.marks,
        batch.type_info,
        batch.keys,
    )
