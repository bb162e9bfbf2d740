"""Kafka → 10 s windows → Kafka on Spark in two slots, with kill -9 of a slot at every named point, by turns."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import NdjsonFormat, NdjsonWriterFormat
from runtime.connectors.kafka.offsets import KafkaOffsetsInitializer
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.connectors.kafka.source import KafkaSource
from runtime.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.testing.jobs import CONTINUOUS_ON_SPARK, run_job
from tests.chaos.fault_points import FaultPoints, FaultySink
from tests.connectors.kafka_broker import KafkaBroker, running_kafka
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

PARTITIONS, RECORDS = 2, 24_000
PER_RECORD_S = 0.002
"""Time that a slot takes for a record, so that the job outlasts all kills."""
MS_PER_RECORD = 50
AUCTIONS = 5
BID = Types.ROW_NAMED(["auction", "price", "ts"], [Types.LONG()] * 3)
PLACES = ("record", "open", "prepare", "prepared", "commit", "mid-commit", "committed")
"""A record in an operator; the start of an attempt; before and behind the end of a transaction's records; before a
commit, behind each transaction's, and behind all."""


@pytest.fixture(scope="module", params=[1, 2], ids=["version 1", "version 2"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with running_kafka(tmp_path_factory.mktemp("kafka"), request.param) as running:
        yield running


class Slowly(MapFunction):
    """Takes its time, and is a place to be killed at."""

    def __init__(self, points: FaultPoints) -> None:
        self._points = points

    def open(self, runtime_context: RuntimeContext) -> None:
        self._points.reach("open")

    def map(self, value: Any) -> Any:
        time.sleep(PER_RECORD_S)
        self._points.reach("record")
        return value


def bids() -> list[dict[str, int]]:
    return [{"auction": number % AUCTIONS, "price": number, "ts": number * MS_PER_RECORD} for number in range(RECORDS)]


def expected() -> dict[tuple[int, int, int], int]:
    """Sum of prices by auction and window; each once."""
    sums: Counter[tuple[int, int]] = Counter()
    for bid in bids():
        sums[bid["auction"], bid["ts"] // 10_000 * 10_000] += bid["price"]
    return {(auction, start, total): 1 for (auction, start), total in sums.items()}


def test_each_result_is_written_once_wherever_a_slot_is_killed(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.create_topic("bids", PARTITIONS)
    broker.create_topic("totals", PARTITIONS)
    for partition in range(PARTITIONS):
        broker.write("bids", [json.dumps(bid).encode() for bid in bids()[partition::PARTITIONS]], partition)
    points = FaultPoints(str(tmp_path / "points"), str(tmp_path / "checkpoints"), "")
    Path(points.directory).mkdir()
    properties = {"bootstrap.servers": broker.servers}
    killed: list[str] = []

    def build(env: StreamExecutionEnvironment) -> None:
        source = KafkaSource(
            properties,
            topics=["bids"],
            message_format=NdjsonFormat(BID),
            stop=KafkaOffsetsInitializer.latest(),
            bounded=True,
        )
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
        windows = (
            env.from_source(source, times, "bids")
            .map(Slowly(points), BID)
            .key_by_columns("auction")
            .window(TumblingEventTimeWindows.of(Time.seconds(10)))
            .aggregate_columns("sum(price) AS total", "window_start AS start")
        )
        serialization = KafkaRecordSerialization("totals", NdjsonWriterFormat())
        sink = KafkaSink(properties, serialization, DeliveryGuarantee.EXACTLY_ONCE, "totals")
        windows.sink_to(FaultySink(sink, points)).uid("sink")

    def kill_everywhere() -> None:
        for place in PLACES:
            time.sleep(1.0)
            points.arm(place, "kill")
            if place == "open":
                # in its recovery from another kill
                points.arm("record", "kill")
            wait_until(partial(is_hit, points, place, killed), 120, place)

    killer = threading.Thread(target=kill_everywhere)
    killer.start()
    options = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": Path(points.checkpoints).as_uri(),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "100",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    result = run_job(build, parallelism=2, mode=CONTINUOUS_ON_SPARK, options=options, timeout_s=600)
    killer.join()
    assert {hit.partition(".")[0] for hit in killed} == set(PLACES)
    assert result.restarts >= len(PLACES) - 1
    rows = [json.loads(value or b"null") for value in broker.values("totals")]
    assert Counter((row["auction"], row["start"], row["total"]) for row in rows) == expected()


def is_hit(points: FaultPoints, place: str, killed: list[str]) -> bool:
    """Whether somebody was killed at a place; the names of all new hits are noted."""
    killed += points.hits()
    return any(hit.startswith(f"{place}.") for hit in killed)
