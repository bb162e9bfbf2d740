"""ProcessFunction and KeyedProcessFunction: side outputs, state, timers, marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.typeinfo import Types
from runtime.core.batch import Mark
from runtime.core.elements import Watermark
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext, TimeDomain
from runtime.operators.output_tag import OutputTag
from runtime.operators.process_operators import KeyedProcessOperatorFactory, ProcessOperatorFactory
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling

ODD = OutputTag("odd", Types.LONG())


class Splitting(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        if value % 2:
            yield ODD, value
        else:
            yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def key_of(value: tuple[str, int]) -> str:
    return value[0]


class Session(KeyedProcessFunction):
    """Sums values per key until 10 ms of event time have passed without one."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.due = runtime_context.get_state(ValueStateDescriptor("due", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        timestamp = ctx.timestamp()
        assert timestamp is not None
        due = self.due.value()
        if due is not None:
            ctx.timer_service().delete_event_time_timer(due)
        self.due.update(max(timestamp + 10, due or 0))
        ctx.timer_service().register_event_time_timer(max(timestamp + 10, due or 0))
        self.sum.update((self.sum.value() or 0) + value[1])
        if value[1] % 2:
            yield ODD, value[1]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), self.sum.value(), timestamp
        self.sum.clear()
        self.due.clear()


def test_side_outputs_and_context() -> None:
    with OneInputHarness(ProcessOperatorFactory(Splitting())) as harness:
        harness.process([1, 2, 4], [10, 20, 30], [Mark(2, 15)])
    assert harness.output == [((2, 20, -(2**63)), 20), Watermark(15), ((4, 30, 15), 30)]
    assert harness.side_output(ODD) == [(1, 10)]


def test_a_side_output_is_flushed_first_and_has_every_mark() -> None:
    with OneInputHarness(ProcessOperatorFactory(Splitting())) as harness:
        harness.process([2, 1, 3], [1, 2, 3], [Mark(1, 0), Mark(2, 1), Mark(3, 2)])
    (side, side_tag), (_, main_tag) = harness.batches
    assert (side_tag, main_tag) == (ODD, None)
    assert list(side.marks) == [Mark(0, 0), Mark(1, 1), Mark(2, 2)]
    assert side.type_info == Types.LONG()


def test_timers_without_a_key_are_refused() -> None:
    class Timing(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
            ctx.timer_service().register_event_time_timer(1)

    with (
        OneInputHarness(ProcessOperatorFactory(Timing())) as harness,
        pytest.raises(UserFunctionError, match="timers need a keyed stream"),
    ):
        harness.process([1])


def test_event_time_timers_fire_with_their_key_and_time() -> None:
    with OneInputHarness(KeyedProcessOperatorFactory(Session(), key_of), key_of) as harness:
        harness.process([("a", 1), ("b", 2), ("a", 4)], [1, 2, 5])
        harness.process_watermark(12)
        harness.process_watermark(15)
    assert harness.output == [(("b", 2, 12), 12), Watermark(12), (("a", 5, 15), 15), Watermark(15)]
    assert harness.side_output(ODD) == [(1, 1)]


def test_results_of_a_timer_come_before_its_mark() -> None:
    with OneInputHarness(KeyedProcessOperatorFactory(Session(), key_of)) as harness:
        harness.process([("a", 2), ("b", 2)], [1, 20], [Mark(1, 11)])
    assert harness.output == [(("a", 2, 11), 11), Watermark(11)]


def test_processing_time_timers_fire_when_the_clock_has_come_so_far() -> None:
    class Delayed(KeyedProcessFunction):
        def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> None:
            timers = ctx.timer_service()
            timers.register_processing_time_timer(timers.current_processing_time() + len(value))

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
            assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
            yield ctx.get_current_key(), timestamp

    factory = KeyedProcessOperatorFactory(Delayed(), lambda v: v)
    with OneInputHarness(factory) as harness:
        harness.process(["aaaa", "b"])
        harness.advance_processing_time(3)
        assert harness.values == [("b", 1)]
        snapshot = harness.snapshot()
        harness.end_input()
        assert harness.processing_time.num_timers == 0
    clock = harness.clock
    clock.advance(100)
    with OneInputHarness(factory, clock=clock, snapshot=snapshot) as restored:
        assert restored.values == [("aaaa", 4)]


def test_a_restored_operator_does_not_go_back_in_event_time() -> None:
    factory = KeyedProcessOperatorFactory(Session(), key_of)
    with OneInputHarness(factory) as harness:
        harness.process_watermark(100)
        snapshot = harness.snapshot()
    with OneInputHarness(factory, snapshot=snapshot) as restored:
        restored.process_watermark(50)
        restored.process_watermark(101)
    assert restored.output == [Watermark(101)]


def test_a_function_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="KeyedProcessFunction"):
        KeyedProcessOperatorFactory(Splitting(), key_of)  # type: ignore[arg-type]


def test_survives_rescaling() -> None:
    stages = [
        Stage([(f"k{i % 7}", i) for i in range(n, n + 20)], [n + i % 13 for i in range(20)], n + 5)
        for n in (0, 20, 40, 60)
    ]
    assert_survives_rescaling(KeyedProcessOperatorFactory(Session(), key_of), stages, key_of)


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 60)), max_size=15)


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, len(rows))))))
def test_marks_are_where_the_batch_would_have_been_cut(case: tuple[list[tuple[str, int, int]], set[int]]) -> None:
    rows, offsets = case
    marks = [Mark(offset, 5 * offset) for offset in sorted(offsets)]
    values = [(key, number) for key, number, _ in rows]
    timestamps = [timestamp for _, _, timestamp in rows]
    factory = KeyedProcessOperatorFactory(Session(), key_of)
    with OneInputHarness(factory, key_of) as whole, OneInputHarness(factory, key_of) as cut:
        whole.process(values, timestamps, marks)
        start = 0
        for offset, watermark in [*marks, Mark(len(rows), 1000)]:
            cut.process(values[start:offset], timestamps[start:offset])
            cut.process_watermark(watermark)
            start = offset
        whole.process_watermark(1000)
    assert whole.records == cut.records
    assert whole.side_output(ODD) == cut.side_output(ODD)
