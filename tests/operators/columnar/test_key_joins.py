"""Keys that are NaN, null or -0.0, in frames of one row and of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from runtime.common import Row, Types
from runtime.core.arrow import to_arrow
from runtime.core.batch import RecordBatch
from runtime.operators.columnar.interval_join import ColumnIntervalJoinOperatorFactory, ColumnIntervalJoinSpec
from runtime.operators.columnar.join_columns import JoinSides
from runtime.operators.columnar.key_joins import joined
from runtime.operators.columnar.top_n import TopNOperatorFactory
from runtime.operators.columnar.top_n_plan import top_n_spec
from runtime.testing.harness import OneInputHarness
from runtime.testing.two_input_harness import TwoInputHarness

NAN = float("nan")
REALS = Types.ROW_NAMED(["key", "number"], [Types.DOUBLE(), Types.LONG()])


def batch_of(keys: list[float | None], first: int) -> RecordBatch:
    rows = [Row(key=key, number=first + number) for number, key in enumerate(keys)]
    return RecordBatch.of_arrow(to_arrow(rows, REALS), REALS, np.zeros(len(rows), dtype=np.int64))


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ([NAN], [NAN], [0]),
        ([NAN, NAN], [NAN], [0, 0]),
        ([1.0, NAN], [NAN, 1.0], [1, 0]),
        ([None], [None], [0]),
        ([-0.0], [0.0], [0]),
        ([1.0], [NAN], [None]),
    ],
)
def test_equal_keys_are_found(left: list[Any], right: list[Any], found: list[Any]) -> None:
    numbered = pl.DataFrame({"other": right}, schema={"other": pl.Float64}).with_row_index("place")
    made = joined(
        pl.DataFrame({"key": left}, schema={"key": pl.Float64}),
        numbered,
        ["key"],
        "left",
        right_keys=["other"],
        in_order=True,
    )
    assert made.columns == ["key", "place"]
    assert made.get_column("place").to_list() == found


@pytest.mark.parametrize("key", [NAN, None, -0.0])
def test_rows_of_such_a_key_have_one_top_n(key: float | None) -> None:
    harness = OneInputHarness(TopNOperatorFactory(top_n_spec(REALS, ["key"], 1, "number", True, None)), None)
    with harness:
        for first in (1, 3):
            harness.operator.process_batch(batch_of([key], first))
        assert [row["number"] for row in harness.values] == [1, 1, 3]


@pytest.mark.parametrize("key", [NAN, None, -0.0])
def test_rows_of_such_a_key_are_pairs(key: float | None) -> None:
    sides = JoinSides((REALS, REALS), (("key",), ("key",)))
    factory = ColumnIntervalJoinOperatorFactory(ColumnIntervalJoinSpec(sides, 0, 0))
    with TwoInputHarness(factory, (None, None)) as harness:
        for side in (0, 1):
            harness.operator.inputs[side].process_batch(batch_of([key], side))
        assert [row["number_right"] for row in harness.values] == [1]
