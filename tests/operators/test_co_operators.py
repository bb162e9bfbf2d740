"""Connected streams: both inputs of one function, their common event time, keyed state and timers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark
from runtime.core.elements import MIN_WATERMARK, LatencyMarker, Watermark, WatermarkStatus
from runtime.core.ids import OperatorId
from runtime.operators.co_operators import CoProcessOperatorFactory
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import RuntimeContext, TimeDomain
from runtime.operators.output_tag import OutputTag
from runtime.operators.two_input import CombinedWatermark
from runtime.operators.two_input_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import Stage
from runtime.testing.two_input_harness import TwoInputHarness, TwoInputStage, assert_two_inputs_survive_rescaling

SIDE = OutputTag("side")


def key_of(value: tuple[str, int]) -> str:
    return value[0]


KEYS = (key_of, key_of)


class Naming(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return f"first {value}" if value else None

    def map2(self, value: Any) -> Any:
        return f"second {value}"


class Repeating(CoFlatMapFunction):
    def flat_map1(self, value: int) -> list[int]:
        return [value] * value

    def flat_map2(self, value: int) -> None:
        return None


class Watching(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield SIDE, value


class Summing(KeyedCoProcessFunction):
    """Adds the first stream's numbers, takes the second's away; tells the sum 10 ms after the last record of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element1(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> None:
        self.change(value[1], ctx)

    def process_element2(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.change(-value[1], ctx)
        yield SIDE, ctx.get_current_key()

    def change(self, amount: int, ctx: KeyedCoProcessFunction.Context) -> None:
        due = self.due.value()
        if due is not None:
            ctx.timer_service().delete_event_time_timer(due)
        self.due.update(max(ctx.timestamp() + 10, due or 0))
        ctx.timer_service().register_event_time_timer(max(ctx.timestamp() + 10, due or 0))
        self.sum.update((self.sum.value() or 0) + amount)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), self.sum.value(), ctx.timestamp()
        self.sum.clear()
        self.due.clear()


def test_co_map_leaves_none_out_and_co_flat_map_takes_none_for_nothing() -> None:
    with TwoInputHarness(CoProcessOperatorFactory(Naming())) as harness:
        harness.process1(["a", ""], [1, 2])
        harness.process2([7], [3])
    assert harness.records == [("first a", 1), ("second 7", 3)]
    with TwoInputHarness(CoProcessOperatorFactory(Repeating())) as harness:
        harness.process1([0, 2], [1, 2])
        harness.process2([5])
    assert harness.records == [(2, 2), (2, 2)]


def test_event_time_is_the_least_of_both_inputs_and_never_goes_back() -> None:
    with TwoInputHarness(CoProcessOperatorFactory(Watching())) as harness:
        harness.process_watermark1(10)
        harness.process1(["a"], [11])
        harness.process_watermark2(5)
        harness.process1(["b"], [12])
        harness.process_watermark2(4)
        harness.process_watermark2(20)
    assert harness.output == [
        (("a", 11, MIN_WATERMARK), 11),
        Watermark(5),
        (("b", 12, 5), 12),
        Watermark(10),
    ]


def test_marks_count_for_their_own_input_and_come_out_where_event_time_rises() -> None:
    with TwoInputHarness(CoProcessOperatorFactory(Watching())) as harness:
        harness.process_watermark2(6)
        harness.process1(["a", "b", "c"], [1, 2, 3], [Mark(1, 4), Mark(2, 9), Mark(3, 12)])
        harness.process2(["x"], [8], [Mark(1, 10)])
    assert harness.output == [
        (("a", 1, MIN_WATERMARK), 1),
        Watermark(4),
        (("b", 2, 4), 2),
        Watermark(6),
        (("c", 3, 6), 3),
        Watermark(10),
    ]
    assert harness.side_output(SIDE) == [("x", 8)]


def test_an_idle_input_lets_the_other_go_on_and_two_make_the_operator_idle() -> None:
    with TwoInputHarness(CoProcessOperatorFactory(Watching())) as harness:
        harness.process_watermark1(10)
        harness.process_status2(WatermarkStatus.IDLE)
        harness.process_status1(WatermarkStatus.IDLE)
        harness.process_status2(WatermarkStatus.ACTIVE)
        harness.process_watermark2(7)
        harness.process_watermark2(15)
        harness.process_status1(WatermarkStatus.ACTIVE)
        harness.process_watermark1(14)
    assert harness.output == [Watermark(10), WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, Watermark(15)]


@settings(deadline=None)  # a loaded machine is no failure
@given(st.lists(st.tuples(st.integers(0, 1), st.one_of(st.integers(0, 30), st.sampled_from(list(WatermarkStatus))))))
def test_the_combined_watermark_is_the_least_of_the_active_inputs_at_its_highest(steps: list[tuple[int, Any]]) -> None:
    combined, marks, idle = CombinedWatermark(), [MIN_WATERMARK, MIN_WATERMARK], [False, False]
    highest = MIN_WATERMARK
    for index, step in steps:
        if isinstance(step, WatermarkStatus):
            was_idle = all(idle)
            idle[index] = step is WatermarkStatus.IDLE
            risen, status = combined.on_status(index, step)
            assert status == (None if was_idle == all(idle) else step)
        else:
            marks[index] = max(marks[index], step)
            risen = combined.on_watermark(index, step)
        active = [mark for mark, is_idle in zip(marks, idle, strict=True) if not is_idle]
        expected = max(highest, min(active)) if active else highest
        assert risen == (expected if expected > highest else None)
        highest = expected


def test_latency_markers_pass() -> None:
    marker = LatencyMarker(1, OperatorId("0" * 32), 0)
    with TwoInputHarness(CoProcessOperatorFactory(Watching())) as harness:
        harness.operator.inputs[1].process_latency_marker(marker)
    assert harness.output == [marker]


def test_both_sides_of_a_key_share_state_and_timers() -> None:
    with TwoInputHarness(CoProcessOperatorFactory(Summing(), None, KEYS), KEYS) as harness:
        harness.process1([("a", 5), ("b", 1)], [1, 2])
        harness.process2([("a", 3)], [4])
        harness.process_both_watermarks(13)
        harness.end_input()
    assert harness.records == [(("b", 1, 12), 12), (("a", 2, 14), 14)]
    assert harness.side_output(SIDE) == [("a", 4)]


def test_a_co_map_on_keyed_streams_may_use_keyed_state() -> None:
    class Numbering(CoMapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def map1(self, value: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            return value[0], self.count.value()

        map2 = map1

    with TwoInputHarness(CoProcessOperatorFactory(Numbering(), None, KEYS)) as harness:
        harness.process1([("a", 0), ("b", 0)])
        harness.process2([("a", 0)])
    assert harness.values == [("a", 1), ("b", 1), ("a", 2)]


def test_a_failure_names_the_record_and_the_side() -> None:
    class Failing(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            return 1 // value

    with (
        TwoInputHarness(CoProcessOperatorFactory(Failing())) as harness,
        pytest.raises(UserFunctionError, match=r"on record 0: ZeroDivisionError.*1 // value"),
    ):
        harness.process2([1, 0])


def test_a_failing_timer_names_its_time_and_key() -> None:
    class Failing(Summing):
        def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
            raise ValueError("late")

    with TwoInputHarness(CoProcessOperatorFactory(Failing(), None, KEYS)) as harness:
        harness.process1([("a", 1)], [1])
        with pytest.raises(UserFunctionError, match="on_timer at 11 for key 'a'"):
            harness.process_both_watermarks(20)


@pytest.mark.parametrize("function", [lambda value: value, Summing, object()])
def test_functions_of_other_kinds_are_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="connected streams need"):
        CoProcessOperatorFactory(function)


def test_a_keyed_function_needs_keys() -> None:
    with pytest.raises(TypeError, match="to be keyed"):
        CoProcessOperatorFactory(Summing())


def test_a_restored_operator_does_not_go_back_in_event_time() -> None:
    for factory, keys in (
        (CoProcessOperatorFactory(Watching()), (None, None)),
        (CoProcessOperatorFactory(Summing(), None, KEYS), KEYS),
    ):
        with TwoInputHarness(factory, keys) as harness:
            harness.process_both_watermarks(100)
            snapshot = harness.snapshot()
        with TwoInputHarness(factory, keys, snapshot=snapshot) as restored:
            restored.process_both_watermarks(50)
            restored.process_both_watermarks(101)
        assert restored.output == [Watermark(101)]


def rows(start: int) -> Stage:
    numbers = range(start, start + 12)
    return Stage([(f"k{n % 5}", n) for n in numbers], [n + n % 3 for n in numbers], start + 4)


STAGES = [TwoInputStage(rows(start), rows(start + 6)) for start in (0, 12, 24, 36)]


def test_survives_rescaling() -> None:
    assert_two_inputs_survive_rescaling(CoProcessOperatorFactory(Summing(), None, KEYS), STAGES, KEYS)
    assert_two_inputs_survive_rescaling(CoProcessOperatorFactory(Watching()), STAGES)
