"""Kafka → 10 s windows → Kafka, exactly once, in two slots; beside Flink SQL where that is to be had.

Run as `python -m benchmarks.kafka_windows`; `--flink-python` names an interpreter with apache-flink, `--flink-jar`
Flink's SQL connector for Kafka. At each checkpoint interval it takes the time for a topic that is full, from the start
of the job's tasks to its end (Flink: the job's net runtime), and, while bids arrive all the time, how long after its
end a window's results are seen by a consumer with read_committed. What a full topic gives is compared with Polars.
Exit code 1: less than twice Flink's rate at the interval of a second.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.bids import ndjson_bids
from benchmarks.engine import environment, run_job
from benchmarks.kafka import broker
from benchmarks.measure import WrongResultError
from benchmarks.recovery import quantile
from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import NdjsonFormat, NdjsonWriterFormat
from runtime.connectors.kafka.offsets import KafkaOffsetsInitializer
from runtime.connectors.kafka.serialization import KafkaRecordSerialization
from runtime.connectors.kafka.sink import KafkaSink
from runtime.connectors.kafka.source import KafkaSource
from runtime.datastream.connectors.base import DeliveryGuarantee
from runtime.datastream.window import TumblingEventTimeWindows

RECORDS: Final = 3_000_000
INTERVALS_MS: Final = (100, 1_000, 10_000)
SLOTS: Final = 2
WINDOW_MS: Final = 10_000
TIMES_FLINK: Final = 2.0
JUDGED_MS: Final = 1_000
LIVE_RATE: Final = 2_000
"""Bids a second while latency is measured."""
LIVE_AUCTIONS: Final = 200
LIVE_S: Final = 45.0
TIMEOUT_S: Final = 900
FLINK_PROGRAM: Final = Path(__file__).parent / "peers" / "flink_kafka.py"
TIDEMARK, FLINK = "tidemark", "flink sql"
BID: Final = Types.ROW_NAMED(["auction", "price", "ts"], [Types.LONG()] * 3)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_windows", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path(".tidemark/bench"), help="for the bids")
    parser.add_argument("--flink-python")
    parser.add_argument("--flink-jar")
    parser.add_argument("--no-latency", action="store_true")
    given = parser.parse_args()
    engines = {TIDEMARK: [sys.executable, "-m", "benchmarks.kafka_windows", "job"]}
    if given.flink_python and given.flink_jar:
        engines[FLINK] = [given.flink_python, str(FLINK_PROGRAM), given.flink_jar]
    bids = ndjson_bids(given.directory, given.records)
    with broker() as servers:
        source = new_topic(servers)
        fill(servers, source, bids)
        is_good = measure_rates(servers, source, expected(bids), engines, given.records, given.rounds)
        if not given.no_latency:
            measure_latencies(servers, engines)
    return 0 if is_good else 1


def measure_rates(
    servers: str,
    source: str,
    wanted: Sequence[tuple[int, ...]],
    engines: dict[str, list[str]],
    records: int,
    rounds: int,
) -> bool:
    """Print how fast a full topic is read, windowed and written; returns whether the target is met."""
    print(f"{records:,} bids, {SLOTS} slots, medians of {rounds}, in turns")
    print(f"{'checkpoint every':>18}" + "".join(f"{name + ', records/s':>24}" for name in engines) + f"{'ratio':>8}")
    is_good = True
    for interval_ms in INTERVALS_MS:
        took: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(rounds):
            for name, command in engines.items():
                sink = new_topic(servers)
                took[name].append(run(command, servers, source, sink, interval_ms))
                if results(servers, sink) != wanted:
                    raise WrongResultError(f"{name} at {interval_ms} ms: the results are not those of Polars")
        rates = {name: records / statistics.median(times) for name, times in took.items()}
        ratio = rates[TIDEMARK] / rates[FLINK] if FLINK in rates else float("nan")
        is_good = is_good and not (interval_ms == JUDGED_MS and ratio < TIMES_FLINK)
        print(f"{interval_ms:>15} ms" + "".join(f"{rate:>24,.0f}" for rate in rates.values()) + f"{ratio:>8.2f}")
    return is_good


def measure_latencies(servers: str, engines: dict[str, list[str]]) -> None:
    """Print how long after its end a window's results are seen."""
    print(f"\n{LIVE_RATE:,} bids a second, {WINDOW_MS // 1000} s windows: results are seen behind the window's end, ms")
    print(f"{'checkpoint every':>18}" + "".join(f"{name + ', p50 / p99':>24}" for name in engines))
    for interval_ms in INTERVALS_MS:
        cells = []
        for command in engines.values():
            seen = latencies(command, servers, interval_ms)
            cells.append(f"{statistics.median(seen):,.0f} / {quantile(seen, 0.99):,.0f}" if seen else "none")
        print(f"{interval_ms:>15} ms" + "".join(f"{cell:>24}" for cell in cells))


# --- topics -----------------------------------------------------------------------------------------------------------


def new_topic(servers: str) -> str:
    topic = f"bench-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, SLOTS)])[topic].result(30)
    return topic


def fill(servers: str, topic: str, bids: Path) -> None:
    """Write bids, by turns into the partitions."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    with bids.open("rb") as lines:
        for number, line in enumerate(lines):
            while True:
                try:
                    producer.produce(topic, line.rstrip(), partition=number % SLOTS)
                    break
                except BufferError:
                    producer.poll(0.05)
    producer.flush()


def expected(bids: Path) -> list[tuple[int, ...]]:
    """Return the results: auction, number, highest price, start of the window; sorted."""
    starts = pl.col("ts") // WINDOW_MS * WINDOW_MS
    found = pl.scan_ndjson(bids).group_by("auction", starts.alias("start")).agg(pl.len(), pl.col("price").max())
    return sorted(found.select("auction", "len", "price", "start").collect().rows())


def reader(servers: str, topic: str) -> Consumer:
    settings = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(SLOTS)])
    return consumer


def results(servers: str, topic: str) -> list[tuple[int, ...]]:
    """Return all committed results, sorted."""
    consumer, found, ends = reader(servers, topic), [], 0
    while ends < SLOTS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                ends += 1
                continue
            row = json.loads(message.value() or b"")
            found.append((row["auction"], row["bids"], row["top"], row["start"]))
    consumer.close()
    return sorted(found)


def latencies(command: list[str], servers: str, interval_ms: int) -> list[float]:
    """Return how long after its end the results of each window were seen, ms, while bids arrive."""
    source, sink = new_topic(servers), new_topic(servers)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 2})
    found: list[float] = []
    with started(command, servers, source, sink, interval_ms, "live"):
        consumer, sent, began = reader(servers, sink), 0, time.time()
        while (now := time.time()) - began < LIVE_S:
            while sent < (now - began) * LIVE_RATE:
                bid = {"auction": sent % LIVE_AUCTIONS, "price": sent, "ts": int(now * 1000)}
                producer.produce(source, json.dumps(bid).encode(), partition=sent % SLOTS)
                sent += 1
            producer.poll(0)
            for message in consumer.consume(10_000, 0.002):
                if message.error() is None:
                    end = json.loads(message.value() or b"")["start"] + WINDOW_MS
                    found.append(time.time() * 1000 - end)
        consumer.close()
    # the first window waited for the job's start
    return found[LIVE_AUCTIONS:]


# --- jobs -------------------------------------------------------------------------------------------------------------


def run(command: list[str], servers: str, source: str, sink: str, interval_ms: int) -> float:
    """Run a job to its end; returns its seconds."""
    given = [*command, servers, source, sink, str(interval_ms), str(SLOTS), "bounded"]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.strip().splitlines()[-1])["seconds"])


@contextmanager
def started(command: list[str], servers: str, source: str, sink: str, interval_ms: int, how: str) -> Iterator[None]:
    """Run a job while the block lasts."""
    given = [*command, servers, source, sink, str(interval_ms), str(SLOTS), how]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(given, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def job(servers: str, source: str, sink: str, interval_ms: str, slots: str, how: str) -> None:
    """Run our job, and print its seconds."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as directory:
        options = {
            "execution.checkpointing.interval": f"{interval_ms} ms",
            "execution.checkpointing.dir": Path(directory).as_uri(),
        }
        env = environment(int(slots), "spark", options)
        bids = KafkaSource(
            {"bootstrap.servers": servers},
            topics=[source],
            message_format=NdjsonFormat(BID),
            stop=KafkaOffsetsInitializer.latest() if how == "bounded" else None,
            bounded=how == "bounded",
        )
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("ts")
        windows = (
            env.from_source(bids, times, "bids")
            .key_by_columns("auction")
            .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
            .aggregate_columns("count(*) AS bids", "max(price) AS top", "window_start AS start")
        )
        serialization = KafkaRecordSerialization(sink, NdjsonWriterFormat())
        target = KafkaSink({"bootstrap.servers": servers}, serialization, DeliveryGuarantee.EXACTLY_ONCE, sink)
        windows.sink_to(target).uid("sink")
        print(json.dumps({"seconds": run_job(env, "kafka windows").seconds}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(*sys.argv[2:])
    else:
        sys.exit(main())
