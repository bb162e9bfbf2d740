"""Causes that are planted in real jobs on a MiniCluster: each is named within ten seconds, and a healthy job has none.

Time is a manual clock: what a function costs is how far it moves the clock. The slow tests do the same in real time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from runtime.common import Time, Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, DataGeneratorSource
from runtime.connectors.index_source import IndexSource
from runtime.core.batch import RecordBatch
from runtime.core.clock import Clock, SystemClock
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
from runtime.testing.clock import ManualClock
from tests.datastream.running import environment
from tests.job_runs import record_run

WITHIN_MS = 10_000.0
SAMPLE_MS = 500.0
#: else what has been queued before the cause shows keeps everybody busy for the first seconds
SMALL_QUEUES = {"taskmanager.network.memory.channel-window": "16 kb"}

#: how long something takes: moves the manual clock, or sleeps
TAKES: list[Callable[[float], None]] = []


def takes(ms: float) -> None:
    TAKES[-1](ms)


@pytest.fixture(autouse=True)
def costs() -> Iterator[None]:
    TAKES.clear()
    yield
    TAKES.clear()


def slow(value: Any) -> Any:
    takes(2)
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


PLANTED = [
    (slow_map, 1, "busy", "slow"),
    (hot_key, 2, "skew", "keyed"),
    (slow_sink, 1, "slow-sink", "target"),
    (idle_partition, 1, "idle-input", "partitions"),
]


@pytest.mark.parametrize(("program", "parallelism", "cause", "name"), PLANTED)
def test_a_planted_cause_is_named_within_ten_seconds(
    program: Callable[[StreamExecutionEnvironment], None], parallelism: int, cause: str, name: str
) -> None:
    clock = ManualClock(1_700_000_000_000)
    TAKES.append(clock.advance)
    job = Diagnosed(program, parallelism, clock)
    found = job.until_named()
    assert (found.cause.value, name in job.name_of(found)) == (cause, True), found
    if cause == "skew":
        assert found.subtask is not None
    if cause == "idle-input":
        assert (found.split, job.event_time.is_live) == ("50000-100000", False)
    else:
        assert job.graph.vertices[0].vertex_id in found.waiting, "the source waits for it"
    job.end()


def test_a_healthy_job_has_no_cause() -> None:
    clock = ManualClock(1_700_000_000_000)
    TAKES.append(clock.advance)
    job = Diagnosed(healthy, 1, clock)
    for _ in range(20):
        assert job.findings() == []
    job.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "parallelism", "cause", "name"), [*PLANTED, (outside, 1, "outside", "ask"), (healthy, 1, "", "")]
)
def test_a_planted_cause_is_named_within_ten_seconds_of_real_time(
    program: Callable[[StreamExecutionEnvironment], None], parallelism: int, cause: str, name: str
) -> None:
    TAKES.append(lambda ms: time.sleep(ms / 1000.0))
    job = Diagnosed(program, parallelism, SystemClock())
    began_ms = job.clock.monotonic_ms()
    found: list[Finding] = []
    while not found and job.clock.monotonic_ms() - began_ms < WITHIN_MS:
        found = job.findings()
    assert [(f.cause.value, name in job.name_of(f)) for f in found[:1]] == ([(cause, True)] if cause else []), found
    job.end()
