"""Session windows: merging, late merges, triggers that merge, dynamic gaps, processing time; against a plain model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.core.elements import MIN_WATERMARK
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from runtime.operators.windowing.assigners import MergingWindowAssigner, WindowAssigner
from runtime.operators.windowing.contents import AggregateContents, ListContents, ReduceContents, WindowContents
from runtime.operators.windowing.continuous_triggers import ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger
from runtime.operators.windowing.evictors import CountEvictor
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.java_triggers import DeltaTrigger
from runtime.operators.windowing.merging_window_set import Merge, MergingWindowSet, merge_finder
from runtime.operators.windowing.session_operator import SessionWindowOperator
from runtime.operators.windowing.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from runtime.operators.windowing.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger, Trigger, TriggerResult
from runtime.operators.windowing.windows import MergeCallback, TimeWindow, TimeWindowSerializer
from runtime.state.descriptors import ValueStateDescriptor
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling
from tests.operators.windowing.runs import LATE, Run, check, events, key_of, runs

GAP = EventTimeSessionWindows.with_gap(Time.milliseconds(5))


class OwnGap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element[2])


class Telling(WindowFunction[Any, Any, Any, TimeWindow]):
    def apply(self, key: Any, window: TimeWindow, inputs: Iterable[Any]) -> list[Any]:
        return [(repr(key), window.start, window.end, sorted(number for _, number, *_ in inputs))]


class Counting(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Remembering(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
    """(key, start, end, numbers), and how many sessions the key has had."""

    def process(
        self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> Iterator[Any]:
        count = context.global_state().get_state(ValueStateDescriptor("sessions", Types.LONG()))
        count.update((count.value() or 0) + 1)
        window = context.window()
        yield key, window.start, window.end, sorted(number for _, number, *_ in elements), count.value()


def sessions(
    assigner: WindowAssigner[Any, Any] = GAP,
    contents: WindowContents | None = None,
    function: Any = None,
    **kwargs: Any,
) -> WindowOperatorFactory:
    if contents is None:
        contents, function = ListContents(), function or Telling()
    return WindowOperatorFactory(assigner, key_of, contents, function, **kwargs)


def numbered(*timestamps: int) -> tuple[list[Any], list[int]]:
    return [("a", number) for number in range(len(timestamps))], list(timestamps)


def test_elements_within_the_gap_make_one_session_whatever_their_order() -> None:
    with OneInputHarness(sessions()) as harness:
        harness.process(*numbered(1, 9, 4, 30))
        harness.process_watermark(12)
        assert not harness.values
        harness.end_input()
    assert harness.records == [(("'a'", 1, 14, [0, 1, 2]), 13), (("'a'", 30, 35, [3]), 34)]


@pytest.mark.parametrize("contents", [AggregateContents(Counting(), Types.LONG()), AggregateContents(Counting())])
def test_aggregates_of_sessions_merge(contents: WindowContents) -> None:
    with OneInputHarness(sessions(contents=contents)) as harness:
        harness.process(*numbered(1, 9, 17, 13, 5))
        harness.end_input()
    assert harness.records == [(5, 21)]


def test_reduced_sessions_merge_in_the_order_of_their_starts() -> None:
    def longer(one: Any, two: Any) -> Any:
        return "a", f"{one[1]}{two[1]}"

    contents = ReduceContents(longer, Types.TUPLE([Types.STRING(), Types.STRING()]))
    with OneInputHarness(sessions(contents=contents)) as harness:
        harness.process([("a", "x"), ("a", "y"), ("a", "z")], [9, 1, 5])
        harness.end_input()
    assert harness.values == [("a", "yxz")]


def test_a_late_element_joins_a_session_that_has_not_been_removed() -> None:
    with OneInputHarness(sessions(allowed_lateness_ms=10, late_data_tag=LATE)) as harness:
        harness.process(*numbered(1))
        harness.process_watermark(12)
        # alone it would be too late: [-3, 2) ends 10 before the watermark
        harness.process([("a", 1)], [-3])
        harness.process([("a", 2)], [9])
        assert harness.values == [("'a'", 1, 6, [0]), ("'a'", -3, 6, [0, 1])]
        harness.process([("a", 3)], [5])
        harness.process_watermark(30)
        harness.process([("a", 4)], [6])
    assert harness.values[2:] == [("'a'", -3, 14, [0, 1, 2, 3])]
    assert harness.side_output(LATE) == [(("a", 4), 6)]


def test_the_state_of_triggers_merges() -> None:
    with OneInputHarness(sessions(trigger=PurgingTrigger.of(CountTrigger.of(3)))) as harness:
        harness.process(*numbered(1, 9, 5, 20))
    assert harness.values == [("'a'", 1, 14, [0, 1, 2])]
    with OneInputHarness(sessions(trigger=ContinuousEventTimeTrigger.of(Duration.of_millis(4)))) as harness:
        harness.process(*numbered(1, 9, 5))
        for watermark in (4, 8, 9, 20):
            harness.process_watermark(watermark)
        assert not [group for group in harness.snapshot().keyed.groups.values() if group.states]  # type: ignore[union-attr]
    assert harness.values == [("'a'", 1, 14, [0, 1, 2])] * 4


def test_processing_time_sessions_end_a_gap_after_their_last_element() -> None:
    factory = sessions(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(5)))
    with OneInputHarness(factory) as harness:
        for number in range(3):
            harness.process([("a", number)])
            harness.advance_processing_time(3)
        harness.advance_processing_time(4)
        harness.process([("a", 3)])
        harness.end_input()
        harness.advance_processing_time(50)
    # a session that is open at the end of the input gives nothing
    assert harness.values == [("'a'", 0, 11, [0, 1, 2])]


def test_dynamic_processing_time_sessions_with_early_firings() -> None:
    assigner = ProcessingTimeSessionWindows.with_dynamic_gap(OwnGap())
    assert isinstance(assigner, DynamicProcessingTimeSessionWindows)
    trigger = ContinuousProcessingTimeTrigger.of(Time.milliseconds(4))
    with OneInputHarness(sessions(assigner, trigger=trigger)) as harness:
        harness.process([("a", 0, 3)])
        harness.advance_processing_time(1)
        harness.process([("a", 1, 9)])
        harness.advance_processing_time(30)
    # at 2, 6 and 9
    assert harness.records == [(("'a'", 0, 10, [0, 1]), 9)] * 3


def test_evictors_work_in_sessions_too() -> None:
    with OneInputHarness(sessions(evictor=CountEvictor.of(2))) as harness:
        harness.process(*numbered(1, 9, 5))
        harness.end_input()
    assert harness.values == [("'a'", 1, 14, [1, 2])]


def test_a_gap_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        EventTimeSessionWindows.with_gap(Time.milliseconds(0))
    with pytest.raises(TypeError, match="SessionWindowTimeGapExtractor"):
        EventTimeSessionWindows.with_dynamic_gap(5)
    assigner = EventTimeSessionWindows.with_dynamic_gap(lambda element: element[1])
    with OneInputHarness(sessions(assigner)) as harness, pytest.raises(UserFunctionError, match="positive"):
        harness.process([("a", 0)], [1])


def test_a_trigger_that_cannot_merge_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot"):
        sessions(trigger=DeltaTrigger.of(1.0, lambda one, two: 2.0))


def test_there_is_no_per_window_state_in_sessions() -> None:
    class PerWindow(ProcessWindowFunction[Any, Any, Any, TimeWindow]):
        def process(
            self, key: Any, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
        ) -> list[Any]:
            return [context.window_state().get_state(ValueStateDescriptor("x", Types.LONG()))]

    with OneInputHarness(sessions(function=PerWindow())) as harness, pytest.raises(UserFunctionError, match="merge"):
        harness.process(*numbered(1))
        harness.end_input()


class Days(MergingWindowAssigner[Any, TimeWindow]):
    """Windows of 2 ms; those that begin in the same 10 ms become these 10 ms."""

    def assign_windows(self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Any:
        return [TimeWindow(timestamp, timestamp + 2)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        by_day: dict[int, set[TimeWindow]] = {}
        for window in windows:
            by_day.setdefault(window.start // 10, set()).add(window)
        for day, parts in by_day.items():
            if len(parts) > 1:
                callback.merge(parts, TimeWindow(day * 10, day * 10 + 10))

    def get_default_trigger(self, env: Any = None) -> Trigger[Any, TimeWindow]:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> Any:
        return Bytes()

    def is_event_time(self) -> bool:
        return True


class Bytes:
    """A serializer that knows nothing of namespaces, as PyFlink's TypeSerializer."""

    def serialize(self, element: TimeWindow, stream: Any) -> None:
        TimeWindowSerializer().serialize(element, stream)

    def deserialize(self, stream: Any) -> TimeWindow:
        return TimeWindowSerializer().deserialize(stream)


def test_an_assigner_and_a_serializer_of_the_users_own() -> None:
    with OneInputHarness(sessions(Days())) as harness:
        harness.process(*numbered(1, 7, 12, 5, 9))
        snapshot = harness.snapshot()
    with OneInputHarness(sessions(Days()), snapshot=snapshot) as restored:
        restored.end_input()
    assert restored.values == [("'a'", 0, 10, [0, 1, 3, 4]), ("'a'", 12, 14, [2])]


def test_merging_into_a_late_window_is_an_error() -> None:
    class Shrinking(Days):
        def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
            windows = list(windows)
            if len(windows) > 1:
                callback.merge(windows, TimeWindow(0, 1))

    with OneInputHarness(sessions(Shrinking())) as harness:
        harness.process(*numbered(10))
        harness.process_watermark(8)
        with pytest.raises(UserFunctionError, match="late"):
            harness.process(*numbered(12))


def test_the_window_set_keeps_the_state_of_the_earliest_window() -> None:
    window_set = MergingWindowSet(merge_finder(GAP, TimeWindowSerializer()))
    assert window_set.add_window((1, 6)) == ((1, 6), [])
    assert window_set.add_window((1, 6)) == ((1, 6), [])
    assert window_set.add_window((20, 25)) == ((20, 25), [])
    assert window_set.add_window((4, 9)) == ((1, 9), [Merge((1, 9), [(1, 6)], (1, 6), [])])
    assert window_set.add_window((3, 8)) == ((1, 9), [])
    both = Merge((1, 25), [(1, 9), (20, 25)], (1, 6), [(20, 25)])
    assert window_set.add_window((9, 20)) == ((1, 25), [both])
    assert window_set.windows == {(1, 25): (1, 6)}


def model(gap_of: Any, lateness: int, run: Run) -> tuple[list[str], list[str]]:
    """(key, start, end, numbers) of every firing, and what is late."""
    open_sessions: dict[str, list[list[Any]]] = {}
    fired: list[str] = []
    late: list[str] = []
    watermark = MIN_WATERMARK
    for event in events(run):
        if isinstance(event, int):
            for key, held in open_sessions.items():
                fired += [repr((key, *session)) for session in held if watermark < session[1] - 1 <= event]
                held[:] = [session for session in held if session[1] - 1 + lateness > event]
            watermark = event
            continue
        element, timestamp = event
        held = open_sessions.setdefault(repr(element[0]), [])
        start, end, numbers = timestamp, timestamp + gap_of(element), [element[1]]
        touching = [session for session in held if session[0] <= end and session[1] >= start]
        for session in touching:
            start, end, numbers = min(start, session[0]), max(end, session[1]), numbers + session[2]
        if end - 1 + lateness <= watermark:
            late.append(repr((element, timestamp)))
            continue
        merged = [start, end, sorted(numbers)]
        held[:] = [session for session in held if session not in touching] + [merged]
        if end - 1 <= watermark:
            fired.append(repr((repr(element[0]), *merged)))
    return fired, late


class General(EventTimeTrigger):
    """The default trigger, in disguise: the general operator serves it."""


def check_sessions(run: Run, dynamic: bool, lateness: int, cut: bool) -> None:
    assigner = DynamicEventTimeSessionWindows.with_dynamic_gap(OwnGap()) if dynamic else GAP
    for trigger in (None, General()):
        factory = sessions(assigner, trigger=trigger, allowed_lateness_ms=lateness, late_data_tag=LATE)
        assert isinstance(factory.create(), SessionWindowOperator) == (trigger is None)
        check(factory, run, cut, lambda run: model(OwnGap().extract if dynamic else lambda _: 5, lateness, run))


@settings(max_examples=80)
@given(runs(), st.booleans(), st.sampled_from([0, 4, 20]), st.booleans())
def test_sessions_equal_the_model(run: Run, dynamic: bool, lateness: int, cut: bool) -> None:
    check_sessions(run, dynamic, lateness, cut)


@pytest.mark.slow
@settings(max_examples=4_000, deadline=None)
@given(runs(), st.booleans(), st.sampled_from([0, 4, 20]), st.booleans())
def test_sessions_equal_the_model_at_length(run: Run, dynamic: bool, lateness: int, cut: bool) -> None:
    check_sessions(run, dynamic, lateness, cut)


def test_a_snapshot_of_one_operator_is_continued_by_the_other() -> None:
    fast, general = sessions(), sessions(trigger=General())
    for first, second in ((fast, general), (general, fast)):
        with OneInputHarness(first) as harness:
            harness.process(*numbered(1, 9, 5, 30))
            snapshot = harness.snapshot()
        with OneInputHarness(second, snapshot=snapshot) as restored:
            restored.process([("a", 4)], [12])
            restored.end_input()
        assert restored.values == [("'a'", 1, 17, [0, 1, 2, 4]), ("'a'", 30, 35, [3])]


STAGES = [
    Stage([(f"k{i % 5}", i, 1 + i % 6) for i in range(n, n + 15)], [n + (i * 7) % 25 for i in range(15)], n + 4)
    for n in (0, 12, 24, 36)
]


@pytest.mark.parametrize("assigner", [GAP, EventTimeSessionWindows.with_dynamic_gap(OwnGap()), Days()])
@pytest.mark.parametrize(
    "trigger", [None, General(), CountTrigger.of(3), ContinuousEventTimeTrigger.of(Time.milliseconds(3))]
)
@pytest.mark.parametrize("evictor", [None, CountEvictor.of(2)])
def test_survives_rescaling(assigner: Any, trigger: Any, evictor: Any) -> None:
    factory = sessions(
        assigner,
        function=Remembering(),
        trigger=trigger,
        allowed_lateness_ms=3,
        late_data_tag=LATE,
        evictor=evictor,
    )
    assert_survives_rescaling(factory, STAGES, key_of)


def test_a_trigger_without_on_merge_says_so() -> None:
    class Forgetful(EventTimeTrigger):
        on_merge = Trigger.on_merge

    with OneInputHarness(sessions(trigger=Forgetful())) as harness, pytest.raises(UserFunctionError, match="on_merge"):
        harness.process(*numbered(1, 3))


def test_a_trigger_may_hold_back_and_purge() -> None:
    class Purging(EventTimeTrigger):
        def on_element(self, element: Any, timestamp: int, window: TimeWindow, ctx: Any) -> TriggerResult:
            super().on_element(element, timestamp, window, ctx)
            return TriggerResult.PURGE if element[1] == 1 else TriggerResult.CONTINUE

    with OneInputHarness(sessions(trigger=Purging())) as harness:
        harness.process(*numbered(1, 3, 5))
        harness.end_input()
    assert harness.values == [("'a'", 1, 10, [2])]
