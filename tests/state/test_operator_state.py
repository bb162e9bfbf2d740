"""Operator state: lists, union lists and broadcast maps, through snapshots at other parallelisms."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.common.typeinfo import Types
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor
from runtime.state.errors import StateMigrationError, StateTypeError
from runtime.state.operator_state import OperatorStateBackend
from runtime.state.redistribution import redistribute
from runtime.state.snapshot import OperatorSnapshot

OFFSETS = ListStateDescriptor("offsets", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def rescaled(backends: Sequence[OperatorStateBackend], parallelism: int) -> list[OperatorStateBackend]:
    snapshots = [OperatorSnapshot(operator_states=backend.snapshot()) for backend in backends]
    restored = []
    for snapshot in redistribute(snapshots, parallelism, 128):
        backend = OperatorStateBackend()
        backend.restore(snapshot.operator_states)
        restored.append(backend)
    return restored


def test_list_state_is_dealt_out_union_state_is_given_to_all() -> None:
    backends = [OperatorStateBackend() for _ in range(2)]
    union = ListStateDescriptor("all", Types.STRING())
    for index, backend in enumerate(backends):
        backend.get_list_state(OFFSETS).update([10 * index, 10 * index + 1])
        backend.get_union_list_state(union).add(str(index))
    for parallelism in (1, 3, 1):
        backends = rescaled(backends, parallelism)
        offsets = [item for backend in backends for item in backend.get_list_state(OFFSETS)]
        assert sorted(offsets) == [0, 1, 10, 11]
        for backend in backends:
            state = backend.get_union_list_state(union)
            assert list(state) == ["0", "1"]
            if backend is not backends[0]:
                state.clear()


def test_broadcast_state_is_the_same_everywhere() -> None:
    backends = [OperatorStateBackend() for _ in range(2)]
    for backend in backends:
        rules = backend.get_broadcast_state(RULES)
        rules.put_all({"a": 1, "b": 2})
        rules["c"] = 3
        del rules["b"]
    for parallelism in (3, 1):
        backends = rescaled(backends, parallelism)
        for backend in backends:
            rules = backend.get_broadcast_state(RULES)
            assert dict(rules.items()) == {"a": 1, "c": 3}
            assert list(rules) == ["a", "c"]
            assert list(rules.values()) == [1, 3]
            assert "b" not in rules
            assert rules["a"] == 1
            assert not rules.is_empty()
    rules.clear()
    assert rules.is_empty()


def test_broadcast_keys_need_not_be_hashable() -> None:
    backend = OperatorStateBackend()
    untyped = MapStateDescriptor("m")
    backend.get_broadcast_state(untyped).put([1], "x")
    restored = rescaled([backend], 1)[0].get_broadcast_state(untyped)
    assert list(restored.keys()) == [[1]]
    assert restored.get([1]) == "x"


def test_list_state_is_a_list() -> None:
    state = OperatorStateBackend().get_list_state(OFFSETS)
    state.add_all([1, 2])
    state.add(3)
    assert list(state.get()) == [1, 2, 3]
    state.clear()
    assert list(state.get()) == []


def test_state_that_nobody_asks_for_goes_on_into_the_next_snapshot() -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(OFFSETS).add(1)
    again = rescaled(rescaled([backend], 1), 1)[0]
    assert again.snapshot() == backend.snapshot()


def test_a_name_stands_for_one_state() -> None:
    backend = OperatorStateBackend()
    state = backend.get_list_state(OFFSETS)
    assert backend.get_list_state(OFFSETS) is state
    with pytest.raises(StateTypeError):
        backend.get_union_list_state(OFFSETS)
    with pytest.raises(StateTypeError):
        backend.get_list_state(ListStateDescriptor("offsets", Types.STRING()))
    restored = rescaled([backend], 1)[0]
    with pytest.raises(StateMigrationError):
        restored.get_broadcast_state(MapStateDescriptor("offsets", Types.LONG(), Types.LONG()))
    with pytest.raises(StateMigrationError):
        restored.get_list_state(ListStateDescriptor("offsets", Types.STRING()))
