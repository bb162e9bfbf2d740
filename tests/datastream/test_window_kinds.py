"""Sessions, count windows, evictors and the aggregates of a field, through the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from runtime.common import Time, Types
from runtime.datastream import DataStream, StreamExecutionEnvironment, TimeWindow
from runtime.datastream.functions import AggregateFunction, AllWindowFunction, ProcessWindowFunction, WindowFunction
from runtime.datastream.window import (
    CountEvictor,
    CountTrigger,
    CumulativeEventTimeWindows,
    DeltaTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    TumblingEventTimeWindows,
    Window,
)
from tests.datastream.running import at_each_parallelism, environment, row_by_row, sorted_values_of, values_of

Reading = tuple[str, int, int]
READING = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
#: key, event time ms, value
READINGS: list[Reading] = [("a", 1000, 1), ("a", 4999, 2), ("b", 2000, 10), ("a", 9000, 3), ("b", 14_000, 20)]
SESSIONS = EventTimeSessionWindows.with_gap(Time.seconds(4))


class Values(WindowFunction[Any, Any, str, Window]):
    def apply(self, key: str, window: Window, inputs: Iterable[Reading]) -> Iterator[Any]:
        yield key, [value for _, _, value in inputs]


class Bounds(ProcessWindowFunction[Any, Any, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        yield key, context.window().start, context.window().end, list(elements)


class All(AllWindowFunction[Any, Any, Window]):
    def apply(self, window: Window, inputs: Iterable[Reading]) -> Iterator[Any]:
        yield [value for _, _, value in inputs]


class Total(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Reading, accumulator: Any) -> Any:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> str:
        return f"{accumulator[0]} of {accumulator[1]}"

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def timed(env: StreamExecutionEnvironment) -> DataStream:
    """The readings in their order: times are assigned by one subtask."""
    readings = env.from_collection(READINGS, READING)
    return readings.assign_timestamps_and_watermarks(row_by_row(60_000)).set_parallelism(1)


@at_each_parallelism
def test_sessions(parallelism: int) -> None:
    windows = timed(environment(parallelism)).key_by(lambda reading: reading[0]).window(SESSIONS)
    assert sorted_values_of(windows.apply(Values())) == [("a", [1, 2]), ("a", [3]), ("b", [10]), ("b", [20])]
    types = [Types.LONG(), Types.LONG()]
    described = windows.aggregate(Total(), Bounds(), accumulator_type=types)
    assert sorted_values_of(described)[0] == ("a", 1000, 8999, ["3 of 2"])


@at_each_parallelism
def test_count_windows(parallelism: int) -> None:
    keyed = timed(environment(parallelism)).key_by(lambda reading: reading[0])
    assert sorted_values_of(keyed.count_window(2).apply(Values())) == [("a", [1, 2]), ("b", [10, 20])]
    assert sorted_values_of(keyed.count_window(2, 1).apply(Values())) == [
        ("a", [1, 2]),
        ("a", [2, 3]),
        ("b", [10, 20]),
    ]


def test_count_windows_over_the_whole_stream() -> None:
    stream = timed(environment())
    assert values_of(stream.count_window_all(2).apply(All())) == [[1, 2], [10, 3]]
    assert values_of(stream.count_window_all(3, 2).apply(All())) == [[1, 2], [2, 10, 3]]


@at_each_parallelism
def test_evictors(parallelism: int) -> None:
    keyed = timed(environment(parallelism)).key_by(lambda reading: reading[0])
    latest = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).evictor(CountEvictor.of(1))
    assert sorted_values_of(latest.apply(Values())) == [("a", [2]), ("a", [3]), ("b", [10]), ("b", [20])]
    everything = keyed.window(GlobalWindows.create_with_end_of_stream_trigger())
    assert sorted_values_of(everything.aggregate(Total())) == ["30 of 2", "6 of 3"]


@at_each_parallelism
def test_cumulative_windows(parallelism: int) -> None:
    keyed = timed(environment(parallelism)).key_by(lambda reading: reading[0])
    windows = keyed.window(CumulativeEventTimeWindows.of(Time.seconds(12), Time.seconds(6)))
    assert sorted_values_of(windows.aggregate(Total(), Bounds())) == [
        ("a", 0, 6000, ["3 of 2"]),
        ("a", 0, 12_000, ["6 of 3"]),
        ("b", 0, 6000, ["10 of 1"]),
        ("b", 0, 12_000, ["10 of 1"]),
        ("b", 12_000, 18_000, ["20 of 1"]),
        ("b", 12_000, 24_000, ["20 of 1"]),
    ]


def test_aggregates_of_one_field() -> None:
    windows = timed(environment()).window_all(TumblingEventTimeWindows.of(Time.seconds(20)))
    assert values_of(windows.sum(2)) == [("a", 1000, 36)]
    assert values_of(windows.min(1)) == [("a", 1000, 1)]
    assert values_of(windows.max(2)) == [("a", 1000, 20)]
    assert values_of(windows.min_by(2)) == [("a", 1000, 1)]
    assert values_of(windows.max_by(2)) == [("b", 14_000, 20)]


def test_window_operators_are_named_as_in_pyflink() -> None:
    keyed = timed(environment()).key_by(lambda reading: reading[0])
    stream = keyed.window(SESSIONS).trigger(PurgingTrigger.of(CountTrigger.of(2))).aggregate(Total(), Bounds())
    assert stream.get_name() == "EventTimeSessionWindows"
    node = stream._node()
    assert node.plan_text == "Window(EventTimeSessionWindows(4000), PurgingTrigger, Total, Bounds)"
    over_all = keyed.window_all(GlobalWindows.create()).apply(All())
    assert over_all._node().plan_text == "AllWindow(GlobalWindows(), NeverTrigger, All)"


def test_what_cannot_work_is_refused_at_once() -> None:
    keyed = timed(environment()).key_by(lambda reading: reading[0])
    with pytest.raises(TypeError, match="does not support merging"):
        keyed.window(SESSIONS).trigger(DeltaTrigger.of(1, lambda one, two: 0))
    with pytest.raises(TypeError, match="Evictor"):
        keyed.window(SESSIONS).evictor(CountTrigger.of(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        keyed.count_window(0)
