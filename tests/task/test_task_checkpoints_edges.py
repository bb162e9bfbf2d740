"""Checkpoints over edges of every kind: unions, several inputs, broadcast and pointwise edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Types, WatermarkStrategy
from runtime.connectors import NumberSequenceSource
from runtime.core.checkpoint_options import Alignment
from runtime.datastream import (
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import MapStateDescriptor, ValueStateDescriptor
from runtime.graph.partitioning import Partitioning
from runtime.task.messages import TaskState
from tests.task import test_task_checkpoints as jobs
from tests.task.checkpoint_rig import CheckpointRig
from tests.task.rigs import environment

COUNT = 8_000
RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    jobs.OUT.clear()
    yield
    jobs.OUT.clear()


def numbers(env: StreamExecutionEnvironment, name: str, count: int = COUNT) -> DataStream:
    return env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), name).uid(name)


def key_of(value: int) -> int:
    return value % jobs.KEYS


class CountBoth(KeyedCoProcessFunction):
    """Emits (key, how many of it so far on both sides)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield key_of(value), count

    process_element2 = process_element1


class CountByRules(KeyedBroadcastProcessFunction):
    """Counts, and keeps every rule that it is told of."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield key_of(value), count

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value, (rules.get(value) or 0) + 1)
        yield "rule", rules.get(value)


def union(env: StreamExecutionEnvironment) -> DataStream:
    together = numbers(env, "one").union(numbers(env, "two"))
    return together.key_by(key_of, Types.LONG()).process(jobs.Count()).uid("count")


def two_inputs(env: StreamExecutionEnvironment) -> DataStream:
    one, two = numbers(env, "one"), numbers(env, "two")
    keyed = one.key_by(key_of, Types.LONG()).connect(two.key_by(key_of, Types.LONG()))
    return keyed.process(CountBoth()).uid("count")


def broadcast(env: StreamExecutionEnvironment) -> DataStream:
    rules = numbers(env, "rules", 500).broadcast(RULES)
    both = numbers(env, "one", 2 * COUNT).key_by(key_of, Types.LONG()).connect(rules)
    return both.process(CountByRules()).uid("count")


def pointwise(env: StreamExecutionEnvironment) -> DataStream:
    moved = numbers(env, "one", 2 * COUNT).map(lambda value: value, Types.LONG()).disable_chaining()
    return moved.rescale().key_by(key_of, Types.LONG()).process(jobs.Count()).uid("count")


def fan_out(env: StreamExecutionEnvironment) -> DataStream:
    source = numbers(env, "one")
    doubled = source.map(lambda value: value, Types.LONG()).disable_chaining()
    return doubled.union(source).key_by(key_of, Types.LONG()).process(jobs.Count()).uid("count")


Program = Callable[[StreamExecutionEnvironment], DataStream]


def program(build: Program, parallelism: int = 2) -> StreamExecutionEnvironment:
    settings = {"execution.checkpointing.interval": "1 h", "execution.buffer-timeout.interval": "0 ms"}
    env = environment(parallelism, settings)
    build(env).sink_to(jobs.ListSink()).uid("out")
    return env


def totals() -> dict[Any, int]:
    return {key: count for key, count in jobs.final_counts().items() if key != "rule"}


@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.UNALIGNED])
@pytest.mark.parametrize("build", [union, two_inputs, broadcast, pointwise, fan_out])
def test_records_of_all_edges_are_cut_at_the_same_place(tmp_path: Path, build: Program, alignment: Alignment) -> None:
    rig = CheckpointRig(program(build), tmp_path, window_bytes=3_000).start()
    for _ in range(5):
        rig.step()
    metadata = rig.checkpoint(1, alignment=alignment)
    assert not rig.all_finished()
    rig.step_until(rig.all_finished, 20_000)
    straight = totals()
    assert sum(straight.values()) == 2 * COUNT
    rig.release()

    aligned_only = {
        edge.edge_id
        for edge in rig.graph.edges
        if edge.partitioning.is_pointwise or edge.partitioning is Partitioning.BROADCAST
    }
    assert not aligned_only & {channel.edge_id for channel in metadata.channels}
    for parallelism in (2, 3):
        jobs.OUT.clear()
        again = CheckpointRig(program(build, parallelism), tmp_path, metadata).start()
        again.step_until(again.all_finished, 20_000)
        # every rule is told of once to each subtask
        assert {count for key, count in jobs.OUT if key == "rule"} <= {1}
        assert totals() == straight
        again.release()


def test_inputs_beside_a_broadcast_one_are_aligned_too(tmp_path: Path) -> None:
    rig = CheckpointRig(program(broadcast), tmp_path, window_bytes=3_000).start()
    for _ in range(5):
        rig.step()
    metadata = rig.checkpoint(1, alignment=Alignment.UNALIGNED)
    assert not [channel for channel in metadata.channels if not channel.is_output]
    rig.release()


def test_a_checkpoint_that_is_aborted_between_two_inputs_lets_both_go_on(tmp_path: Path) -> None:
    rig = CheckpointRig(program(two_inputs), tmp_path, window_bytes=3_000).start()
    for _ in range(5):
        rig.step()
    rig.trigger(1)
    for _ in range(3):
        rig.step()
    rig.abort(1)
    rig.checkpoint(2)
    rig.step_until(rig.all_finished, 20_000)
    assert sum(totals().values()) == 2 * COUNT
    rig.release()


@pytest.mark.parametrize("alignment", list(Alignment))
def test_a_source_that_has_ended_holds_no_checkpoint_up(tmp_path: Path, alignment: Alignment) -> None:
    def short_and_long(env: StreamExecutionEnvironment) -> DataStream:
        together = numbers(env, "short", 10).union(numbers(env, "long", 2 * COUNT - 10))
        return together.key_by(key_of, Types.LONG()).process(jobs.Count()).uid("count")

    rig = CheckpointRig(program(short_and_long), tmp_path, window_bytes=3_000).start()
    short = [task for slot in rig.slots.values() for task in slot._tasks.all if "short" in task.name]
    rig.step_until(lambda: all(task.state is TaskState.FINISHED for task in short))
    metadata = rig.checkpoint(1, alignment=alignment)
    assert not rig.all_finished()
    finished = [operator for operator in metadata.operators if operator.uid == "short"]
    assert [operator.finished for operator in finished] == [frozenset({0, 1})]
    rig.step_until(rig.all_finished, 20_000)
    straight = totals()
    rig.release()
    again = CheckpointRig(program(short_and_long), tmp_path, metadata).start()
    again.step_until(again.all_finished, 20_000)
    if alignment is not Alignment.AT_LEAST_ONCE:
        assert totals() == straight
    again.release()
