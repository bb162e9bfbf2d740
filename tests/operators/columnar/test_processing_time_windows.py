"""Windows of processing time by column, against the operator that calls a function for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, Types
from runtime.core.batch import Mark, RecordBatch
from runtime.core.elements import Watermark
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.panes import processing_time_panes_of
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.functions import ProcessWindowFunction
from runtime.operators.windowing.assigners import (
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.testing.clock import ManualClock
from runtime.testing.harness import OneInputHarness

RECORD = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
ASSIGNERS: dict[str, WindowAssigner[Any, Any]] = {
    "tumbling": TumblingProcessingTimeWindows(10, 3),
    "sliding": SlidingProcessingTimeWindows(10, 4, 0),
    "with gaps": SlidingProcessingTimeWindows(4, 10, 0),
}


class Totals(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield Row(key=key, since=window.start, until=window.end, total=sum(row["n"] for row in elements))


def key_of(row: Row) -> Any:
    return row["key"]


def by_column(assigner: WindowAssigner[Any, Any]) -> WindowAggregateOperatorFactory:
    texts = ["window_start AS since", "window_end AS until", "sum(n) AS total"]
    panes = processing_time_panes_of(assigner)
    assert panes is not None
    aggregates = aggregate_spec(RECORD, ["key"], texts, {})
    return WindowAggregateOperatorFactory(WindowAggregateSpec(aggregates, panes, is_processing_time=True))


def by_record(assigner: WindowAssigner[Any, Any]) -> WindowOperatorFactory:
    return WindowOperatorFactory(assigner, key_of, ListContents(RECORD), Totals())


Step = tuple[int, list[tuple[str, int]]]
STEPS = st.lists(
    st.tuples(st.integers(0, 15), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=3)),
    max_size=12,
)


def played(factory: Any, steps: Sequence[Step], restores: bool) -> list[list[str]]:
    """Results after each step, in no order; the clock goes on before the rows of a step come."""
    clock = ManualClock(1_000)
    found = []
    harness = OneInputHarness(factory, input_type=RECORD, key_selector=key_of, clock=clock)
    try:
        for wait, pairs in [*steps, (50, [])]:
            harness.advance_processing_time(wait)
            harness.process([Row(key=key, n=n) for key, n in pairs])
            found.append(sorted(f"{list(record.value)} at {record.timestamp}" for record in harness.records))
            if restores:
                snapshot = harness.snapshot()
                harness.close()
                clock = ManualClock(clock.now_ms())
                harness = OneInputHarness(
                    factory, input_type=RECORD, key_selector=key_of, clock=clock, snapshot=snapshot
                )
    finally:
        harness.close()
    return found


@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=30, deadline=None)
@given(steps=STEPS)
def test_windows_give_what_a_function_for_each_window_gives(kind: str, steps: list[Step]) -> None:
    assigner = ASSIGNERS[kind]
    assert played(by_column(assigner), steps, False) == played(by_record(assigner), steps, False)


@pytest.mark.parametrize("kind", ASSIGNERS)
@settings(max_examples=10, deadline=None)
@given(steps=STEPS)
def test_windows_survive_a_restore_after_each_step(kind: str, steps: list[Step]) -> None:
    straight = played(by_column(ASSIGNERS[kind]), steps, False)
    pieces = played(by_column(ASSIGNERS[kind]), steps, True)
    assert sorted(result for piece in pieces for result in piece) == straight[-1]


def test_watermarks_pass_and_windows_that_are_over_at_a_restore_fire_at_once() -> None:
    with OneInputHarness(by_column(ASSIGNERS["tumbling"]), input_type=RECORD, clock=ManualClock(1_000)) as harness:
        rows = [Row(key="a", n=1), Row(key="a", n=2)]
        harness.process_batch(RecordBatch.of_values(rows, [7, 8], [Mark(1, 5), Mark(2, 6)], RECORD))
        harness.process_watermark(9)
        assert harness.output == [Watermark(6), Watermark(9)]
        snapshot = harness.snapshot()
    late = ManualClock(5_000)
    with OneInputHarness(by_column(ASSIGNERS["tumbling"]), input_type=RECORD, clock=late, snapshot=snapshot) as harness:
        harness.advance_processing_time(0)
        assert harness.values == [Row(key="a", since=993, until=1003, total=3)]


def test_a_clock_that_was_set_back_opens_no_window_again() -> None:
    with OneInputHarness(by_column(ASSIGNERS["tumbling"]), input_type=RECORD, clock=ManualClock(1_000)) as harness:
        harness.process([Row(key="a", n=1)])
        harness.advance_processing_time(5)
        assert len(harness.values) == 1
        snapshot = harness.snapshot()
    with OneInputHarness(
        by_column(ASSIGNERS["tumbling"]), input_type=RECORD, clock=ManualClock(900), snapshot=snapshot
    ) as harness:
        harness.process([Row(key="a", n=2)])
        harness.advance_processing_time(200)
        assert harness.values == [Row(key="a", since=1003, until=1013, total=2)]


def test_state_of_event_time_is_not_taken_for_state_of_the_clock() -> None:
    assert by_column(ASSIGNERS["tumbling"]).window_type == "panes of 10 ms from 3 ms of processing time"
