"""Redistribution: nothing is lost, nothing comes twice, contradictions are refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.ids import KeyGroup
from runtime.state.errors import KeyGroupRangeError, RedistributionError
from runtime.state.key_groups import key_group_range
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import (
    KeyedSnapshot,
    KeyGroupSnapshot,
    OperatorSnapshot,
    OperatorStateSnapshot,
    Redistribution,
    StateEntry,
    StateMeta,
)

MAX_PARALLELISM = 8
META = StateMeta("s", "value", "long", False)
PARALLELISMS = st.integers(1, MAX_PARALLELISM)


def keyed(parallelism: int, index: int) -> KeyedSnapshot:
    owned = key_group_range(MAX_PARALLELISM, parallelism, index)
    return KeyedSnapshot(
        MAX_PARALLELISM, {"s": META}, {KeyGroup(g): group(g) for g in range(owned.start, owned.end + 1)}
    )


def group(number: int) -> KeyGroupSnapshot:
    return KeyGroupSnapshot({"s": [StateEntry(bytes([number]), b"", b"v")]})


def of_items(mode: Redistribution, *items: bytes) -> OperatorSnapshot:
    return OperatorSnapshot(operator_states={"o": OperatorStateSnapshot(mode, items)})


@given(PARALLELISMS, PARALLELISMS, PARALLELISMS)
def test_every_key_group_goes_to_its_owner_once(first: int, second: int, third: int) -> None:
    snapshots = [OperatorSnapshot(keyed(first, index), watermark=index) for index in range(first)]
    for parallelism in (second, third, first):
        snapshots = redistribute(snapshots, parallelism, MAX_PARALLELISM)
        assert len(snapshots) == parallelism
        assert all(snapshot.watermark == 0 for snapshot in snapshots)
        for index, snapshot in enumerate(snapshots):
            assert snapshot.keyed == keyed(parallelism, index)


@given(st.lists(st.lists(st.binary(max_size=2), max_size=4), min_size=1, max_size=5), PARALLELISMS)
def test_split_items_go_to_one_subtask_each_and_evenly(items: list[list[bytes]], parallelism: int) -> None:
    before = [of_items(Redistribution.SPLIT, *of_subtask) for of_subtask in items]
    after = [s.operator_states["o"].items for s in redistribute(before, parallelism, MAX_PARALLELISM)]
    assert Counter(i for part in after for i in part) == Counter(i for part in items for i in part)
    if parallelism == len(items):
        assert [list(part) for part in after] == items
    else:
        assert max(map(len, after)) - min(map(len, after)) <= 1


@given(st.lists(st.lists(st.binary(max_size=2), max_size=4), min_size=1, max_size=5), PARALLELISMS)
def test_union_items_go_to_every_subtask(items: list[list[bytes]], parallelism: int) -> None:
    before = [of_items(Redistribution.UNION, *of_subtask) for of_subtask in items]
    for snapshot in redistribute(before, parallelism, MAX_PARALLELISM):
        assert snapshot.operator_states["o"].items == [item for part in items for item in part]


@given(st.lists(st.binary(max_size=2), max_size=4), st.integers(1, 5), PARALLELISMS)
def test_broadcast_items_are_held_once_by_every_subtask(items: list[bytes], before: int, after: int) -> None:
    snapshots = redistribute([of_items(Redistribution.BROADCAST, *items)] * before, after, MAX_PARALLELISM)
    assert [list(s.operator_states["o"].items) for s in snapshots] == [items] * after


def test_nothing_becomes_nothing() -> None:
    assert redistribute([], 2, MAX_PARALLELISM) == [OperatorSnapshot()] * 2
    assert redistribute([OperatorSnapshot()] * 3, 2, MAX_PARALLELISM) == [OperatorSnapshot()] * 2


def test_a_state_that_only_some_subtasks_have_is_dealt_out_to_all() -> None:
    snapshots = [OperatorSnapshot(), of_items(Redistribution.SPLIT, b"1", b"2")]
    parts = [s.operator_states["o"].items for s in redistribute(snapshots, 2, MAX_PARALLELISM)]
    assert parts == [[b"1"], [b"2"]]


def test_contradicting_snapshots_are_refused() -> None:
    twice = [OperatorSnapshot(keyed(1, 0))] * 2
    with pytest.raises(RedistributionError, match="two subtasks saved key group 0"):
        redistribute(twice, 1, MAX_PARALLELISM)
    other_meta = KeyedSnapshot(MAX_PARALLELISM, {"s": StateMeta("s", "list", "long", False)})
    with pytest.raises(RedistributionError, match="saved state 's' differently"):
        redistribute([OperatorSnapshot(keyed(1, 0)), OperatorSnapshot(other_meta)], 1, MAX_PARALLELISM)
    modes = [of_items(Redistribution.SPLIT), of_items(Redistribution.UNION)]
    with pytest.raises(RedistributionError, match="operator state 'o'"):
        redistribute(modes, 1, MAX_PARALLELISM)
    beyond = KeyedSnapshot(MAX_PARALLELISM, {}, {KeyGroup(MAX_PARALLELISM): KeyGroupSnapshot()})
    with pytest.raises(RedistributionError, match="no key group 8"):
        redistribute([OperatorSnapshot(beyond)], 1, MAX_PARALLELISM)


def test_another_max_parallelism_or_too_high_a_parallelism_is_refused() -> None:
    with pytest.raises(RedistributionError, match="max parallelism 8"):
        redistribute([OperatorSnapshot(keyed(1, 0))], 1, 16)
    with pytest.raises(KeyGroupRangeError):
        redistribute([], 9, MAX_PARALLELISM)
