"""Peeks at jobs on a MiniCluster: rows and marks of a chained edge, of one between chains and of a side output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.common.watermark_strategy import TimestampAssigner
from runtime.connectors import BlackHoleSink
from runtime.connectors.datagen import DataGeneratorSource
from runtime.core.ids import OperatorId
from runtime.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from runtime.execution.mini_cluster import MiniCluster
from runtime.jobmaster.job_state import JobState
from runtime.jobmaster.peeks import PeekRequest, PeekView
from runtime.task.slot import Slot
from runtime.testing.clock import ManualClock
from tests.datastream.running import PARALLELISMS, environment
from tests.execution.jobs import HOOKS, Hooked, cluster_of, step_until

ODD = OutputTag("odd", Types.LONG())
SLOW_RESTART = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 s"}


@pytest.fixture(autouse=True)
def fresh_hooks() -> Iterator[None]:
    HOOKS.clear()
    yield
    HOOKS.clear()


class OwnTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return 1_000 * int(value)


class Split(ProcessFunction):
    """Each number; the negatives of odd ones to a side output."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value
        if value % 2:
            yield ODD, -value


def doubled(value: int) -> int:
    return 2 * value


def program(parallelism: int, options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """numbers → double → split, all in one chain; behind it two edges: the main output and the odd ones."""
    env = environment(parallelism, options)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OwnTime())
    source = DataGeneratorSource(lambda index: index, None, 100.0, Types.LONG())
    numbers = env.from_source(source, strategy, "numbers").map(Hooked(), Types.LONG()).name("work")
    split = (
        numbers.map(doubled, Types.LONG())
        .name("double")
        .map(lambda n: n // 2, Types.LONG())
        .process(Split(), Types.LONG())
    )
    split.rebalance().map(abs, Types.LONG()).name("all").sink_to(BlackHoleSink())
    split.get_side_output(ODD).rebalance().map(abs, Types.LONG()).name("odd").sink_to(BlackHoleSink())
    return env


class Peeked:
    """A running job, and a peek at one of its edges."""

    def __init__(self, env: StreamExecutionEnvironment) -> None:
        self.graph = env.create_job_graph("job")
        self.clock = ManualClock(1_000_000)
        self.cluster: MiniCluster = cluster_of(env, self.clock)
        self.step_until_running()

    def step_until_running(self) -> None:
        step_until(self.cluster, lambda: self.cluster.driver.status().state is JobState.RUNNING)
        self.cluster.step()

    def edge_to(self, name: str) -> int:
        [edge] = [e for e in self.graph.edges if self.graph.vertex(e.target).head.name == name]
        return edge.edge_id

    def chained_to(self, name: str) -> OperatorId:
        [found] = [o for v in self.graph.vertices for o in v.operators if o.name == name]
        return found.operator_id

    def renew(self, edge: int | OperatorId) -> None:
        self.cluster.driver.peek(PeekRequest("p", edge, (), 20, 30_000))

    @property
    def view(self) -> PeekView:
        [view] = self.cluster.driver.peeks.views()
        return view

    def run_for(self, ms: int) -> None:
        until_ms = self.clock.monotonic_ms() + ms
        step_until(self.cluster, lambda: self.clock.monotonic_ms() >= until_ms, limit=200_000)

    def of_kind(self, kind: str) -> list[Any]:
        return [element for _, element in self.view.elements if element.kind == kind]

    def rows(self) -> list[int]:
        return [json.loads(element.text) for element in self.of_kind("row")]


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_rows_of_each_kind_of_edge_are_seen_with_their_times(parallelism: int) -> None:
    for to, of in (("double", "chain"), ("all", "edge"), ("odd", "side output")):
        job = Peeked(program(parallelism))
        job.renew(job.chained_to(to) if of == "chain" else job.edge_to(to))
        job.run_for(5_000)
        rows = job.rows()
        assert 60 <= len(rows) <= 101, of
        assert job.view.num_rows > len(rows)
        assert {element.subtask for element in job.of_kind("row")} == set(range(parallelism))
        if of == "side output":
            assert all(n < 0 and n % 2 for n in rows)
        else:
            assert {n % 2 for n in rows} == {0, 1} and min(rows) >= 0
        assert all(element.timestamp == 1_000 * abs(json.loads(element.text)) for element in job.of_kind("row"))
        watermarks = [element.timestamp for element in job.of_kind("watermark") if element.subtask == 0]
        assert len(watermarks) > 3 and watermarks == sorted(watermarks)
        assert max(watermarks) <= 1_000 * max(map(abs, rows)) + 200_000


def test_barriers_are_seen_inside_a_chain_and_between_chains(tmp_path: Path) -> None:
    options = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": tmp_path.as_uri()}
    for is_chained in (True, False):
        job = Peeked(program(1, options))
        job.renew(job.chained_to("double") if is_chained else job.edge_to("all"))
        job.run_for(3_500)
        numbers = [int(element.text) for element in job.of_kind("barrier")]
        assert len(numbers) >= 2 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_peek_goes_on_behind_a_restart_with_the_next_renewal() -> None:
    job = Peeked(program(1, SLOW_RESTART))
    edge = job.edge_to("all")
    job.renew(edge)
    job.run_for(2_000)
    before = len(job.of_kind("row"))
    assert before

    def fail(value: int) -> int:
        HOOKS.pop("map")
        raise RuntimeError("once")

    HOOKS["map"] = fail
    step_until(job.cluster, lambda: job.cluster.driver.status().state is not JobState.RUNNING)
    job.step_until_running()
    job.run_for(500)
    job.renew(edge)
    job.run_for(2_000)
    assert len(job.of_kind("row")) > before + 10


def test_nothing_is_left_of_a_peek_whose_lease_is_over() -> None:
    job = Peeked(program(1))
    job.renew(job.edge_to("all"))
    job.run_for(29_000)
    slots = [slot for slot, _ in job.cluster._slots.slots.values() if isinstance(slot, Slot)]
    assert slots
    assert any(slot._peeks for slot in slots)
    job.run_for(2_000)
    assert job.cluster.driver.peeks.views() == []
    assert not any(slot._peeks for slot in slots)
    outputs = [o for slot in slots for t in slot._tasks.all for os in t.chain._outputs_of.values() for o in os]
    assert outputs and all(output.tap is None for output in outputs)
