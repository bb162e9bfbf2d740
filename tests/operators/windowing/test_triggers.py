"""Triggers on their own account: continuous, timeout, delta, and their state after a restore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import WindowFunction
from runtime.operators.windowing.assigners import (
    GlobalWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.java_triggers import DeltaFunction, DeltaTrigger, ProcessingTimeoutTrigger
from runtime.operators.windowing.triggers import CountTrigger, NeverTrigger, PurgingTrigger, Trigger
from runtime.operators.windowing.windows import TimeWindow, Window
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling
from tests.operators.windowing.runs import key_of

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
GLOBAL = GlobalWindows.create()


class Listing(WindowFunction[Any, Any, Any, Window]):
    def apply(self, key: Any, window: Window, inputs: Iterable[Any]) -> list[Any]:
        return [[number for _, number in inputs]]


class Distance(DeltaFunction):
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        return float(abs(old_data_point[1] - new_data_point[1]))


def windows(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]) -> WindowOperatorFactory:
    return WindowOperatorFactory(assigner, key_of, ListContents(), Listing(), trigger)


def numbers(*given: int) -> list[Any]:
    return [("a", number) for number in given]


def test_a_continuous_processing_time_trigger_fires_at_multiples_of_its_interval() -> None:
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(20), Time.milliseconds(-1))
    with OneInputHarness(windows(assigner, ContinuousProcessingTimeTrigger.of(Time.milliseconds(8)))) as harness:
        harness.process(numbers(0))
        harness.advance_processing_time(9)
        harness.process(numbers(1))
        harness.advance_processing_time(20)
        assert harness.values == [[0], [0, 1], [0, 1]]  # at 8, 16 and at the window's end
        harness.process(numbers(2))
        harness.end_input()
        harness.advance_processing_time(50)
    assert len(harness.values) == 3


def test_a_continuous_processing_time_trigger_does_not_run_wild_in_a_window_that_is_over() -> None:
    with OneInputHarness(windows(TEN, ContinuousProcessingTimeTrigger.of(Time.milliseconds(4)))) as harness:
        harness.advance_processing_time(100)
        harness.process(numbers(0, 1), [1, 2])
        harness.advance_processing_time(10)
        harness.process_watermark(9)
    assert harness.values == [[0, 1]]


def test_a_timeout_fires_a_while_after_the_first_element() -> None:
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), Duration.of_millis(10))
    with OneInputHarness(windows(GLOBAL, trigger)) as harness:
        harness.process(numbers(0))
        harness.advance_processing_time(6)
        harness.process(numbers(1))
        harness.advance_processing_time(4)
        assert not harness.values  # records of this very millisecond may still come
        harness.advance_processing_time(1)
        assert harness.values == [[0, 1]]
        # the count has begun anew
        harness.process(numbers(2, 3, 4))
        assert harness.values[1:] == [[0, 1, 2, 3, 4]]
        harness.advance_processing_time(20)
    assert len(harness.values) == 2


def test_a_timeout_may_wait_for_silence_purge_and_keep_the_count() -> None:
    trigger = ProcessingTimeoutTrigger.of(
        PurgingTrigger.of(CountTrigger.of(3)),
        Duration.of_millis(10),
        reset_timer_on_new_record=True,
        should_clear_on_timeout=False,
    )
    with OneInputHarness(windows(GLOBAL, trigger)) as harness:
        harness.process(numbers(0))
        harness.advance_processing_time(6)
        harness.process(numbers(1))
        harness.advance_processing_time(6)
        assert not harness.values
        harness.advance_processing_time(5)
        assert harness.values == [[0, 1]]
        harness.process(numbers(2))
    assert harness.values[1:] == [[0, 1, 2]]


def test_a_timeout_fires_with_the_event_time_timers_of_the_nested_trigger() -> None:
    trigger = ProcessingTimeoutTrigger.of(ContinuousEventTimeTrigger.of(Time.milliseconds(6)), Duration.of_millis(50))
    with OneInputHarness(windows(TEN, trigger)) as harness:
        harness.process(numbers(0), [1])
        harness.process_watermark(6)
        harness.process_watermark(9)
    # clearing on the first firing has deleted the timer of the window's end
    assert harness.values == [[0]]


@pytest.mark.parametrize("function", [Distance(), Distance().get_delta])
def test_a_delta_trigger_fires_when_an_element_is_far_from_the_last_that_fired(function: Any) -> None:
    with OneInputHarness(windows(GLOBAL, DeltaTrigger.of(5, function))) as harness:
        harness.process(numbers(1, 6, 7, 12, 2, 3))
    assert harness.values == [[1, 6, 7]]


def test_what_triggers_are_given_is_checked() -> None:
    with pytest.raises(TypeError, match="DeltaFunction"):
        DeltaTrigger.of(1, "far")
    with pytest.raises(ValueError, match="at least 1 ms"):
        ContinuousProcessingTimeTrigger.of(Time.milliseconds(0))
    with pytest.raises(TypeError, match="Time or Duration"):
        TumblingEventTimeWindows.of(10)  # type: ignore[arg-type]


def test_a_failing_trigger_is_named() -> None:
    class Failing(NeverTrigger):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
            ctx.register_event_time_timer(5)
            return super().on_element(element, timestamp, window, ctx)

        def on_event_time(self, time: int, window: Any, ctx: Any) -> Any:
            raise ValueError("no")

    with OneInputHarness(windows(GLOBAL, Failing())) as harness:
        harness.process(numbers(0))
        with pytest.raises(UserFunctionError, match="GlobalWindow of key 'a'"):
            harness.process_watermark(5)


class SharedState(NeverTrigger):
    """Two descriptors of one name."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        for _ in range(2):
            state = ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))
            state.update((state.value() or 0) + 1)
        assert state.value() % 2 == 0
        ctx.get_metric_group().counter("seen").inc()
        return super().on_element(element, timestamp, window, ctx)


def test_triggers_have_state_and_metrics() -> None:
    with OneInputHarness(windows(GLOBAL, SharedState())) as harness:
        harness.process(numbers(0, 1))
        assert harness.counter("seen") == 2


STAGES = [
    Stage([(f"k{i % 5}", i) for i in range(n, n + 15)], [n + (i * 7) % 25 for i in range(15)], n + 4)
    for n in (0, 12, 24, 36)
]


@pytest.mark.parametrize(
    "factory",
    [
        windows(TEN, ContinuousEventTimeTrigger.of(Time.milliseconds(3))),
        windows(TEN, CountTrigger.of(2)),
        windows(GLOBAL, DeltaTrigger.of(4, Distance(), Types.TUPLE([Types.STRING(), Types.LONG()]))),
        windows(GLOBAL, ProcessingTimeoutTrigger.of(CountTrigger.of(4), Time.milliseconds(5))),
    ],
    ids=["continuous", "count", "delta", "timeout"],
)
def test_survives_rescaling(factory: WindowOperatorFactory) -> None:
    assert_survives_rescaling(factory, STAGES, key_of)


def test_time_windows_are_named_as_in_pyflink() -> None:
    assert repr(TimeWindow(1, 2)) == "TimeWindow(start=1, end=2)"
    assert (repr(TEN), repr(GLOBAL)) == ("TumblingEventTimeWindows(10, 0)", "GlobalWindows()")
