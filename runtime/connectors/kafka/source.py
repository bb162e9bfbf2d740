"""KafkaSource: topics by name or pattern, or single partitions; from offsets of all kinds, with an end or without.

A split is a partition with the offset at which it begins and, if it has an end, the one at which it stops. Both are
asked for once, where the partition is found, so that every attempt reads the same. Reading ends by position: markers of
transactions have offsets, too, and the last record may be far before the end.
Source: Flink, KafkaSource, KafkaSourceEnumerator (owners of partitions, later partitions from the beginning) and
KafkaPartitionSplitReader.
"""

from __future__ import annotations

import logging
import re
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException, Message

from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import rows_of
from runtime.connectors.background import BackgroundCall
from runtime.connectors.formats.bad_records import ERRORS_METRIC, BadRecordHandler, BadRecords
from runtime.connectors.formats.messages import MessageDecoder, MessageFormat, message_type
from runtime.connectors.kafka.fetcher import Chunk, Fetcher
from runtime.connectors.kafka.offsets import (
    ANSWER_S,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetClient,
    is_transient,
)
from runtime.connectors.kafka.properties import (
    CLIENT_ID_PREFIX,
    COMMIT_ON_CHECKPOINT,
    DISCOVERY_INTERVAL,
    Properties,
    PropertyError,
    check_consumer,
    client_properties,
    switch,
    with_references,
)
from runtime.connectors.poll_interval import PollInterval
from runtime.core.batch import RecordBatch
from runtime.operators.source import (
    Boundedness,
    NoSplit,
    ReaderContext,
    ReadStatus,
    Source,
    SourceError,
    SourceSplit,
    SplitEnumerator,
    SplitReader,
)

logger = logging.getLogger(__name__)

SPLITS_AT_ONCE: Final = 1 << 10
"""Partitions that a subtask reads side by side, at least."""
DISCOVERY_MS: Final = 300_000
"""Time between two looks for new partitions, unless `partition.discovery.interval.ms` says otherwise; Flink's."""
DISCOVERY_POLL_MS: Final = 10
"""Time between two questions whether a look has ended."""
WATCH_MS: Final = 30_000
"""Time between two looks whether the topics are still those that reading began with."""
_RETRY_S: Final = 0.2
"""Time before brokers are asked again that were electing a leader."""
_GONE_S: Final = 5.0
"""Time for which a topic has to be unknown to count as deleted."""

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


class Found(NamedTuple):
    """Holds what a look has found."""

    splits: list[PartitionSplit]
    """Of new partitions."""
    topic_ids: dict[str, str]
    """Of all topics that are read."""


class TopicChangedError(LookupError):
    """Tells that a topic was deleted, or made anew: its offsets mean other records, if there are any."""


@dataclass(frozen=True, slots=True)
class PartitionSplit(SourceSplit):
    """A partition."""

    partition: KafkaTopicPartition
    start: int
    stop: int | None
    """Offset of the first record that is not read; None: there is no end."""


class KafkaSource(Source):
    """Reads records from Kafka. Event time is the records' timestamp, unless an assigner says otherwise.

    Args:
        properties: of a consumer, with Kafka's names; `bootstrap.servers` is needed. Values may be secrets.
        topics: names of the topics.
        topic_pattern: regular expression that names of topics match as a whole; in place of `topics`.
        partitions: single partitions; in place of `topics`.
        message_format: how to read a record's value; None: rows of RECORD_TYPE. Records without a value (tombstones)
            are left out by a format.
        start: where to begin in the partitions that are there at the start; those found later are read as a whole.
        stop: where to end; None: nowhere.
        bounded: whether `stop` makes the source a bounded one.
        bad_records: what becomes of records that cannot be read.

    Raises:
        ValueError: it is not said what to read, or in two ways.
        PropertyError: a property is none of Kafka's.
    """

    is_outside = True
    split_format = "partitions of Kafka"

    def __init__(
        self,
        properties: Properties,
        topics: Sequence[str] = (),
        topic_pattern: str | None = None,
        partitions: Collection[KafkaTopicPartition] = (),
        message_format: MessageFormat | None = None,
        start: KafkaOffsetsInitializer | None = None,
        stop: KafkaOffsetsInitializer | None = None,
        bounded: bool = False,
        bad_records: BadRecords | None = None,
    ) -> None:
        if sum((bool(topics), topic_pattern is not None, bool(partitions))) != 1:
            raise ValueError(
                "a Kafka source needs topics, or a pattern of their names, or partitions: one of the three"
            )
        if bounded and stop is None:
            raise ValueError("a bounded Kafka source needs offsets at which it stops")
        if topic_pattern is not None:
            re.compile(topic_pattern)
        if not all(isinstance(topic, str) for topic in topics):
            raise TypeError(f"topics of Kafka are named by texts, not by {topics!r:.100}")
        self.properties = with_references(properties)
        check_consumer(self.properties)
        self.topics = list(topics)
        self.topic_pattern = topic_pattern
        self.partitions = sorted(partitions)
        self.start = start or KafkaOffsetsInitializer.earliest()
        self.stop = stop
        if "group.id" not in properties and any(each is not None and each.needs_group for each in (self.start, stop)):
            raise ValueError("committed offsets are a consumer group's: set group.id")
        self.boundedness = Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED
        self.splits_at_once = max(len(self.partitions), SPLITS_AT_ONCE)
        self._discovery_ms = _discovery_ms(properties, bounded)
        self._commits = switch(properties, COMMIT_ON_CHECKPOINT, default=True)
        self._format = message_format
        self._bad_records = bad_records or BadRecords.fail()
        self.dead_letter_tag = self._bad_records.tag

    def produced_type(self) -> TypeInformation | None:
        return RECORD_TYPE if self._format is None else message_type(self._format)

    def create_enumerator(self, parallelism: int, restored: Any | None) -> SplitEnumerator:
        return _Partitions(self, parallelism, restored)

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, PartitionSplit)
        return _PartitionReader(self, split, split.start if position is None else int(position), context)

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, PartitionSplit)
        return [split.partition.topic, split.partition.partition, split.start, split.stop]

    def split_from_json(self, value: Any) -> SourceSplit:
        topic, partition, start, stop = value
        return PartitionSplit(f"{topic}-{partition}", KafkaTopicPartition(topic, partition), start, stop)

    # --- for its parts ------------------------------------------------------------------------------------------------

    @property
    def discovery_ms(self) -> int | None:
        """Return the time between two looks for new partitions, ms; None: there is one look only."""
        return self._discovery_ms

    @property
    def is_committed_only(self) -> bool:
        """Return whether records of open and aborted transactions are not read; so by default."""
        return self.properties.get("isolation.level", "read_committed") == "read_committed"

    @property
    def commits_offsets(self) -> bool:
        """Return whether the group's offsets are committed with checkpoints: it is named, and nobody has said no."""
        return "group.id" in self.properties and self._commits

    def client_properties(self, role: str) -> dict[str, Any]:
        """Return the properties of a client.

        Args:
            role: what it is for, in its id.
        """
        found: dict[str, Any] = client_properties(self.properties)
        prefix = self.properties.get(CLIENT_ID_PREFIX) or found.get("client.id")
        if prefix:
            found["client.id"] = f"{prefix}-{role}"
        return found

    def handler(self, context: ReaderContext) -> BadRecordHandler:
        """Return what takes the bad records of a reader."""
        return BadRecordHandler(self._bad_records, context.metrics.counter(ERRORS_METRIC))

    def decoder(self, handler: BadRecordHandler, split: PartitionSplit) -> MessageDecoder | None:
        """Return the decoder of a reader; None: records stay as they are."""
        if self._format is None:
            return None
        origin = f"topic {split.partition.topic}, partition {split.partition.partition}"
        return MessageDecoder(self._format, handler, origin)

    def find(self, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str], *, is_first: bool) -> Found:
        """Return the splits of the partitions that are not known yet; asks the brokers.

        Args:
            known: partitions that were found before.
            topic_ids: of their topics, as far as they are known.
            is_first: whether nothing was looked for before: later partitions begin at their beginning.

        Raises:
            SourceError: the brokers do not answer, or there is no such topic or offset; or a topic was deleted, or made
                anew. What passes by itself, such as an election of a leader, is waited for up to `ANSWER_S`.
        """
        until = time.monotonic() + ANSWER_S
        while True:
            try:
                client = self._client()
                found = self._find(client, known, is_first=is_first)
                return Found(
                    found, self._check_topics(client, {*known, *(each.partition for each in found)}, topic_ids)
                )
            except (KafkaException, LookupError, ValueError) as error:
                if not is_transient(error) or time.monotonic() > until:
                    raise SourceError(f"Kafka {self._what}: {_text(error)}") from error
            time.sleep(_RETRY_S)

    def watch(self, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str]) -> Found:
        """Look whether the topics are still those that reading began with; brokers that do not answer are no reason to
        end the job.

        Raises:
            SourceError: a topic was deleted, or made anew.
        """
        try:
            return Found([], self._check_topics(self._client(), known, topic_ids))
        except TopicChangedError as error:
            raise SourceError(f"Kafka {self._what}: {error}") from error
        except (KafkaException, TimeoutError) as error:
            logger.info("Kafka %s: the topics could not be looked at: %s", self._what, error)
            return Found([], dict(topic_ids))

    def _client(self) -> OffsetClient:
        return OffsetClient(self.client_properties("enumerator"), is_committed_only=self.is_committed_only)

    def _check_topics(
        self, client: OffsetClient, known: Collection[KafkaTopicPartition], topic_ids: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the ids of the topics of partitions.

        Raises:
            KafkaException: the brokers do not answer.
            TopicChangedError: one is not there, or has another id than it had.
        """
        topics, until = sorted({each.topic for each in known}), time.monotonic() + _GONE_S
        while True:
            found = client.topic_ids(topics)
            gone = next((topic for topic in topics if topic not in found), None)
            # a broker may not have heard of a new one yet
            if gone is None or time.monotonic() > until:
                break
            time.sleep(_RETRY_S)
        if gone is not None:
            raise TopicChangedError(f"topic {gone!r} was deleted while it was read")
        for topic in topics:
            if topic_ids.get(topic, found[topic]) != found[topic]:
                raise TopicChangedError(
                    f"topic {topic!r} was deleted and made anew: the offsets up to which it was read mean other ones "
                    "now. To read the new one from its beginning, give the source another uid(), or start without the "
                    "snapshot"
                )
        return found

    def _find(
        self, client: OffsetClient, known: Collection[KafkaTopicPartition], *, is_first: bool
    ) -> list[PartitionSplit]:
        new = sorted(set(self._wanted(client)).difference(known))
        starts = (self.start if is_first else KafkaOffsetsInitializer.earliest()).resolve(new, client)
        if is_first:
            self.start.check(starts, client)
        stops: Mapping[KafkaTopicPartition, int] = {} if self.stop is None else self.stop.resolve(new, client)
        return [PartitionSplit(f"{each.topic}-{each.partition}", each, starts[each], stops.get(each)) for each in new]

    @property
    def _what(self) -> str:
        if self.topic_pattern is not None:
            return f"topics {self.topic_pattern!r}"
        return ", ".join(self.topics or sorted({each.topic for each in self.partitions}))

    def _wanted(self, client: OffsetClient) -> list[KafkaTopicPartition]:
        if self.topic_pattern is not None:
            pattern = re.compile(self.topic_pattern)
            return client.partitions(lambda topic: pattern.fullmatch(topic) is not None)
        topics = {*self.topics, *(each.topic for each in self.partitions)}
        found = client.partitions(topics.__contains__)
        missing = sorted(topics.difference(each.topic for each in found))
        if missing:
            raise LookupError(f"there is no topic {missing[0]!r}")
        gone = [each for each in self.partitions if each not in set(found)]
        if gone:
            raise LookupError(f"topic {gone[0].topic!r} has no partition {gone[0].partition}")
        return self.partitions or found


def _discovery_ms(properties: Properties, bounded: bool) -> int | None:
    text = properties.get(DISCOVERY_INTERVAL, str(DISCOVERY_MS))
    try:
        found = int(str(text))
    except ValueError:
        raise PropertyError(f"{DISCOVERY_INTERVAL} is a number of milliseconds, not {text!r}") from None
    return found if found > 0 and not bounded else None


def _text(error: Exception) -> str:
    if isinstance(error, KafkaException) and error.args and hasattr(error.args[0], "str"):
        return str(error.args[0].str())
    return str(error)


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """Return the subtask that reads a partition: those of one topic are dealt out one by one, from a subtask that its
    name says. Source: Flink, KafkaSourceEnumerator.getSplitOwner.
    """
    return ((java_hash(partition.topic) * 31 & 0x7FFFFFFF) % parallelism + partition.partition) % parallelism


def java_hash(text: str) -> int:
    """Return the 32 bits of a text's hashCode in Java, unsigned."""
    code = 0
    for unit in text.encode("utf-16-be").hex(" ", 2).split():
        code = (code * 31 + int(unit, 16)) & 0xFFFFFFFF
    return code


class _Partitions(SplitEnumerator):
    """Finds partitions, on a thread, and deals each one out to its owner."""

    def __init__(self, source: KafkaSource, parallelism: int, restored: Any | None) -> None:
        self._source = source
        self._parallelism = parallelism
        self._known: set[KafkaTopicPartition] = set()
        self._topic_ids: dict[str, str] = {}
        self._waiting: list[PartitionSplit] = []
        self._is_first = True
        #: this instance has found out what there is
        self._has_looked = False
        #: since the last look for new partitions
        self._waited_ms = 0
        if restored is not None:
            # which snapshots of earlier releases do not have
            self._topic_ids = dict(restored.get("topic_ids", {}))
            self._known = {KafkaTopicPartition(topic, number) for topic, number in restored["known"]}
            self._waiting = [_as_partition(source.split_from_json(value)) for value in restored["waiting"]]
            self._is_first = restored["is_first"]
        self._look: BackgroundCall[Found] | None = None
        self._begin_look()

    def next_split(self, subtask_index: int) -> SourceSplit | NoSplit:
        for number, split in enumerate(self._waiting):
            if owner_of(split.partition, self._parallelism) == subtask_index:
                return self._waiting.pop(number)
        is_over = self._has_looked and self._source.discovery_ms is None
        return NoSplit.NEVER if is_over else NoSplit.LATER

    def add_splits_back(self, splits: Sequence[SourceSplit]) -> None:
        self._waiting[:0] = map(_as_partition, splits)

    def snapshot(self) -> Any:
        return {
            "known": [[each.topic, each.partition] for each in sorted(self._known)],
            "topic_ids": self._topic_ids,
            "waiting": [self._source.split_to_json(split) for split in self._waiting],
            "is_first": self._is_first,
        }

    def discovery_delay_ms(self) -> int | None:
        return self._pause_ms if self._look is None else DISCOVERY_POLL_MS

    @property
    def _pause_ms(self) -> int | None:
        """Return the time between two looks, ms; None: there are no more."""
        if self._source.boundedness is Boundedness.BOUNDED:
            return None
        return min(WATCH_MS, self._source.discovery_ms or WATCH_MS)

    def discover(self) -> bool:
        if self._look is None:
            self._waited_ms += self._pause_ms or 0
            is_due = self._source.discovery_ms is not None and self._waited_ms >= self._source.discovery_ms
            self._begin_look() if is_due else self._begin_watch()
            return False
        if not self._look.is_done:
            return False
        look, self._look = self._look, None
        found = look.result()
        self._topic_ids = found.topic_ids
        self._known.update(split.partition for split in found.splits)
        self._waiting += found.splits
        self._is_first = False
        # those that were told to wait hear that there will be nothing, too
        is_last = self._source.discovery_ms is None and not self._has_looked
        self._has_looked = True
        return bool(found.splits) or is_last

    def is_discovering(self) -> bool:
        return self._look is not None

    def close(self) -> None:
        # without waiting: brokers that are away have it wait
        self._look = None

    def _begin_look(self) -> None:
        self._waited_ms = 0
        known, topic_ids, is_first = frozenset(self._known), self._topic_ids, self._is_first
        self._look = BackgroundCall("kafka-partitions", lambda: self._source.find(known, topic_ids, is_first=is_first))

    def _begin_watch(self) -> None:
        known, topic_ids = frozenset(self._known), self._topic_ids
        self._look = BackgroundCall("kafka-topics", lambda: self._source.watch(known, topic_ids))


def _as_partition(split: SourceSplit) -> PartitionSplit:
    assert isinstance(split, PartitionSplit)
    return split


class _Fetchers:
    """The fetchers of this process, one for each subtask of a source, while any of its readers is open."""

    def __init__(self) -> None:
        self._of: weakref.WeakKeyDictionary[KafkaSource, dict[int, _Shared]] = weakref.WeakKeyDictionary()

    def join(self, source: KafkaSource, partition: KafkaTopicPartition, subtask: int) -> _Shared:
        """Return the fetcher of a subtask, for one more reader, of that partition."""
        of_source = self._of.setdefault(source, {})
        shared = of_source.get(subtask)
        if shared is None or partition in shared.read:
            # an attempt before this one may still have its readers open
            fetcher = Fetcher(f"kafka-{subtask}", source.client_properties(str(subtask)))
            shared = of_source[subtask] = _Shared(fetcher, set())
        shared.read.add(partition)
        return shared

    def leave(self, source: KafkaSource, partition: KafkaTopicPartition, subtask: int, shared: _Shared) -> None:
        """Close the fetcher if it was for that reader alone."""
        shared.read.discard(partition)
        if not shared.read:
            shared.fetcher.close()
            if self._of.get(source, {}).get(subtask) is shared:
                del self._of[source][subtask]


@dataclass(slots=True)
class _Shared:
    fetcher: Fetcher
    read: set[KafkaTopicPartition]


_FETCHERS = _Fetchers()


class _PartitionReader(SplitReader):
    """Reads a partition; its position is the offset of the next record."""

    def __init__(self, source: KafkaSource, split: PartitionSplit, offset: int, context: ReaderContext) -> None:
        self._source = source
        self._split = split
        self._subtask = context.subtask_index
        self._offset = offset
        self._is_over = split.stop is not None and offset >= split.stop
        self._handler = source.handler(context)
        self._decoder = source.decoder(self._handler, split)
        self._poll = PollInterval(context.clock)
        self._chunk: Chunk | None = None
        #: of the chunk: the first record that was not read, and the first that is not to be
        self._row = self._end = 0
        #: checkpoint → the position in it
        self._snapshots: dict[int, int] = {}
        self._news_s = time.monotonic()
        self._shared: _Shared | None = None
        if not self._is_over:
            self._shared = _FETCHERS.join(source, split.partition, self._subtask)
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
            raise SourceError(_text(error)) from error
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
        if self._source.commits_offsets:
            self._snapshots[checkpoint_id] = self._offset

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        offset = self._snapshots.get(checkpoint_id)
        if offset is None or self._shared is None:
            return
        self._snapshots = {number: each for number, each in self._snapshots.items() if number > checkpoint_id}
        self._shared.fetcher.commit({self._split.partition: offset})

    def awaits_checkpoint(self) -> bool:
        return self._source.commits_offsets and self._shared is not None

    def _release(self) -> None:
        """Have nothing more fetched. Idempotent."""
        if self._shared is not None:
            self._shared.fetcher.release(self._queue)

    def close(self) -> None:
        self._release()
        shared, self._shared = self._shared, None
        if shared is not None:
            _FETCHERS.leave(self._source, self._split.partition, self._subtask, shared)


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
