"""SavepointReader: reads a checkpoint or savepoint, and returns its state as Polars frames.

    >>> reader = SavepointReader.read("savepoints/savepoint-1a2b3c-0123456789ab")    # doctest: +SKIP
    >>> reader.keyed_state("counter", "count")                                       # doctest: +SKIP
    shape: (3, 3)  key | namespace | value

Every file is verified before any of it is used. Values are decoded by the serializer that the state names; pickled ones
only if the caller allows it, because unpickling runs code from the savepoint. Any thread.
Source: Flink, State Processor API.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from runtime.checkpoint.errors import NoSuchStateError, PickledStateError
from runtime.checkpoint.file_system import ArrowFileSystem, CheckpointFileSystem
from runtime.checkpoint.handles import CheckpointMetadata, OperatorState, OperatorSubtaskState
from runtime.checkpoint.key_lookup import KeyFinder, KeyLookup
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateReader
from runtime.checkpoint.state_frames import column_of, is_pickled, keys_column, read_codec
from runtime.common.typeinfo import MapTypeInfo, TypeInformation, parse_type
from runtime.core.keys import decode_key
from runtime.core.serializers import serializer_by_name
from runtime.graph.key_types import key_type_info
from runtime.operators.columnar.segments import saved_frames
from runtime.state.descriptors import MapStateDescriptor
from runtime.state.key_groups import KeyGroupRange
from runtime.state.lookup import MeteredReader
from runtime.state.namespaces import decode_namespace
from runtime.state.operator_state import OperatorBroadcastState
from runtime.state.readers import load_keyed_state
from runtime.state.rocksdb.restore import states_of
from runtime.state.rocksdb.snapshot import ROCKSDB_FORMAT
from runtime.state.snapshot import KeyedSnapshot, OperatorStateSnapshot, Redistribution, StateMeta
from runtime.state.state_meta import is_json

COORDINATOR: Final = "coordinator"
_NO_TIMERS: Final = {"service": pl.String, "is_event_time": pl.Boolean, "timestamp": pl.Int64}


@dataclass(frozen=True, slots=True)
class StateSummary:
    """A state of an operator."""

    name: str
    kind: str
    """value | list | map | reducing | aggregating | columnar; timers; split | union | broadcast (operator state);
    coordinator."""
    serializer: str
    """Of the values; "" where there are none."""
    entries: int
    """Keys with their namespaces, timers, or items; key groups of columnar state."""
    size: int
    """Bytes of encoded keys, namespaces and values."""


@dataclass(frozen=True, slots=True)
class OperatorSummary:
    """An operator of a snapshot."""

    operator_id: str
    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    formats: tuple[str, ...]
    """How its keyed state is stored: canonical | hashmap | rocksdb."""
    size: int
    """Bytes of its files."""
    key_type: str = ""
    """Type of its keyed state's keys; "any" if the program has not declared it, "" if there is none."""
    window_type: str = ""
    """Type of the windows of its keyed state, if any."""


class SavepointReader:
    """Reader of a checkpoint or savepoint.

    Args:
        metadata: as returned by `SnapshotFiles.load`.
        files: the file system.
        allow_pickle: whether pickled values may be unpickled; their classes must then be importable.
        max_read_bytes: maximum number of bytes that all calls of `lookup` and `first_keys` may read; None: any.
    """

    def __init__(
        self,
        metadata: CheckpointMetadata,
        files: CheckpointFileSystem | None = None,
        allow_pickle: bool = False,
        max_read_bytes: int | None = None,
    ) -> None:
        self.metadata = metadata
        self._files = TaskStateReader(files or ArrowFileSystem())
        self._metered = MeteredReader(self._files, max_read_bytes)
        self._allow_pickle = allow_pickle

    @classmethod
    def read(
        cls, path: str | Path, files: CheckpointFileSystem | None = None, allow_pickle: bool = False
    ) -> SavepointReader:
        """Return a reader of the snapshot in a directory.

        Args:
            path: the directory or its `_metadata`; a path or a URI.
            files, allow_pickle: see the class.

        Raises:
            NotASnapshotError: it is not a checkpoint or savepoint.
            DamagedSnapshotError: its metadata is corrupt.
            NewerSnapshotError: it was written by a newer program.
            OSError: the storage cannot be reached.
        """
        files = files or ArrowFileSystem()
        return cls(SnapshotFiles(files).load(str(path)), files, allow_pickle)

    def operators(self) -> list[OperatorSummary]:
        """Return the operators, from sources to sinks; from the metadata alone."""
        return [self._summary(operator) for operator in self.metadata.operators]

    def states(self, operator: str) -> list[StateSummary]:
        """Return the states of an operator, keyed ones first. Reads all of its keyed state.

        Args:
            operator: uid, id or, if unique, name.

        Raises:
            NoSuchStateError: there is no such operator.
            DamagedSnapshotError: a file is corrupt.
        """
        found = self._operator(operator)
        keyed: dict[tuple[str, str], list[Any]] = {}
        for snapshot in self._keyed_snapshots(found):
            _count_keyed(snapshot, keyed)
        states = [StateSummary(name, kind, *counted) for (kind, name), counted in keyed.items()]
        items: dict[str, list[OperatorStateSnapshot]] = {}
        for subtask in found.subtasks:
            for name, state in subtask.operator_states.items():
                items.setdefault(name, []).append(state)
        for name, parts in items.items():
            count, size = sum(len(p.items) for p in parts), sum(len(item) for p in parts for item in p.items)
            states.append(StateSummary(name, parts[0].mode.value, parts[0].serializer, count, size))
        if found.coordinator is not None:
            inside = found.coordinator.items
            states.append(StateSummary(COORDINATOR, COORDINATOR, "", len(inside), sum(map(len, inside))))
        return states

    def keyed_state(self, operator: str, state_name: str) -> pl.DataFrame:
        """Return a keyed state of all subtasks.

        Args:
            operator: see `states`.
            state_name: as in its descriptor.

        Returns:
            Columns key, namespace (null if the state has none) and value, with a row for each key and namespace, in no
            order. Columnar state (of vectorised operators) has columns of its own.

        Raises:
            NoSuchStateError: there is no such operator or state.
            PickledStateError: its values are pickled, and unpickling is not allowed.
            DamagedSnapshotError: a file is corrupt.
        """
        found = self._operator(operator)
        meta: StateMeta | None = None
        keys: list[Any] = []
        namespaces: list[Any] = []
        values: list[Any] = []
        frames: list[pl.DataFrame] = []
        known: dict[str, StateMeta] = {}
        for subtask in found.subtasks:
            if subtask.keyed is not None and subtask.keyed.format == ROCKSDB_FORMAT:
                stored = states_of(subtask.keyed).get(state_name)
                for serializer in (stored and stored.map_serializers) or ():
                    self._check_pickle(found, state_name, serializer)
        for snapshot in self._keyed_snapshots(found):
            known.update(snapshot.metas)
            meta = snapshot.metas.get(state_name)
            if meta is None:
                continue
            if meta.kind == "columnar":
                frames += [frame for _, frame in saved_frames(state_name, snapshot)]
                continue
            self._check_pickle(found, state_name, meta.serializer)
            codec, _ = read_codec(meta)
            decode = codec.decode_timed if meta.has_ttl else codec.decode
            for group in snapshot.groups.values():
                for entry in group.states.get(state_name, ()):
                    keys.append(decode_key(entry.key))
                    namespaces.append(decode_namespace(entry.namespace))
                    value = decode(entry.value)
                    values.append(codec.drop_times(value) if meta.has_ttl else value)
        meta = known.get(state_name)
        if meta is None:
            raise NoSuchStateError(self._location, f"{found.name!r} has no keyed state {state_name!r}", sorted(known))
        if meta.kind == "columnar":
            return pl.concat(frames) if frames else pl.DataFrame()
        value_type = read_codec(meta)[1]
        return pl.DataFrame(
            [
                _key_column(keys, found.key_type),
                keys_column("namespace", namespaces),
                column_of("value", values, value_type),
            ]
        )

    def keyed_states(self, operator: str) -> list[StateMeta]:
        """Return the keyed states of an operator, from the metadata alone unless an earlier version has written it.

        Raises:
            NoSuchStateError, DamagedSnapshotError: as `states`.
        """
        with self._finder(operator) as finder:
            return list(finder.states().values())

    def lookup(self, operator: str, state_name: str, key: Any) -> KeyLookup:
        """Return what the snapshot has of one key: its value in each namespace, and its timers.

        Reads only what they are in, a key group or a few blocks of a database: those parts are verified, not the files.
        A pickled value is left out, unless unpickling is allowed.

        Args:
            operator: see `states`.
            state_name: as in its descriptor.
            key: of the type that the program has declared; coerced as its key selector does.

        Raises:
            NoSuchStateError: there is no such operator or state.
            KeyTypeError: the key is of another type.
            DamagedSnapshotError: a part is missing or is corrupt.
            StateError: a value cannot be decoded.
            LookupTooLargeError: more would have to be read than `max_read_bytes`.
        """
        with self._finder(operator) as finder:
            return finder.lookup(state_name, key)

    def first_keys(self, operator: str, state_name: str) -> Generator[Any, None, None]:
        """Yield keys that have a state, by key group and otherwise in no order; each is read when it is asked for.

        Raises:
            NoSuchStateError, DamagedSnapshotError, LookupTooLargeError: as `lookup`.
        """
        with self._finder(operator) as finder:
            yield from finder.first_keys(state_name)

    def timers(self, operator: str) -> pl.DataFrame:
        """Return the timers of an operator, of all subtasks.

        Args:
            operator: see `states`.

        Returns:
            Columns service, is_event_time, timestamp (ms), key, namespace.

        Raises:
            NoSuchStateError: there is no such operator.
            DamagedSnapshotError: a file is corrupt.
        """
        rows: list[tuple[str, bool, int]] = []
        keys: list[Any] = []
        namespaces: list[Any] = []
        found = self._operator(operator)
        for snapshot in self._keyed_snapshots(found):
            for group in snapshot.groups.values():
                for is_event_time, services in ((True, group.event_timers), (False, group.processing_timers)):
                    for service, timers in services.items():
                        rows += [(service, is_event_time, timer.timestamp) for timer in timers]
                        keys += [decode_key(timer.key) for timer in timers]
                        namespaces += [decode_namespace(timer.namespace) for timer in timers]
        frame = pl.DataFrame(rows, schema=_NO_TIMERS, orient="row")
        return frame.with_columns(_key_column(keys, found.key_type), keys_column("namespace", namespaces))

    def operator_state(self, operator: str, state_name: str) -> pl.DataFrame:
        """Return an operator state (not keyed) of all subtasks.

        Args:
            operator: see `states`.
            state_name: as in its descriptor; "coordinator" is the state of a source's coordinator.

        Returns:
            Columns subtask and value; for broadcast state subtask, key and value. Values of an unknown serializer are
            bytes.

        Raises:
            NoSuchStateError, PickledStateError: as `keyed_state`.
        """
        found = self._operator(operator)
        if state_name == COORDINATOR and found.coordinator is not None:
            items = list(found.coordinator.items)
            return pl.DataFrame(
                {"subtask": [0] * len(items), "value": items}, {"subtask": pl.Int32, "value": pl.Binary}
            )
        parts = [
            (index, subtask.operator_states[state_name])
            for index, subtask in enumerate(found.subtasks)
            if state_name in subtask.operator_states
        ]
        if not parts:
            known = {name for subtask in found.subtasks for name in subtask.operator_states}
            raise NoSuchStateError(
                self._location, f"{found.name!r} has no operator state {state_name!r}", sorted(known)
            )
        name = parts[0][1].serializer
        self._check_pickle(found, state_name, name)
        if parts[0][1].mode is Redistribution.BROADCAST and name.startswith("map<"):
            return _broadcast_frame(parts, name)
        subtasks = [index for index, state in parts for _ in state.items]
        values, value_type = _items(parts, name)
        return pl.DataFrame([pl.Series("subtask", subtasks, pl.Int32), column_of("value", values, value_type)])

    @property
    def read_bytes(self) -> int:
        """Return the bytes that `lookup` and `first_keys` have read so far."""
        return self._metered.read_bytes

    @contextlib.contextmanager
    def _finder(self, operator: str) -> Iterator[KeyFinder]:
        found = self._operator(operator)
        with tempfile.TemporaryDirectory(prefix="tidemark-lookup-") as directory:
            yield KeyFinder(found, self._location, self._metered, Path(directory), self._allow_pickle)

    @property
    def _location(self) -> str:
        return self.metadata.options.directory

    def _operator(self, operator: str) -> OperatorState:
        operators = self.metadata.operators
        for field in ("uid", "operator_id", "name"):
            found = [state for state in operators if getattr(state, field) == operator]
            if len(found) == 1:
                return found[0]
        known = [state.uid or state.name for state in operators]
        raise NoSuchStateError(self._location, f"there is no operator {operator!r}", known)

    def _keyed_snapshots(self, operator: OperatorState) -> Iterator[KeyedSnapshot]:
        """Yield the keyed state of each subtask in turn; its local copies are deleted before the next one."""
        for subtask in operator.subtasks:
            if subtask.keyed is not None:
                groups = KeyGroupRange(0, operator.max_parallelism - 1)
                with tempfile.TemporaryDirectory(prefix="tidemark-savepoint-") as directory:
                    yield load_keyed_state(
                        [subtask.keyed],
                        groups,
                        operator.max_parallelism,
                        self._files,
                        Path(directory),
                        may_decode=self._may_decode,
                    )

    def _may_decode(self, serializer: str) -> bool:
        return self._allow_pickle or not is_pickled(serializer)

    def _check_pickle(self, operator: OperatorState, state_name: str, serializer: str) -> None:
        if not self._may_decode(serializer):
            raise PickledStateError(self._location, f"state {state_name!r} of {operator.name!r}")

    @staticmethod
    def _summary(operator: OperatorState) -> OperatorSummary:
        keyed = [subtask.keyed for subtask in operator.subtasks if subtask.keyed is not None]
        return OperatorSummary(
            operator.operator_id,
            operator.uid,
            operator.name,
            operator.parallelism,
            operator.max_parallelism,
            tuple(sorted({handle.format for handle in keyed})),
            sum(_size(subtask) for subtask in operator.subtasks),
            operator.key_type if keyed else "",
            operator.window_type if keyed else "",
        )


def _key_column(keys: Sequence[Any], key_type: str) -> pl.Series:
    """Return keys as a column of their type if the program has declared one."""
    type_info = key_type_info(key_type)
    if type_info is not None:
        # state that an earlier version saved, and that was not requested since, may have other keys
        with contextlib.suppress(TypeError, ValueError, OverflowError, pa.ArrowException):
            return column_of("key", keys, type_info)
    return keys_column("key", keys)


def _size(subtask: OperatorSubtaskState) -> int:
    inline = sum(len(item) for state in subtask.operator_states.values() for item in state.items)
    return inline + (0 if subtask.keyed is None else subtask.keyed.size)


def _count_keyed(snapshot: KeyedSnapshot, counted: dict[tuple[str, str], list[Any]]) -> None:
    """Add the entries and bytes of a snapshot to [serializer, entries, bytes] by (kind, name)."""
    for meta in snapshot.metas.values():
        counted.setdefault((meta.kind, meta.name), [meta.serializer, 0, 0])
    for group in snapshot.groups.values():
        for name, entries in group.states.items():
            row = counted[snapshot.metas[name].kind, name]
            row[1] += len(entries)
            row[2] += sum(len(entry.key) + len(entry.namespace) + len(entry.value) for entry in entries)
        for services in (group.event_timers, group.processing_timers):
            for name, timers in services.items():
                row = counted.setdefault(("timers", name), ["", 0, 0])
                row[1] += len(timers)
                row[2] += sum(8 + len(timer.key) + len(timer.namespace) for timer in timers)


def _items(
    parts: Sequence[tuple[int, OperatorStateSnapshot]], serializer: str
) -> tuple[list[Any], TypeInformation | None]:
    """Return the items of a list state, decoded if possible, and their type."""
    items = [item for _, state in parts for item in state.items]
    if not serializer or is_json(serializer):
        return items, None
    decode = serializer_by_name(serializer).deserialize
    return [decode(item) for item in items], parse_type(serializer)


def _broadcast_frame(parts: Sequence[tuple[int, OperatorStateSnapshot]], serializer: str) -> pl.DataFrame:
    type_info = parse_type(serializer)
    assert isinstance(type_info, MapTypeInfo)
    subtasks: list[int] = []
    pairs: list[tuple[Any, Any]] = []
    for index, part in parts:
        state = OperatorBroadcastState(MapStateDescriptor("broadcast", type_info.key_type, type_info.value_type))
        state.decode(part.items)
        found: Mapping[Any, Any] = dict(state.items())
        subtasks += [index] * len(found)
        pairs += found.items()
    return pl.DataFrame(
        [
            pl.Series("subtask", subtasks, pl.Int32),
            column_of("key", [key for key, _ in pairs], type_info.key_type),
            column_of("value", [value for _, value in pairs], type_info.value_type),
        ]
    )
