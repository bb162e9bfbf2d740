"""Evictors: what they take out of windows, before the function and after it; reduced and aggregated contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.operators.functions import AggregateFunction, WindowFunction
from runtime.operators.windowing.assigners import GlobalWindows, TumblingEventTimeWindows, WindowAssigner
from runtime.operators.windowing.contents import AggregateContents, ListContents, ReduceContents, WindowContents
from runtime.operators.windowing.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor, TimestampedValue
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.triggers import CountTrigger
from runtime.operators.windowing.windows import Window
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling
from tests.operators.windowing.runs import key_of

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Listing(WindowFunction[Any, Any, Any, Window]):
    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> list[Any]:
        return [[number for _, number in inputs]]


class Summing(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + int(value[1])

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def windows(
    evictor: Evictor[Any, Any],
    every: int = 3,
    contents: WindowContents | None = None,
    assigner: WindowAssigner[Any, Any] | None = None,
) -> WindowOperatorFactory:
    function = Listing() if contents is None else None
    trigger = CountTrigger.of(every) if assigner is None else None
    return WindowOperatorFactory(
        assigner or GlobalWindows.create(), key_of, contents or ListContents(PAIR), function, trigger, evictor=evictor
    )


def values_of(factory: WindowOperatorFactory, numbers: list[int], timestamps: list[int] | None = None) -> list[Any]:
    with OneInputHarness(factory) as harness:
        harness.process([("a", number) for number in numbers], timestamps)
        harness.end_input()
    return harness.values


def test_a_count_evictor_keeps_the_last_elements() -> None:
    assert values_of(windows(CountEvictor.of(2)), [1, 2, 3, 4, 5, 6]) == [[2, 3], [5, 6]]
    # all of them are seen first
    assert values_of(windows(CountEvictor.of(2, True)), [1, 2, 3, 4, 5, 6]) == [[1, 2, 3], [2, 3, 4, 5, 6]]


def test_a_time_evictor_keeps_what_is_recent_in_event_time() -> None:
    evictor = TimeEvictor.of(Duration.of_millis(5))
    assert values_of(windows(evictor), [1, 2, 3], [4, 9, 8]) == [[2, 3]]
    assert values_of(windows(evictor), [1, 2, 3]) == [[1, 2, 3]]
    assert values_of(windows(TimeEvictor.of(Time.milliseconds(6))), [1, 2, 3], [4, 9, 8]) == [[1, 2, 3]]


def test_a_delta_evictor_keeps_what_is_near_the_last_element() -> None:
    evictor = DeltaEvictor.of(3, lambda one, last: abs(one[1] - last[1]))
    assert values_of(windows(evictor), [1, 6, 4]) == [[6, 4]]
    with pytest.raises(TypeError, match="DeltaFunction"):
        DeltaEvictor.of(3, None)


def test_aggregates_are_made_of_what_is_left() -> None:
    assert values_of(windows(CountEvictor.of(2), contents=AggregateContents(Summing())), [1, 2, 3]) == [5]
    assert values_of(windows(CountEvictor.of(0), contents=AggregateContents(Summing())), [1, 2, 3]) == [0]
    add = ReduceContents(lambda one, two: ("a", one[1] + two[1]), PAIR)
    assert values_of(windows(CountEvictor.of(2), contents=add), [1, 2, 3]) == [("a", 5)]
    assert values_of(windows(CountEvictor.of(0), contents=add), [1, 2, 3]) == []


def test_windows_with_the_default_trigger_have_evictors_too() -> None:
    factory = windows(CountEvictor.of(1), assigner=TEN)
    assert values_of(factory, [1, 2, 3], [1, 12, 3]) == [[3], [2]]


def test_an_evictor_of_the_users_own() -> None:
    class Odd(Evictor[Any, Window]):
        def evict_before(self, elements: list[TimestampedValue], size: int, window: Window, ctx: Any) -> None:
            assert len(elements) == size
            assert all(element.get_timestamp() == element.get_value()[1] for element in elements)
            elements[:] = [element for element in elements if element.value[1] % 2]

        def evict_after(self, elements: list[TimestampedValue], size: int, window: Window, ctx: Any) -> None:
            ctx.get_metric_group().counter("evicted").inc(size)
            assert ctx.get_current_watermark() < ctx.get_current_processing_time()
            elements.clear()

    with OneInputHarness(windows(Odd())) as harness:
        harness.process([("a", number) for number in range(1, 7)], list(range(1, 7)))
        assert harness.counter("evicted") == 3
    assert harness.values == [[1, 3], [5]]


STAGES = [
    Stage([(f"k{i % 5}", i) for i in range(n, n + 15)], [n + (i * 7) % 25 for i in range(15)], n + 4)
    for n in (0, 12, 24, 36)
]


@pytest.mark.parametrize(
    "factory",
    [
        windows(CountEvictor.of(2)),
        windows(TimeEvictor.of(Time.milliseconds(8), True)),
        windows(DeltaEvictor.of(9, lambda one, last: last[1] - one[1]), 2, AggregateContents(Summing())),
        windows(CountEvictor.of(2), assigner=TEN),
    ],
    ids=["count", "time", "delta", "event time"],
)
def test_survives_rescaling(factory: WindowOperatorFactory) -> None:
    assert_survives_rescaling(factory, STAGES, key_of)
