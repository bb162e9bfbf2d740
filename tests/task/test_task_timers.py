"""However many timers a watermark makes due, they hold up nothing: they fire in slices, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.common import Row, Types, WatermarkStrategy
from runtime.common.time import Time
from runtime.connectors import DataGeneratorSource
from runtime.core.checkpoint_options import Alignment
from runtime.core.elements import MAX_WATERMARK
from runtime.datastream import (
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from runtime.datastream.state import ValueStateDescriptor
from runtime.datastream.window import TumblingEventTimeWindows
from runtime.task.messages import CancelTasks, TaskState
from runtime.task.task import Task
from tests.task.checkpoint_rig import CheckpointRig
from tests.task.rigs import SlotRig, environment
from tests.task.test_task_checkpoints import OUT, ListSink

KEYS = 100
RECORDS = 40 * KEYS
"""Far more than have been read when the timers fire."""
PER_SLICE = 10
BACKENDS = ("hashmap", "rocksdb")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    OUT.clear()
    yield
    OUT.clear()


class Remind(KeyedProcessFunction):
    """Registers one timer for each key, all at the same time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        if value < KEYS:
            ctx.timer_service().register_event_time_timer(KEYS)
        elif value > KEYS:
            # behind the watermark that has made the timers due
            yield "late", value, self.seen.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield "timer", ctx.get_current_key(), ctx.timer_service().current_watermark()


class Tell(ProcessWindowFunction):
    """The key of a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield "window", key, len(list(elements))


class Note(MapFunction):
    """An operator behind the one with the timers, in its chain."""

    def map(self, value: Any) -> Any:
        return (*value, "noted")


def reminding(backend: str = "hashmap", options: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """KEYS timers at one watermark, and many records behind it."""
    env = environment(
        1,
        {
            "python.fn-execution.bundle.size": str(PER_SLICE),
            "pipeline.auto-watermark-interval": "0 ms",
            "execution.buffer-timeout.interval": "0 ms",
            "state.backend.type": backend,
            **(options or {}),
        },
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value + 1)
    numbers = env.from_source(DataGeneratorSource(lambda index: index, count=RECORDS), strategy, "numbers")
    numbers.key_by(lambda value: value % KEYS, Types.LONG()).process(Remind()).map(Note()).sink_to(ListSink())
    return env


def keyed_task(rig: SlotRig) -> Task:
    return rig.task(1)


def step_until_firing(rig: SlotRig) -> Task:
    task = keyed_task(rig)
    for _ in range(1000):
        if task.chain.head.is_firing():
            return task
        rig.step()
    raise AssertionError("no timer was left of a slice")


def timers_in(out: list[Any]) -> list[Any]:
    return [value[1] for value in out if value[0] == "timer"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_due_timers_fire_a_slice_a_step_before_what_lies_behind_the_watermark(backend: str, tmp_path: Path) -> None:
    rig = SlotRig(reminding(backend, {"io.tmp.dirs": str(tmp_path)})).start()
    task = step_until_firing(rig)
    assert 0 < len(OUT) <= PER_SLICE
    watermark = task.chain.output_watermark
    slices = 0
    while task.chain.head.is_firing():
        before = len(OUT)
        task.step()
        slices += 1
        assert len(OUT) - before <= PER_SLICE
        assert task.chain.output_watermark == watermark or not task.chain.head.is_firing()
    assert slices >= KEYS / PER_SLICE - 1
    assert sorted(timers_in(OUT)) == list(range(KEYS))
    assert not [value for value in OUT if value[0] == "late"]
    assert task.chain.output_watermark >= KEYS
    rig.run()
    assert len(OUT) == RECORDS - 1
    assert [value[1] for value in OUT if value[0] == "late"] == list(range(KEYS + 1, RECORDS))
    assert {value[3] for value in OUT} == {"noted"}
    rig.release()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unaligned_barrier_overtakes_timers_that_have_not_fired(backend: str, tmp_path: Path) -> None:
    options = {"execution.checkpointing.unaligned.enabled": "true", "io.tmp.dirs": str(tmp_path)}
    rig = CheckpointRig(reminding(backend, options), tmp_path).start()
    task = step_until_firing(rig)
    rig.trigger(1, alignment=Alignment.UNALIGNED)
    rig.step_until(lambda: rig.is_acknowledged(1))
    # as at the barrier: a step may lie between it and the acknowledgement
    assert task.chain.head.is_firing()
    metadata = rig.metadata(1)
    assert len(timers_in(OUT)) < KEYS
    rig.release()
    fired_before = set(timers_in(OUT))
    OUT.clear()
    restored = CheckpointRig(reminding(backend, options), tmp_path, metadata).start()
    # before it is given anything
    assert keyed_task(restored).chain.head.is_firing()
    restored.step_until(restored.all_finished)
    fired_after = timers_in(OUT)
    # what fired after the snapshot fires again, in the attempt that goes on from there
    assert set(fired_after) | fired_before == set(range(KEYS))
    assert len(fired_after) == len(set(fired_after)) < KEYS
    late = [value for value in OUT if value[0] == "late"]
    assert sorted(value[1] for value in late) == list(range(KEYS + 1, RECORDS))
    first_late = OUT.index(late[0])
    assert all(value[0] == "timer" for value in OUT[:first_late])
    assert first_late == len(fired_after)
    restored.release()


def test_timers_wait_while_the_output_has_no_room() -> None:
    env = environment(1, {"python.fn-execution.bundle.size": str(PER_SLICE), "execution.buffer-timeout.interval": "0"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    numbers = env.from_source(DataGeneratorSource(lambda index: index, count=KEYS), strategy, "numbers")
    windows = numbers.key_by(lambda value: value, Types.LONG()).window(
        TumblingEventTimeWindows.of(Time.milliseconds(1 << 20))
    )
    windows.process(Tell()).rebalance().map(Note()).sink_to(ListSink())
    rig = SlotRig(env, window_bytes=500).start()
    task = step_until_firing(rig)
    consumer = rig.task(2)
    while task.step():
        pass
    assert task.chain.head.is_firing()
    assert not task.chain.is_available()
    assert not task.has_work()
    [writer] = task._writers
    # a slice may overdraw; nothing more is added to it
    overdraft = writer.overdraft_bytes
    fired = task.chain.head.num_fired_timers()
    assert fired < KEYS
    for _ in range(50):
        assert not task.step()
    assert (writer.overdraft_bytes, task.chain.head.num_fired_timers()) == (overdraft, fired)
    while consumer.step():
        pass
    assert task.has_work()
    rig.run()
    assert len(OUT) == KEYS
    rig.release()


def test_timers_of_processing_time_wait_for_room_and_for_their_turn() -> None:
    class Wake(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
            ctx.timer_service().register_processing_time_timer(ctx.timer_service().current_processing_time() + 5)

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
            yield "timer", ctx.get_current_key()

    env = environment(1, {"python.fn-execution.bundle.size": str(PER_SLICE)})
    source = DataGeneratorSource(lambda index: index, count=KEYS + 1, rows_per_second=KEYS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda value: value, Types.LONG()).process(Wake()).sink_to(ListSink())
    rig = SlotRig(env).start()
    rig.run()
    for _ in range(2000):
        rig.clock.advance(1)
        before = len(OUT)
        rig.slot.step()
        assert len(OUT) - before <= 2 * PER_SLICE
    assert len(set(OUT)) == len(OUT) >= KEYS
    rig.release()


def test_a_job_is_cancelled_between_two_slices() -> None:
    rig = SlotRig(reminding()).start()
    step_until_firing(rig)
    rig.tell(CancelTasks())
    assert len(OUT) < KEYS
    assert TaskState.CANCELED in rig.states()
    before = len(OUT)
    rig.run()
    assert len(OUT) == before
    rig.release()


def test_windows_of_many_keys_end_in_slices_at_the_end_of_the_input() -> None:
    env = environment(1, {"python.fn-execution.bundle.size": str(PER_SLICE)})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    numbers = env.from_source(DataGeneratorSource(lambda index: index, count=KEYS), strategy, "numbers")
    typed = numbers.map(lambda value: Row(value), Types.ROW_NAMED(["key"], [Types.LONG()]))
    windows = typed.key_by_columns("key").window(TumblingEventTimeWindows.of(Time.milliseconds(1 << 20)))
    windows.aggregate_columns("count(*) AS n").sink_to(ListSink())
    rig = SlotRig(env).start()
    task = rig.task(1)
    most = 0
    while task.state is not TaskState.FINISHED:
        before = len(OUT)
        rig.step()
        most = max(most, len(OUT) - before)
    assert 0 < most <= PER_SLICE
    assert len(OUT) == KEYS
    assert task.chain.output_watermark == MAX_WATERMARK
    rig.release()
