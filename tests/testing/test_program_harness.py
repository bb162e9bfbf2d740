"""harness_of and its kin: which steps they take, and what a harness tells about state and timers."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.common import Row, Time, Types
from runtime.datastream import CoMapFunction, KeyedProcessFunction, RuntimeContext
from runtime.datastream.state import ListStateDescriptor, ValueStateDescriptor
from runtime.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from runtime.state.errors import StateError
from runtime.testing import ManualClock, harness_of, two_input_harness_of

SUM = ValueStateDescriptor("sum", Types.LONG())
ROWS = Types.ROW_NAMED(["key", "number"], [Types.STRING(), Types.LONG()])


class Summing(KeyedProcessFunction):
    """Sums per key; told by timers of both kinds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.sum = runtime_context.get_state(SUM)
        self.parameter = runtime_context.get_job_parameter("greeting", "none")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.sum.update((self.sum.value() or 0) + value[1])
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 10)
        timers.register_event_time_timer(100)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Any]:
        return [(self.parameter, ctx.get_current_key(), self.sum.value(), ctx.time_domain().name)]


def summing(stream: Any) -> Any:
    return stream.key_by(lambda pair: pair[0]).process(Summing())


def test_state_and_timers_are_told_for_all_keys() -> None:
    with harness_of(summing, clock=ManualClock(1000), job_parameters={"greeting": "hello"}) as harness:
        harness.process([("a", 1), ("b", 2), ("a", 3)])
        assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (2, 2)
        assert harness.num_keyed_state_entries() == 2
        assert [harness.keyed_state(SUM, key).value() for key in ("a", "b", "c")] == [4, 2, None]
        harness.keyed_state(SUM, "b").update(20)
        harness.advance_processing_time(11)
        assert sorted(harness.values) == [("hello", "a", 4, "PROCESSING_TIME"), ("hello", "b", 20, "PROCESSING_TIME")]
        assert (harness.num_event_time_timers(), harness.num_processing_time_timers()) == (2, 0)


def test_state_of_another_kind_is_refused() -> None:
    with harness_of(summing) as harness, pytest.raises(StateError):
        harness.keyed_state(ListStateDescriptor("sum", Types.LONG()), "a")


def test_a_step_without_keys_has_no_state_and_no_timers() -> None:
    with harness_of(lambda numbers: numbers.map(lambda n: -n)) as harness:
        harness.process([1])
        assert (harness.num_event_time_timers(), harness.num_keyed_state_entries()) == (0, 0)
        with pytest.raises(TypeError, match="MapOperator has no keyed state"):
            harness.keyed_state(SUM, "a")


def test_a_key_belongs_to_one_subtask() -> None:
    kept = 0
    for subtask in range(3):
        with harness_of(summing, parallelism=3, subtask=subtask) as harness:
            own = harness.operator.backend.key_groups()  # type: ignore[attr-defined]
            kept += len(own)
    assert kept == 128


def test_windows_keep_one_value_for_each_key_and_window() -> None:
    windows = SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))
    with harness_of(lambda n: n.key_by(lambda v: v % 2).window(windows).reduce(lambda a, b: a + b)) as harness:
        harness.process([1, 2, 3], [5, 5, 15])
        assert harness.num_keyed_state_entries() == 5
        harness.end_input()
        assert harness.num_keyed_state_entries() == 0
    assert sorted(harness.values) == [1, 2, 2, 3, 4]


def test_records_keyed_by_columns() -> None:
    with harness_of(lambda rows: rows.key_by_columns("key").deduplicate(), input_type=ROWS) as harness:
        harness.process([Row(key=key, number=n) for n, key in enumerate("aba")])
    assert [row["number"] for row in harness.values] == [0, 1]


class Same(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s, "the program has 0: none"),
        (lambda s: s.map(str).map(str), "the program has 2: Map, Map; use run_job"),
        (lambda s: s.connect(s).map(Same()), "does not have 1 inputs"),
        (lambda s: s.union(s).map(str), "does not have 1 inputs"),
    ],
)
def test_what_is_not_one_step_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        harness_of(build)


def test_a_window_join_is_no_single_step() -> None:
    def joined(first: Any, second: Any) -> Any:
        windows = first.join(second).where(str).equal_to(str).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        return windows.apply(lambda a, b: (a, b))

    with pytest.raises(ValueError, match=r"use run_job\(\)"):
        two_input_harness_of(joined)


def test_the_other_stream_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="does not have 2 inputs"):
        two_input_harness_of(lambda first, second: second.map(str))
