"""Kafka: how much of librdkafka's own speed is left behind the source and the sink of a slot.

Run as `python -m benchmarks.kafka`; it starts a broker (see scripts/kafka.sh), or uses the one that
`TIDEMARK_KAFKA_BOOTSTRAP` names. Each line is a loop of confluent-kafka beside the connector's reader or writer, on the
same records (100 bytes) and in turns; medians of five. Exit code 1: a ratio or a rate is below its limit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from runtime.common.configuration import Configuration
from runtime.common.serialization import ByteArraySchema
from runtime.common.typeinfo import Types
from runtime.connectors.kafka.fetcher import FETCH_RECORDS
from runtime.connectors.kafka.offsets import KafkaOffsetsInitializer
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.connectors.kafka.source import KafkaSource
from runtime.core.batch import RecordBatch
from runtime.core.clock import SystemClock
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.metrics import MetricGroup
from runtime.operators.source import NoSplit, ReaderContext, ReadStatus
from tests.connectors.kafka_broker import running_kafka
from tests.connectors.rigs import SinkRig

RECORDS: Final = 1_000_000
VALUE: Final = b"x" * 100
BATCH_ROWS: Final = 8_192
MIN_RATIO: Final = 0.85
MIN_READ, MIN_WRITTEN = 500_000, 300_000
"""Records a second of a slot."""
READ_SETTINGS: Final = {
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 20,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with broker() as servers:
        return 0 if measure(servers, given.records, given.rounds) else 1


@contextlib.contextmanager
def broker() -> Iterator[str]:
    named = os.environ.get("TIDEMARK_KAFKA_BOOTSTRAP")
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="tidemark-kafka-") as directory, running_kafka(Path(directory)) as running:
        yield running.servers


def measure(servers: str, records: int, rounds: int) -> bool:
    works: dict[str, tuple[Callable[[str, str, int], None], Callable[[str, str, int], None], int]] = {
        "write at least once": (loop_writes, sink_writes, MIN_WRITTEN),
        "read": (loop_reads, source_reads, MIN_READ),
    }
    print(f"{records:,} records of {len(VALUE)} bytes, medians of {rounds}, in turns")
    print(f"{'':22}{'loop, records/s':>18}{'connector':>14}{'ratio':>8}")
    is_good = True
    for name, (loop, connector, limit) in works.items():
        took: dict[Callable[..., None], list[float]] = {loop: [], connector: []}
        for _ in range(rounds):
            for work in (loop, connector):
                topic = new_topic(servers)
                if name == "read":
                    loop_writes(servers, topic, records)
                began = time.perf_counter()
                work(servers, topic, records)
                took[work].append(time.perf_counter() - began)
                remove(servers, topic)
        of_loop, of_connector = (records / statistics.median(took[work]) for work in (loop, connector))
        ratio = of_connector / of_loop
        # where the loop itself is slower, it is the limit
        is_good = is_good and ratio >= MIN_RATIO and of_connector >= min(limit, of_loop)
        print(f"{name:22}{of_loop:18,.0f}{of_connector:14,.0f}{ratio:8.2f}")
    return is_good


def loop_reads(servers: str, topic: str, records: int) -> None:
    """Read with nothing but confluent-kafka: values, times and offsets, as a source needs them."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, **READ_SETTINGS}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    while read < records:
        messages = consumer.consume(FETCH_RECORDS, 0.5)
        read += len([(each.value(), each.timestamp(), each.offset()) for each in messages if each.error() is None])
    consumer.close()


def source_reads(servers: str, topic: str, records: int) -> None:
    """Read with the source's reader."""
    source = KafkaSource(
        {"bootstrap.servers": servers},
        topics=[topic],
        message_format=ByteArraySchema(),
        stop=KafkaOffsetsInitializer.latest(),
        bounded=True,
    )
    enumerator = source.create_enumerator(1, None)
    while not enumerator.discover():
        time.sleep(0.001)
    split = enumerator.next_split(0)
    assert not isinstance(split, NoSplit)
    reader = source.create_reader(split, None, ReaderContext(0, 1, Configuration(), SystemClock(), MetricGroup()))
    read = 0
    while (found := reader.read(BATCH_ROWS)) is not ReadStatus.END_OF_SPLIT:
        if isinstance(found, RecordBatch):
            read += found.num_rows
        else:
            time.sleep(0.001)
    reader.close()
    assert read == records


def loop_writes(servers: str, topic: str, records: int) -> None:
    """Write with nothing but confluent-kafka."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def sink_writes(servers: str, topic: str, records: int) -> None:
    """Write with the sink's writer, and take a snapshot."""
    serialization = KafkaRecordSerialization(topic, ByteArraySchema())
    sink = KafkaSink({"bootstrap.servers": servers}, serialization, DeliveryGuarantee.AT_LEAST_ONCE)
    rig = SinkRig(sink, Types.PRIMITIVE_ARRAY(Types.BYTE()))
    left = records
    while left:
        while not rig.operator.is_available():
            time.sleep(0.0005)
        rows = min(left, BATCH_ROWS)
        rig.write(*[VALUE] * rows)
        left -= rows
    rig.snapshot(1)
    rig.operator.close()


def new_topic(servers: str) -> str:
    topic = f"bench-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(30)
    return topic


def remove(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(30)


if __name__ == "__main__":
    sys.exit(main())
