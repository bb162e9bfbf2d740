"""A real Kafka broker for tests: Apache Kafka in KRaft mode, from the jars that `scripts/kafka.sh` fetches."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from backend.supervisor.checks import free_port
from tests.support.waiting import wait_until

LIBS = Path(__file__).parents[2] / ".kafka" / "libs"
REQUIRED = "TIDEMARK_REQUIRE_KAFKA"
"""Variable: a broker that cannot be started is a failure."""

_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.bootstrap.servers={controllers}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=6
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
controlled.shutdown.enable=true
"""


class KafkaBroker:
    """One broker that is its own controller.

    Args:
        directory: for its data, which survives a restart.
        transaction_version: of its protocol; 1, or 2 (KIP-890).
    """

    def __init__(self, directory: Path, transaction_version: int = 2) -> None:
        self.port = free_port()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        controller_port = free_port()
        self._settings = directory / "server.properties"
        self._settings.write_text(
            _PROPERTIES.format(
                node=1,
                controllers=f"127.0.0.1:{controller_port}",
                port=self.port,
                controller_port=controller_port,
                data=directory / "data",
                replicas=1,
            )
        )
        uuid = "dGlkZW1hcmsta2Fma2EtMQ"
        feature = ("--feature", f"transaction.version={transaction_version}")
        self._run("kafka.tools.StorageTool", "format", "--standalone", "-t", uuid, "-c", str(self._settings), *feature)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self._directory / "server.log").open("ab") as log:
            command = _java("-Xmx384m", "kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, 60, "Kafka's start")

    def kill(self) -> None:
        """End it at once, as a machine that goes away."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    def signal(self, sign: signal.Signals) -> None:
        """Send a signal to the broker, which is there behind it, too: SIGSTOP or SIGCONT."""
        assert self._process is not None
        self._process.send_signal(sign)

    def _answers(self) -> bool:
        with suppress(KafkaException):
            return bool(self._admin().list_topics(timeout=1).brokers)
        return False

    def _admin(self) -> AdminClient:
        # what it was asked for is given up with it
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _run(self, *command: str) -> None:
        done = subprocess.run(_java(*command), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    # --- what is in it ------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1) -> None:
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions)])[name].result(30)

    def delete_topic(self, name: str) -> None:
        admin = self._admin()
        admin.delete_topics([name])[name].result(30)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        admin, at = self._admin(), TopicPartition(topic, partition, before)
        admin.delete_records([at])[at].result(30)

    def write(
        self, topic: str, values: Sequence[bytes | None], partition: int = 0, key: bytes | None = None, time: int = 0
    ) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(topic, value, key, partition, timestamp=time)
        assert producer.flush(30) == 0

    def records(self, topic: str, *, committed: bool = True) -> list[Message]:
        """All records of a topic, partition by partition."""
        isolation = "read_committed" if committed else "read_uncommitted"
        settings = {"bootstrap.servers": self.servers, "group.id": "tests", "enable.partition.eof": True}
        consumer = Consumer({**settings, "isolation.level": isolation, "enable.auto.commit": False})
        # a broker that has just started may not know them yet
        wait_until(lambda: bool(consumer.list_topics(topic, 30).topics[topic].partitions), 30, "the topic's partitions")
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        found: list[Message] = []
        for partition in partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{topic}-{partition} does not end"
                error = message.error()
                if error is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    break
                else:
                    raise KafkaException(error)
        consumer.close()
        return found

    def values(self, topic: str, *, committed: bool = True) -> list[bytes | None]:
        return [record.value() for record in self.records(topic, committed=committed)]


def _java(*arguments: str) -> list[str]:
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    options = [each for each in arguments if each.startswith("-X")]
    rest = [each for each in arguments if not each.startswith("-X")]
    return ["java", *flags, *options, "-cp", f"{LIBS}/*", *rest]


def check_kafka() -> None:
    """Skip the test if no broker can be started here, or fail it where one is required."""
    why = ""
    if not any(LIBS.glob("kafka_2.13-*.jar")):
        why = "there are no jars of Kafka (scripts/kafka.sh fetches them, with Maven)"
    elif shutil.which("java") is None:
        why = "there is no Java"
    if why and os.environ.get(REQUIRED) == "1":
        pytest.fail(why)
    if why:
        pytest.skip(why)


@contextmanager
def running_kafka(directory: Path, transaction_version: int = 2) -> Iterator[KafkaBroker]:
    """A broker that ends with the block."""
    check_kafka()
    broker = KafkaBroker(directory, transaction_version)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
