"""RocksDBKeyedStateBackend: keyed state as rows of RocksDB, read through a write-back cache of decoded values.

As with hashmap, `set_current_key` finds an entry and every state works on it; here an entry is the cached part of a
key. Changes go to RocksDB in batches: when many have accumulated, when the cache is full, and before a snapshot. The
database is in a fresh directory and is deleted with the backend. Task's thread only. Source: Flink,
RocksDBKeyedStateBackend.

Expired state is dropped when it is read; because rocksdict has no compaction filters, each batch also checks a few rows
and deletes expired ones.
"""

from __future__ import annotations

import math
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import CheckpointId, KeyGroup
from runtime.core.keys import decode_key, encode_key, key_hash
from runtime.core.serializers import serializer_for
from runtime.state.backend import KeyedStateBackend, Timer, TimerService
from runtime.state.codecs import StateCodec, ValueCodec, codec_of
from runtime.state.descriptors import MapStateDescriptor, StateDescriptor
from runtime.state.errors import KeyGroupRangeError, StateError, StateMigrationError, StateTypeError
from runtime.state.fitting import fitting_class
from runtime.state.handles import FileHandle, PendingKeyedState
from runtime.state.hashmap.entries import NO_ENTRY, KeyTables
from runtime.state.key_groups import KeyGroupRange, check_max_parallelism, key_group_of
from runtime.state.map_keys import user_key
from runtime.state.rocksdb.cache import UNKNOWN, Batches, CachedEntry, Column, MapColumn, ValueColumn
from runtime.state.rocksdb.instance import RocksDBInstance
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.rocksdb.restore import take_over
from runtime.state.rocksdb.rows import (
    EVENT_COLUMN,
    KEY_GROUP,
    PROCESSING_COLUMN,
    TIMER_VALUE,
    Keep,
    StoredState,
    group_end,
    read_entries,
    read_group,
    timer_row,
)
from runtime.state.rocksdb.snapshot import PendingRocksDBState, RocksDBSnapshot
from runtime.state.rocksdb.states import NAMESPACED_STATES, NAMESPACED_TTL_STATES, PLAIN_STATES, PLAIN_TTL_STATES
from runtime.state.rocksdb.sweep import ExpiredRows
from runtime.state.rocksdb.timers import RocksDBTimerService
from runtime.state.snapshot import (
    CANONICAL_SNAPSHOT,
    KeyedSnapshot,
    KeyGroupSnapshot,
    SnapshotRequest,
)
from runtime.state.state_meta import StateMeta, keyed_state

MAX_CHANGED = 16_384
"""Maximum number of unwritten states of keys, each with all its namespaces. With fewer, a frequently used key is
written more often; with more, a snapshot holds processing up for longer (some 3 µs each)."""
_ENTRY_BYTES, _KEY_COPIES = 210, 3
"""Memory of a cache entry without its values: a number of bytes, plus a multiple of its row's."""
_ROWS_LOOKED_AT = 256
"""Number of entries from which the length of a row's key is estimated."""
_DROPPED: Final = 0.125
"""Share of the cache's entries that is evicted when it is full. With a larger share, fewer of the next keys are cached;
with a smaller one, batches of changes are smaller than necessary.
"""
_GOLDEN_RATIO: Final = (math.sqrt(5) - 1) / 2
"""The fractional parts of its multiples are spread evenly."""
_FIRST_LOOK = 4_096
"""Number of entries at which the cache's capacity is first computed."""
_RESTORE_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """A requested state."""

    meta: StateMeta
    column: Column
    state: Any
    expired: ExpiredRows | None
    codec: StateCodec
    drops_expired: bool
    """Whether canonical snapshots omit expired state."""


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Keyed state and timers of one operator subtask, in RocksDB."""

    def __init__(
        self,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        clock: Clock = SYSTEM_CLOCK,
        settings: RocksDBSettings | None = None,
        working_directory: Path | None = None,
        operator_name: str = "state",
    ) -> None:
        """Make an empty backend.

        Args:
            key_group_range: the key groups of this subtask.
            max_parallelism: number of key groups of the operator.
            clock: by which state with time to live ages.
            settings: of the database; None = Flink's defaults.
            working_directory: parent of the database's directory; None = the current directory.
            operator_name: part of that directory's name.

        Raises:
            KeyGroupRangeError: the range lies outside of [0, max_parallelism).
            OSError: the working directory cannot be written.
        """
        check_max_parallelism(max_parallelism)
        if key_group_range.end >= max_parallelism:
            raise KeyGroupRangeError(f"key groups {key_group_range} do not fit max parallelism {max_parallelism}")
        self.key_group_range = key_group_range
        self._first_key_group, self._last_key_group = key_group_range.start, key_group_range.end
        #: by key group: the prefix of its rows
        self._prefixes = {number: KEY_GROUP.pack(number) for number in self._group_numbers()}
        self.max_parallelism = max_parallelism
        self.clock = clock
        #: entry of the current key; read by every state on every access, set here only
        self.current_entry: Any = NO_ENTRY
        #: by state number
        self.columns: list[Any] = []
        #: initial values of an entry
        self._unknown: tuple[Any, ...] = ()
        self._settings = settings or RocksDBSettings()
        name = "".join(c if c.isalnum() else "-" for c in operator_name)[:40]
        # never used before: two processes, or two attempts, must not share a database
        number = uuid.uuid4()
        local = self._settings.local_directories
        parent = Path(local[number.int % len(local)]) if local else working_directory or Path()
        self._directory = parent / f"rocksdb-{name}-{number.hex}"
        self._directory.mkdir(parents=True)
        self._opened: RocksDBInstance | None = None
        self._tables: Any = KeyTables(self._make_entry)  # type: ignore[arg-type]
        self._num_entries = 0
        self._look_at = _FIRST_LOOK
        #: where entries were last evicted; see `KeyTables.drop_run`
        self._drop_at = 0.0
        #: by state number: the entries whose state has to be written
        self._changed: list[list[CachedEntry]] = []
        self._num_changed = 0
        self._max_changed = MAX_CHANGED
        self._registered: dict[str, RegisteredState] = {}
        #: every state of the database, requested or not
        self._stored: dict[str, StoredState] = {}
        self._timers: dict[str, RocksDBTimerService] = {}
        #: snapshots whose checkpoint of the database is not made yet
        self._awaiting: list[PendingRocksDBState] = []
        #: snapshots whose checkpoint is neither complete nor aborted
        self._undecided: dict[CheckpointId, PendingRocksDBState] = {}
        #: files that the next incremental snapshot refers to, by their names in the database
        self._shared_files: dict[str, FileHandle] = {}

    @property
    def current_key(self) -> Any:
        return self.current_entry.key

    def set_current_key(self, key: Any) -> None:
        self.current_entry = self._tables[key.__class__][key]

    def clear_current_key(self) -> None:
        self.current_entry = NO_ENTRY

    def get_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        return self._state_of(descriptor, False, fitted)

    def get_namespaced_state(self, descriptor: StateDescriptor, *, fitted: bool = False) -> Any:
        return self._state_of(descriptor, True, fitted)

    def get_timer_service(
        self,
        name: str,
        on_event_time: Callable[[Timer], None],
        on_processing_time: Callable[[Timer], None],
    ) -> TimerService:
        if name in self._timers:
            raise StateError(f"timer service {name!r} was asked for already")
        service = RocksDBTimerService(name, self, self._db, self._group_numbers(), on_event_time, on_processing_time)
        self._timers[name] = service
        return service

    def keys(self, state_name: str) -> Iterator[Any]:
        stored = self._stored.get(state_name)
        if stored is None:
            return
        self.flush()
        db, last = self._db, None
        for key_group in self._group_numbers():
            for entry in read_entries(db, stored, key_group):
                if entry.key != last:
                    last = entry.key
                    yield decode_key(entry.key)

    def mark_changed(self, entry: CachedEntry, index: int) -> None:
        """Mark the state of that number, which is not marked yet, as to be written."""
        # before it is marked: the caller may change the value only after this
        if self._num_changed >= self._max_changed:
            self._write_if_convenient()
        self._num_changed += 1
        self._changed[index].append(entry)
        entry.changed |= 1 << index

    def flush(self) -> None:
        """Write all changes to the database, after taking a pending snapshot.

        Raises:
            StateError: a value cannot be written, or the disk refuses; the changes stay in the cache.
        """
        self._take_awaiting()
        changed_in = list(zip(self.columns, self._changed, strict=True))
        try:
            batches = Batches(self._db, self._settings.write_batch_size)
            for column, entries in changed_in:
                column.save(entries, batches)
            for service in self._timers.values():
                service.event.save(batches.fitting())
                service.processing.save(batches.fitting())
            for batch in batches.all:
                if len(batch):
                    self._db.write(batch)
        except BaseException:
            for column, entries in changed_in:
                for entry in entries:
                    entry.changed |= column.bit
            raise
        for column, entries in changed_in:
            if entries:
                column.saved(entries)
        self._changed = [[] for _ in self.columns]
        self._num_changed = 0
        self._max_changed = MAX_CHANGED
        for service in self._timers.values():
            service.event.saved()
            service.processing.saved()
        for registered in self._registered.values():
            if registered.expired is not None:
                registered.expired.delete_some(self.clock.now_ms())

    def snapshot(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> KeyedSnapshot | PendingKeyedState:
        self.flush()
        if request == CANONICAL_SNAPSHOT:
            return self._canonical()
        self._db.start_flush()
        pending = PendingRocksDBState(
            request,
            self._db,
            self._directory / f"checkpoint-{request.checkpoint_id}-{uuid.uuid4().hex}",
            list(self._stored.values()),
            self._settings,
            self.key_group_range,
            self.max_parallelism,
            self._shared_files,
            self._kept(),
        )
        pending.has_timers = self._has_timers()
        self._awaiting.append(pending)
        self._undecided[request.checkpoint_id] = pending
        return pending

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        pending = self._undecided.get(checkpoint_id)
        if pending is None:
            return
        self._undecided = {other: p for other, p in self._undecided.items() if other > checkpoint_id}
        if pending.shared_files is not None:
            self._shared_files = dict(pending.shared_files)
        elif pending.kind is SnapshotKind.FULL:
            # files of earlier checkpoints may be deleted now
            self._shared_files = {}

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        pending = self._undecided.pop(checkpoint_id, None)
        if pending is not None:
            pending.discard()

    def restore(self, snapshot: KeyedSnapshot) -> None:
        """Load this backend's key groups from `snapshot`. Call before any state is requested.

        A RocksDBSnapshot's databases are taken over: it cannot be restored twice.

        Raises:
            KeyGroupRangeError: the snapshot was taken with another number of key groups.
            StateError: a state was requested already.
            DamagedSnapshotError: a database cannot be read.
        """
        if self._registered or self._timers:
            raise StateError("state can only be restored before any state or timer service is asked for")
        if snapshot.max_parallelism != self.max_parallelism:
            raise KeyGroupRangeError(
                f"the snapshot has max parallelism {snapshot.max_parallelism}, the operator {self.max_parallelism}: "
                "the number of key groups cannot change once there is state"
            )
        if isinstance(snapshot, RocksDBSnapshot) and snapshot.are_alike and self._opened is None and snapshot.sources:
            self._opened, source = take_over(
                snapshot.sources, self.key_group_range, self._settings, self._directory / "db"
            )
            self._shared_files = dict(source.shared_files)
            for taken in snapshot.sources:
                self._stored.update(taken.states)
            return
        for meta in snapshot.metas.values():
            self._stored.setdefault(meta.name, StoredState(meta))
        for key_group, group in snapshot.groups.items():
            if key_group in self.key_group_range:
                self._restore_group(key_group, group)

    def dispose(self) -> None:
        for pending in self._undecided.values():
            pending.discard()
        self._undecided = {}
        self._awaiting = []
        self.current_entry = NO_ENTRY
        self._tables = KeyTables(self._make_entry)  # type: ignore[arg-type]
        self._num_entries = 0
        self._changed = []
        self._num_changed = 0
        self._registered.clear()
        self._timers.clear()
        self._stored.clear()
        self.columns = []
        self._unknown = ()
        if self._opened is not None:
            self._opened.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def num_entries(self) -> int:
        """Return the number of keys that are cached."""
        return self._num_entries

    @property
    def _db(self) -> RocksDBInstance:
        if self._opened is None:
            self._opened = RocksDBInstance(self._directory / "db", self._settings, is_new=True)
        return self._opened

    def _group_numbers(self) -> range:
        return range(self.key_group_range.start, self.key_group_range.end + 1)

    def _canonical(self) -> KeyedSnapshot:
        groups: dict[KeyGroup, KeyGroupSnapshot] = {}
        keep = self._kept()
        for number in self._group_numbers():
            group = read_group(self._db, self._stored.values(), KeyGroup(number), keep)
            if group.states or group.event_timers or group.processing_timers:
                groups[KeyGroup(number)] = group
        return KeyedSnapshot(self.max_parallelism, {s.meta.name: s.meta for s in self._stored.values()}, groups)

    def _has_timers(self) -> bool:
        queues = (queue for service in self._timers.values() for queue in (service.event, service.processing))
        if any(queue.next_timestamp() is not None for queue in queues):
            return True
        # of services that have not been requested
        known = {prefix + name for name in self._timers for prefix in (EVENT_COLUMN, PROCESSING_COLUMN)}
        columns = [name for name in self._db.columns if name.startswith((EVENT_COLUMN, PROCESSING_COLUMN))]
        end = group_end(self.key_group_range.end)
        return any(next(iter(self._db.scan(name, b"", end)), None) is not None for name in columns if name not in known)

    def _kept(self) -> dict[str, Keep]:
        """Return, by state, functions that drop expired values of states with time to live from a canonical snapshot
        taken now."""
        now_ms = self.clock.now_ms()
        return {
            name: _unexpired(registered.codec, registered.state, now_ms)
            for name, registered in self._registered.items()
            if registered.drops_expired
        }

    def _take_awaiting(self) -> None:
        """Take a pending snapshot before the database is changed."""
        for pending in self._awaiting:
            pending.take()
        self._awaiting.clear()

    def _write_if_convenient(self) -> None:
        """Write the changes, unless a snapshot is pending and there is room for more changes."""
        self._awaiting = [pending for pending in self._awaiting if not pending.is_taken]
        if self._awaiting and self._max_changed < 4 * MAX_CHANGED:
            self._max_changed += MAX_CHANGED // 4
        else:
            self.flush()

    def _make_entry(self, key: Any, encoded_key: bytes) -> CachedEntry:
        # key_group_of and `in`, inlined: there are millions of keys
        key_group = key_hash(encoded_key) % self.max_parallelism
        if not self._first_key_group <= key_group <= self._last_key_group:
            raise KeyGroupRangeError(
                f"key {key!r} belongs to key group {key_group}, this subtask owns {self.key_group_range}: "
                "a key selector must always give the same key for a record"
            )
        if self._num_entries >= self._look_at:
            self._make_room()
        self._num_entries += 1
        entry = CachedEntry(self._unknown)
        entry.key = key
        entry.row = self._prefixes[key_group] + encoded_key
        entry.changed = 0
        return entry

    def _make_room(self) -> None:
        """Evict some entries if the cache exceeds its capacity."""
        num_values = sum(column.num_values for column in self.columns)
        average = sum(column.num_bytes for column in self.columns) / max(num_values, 1)
        rows = [len(entry.row) for entry in islice(self._tables.entries(), _ROWS_LOOKED_AT)]
        entry_bytes = _ENTRY_BYTES + _KEY_COPIES * sum(rows) / max(len(rows), 1)
        # decoded values take some three times as many bytes as in a row
        limit = int(self._settings.cache_memory / (entry_bytes + 3 * average * max(len(self.columns), 1)))
        limit = max(limit, _FIRST_LOOK)
        if self._num_entries >= limit:
            self.flush()
            # another part each time: if the oldest were evicted, keys that come in turn would never be cached
            self._drop_at = (self._drop_at + _GOLDEN_RATIO) % 1.0
            current = self.current_entry
            self._num_entries = self._tables.drop_run(_DROPPED, self._drop_at, lambda entry: entry is current)
            for column in self.columns:
                column.forgot()
        self._look_at = min(2 * self._num_entries, limit)

    def _state_of(self, descriptor: StateDescriptor, namespaced: bool, fitted: bool) -> Any:
        codec = codec_of(descriptor)
        meta = keyed_state(descriptor, namespaced=namespaced)
        registered = self._registered.get(descriptor.name)
        if registered is None:
            registered = self._register(descriptor, meta, codec, fitted)
        elif registered.meta != meta:
            raise StateTypeError(meta.name, registered.meta.describe(), meta.describe())
        return registered.state

    def _register(
        self, descriptor: StateDescriptor, meta: StateMeta, codec: StateCodec, fitted: bool
    ) -> RegisteredState:
        written = self._stored.get(meta.name)
        if written is not None and not written.meta.is_readable_as(meta):
            raise StateMigrationError(meta.name, written.meta.describe(), meta.describe())
        index = len(self.columns)
        stored, column_codec = StoredState(meta), codec
        if isinstance(descriptor, MapStateDescriptor):
            keys, values = serializer_for(descriptor.key_type_info), serializer_for(descriptor.value_type_info)
            stored, column_codec = StoredState(meta, (keys.name, values.name)), ValueCodec("map", values)
        if written is not None and written != stored:
            self._convert(written, stored, codec, column_codec)
        self._stored[meta.name] = stored
        column: Column
        if isinstance(column_codec, ValueCodec) and stored.map_serializers is not None:
            column = MapColumn(index, stored, self._db, column_codec)
        else:
            column = ValueColumn(index, stored, self._db, codec)
        config = descriptor.ttl_config
        expired = None
        if config is None:
            states = NAMESPACED_STATES if meta.namespaced else PLAIN_STATES
        else:
            states = NAMESPACED_TTL_STATES if meta.namespaced else PLAIN_TTL_STATES
            if config.get_cleanup_strategies().get_rocksdb_compact_filter_cleanup_strategy() is not None:
                expired = ExpiredRows(self._db, stored, config.ttl_ms, codec)
        drops_expired = config is not None and config.get_cleanup_strategies().in_full_snapshot()
        state_class = states[meta.kind]
        if not fitted:
            state_class = fitting_class(state_class, descriptor)
        state = state_class(self, index, descriptor)
        registered = RegisteredState(meta, column, state, expired, codec, drops_expired)
        self._registered[meta.name] = registered
        self.columns.append(column)
        self._changed.append([])
        self._unknown = (UNKNOWN,) * len(self.columns)
        for entry in self._tables.entries():
            entry.append(UNKNOWN)
        return registered

    def _convert(self, written: StoredState, wanted: StoredState, codec: StateCodec, column_codec: StateCodec) -> None:
        """Rewrite the rows of a state: one for each map entry, or with or without times."""
        self._take_awaiting()
        decode = codec.decode_timed if written.meta.has_ttl else codec.decode
        encode = column_codec.encode_timed if wanted.meta.has_ttl else column_codec.encode
        entries = [entry for number in self._group_numbers() for entry in read_entries(self._db, written, number)]
        self._db.drop_column(written.column)
        handle, now_ms = self._db.handle(wanted.column), self.clock.now_ms()
        batch = self._db.batch()
        for count, entry in enumerate(entries, 1):
            value = decode(entry.value)
            if wanted.meta.has_ttl and not written.meta.has_ttl:
                value = codec.add_times(value, now_ms)
            elif written.meta.has_ttl and not wanted.meta.has_ttl:
                value = codec.drop_times(value)
            row = KEY_GROUP.pack(key_group_of(entry.key, self.max_parallelism)) + entry.key + entry.namespace
            if wanted.map_serializers is None:
                batch.put(row, encode(value), handle)
            else:
                for key, item in value.items():
                    batch.put(row + encode_key(user_key(key)), encode(item), handle)
            if count % _RESTORE_BATCH_ROWS == 0:
                self._db.write(batch)
                batch = self._db.batch()
        self._db.write(batch)

    def _restore_group(self, key_group: KeyGroup, group: KeyGroupSnapshot) -> None:
        prefix, db = KEY_GROUP.pack(key_group), self._db
        batch = db.batch()
        for name, entries in group.states.items():
            handle = db.handle(self._stored[name].column)
            for entry in entries:
                batch.put(prefix + entry.key + entry.namespace, entry.value, handle)
        for column, services in ((EVENT_COLUMN, group.event_timers), (PROCESSING_COLUMN, group.processing_timers)):
            for name, timers in services.items():
                handle = db.handle(column + name)
                for sequence, timer in enumerate(timers):
                    row = timer_row(key_group, timer.timestamp, timer.key, timer.namespace)
                    batch.put(row, TIMER_VALUE.pack(len(timer.key), sequence), handle)
        db.write(batch)


def _unexpired(codec: StateCodec, state: Any, now_ms: int) -> Keep:
    def keep(data: bytes) -> bytes | None:
        value = codec.decode_timed(data)
        left = state.unexpired(value, now_ms)
        if left is value:
            return data
        return None if left is None else codec.encode_timed(left)

    return keep
