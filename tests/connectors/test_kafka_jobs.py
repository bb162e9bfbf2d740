"""Whole jobs from Kafka to Kafka: every execution writes the same, and each result once however often it fails."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from runtime.common import Duration, Row, Time, Types, WatermarkStrategy
from runtime.connectors import NdjsonFormat, NdjsonWriterFormat
from runtime.datastream import DataStream, StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.testing import (
    ALL_MODES,
    CONTINUOUS_ON_MINI_CLUSTER,
    JobMode,
    JobResult,
    ScriptedSource,
    crash,
    pause,
    run_job,
    until_checkpoint,
)
from tests.connectors.kafka_broker import PASSWORD, USER, KafkaBroker, running_kafka

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BID = Types.ROW_NAMED(["auction", "price", "time"], [Types.LONG(), Types.LONG(), Types.LONG()])
RECORDS = 400


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), is_secure=True) as running:
        yield running


def new_topic(broker: KafkaBroker, partitions: int = 2) -> str:
    name = f"topic-{random.getrandbits(40):x}"
    broker.create_topic(name, partitions)
    return name


def bids(broker: KafkaBroker) -> str:
    """A topic of bids in three partitions, in time order in each."""
    topic = new_topic(broker, 3)
    for partition in range(3):
        rows = [
            {"auction": number % 7, "price": number, "time": number * 250} for number in range(partition, RECORDS, 3)
        ]
        broker.write(topic, [json.dumps(row).encode() for row in rows], partition)
    return topic


def source_of(servers: str, topic: str) -> KafkaSource:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_value_format(NdjsonFormat(BID))
        .set_bounded(KafkaOffsetsInitializer.latest())
        .build()
    )


def sink_of(servers: str, topic: str) -> KafkaSink:
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_format(NdjsonWriterFormat())
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer.build())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topic)
        .build()
    )


COUNT = Types.ROW_NAMED(["auction", "total"], [Types.LONG(), Types.LONG()])


def totals(env: StreamExecutionEnvironment, source: KafkaSource) -> DataStream:
    """Sums of prices by auction and ten seconds."""
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        lambda row, _: row.time
    )
    stream = env.from_source(source, times, "bids")
    return (
        stream.map(lambda row: Row(auction=row.auction, total=row.price), COUNT)
        .key_by(lambda row: row.auction, Types.LONG())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .reduce(lambda a, b: Row(auction=a.auction, total=a.total + b.total), output_type=COUNT)
    )


def expected() -> list[tuple[int, int]]:
    sums: dict[tuple[int, int], int] = {}
    for number in range(RECORDS):
        key = (number % 7, number * 250 // 10_000)
        sums[key] = sums.get(key, 0) + number
    return sorted((auction, total) for (auction, _), total in sums.items())


def written(broker: KafkaBroker, topic: str) -> list[tuple[int, int]]:
    rows = [json.loads(value or b"null") for value in broker.values(topic)]
    return sorted((row["auction"], row["total"]) for row in rows)


def run(build: Any, directory: Path, mode: JobMode, parallelism: int = 2) -> JobResult:
    options = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": (directory / "checkpoints").as_uri(),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    return run_job(build, parallelism=parallelism, mode=mode, options=options)


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[pytest.mark.spark] if "Spark" in mode.name else [], id=mode.name) for mode in ALL_MODES],
)
def test_every_execution_writes_each_result_once(broker: KafkaBroker, tmp_path: Path, mode: JobMode) -> None:
    bid_topic, total_topic = bids(broker), new_topic(broker)

    def build(env: StreamExecutionEnvironment) -> None:
        stream = totals(env, source_of(broker.servers, bid_topic))
        stream.sink_to(sink_of(broker.servers, total_topic)).uid("sink")

    run(build, tmp_path, mode)
    assert written(broker, total_topic) == expected()
    # and nothing else, committed or not
    assert len(broker.values(total_topic, committed=False)) == len(expected())


def test_records_are_written_once_after_three_crashes(broker: KafkaBroker, tmp_path: Path) -> None:
    topic = new_topic(broker)

    def numbers(split: int) -> list[Any]:
        script: list[Any] = []
        for number in range(split * 40, split * 40 + 40):
            script += [number, pause(40)]
            if number == 8:
                script.append(until_checkpoint(1))
            if number in (3, 17, 30):
                script.append(crash(f"at {number}"))
        return script

    source = ScriptedSource(numbers(0), numbers(1))

    def build(env: StreamExecutionEnvironment) -> None:
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        rows = stream.map(lambda number: Row(auction=number, total=number), COUNT)
        rows.rebalance().sink_to(sink_of(broker.servers, topic)).uid("sink")

    assert run(build, tmp_path, CONTINUOUS_ON_MINI_CLUSTER).restarts == 3
    assert written(broker, topic) == [(number, number) for number in range(80)]


def test_a_job_logs_in_within_tls_by_an_url(broker: KafkaBroker, tmp_path: Path) -> None:
    user, password = quote(USER, safe=""), quote(PASSWORD, safe="")
    authority = quote(Path(f"{broker.certificate}.crt").read_text(), safe="")
    options = f"sasl.mechanism=SCRAM-SHA-256&ssl.ca.pem={authority}"
    url = f"kafka://{user}:{password}@localhost:{broker.secure_port}?{options}"
    bid_topic, total_topic = bids(broker), new_topic(broker)

    def build(env: StreamExecutionEnvironment) -> None:
        stream = totals(env, source_of(url, bid_topic))
        stream.sink_to(sink_of(url, total_topic)).uid("sink")

    run(build, tmp_path, CONTINUOUS_ON_MINI_CLUSTER)
    assert written(broker, total_topic) == expected()
