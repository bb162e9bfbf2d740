"""A real Kafka broker for tests: Apache Kafka in KRaft mode, from the jars that `scripts/kafka.sh` fetches."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from backend.supervisor.checks import free_port
from runtime.connectors.kafka.splits import java_hash
from tests.support.waiting import wait_until

LIBS = Path(__file__).parents[2] / ".kafka" / "libs"
REQUIRED = "TIDEMARK_REQUIRE_KAFKA"
"""Variable: a broker that cannot be started is a failure."""

#: without retention: records of tests are from 1970, and a broker deletes what is old 30 s behind its start
_PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
listeners={listeners}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=6
min.insync.replicas={in_sync}
group.initial.rebalance.delay.ms=0
transaction.abort.timed.out.transaction.cleanup.interval.ms=200
controlled.shutdown.enable=true
log.retention.ms=-1
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""
_CLUSTER = "dGlkZW1hcmsta2Fma2EtMQ"
_TRANSACTIONS = "__transaction_state"
USER, PASSWORD = "tide", "g?h/eim&%"
_SECURE = """\
listeners=PLAINTEXT://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{{controller_port}},SECURE://127.0.0.1:{secure_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{{port}},SECURE://localhost:{secure_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_{user}="{password}";
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={certificate}
"""


def write_certificate(file: Path) -> None:
    """Write a key and a certificate of it for localhost, signed by itself, into one file."""
    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-keyout", str(file))
    name = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", f"{file}.crt")
    subprocess.run(("openssl", "req", "-x509", *made, *name), check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())


class KafkaServer:
    """One process of Kafka: a broker, a controller, or both.

    Args:
        directory: for its data, which survives a restart.
        roles: its roles, with commas.
        node: its number.
        controller_port: that of the controller; its own if it is one.
        replicas: of each partition; all but one must have a record before it is acknowledged.
        transaction_version: of the protocol; 1, or 2 (KIP-890). The controller says it.
        more: further settings, which may name {port} and {controller_port}; the last of a name counts.
        flags: further ones of the storage's formatting.
    """

    def __init__(
        self,
        directory: Path,
        roles: str = "broker,controller",
        node: int = 1,
        controller_port: int | None = None,
        replicas: int = 1,
        transaction_version: int = 2,
        more: str = "",
        flags: Sequence[str] = (),
    ) -> None:
        is_controller = "controller" in roles
        self.node = node
        self.port = free_port()
        self.controller_port = free_port() if controller_port is None else controller_port
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._settings = directory / "server.properties"
        listeners = [f"PLAINTEXT://127.0.0.1:{self.port}"] if "broker" in roles else []
        listeners += [f"CONTROLLER://127.0.0.1:{self.controller_port}"] if is_controller else []
        self._settings.write_text(
            _PROPERTIES.format(
                roles=roles,
                node=node,
                controller_port=self.controller_port,
                listeners=",".join(listeners),
                data=directory / "data",
                replicas=replicas,
                in_sync=max(1, replicas - 1),
            )
            + more.format(port=self.port, controller_port=self.controller_port)
        )
        alone = ("--standalone", "--feature", f"transaction.version={transaction_version}") if is_controller else ()
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._settings), *alone, *flags)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def launch(self) -> None:
        """Start it, without waiting until it answers."""
        with (self._directory / "server.log").open("ab") as log:
            command = _java("-Xmx384m", "kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

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
        """Send a signal that it survives: SIGSTOP or SIGCONT."""
        assert self._process is not None
        self._process.send_signal(sign)

    def _run(self, *command: str) -> None:
        done = subprocess.run(_java(*command), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


class KafkaContents(ABC):
    """Reads and writes the topics of the brokers at an address."""

    replicas = 1
    """Of each partition."""

    @property
    @abstractmethod
    def servers(self) -> str:
        """Return the addresses of brokers."""

    def answers(self, brokers: int = 1) -> bool:
        """Return whether there are so many brokers."""
        with suppress(KafkaException):
            return len(self._admin().list_topics(timeout=1).brokers) >= brokers
        return False

    def _admin(self) -> AdminClient:
        # what it was asked for is given up with it
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; all brokers have its partitions. Its settings have underscores in place of dots."""
        settings = {each.replace("_", "."): value for each, value in config.items()}
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions, self.replicas, config=settings)])[name].result(30)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions, so many in all."""
        admin = self._admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(30)

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


class KafkaBroker(KafkaServer, KafkaContents):
    """One broker that is its own controller.

    Args:
        directory: for its data, which survives a restart.
        transaction_version: of its protocol; 1, or 2 (KIP-890).
        is_secure: whether it has a second listener, with TLS, that takes USER by PLAIN and SCRAM-SHA-256.
        advertised: host:port of the first listener that clients are told to go on to; "" = where it listens.
    """

    def __init__(
        self, directory: Path, transaction_version: int = 2, *, is_secure: bool = False, advertised: str = ""
    ) -> None:
        self.secure_port = free_port()
        self.certificate = directory / "broker.pem"
        more, flags = f"advertised.listeners=PLAINTEXT://{advertised}\n" if advertised else "", list[str]()
        if is_secure:
            directory.mkdir(parents=True, exist_ok=True)
            write_certificate(self.certificate)
            login = {"user": USER, "password": PASSWORD}
            more += _SECURE.format(secure_port=self.secure_port, certificate=self.certificate, **login)
            flags = ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"]
        super().__init__(directory, transaction_version=transaction_version, more=more, flags=flags)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.launch()
        wait_until(self.answers, 180, "Kafka's start")


class KafkaCluster(KafkaContents):
    """Three brokers and a controller; each partition is on all of them.

    Args:
        directory: for their data.
        transaction_version: of their protocol; 1, or 2 (KIP-890).
    """

    replicas = 3

    def __init__(self, directory: Path, transaction_version: int = 2) -> None:
        self._controller = KafkaServer(
            directory / "1", "controller", replicas=self.replicas, transaction_version=transaction_version
        )
        port = self._controller.controller_port
        self.brokers = {
            node: KafkaServer(directory / str(node), "broker", node, port, self.replicas) for node in (2, 3, 4)
        }

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def start(self) -> None:
        """Start those that do not run, and wait until all answer and have all records."""
        for server in (self._controller, *self.brokers.values()):
            if not server.is_running:
                server.launch()
        wait_until(lambda: self.answers(len(self.brokers)), 90, "the start of Kafka's brokers")
        wait_until(self._is_in_sync, 90, "brokers in sync")

    def _is_in_sync(self) -> bool:
        topics = self._admin().list_topics(timeout=30).topics.values()
        return all(len(each.isrs) == self.replicas for topic in topics for each in topic.partitions.values())

    def kill(self) -> None:
        """End everything at once."""
        for server in (*self.brokers.values(), self._controller):
            server.kill()

    def coordinator_of(self, transactional_id: str) -> KafkaServer | None:
        """Return the broker that coordinates a transaction; None: there is none at the moment."""
        partitions = self._admin().list_topics(_TRANSACTIONS, 30).topics[_TRANSACTIONS].partitions
        # the sign is cut off, as Kafka's own toPositive does
        number = (java_hash(transactional_id) & 0x7FFFFFFF) % len(partitions)
        return self.brokers.get(partitions[number].leader)


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
    skip_without_java(why)


def skip_without_java(why: str) -> None:
    """Skip the test for a reason, or for want of a Java, if there is any; fail it where a broker is required."""
    if not why and shutil.which("java") is None:
        why = "there is no Java"
    if why and os.environ.get(REQUIRED) == "1":
        pytest.fail(why)
    if why:
        pytest.skip(why)


@contextmanager
def running_kafka(
    directory: Path, transaction_version: int = 2, *, is_secure: bool = False, advertised: str = ""
) -> Iterator[KafkaBroker]:
    """A broker that ends with the block; see KafkaBroker for the arguments."""
    check_kafka()
    broker = KafkaBroker(directory, transaction_version, is_secure=is_secure, advertised=advertised)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@contextmanager
def running_kafka_cluster(directory: Path, transaction_version: int = 2) -> Iterator[KafkaCluster]:
    """A cluster that ends with the block."""
    check_kafka()
    cluster = KafkaCluster(directory, transaction_version)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.kill()
