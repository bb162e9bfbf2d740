"""RocksDB backend only: its cache, its files, timers beyond memory, and detection of damage."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.common.configuration import Configuration
from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.core.keys import KeyEncodingError, encode_key
from runtime.state import backends
from runtime.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from runtime.state.errors import StateError
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange, key_group_of, key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.rocksdb import backend as backend_module
from runtime.state.rocksdb import cache, states, timers
from runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from runtime.state.rocksdb.instance import RocksDBInstance, RocksDBReadError
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.rocksdb.snapshot import RocksDBSnapshot
from runtime.state.snapshot import KeyedSnapshot, SnapshotRequest
from tests.state.backends import (
    MAX_PARALLELISM,
    TEMPORARY,
    SettableClock,
    ignore,
    rescaled,
    rocksdb_backend,
    whole_range,
)
from tests.state.files import DirectoryFiles

ALL = KeyGroupRange(0, MAX_PARALLELISM - 1)
COUNT = ValueStateDescriptor("count", Types.LONG())
PAIRS = MapStateDescriptor("pairs", Types.STRING(), Types.LONG())


@pytest.fixture
def directory() -> Iterator[Path]:
    path = TEMPORARY / "files"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def files(directory: Path) -> DirectoryFiles:
    return DirectoryFiles(directory / "checkpoints")


def take(
    backend: RocksDBKeyedStateBackend,
    files: DirectoryFiles,
    number: int,
    kind: SnapshotKind = SnapshotKind.INCREMENTAL,
) -> KeyedStateHandle:
    """A checkpoint, completed."""
    pending = begin(backend, number, kind)
    handle = pending.write(files)
    backend.notify_checkpoint_complete(CheckpointId(number))
    return handle


def begin(backend: RocksDBKeyedStateBackend, number: int, kind: SnapshotKind) -> PendingKeyedState:
    pending = backend.snapshot(SnapshotRequest(kind, CheckpointId(number)))
    assert isinstance(pending, PendingKeyedState)
    assert pending.advance(0)
    return pending


def restored(
    handles: list[KeyedStateHandle], files: DirectoryFiles, directory: Path, key_groups: KeyGroupRange = ALL
) -> RocksDBKeyedStateBackend:
    snapshot = load_keyed_state(handles, key_groups, MAX_PARALLELISM, files, directory / "work")
    backend = rocksdb_backend(key_groups, MAX_PARALLELISM, SettableClock())
    backend.restore(snapshot)
    return backend


def write(backend: RocksDBKeyedStateBackend, values: dict[int, int]) -> None:
    state = backend.get_state(COUNT)
    for key, value in values.items():
        backend.set_current_key(key)
        state.update(value)


def read(backend: RocksDBKeyedStateBackend) -> dict[int, int]:
    state, found = backend.get_state(COUNT), {}
    for key in list(backend.keys("count")):
        backend.set_current_key(key)
        found[key] = state.value()
    return found


@pytest.mark.parametrize("make_key", [int, str, lambda n: (n, "x"), float])
def test_state_is_right_when_the_cache_holds_a_small_part_of_it(make_key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_FIRST_LOOK", 50)
    monkeypatch.setattr(backend_module, "MAX_CHANGED", 20)
    settings = RocksDBSettings(cache_memory=1)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), settings)
    count = backend.get_state(COUNT)
    items = backend.get_state(ListStateDescriptor("items", Types.LONG()))
    windows = backend.get_namespaced_state(ListStateDescriptor("windows", Types.LONG()))
    pairs = backend.get_state(MapStateDescriptor("pairs", Types.STRING(), Types.LONG()))
    for step in range(2_000):
        key = step * 7919 % 400
        backend.set_current_key(make_key(key))
        count.update((count.value() or 0) + 1)
        items.add(step)
        windows.set_current_namespace((step % 3, 3))
        windows.add(step)
        pairs.put(str(step % 4), step)
        assert backend.num_entries <= 60
    steps_of: dict[int, list[int]] = {}
    for step in range(2_000):
        steps_of.setdefault(step * 7919 % 400, []).append(step)
    for key, steps in steps_of.items():
        backend.set_current_key(make_key(key))
        assert count.value() == len(steps)
        assert items.get() == steps
        assert dict(pairs.items()) == {str(step % 4): step for step in steps}
        for window in range(3):
            windows.set_current_namespace((window, 3))
            assert windows.get() == [step for step in steps if step % 3 == window]


def test_nothing_is_read_that_cannot_be_there_while_the_cache_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "_FIRST_LOOK", 50)
    monkeypatch.setattr(backend_module, "MAX_CHANGED", 20)
    for cache_memory, is_enough in ((1, False), (1 << 20, True)):
        backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), RocksDBSettings(cache_memory=cache_memory))
        write(backend, dict.fromkeys(range(300), 1))
        assert backend.columns[0].is_known == is_enough
        backend.set_current_key(1000)
        assert backend.get_state(COUNT).value() is None


def test_keys_that_come_in_turn_find_most_of_a_cache_that_is_a_little_too_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    num_keys = 1_000
    monkeypatch.setattr(backend_module, "_FIRST_LOOK", num_keys * 9 // 10)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), RocksDBSettings(cache_memory=1))
    write(backend, dict.fromkeys(range(num_keys), 0))
    column, loaded = backend.columns[0], []
    load = column.load

    def counted_load(row: Any) -> Any:
        loaded.append(row)
        return load(row)

    monkeypatch.setattr(column, "load", counted_load)
    state = backend.get_state(COUNT)
    for number in range(10):
        for key in range(num_keys):
            backend.set_current_key(key)
            assert state.value() == number
            state.update(number + 1)
    assert 0 < len(loaded) < 10 * num_keys / 2


@pytest.mark.parametrize("first_look", [4, 1_000])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_forgotten_or_trimmed_state_is_that_of_a_dict(
    seed: int, first_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cache, states):
        monkeypatch.setattr(module, "MAX_KNOWN", 6)
    monkeypatch.setattr(backend_module, "_FIRST_LOOK", first_look)
    monkeypatch.setattr(backend_module, "MAX_CHANGED", 5)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), RocksDBSettings(cache_memory=1))
    plain = backend.get_state(MapStateDescriptor("plain", Types.LONG(), Types.LONG()))
    windows = backend.get_namespaced_state(MapStateDescriptor("windows", Types.LONG(), Types.LONG()))
    values = backend.get_namespaced_state(COUNT)
    generator = random.Random(seed)
    model: dict[Any, dict[Any, Any]] = {}
    for step in range(3_000):
        key, window, number = generator.randrange(12), (generator.randrange(2), 9), generator.randrange(12)
        backend.set_current_key(key)
        windows.set_current_namespace(window)
        values.set_current_namespace(window)
        state, name = generator.choice([(plain, ("plain", key)), (windows, (key, window))])
        kept = model.setdefault(name, {})
        value_of = model.setdefault("values", {})
        what = generator.randrange(8)
        if what < 3:
            state.put(number, step)
            kept[number] = step
        elif what < 5:
            state.remove(number)
            kept.pop(number, None)
        elif what == 5 and generator.random() < 0.2:
            state.clear()
            kept.clear()
        elif what == 6:
            assert state.get(number) == kept.get(number)
            assert state.is_empty() == (not kept)
            assert dict(state.items()) == kept
        elif generator.random() < 0.5:
            values.update(step)
            value_of[key, window] = step
        else:
            assert values.value() == value_of.pop((key, window), None)
            values.clear()


def test_a_map_larger_than_the_cache_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_KNOWN", 32)
    monkeypatch.setattr("runtime.state.rocksdb.states.MAX_KNOWN", 32)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    state = backend.get_state(MapStateDescriptor("pairs", Types.LONG(), Types.LONG()))
    backend.set_current_key("a")
    for n in range(500):
        assert not state.contains(n)
        state.put(n, -n)
    for n in range(0, 500, 2):
        state.remove(n)
    for n in range(500):
        assert state.get(n) == (None if n % 2 == 0 else -n)
    assert dict(state.items()) == {n: -n for n in range(1, 500, 2)}
    assert not state.is_empty()
    state.clear()
    assert state.is_empty()
    assert state.items() == []
    assert list(backend.keys("pairs")) == []


def test_a_map_key_without_encoding_is_refused() -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    state = backend.get_state(MapStateDescriptor("pairs"))
    backend.set_current_key("a")
    with pytest.raises(KeyEncodingError):
        state.put(frozenset([1]), 1)


def test_timers_beyond_memory_fire_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "MAX_TIMERS", 64)
    monkeypatch.setattr(timers, "_CHUNK", 4)
    monkeypatch.setattr(timers, "_MAX_UNWRITTEN", 100)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    fired: list[tuple[int, int]] = []
    service = backend.get_timer_service("t", lambda timer: fired.append((timer.timestamp, timer.key)), ignore)
    expected = set()
    for step in range(1_500):
        key, timestamp = step % 40, step * 7919 % 1_000
        backend.set_current_key(key)
        service.register_event_time_timer(timestamp)
        expected.add((timestamp, key))
        if step % 5 == 0:
            service.delete_event_time_timer(timestamp)
            expected.discard((timestamp, key))
    assert len(service.event.live) <= 65  # type: ignore[attr-defined]
    assert service.event_time_namespaces() == {None}
    for watermark in range(0, 600, 50):
        service.advance_watermark(watermark)
        due = {timer for timer in expected if timer[0] <= watermark}
        assert set(fired) == due
        assert len(fired) == len(due)
        assert [timestamp for timestamp, _ in fired] == sorted(timestamp for timestamp, _ in fired)
        backend.set_current_key(1)
        service.register_event_time_timer(watermark + 7)
        expected.add((watermark + 7, 1))
    again = rescaled(rocksdb_backend, [backend], 1, SettableClock())[0]
    service = again.get_timer_service("t", lambda timer: fired.append((timer.timestamp, timer.key)), ignore)
    service.advance_watermark(2_000)
    assert set(fired) == expected
    assert len(fired) == len(expected)


def test_files_of_completed_checkpoints_are_not_uploaded_again(files: DirectoryFiles) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(backend, {n: n for n in range(5_000)})
    first = take(backend, files, 1)
    tables = {name for name in first.files if name.endswith(".sst")}
    assert tables
    assert all(first.files[name].is_shared == (name in tables) for name in first.files)
    write(backend, {1: 11})
    aborted = begin(backend, 2, SnapshotKind.INCREMENTAL).write(files)
    backend.notify_checkpoint_aborted(CheckpointId(2))
    write(backend, {2: 12})
    third = take(backend, files, 3)
    assert all(third.files[name] == first.files[name] for name in tables)
    new = {name for name in third.files if name.endswith(".sst")} - tables
    # that of the aborted checkpoint may have been deleted: it is uploaded again
    assert not {third.files[name].uri for name in new} & {file.uri for file in aborted.files.values()}
    full = take(backend, files, 4, SnapshotKind.FULL)
    assert not any(file.is_shared for file in full.files.values())
    assert not {file.uri for file in full.files.values()} & {file.uri for file in third.files.values()}
    fifth = take(backend, files, 5)
    assert not {file.uri for file in fifth.files.values()} & {file.uri for file in third.files.values()}


def test_after_a_restore_in_place_files_are_still_shared(files: DirectoryFiles, directory: Path) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(backend, {n: n for n in range(2_000)})
    handle = take(backend, files, 1)
    again = restored([handle], files, directory)
    write(again, {1: -1})
    next_handle = take(again, files, 2)
    assert {name for name, file in handle.files.items() if file.is_shared} <= {
        name for name, file in next_handle.files.items() if file in handle.files.values()
    }
    assert read(restored([next_handle], files, directory)) == {n: n if n != 1 else -1 for n in range(2_000)}


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_ranges_are_taken_over_from_several_databases(files: DirectoryFiles, directory: Path, parallelism: int) -> None:
    whole = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(whole, {n: n for n in range(1_000)})
    handles = [take(whole, files, 1)]
    for now in (3, 2, parallelism):
        parts = [
            restored(handles, files, directory, key_group_range(MAX_PARALLELISM, now, index)) for index in range(now)
        ]
        found: dict[int, int] = {}
        for part in parts:
            mine = read(part)
            assert not mine.keys() & found.keys()
            found |= mine
        assert found == {n: n for n in range(1_000)}
        handles = [take(part, files, 2) for part in parts]


def test_what_is_changed_while_a_snapshot_is_written_is_not_in_it(
    files: DirectoryFiles, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_module, "MAX_CHANGED", 16)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(backend, {n: n for n in range(200)})
    pending = begin(backend, 1, SnapshotKind.INCREMENTAL)
    write(backend, {n: -n for n in range(200)})
    assert read(restored([pending.write(files)], files, directory)) == {n: n for n in range(200)}
    assert read(backend) == {n: -n for n in range(200)}


def test_a_discarded_snapshot_leaves_nothing(files: DirectoryFiles, directory: Path) -> None:
    working_directory = directory / "working"
    backend = RocksDBKeyedStateBackend(ALL, MAX_PARALLELISM, SettableClock(), None, working_directory, "my op/1")
    write(backend, {1: 1})
    begin(backend, 1, SnapshotKind.INCREMENTAL).discard()
    late = begin(backend, 2, SnapshotKind.FULL)
    backend.notify_checkpoint_aborted(CheckpointId(2))
    with pytest.raises(OSError, match="discarded"):
        late.write(files)
    unwritten = begin(backend, 3, SnapshotKind.CANONICAL)
    backend.dispose()
    backend.dispose()
    with pytest.raises(OSError, match="discarded"):
        unwritten.write(files)
    assert list(working_directory.iterdir()) == []


TEXT = ValueStateDescriptor("text", Types.STRING())


def write_texts(backend: RocksDBKeyedStateBackend, texts: dict[int, str]) -> None:
    state = backend.get_state(TEXT)
    for key, text in texts.items():
        backend.set_current_key(key)
        state.update(text)


def read_texts(backend: Any) -> dict[int, str]:
    state, found = backend.get_state(TEXT), {}
    for key in list(backend.keys("text")):
        backend.set_current_key(key)
        found[key] = state.value()
    return found


def long_text(number: int) -> str:
    return random.Random(number).randbytes(150).hex()


def test_large_values_are_in_files_of_their_own_and_uploaded_once(files: DirectoryFiles, directory: Path) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    texts = {n: long_text(n) for n in range(4_000)}
    write_texts(backend, texts)
    handle = take(backend, files, 1)
    size = handle.size
    first = {name for name in handle.files if name.endswith(".blob")}
    assert first
    for number in range(2, 24):
        changed = {key: long_text(number * 10_000 + key) for key in range(number, 4_000, 100)}
        texts |= changed
        write_texts(backend, changed)
        before = files.written_bytes
        handle = take(backend, files, number)
        assert files.written_bytes - before < 0.1 * size
    assert all(file.is_shared for name, file in handle.files.items() if name.endswith(".blob"))
    # nor are they behind a restore
    again = restored([handle], files, directory)
    assert read_texts(again) == texts
    write_texts(again, {1: "short"})
    before = files.written_bytes
    take(again, files, 24)
    assert files.written_bytes - before < 0.1 * size


def test_large_values_go_to_other_parallelisms_and_backends(files: DirectoryFiles, directory: Path) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    texts = {n: long_text(n) if n % 2 else str(n) for n in range(500)}
    write_texts(backend, texts)
    for handle in (take(backend, files, 1), take(backend, files, 2, SnapshotKind.CANONICAL)):
        parts = [restored([handle], files, directory, key_group_range(MAX_PARALLELISM, 3, index)) for index in range(3)]
        assert {key: text for part in parts for key, text in read_texts(part).items()} == texts
        other = HashMapKeyedStateBackend(ALL, MAX_PARALLELISM, SettableClock())
        other.restore(load_keyed_state([handle], ALL, MAX_PARALLELISM, files, directory / "work"))
        assert read_texts(other) == texts


def test_values_stay_in_the_tables_if_that_is_wanted(files: DirectoryFiles) -> None:
    configuration = Configuration()
    configuration.set_string("state.backend.rocksdb.blob.min-size", "0")
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), RocksDBSettings.of(configuration))
    write_texts(backend, {n: long_text(n) for n in range(100)})
    assert not [name for name in take(backend, files, 1).files if name.endswith(".blob")]


@pytest.mark.parametrize("kind", SnapshotKind)
def test_every_damaged_file_is_found_before_anything_is_read(
    files: DirectoryFiles, directory: Path, kind: SnapshotKind
) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(backend, {n: n for n in range(500)})
    write_texts(backend, {n: long_text(n) for n in range(50)})
    handle = take(backend, files, 1, kind)
    for file in handle.files.values():
        path = Path(file.uri)
        content = path.read_bytes()
        for damaged in (bytes([content[0] ^ 1]) + content[1:], content[:-1], None):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            with pytest.raises(DamagedSnapshotError):
                load_keyed_state([handle], ALL, MAX_PARALLELISM, files, directory / "work")
        path.write_bytes(content)
    load_keyed_state([handle], ALL, MAX_PARALLELISM, files, directory / "work")


def test_a_handle_with_too_few_files_or_without_metadata_is_damaged(files: DirectoryFiles, directory: Path) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    write(backend, {1: 1})
    handle = take(backend, files, 1)
    with pytest.raises(DamagedSnapshotError, match="does not say"):
        load_keyed_state([replace(handle, metadata=b"{}")], ALL, MAX_PARALLELISM, files, directory / "work")
    for name in handle.files:
        if name.endswith(".sst") or name == "CURRENT" or name.startswith("MANIFEST"):
            fewer = {other: file for other, file in handle.files.items() if other != name}
            with pytest.raises(DamagedSnapshotError):
                restored([replace(handle, files=fewer)], files, directory)
    outside = {"../escaped": next(iter(handle.files.values()))}
    with pytest.raises(DamagedSnapshotError, match="escaped"):
        load_keyed_state([replace(handle, files=outside)], ALL, MAX_PARALLELISM, files, directory / "work")


def damage_largest_table(directory: Path) -> None:
    """Flip a byte in one block, also of a database that is open."""
    table = max(directory.glob("*.sst"), key=lambda path: path.stat().st_size)
    position = table.stat().st_size // 2
    with table.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_a_damaged_block_ends_iteration_with_an_error_of_the_local_disk(directory: Path) -> None:
    directory.mkdir(parents=True)
    settings = RocksDBSettings(compression="NO_COMPRESSION")
    db = RocksDBInstance(directory / "db", settings, is_new=True)
    batch, handle = db.batch(), db.handle("state:s")
    for n in range(20_000):
        batch.put(n.to_bytes(4, "big"), bytes(20), handle)
    db.write(batch)
    db.checkpoint(directory / "copy")
    db.close()
    damage_largest_table(directory / "copy")
    with (
        RocksDBInstance(directory / "copy", settings, is_new=False, is_read_only=True) as copy,
        pytest.raises(RocksDBReadError, match="block checksum mismatch"),
    ):
        list(copy.scan("state:s", b""))


@pytest.mark.parametrize("is_rocksdb", [True, False])
def test_while_a_snapshot_is_restored_it_is_damage(is_rocksdb: bool, files: DirectoryFiles, directory: Path) -> None:
    handles = []
    for number, key_groups in enumerate((KeyGroupRange(0, 9), KeyGroupRange(10, MAX_PARALLELISM - 1))):
        backend = rocksdb_backend(key_groups, MAX_PARALLELISM, SettableClock())
        write(backend, {n: n for n in range(10_000) if key_group_of(encode_key(n), MAX_PARALLELISM) in key_groups})
        handles.append(take(backend, files, number + 1))
    snapshot = load_keyed_state(handles, ALL, MAX_PARALLELISM, files, directory / "work")
    assert isinstance(snapshot, RocksDBSnapshot)
    # behind its verification: a block that was broken when it was stored, say
    damage_largest_table(snapshot.sources[1].path)
    target = (
        rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
        if is_rocksdb
        else HashMapKeyedStateBackend(ALL, MAX_PARALLELISM, SettableClock())
    )
    with pytest.raises(DamagedSnapshotError, match="block checksum mismatch"):
        target.restore(snapshot)


def test_a_local_disk_that_breaks_while_the_job_runs_is_no_damage(directory: Path) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    state = backend.get_state(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    backend.set_current_key(1)
    for n in range(10_000):
        state.put(n, n)
    handle = take(backend, DirectoryFiles(directory / "checkpoints"), 1)
    assert handle.files
    database = next(path for path in TEMPORARY.rglob("*.sst") if "checkpoints" not in path.parts).parent
    damage_largest_table(database)
    with pytest.raises(StateError, match="RocksDB cannot read column"):
        list(backend.keys("m"))


def test_expired_rows_are_deleted_although_nobody_reads_them() -> None:
    clock = SettableClock()
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, clock)
    config = StateTtlConfig.new_builder(1_000).build()
    descriptors: list[StateDescriptor] = [
        ValueStateDescriptor("v", Types.LONG()),
        ListStateDescriptor("l", Types.LONG()),
        MapStateDescriptor("m", Types.STRING(), Types.LONG()),
    ]
    states = []
    for descriptor in descriptors:
        descriptor.enable_time_to_live(config)
        states.append(backend.get_state(descriptor))
    for key in range(100):
        backend.set_current_key(key)
        states[0].update(1)
        states[1].add_all([1, 2])
        states[2].put("a", 1)
        if key == 49:
            clock.time_ms += 600
    clock.time_ms += 500
    backend.flush()
    for descriptor in descriptors:
        assert sorted(backend.keys(descriptor.name)) == list(range(50, 100))
    clock.time_ms += 1_000
    backend.flush()
    assert not any(list(backend.keys(descriptor.name)) for descriptor in descriptors)


def test_a_value_that_cannot_be_written_fails_the_snapshot_and_stays(files: DirectoryFiles) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    count = backend.get_state(COUNT, fitted=True)
    write(backend, {n: n for n in range(10)})
    backend.set_current_key(3)
    count.update("text")
    for _ in range(2):
        with pytest.raises(Exception, match="'count' of key 3 cannot be saved"):
            begin(backend, 1, SnapshotKind.INCREMENTAL)
    count.update(3)
    take(backend, files, 2)
    assert read(backend) == {n: n for n in range(10)}


def test_a_value_that_the_database_did_not_take_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "MAX_CHANGED", 3)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    plain = backend.get_state(COUNT)
    windows = backend.get_namespaced_state(ValueStateDescriptor("windows", Types.LONG()))

    def fail(batch: Any) -> None:
        raise StateError("the disk is full")

    for state in (plain, windows):
        windows.set_current_namespace((0, 1))
        write(backend, {n: n for n in range(3)})
        backend.set_current_key(3)
        with monkeypatch.context() as full, pytest.raises(StateError):
            full.setattr(backend._opened, "write", fail)
            state.update(77)
        assert state.value() is None
        backend.flush()
        assert backend.columns[0].stored.meta.name == "count"
        assert sorted(backend.keys("count")) == [0, 1, 2]
        assert list(backend.keys("windows")) == []


@pytest.mark.parametrize("value_bytes", [10, 20_000])
def test_batches_have_the_size_that_was_asked_for(value_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 100_000
    settings = RocksDBSettings(write_batch_size=limit)
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock(), settings)
    state = backend.get_state(ValueStateDescriptor("payload", Types.PICKLED_BYTE_ARRAY()))
    for key in range(1_200_000 // max(value_bytes, 100)):
        backend.set_current_key(key)
        state.update(bytes(value_bytes))
    sizes: list[int] = []
    database = backend._opened
    assert database is not None
    put = database.write

    def measured_put(batch: Any) -> Any:
        sizes.append(batch.size_in_bytes())
        return put(batch)

    monkeypatch.setattr(database, "write", measured_put)
    backend.flush()
    assert len(sizes) > 3
    assert max(sizes) <= limit + max(value_bytes, limit)


def _map_of_hashmap() -> KeyedSnapshot:
    backend = HashMapKeyedStateBackend(ALL, MAX_PARALLELISM)
    state = backend.get_state(PAIRS)
    for key in range(50):
        backend.set_current_key(key)
        state.put("x", key)
    snapshot = backend.snapshot()
    assert isinstance(snapshot, KeyedSnapshot)
    return snapshot


def _pairs(backend: RocksDBKeyedStateBackend) -> dict[int, dict[str, int]]:
    state, found = backend.get_state(PAIRS), {}
    for key in range(50):
        backend.set_current_key(key)
        found[key] = dict(state.items())
    return found


def test_a_map_that_is_asked_for_while_a_snapshot_is_written_is_in_it_as_it_was(
    files: DirectoryFiles, directory: Path
) -> None:
    backend = rocksdb_backend(ALL, MAX_PARALLELISM, SettableClock())
    backend.restore(_map_of_hashmap())
    pending = begin(backend, 1, SnapshotKind.FULL)
    expected = _pairs(backend)
    assert expected == {key: {"x": key} for key in range(50)}
    assert _pairs(restored([pending.write(files)], files, directory)) == expected


@pytest.mark.parametrize("is_reversed", [False, True])
def test_subtasks_of_which_one_has_not_asked_for_a_map_are_brought_together(
    is_reversed: bool, files: DirectoryFiles, directory: Path
) -> None:
    snapshot, handles = _map_of_hashmap(), []
    for index in range(2):
        backend = rocksdb_backend(key_group_range(MAX_PARALLELISM, 2, index), MAX_PARALLELISM, SettableClock())
        backend.restore(snapshot)
        if index == 0:
            backend.get_state(PAIRS)
        handles.append(begin(backend, 1, SnapshotKind.INCREMENTAL).write(files))
    if is_reversed:
        handles.reverse()
    assert _pairs(restored(handles, files, directory)) == {key: {"x": key} for key in range(50)}


def test_the_configured_backend_is_made(directory: Path) -> None:
    configuration = Configuration()
    made = backends.create_keyed_backend(configuration, ALL, MAX_PARALLELISM, SettableClock(), directory, "op")
    assert type(made) is type(whole_range(HashMapKeyedStateBackend))
    configuration.set_string("state.backend.type", "rocksdb")
    configuration.set_string("state.backend.rocksdb.localdir", f"{directory}/disk 1, {directory}/disk 2")
    made = backends.create_keyed_backend(configuration, ALL, MAX_PARALLELISM, SettableClock(), directory, "op")
    assert isinstance(made, RocksDBKeyedStateBackend)
    write(made, {1: 1})
    assert [path.parent.name for path in directory.glob("disk */rocksdb-op-*")] in (["disk 1"], ["disk 2"])
    made.dispose()
