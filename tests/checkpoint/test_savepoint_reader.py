"""The savepoint reader: its views of a snapshot, and values that it refuses to decode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runtime.checkpoint.errors import NoSuchStateError, NotASnapshotError, PickledStateError
from runtime.checkpoint.handles import OperatorState, OperatorSubtaskState
from runtime.checkpoint.locations import local_path
from runtime.checkpoint.savepoint_reader import OperatorSummary, SavepointReader, StateSummary
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateWriter
from runtime.checkpoint.state_frames import is_pickled, keys_column
from runtime.common.configuration import Configuration
from runtime.common.time import Instant
from runtime.common.typeinfo import TypeInformation, Types
from runtime.common.types import Row
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK
from runtime.core.column_keys import ColumnKeys
from runtime.core.elements import MIN_WATERMARK
from runtime.core.ids import CheckpointId, OperatorId
from runtime.operators.columnar.segments import Header, keyed_snapshot
from runtime.state.backends import create_keyed_backend
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap.backend import HashMapKeyedStateBackend
from runtime.state.key_groups import KeyGroupRange
from runtime.state.operator_state import OperatorStateBackend
from runtime.state.snapshot import KeyedSnapshot, OperatorStateSnapshot, SnapshotRequest
from runtime.state.ttl import StateTtlConfig
from tests.checkpoint.faulty import NO_PAUSES, FaultyFileSystem
from tests.checkpoint.snapshots import COUNTER, MAX_PARALLELISM, SOURCE, savepoint_options, stored


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    files = FaultyFileSystem()
    SnapshotFiles(files).write_metadata(stored(files, savepoint_options(tmp_path / "sp"), num_keys=20))
    return tmp_path / "sp"


def with_state(
    directory: Path,
    keyed: KeyedSnapshot | None,
    operator_states: dict[str, OperatorStateSnapshot] | None = None,
    allow_pickle: bool = False,
) -> SavepointReader:
    """A savepoint of one operator with one subtask, "op"."""
    files, options = FaultyFileSystem(), savepoint_options(directory)
    handle = None
    if keyed is not None:
        file = TaskStateWriter(files, options, CheckpointId(1), "op", NO_PAUSES).write("s", encode_canonical(keyed))
        groups = KeyGroupRange(0, MAX_PARALLELISM - 1)
        handle = KeyedStateHandle(CANONICAL_FORMAT, groups, MAX_PARALLELISM, {CANONICAL_FILE: file})
    subtask = OperatorSubtaskState(handle, operator_states or {})
    operator = OperatorState(OperatorId("0" * 32), "op", "operator", 1, MAX_PARALLELISM, (subtask,))
    metadata = replace(stored(files, options), operators=(operator,))
    SnapshotFiles(files).write_metadata(metadata)
    return SavepointReader.read(directory, allow_pickle=allow_pickle)


def a_backend() -> HashMapKeyedStateBackend:
    return HashMapKeyedStateBackend(KeyGroupRange(0, MAX_PARALLELISM - 1), MAX_PARALLELISM, SYSTEM_CLOCK)


def of_value_state(
    directory: Path, descriptor: StateDescriptor, values: dict[Any, Any], allow_pickle: bool = False
) -> SavepointReader:
    backend = a_backend()
    state = backend.get_state(descriptor)
    for key, value in values.items():
        backend.set_current_key(key)
        if isinstance(descriptor, MapStateDescriptor):
            state.put_all(value)
        else:
            state.update(value)
    keyed = backend.snapshot()
    assert isinstance(keyed, KeyedSnapshot)
    return with_state(directory, keyed, allow_pickle=allow_pickle)


def test_operators_are_listed_without_reading_state(savepoint: Path) -> None:
    reader = SavepointReader.read(savepoint)
    source, counter = reader.operators()
    assert source == OperatorSummary(SOURCE, "source", "Source: numbers", 1, 16, (), 0)
    assert (counter.uid, counter.parallelism, counter.formats) == ("counter", 2, ("canonical",))
    assert counter.size > 0


def test_states_are_counted(savepoint: Path) -> None:
    reader = SavepointReader.read(savepoint)
    states = {state.name: state for state in reader.states("counter")}
    assert list(states) == ["count", "timers", "buffer"]
    assert (states["count"].kind, states["count"].serializer, states["count"].entries) == ("value", "long", 20)
    assert (states["timers"].kind, states["timers"].entries) == ("timers", 20)
    assert states["buffer"] == StateSummary("buffer", "split", "BYTE", 2, 3)
    assert reader.states("source") == [StateSummary("coordinator", "coordinator", "", 1, 2)]


@pytest.mark.parametrize("name", ["counter", "count", COUNTER])
def test_keyed_state_is_a_frame(savepoint: Path, name: str) -> None:
    frame = SavepointReader.read(savepoint).keyed_state(name, "count")
    assert frame.schema == {"key": pl.String, "namespace": pl.Null, "value": pl.Int64}
    assert dict(frame.select("key", "value").iter_rows()) == {f"key-{n}": 10 * n for n in range(20)}


def test_timers_are_a_frame(savepoint: Path) -> None:
    frame = SavepointReader.read(f"{savepoint}/_metadata").timers("counter").sort("timestamp")
    assert frame.columns == ["service", "is_event_time", "timestamp", "key", "namespace"]
    assert frame.row(3) == ("timers", True, 3, "key-3", {"f0": "w", "f1": 3})
    assert SavepointReader.read(savepoint).timers("source").is_empty()


def test_unknown_names_say_what_there_is(savepoint: Path, tmp_path: Path) -> None:
    reader = SavepointReader.read(savepoint)
    with pytest.raises(NoSuchStateError, match="no operator 'nobody'; there are 'source', 'counter'"):
        reader.keyed_state("nobody", "count")
    with pytest.raises(NoSuchStateError, match="no keyed state 'sum'; there are 'count'"):
        reader.keyed_state("counter", "sum")
    with pytest.raises(NoSuchStateError, match="no operator state 'sum'; there are 'buffer'"):
        reader.operator_state("counter", "sum")
    with pytest.raises(NotASnapshotError):
        SavepointReader.read(tmp_path)


def test_damage_is_found_before_anything_is_shown(savepoint: Path) -> None:
    reader = SavepointReader.read(savepoint)
    keyed = reader.metadata.operators[1].subtasks[1].keyed
    assert keyed is not None
    path = local_path(keyed.files[CANONICAL_FILE].uri)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSnapshotError):
        reader.keyed_state("counter", "count")
    with pytest.raises(DamagedSnapshotError):
        reader.states("counter")


ROW = Types.ROW_NAMED(["city", "flights"], [Types.STRING(), Types.LIST(Types.INT())])


@pytest.mark.parametrize(
    ("descriptor", "value", "shown", "dtype"),
    [
        (ValueStateDescriptor("s", Types.STRING()), "x", "x", pl.String),
        (ValueStateDescriptor("s", ROW), Row(city="X", flights=[1, 2]), {"city": "X", "flights": [1, 2]}, None),
        (ValueStateDescriptor("s", Types.TUPLE([Types.INT(), Types.DOUBLE()])), (1, 0.5), {"f0": 1, "f1": 0.5}, None),
        (ListStateDescriptor("s", Types.LONG()), [3, 1], [3, 1], pl.List(pl.Int64)),
        (
            MapStateDescriptor("s", Types.STRING(), Types.DOUBLE()),
            {"a": 1.0, "b": 2.0},
            {"a": 1.0, "b": 2.0},
            None,
        ),
    ],
    ids=["text", "row", "tuple", "list", "map"],
)
def test_values_come_with_the_columns_of_their_type(
    tmp_path: Path, descriptor: StateDescriptor, value: Any, shown: Any, dtype: Any
) -> None:
    frame = of_value_state(tmp_path, descriptor, {1: value, 2: value}).keyed_state("op", "s").sort("key")
    assert frame.get_column("key").to_list() == [1, 2]
    assert frame.get_column("value").to_list() == [shown, shown]
    assert dtype is None or frame.schema["value"] == dtype


@pytest.mark.parametrize(
    ("keys", "key_type", "expected"),
    [
        ([], "long", pl.Int64),
        ([1, None], "long", pl.Int64),
        ([("a", 1)], "tuple<string, long>", pl.Struct({"f0": pl.String, "f1": pl.Int64})),
        ([], "any", pl.Null),
        (["a"], "any", pl.String),
        # of an earlier version, which did not know
        (["a"], "long", pl.String),
    ],
)
def test_keys_come_with_the_column_of_their_type(
    keys: list[Any], key_type: str, expected: pl.DataType, tmp_path: Path
) -> None:
    reader = of_value_state(tmp_path, ValueStateDescriptor("s", Types.LONG()), dict.fromkeys(keys, 1))
    typed = replace(reader.metadata, operators=[replace(o, key_type=key_type) for o in reader.metadata.operators])
    frame = SavepointReader(typed).keyed_state("op", "s")
    assert frame.schema["key"] == expected
    assert frame.height == len(keys)


def test_times_to_live_are_left_out(tmp_path: Path) -> None:
    descriptor = ListStateDescriptor("s", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(3_600_000).build())
    frame = of_value_state(tmp_path, descriptor, {"k": [1, 2]}).keyed_state("op", "s")
    assert frame.rows() == [("k", None, [1, 2])]


def test_pickled_values_are_decoded_only_when_that_is_allowed(tmp_path: Path) -> None:
    descriptor = ValueStateDescriptor("s")
    reader = of_value_state(tmp_path / "a", descriptor, {"k": {1, 2}})
    with pytest.raises(PickledStateError, match=r"'s' of 'operator' holds pickled values.*allow_pickle=True"):
        reader.keyed_state("op", "s")
    assert reader.states("op")[0].entries == 1, "they can be counted"
    allowed = of_value_state(tmp_path / "b", descriptor, {"k": {1, 2}}, allow_pickle=True)
    assert allowed.keyed_state("op", "s").get_column("value").to_list() == [{1, 2}]


def test_which_serializers_pickle() -> None:
    pickled: list[TypeInformation] = [
        Types.PICKLED_BYTE_ARRAY(),
        Types.LIST(Types.PICKLED_BYTE_ARRAY()),
        Types.MAP(Types.INT(), Types.TUPLE([Types.PICKLED_BYTE_ARRAY()])),
    ]
    assert all(is_pickled(type_info.type_string()) for type_info in pickled)
    assert not is_pickled(Types.ROW_NAMED(["pickle"], [Types.INT()]).type_string())
    assert not is_pickled("")
    assert is_pickled("something else")


def test_keys_of_any_kind_are_shown() -> None:
    assert keys_column("key", [("a", 1), ("b", 2)]).to_list() == [{"f0": "a", "f1": 1}, {"f0": "b", "f1": 2}]
    assert keys_column("key", [Row(x=1, y="b")]).to_list() == [{"x": 1, "y": "b"}]
    assert keys_column("key", [Row(1, "b")]).to_list() == [{"f0": 1, "f1": "b"}]
    assert keys_column("key", [1, "a", None]).to_list() == [1, "a", None]
    assert keys_column("key", [Instant.of_epoch_milli(7)]).to_list() == [7]


def test_operator_state_is_a_frame(tmp_path: Path) -> None:
    backend = OperatorStateBackend()
    backend.get_list_state(ListStateDescriptor("offsets", Types.LONG())).add_all([5, 6])
    backend.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.INT())).put("a", 1)
    backend.get_list_state(ListStateDescriptor("anything")).add(object)
    reader = with_state(tmp_path, None, backend.snapshot())
    assert reader.operator_state("op", "offsets").to_dict(as_series=False) == {"subtask": [0, 0], "value": [5, 6]}
    assert reader.operator_state("op", "rules").rows() == [(0, "a", 1)]
    with pytest.raises(PickledStateError):
        reader.operator_state("op", "anything")


def test_a_coordinators_state_is_shown_as_it_is(savepoint: Path) -> None:
    assert SavepointReader.read(savepoint).operator_state("source", "coordinator").rows() == [(0, b"{}")]


def test_columnar_state_comes_with_its_own_columns(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["city", "n"], [Types.STRING(), Types.LONG()])
    frame = pl.DataFrame({"city": ["a", "b", "c"], "n": [1, 2, 3]})
    keys = ColumnKeys(["city"], row_type)
    keyed = keyed_snapshot("segments", frame, row_type, keys, MAX_PARALLELISM, Header(MIN_WATERMARK, 3))
    shown = with_state(tmp_path, keyed).keyed_state("op", "segments")
    assert shown.sort("n").equals(frame)


@pytest.mark.parametrize("kind", SnapshotKind)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_backends_write_in_their_own_form_is_read(tmp_path: Path, backend: str, kind: SnapshotKind) -> None:
    configuration = Configuration()
    configuration.set_string("state.backend.type", backend)
    groups = KeyGroupRange(0, MAX_PARALLELISM - 1)
    keyed = create_keyed_backend(configuration, groups, MAX_PARALLELISM, SYSTEM_CLOCK, tmp_path / "work", "op")
    counts = keyed.get_state(ValueStateDescriptor("count", Types.LONG()))
    names = keyed.get_state(MapStateDescriptor("names", Types.STRING(), Types.INT()))
    timers = keyed.get_timer_service("timers", lambda timer: None, lambda timer: None)
    for key in range(50):
        keyed.set_current_key(key)
        counts.update(10 * key)
        names.put("a", key)
        timers.register_event_time_timer(key)
    files, options = FaultyFileSystem(), savepoint_options(tmp_path / "sp")
    writer = TaskStateWriter(files, options, CheckpointId(1), "op", NO_PAUSES)
    taken = keyed.snapshot(SnapshotRequest(kind, CheckpointId(1)))
    if isinstance(taken, PendingKeyedState):
        while not taken.advance(1000.0):
            pass
        handle = taken.write(writer)
    else:
        file = writer.write("keyed-state", encode_canonical(taken))
        handle = KeyedStateHandle(CANONICAL_FORMAT, groups, MAX_PARALLELISM, {CANONICAL_FILE: file})
    keyed.dispose()
    operator = OperatorState(COUNTER, "op", "op", 1, MAX_PARALLELISM, (OperatorSubtaskState(handle),))
    reader = SavepointReader(replace(stored(files, options), operators=(operator,)))
    assert handle.format == ("canonical" if kind is SnapshotKind.CANONICAL else backend)
    assert {state.name: state.entries for state in reader.states("op")} == {"count": 50, "names": 50, "timers": 50}
    frame = reader.keyed_state("op", "count")
    assert dict(frame.select("key", "value").iter_rows()) == {key: 10 * key for key in range(50)}
    assert reader.keyed_state("op", "names").sort("key").get_column("value").to_list() == [{"a": n} for n in range(50)]
    assert sorted(reader.timers("op").get_column("timestamp")) == list(range(50))
