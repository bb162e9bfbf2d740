"""Windows, assigners and triggers as plain values."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.time import Duration, Time
from runtime.operators.windowing.assigners import (
    GlobalWindows,
    MergingWindowAssigner,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows, CumulativeProcessingTimeWindows
from runtime.operators.windowing.triggers import CountTrigger, PurgingTrigger, Trigger, TriggerResult
from runtime.operators.windowing.windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    window_serializer,
)


def test_time_windows() -> None:
    window = TimeWindow(10, 20)
    assert window.max_timestamp() == 19
    assert window.intersects(TimeWindow(20, 30)) and not window.intersects(TimeWindow(21, 30))
    assert window.cover(TimeWindow(15, 40)) == TimeWindow(10, 40)
    assert sorted([TimeWindow(5, 9), TimeWindow(1, 7)]) == [TimeWindow(1, 7), TimeWindow(5, 9)]
    merged: dict[TimeWindow, set[TimeWindow]] = {}

    class Callback(MergingWindowAssigner.MergeCallback[TimeWindow]):
        def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
            merged[merge_result] = set(to_be_merged)

    TimeWindow.merge_windows([TimeWindow(8, 9), TimeWindow(1, 4), TimeWindow(3, 6), TimeWindow(8, 9)], Callback())
    assert merged == {TimeWindow(1, 6): {TimeWindow(1, 4), TimeWindow(3, 6)}}
    assert pickle.loads(pickle.dumps(window)) == window


def test_serializers_turn_windows_into_tuples_of_ints_and_back() -> None:
    times, counts, everything = TimeWindowSerializer(), CountWindowSerializer(), GlobalWindowSerializer()
    assert times.to_namespace(TimeWindow(1, 2)) == (1, 2)
    assert times.from_namespace((1, 2)) == TimeWindow(1, 2)
    assert counts.from_namespace(counts.to_namespace(CountWindow(3))) == CountWindow(3)
    for serializer, window in ((times, TimeWindow(1, -2)), (counts, CountWindow(7)), (everything, GlobalWindow.get())):
        stream = BytesIO()
        serializer.serialize(window, stream)  # type: ignore[arg-type]
        stream.seek(0)
        assert serializer.deserialize(stream) == window
    assert window_serializer(times) is times
    with pytest.raises(TypeError, match="serializer"):
        window_serializer(None)
    assert everything.from_namespace(everything.to_namespace(GlobalWindow.get())) == GlobalWindow.get()


def test_window_starts_round_down_before_1970() -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4), Time.milliseconds(2))
    assert [window.start for window in assigner.windows_at(0)] == [-2, -6]
    assert [window.start for window in TumblingEventTimeWindows(10).windows_at(-1)] == [-10]


@given(st.integers(-500, 500), st.integers(1, 40), st.integers(1, 40), st.data())
def test_an_element_is_in_the_windows_that_cover_it(ts: int, size: int, slide: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(1 - slide, slide - 1))
    windows = SlidingEventTimeWindows(size, slide, offset).windows_at(ts)
    expected = {start for start in range(ts - size + 1, ts + 1) if (start - offset) % slide == 0}
    assert {window.start for window in windows} == expected
    assert all(window.end == window.start + size for window in windows)


@given(st.integers(-500, 500), st.integers(1, 20), st.integers(1, 6), st.data())
def test_cumulative_windows_grow_by_a_step_up_to_their_size(
    ts: int, step: int, steps: int, data: st.DataObject
) -> None:
    size = step * steps
    offset = data.draw(st.integers(1 - size, size - 1))
    windows = CumulativeEventTimeWindows(size, step, offset).windows_at(ts)
    start = windows[0].start
    assert (start - offset) % size == 0 and start <= ts < start + size
    assert windows == [TimeWindow(start, start + n * step) for n in range(1, steps + 1) if ts < start + n * step]


def test_senseless_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of the step"):
        CumulativeEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(4))
    with pytest.raises(ValueError, match="offset"):
        CumulativeProcessingTimeWindows.of(Time.seconds(4), Time.seconds(2), Duration.of_seconds(4))
    with pytest.raises(ValueError, match="positive"):
        TumblingEventTimeWindows.of(Time.milliseconds(0))
    with pytest.raises(ValueError, match="offset"):
        TumblingEventTimeWindows.of(Time.seconds(1), Time.seconds(1))
    with pytest.raises(ValueError, match="at least 1"):
        CountTrigger.of(0)


def test_assigners_know_their_time_domain_and_default_trigger() -> None:
    second = Time.seconds(1)
    for assigner in (TumblingEventTimeWindows.of(second), SlidingEventTimeWindows.of(second, second)):
        assert assigner.is_event_time()
        assert type(assigner.get_default_trigger()).__name__ == "EventTimeTrigger"
    for processing in (TumblingProcessingTimeWindows.of(second), SlidingProcessingTimeWindows.of(second, second)):
        assert not processing.is_event_time()
        assert type(processing.get_default_trigger()).__name__ == "ProcessingTimeTrigger"
    assert type(GlobalWindows.create().get_default_trigger()).__name__ == "NeverTrigger"


def test_trigger_results_and_pyflinks_nested_names() -> None:
    assert [(r.is_fire(), r.is_purge()) for r in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]
    assert Trigger.TriggerContext.__name__ == "TriggerContext"
    assert PurgingTrigger.of(CountTrigger.of(1)).can_merge()
