"""RecordProducer: hands records to librdkafka, in order, and says what has become of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from runtime.connectors.kafka.admin import Admin
from runtime.connectors.kafka.properties import without_gaps
from runtime.connectors.kafka.serialization import Messages, Partitioner
from runtime.operators.sink import SinkError

FULL_WAIT_S: Final = 0.05
"""Wait for room in the producer's queue, before the next look at what has become of it."""
FLUSH_WAIT_S: Final = 0.5
METADATA_S: Final = 30.0
"""Time limit for learning how many partitions a topic has."""

LIMIT_S: Final = 5.0
"""Time limit for learning how large batches may be; without an answer they are as large as ever."""
_BATCH_BYTES: Final = 1_000_000
"""librdkafka's batch.size."""

INTERRUPTED: Final = "Kafka: the task was cancelled while it waited for the brokers"

_DEFAULTS: Final[Mapping[str, Any]] = {
    # as Kafka's Java client does: a key is in the same partition whoever writes it
    "partitioner": "murmur2_random",
}
_ALWAYS: Final[Mapping[str, Any]] = {"delivery.report.only.error": True}


class BatchLimit:
    """Keeps batches of records within what their topic takes. Any thread.

    librdkafka sends up to 1 MB of a partition's records at once, where Java's client sends 16 KB, and does not part a
    batch that is refused: a topic for small records would take none. Small batches for all cost half the throughput.

    Args:
        properties: of the producer.
        topic: of the records; not a text: they have several, and batches are as large as ever.
    """

    def __init__(self, properties: Mapping[str, Any], topic: object) -> None:
        self._properties = properties
        self._topic = topic if isinstance(topic, str) and "batch.size" not in properties else None
        self._lock = threading.Lock()
        self._found: dict[str, Any] | None = None

    def settings(self) -> dict[str, Any]:
        """Return the properties of a producer; asks the brokers once, for up to `LIMIT_S`."""
        with self._lock:
            if self._found is None:
                self._found = {} if self._topic is None else self._asked(self._topic)
            return dict(self._found)

    def _asked(self, topic: str) -> dict[str, Any]:
        most = Admin(self._properties).max_message_bytes(topic, LIMIT_S)
        # what a batch has beside its records counts, too
        return {} if most is None or most * 9 // 10 >= _BATCH_BYTES else {"batch.size": max(1, most * 9 // 10)}


class RecordProducer:
    """A producer. Used by one thread at a time.

    Args:
        properties: of the producer.
        partitioner: chooses partitions; None: librdkafka does.
        when_fatal: what may have happened if the producer can write nothing more.
    """

    def __init__(
        self, properties: Mapping[str, Any], partitioner: Partitioner | None = None, when_fatal: str = ""
    ) -> None:
        self._partitioner = partitioner
        self._when_fatal = when_fatal
        self._partitions: dict[str, int] = {}
        self._error: SinkError | None = None
        #: set when what it has is not wanted any more
        self.stop = threading.Event()
        settings = {**_DEFAULTS, **without_gaps(properties), **properties, **_ALWAYS}
        settings |= {"on_delivery": self._on_delivery, "error_cb": self._on_error}
        self.client = Producer(settings)

    def send(self, messages: Messages, start: int = 0, stop: int | None = None) -> None:
        """Queue records; waits while the queue is full.

        Args:
            messages: the records.
            start: index of the first of them.
            stop: index behind the last of them; None: to the end.

        Raises:
            SinkError: one of them, or of those before, cannot be written.
        """
        self.check()
        topics, keys, values, times, headers, records = messages
        produce = self.client.produce
        for index in range(start, len(values) if stop is None else stop):
            value = values[index]
            topic = topics if isinstance(topics, str) else topics[index]
            key = None if keys is None else keys[index]
            more: dict[str, Any] = {}
            if headers is not None:
                more["headers"] = list(headers[index])
            if self._partitioner is not None and records is not None:
                more["partition"] = self._partition(self._partitioner, records[index], key, value, topic)
            while True:
                try:
                    produce(topic, value, key, timestamp=times[index], **more)
                    break
                except BufferError:
                    if self.stop.is_set():
                        return
                    self._serve(FULL_WAIT_S)
                except KafkaException as error:
                    # of what is fatal, it tells the reason to a callback
                    self._serve(0)
                    told = f"{self._told(error.args[0])}{_remedy(error.args[0], value, times[index])}"
                    raise SinkError(f"Kafka topic {topic}: {told}") from error
        self._serve(0)

    def flush(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Wait until all records are acknowledged.

        Args:
            meanwhile: called from time to time; may raise a SinkError.

        Raises:
            SinkError: one of them is not written.
        """
        while self._serve(FLUSH_WAIT_S, is_flush=True) and not self.stop.is_set():
            if meanwhile is not None:
                meanwhile()

    def _serve(self, wait_s: float, *, is_flush: bool = False) -> int:
        """Hear what has become of records; return how many are not acknowledged, if that is asked for.

        Raises:
            SinkError: one of them is not written.
        """
        try:
            left: int = self.client.flush(wait_s) if is_flush else self.client.poll(wait_s)
        except KafkaException as error:
            # what is fatal it raises, too
            self._on_error(error.args[0])
            self.check()
            raise SinkError(f"Kafka: {self._told(error.args[0])}") from error
        self.check()
        return left

    def check(self) -> None:
        """Raise what has become known of records that were not written.

        Raises:
            SinkError: one of them is not written.
        """
        if self._error is not None:
            raise self._error

    def _partition(self, choose: Partitioner, record: Any, key: bytes | None, value: bytes | None, topic: str) -> int:
        number = self._partitions.get(topic)
        if number is None:
            try:
                number = len(self.client.list_topics(topic, METADATA_S).topics[topic].partitions)
            except KafkaException as error:
                raise SinkError(f"Kafka topic {topic}: {error.args[0].str()}") from error
            self._partitions[topic] = number
        chosen = choose(record, key, value, topic, number)
        if not 0 <= chosen < number:
            raise SinkError(f"Kafka topic {topic}: the partitioner returned {chosen!r}; there are {number} partitions")
        return chosen

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._error is None and error.code() != KafkaError._PURGE_QUEUE:
            remedy = _remedy(error, message.value(), message.timestamp()[1])
            self._error = SinkError(f"Kafka topic {message.topic()}: {self._told(error)}{remedy}")

    def _told(self, error: KafkaError) -> str:
        is_fatal = error.fatal() or error.code() in (KafkaError._FATAL, KafkaError._FENCED)
        return f"{error.str()}; {self._when_fatal}" if is_fatal and self._when_fatal else error.str()

    def _on_error(self, error: KafkaError) -> None:
        # the client goes on trying whatever else there is, until a record's time is over
        if self._error is None and (error.fatal() or error.code() == KafkaError._AUTHENTICATION):
            self._error = SinkError(f"Kafka: {self._told(error)}")

    def interrupt(self) -> None:
        """Have calls end soon, with an error. Any thread."""
        self._error = self._error or SinkError(INTERRUPTED)
        self.stop.set()

    def close(self) -> None:
        """Give up what was not sent, without waiting; a transaction stays as it is. Idempotent."""
        self.stop.set()
        self.client.purge()
        self.client.poll(0)


def _remedy(error: KafkaError, value: str | bytes | None, time: int) -> str:
    """Return what can be done about a record that was refused."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return (
            f" ({len(value or b'')} bytes, or those that were sent with it): max.request.size of the sink and "
            "max.message.bytes of the topic say how large a record may be, and batch.size how many are sent at once"
        )
    if error.code() == KafkaError.INVALID_TIMESTAMP:
        return (
            f" (epoch ms {time}): the topic takes no records so far from the present; see its "
            "message.timestamp.after.max.ms and message.timestamp.before.max.ms"
        )
    return ""
