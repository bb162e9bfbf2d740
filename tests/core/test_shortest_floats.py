"""FLOAT values as they leave the engine: the fewest digits that stand for the same float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.common import Row, RowKind, Types
from runtime.core.shortest_floats import shortest_doubles, shortest_float, with_shortest_floats

SEEN = float(np.float32(1.1))


@given(st.floats(width=32, allow_nan=False))
def test_the_shortest_number_stands_for_the_same_float32(value: float) -> None:
    shortest = shortest_float(value)
    assert np.float32(shortest) == np.float32(value)
    assert shortest_doubles(np.array([value], np.float32)).tolist() == [shortest]


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.FLOAT(), SEEN, 1.1),
        (Types.FLOAT(), float(np.float32(3e38)), 3e38),
        (Types.FLOAT(), None, None),
        (Types.TUPLE([Types.STRING(), Types.FLOAT()]), ("a", SEEN), ("a", 1.1)),
        (Types.LIST(Types.FLOAT()), [SEEN, None], [1.1, None]),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [SEEN], [1.1]),
        (Types.MAP(Types.FLOAT(), Types.TUPLE([Types.FLOAT()])), {SEEN: (SEEN,)}, {1.1: (1.1,)}),
        (Types.ROW([Types.LIST(Types.LIST(Types.FLOAT())), Types.DOUBLE()]), Row([[SEEN]], SEEN), Row([[1.1]], SEEN)),
    ],
    ids=repr,
)
def test_floats_are_found_inside_of_values(type_info: Any, value: Any, expected: Any) -> None:
    convert = with_shortest_floats(type_info)
    assert convert is not None
    assert convert(value) == expected


def test_a_row_keeps_names_and_kind() -> None:
    convert = with_shortest_floats(Types.ROW_NAMED(["f"], [Types.FLOAT()]))
    assert convert is not None
    row = convert(Row.of_kind(RowKind.DELETE, f=SEEN))
    assert (row.f, row.get_row_kind()) == (1.1, RowKind.DELETE)


@pytest.mark.parametrize(
    "type_info", [None, Types.DOUBLE(), Types.ROW([Types.INT()]), Types.MAP(Types.STRING(), Types.DOUBLE())], ids=repr
)
def test_types_without_a_float_need_nothing(type_info: Any) -> None:
    assert with_shortest_floats(type_info) is None
