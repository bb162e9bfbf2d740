"""Offsets at which a source begins and stops, by partition.

Source: Flink, OffsetsInitializer and its four implementations.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from runtime.connectors.kafka.admin import Admin

ANSWER_S: Final = 30.0
"""Time limit for an answer of the brokers."""


#: its methods have no types
EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]

#: beginnings of the properties of any client
_CONNECTION: Final = (
    *("bootstrap.", "broker.", "client.", "enable.ssl", "log_level", "metadata.", "reconnect.", "sasl.", "security."),
    *("socket.", "ssl."),
)

#: errors that pass by themselves: a topic was made a moment ago, a leader or a coordinator is elected
_TRANSIENT: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)


def is_transient(error: Exception) -> bool:
    """Return whether the brokers gave an error that passes by itself, so the same question may be asked again."""
    return isinstance(error, KafkaException) and bool(error.args) and error.args[0].code() in _TRANSIENT


def error_text(error: Exception) -> str:
    """Return what an error says, without the number that librdkafka's have."""
    if isinstance(error, KafkaException) and error.args and hasattr(error.args[0], "str"):
        return str(error.args[0].str())
    return str(error)


@dataclass(frozen=True, slots=True, order=True)
class KafkaTopicPartition:
    """A partition of a topic."""

    topic: str
    partition: int


class KafkaOffsetResetStrategy(enum.Enum):
    """Where to begin in a partition for which there is no offset."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2
    """Nowhere: the job fails."""


class _Kind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    COMMITTED = "committed"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class KafkaOffsetsInitializer:
    """Says at which offsets a source begins or stops; made by its static methods."""

    _kind: _Kind
    _timestamp: int = 0
    _offsets: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)
    _reset: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE

    @classmethod
    def earliest(cls) -> Self:
        """Return the first offset that there is."""
        return cls(_Kind.EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Return the offset behind the last record that there is; with read_committed, of no open transaction."""
        return cls(_Kind.LATEST)

    @classmethod
    def timestamp(cls, timestamp: int) -> Self:
        """Return the first offset with that timestamp (epoch ms) or a later one; `latest` if there is none.

        Raises:
            ValueError: it is negative: those numbers mean something else to brokers.
        """
        if timestamp < 0:
            raise ValueError(f"a timestamp of Kafka is not negative: {timestamp}")
        return cls(_Kind.TIMESTAMP, timestamp)

    @classmethod
    def committed_offsets(cls, offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE) -> Self:
        """Return the offsets that the consumer group has committed, or what the strategy says if it has not."""
        return cls(_Kind.COMMITTED, _reset=offset_reset_strategy)

    @classmethod
    def offsets(
        cls,
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> Self:
        """Return these offsets; for other partitions what the group has committed, or what the strategy says.

        Raises:
            TypeError: a key is no KafkaTopicPartition, or an offset no whole number.
            ValueError: an offset is negative.
        """
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(
                    f"offsets are given by KafkaTopicPartition(topic, partition), not by {partition!r:.100}"
                )
            if not isinstance(offset, int) or isinstance(offset, bool):
                raise TypeError(f"an offset is a whole number, not {offset!r:.100}")
            if offset < 0:
                raise ValueError(
                    f"an offset is not negative: {offset}; earliest() and latest() say where a topic begins"
                )
        return cls(_Kind.OFFSETS, _offsets=dict(offsets), _reset=offset_reset_strategy)

    @property
    def needs_group(self) -> bool:
        """Return whether it asks for committed offsets, which only a consumer group has."""
        return self._kind is _Kind.COMMITTED

    @property
    def named(self) -> Collection[KafkaTopicPartition]:
        """Return the partitions whose offsets are given."""
        return self._offsets.keys()

    def resolve(
        self, partitions: Collection[KafkaTopicPartition], client: OffsetClient
    ) -> dict[KafkaTopicPartition, int]:
        """Return an offset for each partition; asks the brokers.

        Raises:
            KafkaException: the brokers do not answer.
            LookupError: a partition has no offset, and the strategy is NONE.
        """
        if not partitions:
            return {}
        match self._kind:
            case _Kind.EARLIEST:
                return client.listed(partitions, EARLIEST)
            case _Kind.LATEST:
                return client.listed(partitions, LATEST)
            case _Kind.TIMESTAMP:
                found = client.listed(partitions, OffsetSpec.for_timestamp(self._timestamp))
                later = [partition for partition, offset in found.items() if offset < 0]
                return found | client.listed(later, LATEST)
        known = {partition: self._offsets[partition] for partition in partitions if partition in self._offsets}
        known |= client.committed([partition for partition in partitions if partition not in known])
        return known | self._reset_offsets([partition for partition in partitions if partition not in known], client)

    def check(self, starts: Mapping[KafkaTopicPartition, int], client: OffsetClient) -> None:
        """Check that offsets that somebody has named, or committed, are those of the topics of now.

        Raises:
            KafkaException: the brokers do not answer.
            LookupError: one is beyond the end of its partition: the topic was made anew.
        """
        if self._kind not in (_Kind.COMMITTED, _Kind.OFFSETS):
            return
        ends = client.listed(starts, LATEST, is_committed_only=False)
        for partition, offset in starts.items():
            if offset > ends[partition]:
                raise LookupError(
                    f"topic {partition.topic}, partition {partition.partition}: reading is to begin at offset "
                    f"{offset}, beyond its end, {ends[partition]}; was the topic made anew?"
                )

    def _reset_offsets(
        self, partitions: Collection[KafkaTopicPartition], client: OffsetClient
    ) -> dict[KafkaTopicPartition, int]:
        if not partitions:
            return {}
        if self._reset is KafkaOffsetResetStrategy.NONE:
            first = min(partitions)
            raise LookupError(
                f"topic {first.topic}, partition {first.partition}: there is no committed offset of the group "
                f"{client.group!r} and no reset strategy"
            )
        is_earliest = self._reset is KafkaOffsetResetStrategy.EARLIEST
        return client.listed(partitions, EARLIEST if is_earliest else LATEST)


class OffsetClient:
    """Asks the brokers for partitions and offsets. Used by one thread.

    Args:
        properties: of a client of librdkafka.
        is_committed_only: whether offsets end before the first open transaction.
    """

    def __init__(self, properties: Mapping[str, Any], *, is_committed_only: bool) -> None:
        self._admin = Admin({name: value for name, value in properties.items() if name.startswith(_CONNECTION)})
        self._properties = properties
        self._isolation = IsolationLevel.READ_COMMITTED if is_committed_only else IsolationLevel.READ_UNCOMMITTED

    @property
    def group(self) -> str:
        """Return the consumer group; "" if there is none."""
        return str(self._properties.get("group.id", ""))

    def partitions(self, is_wanted: Callable[[str], bool]) -> list[KafkaTopicPartition]:
        """Return the partitions of the topics that there are, but for Kafka's own.

        Args:
            is_wanted: whether a topic is asked for, by its name.

        Raises:
            KafkaException: the brokers do not answer, or do not know a topic's partitions at the moment.
        """
        found: list[KafkaTopicPartition] = []
        for name, topic in self._admin.topics(ANSWER_S).topics.items():
            if name.startswith("__") or not is_wanted(name):
                continue
            if topic.error is not None:
                raise KafkaException(topic.error)
            found += [KafkaTopicPartition(name, partition) for partition in topic.partitions]
        return found

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of those topics that there are: one that is deleted and made anew has another one.

        Of brokers that know no ids, all are the same.

        Raises:
            KafkaException: the brokers do not answer.
        """
        if not topics:
            return {}
        found: dict[str, str] = {}
        asked = TopicCollection(sorted(topics))
        for name, future in self._admin.client.describe_topics(asked, request_timeout=ANSWER_S).items():
            try:
                found[name] = str(future.result(ANSWER_S).topic_id)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._admin.explained(error) from error
        return found

    def listed(
        self, partitions: Collection[KafkaTopicPartition], spec: OffsetSpec, *, is_committed_only: bool = True
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offsets that the brokers know for a question; -1: there is no such offset.

        Args:
            partitions: the partitions.
            spec: the question.
            is_committed_only: as the client's; False: whatever the client's is.

        Raises:
            KafkaException: the brokers do not answer, or there is no such partition.
        """
        if not partitions:
            return {}
        asked = {TopicPartition(each.topic, each.partition): spec for each in partitions}
        isolation = self._isolation if is_committed_only else IsolationLevel.READ_UNCOMMITTED
        futures = self._admin.client.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_S)
        return {
            KafkaTopicPartition(each.topic, each.partition): future.result(ANSWER_S).offset
            for each, future in futures.items()
        }

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Return the offsets that the consumer group has committed, of partitions for which it has.

        Raises:
            KafkaException: the brokers do not answer.
        """
        if not partitions or not self.group:
            return {}
        consumer = Consumer({"enable.auto.commit": False, **self._properties})
        try:
            asked = [TopicPartition(each.topic, each.partition) for each in partitions]
            found = consumer.committed(asked, timeout=ANSWER_S)
        finally:
            consumer.close()
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
