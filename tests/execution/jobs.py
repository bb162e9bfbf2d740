"""Small jobs for the tests of MiniCluster and of application mode, and how they are run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import BlackHoleSink, NumberSequenceSource
from runtime.connectors.datagen import DataGeneratorSource
from runtime.datastream import DataStream, MapFunction, RuntimeContext, StreamExecutionEnvironment
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.client_outputs import ClientOutputs
from runtime.jobmaster.status import JobStatusSnapshot
from runtime.testing.clock import ManualClock
from tests.datastream.running import environment
from tests.job_runs import record_run

#: what functions of a test do when they are called; keyed by the test's own names
HOOKS: dict[str, Callable[[Any], Any]] = {}


class Hooked(MapFunction):
    """Calls HOOKS["map"] with each record and HOOKS["open"] with the context, if the test has set them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        if "open" in HOOKS:
            HOOKS["open"](runtime_context)

    def map(self, value: Any) -> Any:
        return HOOKS["map"](value) if "map" in HOOKS else value


def hooked_tick(value: int) -> int:
    """Calls HOOKS["tick"]; as Hooked, for a second place in a job."""
    HOOKS["tick"](value)
    return value


def numbers(env: StreamExecutionEnvironment, count: int) -> DataStream:
    """1..count."""
    return env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers")


def ticks(env: StreamExecutionEnvironment, per_second: float, count: int | None = None) -> DataStream:
    """0, 1, … at a rate; without an end if there is no count."""
    source = DataGeneratorSource(lambda index: index, count, per_second, Types.LONG())
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "ticks")


def endless_job(parallelism: int = 1) -> StreamExecutionEnvironment:
    """A job that runs until it is cancelled."""
    env = environment(parallelism)
    ticks(env, 10.0).rebalance().map(Hooked(), Types.LONG()).name("work").sink_to(BlackHoleSink())
    return env


def cluster_of(env: StreamExecutionEnvironment, clock: ManualClock | None = None) -> MiniCluster:
    """The environment's job, ready to be stepped by the test."""
    record_run("mini-cluster")
    return MiniCluster(env.create_job_graph("job"), ClientOutputs(), clock or ManualClock(1_000_000))


def run(env: StreamExecutionEnvironment, clock: ManualClock | None = None) -> JobStatusSnapshot:
    """Run the job to its end, however that is."""
    cluster = cluster_of(env, clock)
    cluster.run()
    return cluster.driver.status()


def step_until(cluster: MiniCluster, condition: Callable[[], bool], limit: int = 10_000) -> None:
    """Step until the condition holds."""
    for _ in range(limit):
        if condition():
            return
        cluster.step()
    raise AssertionError("it did not come to that")
