"""Window join and co-group: the tagged union, and what its window functions make of it, against a plain model."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.common.time import Time
from runtime.common.typeinfo import Types
from runtime.operators.functions import KeySelector, RuntimeContext
from runtime.operators.two_input_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from runtime.operators.window_joins import (
    CoGroupWindowFunction,
    JoinWindowFunction,
    TaggedKeySelector,
    Tagger,
    tagged_type,
)
from runtime.operators.windowing.assigners import TumblingEventTimeWindows
from runtime.operators.windowing.contents import ListContents
from runtime.operators.windowing.factory import WindowOperatorFactory
from runtime.testing.harness import OneInputHarness, Stage, assert_survives_rescaling

Record = tuple[str, int]


def key_of(value: Record) -> str:
    return value[0]


KEYS = TaggedKeySelector(key_of, key_of)
WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(10))


def windowed(function: Any) -> WindowOperatorFactory:
    return WindowOperatorFactory(WINDOW, KEYS, ListContents(), function)


class Both(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield sorted(first), sorted(second)


class Product(FlatJoinFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def join(self, first: Any, second: Any) -> list[Any] | None:
        return [first[1] * second[1], self.subtask] if second[1] else None


class Adding(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[1] + second[1]


RECORDS = st.lists(st.tuples(st.integers(0, 1), st.tuples(st.sampled_from("ab"), st.integers(0, 39))), max_size=25)


def model(rows: list[tuple[int, Record]]) -> dict[tuple[str, int], tuple[list[Record], list[Record]]]:
    """Both sides by key and window."""
    groups: dict[tuple[str, int], tuple[list[Record], list[Record]]] = {}
    for side, record in rows:
        groups.setdefault((record[0], record[1] // 10), ([], []))[side].append(record)
    return groups


def run(function: Any, rows: list[tuple[int, Record]]) -> list[Any]:
    with OneInputHarness(windowed(function), KEYS) as harness:
        harness.process([Tagger(side).map(record) for side, record in rows], [record[1] for _, record in rows])
        harness.end_input()
    return sorted(harness.values)


@settings(deadline=None)  # a loaded machine is no failure
@given(RECORDS)
def test_pairs_and_groups_are_those_of_the_model(rows: list[tuple[int, Record]]) -> None:
    groups = model(rows)
    assert run(CoGroupWindowFunction(Both()), rows) == sorted((sorted(a), sorted(b)) for a, b in groups.values())
    pairs = sorted((first, second) for a, b in groups.values() for first in a for second in b)
    assert run(JoinWindowFunction(lambda first, second: (first, second)), rows) == pairs


def test_join_functions_of_either_kind() -> None:
    rows = [(0, ("a", 2)), (1, ("a", 3)), (1, ("a", 0))]
    assert run(JoinWindowFunction(Adding()), rows) == [2, 5]
    assert run(JoinWindowFunction(Product()), rows) == [0, 6]


def test_keys_are_taken_by_side_and_selectors_are_opened() -> None:
    class Opened(KeySelector):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.is_open = True

        def close(self) -> None:
            self.is_open = False

        def get_key(self, value: Any) -> Any:
            return value % 2

    first = Opened()
    selector = TaggedKeySelector(first, len)
    selector.open(None)  # type: ignore[arg-type]
    assert first.is_open
    assert [selector.get_key(Tagger(0).map(5)), selector.get_key(Tagger(1).map("ab"))] == [1, 2]
    selector.close()
    assert not first.is_open
    assert pickle.loads(pickle.dumps(KEYS)).get_key((1, None, ("x", 1))) == "x"


def test_tagged_records_have_a_type_if_both_sides_have_one() -> None:
    assert tagged_type(Types.LONG(), None) is None
    assert tagged_type(Types.LONG(), Types.STRING()) == Types.TUPLE([Types.BYTE(), Types.LONG(), Types.STRING()])


@pytest.mark.parametrize("function", [Both(), 3])
def test_other_functions_are_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="JoinFunction"):
        JoinWindowFunction(function)
    with pytest.raises(TypeError, match="CoGroupFunction"):
        CoGroupWindowFunction(Adding())


def test_survives_rescaling() -> None:
    stages = [
        Stage(
            [(n % 2, *([None] * (n % 2)), (f"k{n % 4}", n), *([None] * (1 - n % 2))) for n in range(start, start + 14)],
            list(range(start, start + 14)),
            start + 6,
        )
        for start in (0, 14, 28, 42)
    ]
    assert_survives_rescaling(windowed(CoGroupWindowFunction(Both())), stages, KEYS)
    assert_survives_rescaling(windowed(JoinWindowFunction(Adding())), stages, KEYS)
