"""KafkaRecordSerialization: what of a record goes into the topic, key, value and headers of a record of Kafka.

Source: Flink, KafkaRecordSerializationSchema and its builder, TopicSelector, KafkaPartitioner, HeaderProvider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from runtime.common.serialization import SerializationSchema
from runtime.common.typeinfo import TypeInformation
from runtime.connectors.formats.messages import MessageEncoder
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.operators.sink import SinkError

Header = tuple[str, bytes | None]
Partitioner = Callable[[Any, bytes | None, bytes | None, str, int], int]
"""Of a record, its key and value as bytes, its topic and the number of partitions of that: the partition, from 0."""


class Messages(NamedTuple):
    """Records of Kafka, by column."""

    topics: Sequence[str] | str
    """One for each record, or that of all."""
    keys: Sequence[bytes | None] | None
    """None: no record has one."""
    values: Sequence[bytes | None]
    times: Sequence[int]
    """Timestamps, epoch ms; 0: that of sending."""
    headers: Sequence[Sequence[Header]] | None
    records: Sequence[Any] | None
    """The records themselves, if a partitioner needs them."""


@dataclass(frozen=True)
class KafkaRecordSerialization:
    """Says how records become records of Kafka.

    Args:
        topic: name of the topic, or a function that returns that of a record.
        value: format or schema of the values. A schema that returns None writes a tombstone.
        key: format or schema of the keys; None: records have none.
        headers: returns the headers of a record: names and bytes, or None.
        partitioner: chooses partitions; None: by hash of the key, as Kafka's Java client does, else any.
    """

    topic: str | Callable[[Any], str]
    value: RowWriterFormat | SerializationSchema
    key: RowWriterFormat | SerializationSchema | None = None
    headers: Callable[[Any], Sequence[Header]] | None = None
    partitioner: Partitioner | None = None

    def encoder(self, input_type: TypeInformation | None) -> RecordEncoder:
        """Return the encoder of one writer.

        Raises:
            SinkError: a format cannot write records of that type.
        """
        return RecordEncoder(self, input_type)


class RecordEncoder:
    """Encodes the records of one writer."""

    def __init__(self, serialization: KafkaRecordSerialization, input_type: TypeInformation | None) -> None:
        self._serialization = serialization
        self._value = MessageEncoder(serialization.value, input_type)
        self._key = None if serialization.key is None else MessageEncoder(serialization.key, input_type)

    def encode(self, batch: RecordBatch) -> Messages:
        """Return the records of Kafka for records.

        Raises:
            SinkError: a record cannot be written, or has no topic.
        """
        how = self._serialization
        needs_records = callable(how.topic) or how.headers is not None or how.partitioner is not None
        records = batch.values() if needs_records else None
        times = batch.timestamps()
        return Messages(
            how.topic if isinstance(how.topic, str) else self._topics(how.topic, records or ()),
            None if self._key is None else self._key.encode(batch),
            self._value.encode(batch),
            [0] * batch.num_rows if times is None else [_timestamp(time) for time in times],
            None if how.headers is None else [how.headers(record) for record in records or ()],
            None if how.partitioner is None else records,
        )

    def _topics(self, select: Callable[[Any], str], records: Sequence[Any]) -> list[str]:
        topics = [select(record) for record in records]
        wrong = next((topic for topic in topics if not isinstance(topic, str) or not topic), None)
        if wrong is not None:
            raise SinkError(f"the topic selector returned {wrong!r:.100}, which is no topic")
        return topics


def _timestamp(time: int) -> int:
    """Return the timestamp of a record with an event time.

    Negative ones are that of sending, as in Flink, which is 0 to librdkafka; the beginning of 1970 itself is one
    millisecond late.
    """
    return max(1, time) if time >= 0 else 0
