"""Key groups against Flink's formulas (KeyGroupRangeAssignment)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.keys import encode_key, key_hash
from runtime.state.errors import KeyGroupRangeError
from runtime.state.key_groups import (
    KeyGroupRange,
    assign_key_groups,
    default_max_parallelism,
    key_group_of,
    key_group_range,
    operator_index_for_key_group,
)


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (128, 256), (200, 512), (20000, 32768), (32768, 32768)],
)
def test_default_max_parallelism_is_flinks(parallelism: int, expected: int) -> None:
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("parallelism", [0, -1, 32769])
def test_default_max_parallelism_refuses_what_is_no_parallelism(parallelism: int) -> None:
    with pytest.raises(KeyGroupRangeError, match=r"1\.\.32768"):
        default_max_parallelism(parallelism)


@given(st.integers(1, 32768).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, min(m, 200)))))
def test_ranges_cover_every_key_group_once_and_agree_with_the_operator_index(sizes: tuple[int, int]) -> None:
    max_parallelism, parallelism = sizes
    expected_start = 0
    for index in range(parallelism):
        owned = key_group_range(max_parallelism, parallelism, index)
        assert owned.start == expected_start
        for key_group in (owned.start, owned.end):
            assert operator_index_for_key_group(max_parallelism, parallelism, key_group) == index
        assert len(owned) in (max_parallelism // parallelism, -(-max_parallelism // parallelism))
        expected_start = owned.end + 1
    assert expected_start == max_parallelism


def test_ranges_are_flinks() -> None:
    assert [key_group_range(128, 3, i) for i in range(3)] == [
        KeyGroupRange(0, 42),
        KeyGroupRange(43, 85),
        KeyGroupRange(86, 127),
    ]


@pytest.mark.parametrize("arguments", [(128, 129, 0), (128, 0, 0), (128, 4, 4), (128, 4, -1), (40000, 1, 0)])
def test_impossible_ranges_are_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(KeyGroupRangeError):
        key_group_range(*arguments)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2), (0, 32768)])
def test_a_range_that_is_none_cannot_be_made(start: int, end: int) -> None:
    with pytest.raises(KeyGroupRangeError):
        KeyGroupRange(start, end)


@given(st.lists(st.text() | st.integers() | st.floats() | st.booleans()), st.integers(1, 32768))
def test_vectorised_assignment_agrees_with_the_scalar_one(keys: list[object], max_parallelism: int) -> None:
    encoded = [encode_key(key) for key in keys]
    hashes = np.array([key_hash(data) for data in encoded], dtype=np.uint32)
    groups = assign_key_groups(hashes, max_parallelism)
    assert groups.dtype == np.int16
    assert groups.tolist() == [key_group_of(data, max_parallelism) for data in encoded]


def test_vectorised_assignment_refuses_too_many_key_groups() -> None:
    with pytest.raises(KeyGroupRangeError):
        assign_key_groups(np.zeros(1, dtype=np.uint32), 32769)


def test_a_range_knows_its_members() -> None:
    owned = KeyGroupRange(2, 4)
    assert [group in owned for group in (1, 2, 4, 5)] == [False, True, True, False]
    assert len(owned) == 3
    assert "2" not in owned
    assert str(owned) == "2..4"
