"""HashMapKeyedStateBackend: keyed state as Python objects in dicts.

`set_current_key` finds the key's entry once; every state and timer then works on that entry. Values are not copied: a
user function reads the stored object. Serializers are used for snapshots only. Task thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import CheckpointId
from runtime.core.keys import decode_key, key_hash
from runtime.state.backend import KeyedStateBackend, Timer, TimerService
from runtime.state.codecs import StateCodec, codec_of
from runtime.state.descriptors import StateDescriptor
from runtime.state.errors import KeyGroupRangeError, StateError, StateMigrationError, StateTypeError
from runtime.state.fitting import fitting_class
from runtime.state.handles import PendingKeyedState
from runtime.state.hashmap.changes import ChangeLog, SavedService
from runtime.state.hashmap.columns import KeyColumn, SavedState
from runtime.state.hashmap.entries import DROPPED, NO_ENTRY, Entry, KeyTables
from runtime.state.hashmap.snapshot import KeepUnexpired, RestoredState, SnapshotWriter
from runtime.state.hashmap.states import NAMESPACED_STATES, PLAIN_STATES, SlotState
from runtime.state.hashmap.ttl_states import NAMESPACED_TTL_STATES, PLAIN_TTL_STATES
from runtime.state.key_groups import KeyGroupRange, check_max_parallelism
from runtime.state.namespaces import decode_namespace
from runtime.state.snapshot import CANONICAL_SNAPSHOT, KeyedSnapshot, SnapshotRequest
from runtime.state.state_meta import StateMeta, keyed_state
from runtime.state.timers import KeyedTimerService

_FIRST_SWEEP = 4096
"""Number of keys at which dead entries are first removed, and again whenever the number has doubled. With a smaller
one, small jobs sweep all the time; with a larger one, jobs with few live keys waste memory.
"""


@dataclass(frozen=True, slots=True)
class RegisteredState:
    """A requested state."""

    meta: StateMeta
    codec: StateCodec
    state: SlotState
    keep: KeepUnexpired | None
    """Returns the part of a value that a snapshot keeps; None = all of it."""

    def saved(self, now_ms: int) -> SavedState:
        """Return the state as a snapshot taken at that time writes it."""
        keep = self.keep
        encode = self.codec.encode_timed if self.meta.has_ttl else self.codec.encode
        kept = None if keep is None else lambda value: keep(value, now_ms)
        return SavedState(self.meta, encode, kept, self.codec.value_type, self.state.slots)


class HashMapKeyedStateBackend(KeyedStateBackend):
    """Keyed state and timers of one operator subtask, on the heap."""

    def __init__(self, key_group_range: KeyGroupRange, max_parallelism: int, clock: Clock = SYSTEM_CLOCK) -> None:
        """Make an empty backend.

        Args:
            key_group_range: the key groups of this subtask.
            max_parallelism: number of key groups of the operator.
            clock: by which state with time to live ages.

        Raises:
            KeyGroupRangeError: the range lies outside of [0, max_parallelism).
        """
        check_max_parallelism(max_parallelism)
        if key_group_range.end >= max_parallelism:
            raise KeyGroupRangeError(f"key groups {key_group_range} do not fit max parallelism {max_parallelism}")
        self.key_group_range = key_group_range
        self._first_key_group, self._last_key_group = key_group_range.start, key_group_range.end
        self.max_parallelism = max_parallelism
        self._no_key_group = -max_parallelism
        self.clock = clock
        #: entry of the current key; read by every state on every access, set here and by the timer services
        self.current_entry: Any = NO_ENTRY
        #: entries of earlier epochs than this must be touched; set by the log
        self._watched = 0
        self._log = ChangeLog(clock, self._watch)
        self._tables = self._new_tables()
        #: all entries; grows at its end, and is replaced when entries are removed
        self._entries: list[Entry] = []
        #: their keys, encoded
        self._keys = KeyColumn(self._entries, max_parallelism)
        #: values of each state, by position of the entry; None = nothing; namespaced states hold dicts by namespace
        self._columns: list[list[Any]] = []
        self._sweep_at = _FIRST_SWEEP
        self._states: dict[str, RegisteredState] = {}
        self._timers: dict[str, KeyedTimerService] = {}
        self._restored = RestoredState(key_group_range)

    @property
    def current_key(self) -> Any:
        return self.current_entry.key

    def set_current_key(self, key: Any) -> None:
        entry = self._tables[key.__class__][key]
        if entry.touched < self._watched:
            self._log.touch(entry)
        self.current_entry = entry

    def enter(self, entry: Entry) -> None:
        """Make the key of `entry` the current one."""
        if entry.touched < self._watched:
            self._log.touch(entry)
        self.current_entry = entry

    def touch(self, entry: Entry) -> None:
        """Prepare for a change of an entry other than the current one."""
        if entry.touched < self._watched:
            self._log.touch(entry)

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
        self._timers[name] = service = KeyedTimerService(self, on_event_time, on_processing_time)
        if self._log.is_tracking:
            service.event.changed = {}
            service.processing.changed = {}
        event, processing = self._restored.take_timers(name)
        for queue, timers in ((service.event, event), (service.processing, processing)):
            for timer in timers:
                entry = self._entry_of(timer.key)
                queue.add((timer.timestamp, entry, decode_namespace(timer.namespace)))
        return service

    def keys(self, state_name: str) -> Iterator[Any]:
        registered = self._states.get(state_name)
        if registered is None:
            yield from {encoded: decode_key(encoded) for encoded in self._restored.keys_of(state_name)}.values()
            return
        # all at once: keys may be added and removed while the caller iterates
        held = zip(self._entries, registered.state.slots, strict=True)
        yield from [entry.key for entry, slot in held if slot is not None]

    def snapshot(self, request: SnapshotRequest = CANONICAL_SNAPSHOT) -> KeyedSnapshot | PendingKeyedState:
        if request == CANONICAL_SNAPSHOT:
            return self._canonical()
        now_ms = self.clock.now_ms()
        pending = self._log.snapshot(
            request,
            self.key_group_range,
            self.max_parallelism,
            self._entries,
            self._keys,
            [registered.saved(now_ms) for registered in self._states.values()],
            [SavedService(name, service.event, service.processing) for name, service in self._timers.items()],
            self._restored.frozen(),
        )
        queues = (queue for service in self._timers.values() for queue in (service.event, service.processing))
        pending.has_timers = self._restored.has_timers or any(queue.next_timestamp() is not None for queue in queues)
        if self.current_entry is not NO_ENTRY:
            # state objects write to the entry without another set_current_key
            self._log.touch(self.current_entry)
        return pending

    def _watch(self, epoch: int) -> None:
        self._watched = epoch

    def _canonical(self) -> KeyedSnapshot:
        if not self._log.is_taking:
            self._sweep()
        writer = SnapshotWriter(self.max_parallelism, self.clock.now_ms())
        entries = self.entries()
        for registered in self._states.values():
            writer.add_state(registered.state.slots, registered.meta, registered.codec, entries, registered.keep)
        for name, service in self._timers.items():
            writer.add_timers(name, service.event, service.processing)
        self._restored.copy_to(writer)
        return writer.finish()

    def notify_checkpoint_complete(self, checkpoint_id: CheckpointId) -> None:
        self._log.complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: CheckpointId) -> None:
        self._log.abort(checkpoint_id)

    def restore(self, snapshot: KeyedSnapshot) -> None:
        """Load this backend's key groups from `snapshot`. Call before any state is requested.

        State that no descriptor requests later goes into the next snapshot unchanged.

        Raises:
            KeyGroupRangeError: the snapshot was taken with another number of key groups.
            StateError: a state was requested already.
        """
        if self._states or self._timers:
            raise StateError("state can only be restored before any state or timer service is asked for")
        if snapshot.max_parallelism != self.max_parallelism:
            raise KeyGroupRangeError(
                f"the snapshot has max parallelism {snapshot.max_parallelism}, the operator {self.max_parallelism}: "
                "the number of key groups cannot change once there is state"
            )
        self._restored.add(snapshot)

    def dispose(self) -> None:
        self.current_entry = NO_ENTRY
        self._watched = 0
        self._log = ChangeLog(self.clock, self._watch)
        self._tables = self._new_tables()
        self._entries = []
        self._keys = KeyColumn(self._entries, self.max_parallelism)
        self._columns = []
        self._states.clear()
        self._timers.clear()
        self._restored = RestoredState(self.key_group_range)

    def entries(self) -> list[Entry]:
        """Return all entries: the backend's own list, which may grow at its end."""
        return self._entries

    @property
    def num_entries(self) -> int:
        """Return the number of keys in memory, including keys without state."""
        return len(self._entries)

    def _state_of(self, descriptor: StateDescriptor, namespaced: bool, fitted: bool) -> Any:
        codec = codec_of(descriptor)
        meta = keyed_state(descriptor, namespaced=namespaced)
        registered = self._states.get(descriptor.name)
        if registered is None:
            registered = self._register(descriptor, meta, codec, fitted)
        elif registered.meta != meta:
            raise StateTypeError(meta.name, registered.meta.describe(), meta.describe())
        return registered.state

    def _register(
        self, descriptor: StateDescriptor, meta: StateMeta, codec: StateCodec, fitted: bool
    ) -> RegisteredState:
        written = self._restored.meta_of(meta.name)
        if written is not None and not written.is_readable_as(meta):
            raise StateMigrationError(meta.name, written.describe(), meta.describe())
        registered = self._make_state(descriptor, meta, codec, fitted)
        self._states[meta.name] = registered
        slots = registered.state.slots
        for restored, value in self._restored.take_state(meta, codec, self.clock.now_ms()):
            entry = self._entry_of(restored.key)
            self.touch(entry)
            if not meta.namespaced:
                slots[entry.index] = value
            elif slots[entry.index] is None:
                slots[entry.index] = {decode_namespace(restored.namespace): value}
            else:
                slots[entry.index][decode_namespace(restored.namespace)] = value
        return registered

    def _make_state(
        self, descriptor: StateDescriptor, meta: StateMeta, codec: StateCodec, fitted: bool
    ) -> RegisteredState:
        index = len(self._states)
        config = descriptor.ttl_config
        states: Mapping[str, type[Any]]
        if config is None:
            states = NAMESPACED_STATES if meta.namespaced else PLAIN_STATES
        else:
            states = NAMESPACED_TTL_STATES if meta.namespaced else PLAIN_TTL_STATES
        state_class = states[meta.kind]
        if not fitted:
            state_class = fitting_class(state_class, descriptor)
        state: Any = state_class(self, index, descriptor)
        keep = None
        if config is not None and config.get_cleanup_strategies().in_full_snapshot():
            keep = state.unexpired
        state.slots = [None] * len(self._entries)
        self._columns.append(state.slots)
        return RegisteredState(meta, codec, state, keep)

    def _entry_of(self, encoded_key: bytes) -> Entry:
        key = decode_key(encoded_key)
        return self._tables[key.__class__][key]

    def _new_tables(self) -> KeyTables:
        # if every key belongs here, key groups do not matter before a snapshot is taken
        has_all = len(self.key_group_range) == self.max_parallelism
        return KeyTables(self._make_entry, self._make_unencoded_entry if has_all else None)

    def _make_unencoded_entry(self, key: Any) -> Entry:
        entries = self._entries
        if len(entries) >= self._sweep_at and not self._log.is_taking:
            self._sweep()
            entries = self._entries
        log = self._log
        entry = Entry(key, None, self._no_key_group, len(entries), log.epoch)
        entries.append(entry)
        for slots in self._columns:
            slots.append(None)
        if log.is_tracking:
            log.add(entry)
        return entry

    def _make_entry(self, key: Any, encoded_key: bytes) -> Entry:
        # key_group_of and `in`, inlined: there are millions of keys
        key_group = key_hash(encoded_key) % self.max_parallelism
        if not self._first_key_group <= key_group <= self._last_key_group:
            raise KeyGroupRangeError(
                f"key {key!r} belongs to key group {key_group}, this subtask owns {self.key_group_range}: "
                "a key selector must always give the same key for a record"
            )
        if len(self._entries) >= self._sweep_at and not self._log.is_taking:
            self._sweep()
        entry = Entry(key, encoded_key, key_group, len(self._entries), self._log.epoch)
        self._entries.append(entry)
        for slots in self._columns:
            slots.append(None)
        if self._log.is_tracking:
            self._log.add(entry)
        return entry

    def _sweep(self) -> None:
        """Remove keys that have neither state nor timers, so that memory does not grow with every key ever seen."""
        kept = {id(entry) for service in self._timers.values() for entry in service.live_keys()}
        # state objects write to the current entry directly: it must stay the one in the tables
        kept.add(id(self.current_entry))

        columns = self._columns

        def is_dead(entry: Entry) -> bool:
            # most entries leave this loop at once; a generator would take ten times as long, and there are many entries
            index = entry.index
            for slots in columns:
                if slots[index] is not None:
                    return False
            return id(entry) not in kept

        if self._tables.drop(is_dead) < len(self._entries):
            dropped_from, self._entries = self._entries, list(self._tables.entries())
            for slots in columns:
                slots[:] = [slots[entry.index] for entry in self._entries]
            for entry in dropped_from:
                # the log may still hold it
                entry.index = DROPPED
            for index, entry in enumerate(self._entries):
                entry.index = index
            self._keys = KeyColumn(self._entries, self.max_parallelism)
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._entries))
