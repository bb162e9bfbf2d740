"""Exactly-once records in Kafka: one transaction per subtask and checkpoint, written here and committed from anywhere.

A producer of librdkafka writes a transaction. The snapshot waits until all its records are acknowledged and the
coordinator says that the transaction is open; the completed checkpoint, or whoever restores it, ends it by its id,
producer id and epoch. An id is used again only when the transaction before is known to be committed, by a producer with
another epoch. So what became of a transaction can be asked for: while it was the last one of its id the coordinator
says how it ended. If there was another one since, or somebody has taken its id, the first record that it wrote tells:
readers of committed records see it, or they do not.

The first record is written alone. Only when it is acknowledged, and the coordinator has said when the transaction began
and where, do others follow: one that somebody aborts meanwhile would be begun anew by the next record, and would look
like the same one, had it not begun later.
Source: Kafka, KIP-98, KIP-360; Flink, ExactlyOnceKafkaWriter and KafkaCommitter, which drops what it cannot commit.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from runtime.common import options
from runtime.common.configuration import Configuration
from runtime.common.time import Duration
from runtime.connectors.background import BackgroundCall, BackgroundWriter
from runtime.connectors.kafka.admin import Admin
from runtime.connectors.kafka.coordinator import PATIENCE_S, CoordinatorError, Described, TransactionCoordinator
from runtime.connectors.kafka.offsets import EARLIEST, LATEST, KafkaTopicPartition, OffsetClient
from runtime.connectors.kafka.producer import INTERRUPTED, BatchLimit, RecordProducer
from runtime.connectors.kafka.properties import Properties, admin_properties, client_properties
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.core.batch import RecordBatch
from runtime.operators.sink import (
    CommitTally,
    Committer,
    SinkError,
    SinkSetupError,
    SinkWriter,
    SnapshotUnusableError,
    Sweeper,
    WriterContext,
)
from runtime.operators.two_phase_commit import Leftovers, TransactionId, transaction_prefix

logger = logging.getLogger(__name__)

BEGIN_S: Final = 60.0
"""Time limit for beginning a transaction: brokers that start load their coordinators first."""
DEFAULT_TIMEOUT_MS: Final = 900_000
"""Of a transaction, where neither the job nor the brokers say one: the longest that brokers allow by default."""
CLOSE_S: Final = 2.0
"""Time limit for aborting what a task leaves open when it ends."""
BEGIN_STEP_S: Final = 1.0
"""Time until it is noticed that the transaction is not wanted any more."""
ASK_S: Final = 5.0
"""Time that a broker has for an answer that any other one can give, too."""
_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
_TIMEOUT: Final = "transaction.timeout.ms"
#: beginnings of the properties of a client that reads
_OF_READERS: Final = (
    *("bootstrap.", "broker.", "client.", "enable.ssl", "log_level", "metadata.", "reconnect.", "sasl.", "security."),
    *("socket.", "ssl."),
)
_COMMITTED: Final = ("PrepareCommit", "CompleteCommit")


@dataclass(frozen=True, slots=True)
class TransactionTarget:
    """Cluster that transactions write to."""

    properties: Properties
    prefix: str
    timeout_ms: int | None
    """Of a transaction; None: the longest that the brokers allow."""
    allowed_downtime: Duration
    trusts_expired: bool

    def coordinator(self, patience_s: float = PATIENCE_S) -> TransactionCoordinator:
        """Return the way to the coordinators; it connects when it is used."""
        return TransactionCoordinator(admin_properties(self.properties), patience_s)

    def prefixed(self, transaction: TransactionId | str) -> str:
        """Return a transactional id."""
        return f"{self.prefix}-{transaction}" if self.prefix else str(transaction)

    def without_prefix(self, transactional_id: str) -> str:
        """Return the text of a TransactionId of a transactional id."""
        return transactional_id.removeprefix(f"{self.prefix}-") if self.prefix else transactional_id

    def max_timeout_ms(self) -> int | None:
        """Return the longest transaction timeout that the brokers allow; None: they do not say so to this client.

        Raises:
            SinkError: they do not answer.
        """
        admin = Admin(client_properties(self.properties))
        until = time.monotonic() + BEGIN_S
        try:
            brokers = sorted(admin.topics(BEGIN_S).brokers)
            # one that is gone is known for some seconds, and does not answer
            for broker in itertools.cycle(brokers):
                resource = ConfigResource(ResourceType.BROKER, str(broker))
                [answer] = admin.client.describe_configs([resource], request_timeout=ASK_S).values()
                try:
                    entry = answer.result(BEGIN_S).get(_MAX_TIMEOUT)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError._TIMED_OUT or time.monotonic() > until:
                        raise
                else:
                    return None if entry is None or entry.value is None else int(entry.value)
            raise SinkError("Kafka: there are no brokers")
        except KafkaException as error:
            if error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                return None
            raise SinkError(f"Kafka: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise SinkError(f"Kafka: the brokers have not answered within {BEGIN_S:g} s") from error

    def is_visible(self, topic: str, partition: int, offset: int) -> bool | None:
        """Return whether readers of committed records see a record; None: nobody can say, since the record is not there
        any more, or a transaction that has begun before it is open.

        Raises:
            SinkError: the brokers do not answer.
        """
        place = KafkaTopicPartition(topic, partition)
        try:
            client = OffsetClient(client_properties(self.properties), is_committed_only=True)
            first, end = client.listed([place], EARLIEST)[place], client.listed([place], LATEST)[place]
        except (KafkaException, TimeoutError) as error:
            raise SinkError(f"Kafka topic {topic}: {error}") from error
        at = TopicPartition(topic, partition, offset)
        # beyond its end a reader would wait
        if not first <= offset < end or self._next_record(at, "read_uncommitted") != (offset, True):
            return None
        return self._next_record(at, "read_committed") == (offset, True)

    def _next_record(self, at: TopicPartition, isolation: str) -> tuple[int, bool]:
        """Return the offset of the first record at or behind an offset, and True; or the end of the partition, and
        False.
        """
        given = client_properties(self.properties)
        settings: dict[str, Any] = {name: value for name, value in given.items() if name.startswith(_OF_READERS)}
        settings |= {"group.id": "tidemark", "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "error"})
        try:
            consumer.assign([at])
            message = consumer.poll(BEGIN_S)
            if message is None:
                raise SinkError(f"Kafka topic {at.topic}: the brokers have not answered within {BEGIN_S:g} s")
            error, offset = message.error(), message.offset() or 0
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return offset, error is None
            raise SinkError(f"Kafka topic {at.topic}: {error.str()}")
        except KafkaException as failure:
            raise SinkError(f"Kafka topic {at.topic}: {failure.args[0].str()}") from failure
        finally:
            consumer.close()


def check_timeout(
    timeout_ms: int, longest_ms: int | None, allowed_downtime: Duration, configuration: Configuration
) -> None:
    """Refuse a timeout that the brokers do not allow, or that might end a transaction of a completed checkpoint.

    Args:
        timeout_ms: of transactions.
        longest_ms: that the brokers allow; None: it is not known.
        allowed_downtime: of the job.
        configuration: of the job.

    Raises:
        SinkSetupError: it is too long or too short; the message says what to set.
    """
    if longest_ms is not None and timeout_ms > longest_ms:
        raise SinkSetupError(
            f"Kafka: {_TIMEOUT} is {timeout_ms} ms, and the brokers allow {longest_ms} ms ({_MAX_TIMEOUT}); "
            "make one of them fit the other"
        )
    interval = configuration.get(options.CHECKPOINTING_INTERVAL)
    parts = {
        "the checkpoint interval": 0 if interval is None else interval.to_millis(),
        "the checkpoint timeout": configuration.get(options.CHECKPOINTING_TIMEOUT).to_millis(),
        "the allowed downtime": allowed_downtime.to_millis(),
    }
    if timeout_ms <= sum(parts.values()):
        listed = " + ".join(f"{name} ({ms / 1000:g} s)" for name, ms in parts.items())
        raise SinkSetupError(
            f"Kafka: transactions would time out after {timeout_ms / 1000:g} s ({_TIMEOUT}), which may be before they "
            f"are committed: it must be longer than {listed}"
        )


class TransactionalWriter(SinkWriter):
    """Writes transactions. Its committables are {"id", "producer_id", "epoch", "start_ms", "timeout_ms"}."""

    def __init__(
        self, target: TransactionTarget, serialization: KafkaRecordSerialization, context: WriterContext
    ) -> None:
        self._target = target
        self._context = context
        self._partitioner = serialization.partitioner
        self._encoder = serialization.encoder(context.input_type)
        self._limit = BatchLimit(client_properties(target.properties), serialization.topic)
        longest_ms = target.max_timeout_ms()
        self._timeout_ms = target.timeout_ms or longest_ms or DEFAULT_TIMEOUT_MS
        check_timeout(self._timeout_ms, longest_ms, target.allowed_downtime, context.configuration)
        if context.configuration.get(options.CHECKPOINTING_INTERVAL) is None:
            logger.warning(
                "Kafka: the job takes no checkpoints, so records are committed at its end, and lost if it has none: "
                "set execution.checkpointing.interval"
            )
        self._coordinator = target.coordinator()
        #: a task that ends does not wait long
        self._closing = target.coordinator(patience_s=CLOSE_S)
        #: numbers whose transactions are committed
        self._free: list[int] = []
        self._used = 0
        #: of transactions that are prepared, or being written: transactional id → number
        self._numbers: dict[str, int] = {}
        #: that records go to; None until there is a first record
        self._id: str | None = None
        self._producer: RecordProducer | None = None
        #: whose transaction was prepared last
        self._flushing: RecordProducer | None = None
        #: what is known of it since its first record; None: it has none
        self._begun: Described | None = None
        self._first: tuple[str, int, int] | None = None
        self._next: BackgroundCall[tuple[str, RecordProducer]] | None = None
        #: prepared at the end of the input, so in no snapshot yet
        self._unheld: list[dict[str, Any]] = []
        self._has_ended = False
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._begin_next()
        self._writer = BackgroundWriter("kafka-transactions", self._write_all)

    def write(self, batch: RecordBatch) -> None:
        if batch.num_rows:
            self._writer.submit(batch)

    def is_available(self) -> bool:
        return self._writer.is_available()

    def flush(self, end_of_input: bool) -> None:
        self._has_ended = end_of_input
        self._writer.drain()

    def prepare_commit(self) -> Sequence[Any]:
        producer, begun = self._producer, self._begun
        self._flushing, self._producer, self._id, self._begun = producer, None, None, None
        if producer is None or begun is None:
            return ()
        producer.flush(partial(self._check_not_ended, begun.transactional_id))
        found = self._described(begun.transactional_id)
        if (found.producer_id, found.epoch, found.start_ms) != (begun.producer_id, begun.epoch, begun.start_ms):
            raise SinkError(
                f"Kafka: transaction {begun.transactional_id} was ended by somebody while it was written and begun anew"
            )
        committable = {
            "id": found.transactional_id,
            "producer_id": found.producer_id,
            "epoch": found.epoch,
            "start_ms": found.start_ms,
            "timeout_ms": found.timeout_ms,
            "first": self._first,
        }
        if self._has_ended:
            self._unheld.append(committable)
        return [committable]

    def _check_not_ended(self, name: str) -> None:
        """Raise if somebody has ended a transaction: its records are never acknowledged, and the client waits for that.

        Raises:
            SinkError: it is so, or its coordinator does not answer.
        """
        try:
            found = self._coordinator.describe(name)
        except CoordinatorError as error:
            raise SinkError(f"Kafka: {error}") from error
        if found is not None and found.state not in ("Empty", "Ongoing"):
            raise SinkError(f"Kafka: transaction {name} was ended while it was written: it is {found.state}")

    def _described(self, name: str) -> Described:
        """Return what is known of an open transaction.

        Raises:
            SinkError: it is not open, or its coordinator does not answer.
        """
        try:
            found = self._coordinator.describe(name)
        except CoordinatorError as error:
            raise SinkError(f"Kafka: {error}") from error
        if found is None or not found.is_ongoing:
            state = "is not known" if found is None else f"is {found.state}"
            raise SinkError(f"Kafka: transaction {name} {state} to its coordinator, and not open any more")
        return found

    def snapshot_state(self) -> Sequence[Any]:
        self._unheld = []
        return ()

    def committed(self, committables: Sequence[Any]) -> None:
        self._unheld = []
        with self._lock:
            self._free += [self._numbers.pop(item["id"]) for item in committables if item["id"] in self._numbers]

    def interrupt(self) -> None:
        self._is_closed.set()
        self._coordinator.stop.set()
        for producer in (self._producer, self._flushing):
            if producer is not None:
                producer.interrupt()
        self._writer.interrupt(SinkError(INTERRUPTED))

    def close(self) -> None:
        self._is_closed.set()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stop.set()
        self._writer.close()
        # what this does not reach is left to the next attempt
        if producer is not None:
            producer.close()
            with suppress(KafkaException):
                producer.client.abort_transaction(CLOSE_S)
        unheld, self._unheld = self._unheld, []
        with suppress(CoordinatorError):
            for item in unheld:
                self._closing.end(item["id"], item["producer_id"], item["epoch"], commit=False)
        self._coordinator.close()
        self._closing.close()

    # --- on the writer's thread ---------------------------------------------------------------------------------------

    def _write_all(self, batches: list[RecordBatch]) -> None:
        if self._producer is None:
            assert self._next is not None
            try:
                self._id, self._producer = self._next.result()
            except KafkaException as error:
                raise SinkError(f"Kafka: a transaction cannot be begun: {error.args[0].str()}") from error
            self._begin_next()
        for batch in batches:
            messages = self._encoder.encode(batch)
            written = 0
            if self._begun is None:
                assert self._id is not None
                name, written = self._id, 1
                self._producer.send(messages, 0, written)
                self._producer.flush(partial(self._check_not_ended, name))
                self._note_beginning(self._described(name))
            self._producer.send(messages, written)

    def _note_beginning(self, begun: Described) -> None:
        [partition] = begun.partitions
        try:
            offset = self._coordinator.start_offset(partition, begun.producer_id)
        except CoordinatorError as error:
            raise SinkError(f"Kafka: {error}") from error
        topic, _, number = partition.rpartition("-")
        # -1: the leader of the partition does not know any more, or not yet
        self._begun, self._first = begun, None if offset < 0 else (topic, int(number), offset)

    def _begin_next(self) -> None:
        """Begin the transaction behind the present one, on another thread: it takes a few answers of the brokers."""
        with self._lock:
            if self._free:
                number = self._free.pop(0)
            else:
                self._used += 1
                # several writers of a subtask follow each other within an attempt, one for each batch
                number = self._context.pass_number * _TRANSACTIONS_OF_A_PASS + self._used
            context = self._context
            name = self._target.prefixed(
                TransactionId(
                    context.origin_job_id,
                    context.operator_id,
                    context.job_id,
                    context.attempt,
                    context.subtask_index,
                    number,
                )
            )
            self._numbers[name] = number
        self._next = BackgroundCall("kafka-begin", lambda: (name, self._begin(name)))

    def _begin(self, name: str) -> RecordProducer:
        properties = client_properties(self._target.properties)
        properties |= {"transactional.id": name, _TIMEOUT: str(self._timeout_ms)}
        when_fatal = (
            f"its transaction may have timed out after {self._timeout_ms / 1000:g} s ({_TIMEOUT}) before a checkpoint "
            "was complete, or somebody has ended it"
        )
        producer = RecordProducer(properties | self._limit.settings(), self._partitioner, when_fatal)
        until = time.monotonic() + BEGIN_S
        while True:
            try:
                producer.client.init_transactions(BEGIN_STEP_S)
                break
            except KafkaException as error:
                if not error.args[0].retriable() or self._is_closed.is_set() or time.monotonic() > until:
                    raise
        producer.client.begin_transaction()
        return producer


_TRANSACTIONS_OF_A_PASS: Final = 1 << 20


class TransactionCommitter(Committer):
    """Commits prepared transactions."""

    def __init__(self, target: TransactionTarget) -> None:
        self._target = target
        self._coordinator: TransactionCoordinator | None = None

    def commit(self, committables: Sequence[Any]) -> CommitTally:
        already_committed = 0
        for item in committables:
            already_committed += not self._commit(item)
        return CommitTally(already_committed)

    def check(self, committables: Sequence[Any]) -> None:
        for item in committables:
            found = self._describe(item)
            if found is None or not _is_open(found, item):
                self._check_committed(found, item)

    def close(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()

    def _commit(self, item: Any) -> bool:
        """Commit a transaction; returns whether it was open."""
        try:
            if self._connected().end(item["id"], item["producer_id"], item["epoch"], commit=True):
                return True
        except CoordinatorError as error:
            raise SinkError(f"Kafka: transaction {item['id']}: {error}") from error
        self._check_committed(self._describe(item), item)
        return False

    def _connected(self) -> TransactionCoordinator:
        if self._coordinator is None:
            self._coordinator = self._target.coordinator()
        return self._coordinator

    def _describe(self, item: Any) -> Described | None:
        try:
            return self._connected().describe(item["id"])
        except CoordinatorError as error:
            raise SinkError(f"Kafka: transaction {item['id']}: {error}") from error

    def _check_committed(self, found: Described | None, item: Any) -> None:
        """Check that a transaction which is not open was committed.

        Raises:
            SinkError: that cannot be said yet.
            SnapshotUnusableError: it was not, or nobody knows.
        """
        name = item["id"]
        if found is None or found.state == "Dead":
            if self._target.trusts_expired:
                logger.warning("Kafka: transaction %s is not known any more, and taken for committed", name)
                return
            raise SnapshotUnusableError(
                f"Kafka: transaction {name} is not known to the brokers any more; they forget ids after seven days "
                "without use, and nobody can say whether it was committed. If the job ran on behind this snapshot it "
                "was: set_expired_transactions_committed(True) of the sink's builder restores it"
            )
        if _is_open(found, item):
            raise SinkError(f"Kafka: transaction {name} is open, and cannot be committed at the moment")
        is_lost = was_aborted(found, item)
        if not is_lost and not is_same(found, item) and item.get("first") is not None:
            is_lost = self._target.is_visible(*item["first"]) is False
        if is_lost:
            raise SnapshotUnusableError(
                f"Kafka: transaction {name} was aborted: it timed out after {item['timeout_ms'] / 1000:g} s, or "
                f"somebody has ended it; its records are lost. A job that may be down longer needs a longer {_TIMEOUT}"
            )


def is_same(found: Described, item: Any) -> bool:
    """Return whether the last transaction of an id is a prepared one: it has begun at the same time. Its epoch may be
    one more, if it timed out: the coordinator fences its producer.
    """
    return (found.producer_id, found.start_ms) == (item["producer_id"], item["start_ms"])


def _is_open(found: Described, item: Any) -> bool:
    return found.is_ongoing and is_same(found, item) and found.epoch == item["epoch"]


def was_aborted(found: Described, item: Any) -> bool:
    """Return whether a prepared transaction that is not open was aborted, as its coordinator says, or will be."""
    return is_same(found, item) and found.state not in _COMMITTED


class TransactionSweeper(Sweeper):
    """Aborts what older attempts have left open.

    One whose process was frozen may begin another transaction: that is aborted later, and nobody who reads committed
    records sees any of it.
    """

    def __init__(self, target: TransactionTarget, context: WriterContext) -> None:
        self._target = target
        self._context = context
        self._leftovers = Leftovers(context)
        self._coordinator: TransactionCoordinator | None = None

    def sweep(self, held: Sequence[Any]) -> None:
        if self._coordinator is None:
            self._coordinator = self._target.coordinator()
        target, context = self._target, self._context
        prefix = target.prefixed(transaction_prefix(context.origin_job_id, context.operator_id))
        spared = {target.without_prefix(item["id"]): (item["producer_id"], item["epoch"]) for item in held}
        try:
            found = {
                target.without_prefix(name): self._coordinator.describe(name) for name in self._coordinator.ids(prefix)
            }
            open_ones = {text: each for text, each in found.items() if each is not None and each.is_ongoing}
            # one with another epoch is not the one that is held, which is committed: its id was used again
            still_held = {
                text
                for text, whose in spared.items()
                if text not in open_ones or (open_ones[text].producer_id, open_ones[text].epoch) == whose
            }
            for text in self._leftovers.among(open_ones, still_held):
                left = open_ones[text]
                logger.info("Kafka: transaction %s of an earlier attempt is aborted", left.transactional_id)
                # one that has ended meanwhile, or was begun anew, is looked at again
                self._coordinator.end(left.transactional_id, left.producer_id, left.epoch, commit=False)
        except CoordinatorError as error:
            raise SinkError(f"Kafka: {error}") from error
        self._leftovers.predecessors.seal()

    def close(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
