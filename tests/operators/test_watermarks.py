"""Event times, marks, intervals, idleness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common.time import Duration
from runtime.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkStrategy
from runtime.core.batch import NO_TIMESTAMP, RecordBatch
from runtime.core.elements import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus
from runtime.operators.errors import UserFunctionError
from runtime.operators.watermarks import TimestampsAndWatermarksOperatorFactory, WatermarkTracker
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness

EACH_ROW = {"pipeline.auto-watermark-interval": "0 ms"}
BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5))


class ByValue(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value


class Punctuated(WatermarkGenerator):
    """A watermark at every multiple of ten."""

    def on_event(self, event: Any, event_timestamp: int) -> int | None:
        return event_timestamp if event_timestamp % 10 == 0 else None

    def on_periodic_emit(self) -> int | None:
        return None


class MaxSeen(WatermarkGenerator):
    """Bounded out-of-orderness, written by hand."""

    def __init__(self) -> None:
        self.max = MIN_WATERMARK + 6

    def on_event(self, event: Any, event_timestamp: int) -> int | None:
        self.max = max(self.max, event_timestamp)
        return None

    def on_periodic_emit(self) -> int | None:
        return self.max - 6


def harness_of(strategy: WatermarkStrategy, **kwargs: Any) -> OneInputHarness:
    return OneInputHarness(TimestampsAndWatermarksOperatorFactory(strategy), **kwargs)


def test_with_interval_zero_there_is_a_mark_behind_each_row_that_raises_the_watermark() -> None:
    with harness_of(BOUNDED.with_timestamp_assigner(ByValue()), configuration=EACH_ROW) as harness:
        harness.process([10, 8, 20])
        harness.process([19, 21])
    assert harness.output == [
        (10, 10),
        Watermark(4),
        (8, 8),
        (20, 20),
        Watermark(14),
        (19, 19),
        (21, 21),
        Watermark(15),
    ]


def test_with_an_interval_there_is_one_mark_at_the_end_of_a_batch_when_it_is_due() -> None:
    with harness_of(BOUNDED.with_timestamp_assigner(lambda value, _: value)) as harness:
        harness.process([10, 20])
        assert harness.watermarks == []
        harness.clock.advance(200)  # the batch comes before the timer
        harness.process([30, 25])
        assert harness.watermarks == [24]
        harness.process([40])
        harness.advance_processing_time(200)
        assert harness.output[-1] == Watermark(34)
        harness.advance_processing_time(1000)
        assert harness.watermarks == [24, 34]


def test_the_last_watermark_passes_and_all_others_from_upstream_end() -> None:
    with harness_of(BOUNDED) as harness:
        harness.process_watermark(7)
        harness.process_watermark_status(WatermarkStatus.IDLE)
        harness.end_input()
        assert harness.output == [Watermark(MAX_WATERMARK)]
        assert harness.processing_time.num_timers == 0


def test_without_a_strategy_for_watermarks_there_are_none() -> None:
    with harness_of(WatermarkStrategy.no_watermarks().with_timestamp_assigner(ByValue())) as harness:
        harness.process([1, 2])
        harness.advance_processing_time(1000)
        assert harness.output == [(1, 1), (2, 2)]
        assert harness.processing_time.num_timers == 0


def test_records_without_event_time_raise_nothing() -> None:
    with harness_of(BOUNDED, configuration=EACH_ROW) as harness:
        harness.process(["a"])
        harness.process(["b", "c"], [NO_TIMESTAMP, 9])
    assert harness.watermarks == [3]


def test_an_idle_input_says_so_and_says_when_it_is_active_again() -> None:
    strategy = BOUNDED.with_timestamp_assigner(ByValue()).with_idleness(Duration.of_millis(500))
    with harness_of(strategy) as harness:
        harness.process([10])
        harness.advance_processing_time(1000)
        assert harness.output == [(10, 10), Watermark(4), WatermarkStatus.IDLE]
        harness.process([11])
        assert harness.output[3:] == [WatermarkStatus.ACTIVE, (11, 11), Watermark(5)]


def test_idleness_works_with_interval_zero() -> None:
    strategy = BOUNDED.with_idleness(Duration.of_millis(500))
    with harness_of(strategy, configuration=EACH_ROW) as harness:
        harness.advance_processing_time(500)
        harness.process_watermark(MAX_WATERMARK)
    assert harness.output == [WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, Watermark(MAX_WATERMARK)]


def test_punctuated_watermarks_are_marks_at_any_interval() -> None:
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(ByValue())
    with harness_of(strategy) as harness:
        harness.process([10, 9, 20, 10])
    assert harness.output == [(10, 10), Watermark(10), (9, 9), (20, 20), Watermark(20), (10, 10)]


@pytest.mark.parametrize("wrong", ["1", None, True, float("nan"), float("inf")], ids=repr)
def test_a_timestamp_that_is_no_number_is_refused_with_the_record(wrong: object) -> None:
    strategy = BOUNDED.with_timestamp_assigner(lambda value, _: value)
    with harness_of(strategy) as harness, pytest.raises(UserFunctionError, match="timestamp assigner") as caught:
        harness.process([1, wrong])
    assert caught.value.record == repr(wrong)


def test_numbers_of_numpy_and_floats_are_taken_as_milliseconds() -> None:
    with harness_of(BOUNDED.with_timestamp_assigner(lambda value, _: value)) as harness:
        harness.process([np.int64(1), 2.7, np.float64(3)])
    assert harness.batches[0][0].timestamps() == [1, 2, 3]
    assert set(map(type, harness.batches[0][0].timestamps() or [])) == {int}


def test_a_restored_operator_hands_nothing_out_again() -> None:
    strategy = BOUNDED.with_timestamp_assigner(ByValue())
    with harness_of(strategy, configuration=EACH_ROW) as harness:
        harness.process([100])
        snapshot = harness.snapshot()
    assert snapshot.watermark == 94
    with harness_of(strategy, configuration=EACH_ROW, snapshot=snapshot) as restored:
        restored.process([90, 100, 101])
    assert restored.watermarks == [95]


@given(st.lists(st.lists(st.integers(-50, 50), max_size=6), max_size=5))
def test_the_vectorised_generator_equals_the_one_by_row(batches: list[list[int]]) -> None:
    clock = ManualClock()
    fast = WatermarkTracker(BOUNDED, 0, clock)
    slow = WatermarkTracker(WatermarkStrategy.for_generator(MaxSeen), 0, clock)
    for timestamps in batches:
        batch = RecordBatch.of_values(["x"] * len(timestamps), timestamps)
        assert list(fast.on_batch(batch).marks) == list(slow.on_batch(batch).marks)
        assert fast.current == slow.current
