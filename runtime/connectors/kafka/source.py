"""KafkaSource: topics by name or pattern, or single partitions; from offsets of all kinds, with an end or without.

A split is a partition with the offset at which it begins and, if it has an end, the one at which it stops. Both are
asked for once, where the partition is found, so that every attempt reads the same.
Source: Flink, KafkaSource.
"""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Collection, Sequence
from typing import Any, Final

from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.bad_records import ERRORS_METRIC, BadRecordHandler, BadRecords
from runtime.connectors.formats.messages import MessageDecoder, MessageFormat, message_type
from runtime.connectors.kafka.enumerator import PartitionEnumerator
from runtime.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, OffsetClient
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
from runtime.connectors.kafka.reader import RECORD_TYPE, Fetchers, PartitionReader
from runtime.connectors.kafka.splits import PartitionSplit
from runtime.connectors.kafka.subscription import Subscription
from runtime.operators.source import Boundedness, ReaderContext, Source, SourceSplit, SplitEnumerator, SplitReader

logger = logging.getLogger(__name__)

SPLITS_AT_ONCE: Final = 1 << 10
"""Partitions that a subtask reads side by side, at least."""
DISCOVERY_MS: Final = 300_000
"""Time between two looks for new partitions, unless `partition.discovery.interval.ms` says otherwise; Flink's."""

#: properties of consumers that the engine sets itself
_WITHOUT_EFFECT: Final = {
    "auto.offset.reset": "its starting offsets say where reading begins, and an offset that is gone fails the job",
    "enable.auto.commit": "the group's offsets are committed with checkpoints",
}
#: of sources in this process
_FETCHERS: weakref.WeakKeyDictionary[KafkaSource, Fetchers] = weakref.WeakKeyDictionary()


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
            try:
                re.compile(topic_pattern)
            except re.error as error:
                raise ValueError(f"the pattern of topics, {topic_pattern!r}, cannot be read: {error}") from error
        if not all(isinstance(topic, str) for topic in topics):
            raise TypeError(f"topics of Kafka are named by texts, not by {topics!r:.100}")
        self.properties = with_references(properties)
        check_consumer(self.properties)
        for name, why in _WITHOUT_EFFECT.items():
            if name in properties:
                logger.warning("Kafka: the source does not use %s: %s", name, why)
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
        is_bounded = self.boundedness is Boundedness.BOUNDED
        return PartitionEnumerator(
            self.subscription(), parallelism, restored, discovery_ms=self._discovery_ms, is_bounded=is_bounded
        )

    def create_reader(self, split: SourceSplit, position: Any | None, context: ReaderContext) -> SplitReader:
        assert isinstance(split, PartitionSplit)
        handler = BadRecordHandler(self._bad_records, context.metrics.counter(ERRORS_METRIC))
        decoder = None
        if self._format is not None:
            origin = f"topic {split.partition.topic}, partition {split.partition.partition}"
            decoder = MessageDecoder(self._format, handler, origin)
        return PartitionReader(
            split,
            split.start if position is None else int(position),
            context,
            _FETCHERS.setdefault(self, Fetchers()),
            self.client_properties(str(context.subtask_index)),
            handler,
            decoder,
            commits_offsets=self.commits_offsets,
        )

    def split_to_json(self, split: SourceSplit) -> Any:
        assert isinstance(split, PartitionSplit)
        return split.to_json()

    def split_from_json(self, value: Any) -> SourceSplit:
        return PartitionSplit.from_json(value)

    def subscription(self) -> Subscription:
        """Return what asks the brokers for what is to be read."""
        return Subscription(
            self.topics, self.topic_pattern, self.partitions, self.start, self.stop, self._offset_client
        )

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

    def _offset_client(self) -> OffsetClient:
        is_committed_only = self.properties.get("isolation.level", "read_committed") == "read_committed"
        return OffsetClient(self.client_properties("enumerator"), is_committed_only=is_committed_only)


def _discovery_ms(properties: Properties, bounded: bool) -> int | None:
    text = properties.get(DISCOVERY_INTERVAL, str(DISCOVERY_MS))
    try:
        found = int(str(text))
    except ValueError:
        raise PropertyError(f"{DISCOVERY_INTERVAL} is a number of milliseconds, not {text!r}") from None
    return found if found > 0 and not bounded else None
