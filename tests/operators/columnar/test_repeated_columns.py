"""Expressions may name a column as often as they like: with marks inside a batch and with batches cut at them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.column_keys import ColumnKeys
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.deduplicate import DeduplicateOperatorFactory
from runtime.operators.columnar.expressions import extension, selection
from runtime.operators.columnar.panes import Panes, panes_of
from runtime.operators.columnar.project import ProjectOperatorFactory, WhereOperatorFactory
from runtime.operators.columnar.running_aggregate import RunningAggregateOperatorFactory
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.assigners import TumblingEventTimeWindows
from tests.operators.columnar.runs import ROWS, Run, played, runs

CONDITIONS = (
    "number > 0 AND number < 3",
    "number > 0 OR number IS NULL",
    "number * number > number",
    "text = 'x' OR text = 'y'",
    "key = 'a' AND text = 'x' OR key = 'ü' AND number = number",
)
SUMS = ("sum(number * number + number) AS a", "sum(number) - min(number) AS b", "max(number) + sum(number) AS c")
FILTERED = ("count(*) FILTER (WHERE number > 0 AND number < 3) AS d",)


def panes() -> Panes:
    found = panes_of(TumblingEventTimeWindows(10))
    assert found is not None
    return found


def factories() -> list[tuple[str, OperatorFactory]]:
    sums = aggregate_spec(ROWS, ["key"], [*SUMS, *FILTERED], {})
    windows = WindowAggregateSpec(sums, panes(), 0, None)
    return [
        *((f"where {condition}", WhereOperatorFactory(condition, ROWS)) for condition in CONDITIONS),
        ("select", ProjectOperatorFactory(selection(ROWS, ["number + number AS a", "number - 1 AS b"], {}))),
        (
            "with columns",
            ProjectOperatorFactory(extension(ROWS, ["number * number AS number", "text || text AS t"], {})),
        ),
        ("windows", WindowAggregateOperatorFactory(windows)),
        ("sessions", SessionAggregateOperatorFactory(SessionAggregateSpec(sums, 5, 0, None))),
        ("running", RunningAggregateOperatorFactory(aggregate_spec(ROWS, ["key"], [*SUMS, *FILTERED], {}, ()))),
        (
            "top-n",
            TopNOperatorFactory(top_n_spec(ROWS, ["key"], 2, ["number * number", "number"], [True, False], None)),
        ),
        ("deduplicate", DeduplicateOperatorFactory(ColumnKeys(["key", "number"], ROWS), ROWS)),
    ]


@pytest.mark.parametrize("factory", [pytest.param(factory, id=name) for name, factory in factories()])
@settings(max_examples=8, deadline=None)
@given(run=runs(), as_columns=st.booleans())
def test_marks_inside_a_batch_change_nothing(factory: OperatorFactory, run: Run, as_columns: bool) -> None:
    assert played(factory, run, False, as_columns) == played(factory, run, True, as_columns)


def test_a_key_has_each_column_once() -> None:
    with pytest.raises(ValueError, match="each column once, not key, number, key"):
        ColumnKeys(["key", "number", "key"], ROWS)
