"""Micro-batches on Spark: what a batch costs beside one of a bare query; large batches beside a continuous job, and
beside plain Structured Streaming.

    python -m benchmarks.micro_batch [--batches 40] [--events 10000000] [--queries q0 q5]

The small job counts records by key in RocksDB and has two stages; each of its batches reads a record a subtask. The
bare query is driven as the job's is, and runs an action of two empty stages in each batch. CPU time is that of all
processes: this one, the JVM, and all workers to their end. Of Nexmark's queries one batch reads all events, as it
does where batches have grown; its time counts until its sinks have committed, without the job's last checkpoint,
which reads nothing. Queries that ten million events keep busy for less than a second read five times as many. Of plain
Structured Streaming (`peers/spark_nexmark.py`) the time of the trigger counts, in the second run of a process; it
does less in q4, q5 and q7.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import psutil
from pyspark import SparkContext

from benchmarks.counting_daemon import CPU_FILE, seconds_of_workers
from benchmarks.engine import environment, results_directory, run_job, warm_up
from benchmarks.nexmark_data import NexmarkFiles, nexmark_files
from benchmarks.works.nexmark import JOBS, Streams
from runtime.common import Configuration, Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import KeyedProcessFunction, RuntimeContext
from runtime.datastream.state import ValueStateDescriptor
from runtime.execution.spark_query import BatchQuery, QueryBatch, QueryFacts
from runtime.execution.spark_session import acquire_context

SLOTS = 2
MAX_BATCH_S, MAX_CPU_S, MIN_SHARE, MIN_AHEAD = 0.5, 0.15, 0.7, 1.5
"""Limits: of a batch's time, of its CPU time above that of the bare query, of a continuous job's speed, of the speed of
plain Structured Streaming."""
_WARM = 10
"""Batches before the measured ones: the JVM compiles what they run."""
_POLL_S = 0.02
QUERIES = ("q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q11")
FAST = ("q0", "q1", "q2", "q3", "q8")
"""Queries that need more events for a batch that is large."""
TIMES_AS_MANY = 5
CPU_PATH = Path(tempfile.gettempdir()) / f"tidemark-bench-cpu-{os.getpid()}"
"""The file with the CPU time of Spark's workers that have ended."""
SETTINGS = {
    "spark.python.daemon.module": "benchmarks.counting_daemon",
    f"spark.executorEnv.{CPU_FILE}": str(CPU_PATH),
}
PEER = Path(__file__).parent / "peers" / "spark_nexmark.py"


class Cost(NamedTuple):
    """Cost of one batch."""

    seconds: float
    cpu_seconds: float


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield count


def cpu_seconds() -> float:
    """Return the CPU time of this process and all that it has started."""
    this = psutil.Process()
    total = seconds_of_workers(CPU_PATH)
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            # of those that have ended their parents know
            total += times.user + times.system + times.children_user + times.children_system
    return total


def cost_of(batches: int, num_completed: Callable[[], int]) -> Cost:
    """Return the cost of one of the next batches."""
    pause = Event()

    def reach(target: int) -> tuple[int, float, float]:
        while (number := num_completed()) < target:
            pause.wait(_POLL_S)
        return number, time.monotonic(), cpu_seconds()

    first, started_s, cpu_s = reach(num_completed() + _WARM)
    last, ended_s, cpu_end_s = reach(first + batches)
    return Cost((ended_s - started_s) / (last - first), (cpu_end_s - cpu_s) / (last - first))


def small_job(batches: int) -> Cost:
    """Measure a job whose batches read next to nothing."""
    with tempfile.TemporaryDirectory() as directory:
        options = {
            "execution.mode": "micro-batch",
            "execution.micro-batch.max-rows": "1",
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": Path(directory).as_uri(),
            "state.backend.type": "rocksdb",
        }
        env = environment(SLOTS, "spark", options)
        numbers = env.from_source(NumberSequenceSource(0, 1 << 40), WatermarkStrategy.no_watermarks(), "numbers")
        numbers.key_by(lambda n: n % 100, Types.LONG()).process(Count(), Types.LONG()).sink_to(BlackHoleSink())
        client = env.execute_async("bench small batches")
        try:
            return cost_of(batches, lambda: client.get_status().checkpoints.counts.completed)
        finally:
            client.cancel().result()


def bare_query(batches: int) -> Cost:
    """Measure a query whose batches run an action of two stages that do nothing."""
    context = acquire_context(Configuration(), SLOTS)
    done: list[int] = []

    def act(of: SparkContext) -> Any:
        pairs = of.parallelize([(number, number) for number in range(SLOTS)], SLOTS)
        return pairs.partitionBy(SLOTS, int).mapPartitions(list).collect()

    def call(batch: QueryBatch) -> None:
        future = batch.submit(act)

        def over(_: object) -> None:
            done.append(batch.number)
            batch.finish()

        future.add_done_callback(over)

    with tempfile.TemporaryDirectory() as directory:
        location = Path(directory)
        facts = QueryFacts("bare", "processing-time", 10, location / "query", location / "answer.json")
        query = BatchQuery(context, facts, call, _ended)
        try:
            return cost_of(batches, lambda: len(done))
        finally:
            query.stop()


def _ended(error: str | None) -> None:
    """Do nothing: a query that is stopped says nothing."""


def check_fixed_cost(batches: int) -> bool:
    """Measure small batches and those of a bare query, print a line, and return whether they keep to the limits."""
    bare, ours = bare_query(batches), small_job(batches)
    above_s = ours.cpu_seconds - bare.cpu_seconds
    print(
        f"a batch  {ours.seconds:.3f} s, {ours.cpu_seconds:.3f} s of CPU; of a bare query {bare.seconds:.3f} s, "
        f"{bare.cpu_seconds:.3f} s: {above_s:.3f} s of CPU more",
        flush=True,
    )
    return ours.seconds <= MAX_BATCH_S and above_s <= MAX_CPU_S


def check_query(name: str, events: int, directory: Path, repeats: int) -> bool:
    """Measure a query in large batches and continuously, print a line, and return whether it keeps to the limit."""
    events *= TIMES_AS_MANY if name in FAST else 1
    files = nexmark_files(directory, events)
    query, _ = JOBS[name]

    def continuous() -> float:
        env = environment(SLOTS, "spark")
        query(Streams(env, files)).sink_to(BlackHoleSink())
        return run_job(env, f"{name} continuous").seconds

    def in_batches() -> float:
        with results_directory() as checkpoints:
            options = {
                "execution.mode": "micro-batch",
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": checkpoints.as_uri(),
                "execution.micro-batch.max-rows": str(events),
            }
            env = environment(SLOTS, "spark", options)
            query(Streams(env, files)).sink_to(BlackHoleSink())
            client = env.execute_async(f"{name} in batches")
            client.get_job_execution_result().result()
            traces = client.get_status().checkpoints.traces
            batches = [batch for trace in traces for batch in trace.batches if batch.num_read]
            started_ms = min(batch.time_ms for batch in batches)
            ended_ms = max(batch.time_ms + batch.run_ms + batch.store_ms + batch.commit_ms for batch in batches)
            return (ended_ms - started_ms) / 1_000

    runs = [(continuous(), in_batches()) for _ in range(repeats)]
    alone: float = statistics.median(run[0] for run in runs)
    batched: float = statistics.median(run[1] for run in runs)
    kept = alone / batched >= MIN_SHARE
    peer = seconds_of_peer(name, files)
    print(
        f"{name:4}  {alone:.2f} s continuously, {batched:.2f} s in batches: {alone / batched:.0%}; "
        f"{peer:.2f} s in plain Structured Streaming: {peer / batched:.1f} times as fast",
        flush=True,
    )
    return kept and peer / batched >= MIN_AHEAD


def seconds_of_peer(name: str, files: NexmarkFiles) -> float:
    """Return the time of a batch of plain Structured Streaming: the second one of a process."""
    paths = [str(path) for path in (files.persons, files.auctions, files.bids)]
    command = [sys.executable, str(PEER), name, *paths, str(SLOTS), "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds[-1]


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=40, help="small batches that are measured; 0: none")
    parser.add_argument("--events", type=int, default=10_000_000, help="of Nexmark")
    parser.add_argument("--queries", nargs="*", default=QUERIES, choices=QUERIES)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each query")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "tidemark-bench-data")
    given = parser.parse_args()
    checks: list[Callable[[], bool]] = []
    if given.batches:
        checks.append(functools.partial(check_fixed_cost, given.batches))
    checks += [functools.partial(check_query, name, given.events, given.data, given.repeats) for name in given.queries]
    warm_up(SLOTS, "spark", SETTINGS)
    kept = [check() for check in checks]
    CPU_PATH.unlink(missing_ok=True)
    print(
        f"limits: {MAX_BATCH_S:g} s, {MAX_CPU_S:g} s of CPU above the bare query, {MIN_SHARE:.0%} of a continuous job, "
        f"{MIN_AHEAD:g} times as fast as plain Structured Streaming"
    )
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
