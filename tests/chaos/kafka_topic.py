"""A Kafka broker of a run's own, with the topic that its job writes, as a consumer with read_committed sees it."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from runtime.connectors.kafka.coordinator import TransactionCoordinator
from runtime.connectors.kafka.properties import admin_properties
from tests.chaos.stream import OUT_FIELDS
from tests.connectors.kafka_broker import LIBS, KafkaBroker

TOPIC = "out"
PREFIX = "chaos"
PARTITIONS = 2
_END_S = 60.0


class KafkaTopic:
    """The topic and its broker, which can be stopped, killed, frozen and started again with what it holds.

    Args:
        transaction_version: of the broker's protocol: 1, or 2 (KIP-890).
    """

    def __init__(self, transaction_version: int) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="tidemark-chaos-kafka-")
        self._broker = KafkaBroker(Path(self._directory.name), transaction_version)
        self._broker.start()
        self._broker.create_topic(TOPIC, PARTITIONS)
        self.rows: list[tuple[int, ...]] = []
        self.violations: list[str] = []
        self._next = dict.fromkeys(range(PARTITIONS), 0)

    @staticmethod
    def is_installed() -> bool:
        """Return whether the jars of Kafka are there."""
        return any(LIBS.glob("kafka_2.13-*.jar"))

    @property
    def servers(self) -> str:
        return self._broker.servers

    def restart(self, sign: signal.Signals, pause_s: float) -> None:
        """End the broker, SIGKILL as a crash, SIGTERM in good order; start it again after a pause."""
        if sign == signal.SIGKILL:
            self._broker.kill()
        else:
            self._broker.stop()
        time.sleep(pause_s)
        self._broker.start()

    def freeze(self, pause_s: float) -> None:
        """Have the broker stand still for a time."""
        self._broker.signal(signal.SIGSTOP)
        time.sleep(pause_s)
        self._broker.signal(signal.SIGCONT)

    def read(self) -> int:
        """Take in what has been committed since the last call; returns how many rows there are in all."""
        settings = {"bootstrap.servers": self.servers, "group.id": "chaos", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "error"})
        with closing(consumer):
            ends = {p: consumer.get_watermark_offsets(TopicPartition(TOPIC, p), _END_S)[1] for p in self._next}
            for partition, end in ends.items():
                if end < self._next[partition]:
                    self.violations.append(f"aborted read: partition {partition} ends at {end}, it was read further")
                    continue
                self._read_partition(consumer, partition, end)
        return len(self.rows)

    def _read_partition(self, consumer: Consumer, partition: int, end: int) -> None:
        if end == self._next[partition]:
            return
        consumer.assign([TopicPartition(TOPIC, partition, self._next[partition])])
        while True:
            message = consumer.poll(1.0)
            if message is not None:
                error = message.error()
                assert error is None, error
                self._take_in(message.value() or b"")
                self._next[partition] = (message.offset() or 0) + 1
            position = consumer.position([TopicPartition(TOPIC, partition)])[0].offset
            if position >= end:
                # behind the markers of transactions, too
                self._next[partition] = position
                break
        consumer.unassign()

    def _take_in(self, value: bytes) -> None:
        try:
            document = json.loads(value)
            self.rows.append(tuple(int(document[name]) for name in OUT_FIELDS))
        except (ValueError, KeyError):
            self.violations.append(f"corrupt: the topic has the record {value[:80]!r}")

    def open_transactions(self) -> list[str]:
        """Ids of the job's transactions that are neither committed nor aborted."""
        with closing(TransactionCoordinator(admin_properties({"bootstrap.servers": self.servers}))) as asked:
            return asked.ids(PREFIX)

    def close(self) -> None:
        self._broker.kill()
        self._directory.cleanup()
