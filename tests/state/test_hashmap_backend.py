"""Hashmap backend only: it removes empty keys, and writes changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.ids import CheckpointId
from runtime.state.descriptors import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from runtime.state.errors import StateError
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap import changes
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from runtime.state.readers import load_keyed_state
from runtime.state.snapshot import SnapshotRequest
from tests.state.backends import SettableClock, ignore
from tests.state.files import DirectoryFiles

ALL = KeyGroupRange(0, 127)


@pytest.fixture
def backend() -> HashMapKeyedStateBackend:
    return HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)


def visit(backend: HashMapKeyedStateBackend, state: Any, keys: list[Any]) -> None:
    for key in keys:
        backend.set_current_key(key)
        state.update(1)
        state.clear()


def take(
    backend: HashMapKeyedStateBackend,
    files: DirectoryFiles,
    number: int,
    kind: SnapshotKind = SnapshotKind.INCREMENTAL,
) -> KeyedStateHandle:
    """A checkpoint, completed."""
    pending = backend.snapshot(SnapshotRequest(kind, CheckpointId(number)))
    assert isinstance(pending, PendingKeyedState)
    while not pending.advance(1000):
        pass
    handle = pending.write(files)
    backend.notify_checkpoint_complete(CheckpointId(number))
    return handle


@pytest.mark.parametrize("make_key", [int, str, float, lambda n: (n, "x"), lambda n: (float(n),), lambda n: (0,) * n])
def test_keys_whose_state_was_cleared_are_forgotten(backend: HashMapKeyedStateBackend, make_key: Any) -> None:
    count = 300 if len(str(make_key(100))) > 100 else 20_000
    visit(backend, backend.get_state(ValueStateDescriptor("s")), [make_key(n) for n in range(count)])
    assert backend.num_entries < 10_000
    backend.snapshot()
    assert backend.num_entries <= 1  # the current key


def test_keys_with_state_or_timers_are_kept(backend: HashMapKeyedStateBackend) -> None:
    state = backend.get_state(ValueStateDescriptor("s"))
    fired: list[Any] = []
    timers = backend.get_timer_service("t", lambda timer: fired.append(timer.key), ignore)
    for n in range(1000):
        backend.set_current_key(n)
        if n % 2:
            state.update(n)
        else:
            timers.register_event_time_timer(n)
    visit(backend, state, [f"passing {n}" for n in range(20_000)])
    assert 1000 <= backend.num_entries < 10_000
    assert sorted(backend.keys("s")) == list(range(1, 1000, 2))
    for n in range(0, 1000, 2):
        backend.set_current_key(n)
        timers.register_event_time_timer(n)  # known already, unless the key was forgotten
    timers.advance_watermark(1000)
    assert fired == list(range(0, 1000, 2))


def test_the_number_of_entries_is_right(backend: HashMapKeyedStateBackend) -> None:
    visit(backend, backend.get_state(ValueStateDescriptor("s")), [1, 1.0, True, "1", (1,), (1.0,), (True,)] * 2)
    assert backend.num_entries == len(backend.entries()) == 7


def test_a_failed_key_is_not_remembered() -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 0), 128)
    refused = 0
    for key in range(200):
        try:
            backend.set_current_key(key)
        except StateError:
            refused += 1
    assert backend.num_entries == len(backend.entries()) == 200 - refused
    assert refused > 150


def test_a_key_that_makes_the_backend_tidy_up_is_kept() -> None:
    """The first key of a shape of tuples, and the only one that is left of a shape, while dead keys are dropped."""
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s"))
    for first in ((1, 2, 3), ("a", 1)):
        passing: list[Any] = [("passing", 0)]
        while backend.num_entries < backend._sweep_at:
            visit(backend, state, passing)
            passing = [("passing", passing[0][1] + 1)]
        backend.set_current_key(first)
        state.update("kept")
        backend.set_current_key("another")
        backend.set_current_key(first)
        assert state.value() == "kept"


def test_checkpoints_refer_to_a_base_and_the_changes_since(tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s"))
    files = DirectoryFiles(tmp_path)
    for key in range(1000):
        backend.set_current_key(key)
        state.update(key)
    first = take(backend, files, 1)
    assert [file.is_shared for file in first.files.values()] == [True]
    backend.set_current_key(1)
    second = take(backend, files, 2)
    assert len(second.files) == 2
    assert second.files.items() > first.files.items()
    base, changed = second.files.values()
    assert changed.size < base.size / 10
    full = take(backend, files, 3, SnapshotKind.FULL)
    assert [file.is_shared for file in full.files.values()] == [False]
    # what came before a full checkpoint may have been deleted
    fourth = take(backend, files, 4)
    assert not {file.uri for file in fourth.files.values()} & {
        file.uri for handle in (second, full) for file in handle.files.values()
    }


def test_a_base_is_made_anew_when_there_are_many_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_CHANGE_FILES", 3)
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s"))
    files, numbers = DirectoryFiles(tmp_path), []
    for number in range(1, 10):
        backend.set_current_key(number)
        state.update(number)
        numbers.append(len(take(backend, files, number).files))
    assert numbers == [1, 2, 3, 4, 1, 2, 3, 4, 1]


def test_a_snapshot_waits_for_nothing_however_many_keys_there_are() -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s"))
    for key in range(20_000):
        backend.set_current_key(key)
        state.update([key])
    pending = backend.snapshot(SnapshotRequest(SnapshotKind.INCREMENTAL, CheckpointId(1)))
    assert isinstance(pending, PendingKeyedState)
    steps = 0
    while not pending.advance(0):
        steps += 1
    assert steps >= 19_999  # one key a step: nothing was encoded before


def test_a_value_that_cannot_be_saved_fails_the_snapshot_not_the_function_that_touches_it(tmp_path: Path) -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()), fitted=True)
    backend.set_current_key("a")
    state.update("text")
    backend.set_current_key("b")
    pending = backend.snapshot(SnapshotRequest(SnapshotKind.INCREMENTAL, CheckpointId(1)))
    assert isinstance(pending, PendingKeyedState)
    backend.set_current_key("a")
    state.update(1)
    with pytest.raises(StateError, match="'s' of key 'a' cannot be saved"):
        while not pending.advance(1000):
            pass
        pending.write(DirectoryFiles(tmp_path))


def test_expired_state_that_is_cleaned_up_beside_goes_into_the_next_changes(tmp_path: Path) -> None:
    clock = SettableClock()
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, clock)
    descriptor = ValueStateDescriptor("s", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(1000).cleanup_incrementally(100).build())
    state, files = backend.get_state(descriptor), DirectoryFiles(tmp_path)
    for key in range(10):
        backend.set_current_key(key)
        state.update(key)
    take(backend, files, 1)
    clock.time_ms += 1000
    for _ in range(3):
        backend.set_current_key(99)
        state.update(1)  # visits the others
    handle = take(backend, files, 2)
    snapshot = load_keyed_state([handle], KeyGroupRange(0, 127), 128, files, tmp_path / "work")
    assert sum(len(group.states.get("s", ())) for group in snapshot.groups.values()) == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_file_of_changes_is_found(tmp_path: Path, which: int) -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 127), 128, SYSTEM_CLOCK)
    state, files = backend.get_state(ValueStateDescriptor("s")), DirectoryFiles(tmp_path)
    for number in (1, 2):
        backend.set_current_key(number)
        state.update(number)
        handle = take(backend, files, number)
    name, file = sorted(handle.files.items())[which]
    fewer = replace(handle, files={other: saved for other, saved in handle.files.items() if other != name})
    swapped = replace(handle, files=dict.fromkeys(handle.files, file))
    content = Path(file.uri).read_bytes()
    Path(file.uri).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for damaged in (handle, swapped) if which else (handle, swapped, fewer):
        with pytest.raises(DamagedSnapshotError):
            load_keyed_state([damaged], KeyGroupRange(0, 127), 128, files, tmp_path / "work")


@pytest.mark.parametrize("kind", SnapshotKind)
def test_files_are_compressed_where_asked_for(tmp_path: Path, kind: SnapshotKind) -> None:
    backend = HashMapKeyedStateBackend(KeyGroupRange(0, 1), 2, SYSTEM_CLOCK)
    state, sizes = backend.get_state(ValueStateDescriptor("s")), []
    for key in range(200):
        backend.set_current_key(key)
        state.update("again and " * 100)
    for number, compression in enumerate(("none", "zstd"), 1):
        files = DirectoryFiles(tmp_path)
        pending = backend.snapshot(SnapshotRequest(kind, CheckpointId(number)))
        assert isinstance(pending, PendingKeyedState)
        pending.compression = compression
        assert pending.advance(1000)
        handle = pending.write(files)
        sizes.append(files.written_bytes)
        snapshot = load_keyed_state([handle], KeyGroupRange(0, 1), 2, files, tmp_path / "work")
        assert sum(len(group.states["s"]) for group in snapshot.groups.values()) == 200
    assert sizes[1] < sizes[0] / 10


def test_keys_that_were_forgotten_since_a_checkpoint_are_gone_in_the_next(tmp_path: Path) -> None:
    one, several = ValueStateDescriptor("one", Types.LONG()), ListStateDescriptor("several", Types.LONG())
    backend = HashMapKeyedStateBackend(ALL, 128, SYSTEM_CLOCK)
    states, files = (backend.get_state(one), backend.get_state(several)), DirectoryFiles(tmp_path)
    take(backend, files, 1)
    for key in range(1_000):
        backend.set_current_key(key)
        states[0].update(key)
        states[1].update([key])
    take(backend, files, 2)
    for key in range(0, 1_000, 5):
        backend.set_current_key(key)
        for state in states:
            state.clear()
    backend.snapshot()
    assert backend.num_entries <= 801, "nothing was forgotten"
    backend.set_current_key(7)
    states[0].update(-7)
    handle = take(backend, files, 3)
    assert len(handle.files) > 1, "not a snapshot of changes"
    restored = HashMapKeyedStateBackend(ALL, 128, SYSTEM_CLOCK)
    restored.restore(load_keyed_state([handle], ALL, 128, files, tmp_path / "work"))
    found = restored.get_state(one), restored.get_state(several)
    for key in range(1_000):
        restored.set_current_key(key)
        expected = None if key % 5 == 0 else key
        assert found[0].value() == (-7 if key == 7 else expected)
        assert found[1].get() == ([] if expected is None else [key])
