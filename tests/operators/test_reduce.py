"""Running aggregates of a keyed stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from runtime.common.typeinfo import Types
from runtime.common.types import Row
from runtime.core.batch import Mark
from runtime.core.elements import Watermark
from runtime.operators.errors import UserFunctionError
from runtime.operators.functions import ReduceFunction
from runtime.operators.reduce import AccumulateFunction, AccumulateType, ReduceOperatorFactory
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling


class Longest(ReduceFunction):
    def reduce(self, value1: str, value2: str) -> str:
        return max(value1, value2, key=len)


def first(value: Any) -> Any:
    return value[0]


def run(kind: AccumulateType, position: int | str, values: list[Any], output_type: Any = None) -> list[Any]:
    with OneInputHarness(ReduceOperatorFactory(AccumulateFunction(kind, position), first, output_type)) as harness:
        harness.process(values)
    return harness.values


def test_every_record_gives_the_aggregate_so_far() -> None:
    with OneInputHarness(ReduceOperatorFactory(Longest(), first)) as harness:
        harness.process(["a", "bb", "abc", "ab"], [1, 2, 3, 4], [Mark(2, 2)])
    assert harness.output == [("a", 1), ("bb", 2), Watermark(2), ("abc", 3), ("abc", 4)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (AccumulateType.SUM, [("a", 3, "x"), ("a", 4, "x"), ("a", 9, "x")]),
        (AccumulateType.MIN, [("a", 3, "x"), ("a", 1, "x"), ("a", 1, "x")]),
        (AccumulateType.MAX, [("a", 3, "x"), ("a", 3, "x"), ("a", 5, "x")]),
        (AccumulateType.MIN_BY, [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "y")]),
        (AccumulateType.MAX_BY, [("a", 3, "x"), ("a", 3, "x"), ("a", 5, "z")]),
    ],
)
def test_aggregates_of_a_field(kind: AccumulateType, expected: list[Any]) -> None:
    assert run(kind, 1, [("a", 3, "x"), ("a", 1, "y"), ("a", 5, "z")]) == expected


def test_aggregates_of_rows_named_tuples_and_numbers() -> None:
    class Point(NamedTuple):
        key: str
        x: int

    rows = run(AccumulateType.SUM, "n", [Row(k="a", n=1), Row(k="a", n=2)])
    assert rows == [Row(k="a", n=1), Row(k="a", n=3)]
    assert run(AccumulateType.SUM, 1, [Point("a", 1), Point("a", 2)]) == [Point("a", 1), Point("a", 3)]
    with OneInputHarness(ReduceOperatorFactory(AccumulateFunction(AccumulateType.SUM), lambda v: 0)) as harness:
        harness.process([1, 2, 3])
    assert harness.values == [1, 3, 6]


def test_a_sum_beyond_its_types_range_overflows_and_leaves_the_state_as_it_was() -> None:
    factory = ReduceOperatorFactory(AccumulateFunction(AccumulateType.SUM), lambda v: 0, Types.BYTE())
    with OneInputHarness(factory) as harness:
        with pytest.raises(UserFunctionError, match=r"OverflowError: 200 \(int\) does not fit BYTE"):
            harness.process([100, 100])
        snapshot = harness.snapshot()
    with OneInputHarness(factory, snapshot=snapshot) as restored:
        restored.process([1])
    assert restored.values == [101]


def test_a_sum_joins_texts() -> None:
    assert run(AccumulateType.SUM, 1, [("a", "x"), ("a", "y")]) == [("a", "x"), ("a", "xy")]


def test_what_cannot_be_summed_is_named() -> None:
    with pytest.raises(UserFunctionError, match=r"sum\(1\) cannot add 1 and None"):
        run(AccumulateType.SUM, 1, [("a", 1), ("a", None)])
    with pytest.raises(UserFunctionError, match="no such field"):
        run(AccumulateType.SUM, 7, [("a", 1), ("a", 2)])


def test_equal_numbers_of_different_types_are_different_keys() -> None:
    with OneInputHarness(ReduceOperatorFactory(lambda a, b: [*a, *b], first)) as harness:
        harness.process([[1], [1.0], [True], [1]])
    assert harness.values == [[1], [1.0], [True], [1, 1]]


def test_survives_rescaling() -> None:
    stages = [Stage([(f"k{i % 5}", i) for i in range(n, n + 9)]) for n in (0, 9, 18, 27)]
    assert_survives_rescaling(ReduceOperatorFactory(AccumulateFunction(AccumulateType.SUM, 1), first), stages, first)
