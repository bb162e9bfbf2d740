"""TransactionCoordinator: ends, describes and lists transactions that other processes have begun.

Any client may end a transaction that names its id, its producer id and its epoch. Up to version 4 of EndTxn the epoch
stays as it is, so that a request whose answer was lost can be repeated, and what became of a transaction can be asked
for afterwards. kafka-python offers no call for ending one, but has all its messages.
Source: Kafka, KIP-98, KIP-664 (describe, list), KIP-890 (version 5 of EndTxn).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import kafka.errors as errors
from kafka.admin import KafkaAdminClient
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer.transaction import EndTxnRequest
from kafka.structs import TopicPartition

T = TypeVar("T")

# it tells of each connection, and of each that cannot be made while a broker restarts; what it raises says enough
logging.getLogger("kafka").setLevel(logging.CRITICAL)

PATIENCE_S: Final = 60.0
"""Time for which is asked again while coordinators move, load or do not answer. Shorter: a broker that restarts fails
the job; longer: a task, or the job's commit, waits for one that is gone."""
PAUSE_S: Final = 0.05
_TIMES: Final = {"bootstrap_timeout_ms": 5_000, "request_timeout_ms": 10_000, "reconnect_backoff_max_ms": 500}
END_TXN_VERSION: Final = 3
"""The last but one that leaves the epoch as it is, and the one of Kafka 2.8 and later."""

#: the coordinator is not known, is moving or is at it still
_PASSING: Final = errors.RetriableError
#: it does not have the transaction of that producer and epoch open
_NOT_THAT_ONE: Final = (
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
    errors.InvalidProducerIdMappingError,
    errors.InvalidTxnStateError,
)


class CoordinatorError(Exception):
    """The brokers refuse, or did not answer for too long."""


@dataclass(frozen=True, slots=True)
class Described:
    """State of a transactional id, as its coordinator knows it."""

    transactional_id: str
    state: str
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort or Dead; see KIP-664."""
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[str, ...]

    @property
    def is_ongoing(self) -> bool:
        return self.state == "Ongoing"


class TransactionCoordinator:
    """Connects when there is something to ask. Used by one thread at a time.

    Args:
        properties: arguments of kafka-python's admin client.
        patience_s: see PATIENCE_S.
    """

    def __init__(self, properties: Mapping[str, Any], patience_s: float = PATIENCE_S) -> None:
        self._properties = properties
        self._patience_s = patience_s
        #: nobody wants an answer any more
        self.stop = threading.Event()
        self._client: Any = None

    def describe(self, transactional_id: str) -> Described | None:
        """Return what is known of an id; None: the coordinator does not know it, or does not any more.

        Raises:
            CoordinatorError: there is no answer.
        """
        try:
            found = self._run(lambda client: client.describe_transactions([transactional_id]))[transactional_id]
        except errors.TransactionalIdNotFoundError:
            return None
        partitions = tuple(sorted(f"{each.topic}-{each.partition}" for each in found.topic_partitions))
        return Described(
            transactional_id,
            str(found.state.value),
            found.producer_id,
            found.producer_epoch,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            partitions,
        )

    def start_offset(self, partition: str, producer_id: int) -> int:
        """Return the offset at which a producer's open transaction begins in a partition; -1: it has none there.

        Raises:
            CoordinatorError: there is no answer.
        """
        topic, _, number = partition.rpartition("-")
        asked = TopicPartition(topic, int(number))
        found = self._run(lambda client: client.describe_producers([asked]))[asked].active_producers
        offsets = [each.current_transaction_start_offset for each in found if each.producer_id == producer_id]
        return next(iter(offsets), -1)

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool) -> bool:
        """Commit or abort a transaction.

        Returns:
            Whether the coordinator does so, or has done so; False: it is not that producer's transaction, or was ended
            the other way. `describe` tells which.

        Raises:
            CoordinatorError: there is no answer.
        """
        try:
            self._run(lambda client: _end(client, transactional_id, producer_id, epoch, commit))
        except _NOT_THAT_ONE:
            return False
        return True

    def ids(self, prefix: str, states: Iterable[str] = ("Ongoing",)) -> list[str]:
        """Return the ids with a prefix whose transactions are in one of these states.

        Raises:
            CoordinatorError: there is no answer.
        """
        wanted = list(states)
        listed = self._run(lambda client: client.list_transactions(state_filters=wanted))
        found = {each.transactional_id for of_broker in listed.values() for each in of_broker}
        return sorted(name for name in found if name.startswith(prefix))

    def close(self) -> None:
        """Disconnect; idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _run(self, action: Callable[[Any], T]) -> T:
        """Run an action, again while the coordinator is not to be had."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                with self._told():
                    if self._client is None:
                        self._client = _connected(self._properties)
                    return action(self._client)
            except _PASSING as error:
                # which broker it is may have changed: the client keeps what it knew
                if not isinstance(error, errors.ConcurrentTransactionsError):
                    self.close()
                if time.monotonic() > until or self.stop.wait(PAUSE_S):
                    raise CoordinatorError(str(error) or type(error).__name__) from error

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (_PASSING, *_NOT_THAT_ONE, errors.TransactionalIdNotFoundError):
            raise
        except (errors.KafkaError, OSError) as error:
            self.close()
            raise CoordinatorError(str(error) or type(error).__name__) from error


def _connected(properties: Mapping[str, Any]) -> Any:
    """Return a client of kafka-python.

    Raises:
        kafka.errors.KafkaError: no broker answers.
    """
    inner: list[KafkaNetClient] = []

    def keep(**settings: Any) -> KafkaNetClient:
        inner.append(KafkaNetClient(**settings))
        return inner[0]

    try:
        return KafkaAdminClient(**_TIMES, **properties, kafka_client=keep)
    except BaseException:
        # it leaves its thread behind
        for each in inner:
            each.close()
        raise


def _end(client: Any, transactional_id: str, producer_id: int, epoch: int, commit: bool) -> None:
    async def send() -> Any:
        nodes = await client._find_coordinator_ids([transactional_id], key_type=CoordinatorType.TRANSACTION)
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
            max_version=END_TXN_VERSION,
        )
        return await client._manager.send(request, node_id=nodes[transactional_id])

    error = errors.for_code(client._manager.run(send).error_code)
    if error is not errors.NoError:
        raise error(f"transaction {transactional_id}")
