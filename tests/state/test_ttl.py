"""Time to live, for each kind of state, against the injected clock."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runtime.common.time import Duration, Time
from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.state.backend import KeyedStateBackend
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from runtime.state.handles import KeyedStateHandle, PendingKeyedState
from runtime.state.readers import load_keyed_state
from runtime.state.snapshot import SnapshotRequest
from tests.state.backends import (
    BACKENDS,
    MAX_PARALLELISM,
    TEMPORARY,
    AverageFunction,
    BackendFactory,
    SettableClock,
    canonical,
    rescaled,
    subtask_of,
    subtasks,
    whole_range,
)
from tests.state.files import DirectoryFiles

TTL_MS = 100


@pytest.fixture(params=BACKENDS)
def factory(request: pytest.FixtureRequest) -> BackendFactory:
    return BACKENDS[request.param]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(0)


@pytest.fixture
def backend(factory: BackendFactory, clock: SettableClock) -> KeyedStateBackend:
    backend = whole_range(factory, clock)
    backend.set_current_key("a")
    return backend


def builder() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Duration.of_millis(TTL_MS)).disable_cleanup_in_background()


def with_ttl(descriptor: StateDescriptor, config: StateTtlConfig | None = None) -> StateDescriptor:
    descriptor.enable_time_to_live(config or builder().build())
    return descriptor


KINDS: dict[str, tuple[Callable[[], StateDescriptor], Callable[[Any], object], Callable[[Any], object], object]] = {
    # kind: descriptor, write, read, what is read after one write
    "value": (lambda: ValueStateDescriptor("s"), lambda s: s.update(1), lambda s: s.value(), 1),
    "list": (lambda: ListStateDescriptor("s"), lambda s: s.add(1), lambda s: list(s.get()) or None, [1]),
    "map": (lambda: MapStateDescriptor("s"), lambda s: s.put("k", 1), lambda s: s.get("k"), 1),
    "reducing": (lambda: ReducingStateDescriptor("s", max), lambda s: s.add(1), lambda s: s.get(), 1),
    "aggregating": (
        lambda: AggregatingStateDescriptor("s", AverageFunction()),
        lambda s: s.add(1),
        lambda s: s.get(),
        1.0,
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["plain", "namespaced"])
def get(request: pytest.FixtureRequest, backend: KeyedStateBackend) -> Callable[[StateDescriptor], Any]:
    def namespaced(descriptor: StateDescriptor) -> Any:
        state = backend.get_namespaced_state(descriptor)
        state.set_current_namespace((0, 10))
        return state

    return backend.get_state if request.param == "plain" else namespaced


def test_state_expires_ttl_after_the_last_write(
    kind: str, get: Callable[[StateDescriptor], Any], clock: SettableClock, backend: KeyedStateBackend
) -> None:
    make, write, read, value = KINDS[kind]
    state = get(with_ttl(make()))
    assert read(state) is None
    write(state)
    clock.time_ms = 60
    if kind != "list":  # a list's items age one by one
        write(state)
        clock.time_ms = 150
    assert read(state) == value
    clock.time_ms = 160 if kind != "list" else 100
    assert read(state) is None
    assert list(backend.keys("s")) == []


def test_a_read_prolongs_life_where_asked_for(
    kind: str, get: Callable[[StateDescriptor], Any], clock: SettableClock
) -> None:
    make, write, read, value = KINDS[kind]
    state = get(with_ttl(make(), builder().update_ttl_on_read_and_write().build()))
    write(state)
    for clock.time_ms in (90, 180, 270):
        assert read(state) == value
    clock.time_ms = 370
    assert read(state) is None


def test_an_expired_value_can_be_returned_once_where_asked_for(
    kind: str, get: Callable[[StateDescriptor], Any], clock: SettableClock
) -> None:
    make, write, read, value = KINDS[kind]
    state = get(with_ttl(make(), builder().return_expired_if_not_cleaned_up().build()))
    write(state)
    clock.time_ms = TTL_MS
    assert read(state) == value
    assert read(state) is None


def test_times_survive_snapshot_and_rescaling(kind: str, factory: BackendFactory, clock: SettableClock) -> None:
    make, write, read, value = KINDS[kind]
    backend = whole_range(factory, clock)
    backend.set_current_key("a")
    write(backend.get_state(with_ttl(make())))
    clock.time_ms = 50
    backend = rescaled(factory, rescaled(factory, [backend], 3, clock), 1, clock)[0]
    backend.set_current_key("a")
    state = backend.get_state(with_ttl(make()))
    clock.time_ms = 99
    assert read(state) == value
    clock.time_ms = 100
    assert read(state) is None


def test_time_to_live_can_be_added_to_state_and_taken_away(
    kind: str, factory: BackendFactory, clock: SettableClock
) -> None:
    make, write, read, value = KINDS[kind]
    backend = whole_range(factory, clock)
    backend.set_current_key("a")
    write(backend.get_state(make()))
    clock.time_ms = 1000
    backend = rescaled(factory, [backend], 1, clock)[0]
    backend.set_current_key("a")
    state = backend.get_state(with_ttl(make()))
    clock.time_ms = 1099  # its life began when it was restored
    assert read(state) == value
    backend = rescaled(factory, [backend], 1, clock)[0]
    backend.set_current_key("a")
    clock.time_ms = 100_000
    assert read(backend.get_state(make())) == value


def test_list_items_and_map_entries_age_one_by_one(backend: KeyedStateBackend, clock: SettableClock) -> None:
    items = backend.get_state(with_ttl(ListStateDescriptor("l")))
    mapping = backend.get_state(with_ttl(MapStateDescriptor("m")))
    for clock.time_ms in (0, 50):
        items.add_all([clock.time_ms, "x"])
        mapping.put_all({clock.time_ms: "x"})
    clock.time_ms = 120
    assert items.get() == [50, "x"]
    assert list(mapping) == [50]
    assert not mapping.contains(0)
    assert mapping.values() == ["x"]
    assert not mapping.is_empty()
    mapping.remove(50)
    assert mapping.is_empty()
    items.update([])
    assert items.get() == []


def test_expired_parts_do_not_enter_a_sum_or_a_merge(backend: KeyedStateBackend, clock: SettableClock) -> None:
    total = backend.get_state(with_ttl(ReducingStateDescriptor("r", lambda a, b: a + b)))
    mean = backend.get_state(with_ttl(AggregatingStateDescriptor("a", AverageFunction())))
    merged = backend.get_namespaced_state(with_ttl(ReducingStateDescriptor("m", lambda a, b: a + b)))
    for clock.time_ms, value in ((0, 1), (60, 2)):
        total.add(value)
        mean.add(value)
        merged.set_current_namespace(value)
        merged.add(value)
    assert (total.get(), mean.get()) == (3, 1.5)
    clock.time_ms = 110
    merged.merge_namespaces(3, [1, 2])
    merged.set_current_namespace(3)
    assert merged.get() == 2
    clock.time_ms = 160
    total.add(5)
    mean.add(5)
    assert (total.get(), mean.get()) == (5, 5.0)
    total.add(None)
    mean.add(None)
    assert (total.get(), mean.get()) == (None, None)


def test_background_cleanup_removes_what_nobody_reads(factory: BackendFactory, clock: SettableClock) -> None:
    backend = whole_range(factory, clock)
    config = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).cleanup_incrementally(10).build()
    state = backend.get_state(with_ttl(ValueStateDescriptor("s", Types.LONG()), config))
    windows = backend.get_namespaced_state(with_ttl(ListStateDescriptor("w", Types.LONG()), config))
    for key in range(50):
        backend.set_current_key(key)
        state.update(key)
        windows.set_current_namespace(key)
        windows.add(key)
    clock.time_ms = TTL_MS
    backend.set_current_key("reader")
    for _ in range(20):
        state.value()
        windows.get()
    assert list(backend.keys("s")) == []
    assert list(backend.keys("w")) == []


def test_a_full_snapshot_leaves_out_what_has_expired_where_asked_for(
    factory: BackendFactory, clock: SettableClock
) -> None:
    for config, kept in ((builder().build(), 1), (builder().cleanup_full_snapshot().build(), 0)):
        clock.time_ms = 0
        backend = whole_range(factory, clock)
        backend.set_current_key("a")
        backend.get_state(with_ttl(ValueStateDescriptor("s"), config)).update(1)
        clock.time_ms = TTL_MS
        assert sum(len(group.states["s"]) for group in canonical(backend).groups.values()) == kept


def test_disabled_ttl_is_none(backend: KeyedStateBackend, clock: SettableClock) -> None:
    config = builder().set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    state = backend.get_state(with_ttl(ValueStateDescriptor("s"), config))
    state.update(1)
    clock.time_ms = 10**9
    assert state.value() == 1
    assert not config.is_enabled()


@pytest.mark.parametrize("ttl", [Duration.of_seconds(2), Time.seconds(2), timedelta(seconds=2), 2000])
def test_a_ttl_can_be_said_in_several_ways(ttl: Any) -> None:
    config = StateTtlConfig.new_builder(1).set_ttl(ttl).never_return_expired().use_processing_time().build()
    assert config.ttl_ms == 2000
    assert config.get_ttl() == ttl


def test_ttl_defaults_are_flinks() -> None:
    config = StateTtlConfig.new_builder(5).build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert incremental.get_cleanup_size() == 5
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb is not None
    assert rocksdb.get_query_time_after_num_entries() == 1000
    assert "ttl=5" in repr(config)


@pytest.mark.parametrize("ttl", [0, -5, "1 s", True, None])
def test_what_is_no_time_to_live_is_refused(ttl: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="time to live"):
        StateTtlConfig.new_builder(ttl).build()


def test_cleanup_that_is_not_done_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        builder().cleanup_incrementally(5, True)
    with pytest.raises(ValueError, match="cleanup_size"):
        builder().cleanup_incrementally(0)


SOME: list[tuple[StateDescriptor, Callable[[Any], object], Callable[[Any], object], object]] = [
    (ValueStateDescriptor("value", Types.LONG()), lambda s: s.update(5), lambda s: s.value(), 5),
    (ValueStateDescriptor("pickled"), lambda s: s.update((1, "x")), lambda s: s.value(), (1, "x")),
    (ListStateDescriptor("list", Types.STRING()), lambda s: s.update(["a", "b"]), lambda s: list(s.get()), ["a", "b"]),
    (
        MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        lambda s: s.put_all({"a": 1, "b": 2}),
        lambda s: dict(s.items()),
        {"a": 1, "b": 2},
    ),
    (ReducingStateDescriptor("sum", int.__add__, Types.LONG()), lambda s: s.add(7), lambda s: s.get(), 7),
    (AggregatingStateDescriptor("mean", AverageFunction(), None), lambda s: s.add(4), lambda s: s.get(), 4.0),
]


@pytest.mark.parametrize("form", [SnapshotKind.CANONICAL, SnapshotKind.INCREMENTAL])
@pytest.mark.parametrize("is_added", [True, False])
def test_subtasks_that_ask_late_for_a_state_with_another_time_to_live_can_be_rescaled(
    factory: BackendFactory, clock: SettableClock, form: SnapshotKind, is_added: bool
) -> None:
    # on the file system of the databases, which are moved into place
    directory = Path(tempfile.mkdtemp(dir=TEMPORARY))
    files = DirectoryFiles(directory / "files")

    def described(descriptor: StateDescriptor, has_ttl: bool) -> StateDescriptor:
        descriptor = copy.deepcopy(descriptor)
        return with_ttl(descriptor) if has_ttl else descriptor

    def handle_of(backend: KeyedStateBackend) -> KeyedStateHandle:
        pending = backend.snapshot(SnapshotRequest(form, CheckpointId(1)))
        assert isinstance(pending, PendingKeyedState)
        while not pending.advance(1):
            pass
        handle = pending.write(files)
        backend.dispose()
        return handle

    def load(handles: list[KeyedStateHandle], backend: KeyedStateBackend, name: str) -> None:
        backend.restore(
            load_keyed_state(handles, backend.key_group_range, MAX_PARALLELISM, files, directory / name, clock)
        )

    keys = [next(f"k{i}" for i in range(99) if subtask_of(f"k{i}", 2) == subtask) for subtask in (0, 1)]
    first = []
    for key, backend in zip(keys, subtasks(factory, 2, clock), strict=True):
        backend.set_current_key(key)
        for descriptor, write, _, _ in SOME:
            write(backend.get_state(described(descriptor, not is_added)))
        first.append(handle_of(backend))
    clock.time_ms += 10
    second = []
    for subtask, backend in enumerate(subtasks(factory, 2, clock)):
        load(first, backend, f"second-{subtask}")
        if subtask == 0:
            for descriptor, _, _, _ in SOME:
                backend.get_state(described(descriptor, is_added))
        second.append(handle_of(backend))
    clock.time_ms += 10
    whole = whole_range(factory, clock)
    load(second, whole, "third")
    states = [(whole.get_state(described(descriptor, True)), read, value) for descriptor, _, read, value in SOME]
    for key in keys:
        whole.set_current_key(key)
        for state, read, value in states:
            assert read(state) == value
    clock.time_ms += TTL_MS - 1
    # it begins when the values get a time: at the restore behind which the first subtask asks, or at the next
    for key, is_over in zip(keys, (is_added, not is_added), strict=True):
        whole.set_current_key(key)
        for state, read, value in states:
            assert (read(state) != value) is is_over
