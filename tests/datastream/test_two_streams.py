"""Programs with two streams on a MiniCluster: connect, broadcast, joins, with event time from both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.common.watermark_strategy import WatermarkStrategy
from runtime.datastream import (
    CoMapFunction,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from runtime.datastream.data_stream import DataStreamError
from runtime.datastream.state import MapStateDescriptor
from runtime.datastream.window import TumblingEventTimeWindows
from tests.datastream.running import (
    ROW_BY_ROW,
    at_each_parallelism,
    environment,
    row_by_row,
    sorted_values_of,
    values_of,
)

EVENT = Types.TUPLE([Types.STRING(), Types.LONG()])
LEFT = [("a", 1), ("b", 2), ("a", 11), ("a", 31)]
RIGHT = [("a", 3), ("b", 4), ("a", 25)]
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
LATE = OutputTag("late", EVENT)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def key_of(event: tuple[str, int]) -> str:
    return event[0]


def both(env: StreamExecutionEnvironment, delay_ms: int = 50) -> tuple[DataStream, DataStream]:
    left = env.from_collection(LEFT, EVENT).assign_timestamps_and_watermarks(row_by_row(delay_ms))
    right = env.from_collection(RIGHT, EVENT).assign_timestamps_and_watermarks(row_by_row(delay_ms))
    return left.set_parallelism(1), right.set_parallelism(1)


class Sides(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "left", *value

    def map2(self, value: Any) -> Any:
        return "right", *value


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left, right, ctx.get_timestamp()


@at_each_parallelism
def test_connected_streams_of_different_types(parallelism: int) -> None:
    left, right = both(environment(parallelism))
    names = right.map(lambda event: (event[0],), Types.TUPLE([Types.STRING()]))
    expected = sorted([("left", *event) for event in LEFT] + [("right", event[0]) for event in RIGHT])
    assert sorted_values_of(left.connect(names).map(Sides())) == expected


class LastTimer(KeyedCoProcessFunction):
    """Tells in a timer what has come of either side."""

    def open(self, runtime_context: Any) -> None:
        self.seen: dict[str, list[Any]] = {}

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.seen.setdefault(ctx.get_current_key(), []).append(value[1])
        ctx.timer_service().register_event_time_timer(1_000)

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), sorted(self.seen[ctx.get_current_key()]), timestamp


@at_each_parallelism
def test_keys_of_both_streams_meet_in_one_subtask(parallelism: int) -> None:
    left, right = both(environment(parallelism))
    met = left.connect(right).key_by(key_of, key_of, Types.STRING()).process(LastTimer())
    assert sorted_values_of(met) == [("a", [1, 3, 11, 25, 31], 1_000), ("b", [2, 4], 1_000)]


def test_a_stream_may_be_connected_with_itself() -> None:
    numbers = environment().from_collection([1, 2], Types.INT())
    connected = numbers.map(lambda n: (n,)).connect(numbers.map(lambda n: (-n,)))
    assert sorted_values_of(connected.map(Sides())) == [("left", 1), ("left", 2), ("right", -2), ("right", -1)]


class Watermarks(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> None:
        return None

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield ctx.timestamp(), ctx.timer_service().current_watermark()


def test_an_input_without_watermarks_holds_event_time_back_until_it_ends() -> None:
    env = environment(1, ROW_BY_ROW)
    _, right = both(env, 0)
    silent = env.from_collection([1] * 100, Types.INT()).filter(lambda value: False)
    silent = silent.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks())
    seen = values_of(silent.connect(right).process(Watermarks()))
    assert [time for time, _ in seen] == [3, 4, 25]
    assert all(watermark in (-(2**63), time - 1, 3, 2, -1) for time, watermark in seen)


class Checking(KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        ctx.timer_service().register_event_time_timer(1_000)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield ctx.get_current_key(), rules.get(ctx.get_current_key()), len(list(rules.keys()))


@at_each_parallelism
def test_every_subtask_knows_the_rules_that_were_broadcast(parallelism: int) -> None:
    left, right = both(environment(parallelism))
    checked = left.key_by(key_of).connect(right.broadcast(RULES)).process(Checking())
    assert sorted_values_of(checked) == [("a", 25, 2), ("b", 4, 2)]


@at_each_parallelism
def test_window_join_and_co_group(parallelism: int) -> None:
    left, right = both(environment(parallelism))
    joined = left.join(right).where(key_of, Types.STRING()).equal_to(key_of, Types.STRING()).window(TEN)
    assert sorted_values_of(joined.apply(lambda first, second: (first, second))) == [
        (("a", 1), ("a", 3)),
        (("b", 2), ("b", 4)),
    ]
    left, right = both(environment(parallelism))
    grouped = left.key_by(key_of).co_group(right).where(key_of).equal_to(key_of).window(TEN)
    assert sorted_values_of(grouped.apply(lambda first, second: [(first, second)])) == [
        ([], [("a", 25)]),
        ([("a", 1)], [("a", 3)]),
        ([("a", 11)], []),
        ([("a", 31)], []),
        ([("b", 2)], [("b", 4)]),
    ]


@at_each_parallelism
def test_interval_join(parallelism: int) -> None:
    def joined(exclusive: bool) -> list[Any]:
        left, right = both(environment(parallelism))
        interval = left.key_by(key_of).interval_join(right.key_by(key_of)).between(Duration.of_millis(-8), 2)
        if exclusive:
            interval = interval.lower_bound_exclusive().upper_bound_exclusive()
        return sorted_values_of(interval.process(Pairs()))

    bounds = [(("a", 1), ("a", 3), 3), (("a", 11), ("a", 3), 11), (("b", 2), ("b", 4), 4)]
    assert joined(exclusive=False) == [*bounds[:2], (("a", 31), ("a", 25), 31), bounds[2]]
    assert joined(exclusive=True) == [(("a", 31), ("a", 25), 31)]


def test_late_records_of_an_interval_join_go_to_their_sides_output() -> None:
    env = environment(1, ROW_BY_ROW)
    events = env.from_collection([("a", 50), ("a", 10)], EVENT).assign_timestamps_and_watermarks(row_by_row())
    keyed = events.key_by(key_of)
    joined = keyed.interval_join(keyed).between(0, 0).side_output_left_late_data(LATE).process(Pairs())
    assert set(values_of(joined.get_side_output(LATE))) <= {("a", 10)}


@at_each_parallelism
def test_temporal_join(parallelism: int) -> None:
    left, right = both(environment(parallelism))
    joined = left.key_by(key_of).temporal_join(right.key_by(key_of)).process(Pairs())
    assert sorted_values_of(joined) == [(("a", 11), ("a", 3), 11), (("a", 31), ("a", 25), 31)]


def test_names_and_what_is_refused() -> None:
    env = environment()
    left, right = both(env)
    other = environment().from_collection([1])
    keyed = left.key_by(key_of)
    assert left.connect(right).map(Sides()).get_name() == "Co-Map"
    assert keyed.connect(right.key_by(key_of)).process(LastTimer()).get_name() == "Keyed Co-Process"
    assert keyed.connect(right.broadcast(RULES)).process(Checking()).get_name() == "Keyed-Co-Process-Broadcast"
    for action in (left.connect, left.join, left.co_group):
        with pytest.raises(DataStreamError, match="different environments"):
            action(other)
    with pytest.raises(TypeError, match="another keyed stream"):
        keyed.interval_join(right)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to be keyed"):
        left.connect(right).process(LastTimer())
    with pytest.raises(TypeError, match="CoMapFunction"):
        left.connect(right).map(lambda value: value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MapStateDescriptors"):
        left.broadcast("rules")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="must not be greater"):
        keyed.interval_join(right.key_by(key_of)).between(1, 0)
