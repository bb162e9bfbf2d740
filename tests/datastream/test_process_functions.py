"""ProcessFunction and KeyedProcessFunction: state, event-time timers, side outputs, at parallelism 1 and 3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common import Types
from runtime.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, RuntimeContext, TimeDomain
from runtime.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from runtime.execution.errors import JobExecutionError
from tests.datastream.running import (
    ROW_BY_ROW,
    at_each_parallelism,
    environment,
    row_by_row,
    sorted_values_of,
    values_of,
)

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
ODD = OutputTag("odd", Types.STRING())
LARGE = OutputTag("large")


class Split(ProcessFunction):
    """Even numbers; odd ones as text and large ones doubled as side outputs."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield ODD, str(value)
        else:
            yield value
        if value > 3:
            yield LARGE, value * 2


class Stamps(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value[0], ctx.timestamp(), ctx.timer_service().current_watermark()


@at_each_parallelism
def test_side_outputs_take_what_is_emitted_with_their_tag(parallelism: int) -> None:
    numbers = environment(parallelism).from_collection(list(range(6)), Types.INT())
    split = numbers.process(Split(), Types.INT())
    assert sorted_values_of(split) == [0, 2, 4]
    assert sorted_values_of(split.get_side_output(ODD)) == ["1", "3", "5"]
    assert sorted_values_of(split.get_side_output(LARGE).map(lambda value: value + 1)) == [9, 11]


@at_each_parallelism
def test_main_and_side_output_can_be_put_together_again(parallelism: int) -> None:
    split = environment(parallelism).from_collection(list(range(6)), Types.INT()).process(Split())
    texts = split.map(str, Types.STRING()).union(split.get_side_output(ODD))
    assert sorted_values_of(texts.map(lambda value: value)) == ["0", "1", "2", "3", "4", "5"]


def test_a_side_output_that_nobody_takes_is_dropped() -> None:
    split = environment().from_collection([1, 2, 5], Types.INT()).process(Split())
    assert values_of(split) == [2]


def test_a_process_function_sees_event_time_and_the_watermark_behind_each_record() -> None:
    events = environment(1, ROW_BY_ROW).from_collection([("a", 10), ("b", 5), ("c", 20)], EVENT)
    stamped = events.assign_timestamps_and_watermarks(row_by_row()).process(Stamps())
    assert values_of(stamped) == [("a", 10, -(2**63)), ("b", 5, 9), ("c", 20, 9)]


def test_without_event_times_the_timestamp_is_flinks_least() -> None:
    stamped = environment().from_collection([("a", 10)], EVENT).process(Stamps())
    assert values_of(stamped) == [("a", -(2**63), -(2**63))]


class Remember(KeyedProcessFunction):
    """Value, list and map state of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times", Types.LONG(), Types.INT()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        key, number = value
        assert ctx.get_current_key() == key
        before = self.last.value()
        if number == 0:
            self.last.clear()
            self.all.clear()
            self.times.clear()
        else:
            self.last.update(number)
            self.all.add(number)
            self.times.put(number, (self.times.get(number) or 0) + 1)
        yield key, before, list(self.all.get() or ()), dict(self.times.items())


@at_each_parallelism
def test_state_belongs_to_the_key(parallelism: int) -> None:
    events = [("a", 3), ("b", 5), ("a", 3), ("a", 0), ("b", 6), ("a", 7)]
    keyed = environment(parallelism).from_collection(events, EVENT).key_by(lambda event: event[0])
    seen = values_of(keyed.process(Remember()))
    assert [entry for entry in seen if entry[0] == "a"] == [
        ("a", None, [3], {3: 1}),
        ("a", 3, [3, 3], {3: 2}),
        ("a", 3, [], {}),
        ("a", None, [7], {7: 1}),
    ]
    assert [entry for entry in seen if entry[0] == "b"] == [("b", None, [5], {5: 1}), ("b", 5, [5, 6], {5: 1, 6: 1})]


class Timers(KeyedProcessFunction):
    """Sets timers 10 and 20 ms behind each record, the second only once per key and then deletes it for key "b"."""

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        timers = ctx.timer_service()
        timestamp = ctx.timestamp()
        assert timestamp is not None
        timers.register_event_time_timer(timestamp + 10)
        timers.register_event_time_timer(timestamp + 10)
        timers.register_event_time_timer(timestamp + 20)
        if value[0] == "b":
            timers.delete_event_time_timer(timestamp + 20)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert ctx.timestamp() == timestamp
        yield "timer of " + ctx.get_current_key(), timestamp


@at_each_parallelism
def test_event_time_timers_fire_once_each_in_time_order(parallelism: int) -> None:
    events = environment(parallelism, ROW_BY_ROW).from_collection([("a", 100), ("b", 105), ("a", 200)], EVENT)
    timed = events.assign_timestamps_and_watermarks(row_by_row()).set_parallelism(1)
    keyed = timed.key_by(lambda event: event[0], Types.STRING())
    fired = values_of(keyed.process(Timers(), EVENT))
    assert [event for event in fired if event[0].endswith("a")] == [
        ("a", 100),
        ("a", 200),
        ("timer of a", 110),
        ("timer of a", 120),
        ("timer of a", 210),
        ("timer of a", 220),
    ]
    assert [event for event in fired if event[0].endswith("b")] == [("b", 105), ("timer of b", 115)]


class RegisterInTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[int]:
        yield timestamp
        if timestamp < 50:
            ctx.timer_service().register_event_time_timer(timestamp + 20)


def test_a_timer_may_set_the_next_one() -> None:
    events = environment().from_collection([("a", 10)], EVENT).assign_timestamps_and_watermarks(row_by_row())
    assert values_of(events.key_by(lambda event: event[0]).process(RegisterInTimer())) == [10, 30, 50]


class SplitKeyed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(1_000)
        yield ODD, value[0]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ODD, f"{ctx.get_current_key()} at {timestamp}"


@at_each_parallelism
def test_timers_and_records_may_emit_to_side_outputs(parallelism: int) -> None:
    events = environment(parallelism).from_collection([("a", 1), ("b", 2)], EVENT)
    keyed = events.assign_timestamps_and_watermarks(row_by_row()).key_by(lambda event: event[0])
    side = keyed.process(SplitKeyed()).get_side_output(ODD)
    assert sorted_values_of(side) == ["a", "a at 1000", "b", "b at 1000"]


class TimerWithoutKey(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1)


class StateWithoutKey(ProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        pass


@pytest.mark.parametrize("function", [TimerWithoutKey(), StateWithoutKey()], ids=["timer", "state"])
def test_timers_and_state_need_a_key(function: ProcessFunction) -> None:
    with pytest.raises(JobExecutionError, match=r"key_by\(\)"):
        values_of(environment().from_collection([1]).process(function))


class Life(ProcessFunction):
    """Tells what a function learns of its surroundings."""

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().counter("opened").inc()
        self.about = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
            runtime_context.get_max_number_of_parallel_subtasks(),
            runtime_context.get_attempt_number(),
            runtime_context.get_job_parameter("who", "nobody"),
            runtime_context.get_job_parameter("what", "nothing"),
        )

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield self.about


def test_the_runtime_context_tells_a_function_where_it_runs() -> None:
    env = environment(3).set_max_parallelism(64)
    env.get_config().set_global_job_parameters({"who": "alice"})
    about = sorted_values_of(env.from_collection([1, 2, 3]).rebalance().process(Life()))
    assert about == [(subtask, 3, 64, 0, "alice", "nothing") for subtask in range(3)]
