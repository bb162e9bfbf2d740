"""Jobs with one cause planted in each, and what is found out about one while it runs on a MiniCluster.

What a function costs is `takes`: it moves a manual clock, or sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock
from runtime.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.bottleneck import BottleneckWatch
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.event_time import EventTime, EventTimeWatch, hold_of
from runtime.jobmaster.findings import Finding
from runtime.jobmaster.task_figures import FigureReader
from runtime.operators.sink import SinkWriter, WriterContext
from runtime.operators.source import ReadStatus, SplitReader
from tests.datastream.running import environment
from tests.job_runs import record_run

WITHIN_MS = 10_000.0
SAMPLE_MS = 500.0
HALF = 50_000
CONTAINER_BYTES = 1 << 30
HOARDED_BYTES = 1280 << 10
"""Of each record."""
#: else what has been queued before the cause shows keeps everybody busy for the first seconds
SMALL_QUEUES = {"taskmanager.network.memory.channel-window": "16 kb"}

#: how long something takes: moves the manual clock, or sleeps
TAKES: list[Callable[[float], None]] = []


def takes(ms: float) -> None:
    TAKES[-1](ms)


def slow(value: Any) -> Any:
    takes(2)
    return value


class Container:
    """The control group of a container, as the kernel shows it; the slot reads these files.

    Args:
        directory: of the group.
    """

    def __init__(self, directory: Path) -> None:
        self._stat = directory / "memory.stat"
        (directory / "memory.max").write_text(str(CONTAINER_BYTES))
        self._used = 200 << 20
        self.fill(0)

    def fill(self, num_bytes: int) -> None:
        self._used += num_bytes
        self._stat.write_text(f"anon {self._used}\nfile 7\n")


CONTAINERS: list[Container] = []


def hoard(value: Any) -> Any:
    """Keep something of each record for ever."""
    CONTAINERS[-1].fill(HOARDED_BYTES)
    takes(0.5)
    return value


def numbers(env: StreamExecutionEnvironment, per_second: float = 50_000) -> DataStream:
    source = DataGeneratorSource(lambda n: (n, n), None, per_second, Types.TUPLE([Types.LONG(), Types.LONG()]))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    return env.from_source(source, strategy, "numbers")


class SlowSink(BlackHoleSink):
    def create_writer(self, context: WriterContext, restored: Sequence[Any]) -> SinkWriter:
        writer = super().create_writer(context, restored)
        write = writer.write

        def slowly(batch: RecordBatch) -> None:
            takes(2.0 * batch.num_rows)
            write(batch)

        writer.write = slowly  # type: ignore[method-assign]
        return writer


class Service(AsyncFunction):
    """Answers after a while."""

    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep(0.05)
        return [value]


class Partitions(IndexSource):
    """Two splits for each subtask, of which all but the first have nothing to read."""

    splits_at_once = 2

    def produced_type(self) -> None:
        return None

    def generate(self, start: int, stop: int) -> RecordBatch:
        takes(1)
        return RecordBatch.of_values([(n, n) for n in range(start, stop)])

    def create_enumerator(self, parallelism: int, restored: Any | None) -> Any:
        return super().create_enumerator(2 * parallelism, restored)

    def create_reader(self, split: Any, position: Any | None, context: Any) -> SplitReader:
        reader = super().create_reader(split, position, context)
        if split.start > 0:
            reader.read = lambda max_rows: ReadStatus.NOTHING_YET  # type: ignore[method-assign]
            reader.next_read_ms = lambda: None  # type: ignore[method-assign]
        return reader


class LatePartitions(IndexSource):
    """Two partitions of one subtask, which takes them in turn; the times of the second are a minute behind."""

    splits_at_once = 2

    def produced_type(self) -> None:
        return None

    def generate(self, start: int, stop: int) -> RecordBatch:
        takes(1)
        first = start % HALF
        behind_ms = 0 if start < HALF else 60_000
        return RecordBatch.of_values([(n, n * 10 - behind_ms) for n in range(first, first + stop - start)])

    def create_enumerator(self, parallelism: int, restored: Any | None) -> Any:
        return super().create_enumerator(2 * parallelism, restored)


def slow_map(env: StreamExecutionEnvironment) -> None:
    numbers(env).rebalance().map(slow).name("slow").rebalance().map(lambda pair: pair).sink_to(BlackHoleSink())


def hot_key(env: StreamExecutionEnvironment) -> None:
    keyed = numbers(env).key_by(lambda pair: pair[0] if pair[0] % 10 == 0 else "hot", Types.PICKLED_BYTE_ARRAY())
    keyed.map(slow).name("keyed").sink_to(BlackHoleSink())


def slow_sink(env: StreamExecutionEnvironment) -> None:
    numbers(env).rebalance().map(lambda pair: pair).rebalance().sink_to(SlowSink()).name("target")


def outside(env: StreamExecutionEnvironment) -> None:
    asked = AsyncDataStream.unordered_wait(numbers(env).rebalance(), Service(), Time.seconds(60), 4)
    asked.name("ask").rebalance().map(lambda pair: pair).sink_to(BlackHoleSink())


def small_slots(env: StreamExecutionEnvironment) -> None:
    """Four tasks that all work, and one slot for them."""
    stream = numbers(env)
    for name in ("one", "two", "three"):
        stream = stream.rebalance().map(slow).name(name)
    stream.rebalance().map(slow).name("four").sink_to(BlackHoleSink())


def late_partition(env: StreamExecutionEnvironment) -> None:
    """Half of the records are a minute older than the watermark, which the other partition raises."""
    read = env.from_source(LatePartitions(100_000, 1_000), WatermarkStrategy.no_watermarks(), "partitions")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    timed = read.rebalance().assign_timestamps_and_watermarks(strategy)
    windows = timed.key_by(lambda pair: pair[0] % 3).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    windows.reduce(lambda a, b: b).name("windows").sink_to(BlackHoleSink())


def memory(env: StreamExecutionEnvironment) -> None:
    numbers(env, 200).map(hoard).name("hoarder").sink_to(BlackHoleSink())


def idle_partition(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[1])
    read = env.from_source(Partitions(100_000, 1_000), strategy, "partitions")
    windows = read.key_by(lambda pair: pair[0] % 3).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    windows.reduce(lambda a, b: b).sink_to(BlackHoleSink())


def healthy(env: StreamExecutionEnvironment) -> None:
    numbers(env, 100).rebalance().map(slow).name("slow").sink_to(BlackHoleSink())


class Diagnosed:
    """A job with what is found out about it.

    Args:
        program: builds the job.
        parallelism: of all its vertices.
        clock: a manual one, or the machine's.
    """

    def __init__(self, program: Callable[[StreamExecutionEnvironment], None], parallelism: int, clock: Any) -> None:
        env = environment(parallelism, SMALL_QUEUES)
        program(env)
        record_run("mini-cluster")
        self.graph = env.create_job_graph("job")
        self.clock: Clock = clock
        self.cluster = MiniCluster(self.graph, ClientOutputs(), clock)
        self.event_time = EventTime()
        self._figures = FigureReader(self.graph)
        self._bottlenecks, self._event_time = BottleneckWatch(), EventTimeWatch()

    def findings(self) -> list[Finding]:
        """Run for the time between two samples; returns what is found then."""
        until = self.clock.monotonic_ms() + SAMPLE_MS
        while self.clock.monotonic_ms() < until:
            self.cluster.step()
        figures = self._figures.read(self.cluster.driver.status(), self.clock.monotonic_ms(), self.clock.now_ms())
        self.event_time = self._event_time.observe(figures)
        hold = hold_of(self.event_time)
        return [*self._bottlenecks.observe(figures), *([] if hold is None else [hold])]

    def until_named(self) -> Finding:
        """Run until something is found, for at most ten seconds of the job's time."""
        while self.clock.monotonic_ms() < WITHIN_MS:
            for finding in self.findings():
                return finding
        raise AssertionError("nothing was named within ten seconds")

    def name_of(self, finding: Finding) -> str:
        return next(v.name for v in self.graph.vertices if v.vertex_id == finding.vertex_id)

    def end(self) -> None:
        self.cluster.cancel()
        self.cluster.run()


#: program, parallelism, cause, and in whose name it is found
PLANTED = [
    (slow_map, 1, "busy", "slow"),
    (hot_key, 2, "skew", "keyed"),
    (slow_sink, 1, "slow-sink", "target"),
    (idle_partition, 1, "idle-input", "partitions"),
    (late_partition, 1, "late-data", "windows"),
    (small_slots, 1, "busy", ""),
    (memory, 1, "memory", "hoarder"),
]
