"""Thousands of micro-batches of one job: files, memory and open files stay what they are after the first hundreds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from pyspark import SparkContext

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.connectors.blackhole import BlackHoleSink
from runtime.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from runtime.datastream.state import ValueStateDescriptor
from runtime.testing import MICRO_BATCH_ON_SPARK
from tests.checkpoint.running_jobs import JobClock, RunningJob
from tests.execution.test_micro_batch import num_batches
from tests.execution.test_spark_micro_batch import num_completed, start
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]

BATCHES, WARM = 2_000, 500
"""By the end, and before anything is measured: caches fill, the JVM compiles."""
MB = 1 << 20
TIMEOUT_S = 7_000.0


class Count(KeyedProcessFunction):
    """Counts the records of each key."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[int]:
        self._count.update((self._count.value() or 0) + 1)
        yield self._count.value()


def build(env: StreamExecutionEnvironment) -> None:
    """Count numbers by key, for ever."""
    numbers = env.from_source(NumberSequenceSource(0, 1 << 40), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.uid("numbers").key_by(lambda n: n % 100, Types.LONG()).process(Count(), Types.LONG()).uid("count")
    counted.sink_to(BlackHoleSink())


def options(checkpoints: Path, max_rows: int) -> dict[str, str]:
    return {
        "execution.mode": "micro-batch",
        "execution.micro-batch.max-rows": str(max_rows),
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "state.backend.type": "rocksdb",
    }


class Held(NamedTuple):
    """Counts what a process, its children that stay, and the checkpoints hold."""

    memory: int
    objects: int
    open_files: int
    files: int
    """Below the directory of checkpoints."""
    file_bytes: int
    heap: int
    """Bytes of live objects in Spark's JVM; 0: there is none."""


def held(checkpoints: Path, context: SparkContext | None = None) -> Held:
    gc.collect()
    this, heap = psutil.Process(), 0
    if context is not None:
        machine = context._jvm.java.lang
        machine.System.gc()
        heap = machine.Runtime.getRuntime().totalMemory() - machine.Runtime.getRuntime().freeMemory()
    found = [path.stat().st_size for path in checkpoints.rglob("*") if path.is_file()]
    return Held(this.memory_full_info().uss, len(gc.get_objects()), this.num_fds(), len(found), sum(found), int(heap))


def check(reach: Callable[[int], Held]) -> None:
    """Compare what is held after the first hundreds of batches and in the end."""
    early = reach(WARM)
    late = reach(BATCHES)
    print(early, late, sep="\n")
    # neither acknowledgements in slots stay, nor blocks of closed databases in RocksDB's cache (1.4 KB a batch, up to
    # its 256 MB); what moves is how full the allocator's pages are
    assert late.memory - early.memory < 8 * MB
    assert late.objects - early.objects < (BATCHES - WARM) // 2, "an object stays behind every other batch"
    assert late.open_files - early.open_files < 20
    # a database has a file more with every batch, until it compacts them
    assert late.files - early.files < 100
    assert late.file_bytes < 2 * early.file_bytes + MB
    assert late.heap - early.heap < 15 * MB


def test_two_thousand_batches_in_one_process_leave_nothing_behind(tmp_path: Path) -> None:
    job = RunningJob(build, JobClock(), 2, options(tmp_path, 4), None)

    def reach(target: int) -> Held:
        while num_batches(job) < target:
            job.cluster.step()
        return held(tmp_path)

    with job:
        check(reach)


@pytest.mark.spark
def test_two_thousand_batches_on_spark_leave_nothing_behind(tmp_path: Path) -> None:
    client = start(build, MICRO_BATCH_ON_SPARK, 2, options(tmp_path, 1))

    def reach(target: int) -> Held:
        wait_until(lambda: num_completed(client) >= target, TIMEOUT_S, f"{target} batches")
        return held(tmp_path, SparkContext._active_spark_context)

    try:
        check(reach)
    finally:
        client.cancel().result(60)
