"""PartitionReader: reads one partition of Kafka, by records or by columns.

Reading ends by position: markers of transactions have offsets, too, and the last record may be far before the end.
Source: Flink, KafkaPartitionSplitReader.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException, Message

from runtime.common.typeinfo import Types
from runtime.common.types import rows_of
from runtime.connectors.formats.bad_records import BadRecordHandler
from runtime.connectors.formats.messages import MessageDecoder
from runtime.connectors.kafka.fetcher import Chunk, Fetcher
from runtime.connectors.kafka.offsets import ANSWER_S, KafkaTopicPartition, error_text
from runtime.connectors.kafka.splits import PartitionSplit
from runtime.connectors.poll_interval import PollInterval
from runtime.core.batch import RecordBatch
from runtime.operators.source import ReaderContext, ReadStatus, SourceError, SplitReader

RECORD_TYPE: Final = Types.ROW_NAMED(
    ["topic", "partition", "offset", "timestamp", "key", "value", "headers"],
    [
        *(Types.STRING(), Types.INT(), Types.LONG(), Types.LONG()),
        *(Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        Types.LIST(Types.TUPLE([Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])),
    ],
)
"""A record as it is, of a source without a format."""
_RECORD_FIELDS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


class Fetchers:
    """The fetchers of one source in this process: one a subtask, while any of its readers is open."""

    def __init__(self) -> None:
        self._of: dict[int, _Shared] = {}

    def join(self, subtask: int, partition: KafkaTopicPartition, properties: Mapping[str, Any]) -> _Shared:
        """Return the fetcher of a subtask, for one more reader, of that partition.

        Args:
            subtask: its index.
            partition: what the reader reads.
            properties: of a consumer, should there be no fetcher yet.
        """
        shared = self._of.get(subtask)
        if shared is None or partition in shared.read:
            # an attempt before this one may still have its readers open
            shared = self._of[subtask] = _Shared(Fetcher(f"kafka-{subtask}", dict(properties)), set())
        shared.read.add(partition)
        return shared

    def leave(self, subtask: int, partition: KafkaTopicPartition, shared: _Shared) -> None:
        """Close the fetcher if it was for that reader alone."""
        shared.read.discard(partition)
        if not shared.read:
            shared.fetcher.close()
            if self._of.get(subtask) is shared:
                del self._of[subtask]


@dataclass(slots=True)
class _Shared:
    fetcher: Fetcher
    read: set[KafkaTopicPartition]


class PartitionReader(SplitReader):
    """Reads a partition; its position is the offset of the next record.

    Args:
        split: the partition.
        offset: where to begin.
        context: of the subtask that reads.
        fetchers: of the source.
        properties: of the subtask's consumer.
        handler: takes bad records.
        decoder: reads values; None: records stay as they are.
        commits_offsets: whether the group's offsets are committed with checkpoints.
    """

    def __init__(
        self,
        split: PartitionSplit,
        offset: int,
        context: ReaderContext,
        fetchers: Fetchers,
        properties: Mapping[str, Any],
        handler: BadRecordHandler,
        decoder: MessageDecoder | None,
        *,
        commits_offsets: bool,
    ) -> None:
        self._split = split
        self._fetchers = fetchers
        self._subtask = context.subtask_index
        self._offset = offset
        self._is_over = split.stop is not None and offset >= split.stop
        self._handler = handler
        self._decoder = decoder
        self._commits_offsets = commits_offsets
        self._poll = PollInterval(context.clock)
        self._chunk: Chunk | None = None
        #: of the chunk: the first record that was not read, and the first that is not to be
        self._row = self._end = 0
        #: checkpoint → the position in it
        self._snapshots: dict[int, int] = {}
        self._news_s = time.monotonic()
        self._shared: _Shared | None = None
        if not self._is_over:
            self._shared = fetchers.join(self._subtask, split.partition, properties)
            self._queue = self._shared.fetcher.open(split.partition, offset)

    def read(self, max_rows: int) -> RecordBatch | ReadStatus:
        chunk = None if self._is_over else self._chunk or self._take()
        if self._is_over:
            self._release()
            return ReadStatus.END_OF_SPLIT
        if chunk is None:
            return ReadStatus.NOTHING_YET
        row, end = self._row, min(self._end, self._row + max_rows)
        batch, consumed = self._decode(chunk, row, end)
        self._row = row + consumed
        if self._row == self._end:
            self._leave_chunk(chunk)
        else:
            self._offset = int(chunk.offsets[self._row - 1]) + 1
        return batch

    def _take(self) -> Chunk | None:
        try:
            chunk = self._queue.take()
        except KafkaException as error:
            raise SourceError(error_text(error)) from error
        if chunk is None:
            return None
        self._poll.news()
        self._news_s = time.monotonic()
        stop = self._split.stop
        self._chunk, self._row = chunk, 0
        self._end = len(chunk.values) if stop is None else int(chunk.offsets.searchsorted(stop))
        if self._end == 0:
            self._leave_chunk(chunk)
            return None
        return chunk

    def _leave_chunk(self, chunk: Chunk) -> None:
        """Go behind a chunk that has been read, or to where reading stops."""
        self._chunk = None
        self._offset = max(self._offset, int(chunk.next_offset))
        stop = self._split.stop
        if stop is not None and self._offset >= stop:
            self._offset, self._is_over = stop, True

    def _decode(self, chunk: Chunk, row: int, end: int) -> tuple[RecordBatch, int]:
        times = chunk.times[row:end]
        if self._decoder is None:
            rows = rows_of([_record(message) for message in chunk.messages[row:end]], _RECORD_FIELDS)
            return RecordBatch.of_values(rows, times.tolist(), type_info=RECORD_TYPE), end - row
        values = chunk.values[row:end]
        present: Sequence[int] | None = None
        if None in values:
            present = [index for index, value in enumerate(values) if value is not None]
        messages = [value for value in values if value is not None]
        where = (lambda index: index) if present is None else present.__getitem__
        batch, kept, consumed = self._decoder.decode(
            messages, lambda index: f"offset {chunk.offsets[row + where(index)]}"
        )
        if present is not None:
            kept = [present[index] for index in (range(consumed) if kept is None else kept)]
            consumed = end - row if consumed == len(messages) else present[consumed]
        of_records = times[:consumed] if kept is None else times[kept]
        return batch.with_timestamps(of_records.tolist(), ()), consumed

    @property
    def position(self) -> Any:
        return self._offset

    def next_read_ms(self) -> int | None:
        return self._poll.next_ms()

    def is_looking(self) -> bool:
        is_looking = not self._is_over and self._chunk is None and self._queue.is_looking
        if is_looking and time.monotonic() - self._news_s > ANSWER_S:
            raise SourceError(f"the brokers have not answered for {ANSWER_S:g} s")
        return is_looking

    def pending_records(self) -> int | None:
        if self._is_over or self._shared is None:
            return 0
        high = self._queue.high_watermark
        if high < 0:
            return None
        end = high if self._split.stop is None else min(high, self._split.stop)
        return max(0, end - self._offset)

    def take_dead_letters(self) -> RecordBatch | None:
        return self._handler.take()

    def notify_snapshot(self, checkpoint_id: int) -> None:
        if self._commits_offsets:
            self._snapshots[checkpoint_id] = self._offset

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        offset = self._snapshots.get(checkpoint_id)
        if offset is None or self._shared is None:
            return
        self._snapshots = {number: each for number, each in self._snapshots.items() if number > checkpoint_id}
        self._shared.fetcher.commit({self._split.partition: offset})

    def awaits_checkpoint(self) -> bool:
        return self._commits_offsets and self._shared is not None

    def _release(self) -> None:
        """Have nothing more fetched. Idempotent."""
        if self._shared is not None:
            self._shared.fetcher.release(self._queue)

    def close(self) -> None:
        self._release()
        shared, self._shared = self._shared, None
        if shared is not None:
            self._fetchers.leave(self._subtask, self._split.partition, shared)


def _record(message: Message) -> tuple[Any, ...]:
    kind, timestamp = message.timestamp()
    given: Any = message.headers() or ()
    headers = [(name, _bytes(value)) for name, value in given]
    key, value = message.key(), message.value()
    return (
        message.topic(), message.partition(), message.offset(), timestamp if kind else None,
        None if key is None else _bytes(key), None if value is None else _bytes(value), headers,
    )  # fmt: skip


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
