"""Selectors with a key type: a batch at once and one record after the other give the same keys and the same errors."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.common import Types
from runtime.core.batch import RecordBatch
from runtime.datastream.functions import KeyedProcessFunction
from runtime.datastream.key_selectors import TypedKeySelector, coerced_selector
from runtime.network.partitioners import KeyGroupSelector, PartitionError
from runtime.operators.errors import UserFunctionError
from runtime.operators.process_operators import KeyedProcessOperatorFactory
from runtime.testing.harness import OneInputHarness

FIRST = TypedKeySelector(lambda pair: pair[0], Types.LONG())


class Keys(KeyedProcessFunction):
    """Emits the key of each record."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key()


@pytest.mark.parametrize(
    "keys",
    [[3, 1, 2], [3, None], [np.int64(3), 1], [True, 2], [], [2**63 - 1]],
    ids=["ints", "null", "numpy", "bool", "no", "largest"],
)
def test_keys_are_those_of_one_record_after_the_other(keys: list[Any]) -> None:
    pairs = [(key, "x") for key in keys]
    try:
        expected = [FIRST.get_key(pair) for pair in pairs]
    except TypeError:
        expected = []
    at_once = FIRST.get_keys(pairs)
    assert at_once is None or at_once == expected
    assert (at_once is not None) == all(type(key) is int for key in keys)
    if len(expected) < len(keys):
        return
    for selector in (FIRST, pickle.loads(pickle.dumps(TypedKeySelector(First(), Types.LONG())))):
        (part,) = KeyGroupSelector(1, selector, 128).split(RecordBatch.of_values(pairs))
        assert isinstance(part, RecordBatch)
        assert part.keys == expected
        assert list(map(type, part.keys)) == list(map(type, expected))
    with OneInputHarness(KeyedProcessOperatorFactory(Keys(), FIRST, None), FIRST) as harness:
        harness.process(pairs)
        assert harness.values == expected


class First:
    """Travels to slots, which a lambda here would not."""

    def __call__(self, value: Any) -> Any:
        return value[0]


@pytest.mark.parametrize("bad", [(2**63, "x"), ("no number", "x"), ()], ids=repr)
def test_the_record_whose_key_does_not_fit_is_named(bad: Any) -> None:
    batch = RecordBatch.of_values([(1, "x"), bad])
    with pytest.raises(PartitionError) as refused:
        KeyGroupSelector(2, FIRST, 128).split(batch)
    assert refused.value.record == bad
    with (
        OneInputHarness(KeyedProcessOperatorFactory(Keys(), FIRST, None)) as harness,
        pytest.raises(UserFunctionError, match="the key selector") as failed,
    ):
        harness.operator.process_batch(batch)
    assert failed.value.record == repr(bad)


def test_a_selector_that_stops_the_iteration_is_an_error() -> None:
    def select(value: int) -> int:
        raise StopIteration

    assert TypedKeySelector(select, Types.LONG()).get_keys([1]) is None


def test_types_without_a_form_of_their_own_leave_the_selector_as_it_is() -> None:
    selector = First()
    assert coerced_selector(selector, None) is selector
    assert coerced_selector(selector, Types.PICKLED_BYTE_ARRAY()) is selector
