"""KafkaSink: records into topics: once and no more than that, at least once, or exactly once in transactions.

A thread encodes records and hands them to librdkafka. At least once, a snapshot waits until all are acknowledged; what
was written behind it is written again after a restart. Exactly once, see `transactions`.
Source: Flink, KafkaSink and its KafkaWriter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from runtime.common.time import Duration
from runtime.connectors.background import BackgroundWriter
from runtime.connectors.kafka.producer import INTERRUPTED, BatchLimit, RecordProducer
from runtime.connectors.kafka.properties import (
    Properties,
    PropertyError,
    check_producer,
    client_properties,
    switch,
    whole_number,
    with_references,
    without_gaps,
)
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.transactions import (
    TransactionalWriter,
    TransactionCommitter,
    TransactionSweeper,
    TransactionTarget,
)
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    Committer,
    DeliveryGuarantee,
    Sink,
    SinkError,
    SinkSetupError,
    SinkWriter,
    Sweeper,
    WriterContext,
)

ALLOWED_DOWNTIME: Final = Duration.of_minutes(2)
"""Time that a job may be down before it commits what it has prepared. With the default checkpoint timeout (10 min),
much more needs a transaction timeout above the 15 min that brokers allow by default."""
_TIMEOUT: Final = "transaction.timeout.ms"


class KafkaSink(Sink):
    """Writes records.

    Args:
        properties: of a producer, with Kafka's names; `bootstrap.servers` is needed. Values may be secrets.
        serialization: how records become records of Kafka.
        delivery_guarantee: NONE, Flink's default: a snapshot waits for nothing.
        transactional_id_prefix: EXACTLY_ONCE: begins the ids of all transactions; brokers may grant rights by it.
        allowed_downtime: EXACTLY_ONCE: how long the job may be down; the transaction timeout must leave room for it.
        trusts_expired: EXACTLY_ONCE: whether transactions that the brokers do not know any more (they forget ids after
            seven days without use) count as committed when a snapshot that holds them is restored; otherwise it is
            refused.

    Raises:
        PropertyError: a property is none of Kafka's.
    """

    state_format = "transactions of Kafka"

    def __init__(
        self,
        properties: Properties,
        serialization: KafkaRecordSerialization,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE,
        transactional_id_prefix: str = "",
        allowed_downtime: Duration = ALLOWED_DOWNTIME,
        trusts_expired: bool = False,
    ) -> None:
        properties = with_references(properties)
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise PropertyError(f"a delivery guarantee is one of DeliveryGuarantee's, not {delivery_guarantee!r}")
        if "transactional.id" in properties:
            raise PropertyError("transactional.id: each transaction has an id of its own; give a prefix of all of them")
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE and not without_gaps(properties)["enable.idempotence"]:
            raise PropertyError(
                "transactions need acks=all, retries and at most 5 max.in.flight.requests.per.connection: leave out "
                "what rules them out"
            )
        if delivery_guarantee is not DeliveryGuarantee.NONE and str(properties.get("acks", "all")) == "0":
            raise PropertyError("with acks=0 brokers acknowledge nothing, and a record may be lost: give acks=all")
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE and not switch(
            properties, "enable.idempotence", default=True
        ):
            raise PropertyError("transactions are written idempotently: leave out enable.idempotence=false")
        check_producer(properties)
        self.properties = dict(properties)
        self.serialization = serialization
        self.delivery_guarantee = delivery_guarantee
        self.transactional_id_prefix = transactional_id_prefix
        self.allowed_downtime = allowed_downtime
        self.trusts_expired = trusts_expired
        self._timeout_ms = whole_number(properties, _TIMEOUT, 0) if _TIMEOUT in properties else None

    @property
    def _is_transactional(self) -> bool:
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def _target(self) -> TransactionTarget:
        return TransactionTarget(
            self.properties, self.transactional_id_prefix, self._timeout_ms, self.allowed_downtime, self.trusts_expired
        )

    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        if self._is_transactional:
            return TransactionalWriter(self._target, self.serialization, context)
        return _RecordWriter(self, context)

    def keeps_state(self) -> bool:
        return self._is_transactional

    def create_committer(self) -> Committer | None:
        # also at least once: a snapshot may hold transactions, which were written exactly once. Without any it does not
        # connect
        return TransactionCommitter(self._target)

    def create_sweeper(self, context: WriterContext) -> Sweeper | None:
        return TransactionSweeper(self._target, context) if self._is_transactional or context.held else None


class _RecordWriter(SinkWriter):
    def __init__(self, sink: KafkaSink, context: WriterContext) -> None:
        self._flushes = sink.delivery_guarantee is not DeliveryGuarantee.NONE
        self._encoder = sink.serialization.encoder(context.input_type)
        self._partitioner = sink.serialization.partitioner
        self._properties = client_properties(sink.properties)
        self._limit: BatchLimit | None = BatchLimit(self._properties, sink.serialization.topic)
        try:
            self._producer = RecordProducer(self._properties, self._partitioner)
        except (KafkaException, PropertyError) as error:
            raise SinkSetupError(f"Kafka: {error}") from error
        self._writer = BackgroundWriter("kafka-sink", self._write_all)

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            self._writer.submit(batch)

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        if self._flushes or end_of_input:
            self._writer.drain()
            self._producer.flush()

    def interrupt(self) -> None:
        self._producer.interrupt()
        self._writer.interrupt(SinkError(INTERRUPTED))

    def close(self) -> None:
        self._producer.close()
        self._writer.close()

    def _write_all(self, batches: list[RecordBatch]) -> None:
        if self._limit is not None:
            self._limit_batches(self._limit.settings())
            self._limit = None
        for batch in batches:
            self._producer.send(self._encoder.encode(batch))

    def _limit_batches(self, settings: Mapping[str, Any]) -> None:
        """Take another producer, should the first one's batches be too large for the topic."""
        if settings:
            unlimited, self._producer = (
                self._producer,
                RecordProducer({**self._properties, **settings}, self._partitioner),
            )
            if unlimited.stop.is_set():
                self._producer.interrupt()
            unlimited.close()
