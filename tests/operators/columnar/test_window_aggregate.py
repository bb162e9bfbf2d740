"""Window aggregates by column against windows that call a Python function for each record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.window_aggregate import WindowAggregateOperatorFactory, WindowAggregateSpec
from runtime.operators.operator import OperatorFactory
from runtime.operators.output_tag import OutputTag
from runtime.operators.windowing.assigners import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.operators.windowing.session_windows import EventTimeSessionWindows
from tests.operators.columnar.runs import (
    AGGREGATES,
    BY_ORDER,
    LATE,
    ROWS,
    AggregateInPython,
    Run,
    key_of,
    played,
    runs,
)

ASSIGNERS: list[WindowAssigner[Any, Any]] = [
    TumblingEventTimeWindows(10),
    TumblingEventTimeWindows(7, -3),
    SlidingEventTimeWindows(12, 4, 1),
    SlidingEventTimeWindows(10, 4, 0),
    SlidingEventTimeWindows(3, 8, 0),
    CumulativeEventTimeWindows(12, 4, 2),
    EventTimeSessionWindows(5),
]


def by_column(
    assigner: WindowAssigner[Any, Any], tag: OutputTag | None, lateness_ms: int, in_order: bool = True
) -> OperatorFactory:
    aggregates = aggregate_spec(ROWS, ["key"], [*AGGREGATES, *(BY_ORDER if in_order else ())], {})
    if isinstance(assigner, EventTimeSessionWindows):
        return SessionAggregateOperatorFactory(SessionAggregateSpec(aggregates, assigner.session_gap_ms, tag))
    panes = panes_of(assigner)
    assert panes is not None
    return WindowAggregateOperatorFactory(WindowAggregateSpec(aggregates, panes, lateness_ms, tag))


def by_record(
    assigner: WindowAssigner[Any, Any], tag: OutputTag | None, lateness_ms: int, in_order: bool = True
) -> OperatorFactory:
    return WindowOperatorFactory(
        assigner, key_of, ListContents(ROWS), AggregateInPython(in_order), None, lateness_ms, tag
    )


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=25, deadline=None)
@given(run=runs(), cut=st.booleans(), tag=st.sampled_from([None, LATE]), as_columns=st.booleans())
def test_windows_give_what_a_function_for_each_record_gives(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, tag: OutputTag | None, as_columns: bool
) -> None:
    expected = played(by_record(assigner, tag, 0), run, cut, as_columns)
    assert played(by_column(assigner, tag, 0), run, cut, as_columns) == expected


@pytest.mark.parametrize("assigner", ASSIGNERS[:-1], ids=repr)
@settings(max_examples=20, deadline=None)
@given(run=runs(10), cut=st.booleans(), tag=st.sampled_from([None, LATE]), lateness_ms=st.sampled_from([1, 6, 30]))
def test_windows_that_have_fired_fire_again_for_rows_within_the_allowed_lateness(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, tag: OutputTag | None, lateness_ms: int
) -> None:
    expected = played(by_record(assigner, tag, lateness_ms), run, cut)
    assert played(by_column(assigner, tag, lateness_ms), run, cut) == expected
