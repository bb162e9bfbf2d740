"""KafkaRecordSerialization: what of a record goes into the topic, key, value and headers of a record of Kafka.

`KeyColumns` and `KeyText` make keys of a row's columns, as Flink's SQL does by `key.fields`.

Source: Flink, KafkaRecordSerializationSchema and its builder, TopicSelector, KafkaPartitioner, HeaderProvider.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from runtime.common.serialization import SerializationSchema
from runtime.common.typeinfo import RowTypeInfo, TypeInformation
from runtime.connectors.formats.json.ndjson import NdjsonWriterFormat
from runtime.connectors.formats.messages import MessageEncoder
from runtime.connectors.formats.writer_format import RowWriterFormat
from runtime.core.batch import RecordBatch
from runtime.core.elements import MAX_WATERMARK
from runtime.operators.sink import SinkError

Header = tuple[str, bytes | None]
Partitioner = Callable[[Any, bytes | None, bytes | None, str, int], int]
"""Of a record, its key and value as bytes, its topic and the number of partitions of that: the partition, from 0."""


class KeyColumns(RowWriterFormat):
    """Writes some columns of a row as an object of JSON.

    Args:
        columns: their names.
    """

    def __init__(self, *columns: str) -> None:
        if not columns:
            raise ValueError("a key has at least one column")
        self._columns = columns

    def check(self, input_type: TypeInformation | None) -> None:
        _check_columns(self._columns, input_type)

    def render(self, batch: RecordBatch, input_type: TypeInformation | None) -> bytes:
        names = self._columns
        keys = [{name: row[name] for name in names} for row in batch.values()]
        return NdjsonWriterFormat().render(RecordBatch.of_values(keys), None)


class KeyText(SerializationSchema):
    """Writes one column of a row as text; a row whose column is null has no key.

    Args:
        column: its name.
    """

    def __init__(self, column: str) -> None:
        self._column = column

    def serialize(self, value: Any) -> bytes | None:  # type: ignore[override]
        text = value[self._column]
        return None if text is None else str(text).encode()


def _check_columns(columns: Sequence[str], input_type: TypeInformation | None) -> None:
    names = input_type.get_field_names() if isinstance(input_type, RowTypeInfo) else []
    missing = [name for name in columns if name not in names]
    if missing:
        raise SinkError(f"the key's column {missing[0]!r} is not in the records, which are {input_type}")


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
        headers: returns the headers of a record, names with bytes or None; None: it has none.
        partitioner: chooses partitions; None: by hash of the key, as Kafka's Java client does, else any.
    """

    topic: str | Callable[[Any], str]
    value: RowWriterFormat | SerializationSchema
    key: RowWriterFormat | SerializationSchema | None = None
    headers: Callable[[Any], Sequence[Header] | None] | None = None
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
            None if how.headers is None else [how.headers(record) or () for record in records or ()],
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

    Negative ones are that of sending, as in Flink, which is 0 to librdkafka; so is the end of time, which results of
    windows without an end have, and which brokers refuse. The beginning of 1970 itself is one millisecond late.
    """
    return max(1, time) if 0 <= time < MAX_WATERMARK else 0
