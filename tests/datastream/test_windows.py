"""Event-time windows through the API: reduce, aggregate, apply, process; lateness and the late side output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from runtime.common import Time, Types
from runtime.datastream import DataStream, OutputTag, StreamExecutionEnvironment, TimeWindow
from runtime.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from runtime.datastream.window import CountTrigger, SlidingEventTimeWindows, TumblingEventTimeWindows
from runtime.execution.errors import JobExecutionError
from tests.datastream.running import (
    ROW_BY_ROW,
    at_each_parallelism,
    environment,
    row_by_row,
    sorted_values_of,
    values_of,
)

Reading = tuple[str, int, int]
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
#: key, event time ms, value
READINGS: list[Reading] = [("a", 1000, 1), ("a", 4999, 2), ("b", 2000, 10), ("a", 5000, 3), ("b", 14_000, 20)]
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(5))
LATE = OutputTag("late", READING)


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Reading, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Describe(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, list(elements)


class Total(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Reading]) -> Iterator[Any]:
        yield key, window.start, sum(value for _, _, value in inputs)


class CountAll(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Any]) -> Iterator[Any]:
        yield window.start, len(list(inputs))


class KeysOfAll(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Reading]
    ) -> Iterator[Any]:
        yield context.window().end, sorted({key for key, _, _ in elements})


def add(one: Reading, two: Reading) -> Reading:
    return one[0], one[1], one[2] + two[2]


def timed(env: StreamExecutionEnvironment, readings: list[Reading] | None = None, delay_ms: int = 60_000) -> DataStream:
    source = env.from_collection(READINGS if readings is None else readings, READING)
    return source.assign_timestamps_and_watermarks(row_by_row(delay_ms))


@at_each_parallelism
def test_tumbling_windows_reduce_aggregate_apply_and_process(parallelism: int) -> None:
    windows = timed(environment(parallelism)).key_by(lambda reading: reading[0]).window(TUMBLING)
    assert sorted_values_of(windows.reduce(add)) == [
        ("a", 1000, 3),
        ("a", 5000, 3),
        ("b", 2000, 10),
        ("b", 14_000, 20),
    ]
    assert sorted_values_of(windows.aggregate(Mean(), output_type=Types.DOUBLE())) == [1.5, 3.0, 10.0, 20.0]
    assert sorted_values_of(windows.apply(Total())) == [("a", 0, 3), ("a", 5000, 3), ("b", 0, 10), ("b", 10_000, 20)]
    assert sorted_values_of(windows.process(Describe())) == [
        ("a", 0, 5000, [("a", 1000, 1), ("a", 4999, 2)]),
        ("a", 5000, 10_000, [("a", 5000, 3)]),
        ("b", 0, 5000, [("b", 2000, 10)]),
        ("b", 10_000, 15_000, [("b", 14_000, 20)]),
    ]


@at_each_parallelism
def test_a_window_function_behind_reduce_or_aggregate_is_given_the_one_result(parallelism: int) -> None:
    windows = timed(environment(parallelism)).key_by(lambda reading: reading[0]).window(TUMBLING)
    reduced = sorted_values_of(windows.reduce(add, Describe()))
    assert reduced[0] == ("a", 0, 5000, [("a", 1000, 3)])
    aggregated = sorted_values_of(windows.aggregate(Mean(), Describe()))
    assert aggregated[0] == ("a", 0, 5000, [1.5])
    assert len(reduced) == len(aggregated) == 4


@at_each_parallelism
def test_sliding_windows_take_each_record_as_often_as_they_overlap(parallelism: int) -> None:
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
    windows = timed(environment(parallelism)).key_by(lambda reading: reading[0]).window(sliding)
    assert sorted_values_of(windows.apply(Total())) == [
        ("a", -5000, 3),
        ("a", 0, 6),
        ("a", 5000, 3),
        ("b", -5000, 10),
        ("b", 0, 10),
        ("b", 5000, 20),
        ("b", 10_000, 20),
    ]


@at_each_parallelism
def test_windows_over_the_whole_stream_run_in_one_subtask(parallelism: int) -> None:
    windows = timed(environment(parallelism)).window_all(TUMBLING)
    assert values_of(windows.apply(CountAll())) == [(0, 3), (5000, 1), (10_000, 1)]
    assert values_of(windows.process(KeysOfAll())) == [(5000, ["a", "b"]), (10_000, ["a"]), (15_000, ["b"])]
    assert values_of(windows.reduce(add)) == [("a", 1000, 13), ("a", 5000, 3), ("b", 14_000, 20)]


LATE_READINGS: list[Reading] = [("a", 1000, 1), ("a", 9000, 2), ("a", 4000, 4), ("a", 12_000, 8), ("a", 4500, 16)]


@at_each_parallelism
def test_a_late_record_is_dropped_or_goes_to_the_late_side_output(parallelism: int) -> None:
    env = environment(parallelism, ROW_BY_ROW)
    readings = env.from_collection(LATE_READINGS, READING).assign_timestamps_and_watermarks(row_by_row())
    keyed = readings.set_parallelism(1).key_by(lambda reading: reading[0])
    sums = keyed.window(TUMBLING).reduce(add)
    assert [value[2] for value in values_of(sums)] == [1, 2, 8]
    with_late = keyed.window(TUMBLING).side_output_late_data(LATE).reduce(add)
    assert values_of(with_late.get_side_output(LATE)) == [("a", 4000, 4), ("a", 4500, 16)]


@at_each_parallelism
def test_within_the_allowed_lateness_a_window_fires_again(parallelism: int) -> None:
    env = environment(parallelism, ROW_BY_ROW)
    readings = env.from_collection(LATE_READINGS, READING).assign_timestamps_and_watermarks(row_by_row())
    keyed = readings.set_parallelism(1).key_by(lambda reading: reading[0])
    windows = keyed.window(TUMBLING).allowed_lateness(5000).side_output_late_data(LATE).reduce(add)
    assert [value[2] for value in values_of(windows)] == [1, 5, 2, 8]
    assert values_of(windows.get_side_output(LATE)) == [("a", 4500, 16)]


def test_a_trigger_replaces_the_assigners_own() -> None:
    keyed = timed(environment()).key_by(lambda reading: reading[0])
    assert values_of(keyed.window(TUMBLING).trigger(CountTrigger.of(2)).apply(Total())) == [("a", 0, 3)]


def test_an_offset_moves_the_windows() -> None:
    shifted = TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(1))
    windows = timed(environment()).window_all(shifted).apply(CountAll())
    assert values_of(windows) == [(1000, 4), (11_000, 1)]


def test_windows_need_event_times() -> None:
    readings = environment().from_collection(READINGS, READING)
    with pytest.raises(JobExecutionError, match="assign_timestamps_and_watermarks"):
        values_of(readings.key_by(lambda reading: reading[0]).window(TUMBLING).reduce(add))


def test_what_is_no_window_function_is_refused_at_once() -> None:
    windowed = timed(environment()).key_by(lambda reading: reading[0])
    with pytest.raises(TypeError, match="WindowAssigner"):
        windowed.window("5 s")  # type: ignore[arg-type]
    windows = windowed.window(TUMBLING)
    with pytest.raises(TypeError, match="AggregateFunction"):
        windows.aggregate(add)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="WindowFunction"):
        windows.apply(Describe())
    with pytest.raises(TypeError, match="ProcessWindowFunction"):
        windows.process(Total())
    with pytest.raises(TypeError, match="Trigger"):
        windows.trigger("count")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="OutputTag"):
        windows.side_output_late_data("late")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative"):
        windows.allowed_lateness(-1)
