"""Lookups of single keys: what they find is what the backend holds, and they read little."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest

from runtime.checkpoint.errors import KeyTypeError, NoSuchStateError, PickledStateError, UnknownKeyColumnsError
from runtime.checkpoint.handles import OperatorState, OperatorSubtaskState
from runtime.checkpoint.key_lookup import FoundTimer
from runtime.checkpoint.locations import local_path
from runtime.checkpoint.savepoint_reader import SavepointReader
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter
from runtime.client import state_child
from runtime.client.state_documents import MaskedNames, Shown, lookup_document
from runtime.common.configuration import Configuration
from runtime.common.time import Instant, Time
from runtime.common.typeinfo import RowTypeInfo, TypeInformation, Types
from runtime.common.types import Row
from runtime.core.arrow import to_arrow
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import CheckpointId, KeyGroup
from runtime.core.keys import encode_key
from runtime.core.secret_names import HIDDEN
from runtime.operators.columnar.segments import Header, columnar_state, keyed_snapshot
from runtime.operators.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from runtime.state.backend import KeyedStateBackend
from runtime.state.backends import create_keyed_backend
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.errors import LookupTooLargeError
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, PendingKeyedState
from runtime.state.key_groups import key_group_of, key_group_range
from runtime.state.lookup import LookupTimeError, looking_until
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, SnapshotRequest, StateEntry, StateMeta, TimerEntry
from runtime.state.ttl import StateTtlConfig
from runtime.testing import harness_of
from tests.checkpoint.faulty import FaultyFileSystem
from tests.checkpoint.snapshots import COUNTER, savepoint_options, stored
from tests.state.backends import SettableClock

MAX_PARALLELISM = 128
PARALLELISM = 2
NOW_MS = 1_000_000
Fill = Callable[[KeyedStateBackend, Callable[[Any], bool]], Iterator[None] | None]
"""Fills the state of a subtask, given which keys are its own; a snapshot is taken at the end, or at each step."""
FORMS = [(backend, kind) for backend in ("hashmap", "rocksdb") for kind in SnapshotKind]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


STATES = ("value", "list", "map", "reducing", "aggregating")


def descriptors(ttl: bool = False) -> dict[str, StateDescriptor]:
    """One of each kind, by its name."""
    found: list[StateDescriptor] = [
        ValueStateDescriptor("value", Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.DOUBLE()])),
        ListStateDescriptor("list", Types.LONG()),
        MapStateDescriptor("map", Types.STRING(), Types.LONG()),
        ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
        AggregatingStateDescriptor("aggregating", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
    ]
    for descriptor in found if ttl else ():
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return {descriptor.name: descriptor for descriptor in found}


def touch(state: Any, kind: str, key: int) -> None:
    if kind == "value":
        state.update(Row(a=f"text {key}" * (200 if key % 7 == 0 else 1), b=key / 2))
    elif kind == "list":
        state.add_all([key, -key])
    elif kind == "map":
        state.put_all({f"k{n}": key + n for n in range(key % 5 + 1)})
    else:
        state.add(key)
        state.add(1)


def as_found(state: Any, kind: str) -> Any:
    """Return what a lookup shows of a state that the backend hands out."""
    if kind == "list":
        return list(state.get() or [])
    if kind == "map":
        return dict(state.items())
    return state.value() if kind == "value" else state.get()


def a_backend(directory: Path, name: str, subtask: int, options: Mapping[str, str]) -> KeyedStateBackend:
    configuration = Configuration.from_dict({"state.backend.type": name, **options})
    groups = key_group_range(MAX_PARALLELISM, PARALLELISM, subtask)
    clock = SettableClock(NOW_MS)
    return create_keyed_backend(configuration, groups, MAX_PARALLELISM, clock, directory / f"work-{subtask}", "op")


def written(taken: KeyedSnapshot | PendingKeyedState, writer: TaskStateWriter, subtask: int) -> KeyedStateHandle:
    if isinstance(taken, PendingKeyedState):
        while not taken.advance(1000.0):
            pass
        return taken.write(writer)
    file = writer.write("keyed-state", encode_canonical(taken))
    groups = key_group_range(MAX_PARALLELISM, PARALLELISM, subtask)
    return KeyedStateHandle(CANONICAL_FORMAT, groups, MAX_PARALLELISM, {CANONICAL_FILE: file})


def snapshot_of(
    directory: Path,
    name: str,
    kind: SnapshotKind,
    fill: Fill,
    key_type: TypeInformation | None = None,
    max_read_bytes: int | None = None,
    options: Mapping[str, str] = MappingProxyType({}),
    check: Fill | None = None,
) -> SavepointReader:
    """The last snapshot of an operator "op" with two subtasks."""
    files, places = FaultyFileSystem(), savepoint_options(directory / "sp")
    subtasks = []
    for subtask in range(PARALLELISM):
        backend = a_backend(directory, name, subtask, options)
        own = key_group_range(MAX_PARALLELISM, PARALLELISM, subtask)

        def is_own(key: Any, own: Any = own) -> bool:
            return key_group_of(encode_key(key), MAX_PARALLELISM) in own

        for number, _ in enumerate(fill(backend, is_own) or [None], 1):
            writer = TaskStateWriter(files, places, CheckpointId(number), f"op-{subtask}")
            handle = written(backend.snapshot(SnapshotRequest(kind, CheckpointId(number))), writer, subtask)
            backend.notify_checkpoint_complete(CheckpointId(number))
        if check is not None:
            check(backend, is_own)
        backend.dispose()
        subtasks.append(OperatorSubtaskState(handle))
    operator = OperatorState(
        COUNTER,
        "op",
        "op",
        PARALLELISM,
        MAX_PARALLELISM,
        tuple(subtasks),
        key_type="any" if key_type is None else key_type.type_string(),
    )
    metadata = replace(stored(files, places), operators=(operator,))
    return SavepointReader(metadata, files, max_read_bytes=max_read_bytes)


def all_kinds(*steps: range, ttl: bool = False) -> Fill:
    def fill(backend: KeyedStateBackend, is_own: Callable[[Any], bool]) -> Iterator[None]:
        states = {name: backend.get_state(descriptor) for name, descriptor in descriptors(ttl).items()}
        timers = backend.get_timer_service("timers", lambda timer: None, lambda timer: None)
        for keys in steps:
            for key in filter(is_own, keys):
                backend.set_current_key(key)
                for name, state in states.items():
                    touch(state, name, key)
                timers.register_event_time_timer(key)
                timers.register_processing_time_timer(10 * key)
            yield

    return fill


@pytest.mark.parametrize("ttl", [False, True], ids=["lasting", "ttl"])
@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_a_lookup_finds_what_the_backend_holds(tmp_path: Path, backend: str, kind: SnapshotKind, ttl: bool) -> None:
    expected: dict[str, dict[int, Any]] = {name: {} for name in STATES}

    def remember(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        for name, descriptor in descriptors(ttl).items():
            state = keyed.get_state(descriptor)
            for key in filter(is_own, range(60)):
                keyed.set_current_key(key)
                expected[name][key] = as_found(state, name)

    fill = all_kinds(range(50), range(40, 60), ttl=ttl)
    reader = snapshot_of(tmp_path, backend, kind, fill, key_type=Types.LONG(), check=remember)
    for name in STATES:
        for key in range(0, 60, 7):
            found = reader.lookup("op", name, key)
            assert found.state.has_ttl is ttl
            (value,) = found.values
            shown = value.value[0] / value.value[1] if name == "aggregating" else value.value
            assert (value.namespace, shown, value.is_decoded) == (None, expected[name][key], True), (name, key)
            times: Any = NOW_MS
            if name in ("list", "map"):
                times = [NOW_MS] * len(value.value) if name == "list" else dict.fromkeys(value.value, NOW_MS)
            assert value.touched_ms == (times if ttl else None)
            assert found.timers == [FoundTimer("timers", True, key, None), FoundTimer("timers", False, 10 * key, None)]
            assert found.subtask == (0 if key_group_of(encode_key(key), MAX_PARALLELISM) < 64 else 1)
        assert not reader.lookup("op", name, 1000).values
        assert sorted(reader.first_keys("op", name)) == list(range(60))


@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_each_namespace_of_a_key_is_found(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        counts = keyed.get_namespaced_state(ValueStateDescriptor("count", Types.LONG()))
        names = keyed.get_namespaced_state(MapStateDescriptor("names", Types.STRING(), Types.LONG()))
        for key in filter(is_own, [("a", n) for n in range(20)]):
            keyed.set_current_key(key)
            for window in ((0, 10), (10, 20)):
                counts.set_current_namespace(window)
                counts.update(key[1] + window[0])
                names.set_current_namespace(window)
                names.put_all({"x": window[1], "y": key[1]})

    reader = snapshot_of(tmp_path, backend, kind, fill)
    found = {value.namespace: value.value for value in reader.lookup("op", "count", ("a", 7)).values}
    assert found == {(0, 10): 7, (10, 20): 17}
    found = {value.namespace: value.value for value in reader.lookup("op", "names", ("a", 7)).values}
    assert found == {(0, 10): {"x": 10, "y": 7}, (10, 20): {"x": 20, "y": 7}}
    assert sorted(reader.first_keys("op", "names")) == [("a", n) for n in range(20)]


class Trap:
    """Says so when somebody unpickles it."""

    sprung = 0

    def __reduce__(self) -> Any:
        return (_spring, ())


def _spring() -> str:
    Trap.sprung += 1
    return "unpickled"


@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_pickled_values_are_left_alone(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        value = keyed.get_state(ValueStateDescriptor("value"))
        entries = keyed.get_state(MapStateDescriptor("map", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))
        plain = keyed.get_state(ValueStateDescriptor("plain", Types.LONG()))
        for key in filter(is_own, ["a", "b"]):
            keyed.set_current_key(key)
            value.update(Trap())
            entries.put("x", Trap())
            plain.update(3)

    reader = snapshot_of(tmp_path, backend, kind, fill)
    Trap.sprung = 0
    for name in ("value", "map"):
        (found,) = reader.lookup("op", name, "a").values
        assert (found.value, found.is_decoded) == (None, False)
        assert sorted(reader.first_keys("op", name)) == ["a", "b"]
        assert not reader.lookup("op", name, "c").values
    assert [found.value for found in reader.lookup("op", "plain", "a").values] == [3]
    # nor where all of a state is read
    assert {(state.name, state.entries) for state in reader.states("op")} == {("value", 2), ("map", 2), ("plain", 2)}
    assert sorted(reader.keyed_state("op", "plain")["value"]) == [3, 3]
    assert reader.timers("op").is_empty()
    for name in ("value", "map"):
        with pytest.raises(PickledStateError):
            reader.keyed_state("op", name)
    assert Trap.sprung == 0


def test_a_map_whose_rows_are_pickled_is_no_map_of_what_its_meta_says(tmp_path: Path) -> None:
    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        entries = keyed.get_state(MapStateDescriptor("map", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))
        for key in filter(is_own, ["a", "b"]):
            keyed.set_current_key(key)
            entries.put("x", Trap())

    reader = snapshot_of(tmp_path, "rocksdb", SnapshotKind.INCREMENTAL, fill)
    (operator,) = reader.metadata.operators
    subtasks = []
    for subtask in operator.subtasks:
        assert subtask.keyed is not None and subtask.keyed.states is not None
        states = tuple(replace(state, serializer="map<string, long>") for state in subtask.keyed.states)
        lie = subtask.keyed.metadata.replace(b"map<string, pickle>", b"map<string, long>")
        subtasks.append(OperatorSubtaskState(replace(subtask.keyed, states=states, metadata=lie)))
    forged = replace(reader.metadata, operators=(replace(operator, subtasks=tuple(subtasks)),))
    Trap.sprung = 0
    with pytest.raises(Exception, match="cannot be decoded"):
        SavepointReader(forged).lookup("op", "map", "a")
    with pytest.raises(PickledStateError):
        SavepointReader(forged).keyed_state("op", "map")
    assert [state.name for state in SavepointReader(forged).states("op")] == ["map"]
    assert Trap.sprung == 0


def test_keys_are_of_the_declared_type(tmp_path: Path) -> None:
    reader = snapshot_of(tmp_path, "hashmap", SnapshotKind.CANONICAL, all_kinds(range(5)), key_type=Types.LONG())
    with pytest.raises(KeyTypeError, match=r"the keys are of the type long: 'a' .*does not fit LONG"):
        reader.lookup("op", "value", "a")
    with pytest.raises(NoSuchStateError, match="no keyed state 'sum'; there are 'aggregating', 'list'"):
        reader.lookup("op", "sum", 1)
    with pytest.raises(NoSuchStateError, match="no operator 'nobody'"):
        reader.lookup("nobody", "value", 1)
    undeclared = snapshot_of(tmp_path / "any", "hashmap", SnapshotKind.CANONICAL, all_kinds(range(5)))
    with pytest.raises(KeyTypeError, match="cannot be a key: a dict has no order"):
        undeclared.lookup("op", "value", {"a": 1})
    assert not undeclared.lookup("op", "value", "3").values


@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_states_are_listed_without_reading_them(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    reader = snapshot_of(tmp_path, backend, kind, all_kinds(range(5)))
    listed = {state.name: (state.kind, state.serializer) for state in reader.keyed_states("op")}
    assert listed["map"] == ("map", "map<string, long>")
    assert set(listed) == set(STATES)
    if kind is not SnapshotKind.CANONICAL:
        assert reader.read_bytes == 0


@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_damage_of_what_is_read_is_found(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    reader = snapshot_of(tmp_path, backend, kind, all_kinds(range(500)))
    for subtask in reader.metadata.operators[0].subtasks:
        assert subtask.keyed is not None
        for file in subtask.keyed.files.values():
            path = local_path(file.uri)
            content = bytearray(path.read_bytes())
            for at in range(8, len(content), 16):
                content[at] ^= 1
            path.write_bytes(content)
    with pytest.raises(DamagedSnapshotError):
        reader.lookup("op", "value", 7)
    for subtask in reader.metadata.operators[0].subtasks:
        assert subtask.keyed is not None
        for file in subtask.keyed.files.values():
            local_path(file.uri).unlink(missing_ok=True)
    with pytest.raises(DamagedSnapshotError, match="missing"):
        reader.lookup("op", "value", 7)


@pytest.mark.parametrize(("backend", "kind"), FORMS)
def test_a_look_reads_no_more_than_it_may(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    reader = snapshot_of(tmp_path, backend, kind, all_kinds(range(50)), max_read_bytes=100)
    with pytest.raises(LookupTooLargeError):
        reader.lookup("op", "value", 7)
    with pytest.raises(LookupTooLargeError):
        list(reader.first_keys("op", "value"))


def columnar(
    directory: Path,
    frame: pl.DataFrame,
    row_type: RowTypeInfo,
    keys: list[str],
    key_type: str | None = None,
    max_parallelism: int = MAX_PARALLELISM,
) -> SavepointReader:
    """A snapshot of an operator "op" whose state "segments" are these rows."""
    by = ColumnKeys(keys, row_type)
    keyed = keyed_snapshot("segments", frame, row_type, by, max_parallelism, Header(MIN_WATERMARK, 3))
    return canonical(directory, keyed, by.key_type.type_string() if key_type is None else key_type)


def canonical(directory: Path, keyed: KeyedSnapshot, key_type: str) -> SavepointReader:
    """A snapshot of an operator "op" with this state."""
    files, options = FaultyFileSystem(), savepoint_options(directory)
    file = TaskStateWriter(files, options, CheckpointId(1), "op").write("s", encode_canonical(keyed))
    groups = key_group_range(keyed.max_parallelism, 1, 0)
    handle = KeyedStateHandle(CANONICAL_FORMAT, groups, keyed.max_parallelism, {CANONICAL_FILE: file})
    subtasks = (OperatorSubtaskState(handle),)
    operator = OperatorState(COUNTER, "op", "op", 1, keyed.max_parallelism, subtasks, key_type=key_type)
    return SavepointReader(replace(stored(files, options), operators=(operator,)), files)


def test_rows_of_columnar_state_are_found_by_their_key(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["name", "city", "n"], [Types.STRING(), Types.STRING(), Types.LONG()])
    rows = [(f"name {n}", f"city {n % 40}", n) for n in range(400)]
    frame = pl.DataFrame(rows, schema=["name", "city", "n"], orient="row")
    reader = columnar(tmp_path, frame, row_type, ["city"])
    (found,) = reader.lookup("op", "segments", "city 7").values
    assert found.value == [{"name": name, "city": city, "n": n} for name, city, n in rows if city == "city 7"]
    assert not reader.lookup("op", "segments", "name 7").values
    assert sorted(reader.first_keys("op", "segments")) == sorted({city for _, city, _ in rows})


LONGS = [Types.LONG(), Types.LONG(), Types.LONG()]


def test_an_operators_own_column_is_not_taken_for_the_key(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["__pane", "user", "n"], LONGS)
    frame = pl.DataFrame({"__pane": [60_000] * 90, "user": range(90), "n": [2**40 + n // 2 for n in range(90)]})
    reader = columnar(tmp_path, frame, row_type, ["user"])
    assert sorted(reader.first_keys("op", "segments")) == list(range(90))
    (found,) = reader.lookup("op", "segments", 7).values
    assert found.value == [{"__pane": 60_000, "user": 7, "n": 2**40 + 3}]
    assert not reader.lookup("op", "segments", 60_000).values


def test_the_key_of_a_window_join_is_found(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["__pane", "__k0", "n"], LONGS)
    frame = pl.DataFrame({"__pane": [0] * 90, "__k0": range(90), "n": range(90)})
    reader = columnar(tmp_path, frame, row_type, ["__k0"])
    assert sorted(reader.first_keys("op", "segments")) == list(range(90))


def test_a_column_fits_only_if_its_values_belong_to_the_very_key_groups(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["region", "user", "n"], LONGS)
    # all rows of a key group have one region
    frame = pl.DataFrame({"region": [5] * 90, "user": range(90), "n": range(1_000, 1_090)})
    reader = columnar(tmp_path, frame, row_type, ["user"])
    assert sorted(reader.first_keys("op", "segments")) == list(range(90))
    # by the rows of this one alone, it might be the key
    there = next(n for n in range(90) if key_group_of(encode_key(n), 128) == key_group_of(encode_key(5), 128))
    (found,) = reader.lookup("op", "segments", there).values
    assert found.value == [{"region": 5, "user": there, "n": 1_000 + there}]


def test_columns_that_cannot_be_told_apart_are_no_key(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LONG()])
    frame = pl.DataFrame({"a": range(9), "b": range(100, 109)})
    reader = columnar(tmp_path / "one", frame, row_type, ["b"], max_parallelism=1)
    with pytest.raises(UnknownKeyColumnsError, match=r"the key columns of state 'segments' are not known: .* a or b"):
        reader.lookup("op", "segments", 3)
    with pytest.raises(UnknownKeyColumnsError):
        list(reader.first_keys("op", "segments"))
    # the answer is the same by either
    twice = columnar(tmp_path / "two", frame.with_columns(b=pl.col("a")), row_type, ["b"], max_parallelism=1)
    assert [found.value for found in twice.lookup("op", "segments", 3).values] == [[{"a": 3, "b": 3}]]
    assert sorted(twice.first_keys("op", "segments")) == list(range(9))


def test_rows_whose_key_is_not_known_are_not_said_to_be_none(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a", "b", "c"], LONGS)
    frame = pl.DataFrame({"a": range(9), "b": range(9, 18), "c": range(20, 29)})
    undeclared = columnar(tmp_path / "any", frame, row_type, ["a"], key_type="any")
    with pytest.raises(UnknownKeyColumnsError, match="has not declared the type"):
        undeclared.lookup("op", "segments", 3)
    with pytest.raises(UnknownKeyColumnsError):
        list(undeclared.first_keys("op", "segments"))
    other = columnar(tmp_path / "other", frame, row_type, ["a"], key_type="tuple<long, long>")
    with pytest.raises(UnknownKeyColumnsError, match="by no columns of the type"):
        list(other.first_keys("op", "segments"))
    names = [f"c{n}" for n in range(40)]
    wide = Types.ROW_NAMED(names, [Types.LONG()] * 40)
    many = columnar(tmp_path / "many", pl.DataFrame([[1, 2]] * 40, schema=names), wide, names[:2])
    with pytest.raises(UnknownKeyColumnsError, match="more than 1000 combinations"):
        list(many.first_keys("op", "segments"))


def test_keys_of_columns_have_the_form_that_programs_give_them(tmp_path: Path) -> None:
    types = [Types.INSTANT(), Types.BIG_INT(), Types.LONG()]
    row_type = Types.ROW_NAMED(["at", "large", "n"], types)
    keys = [(Instant(1_700_000_000 + n, 7), 10**20 + n) for n in range(9)]
    frame = pl.DataFrame(to_arrow([Row(at=at, large=large, n=n) for n, (at, large) in enumerate(keys)], row_type))
    reader = columnar(tmp_path, frame, row_type, ["at", "large"])
    assert sorted(reader.first_keys("op", "segments")) == keys
    (found,) = reader.lookup("op", "segments", keys[4]).values
    assert [row["n"] for row in found.value] == [4]


class Counting(KeyedProcessFunction):
    """Counts, and remembers the last three values."""

    COUNT = ValueStateDescriptor("count", Types.LONG())
    LAST = ListStateDescriptor("last", Types.STRING())

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(self.COUNT)
        self.last = runtime_context.get_list_state(self.LAST)

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.last.update([*(self.last.get() or []), value[1]][-3:])
        ctx.timer_service().register_event_time_timer(1000 * count)
        return ()


def test_a_lookup_agrees_with_the_test_kit(tmp_path: Path) -> None:
    with harness_of(lambda stream: stream.key_by(lambda value: value[0]).process(Counting())) as harness:
        for number in range(30):
            harness.process([(f"key {number % 4}", f"value {number}")])
        taken = harness.snapshot().keyed
        assert isinstance(taken, KeyedSnapshot)
        files, options = FaultyFileSystem(), savepoint_options(tmp_path)
        file = TaskStateWriter(files, options, CheckpointId(1), "op").write("s", encode_canonical(taken))
        handle = KeyedStateHandle(CANONICAL_FORMAT, key_group_range(128, 1, 0), 128, {CANONICAL_FILE: file})
        operator = OperatorState(COUNTER, "op", "op", 1, 128, (OperatorSubtaskState(handle),))
        reader = SavepointReader(replace(stored(files, options), operators=(operator,)), files)
        for key in (f"key {number}" for number in range(4)):
            (count,) = reader.lookup("op", "count", key).values
            (last,) = reader.lookup("op", "last", key).values
            assert count.value == harness.keyed_state(Counting.COUNT, key).value()
            assert last.value == list(harness.keyed_state(Counting.LAST, key).get())
            timers = [timer.timestamp for timer in reader.lookup("op", "count", key).timers]
            assert timers == [1000 * n for n in range(1, count.value + 1)]


@pytest.mark.parametrize("compression", ["NO", "SNAPPY", "LZ4", "LZ4HC", "ZSTD", "BZLIB2"])
def test_databases_of_every_compression_are_looked_into(tmp_path: Path, compression: str) -> None:
    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> Iterator[None]:
        state = keyed.get_state(ValueStateDescriptor("text", Types.STRING()))
        for first in (0, 300):
            for key in filter(is_own, range(first, first + 400)):
                keyed.set_current_key(key)
                # some apart from their keys, in files of values, and some with them
                state.update(f"{first} {key} " * (key % 90))
            yield

    key = "state.backend.rocksdb.compression.per.level"
    options = {key: f"{compression}_COMPRESSION", "state.backend.rocksdb.use-bloom-filter": "true"}
    reader = snapshot_of(tmp_path, "rocksdb", SnapshotKind.INCREMENTAL, fill, options=options)
    for key_ in (0, 88, 89, 299, 300, 399, 400, 699):
        first = 0 if key_ < 300 else 300
        (found,) = reader.lookup("op", "text", key_).values
        assert found.value == f"{first} {key_} " * (key_ % 90)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "max_share"), [(SnapshotKind.INCREMENTAL, 0.02), (SnapshotKind.CANONICAL, 0.02)])
def test_a_key_of_a_large_database_is_found_by_reading_little(
    tmp_path: Path, kind: SnapshotKind, max_share: float
) -> None:
    def fill(keyed: KeyedStateBackend, is_own: Callable[[Any], bool]) -> None:
        small = keyed.get_state(ValueStateDescriptor("small", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        large = keyed.get_state(ValueStateDescriptor("large", Types.PRIMITIVE_ARRAY(Types.BYTE())))
        chance = random.Random(1)
        for key in filter(is_own, range(200_000)):
            keyed.set_current_key(key)
            small.update(chance.randbytes(100))
            if key % 10 == 0:
                large.update(chance.randbytes(1000))

    reader = snapshot_of(tmp_path, "rocksdb", kind, fill)
    total = sum(subtask.keyed.size for subtask in reader.metadata.operators[0].subtasks if subtask.keyed is not None)
    for key, name, size in ((123_456, "small", 100), (123_450, "large", 1000)):
        before, began = reader.read_bytes, time.process_time()
        (found,) = reader.lookup("op", name, key).values
        took_s, read = time.process_time() - began, reader.read_bytes - before
        print(f"{kind.value} {name}: {took_s:.2f} s of CPU time, {read:,} of {total:,} bytes, {read / total:.2%}")
        assert len(found.value) == size
        assert read < max_share * total
        assert took_s < 2.0


def asked(reader: SavepointReader, **request: Any) -> dict[str, Any]:
    """Return the child's answer about a snapshot, without what its parent checks."""
    SnapshotFiles(FaultyFileSystem()).write_metadata(reader.metadata)
    location = reader.metadata.options.directory
    usual = {"operator": "op", "encoded_key": None, "key_type": "", "max_read_bytes": 1 << 20, "look_s": 60.0}
    answer = state_child._answer({"location": location, "roots": [location], **usual, **request})
    return {name: told for name, told in answer.items() if name != "signed"}


def test_whatever_cannot_be_read_is_named(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a"], [Types.LONG()])
    metas = {"segments": columnar_state("segments", row_type)}
    entry = StateEntry(b"", b"", bytes(16) + b"no columns")
    groups = {KeyGroup(n): KeyGroupSnapshot({"segments": [entry]}) for n in range(MAX_PARALLELISM)}
    forged = canonical(tmp_path, KeyedSnapshot(MAX_PARALLELISM, metas, groups), "long")
    for ask in ("lookup", "keys"):
        answer = asked(forged, ask=ask, state="segments", key=3, limit=10)
        assert answer["reason"] == "unreadable"
        assert answer["error"].startswith("the state cannot be read: ArrowInvalid: ")


def test_integers_that_have_no_decimal_digits_are_shown() -> None:
    assert Shown().of(10**20) == "1" + "0" * 20
    shown = Shown()
    assert shown.of([-(16**5_000)])[0].startswith("-0x1000")
    assert shown.is_cut


def test_what_a_peek_masks_is_hidden_in_state_too() -> None:
    row = Row(name="ann", password="geheim", more=Row(api_key="k", email="a@b.c"))
    assert Shown().of(row) == {"name": "ann", "password": HIDDEN, "more": {"api_key": HIDDEN, "email": "a@b.c"}}
    hides = MaskedNames([" Email", "name "])
    assert Shown(hides).of([row])[0]["more"] == {"api_key": HIDDEN, "email": HIDDEN}
    entries = Shown(hides).of({"token": 1, "count": {"email": 2}, 7: 3})
    assert [each["value"] for each in entries] == [HIDDEN, {"email": HIDDEN}, 3]
    assert Shown(MaskedNames("*")).of(row) == {"name": HIDDEN, "password": HIDDEN, "more": HIDDEN}


def test_keys_that_were_found_in_time_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = KeyedSnapshot(
        MAX_PARALLELISM,
        {name: StateMeta(name, "value", "long", namespaced=False) for name in ("sparse", "dense")},
        {
            KeyGroup(n): KeyGroupSnapshot({("dense" if n else "sparse"): [StateEntry(encode_key(n), b"", bytes(8))]})
            for n in range(MAX_PARALLELISM)
        },
    )
    reader = canonical(tmp_path, keyed, "long")
    read = TaskStateReader.read_range

    def slow(*args: Any) -> bytes:
        time.sleep(0.05)
        return read(*args)

    monkeypatch.setattr(TaskStateReader, "read_range", slow)
    # all key groups take more than 6 s
    assert asked(reader, ask="keys", state="sparse", limit=10, look_s=2.0) == {
        "keys": [{"key": 0, "encoded_key": encode_key(0).hex()}],
        "is_all": False,
    }
    assert asked(reader, ask="keys", state="sparse", limit=10, look_s=0.0) == {"keys": [], "is_all": False}
    monkeypatch.undo()
    with looking_until(time.monotonic()), pytest.raises(LookupTimeError):
        next(reader.first_keys("op", "sparse"))
    assert asked(reader, ask="keys", state="sparse", limit=10)["is_all"]


def test_timers_that_fire_first_are_told_and_all_are_counted(tmp_path: Path) -> None:
    times = [*range(2_000, 0, -1)]
    key = encode_key(7)
    group = KeyGroup(key_group_of(key, MAX_PARALLELISM))
    timers = {"timers": [TimerEntry(at, key, b"") for at in times]}
    saved = KeyGroupSnapshot({"n": [StateEntry(key, b"", bytes(8))]}, timers, timers)
    meta = StateMeta("n", "value", "long", namespaced=False)
    reader = canonical(tmp_path, KeyedSnapshot(MAX_PARALLELISM, {"n": meta}, {group: saved}), "long")
    found = reader.lookup("op", "n", 7)
    assert [timer.timestamp for timer in found.timers[:4]] == [1, 1, 2, 2]
    assert (len(found.timers), found.num_timers) == (2_000, 4_000)
    answer = lookup_document(found)
    assert (answer["num_timers"], answer["timers"][-1]["timestamp"]) == (4_000, 50)
