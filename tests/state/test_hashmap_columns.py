"""Snapshots of many entries: taken by pages while they are changed, and encoded in bulk as their serializers would."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.common.typeinfo import TypeInformation, Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import CheckpointId
from runtime.core.keys import decode_key, encode_key
from runtime.state.codecs import codec_of
from runtime.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from runtime.state.errors import StateError
from runtime.state.handles import KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.hashmap.columns import NumberColumn, SavedState, SlotColumn, pack_entry_keys
from runtime.state.hashmap.entries import Entry
from runtime.state.key_groups import KeyGroupRange, key_group_of
from runtime.state.readers import load_keyed_state
from runtime.state.snapshot import KeyedSnapshot, SnapshotRequest, StateMeta
from tests.state.files import DirectoryFiles

ALL_GROUPS = KeyGroupRange(0, 127)
NUM_KEYS = 2_500


def saved_state(value_type: TypeInformation) -> SavedState:
    codec = codec_of(ValueStateDescriptor("s", value_type))
    return SavedState(StateMeta("s", "value", codec.name, False), codec.encode, None, codec.value_type, [])


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        (Types.LONG(), [0, -1, 2**63 - 1, -(2**63)]),
        (Types.LONG(), [1, None, 2]),
        (Types.LONG(), [None, None]),
        (Types.LONG(), [3, True, np.int64(7)]),
        (Types.LONG(), [True]),
        (Types.DOUBLE(), [0.0, -0.0, math.inf, 1e-300]),
        (Types.DOUBLE(), [1, 2, 3]),
        (Types.DOUBLE(), [1.5, None, 2]),
        (Types.STRING(), ["", "a", "ÿé", "日本", None]),
    ],
)
def test_values_are_packed_as_their_serializer_writes_them(value_type: TypeInformation, values: list[Any]) -> None:
    state = saved_state(value_type)
    assert packed(state, values) == [state.encoded(value) for value in values]


def packed(state: SavedState, values: list[Any]) -> list[bytes | None]:
    """Return the packed form of values in a column that captures the second half first."""
    entries = [Entry(number, None, -128, number, 1) for number in range(len(values))]
    column = NumberColumn(state) if state.number_code else SlotColumn(state)
    half = len(values) // 2
    column.make_room(len(values))
    column.take(half, values[half:], entries[half:])
    column.take(0, values[:half], entries[:half])
    return column.packed(entries).to_pylist()


def test_a_column_of_numbers_grows_if_nobody_knows_how_many_will_come() -> None:
    state = saved_state(Types.LONG())
    column = NumberColumn(state)
    for start in (0, 1, 3):
        column.take(start, [start, None][: 1 if start == 0 else 2], [])
    assert column.packed([]).to_pylist() == [state.encoded(value) for value in (0, 1, None, 3, None)]


@pytest.mark.parametrize(
    ("value_type", "values"),
    [
        (Types.LONG(), [1.0]),
        (Types.LONG(), [2**63]),
        (Types.LONG(), [None, 2**63]),
        (Types.LONG(), [[1]]),
        (Types.LONG(), [[1], [2, 3]]),
        (Types.LONG(), ["1"]),
        (Types.LONG(), [np.array([1, 2])]),
        (Types.DOUBLE(), ["1"]),
        (Types.STRING(), ["a", b"a"]),
        (Types.STRING(), [1]),
        (Types.STRING(), ["\ud800"]),
    ],
)
def test_the_serializer_is_asked_about_values_that_are_not_plainly_of_the_type(
    value_type: TypeInformation, values: list[Any]
) -> None:
    state = saved_state(value_type)
    try:
        expected = [state.encoded(value) for value in values]
    except Exception:
        with pytest.raises(StateError, match="state 's' of key"):
            packed(state, values)
    else:
        assert packed(state, values) == expected


class RaisingNumber:
    """Says that it is a number, and is none."""

    def __index__(self) -> int:
        raise RuntimeError("not today")


def test_whatever_a_value_raises_fails_the_snapshot_and_not_the_function_that_uses_another_key() -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128)
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()), fitted=True)
    for key, value in enumerate((1, RaisingNumber(), 3)):
        backend.set_current_key(key)
        state.update(value)
    backend.clear_current_key()
    pending = begin(backend, SnapshotKind.FULL, 1)
    backend.set_current_key(0)
    with pytest.raises(StateError, match="state 's' of key 1"):
        pending.advance(1000)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [0, -1, 7, 2**63 - 1, -(2**63), 7919 * 2**40],
        [1, 2**63],
        [1, True],
        ["a", "", "日本"],
        [1, "1", (1, "x"), None, b"1"],
    ],
)
@pytest.mark.parametrize("max_parallelism", [1, 100, 128, 32_768])
def test_keys_are_packed_as_they_are_encoded_one_by_one(keys: list[Any], max_parallelism: int) -> None:
    entries = [Entry(key, None, -max_parallelism, index, 1) for index, key in enumerate(keys)]
    packed, key_groups = pack_entry_keys(entries, max_parallelism)
    expected = [(encode_key(key), key_group_of(encode_key(key), max_parallelism)) for key in keys]
    assert list(zip(packed.to_pylist(), key_groups.tolist(), strict=True)) == expected
    assert [(entry.encoded_key, entry.key_group) for entry in entries] == expected


def test_a_subtask_with_all_key_groups_finds_those_of_its_numbers_when_a_snapshot_needs_them() -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128)
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()))
    keys = [*range(-50, 50), 2**63, 2**64 - 1]
    for key in keys:
        backend.set_current_key(key)
        state.update(1)
    backend.clear_current_key()
    snapshot = backend.snapshot()
    assert isinstance(snapshot, KeyedSnapshot)
    found = {entry.key: group for group, held in snapshot.groups.items() for entry in held.states["s"]}
    assert found == {encode_key(key): key_group_of(encode_key(key), 128) for key in keys}


def finish(backend: HashMapKeyedStateBackend, pending: PendingKeyedState, files: DirectoryFiles) -> KeyedStateHandle:
    while not pending.advance(1000):
        pass
    return pending.write(files)


def begin(backend: HashMapKeyedStateBackend, kind: SnapshotKind, number: int) -> PendingKeyedState:
    pending = backend.snapshot(SnapshotRequest(kind, CheckpointId(number)))
    assert isinstance(pending, PendingKeyedState)
    return pending


def contents(handle: KeyedStateHandle, files: DirectoryFiles, directory: Path) -> dict[str, dict[Any, bytes]]:
    """State → key → encoded value."""
    snapshot = load_keyed_state([handle], ALL_GROUPS, 128, files, directory)
    found: dict[str, dict[Any, bytes]] = {}
    for group in snapshot.groups.values():
        for name, entries in group.states.items():
            for entry in entries:
                assert decode_key(entry.key) not in found.setdefault(name, {})
                found[name][decode_key(entry.key)] = entry.value
    return found


@pytest.mark.parametrize("kind", list(SnapshotKind))
@pytest.mark.parametrize("others", ["none", "pickled", "list"])
def test_a_snapshot_holds_what_was_there_when_it_was_asked_for(kind: SnapshotKind, others: str, tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128, SYSTEM_CLOCK)
    descriptors: dict[str, Any] = {"count": ValueStateDescriptor("count", Types.LONG())}
    if others == "pickled":
        descriptors["other"] = ValueStateDescriptor("other")
    elif others == "list":
        descriptors["other"] = ListStateDescriptor("other", Types.LONG())
    states = {name: backend.get_state(descriptor) for name, descriptor in descriptors.items()}
    encode = {name: codec_of(descriptor).encode for name, descriptor in descriptors.items()}
    model: dict[str, dict[Any, Any]] = {name: {} for name in states}
    generator = random.Random(3)

    def change(num_keys: int, highest: int) -> None:
        for _ in range(num_keys):
            key = generator.randrange(highest)
            backend.set_current_key(key)
            if generator.random() < 0.1:
                states["count"].clear()
                model["count"].pop(key, None)
            else:
                model["count"][key] = generator.randrange(1 << 40)
                states["count"].update(model["count"][key])
            if others == "list":
                states["other"].add(key)
                model["other"].setdefault(key, []).append(key)
            elif others == "pickled":
                model["other"][key] = [key, generator.random()]
                states["other"].update(model["other"][key])

    files = DirectoryFiles(tmp_path / "files")
    change(2 * NUM_KEYS, NUM_KEYS)
    for number in range(1, 7):
        expected = {name: {key: encode[name](value) for key, value in found.items()} for name, found in model.items()}
        pending = begin(backend, kind, number)
        highest = NUM_KEYS + 500 * number
        for _ in range(generator.randrange(30)):
            change(40, highest)
            if pending.advance(0):
                break
        handle = finish(backend, pending, files)
        assert contents(handle, files, tmp_path / f"work-{number}") == {n: f for n, f in expected.items() if f}
        if number != 3:  # one checkpoint fails
            backend.notify_checkpoint_complete(CheckpointId(number))
        else:
            backend.notify_checkpoint_aborted(CheckpointId(number))
        change([50, 2_000, 300][number % 3], highest)


def test_touches_are_not_looked_at_while_nearly_everything_changes(tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128, SYSTEM_CLOCK)
    state, files = backend.get_state(ValueStateDescriptor("s", Types.LONG())), DirectoryFiles(tmp_path / "files")
    num_keys = 10_000

    def change(count: int) -> None:
        for key in range(count):
            backend.set_current_key(key)
            state.update(key)

    written = []
    for number in range(1, 12):
        change(num_keys if number < 5 else 10)
        handle = finish(backend, begin(backend, SnapshotKind.INCREMENTAL, number), files)
        written.append(len(handle.files))
        backend.notify_checkpoint_complete(CheckpointId(number))
        assert len(contents(handle, files, tmp_path / f"work-{number}")["s"]) == num_keys
    # everything is written as long as nearly everything changes, and for a while after that
    assert written[:5] == [1] * 5
    assert written[-2:] > [1, 1]


def test_no_key_is_forgotten_while_a_snapshot_is_taken(tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128, SYSTEM_CLOCK)
    state, files = backend.get_state(ValueStateDescriptor("s", Types.LONG())), DirectoryFiles(tmp_path / "files")
    for key in range(1_000):
        backend.set_current_key(key)
        state.update(key)
    pending = begin(backend, SnapshotKind.FULL, 1)
    for key in range(20_000):
        backend.set_current_key(key)
        state.clear()
    handle = finish(backend, pending, files)
    assert len(contents(handle, files, tmp_path / "work")["s"]) == 1_000
    backend.set_current_key(20_000)
    assert backend.num_entries < 10_000


def test_a_value_that_does_not_fit_is_named_by_its_key(tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(ALL_GROUPS, 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s", Types.STRING()), fitted=True)
    for key in range(100):
        backend.set_current_key(key)
        state.update("text" if key != 57 else 57)
    with pytest.raises(StateError, match="'s' of key 57 cannot be saved"):
        finish(backend, begin(backend, SnapshotKind.FULL, 1), DirectoryFiles(tmp_path))
