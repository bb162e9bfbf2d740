"""Early results by column, against the operator that calls a function for each row and has a continuous trigger."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Duration, Row, Types
from runtime.common.configuration import Configuration
from runtime.core.elements import MAX_WATERMARK
from runtime.datastream import StreamExecutionEnvironment
from runtime.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.early_windows import early_panes
from runtime.operators.columnar.panes import Panes, panes_of, processing_time_panes_of
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, WindowAssigner
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.rescaling import assert_columns_survive_rescaling
from tests.operators.columnar.runs import AGGREGATES, BY_ORDER, ROWS, AggregateInPython, Run, key_of, played, runs

ASSIGNERS: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows(10),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(10, 4, 0),
    SlidingEventTimeWindows(3, 8, 0),
    CumulativeEventTimeWindows(12, 4, 2),
]


def by_column(assigner: WindowAssigner[Any, Any], early_ms: int, lateness_ms: int = 0) -> OperatorFactory:
    aggregates = aggregate_spec(ROWS, ["key"], [*AGGREGATES, *BY_ORDER], {})
    by_clock = processing_time_panes_of(assigner)
    panes = by_clock or panes_of(assigner)
    assert panes is not None
    spec = WindowAggregateSpec(
        aggregates,
        early_panes(panes, early_ms),
        lateness_ms,
        is_processing_time=by_clock is not None,
        early_ms=early_ms,
    )
    return WindowAggregateOperatorFactory(spec)


def by_record(assigner: WindowAssigner[Any, Any], early_ms: int, lateness_ms: int = 0) -> OperatorFactory:
    kind = ContinuousEventTimeTrigger if assigner.is_event_time() else ContinuousProcessingTimeTrigger
    trigger = kind.of(Duration.of_millis(early_ms))
    return WindowOperatorFactory(
        assigner, key_of, ListContents(ROWS), AggregateInPython(in_order=True), trigger, lateness_ms
    )


def in_order(run: Run) -> Run:
    """Return a run in which rows of a key come by their times, and none is behind the watermark."""
    rows, times, marks = run
    reached: dict[Any, int] = defaultdict(lambda: -100)
    moved = []
    for index, (row, time) in enumerate(zip(rows, times, strict=True)):
        watermark = max((mark.watermark for mark in marks if mark.offset <= index), default=-100)
        reached[row["key"]] = max(reached[row["key"]], time, watermark + 1)
        moved.append(reached[row["key"]])
    return rows, moved, marks


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=6, deadline=None)
@given(run=runs(), cut=st.booleans(), early_ms=st.sampled_from([1, 2, 3, 5, 8, 30]), as_columns=st.booleans())
def test_early_results_are_those_of_a_continuous_trigger(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, early_ms: int, as_columns: bool
) -> None:
    run = in_order(run)
    expected = played(by_record(assigner, early_ms), run, cut, as_columns)
    assert played(by_column(assigner, early_ms), run, cut, as_columns) == expected


@settings(max_examples=6, deadline=None)
@given(run=runs(), cut=st.booleans(), lateness_ms=st.sampled_from([0, 6]))
def test_the_last_results_are_those_of_windows_without_early_ones(run: Run, cut: bool, lateness_ms: int) -> None:
    assigner, last = TumblingEventTimeWindows(10), by_column(TumblingEventTimeWindows(10), 40, lateness_ms)
    # no multiple of 40 ms is within these windows, but at their bounds
    plain = WindowAggregateSpec(
        aggregate_spec(ROWS, ["key"], [*AGGREGATES, *BY_ORDER], {}), _panes(assigner), lateness_ms
    )
    assert played(last, run, cut) == played(WindowAggregateOperatorFactory(plain), run, cut)


def _panes(assigner: WindowAssigner[Any, Any]) -> Panes:
    panes = panes_of(assigner)
    assert panes is not None
    return panes


@pytest.mark.parametrize("assigner", [ASSIGNERS[0], ASSIGNERS[3], ASSIGNERS[5]], ids=repr)
@settings(max_examples=2, deadline=None)
@given(parts=st.lists(runs(8), min_size=3, max_size=3))
def test_early_results_survive_rescaling(assigner: WindowAssigner[Any, Any], parts: list[Run]) -> None:
    assert_columns_survive_rescaling(by_column(assigner, 3), parts)


@pytest.mark.parametrize("times", [[], [5]])
def test_windows_end_with_their_input(times: list[int]) -> None:
    with OneInputHarness(by_column(TumblingEventTimeWindows(10), 3), input_type=ROWS) as harness:
        if times:
            harness.process([row("a", 1)], times)
        harness.process_watermark(MAX_WATERMARK)
        assert len(harness.values) == len(times) * 2  # at 6 and at the end: at 9 is the end


def test_what_has_left_does_not_come_again_if_a_restore_sets_event_time_back() -> None:
    factory = by_column(TumblingEventTimeWindows(100), 5)
    with OneInputHarness(factory, input_type=ROWS) as harness:
        harness.process([row("a", 1)], [1])
        harness.process_watermark(12)
        assert len(harness.values) == 2
        saved = harness.snapshot()
    with OneInputHarness(factory, input_type=ROWS, snapshot=replace(saved, watermark=3)) as harness:
        harness.process_watermark(16)
        assert len(harness.values) == 1, "that at 15"


def row(key: str, number: int) -> Row:
    return Row(key=key, number=number, text=None, amount=None)


def test_a_row_out_of_order_counts_from_its_own_time() -> None:
    with OneInputHarness(by_column(TumblingEventTimeWindows(20), 5), input_type=ROWS) as harness:
        harness.process([row("a", 1), row("a", 2)], [17, 12])
        harness.process_watermark(15)
        assert [(value["rows"], value["until"]) for value in harness.values] == [(2, 20)]


@pytest.mark.parametrize(
    "assigner", [TumblingProcessingTimeWindows(20), SlidingProcessingTimeWindows(12, 4, 0)], ids=repr
)
@settings(max_examples=6, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=3)),
        max_size=10,
    )
)
def test_windows_by_the_clock_have_early_results_too(
    assigner: WindowAssigner[Any, Any], steps: list[tuple[int, list[tuple[str, int]]]]
) -> None:
    found = []
    for factory in (by_column(assigner, 5), by_record(assigner, 5)):
        with OneInputHarness(factory, input_type=ROWS, key_selector=key_of, clock=ManualClock(1_000)) as harness:
            for wait, pairs in [*steps, (60, [])]:
                # the clock stands nowhere for long
                for _ in range(wait):
                    harness.advance_processing_time(1)
                harness.process([row(key, number) for key, number in pairs])
            found.append(sorted(repr((record.value, record.timestamp)) for record in harness.records))
    assert found[0] == found[1]


ORDERS = Types.ROW_NAMED(["item", "cents"], [Types.STRING(), Types.LONG()])


@pytest.mark.parametrize(
    ("assigner", "trigger"),
    [
        (TumblingEventTimeWindows(10), ContinuousProcessingTimeTrigger.of(Duration.of_millis(5))),
        (TumblingProcessingTimeWindows(10), ContinuousEventTimeTrigger.of(Duration.of_millis(5))),
        (EventTimeSessionWindows(10), ContinuousEventTimeTrigger.of(Duration.of_millis(5))),
        (TumblingEventTimeWindows(10), CountTrigger.of(5)),
    ],
)
def test_other_triggers_are_refused_by_name(assigner: Any, trigger: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    windows = env.from_collection([("pen", 1)], ORDERS).key_by_columns("item").window(assigner).trigger(trigger)
    with pytest.raises(TypeError, match=f"cannot have the trigger {type(trigger).__name__}"):
        windows.aggregate_columns("count(*) AS n")


def test_an_interval_that_cuts_windows_into_too_many_pieces_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    windows = (
        env.from_collection([("pen", 1)], ORDERS).key_by_columns("item").window(TumblingEventTimeWindows(3_600_000))
    )
    with pytest.raises(ValueError, match="pieces of 1 ms"):
        windows.trigger(ContinuousEventTimeTrigger.of(Duration.of_millis(1_001))).aggregate_columns("count(*) AS n")


def test_a_watermark_far_ahead_passes_at_once_where_there_are_no_rows() -> None:
    with OneInputHarness(by_column(TumblingEventTimeWindows(10), 1), input_type=ROWS) as harness:
        harness.process([row("a", 1)], [5])
        harness.process_watermark(10**15)
        assert [value["rows"] for value in harness.values] == [1] * 4
