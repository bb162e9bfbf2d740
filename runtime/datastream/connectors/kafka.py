"""PyFlink's `connectors.kafka`: builders of sources and sinks of Kafka, with its names.

Beyond PyFlink: `set_value_format` reads and writes columns (JSON, CSV, Avro), `set_bad_records` sets bad records aside,
`set_headers` and `set_partitioner` do what Flink's Java API does, and `set_expired_transactions_committed` opens a very
old savepoint. Source: PyFlink, datastream/connectors/kafka.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from runtime.common import exclusions as _exclusions
from runtime.common.secrets import SecretRef
from runtime.common.serialization import DeserializationSchema, SerializationSchema
from runtime.common.time import Duration
from runtime.connectors.formats.bad_records import BadRecords
from runtime.connectors.formats.messages import MessageFormat
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.connectors.kafka import sink as _sink
from runtime.connectors.kafka import source as _source
from runtime.connectors.kafka.offsets import KafkaOffsetResetStrategy as KafkaOffsetResetStrategy
from runtime.connectors.kafka.offsets import KafkaOffsetsInitializer as KafkaOffsetsInitializer
from runtime.connectors.kafka.offsets import KafkaTopicPartition as KafkaTopicPartition
from runtime.connectors.kafka.properties import CLIENT_ID_PREFIX
from runtime.connectors.kafka.serialization import Header, KafkaRecordSerialization, Partitioner
from runtime.datastream.connectors.base import DeliveryGuarantee

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
]

Text = str | SecretRef


class KafkaSource(_source.KafkaSource):
    """Reads topics; see `runtime.connectors.kafka.source.KafkaSource`."""

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()


class KafkaSourceBuilder:
    """Builds a KafkaSource. Bootstrap servers, what to read and a deserializer are needed."""

    def __init__(self) -> None:
        self._properties: dict[str, Text] = {}
        self._read: dict[str, Any] = {}
        self._format: MessageFormat | None = None
        self._is_raw = False
        self._start: KafkaOffsetsInitializer | None = None
        self._stop: KafkaOffsetsInitializer | None = None
        self._is_bounded = False
        self._bad_records: BadRecords | None = None

    def set_bootstrap_servers(self, bootstrap_servers: Text) -> Self:
        """Set the host:port of brokers, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> Self:
        """Set the consumer group, whose offsets are committed with checkpoints."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> Self:
        """Read these topics; replaces a pattern or partitions."""
        self._read = {"topics": topics}
        return self

    def set_topic_pattern(self, topic_pattern: str) -> Self:
        """Read the topics whose whole name matches a regular expression, those made later, too."""
        self._read = {"topic_pattern": topic_pattern}
        return self

    def set_partitions(self, partitions: Collection[KafkaTopicPartition]) -> Self:
        """Read these partitions only."""
        self._read = {"partitions": partitions}
        return self

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Set where to begin; the default is the earliest offset. A restored job goes on where it was."""
        self._start = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Stop at offsets, and count as a source without end all the same."""
        self._stop, self._is_bounded = stopping_offsets_initializer, False
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> Self:
        """Stop at offsets; the source is bounded, and new partitions are not looked for."""
        self._stop, self._is_bounded = stopping_offsets_initializer, True
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> Self:
        """Set the schema of the values."""
        self._format = deserialization_schema
        return self

    def set_value_format(self, message_format: MessageFormat) -> Self:
        """Set the format of the values, as `NdjsonFormat` with a row type: they become columns."""
        self._format = message_format
        return self

    def set_raw_records(self) -> Self:
        """Read rows of topic, partition, offset, timestamp, key, value and headers."""
        self._format, self._is_raw = None, True
        return self

    def set_bad_records(self, bad_records: BadRecords) -> Self:
        """Set what becomes of values that cannot be read; the default is that the job fails."""
        self._bad_records = bad_records
        return self

    def set_client_id_prefix(self, prefix: str) -> Self:
        """Set the beginning of the clients' ids."""
        return self.set_property(CLIENT_ID_PREFIX, prefix)

    def set_property(self, key: str, value: Text) -> Self:
        """Set a property of the consumer, or of Flink's source, such as `partition.discovery.interval.ms`."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, Text]) -> Self:
        """Set several properties."""
        self._properties.update(props)
        return self

    def build(self) -> KafkaSource:
        """Return the source.

        Raises:
            ValueError: something is missing, or a property is none of Kafka's.
        """
        if self._format is None and not self._is_raw:
            raise ValueError("set_value_only_deserializer() is missing: how to read the records' values")
        return KafkaSource(
            self._properties,
            message_format=self._format,
            start=self._start,
            stop=self._stop,
            bounded=self._is_bounded,
            bad_records=self._bad_records,
            **self._read,
        )


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


class KafkaRecordSerializationSchema(KafkaRecordSerialization):
    """Says how records become records of Kafka."""

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """Builds a KafkaRecordSerializationSchema. A topic, or a selector, and a value schema are needed."""

    def __init__(self) -> None:
        self._topic: str | Callable[[Any], str] | None = None
        self._key: RowWriterFormat | SerializationSchema | None = None
        self._value: RowWriterFormat | SerializationSchema | None = None
        self._headers: Callable[[Any], Sequence[Header] | None] | None = None
        self._partitioner: Partitioner | None = None

    def set_topic(self, topic: str) -> Self:
        """Write all records to one topic."""
        self._topic = topic
        return self

    def set_topic_selector(self, topic_selector: Callable[[Any], str] | KafkaTopicSelector) -> Self:
        """Write each record to the topic that a function of it returns.

        Raises:
            TypeError: it is neither a selector nor callable.
        """
        if isinstance(topic_selector, KafkaTopicSelector):
            self._topic = topic_selector.apply
        elif callable(topic_selector):
            self._topic = topic_selector
        else:
            raise TypeError("topic_selector must be KafkaTopicSelector or a callable")
        return self

    def set_key_serialization_schema(self, key_serialization_schema: SerializationSchema) -> Self:
        """Set the schema that makes the key of a record; without it there is none."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(self, value_serialization_schema: SerializationSchema) -> Self:
        """Set the schema that makes the value of a record."""
        self._value = value_serialization_schema
        return self

    def set_key_format(self, key_format: RowWriterFormat) -> Self:
        """Set the format of the keys."""
        self._key = key_format
        return self

    def set_value_format(self, value_format: RowWriterFormat) -> Self:
        """Set the format of the values, as `NdjsonWriterFormat`: whole batches are written by column."""
        self._value = value_format
        return self

    def set_headers(self, headers: Callable[[Any], Sequence[Header] | None]) -> Self:
        """Set a function that returns the headers of a record, names with bytes or None; or None: it has none."""
        self._headers = headers
        return self

    def set_partitioner(self, partitioner: Partitioner) -> Self:
        """Set a function of record, key, value, topic and number of partitions that returns the partition."""
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            ValueError: the topic or the value schema is missing.
        """
        if self._topic is None:
            raise ValueError("set_topic() or set_topic_selector() is missing")
        if self._value is None:
            raise ValueError("set_value_serialization_schema() is missing")
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key, self._headers, self._partitioner)


class KafkaSink(_sink.KafkaSink):
    """Writes topics; see `runtime.connectors.kafka.sink.KafkaSink`."""

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()


class KafkaSinkBuilder:
    """Builds a KafkaSink. Bootstrap servers and a record serializer are needed; exactly once, a prefix as well."""

    def __init__(self) -> None:
        self._properties: dict[str, Text] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = ""
        self._serializer: KafkaRecordSerialization | None = None
        self._more: dict[str, Any] = {}

    def set_bootstrap_servers(self, bootstrap_servers: Text) -> Self:
        """Set the host:port of brokers, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> Self:
        """Set how often a record may be written when the job is restored; the default is NONE."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> Self:
        """Set the beginning of all transactional ids; needed for EXACTLY_ONCE.

        Raises:
            ValueError: it is empty.
        """
        if not transactional_id_prefix:
            raise ValueError("a prefix of transactional ids has at least one character")
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerialization) -> Self:
        """Set how records become records of Kafka."""
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: Text) -> Self:
        """Set a property of the producer."""
        self._properties[key] = value
        return self

    def set_allowed_downtime(self, allowed_downtime: Duration) -> Self:
        """Set how long the job may be down, for which the transaction timeout must leave room."""
        self._more["allowed_downtime"] = allowed_downtime
        return self

    def set_expired_transactions_committed(self, is_so: bool) -> Self:
        """Set whether transactions that the brokers have forgotten count as committed; see the connector's docs."""
        self._more["trusts_expired"] = is_so
        return self

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            ValueError: something is missing, or a property is none of Kafka's.
        """
        if self._serializer is None:
            raise ValueError("set_record_serializer() is missing: how records become records of Kafka")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._prefix:
            raise ValueError("EXACTLY_ONCE needs set_transactional_id_prefix(), one for each sink of a cluster")
        return KafkaSink(self._properties, self._serializer, self._guarantee, self._prefix, **self._more)


if not TYPE_CHECKING:
    __getattr__ = _exclusions.refusing_module(__name__)
