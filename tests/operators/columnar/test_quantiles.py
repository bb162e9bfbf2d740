"""approx_quantile: the bound of its error, how sketches merge, and its place among the aggregates."""

from __future__ import annotations

import decimal
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common import Row
from runtime.common.typeinfo import Types
from runtime.operators.columnar.aggregates import aggregate_spec
from runtime.operators.columnar.expressions import ColumnExpressionError
from runtime.operators.columnar.panes import panes_of
from runtime.operators.columnar.quantile_sketch import (
    BUCKET,
    COUNT,
    bucket_of,
    quantile_of,
    sketch_of_rows,
    sketch_of_sketches,
    value_of,
)
from runtime.operators.columnar.session_aggregate import SessionAggregateOperatorFactory, SessionAggregateSpec
from runtime.operators.columnar.window_aggregate import WindowAggregateSpec
from runtime.operators.columnar.window_factory import WindowAggregateOperatorFactory
from runtime.operators.operator import OperatorFactory
from runtime.operators.windowing.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from runtime.operators.windowing.cumulative_windows import CumulativeEventTimeWindows
from runtime.state.errors import StateMigrationError
from runtime.testing.harness import OneInputHarness
from tests.operators.columnar.rescaling import assert_columns_survive_rescaling
from tests.operators.columnar.runs import ROWS, Run, runs

ROUNDING = 1e-9
"""Of logarithms, relative: what the bound leaves out."""
REALS = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 1.0, 5e-324, -1.7e308]))


def exact(values: list[float], quantile: float) -> float:
    return sorted(values)[math.floor(quantile * (len(values) - 1))]


def check_bound(values: list[float], quantile: float, accuracy: float, parts: int) -> None:
    """Check the quantile of sketches that are made of parts of the values and then merged."""
    rows = pl.DataFrame({"part": [n % parts for n in range(len(values))], "key": 0, "x": values})
    sketches = sketch_of_rows(rows, "x", accuracy, "s", ["part", "key"])
    merged = sketch_of_sketches(sketches, "s", ["key"])
    found = merged.select(quantile_of(pl.col("s"), quantile, accuracy)).item()
    expected = exact(values, quantile)
    assert abs(found - expected) <= accuracy * abs(expected) * (1 + ROUNDING) + 5e-324


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(REALS, min_size=1, max_size=30),
    quantile=st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)),
    accuracy=st.sampled_from([0.0001, 0.01, 0.5]),
    parts=st.integers(1, 4),
)
def test_the_relative_error_is_within_the_bound(
    values: list[float], quantile: float, accuracy: float, parts: int
) -> None:
    check_bound(values, quantile, accuracy, parts)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=600, deadline=None)
@given(
    values=st.lists(REALS, min_size=1, max_size=300),
    quantile=st.floats(0, 1),
    accuracy=st.floats(0.0001, 0.5),
    parts=st.integers(1, 9),
)
def test_the_relative_error_is_within_the_bound_for_many_values(
    values: list[float], quantile: float, accuracy: float, parts: int
) -> None:
    check_bound(values, quantile, accuracy, parts)


def test_buckets_are_in_the_order_of_values_and_the_infinities_are_themselves() -> None:
    values = [-math.inf, -1e300, -2.0, -5e-324, 0.0, 5e-324, 1.0, 2.0, 1.7e308, math.inf]
    frame = pl.DataFrame({"x": values}).with_columns(bucket_of(pl.col("x"), 0.01).alias("b"))
    assert frame["b"].is_sorted() and frame["b"].n_unique() == len(values)
    back = frame.select(value_of(pl.col("b"), 0.01)).to_series().to_list()
    assert (back[0], back[4], back[-1]) == (-math.inf, 0.0, math.inf)
    nothing = pl.DataFrame({"x": [None, math.nan]}, schema={"x": pl.Float64()})
    assert nothing.select(bucket_of(pl.col("x"), 0.01)).to_series().to_list() == [None, None]


def test_a_sketch_is_small() -> None:
    values = pl.DataFrame({"key": 0, "x": [1.001**n for n in range(20_000)]})
    (sketch,) = sketch_of_rows(values, "x", 0.01, "s", ["key"])["s"].to_list()
    assert len(sketch) < 1_050
    assert sum(item[COUNT] for item in sketch) == 20_000
    assert [item[BUCKET] for item in sketch] == sorted(item[BUCKET] for item in sketch)


QUANTILES = (
    "approx_quantile(number, 0.5) AS middle",
    "approx_quantile(amount * 10, 1, 0.001) AS highest",
    "approx_quantile(number, 0) FILTER (WHERE text = 'x') AS lowest_x",
    "approx_quantile(number, 0.9) - approx_quantile(number, 0.1) AS spread",
    "count(*) AS n",
)


def by_column(assigner: Any) -> OperatorFactory:
    panes = panes_of(assigner)
    assert panes is not None
    return WindowAggregateOperatorFactory(WindowAggregateSpec(aggregate_spec(ROWS, ["key"], QUANTILES, {}), panes))


def row(number: int | None, text: str | None, amount: str | None, key: str | None = "ü") -> Row:
    return Row(key=key, number=number, text=text, amount=None if amount is None else decimal.Decimal(amount))


@pytest.mark.parametrize(
    "factory",
    [
        by_column(TumblingEventTimeWindows(100)),
        SessionAggregateOperatorFactory(SessionAggregateSpec(aggregate_spec(ROWS, ["key"], QUANTILES, {}), 90)),
    ],
    ids=["tumbling", "sessions"],
)
def test_quantiles_of_windows(factory: OperatorFactory) -> None:
    with OneInputHarness(factory, input_type=ROWS) as harness:
        harness.process([row(1, "x", "1.5"), row(3, "y", None)], [10, 20])
        harness.process([row(None, "x", "2.5"), row(10, None, "-4"), row(None, None, None, None)], [30, 40, 50])
        harness.process_watermark(1_000)
        results = {value["key"]: value for value in harness.values}
    assert results[None].as_dict() == {
        "key": None, "middle": None, "highest": None, "lowest_x": None, "spread": None, "n": 1,
    }  # fmt: skip
    value = results["ü"]
    assert value["middle"] == pytest.approx(3, rel=0.01)
    assert value["highest"] == pytest.approx(25, rel=0.001)
    assert value["lowest_x"] == pytest.approx(1, rel=0.01)
    assert value["spread"] == pytest.approx(2, rel=0.05)
    assert value["n"] == 4


@pytest.mark.parametrize(
    "assigner", [SlidingEventTimeWindows(12, 4, 1), CumulativeEventTimeWindows(12, 4, 2)], ids=repr
)
@settings(max_examples=2, deadline=None)
@given(parts=st.lists(runs(8), min_size=3, max_size=3))
def test_sketches_survive_rescaling(assigner: Any, parts: list[Run]) -> None:
    assert_columns_survive_rescaling(by_column(assigner), parts)


def test_a_sketch_of_another_accuracy_is_refused() -> None:
    saved = None
    for accuracy in ("0.01", "0.02"):
        spec = aggregate_spec(ROWS, ["key"], [f"approx_quantile(number, 0.5, {accuracy}) AS q"], {})
        panes = panes_of(TumblingEventTimeWindows(10))
        assert panes is not None
        factory = WindowAggregateOperatorFactory(WindowAggregateSpec(spec, panes))
        if saved is not None:
            with pytest.raises(StateMigrationError):
                OneInputHarness(factory, input_type=ROWS, snapshot=saved)
            return
        with OneInputHarness(factory, input_type=ROWS) as harness:
            harness.process([row(1, None, None)], [1])
            saved = harness.snapshot()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("approx_quantile(number) AS q", "value, quantile"),
        ("approx_quantile(number, 2) AS q", "between 0 and 1"),
        ("approx_quantile(number, number) AS q", "plain numbers"),
        ("approx_quantile(number, 0.5, 0.9) AS q", "relative error"),
        ("approx_quantile(number, 0.5, 0.1, 1) AS q", "relative error"),
    ],
)
def test_what_is_no_quantile_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ColumnExpressionError, match=reason):
        aggregate_spec(ROWS, ["key"], [text], {})


def test_the_type_is_double_and_a_comma_may_be_part_of_the_value() -> None:
    text = "approx_quantile(coalesce(number, 0), 0.5) AS q"
    spec = aggregate_spec(ROWS, ["key"], [text], {})
    assert spec.plan().output_type == Types.ROW_NAMED(["key", "q"], [Types.STRING(), Types.DOUBLE()])
