"""Window aggregates by column against windows that call a Python function for each record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row, RowKind
from runtime.core.batch import Mark, RecordBatch
from runtime.core.ids import KeyGroup
from runtime.core.keys import encode_key
from runtime.operators.columnar import row_buffer, segments
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.input_checks import ChangelogInputError
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.errors import MissingTimestampError
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
from runtime.state.errors import StateMigrationError
from runtime.state.key_groups import key_group_of
from runtime.state.snapshot import OperatorSnapshot
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.rescaling import (
    assert_columns_survive_lagging_watermarks,
    assert_columns_survive_rescaling,
)
from tests.operators.columnar.runs import (
    AGGREGATES,
    BY_ORDER,
    LATE,
    ROWS,
    AggregateInPython,
    Run,
    batch_of,
    key_of,
    played,
    runs,
    timeline,
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
        return SessionAggregateOperatorFactory(
            SessionAggregateSpec(aggregates, assigner.session_gap_ms, lateness_ms, tag)
        )
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
@settings(max_examples=6, deadline=None)
@given(run=runs(), cut=st.booleans(), tag=st.sampled_from([None, LATE]), as_columns=st.booleans())
def test_windows_give_what_a_function_for_each_record_gives(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, tag: OutputTag | None, as_columns: bool
) -> None:
    # a list of merged sessions is put together session by session there, in the order of arrival here
    in_order = not isinstance(assigner, EventTimeSessionWindows)
    expected = played(by_record(assigner, tag, 0, in_order), run, cut, as_columns)
    assert played(by_column(assigner, tag, 0, in_order), run, cut, as_columns) == expected


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=6, deadline=None)
@given(run=runs(10), cut=st.booleans(), tag=st.sampled_from([None, LATE]), lateness_ms=st.sampled_from([1, 6, 30]))
def test_windows_that_have_fired_fire_again_for_rows_within_the_allowed_lateness(
    assigner: WindowAssigner[Any, Any], run: Run, cut: bool, tag: OutputTag | None, lateness_ms: int
) -> None:
    in_order = not isinstance(assigner, EventTimeSessionWindows)
    expected = played(by_record(assigner, tag, lateness_ms, in_order), run, cut)
    assert played(by_column(assigner, tag, lateness_ms, in_order), run, cut) == expected


def row(key: str | None, number: int | None = None, text: str | None = None) -> Row:
    return Row(key=key, number=number, text=text, amount=None)


@pytest.mark.parametrize("assigner", ASSIGNERS, ids=repr)
@settings(max_examples=3, deadline=None)
@given(parts=st.lists(runs(8), min_size=3, max_size=3), lateness_ms=st.sampled_from([0, 0, 6]))
def test_windows_survive_rescaling(assigner: WindowAssigner[Any, Any], parts: list[Run], lateness_ms: int) -> None:
    factory = by_column(assigner, LATE, lateness_ms, in_order=not isinstance(assigner, EventTimeSessionWindows))
    assert_columns_survive_rescaling(factory, parts)


@pytest.mark.parametrize("assigner", [ASSIGNERS[0], ASSIGNERS[2], ASSIGNERS[-1]], ids=repr)
@settings(max_examples=2, deadline=None)
@given(parts=st.lists(runs(8), min_size=2, max_size=3))
def test_windows_survive_watermarks_that_lag(assigner: WindowAssigner[Any, Any], parts: list[Run]) -> None:
    assert_columns_survive_lagging_watermarks(by_column(assigner, None, 0), parts)


@pytest.mark.parametrize("times_restored", [1, 2])
def test_a_window_that_has_fired_does_not_fire_again_if_a_restore_takes_event_time_back(times_restored: int) -> None:
    factory = by_column(SlidingEventTimeWindows(12, 4, 0), None, 0)
    with OneInputHarness(factory, input_type=ROWS) as harness:
        harness.process([row("a", 1)], [1])
        harness.process_watermark(4)
        (fired,) = harness.values
        saved = harness.snapshot()
    assert (fired["since"], fired["until"], saved.watermark) == (-8, 4, 4)
    snapshot = OperatorSnapshot(saved.keyed, watermark=-5)
    for _ in range(times_restored - 1):
        with OneInputHarness(factory, input_type=ROWS, snapshot=snapshot) as harness:
            snapshot = harness.snapshot()
    assert snapshot.watermark == -5
    with OneInputHarness(factory, input_type=ROWS, snapshot=snapshot) as harness:
        harness.process_watermark(100)
        assert [(value["since"], value["until"]) for value in harness.values] == [(-4, 8), (0, 12)]


def test_first_last_and_collect_of_sessions_follow_the_order_of_arrival() -> None:
    factory = by_column(EventTimeSessionWindows(5), None, 0)
    with OneInputHarness(factory, input_type=ROWS) as harness:
        harness.process([row("a", 1, "x"), row("a", 2, "y")], [10, 0])
        harness.process([row("a", 3, "z")], [5])
        harness.process_watermark(100)
        (value,) = harness.values
    assert (value["first"], value["last"], value["numbers_list"]) == ("x", 3, [1, 2, 3])


def test_a_full_buffer_is_aggregated_and_segments_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "MAX_ROWS", 2)
    monkeypatch.setattr(row_buffer, "_MAX_SINGLE_PANES", 2)
    monkeypatch.setattr(segments, "MAX_SEGMENTS", 3)
    run: Run = ([row("a", n) for n in range(40)], [n * 7 % 60 for n in range(40)], [])
    for assigner in (TumblingEventTimeWindows(10), SlidingEventTimeWindows(12, 4, 1)):
        results = []
        for factory in (by_column(assigner, None, 0), by_record(assigner, None, 0)):
            with OneInputHarness(factory, input_type=ROWS) as harness:
                for start in range(0, 40, 4):
                    stop = start + 4
                    harness.process_batch(batch_of(run[0][start:stop], run[1][start:stop], (), True))
                harness.process_watermark(1_000)
                results.append(timeline(harness))
        assert results[0] == results[1]


def test_only_the_key_groups_of_keys_that_are_there_are_saved() -> None:
    with OneInputHarness(by_column(TumblingEventTimeWindows(10), None, 0), input_type=ROWS) as harness:
        harness.process([row("a"), row("b"), row("a")], [1, 2, 3])
        keyed = harness.snapshot().keyed
        assert keyed is not None
        assert set(keyed.groups) == {KeyGroup(key_group_of(encode_key(key), 128)) for key in "ab"}
        harness.process_watermark(100)
        keyed = harness.snapshot().keyed
        assert keyed is not None
        assert not keyed.groups


def test_state_of_other_aggregates_is_refused() -> None:
    with OneInputHarness(by_column(TumblingEventTimeWindows(10), None, 0), input_type=ROWS) as harness:
        harness.process([row("a")], [1])
        saved = harness.snapshot()
    with pytest.raises(StateMigrationError, match="window-segments"):
        OneInputHarness(by_column(TumblingEventTimeWindows(10), None, 0, in_order=False), snapshot=saved)
    with OneInputHarness(by_record(TumblingEventTimeWindows(10), None, 0), input_type=ROWS) as harness:
        harness.process([row("a")], [1])
        saved = harness.snapshot()
    with pytest.raises(StateMigrationError, match="window-contents"):
        OneInputHarness(by_column(TumblingEventTimeWindows(10), None, 0), snapshot=saved)


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows(10), EventTimeSessionWindows(5)], ids=repr)
def test_rows_without_event_time_and_rows_that_take_others_back_are_refused(assigner: WindowAssigner[Any, Any]) -> None:
    with OneInputHarness(by_column(assigner, None, 0), input_type=ROWS) as harness:
        harness.process_batch(RecordBatch.of_values([], [], [Mark(0, 3)], ROWS))
        with pytest.raises(MissingTimestampError):
            harness.process([row("a")])
        taken_back = row("a")
        taken_back.set_row_kind(RowKind.DELETE)
        with pytest.raises(ChangelogInputError):
            harness.process([taken_back], [5])
        assert harness.watermarks == [3]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sum(text) AS x", "only numbers"),
        ("median(number) AS x", "is not one of the aggregates"),
        ("sum(max(number)) AS x", "more than one row"),
        ("number AS x", "unable to find column"),
        ("count(*)", "no name"),
        ("sum(number AS x", "not closed"),
        ("sum(*) AS x", "only count"),
        ("sum(DISTINCT number) AS x", "DISTINCT"),
        ("count(*) AS key", "is a key"),
        ("sum(number) OVER (PARTITION BY key) AS x", "OVER"),
    ],
)
def test_aggregates_that_cannot_be_used_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ColumnExpressionError) as refused:
        aggregate_spec(ROWS, ["key"], [text], {})
    assert reason in str(refused.value)


def test_a_constant_beside_aggregates_and_bounds_of_windows_alone() -> None:
    for texts in (["5 AS five", "count(*) AS n"], ["window_end", "count(*) AS n", "window_end AS again"]):
        aggregates = aggregate_spec(ROWS, ["key"], texts, {})
        panes = panes_of(TumblingEventTimeWindows(10))
        assert panes is not None
        factory = WindowAggregateOperatorFactory(WindowAggregateSpec(aggregates, panes))
        with OneInputHarness(factory, input_type=ROWS) as harness:
            harness.process([row("a")], [1])
            harness.process_watermark(9)
            (value,) = harness.values
        assert value["n"] == 1
        assert value.as_dict().get("five", 5) == 5
        assert value.as_dict().get("again", 10) == 10


@given(
    assigner=st.sampled_from(ASSIGNERS[:-1]),
    pane=st.integers(-(2**40), 2**40),
    after=st.one_of(st.integers(-50, 50), st.sampled_from([-(2**63), 2**63 - 1])),
)
@settings(max_examples=30, deadline=None)
def test_ends_of_one_pane_are_those_of_many(assigner: WindowAssigner[Any, Any], pane: int, after: int) -> None:
    panes = panes_of(assigner)
    assert panes is not None
    watermark = after if abs(after) > 2**50 else pane + after
    many = np.array([pane, pane + 1], dtype=np.int64)
    assert panes.first_end(pane, watermark) == panes.first_open_ends(many, watermark)[0]
    assert panes.last_end(pane) == panes.last_ends(many)[0]
