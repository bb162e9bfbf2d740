"""Window operators against a small model in plain Python: out of order, late, refired, rescaled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.core.batch import Mark
from runtime.core.elements import MIN_WATERMARK, Watermark
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import (
    AggregateFunction,
    AllWindowFunction,
    NullByteKeySelector,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from runtime.operators.windowing import aligned_windows
from runtime.operators.windowing.aligned_windows import AlignedWindowOperator
from runtime.operators.windowing.assigners import (
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.contents import AggregateContents, ListContents, ReduceContents
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.triggers import (
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from runtime.operators.windowing.windows import GlobalWindow, TimeWindow
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling
from tests.operators.windowing.runs import LATE, Run, check, events, key_of, runs

Element = tuple[Any, int]


class Summing(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Element, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Describing(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """(key, window start, contents), and how often the window and the key have fired."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        in_window = context.window_state().get_state(ValueStateDescriptor("in-window", Types.LONG()))
        in_key = context.global_state().get_state(ValueStateDescriptor("in-key", Types.LONG()))
        in_window.update((in_window.value() or 0) + 1)
        in_key.update((in_key.value() or 0) + 1)
        yield key, context.window().start, sorted(map(repr, elements)), in_window.value(), in_key.value()

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        context.window_state().get_state(ValueStateDescriptor("in-window", Types.LONG())).clear()


class Listing(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> list[Any]:
        return [(key, window.start, list(inputs))]


class ListingAll(AllWindowFunction[Any, Any, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Any]) -> list[Any]:
        return [(window.start, list(inputs))]


class CountingAll(ProcessAllWindowFunction[Any, Any, TimeWindow]):
    def process(self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Any]) -> Iterator[Any]:
        yield context.window().start, len(list(elements))
        yield LATE, "told aside"


def summing(assigner: WindowAssigner[Any, Any], **kwargs: Any) -> WindowOperatorFactory:
    return WindowOperatorFactory(assigner, key_of, AggregateContents(Summing()), **kwargs)


HOUR = TumblingEventTimeWindows.of(Time.milliseconds(10))


def test_a_window_fires_before_the_mark_that_passes_it() -> None:
    with OneInputHarness(summing(HOUR)) as harness:
        harness.process([("a", 1), ("a", 2), ("b", 4), ("a", 8)], [1, 9, 3, 12], [Mark(3, 9)])
        harness.end_input()
    assert harness.output == [(3, 9), (4, 9), Watermark(9), (8, 19), Watermark(2**63 - 1)]


def test_late_elements_are_dropped_and_counted_or_go_aside() -> None:
    for tag in (None, LATE):
        with OneInputHarness(summing(HOUR, late_data_tag=tag)) as harness:
            harness.process([("a", 1), ("a", 2)], [12, 3], [Mark(1, 9)])
            assert harness.counter("numLateRecordsDropped") == (0 if tag else 1)
            assert harness.side_output(LATE) == ([(("a", 2), 3)] if tag else [])


def test_elements_within_the_lateness_fire_their_window_again_until_it_is_removed() -> None:
    factory = summing(HOUR, allowed_lateness_ms=5, late_data_tag=LATE)
    with OneInputHarness(factory) as harness:
        harness.process([("a", 1)], [1])
        harness.process_watermark(9)
        harness.process([("a", 2), ("a", 4)], [2, 3])
        harness.process_watermark(13)
        harness.process([("a", 8)], [4])
        harness.process_watermark(14)
        harness.process([("a", 16)], [5])
    assert harness.values == [1, 3, 7, 15]
    assert harness.side_output(LATE) == [(("a", 16), 5)]
    assert not [group for group in harness.snapshot().keyed.groups.values() if group.states or group.event_timers]  # type: ignore[union-attr]


def test_window_functions_see_key_window_time_and_both_scopes_of_state() -> None:
    factory = WindowOperatorFactory(HOUR, key_of, ListContents(), Describing(), allowed_lateness_ms=5)
    with OneInputHarness(factory) as harness:
        harness.process([("a", 1)], [1])
        harness.process_watermark(9)
        harness.process([("a", 2), ("a", 3)], [2, 11])
        harness.process_watermark(30)
    one, two, three = "('a', 1)", "('a', 2)", "('a', 3)"
    assert harness.values == [("a", 0, [one], 1, 1), ("a", 0, [one, two], 2, 2), ("a", 10, [three], 1, 3)]


def test_apply_reduce_and_windows_over_a_whole_stream() -> None:
    def values_of(factory: WindowOperatorFactory) -> list[Any]:
        with OneInputHarness(factory) as harness:
            harness.process([("a", 1), ("b", 2), ("a", 3)], [1, 2, 3])
            harness.end_input()
        assert harness.side_output(LATE) in ([], [("told aside", 9)])
        return harness.values

    biggest = ReduceContents(max)
    assert values_of(WindowOperatorFactory(HOUR, key_of, biggest)) == [("a", 3), ("b", 2)]
    assert values_of(WindowOperatorFactory(HOUR, key_of, biggest, Listing())) == [
        ("a", 0, [("a", 3)]),
        ("b", 0, [("b", 2)]),
    ]
    everything = [(0, [("a", 1), ("b", 2), ("a", 3)])]
    assert values_of(WindowOperatorFactory(HOUR, NullByteKeySelector(), ListContents(), ListingAll())) == everything
    assert values_of(WindowOperatorFactory(HOUR, NullByteKeySelector(), ListContents(), CountingAll())) == [(0, 3)]


def test_equal_numbers_of_different_types_have_their_own_windows() -> None:
    keys = [1, 1.0, True, (1,), (1.0,), (True,), 1]
    with OneInputHarness(summing(HOUR)) as harness:
        harness.process([(key, 1) for key in keys], [1] * len(keys))
        harness.end_input()
    assert harness.values == [2, 1, 1, 1, 1, 1]


def test_an_element_without_event_time_is_refused() -> None:
    for trigger in (None, EventTimeTrigger.create()):
        with (
            OneInputHarness(summing(HOUR, trigger=trigger)) as harness,
            pytest.raises(UserFunctionError, match="assign_timestamps_and_watermarks"),
        ):
            harness.process([("a", 1)])


def test_a_failing_aggregate_names_its_record() -> None:
    for trigger in (None, EventTimeTrigger.create()):
        with OneInputHarness(summing(HOUR, trigger=trigger)) as harness, pytest.raises(UserFunctionError) as caught:
            harness.process([("a", 1), ("a", "x"), ("a", 2)], [1, 2, 3])
        assert caught.value.record == "('a', 'x')"
        assert caught.value.source_line == "return accumulator + value[1]"


def test_count_windows_are_global_windows_with_a_purging_trigger() -> None:
    trigger = PurgingTrigger.of(CountTrigger.of(2))
    factory = summing(GlobalWindows.create(), trigger=trigger)
    with OneInputHarness(factory) as harness:
        harness.process([("a", 1), ("b", 2), ("a", 4), ("a", 8)])
        snapshot = harness.snapshot()
    assert harness.output == [(5, GlobalWindow.get().max_timestamp())]
    with OneInputHarness(factory, snapshot=snapshot) as restored:
        restored.process([("a", 16), ("b", 32)])
    assert restored.values == [24, 34]


def test_a_continuous_trigger_fires_early() -> None:
    factory = summing(HOUR, trigger=ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
    with OneInputHarness(factory) as harness:
        harness.process([("a", 1)], [1])
        harness.process_watermark(4)
        harness.process([("a", 2)], [5])
        harness.process_watermark(8)
        harness.process_watermark(20)
    assert harness.values == [1, 3, 3]


def test_processing_time_windows_fire_by_the_clock() -> None:
    factory = summing(TumblingProcessingTimeWindows.of(Time.milliseconds(10)))
    with OneInputHarness(factory) as harness:
        harness.process([("a", 1)])
        harness.advance_processing_time(8)
        harness.process([("a", 2)])
        harness.advance_processing_time(2)
        harness.process([("a", 4)])
        assert harness.records == [(3, 9)]
        harness.advance_processing_time(20)
    assert harness.records == [(3, 9), (4, 19)]


def test_what_cannot_work_is_refused_when_the_program_is_built() -> None:
    with pytest.raises(TypeError, match="need a window function"):
        WindowOperatorFactory(HOUR, key_of, ListContents())
    with pytest.raises(TypeError, match="WindowFunction"):
        WindowOperatorFactory(HOUR, key_of, ListContents(), print)
    with pytest.raises(ValueError, match="negative"):
        summing(HOUR, allowed_lateness_ms=-1)
    with pytest.raises(TypeError, match="AggregateFunction"):
        AggregateContents(max)  # type: ignore[arg-type]


ASSIGNERS: list[Any] = [
    TumblingEventTimeWindows(10, 3),
    TumblingEventTimeWindows(10, -4),
    SlidingEventTimeWindows(10, 5, 0),
    SlidingEventTimeWindows(10, 4, 0),
    SlidingEventTimeWindows(4, 10, 0),
    CumulativeEventTimeWindows(12, 4, 1),
]


def model(assigner: Any, lateness: int, run: Run) -> tuple[list[str], list[str]]:
    """(key, window, numbers) of every firing, and what is late."""
    windows: dict[tuple[str, TimeWindow], list[int]] = {}
    fired: list[str] = []
    late: list[str] = []
    watermark = MIN_WATERMARK
    for event in events(run):
        if isinstance(event, int):
            for (key, window), held in windows.items():
                if watermark < window.max_timestamp() <= event:
                    fired.append(repr((key, window, held)))
            watermark = event
            continue
        element, timestamp = event
        key = repr(element[0])
        accepted = [w for w in assigner.windows_at(timestamp) if w.max_timestamp() + lateness > watermark]
        for window in accepted:
            held = windows.setdefault((key, window), [])
            held.append(element[1])
            if window.max_timestamp() <= watermark:
                fired.append(repr((key, window, held)))
        if not accepted and timestamp + lateness <= watermark:
            late.append(repr((element, timestamp)))
    return fired, late


class Telling(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> list[Any]:
        return [(repr(key), window, [number for _, number, _ in inputs])]


def check_windows(run: Run, assigner: Any, lateness: int, cut: bool) -> None:
    for trigger in (None, EventTimeTrigger.create()):
        factory = WindowOperatorFactory(assigner, key_of, ListContents(), Telling(), trigger, lateness, LATE)
        check(factory, run, cut, lambda run: model(assigner, lateness, run))


@settings(max_examples=60)
@given(runs(), st.sampled_from(ASSIGNERS), st.sampled_from([0, 4]), st.booleans())
def test_windows_equal_the_model(run: Run, assigner: Any, lateness: int, cut: bool) -> None:
    check_windows(run, assigner, lateness, cut)


@pytest.mark.slow
@settings(max_examples=4_000, deadline=None)
@given(runs(), st.sampled_from(ASSIGNERS), st.sampled_from([0, 4]), st.booleans())
def test_windows_equal_the_model_at_length(run: Run, assigner: Any, lateness: int, cut: bool) -> None:
    check_windows(run, assigner, lateness, cut)


@settings(max_examples=60)
@given(runs(keys=("a", "b", 2, 3.5, float("nan"), True)), st.sampled_from(ASSIGNERS[:3]), st.sets(st.integers(0, 14)))
def test_snapshots_at_any_time_change_nothing(run: Run, assigner: Any, snapshots: set[int]) -> None:
    """Panes, windows in the state, and keys that are told apart by their encoding: every batch has one element."""
    factory = WindowOperatorFactory(assigner, key_of, ListContents(), Telling(), late_data_tag=LATE)
    got: list[str] = []
    snapshot = None
    harness = OneInputHarness(factory)
    for number, event in enumerate(events(run)):
        if isinstance(event, int):
            harness.process_watermark(event)
        else:
            harness.process([event[0]], [event[1]])
        if number in snapshots:
            snapshot = harness.snapshot()
        if number in snapshots and number % 2:
            got += map(repr, harness.values)
            harness.close()
            harness = OneInputHarness(factory, snapshot=snapshot)
    got += map(repr, harness.values)
    harness.close()
    # a key that is not itself: the model tells keys apart by their repr, as the key encoding does
    assert sorted(got) == sorted(model(assigner, 0, run)[0])


def test_windows_fire_in_the_order_of_their_ends_in_panes_and_in_the_state() -> None:
    with OneInputHarness(summing(HOUR)) as harness:
        harness.process([("a", 1), ("b", 2)], [15, 3])
        harness.snapshot()
        harness.process([("a", 4), ("b", 8)], [28, 12])
        harness.end_input()
    assert harness.records == [(2, 9), (1, 19), (8, 19), (4, 29)]
    assert harness.operator.num_fired_timers() == 4


def test_panes_that_have_grown_large_go_to_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned_windows, "_MAX_PANE_ENTRIES", 2)
    factory = WindowOperatorFactory(HOUR, key_of, ReduceContents(max))
    with OneInputHarness(factory) as harness:
        for number in range(3):
            harness.process([(key, number) for key in "abc"], [1, 2, 3])
        harness.process([("a", 5)], [11])
        harness.end_input()
    assert harness.values == [("a", 2), ("b", 2), ("c", 2), ("a", 5)]


def test_functions_see_the_watermark_that_fires_their_window() -> None:
    class Watermarks(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
        def process(
            self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
        ) -> list[Any]:
            return [context.current_watermark()]

    for trigger in (None, EventTimeTrigger.create()):
        factory = WindowOperatorFactory(HOUR, key_of, ListContents(), Watermarks(), trigger)
        with OneInputHarness(factory) as harness:
            harness.process([("a", 1), ("a", 2)], [1, 12])
            harness.process_watermark(25)
        assert harness.values == [25, 25]


def stages() -> list[Stage]:
    return [
        Stage([(f"k{i % 5}", i) for i in range(n, n + 15)], [n + (i * 7) % 25 for i in range(15)], n + 4)
        for n in (0, 12, 24, 36)
    ]


@pytest.mark.parametrize("assigner", [*ASSIGNERS[:4], ASSIGNERS[5]])
@pytest.mark.parametrize("trigger", [None, EventTimeTrigger.create()])
def test_survives_rescaling(assigner: Any, trigger: Any) -> None:
    factory = WindowOperatorFactory(assigner, key_of, ListContents(), Describing(), trigger, 3, LATE)
    assert_survives_rescaling(factory, stages(), key_of)


def test_a_snapshot_of_one_operator_is_continued_by_the_other() -> None:
    fast, general = summing(HOUR), summing(HOUR, trigger=EventTimeTrigger.create())
    assert isinstance(fast.create(), AlignedWindowOperator)
    assert not isinstance(general.create(), AlignedWindowOperator)
    for first, second in ((fast, general), (general, fast)):
        with OneInputHarness(first) as harness:
            harness.process([("a", 1)], [1])
            snapshot = harness.snapshot()
        with OneInputHarness(second, snapshot=snapshot) as restored:
            restored.process([("a", 2)], [2])
            restored.process_watermark(9)
        assert restored.values == [3]


def of(size: int, slide: int, offset: int = 0) -> WindowAssigner[Any, Any]:
    return SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset))


RESIZED = [(of(10, 10), of(20, 20)), (of(20, 10), of(40, 10)), (of(40, 20), of(20, 20)), (of(20, 10), of(30, 10, 5))]


@pytest.mark.parametrize(("before", "after"), RESIZED)
@pytest.mark.parametrize("lateness", [0, 7])
@given(runs(), st.integers(0, 14))
def test_windows_of_another_size_go_on_beside_the_new_ones(
    before: Any, after: Any, lateness: int, run: Run, cut: int
) -> None:
    results = []
    for trigger in (None, EventTimeTrigger.create()):
        steps, records, snapshot, gone = list(events(run)), [], None, 0
        for assigner, part in ((before, steps[:cut]), (after, steps[cut:])):
            factory = summing(assigner, trigger=trigger, allowed_lateness_ms=lateness)
            with OneInputHarness(factory, snapshot=snapshot) as harness:
                for step in part:
                    if isinstance(step, int):
                        harness.process_watermark(step)
                    else:
                        harness.process([step[0]], [step[1]])
                snapshot = harness.snapshot()
                records += harness.records
                gone += harness.counter("numLateRecordsDropped")
        results.append((sorted(map(repr, records)), gone))
        ends = [timestamp for _, timestamp in records if timestamp is not None]
        if lateness == 0:
            assert ends == sorted(ends), "windows fire in the order of their ends"
    assert results[0] == results[1]


def test_a_window_with_the_start_of_one_in_the_snapshot_gives_one_result() -> None:
    with OneInputHarness(summing(of(10, 10))) as harness:
        harness.process([("a", 1)], [3])
        snapshot = harness.snapshot()
    with OneInputHarness(summing(of(20, 20)), snapshot=snapshot) as harness:
        harness.process([("a", 10)], [4])
        harness.snapshot()
        harness.process_watermark(9)
        harness.process([("a", 100)], [12])
        harness.end_input()
    assert harness.records == [(1, 9), (110, 19)]
