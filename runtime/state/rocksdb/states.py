"""State objects of the rocksdb backend: the logic of the hashmap backend, on slots of the write-back cache.

A slot that has not been accessed yet is loaded from its row; one that is written, or about to be changed in place, is
marked so that the next batch includes it. Maps have logic of their own: they load single entries without the others.
`ValueState.value` returns the cached object: changes to it without `update` may be lost. Task's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from runtime.core.clock import Clock
from runtime.state.descriptors import StateDescriptor
from runtime.state.hashmap.states import (
    AggregatingLogic,
    ListLogic,
    MergingSlot,
    NamespacedSlot,
    PlainSlot,
    ReducingLogic,
    SlotState,
    ValueLogic,
)
from runtime.state.hashmap.ttl_states import (
    TtlAggregatingLogic,
    TtlListLogic,
    TtlReducingLogic,
    TtlSingleLogic,
    TtlValueLogic,
)
from runtime.state.map_keys import user_key
from runtime.state.namespaces import encode_namespace
from runtime.state.rocksdb.cache import (
    ABSENT,
    MAX_KNOWN,
    UNKNOWN,
    CachedEntry,
    MapColumn,
    MapSlot,
    NamespaceSlot,
    map_key,
)
from runtime.state.state import MapState
from runtime.state.ttl import TtlStateVisibility, TtlUpdateType


class CacheHolder(Protocol):
    """The part of the backend that states need."""

    current_entry: Any
    columns: list[Any]
    clock: Clock

    def mark_changed(self, entry: CachedEntry, index: int) -> None:
        """Mark the state of that number, which is not marked yet, as to be written."""

    def flush(self) -> None:
        """Write all changes to the database."""


class CachedSlot(PlainSlot):
    """The slot of a state without namespaces."""

    __slots__ = ()

    _backend: Any

    def _read(self) -> Any:
        entry = self._backend.current_entry
        value = entry[self._index]
        if value is UNKNOWN:
            value = entry[self._index] = self._backend.columns[self._index].load(entry.row)
        return value

    def _write(self, value: Any) -> None:
        entry, index = self._backend.current_entry, self._index
        if not entry.changed >> index & 1:
            self._backend.mark_changed(entry, index)
        entry[index] = value

    def _read_to_change(self) -> Any:
        value = self._read()
        entry, index = self._backend.current_entry, self._index
        if value is not None and not entry.changed >> index & 1:
            self._backend.mark_changed(entry, index)
        return value


class CachedNamespaceSlot(NamespacedSlot):
    """The slot of a namespaced state."""

    __slots__ = ()

    _backend: Any

    def _slot(self, entry: CachedEntry) -> NamespaceSlot:
        slot = entry[self._index]
        if slot is UNKNOWN:
            slot = entry[self._index] = NamespaceSlot()
        return slot  # type: ignore[no-any-return]

    def _read(self) -> Any:
        entry, namespace = self._backend.current_entry, self._namespace
        slot = entry[self._index]
        if slot is UNKNOWN:
            slot = entry[self._index] = NamespaceSlot()
        value = slot.get(namespace, UNKNOWN)
        if value is UNKNOWN:
            value = self._backend.columns[self._index].load(entry.row + encode_namespace(namespace))
            # absence is not cached: the number of namespaces is unlimited
            if value is not None:
                slot[namespace] = value
        return value

    def _write(self, value: Any) -> None:
        entry, index, namespace = self._backend.current_entry, self._index, self._namespace
        slot = self._slot(entry)
        if not entry.changed >> index & 1:
            self._backend.mark_changed(entry, index)
        slot[namespace] = value
        slot.changed.add(namespace)

    def _read_to_change(self) -> Any:
        value = self._read()
        if value is not None:
            self._write(value)
        return value


class CachedMergingSlot(CachedNamespaceSlot, MergingSlot):
    """The slot of a namespaced state whose namespaces can be merged."""

    __slots__ = ()


class MapLogic(SlotState, MapState[Any, Any]):
    """Map state, entry by entry."""

    __slots__ = ()

    _backend: Any

    @property
    def _column(self) -> MapColumn:
        return self._backend.columns[self._index]  # type: ignore[no-any-return]

    def _read(self) -> Any:
        """Return the MapSlot of the current key and namespace."""
        raise NotImplementedError

    def _write(self, value: Any) -> None:
        raise NotImplementedError

    def _row(self) -> bytes:
        raise NotImplementedError

    def _mark(self) -> None:
        """Note that the map of the current key and namespace is about to change."""
        raise NotImplementedError

    def _set(self, known_by: Any, value: Any) -> None:
        self._mark()
        slot = self._read()
        slot.known[known_by] = value
        slot.changed.add(known_by)
        if len(slot.known) >= MAX_KNOWN:
            self._backend.flush()

    def _find(self, key: Any) -> Any:
        return self._column.find(self._row(), self._read(), map_key(key))

    def _completed(self) -> MapSlot:
        slot: MapSlot = self._read()
        self._column.complete(self._row(), slot)
        return slot

    def get(self, key: Any) -> Any:
        value = self._find(key)
        return None if value is ABSENT else value

    def contains(self, key: Any) -> bool:
        return self.get(key) is not None

    def put(self, key: Any, value: Any) -> None:
        self._set(map_key(key), value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        known_by = map_key(key)
        if self._column.find(self._row(), self._read(), known_by) is not ABSENT:
            self._set(known_by, ABSENT)

    def clear(self) -> None:
        for known_by, value in list(self._completed().known.items()):
            if value is not ABSENT:
                self._set(known_by, ABSENT)

    def items(self) -> Iterable[tuple[Any, Any]]:
        known = self._completed().known
        return [(user_key(known_by), value) for known_by, value in known.items() if value is not ABSENT]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._column.has_any(self._row(), self._read())


class TtlMapLogic(MapLogic):
    """Map state with time to live: known values are pairs (value, time of last touch in ms)."""

    __slots__ = ("_return_expired", "_ttl_ms", "_update_on_read")

    def __init__(self, backend: CacheHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        config = descriptor.ttl_config
        assert config is not None
        self._ttl_ms = config.ttl_ms
        self._update_on_read = config.get_update_type() is TtlUpdateType.OnReadAndWrite
        self._return_expired = config.get_state_visibility() is TtlStateVisibility.ReturnExpiredIfNotCleanedUp

    def get(self, key: Any) -> Any:
        pair = self._read_pair(map_key(key))
        return None if pair is ABSENT else pair[0]

    def put(self, key: Any, value: Any) -> None:
        self._set(map_key(key), (value, self._backend.clock.now_ms()))

    def items(self) -> list[tuple[Any, Any]]:
        known = self._completed().known
        pairs = [(known_by, self._read_pair(known_by)) for known_by in list(known)]
        return [(user_key(known_by), pair[0]) for known_by, pair in pairs if pair is not ABSENT]

    def is_empty(self) -> bool:
        return not self.items()

    def unexpired(self, value: Any, now_ms: int) -> Any:
        """Return the unexpired part of a map of pairs at that time; None if nothing."""
        left = {key: pair for key, pair in value.items() if pair[1] + self._ttl_ms > now_ms}
        return value if len(left) == len(value) else left or None

    def _read_pair(self, known_by: Any) -> Any:
        """Return the pair of a key as a read sees it, or ABSENT; a read may prolong its life or remove it."""
        pair = self._column.find(self._row(), self._read(), known_by)
        if pair is ABSENT:
            return ABSENT
        now_ms = self._backend.clock.now_ms()
        if pair[1] + self._ttl_ms > now_ms:
            if self._update_on_read:
                self._set(known_by, (pair[0], now_ms))
            return pair
        self._set(known_by, ABSENT)
        return pair if self._return_expired else ABSENT


class MapInSlot(MapLogic):
    """A map without namespaces."""

    __slots__ = ()

    def _read(self) -> Any:
        entry = self._backend.current_entry
        slot = entry[self._index]
        if slot is UNKNOWN:
            slot = entry[self._index] = self._column.new_slot()
        return slot

    def _row(self) -> bytes:
        return self._backend.current_entry.row  # type: ignore[no-any-return]

    def _mark(self) -> None:
        entry, index = self._backend.current_entry, self._index
        if not entry.changed >> index & 1:
            self._read()
            self._backend.mark_changed(entry, index)


class MapInNamespace(MapLogic):
    """A namespaced map."""

    __slots__ = ()

    def set_current_namespace(self, namespace: Any) -> None:
        self._namespace = namespace

    def _slots(self) -> NamespaceSlot:
        entry = self._backend.current_entry
        slot = entry[self._index]
        if slot is UNKNOWN:
            slot = entry[self._index] = NamespaceSlot()
        return slot  # type: ignore[no-any-return]

    def _read(self) -> Any:
        slots = self._slots()
        slot = slots.get(self._namespace)
        if slot is None:
            slot = slots[self._namespace] = self._column.new_slot()
        return slot

    def _row(self) -> bytes:
        return self._backend.current_entry.row + encode_namespace(self._namespace)  # type: ignore[no-any-return]

    def _mark(self) -> None:
        entry, index = self._backend.current_entry, self._index
        self._read()
        if not entry.changed >> index & 1:
            self._backend.mark_changed(entry, index)
        self._slots().changed.add(self._namespace)


class NoVisits(TtlSingleLogic):
    """Disables visits of other keys on access: expired values are found in the rows."""

    __slots__ = ()

    def _visit_others(self) -> None:
        pass


class RocksDBValueState(CachedSlot, ValueLogic):
    __slots__ = ()

    def value(self) -> Any:
        entry = self._backend.current_entry
        value = entry[self._index]
        if value is UNKNOWN:
            value = entry[self._index] = self._backend.columns[self._index].load(entry.row)
        return value

    def update(self, value: Any) -> None:
        entry, index = self._backend.current_entry, self._index
        if not entry.changed >> index & 1:
            self._backend.mark_changed(entry, index)
        entry[index] = value


class RocksDBListState(ListLogic, CachedSlot):
    __slots__ = ()


class RocksDBMapState(MapInSlot):
    __slots__ = ()


class RocksDBReducingState(CachedSlot, ReducingLogic):
    __slots__ = ()


class RocksDBAggregatingState(CachedSlot, AggregatingLogic):
    __slots__ = ()


class NamespacedValueState(CachedNamespaceSlot, ValueLogic):
    __slots__ = ()


class NamespacedListState(ListLogic, CachedMergingSlot):
    __slots__ = ()


class NamespacedMapState(MapInNamespace):
    __slots__ = ()


class NamespacedReducingState(ReducingLogic, CachedMergingSlot):
    __slots__ = ()


class NamespacedAggregatingState(AggregatingLogic, CachedMergingSlot):
    __slots__ = ()


class _ListWithoutVisits(TtlListLogic):
    __slots__ = ()

    def _visit_others(self) -> None:
        pass


class _ValueWithoutVisits(NoVisits, TtlValueLogic):
    __slots__ = ()


class _ReducingWithoutVisits(NoVisits, TtlReducingLogic):
    __slots__ = ()


class _AggregatingWithoutVisits(NoVisits, TtlAggregatingLogic):
    __slots__ = ()


class TtlValueState(_ValueWithoutVisits, CachedSlot):
    __slots__ = ()


class TtlListState(_ListWithoutVisits, CachedSlot):
    __slots__ = ()


class TtlMapState(TtlMapLogic, MapInSlot):
    __slots__ = ()


class TtlReducingState(_ReducingWithoutVisits, CachedSlot):
    __slots__ = ()


class TtlAggregatingState(_AggregatingWithoutVisits, CachedSlot):
    __slots__ = ()


class NamespacedTtlValueState(_ValueWithoutVisits, CachedNamespaceSlot):
    __slots__ = ()


class NamespacedTtlListState(_ListWithoutVisits, CachedMergingSlot):
    __slots__ = ()


class NamespacedTtlMapState(TtlMapLogic, MapInNamespace):
    __slots__ = ()


class NamespacedTtlReducingState(_ReducingWithoutVisits, CachedMergingSlot):
    __slots__ = ()


class NamespacedTtlAggregatingState(_AggregatingWithoutVisits, CachedMergingSlot):
    __slots__ = ()


PLAIN_STATES: dict[str, type[SlotState]] = {
    "value": RocksDBValueState,
    "list": RocksDBListState,
    "map": RocksDBMapState,
    "reducing": RocksDBReducingState,
    "aggregating": RocksDBAggregatingState,
}
NAMESPACED_STATES: dict[str, type[SlotState]] = {
    "value": NamespacedValueState,
    "list": NamespacedListState,
    "map": NamespacedMapState,
    "reducing": NamespacedReducingState,
    "aggregating": NamespacedAggregatingState,
}
PLAIN_TTL_STATES: dict[str, type[Any]] = {
    "value": TtlValueState,
    "list": TtlListState,
    "map": TtlMapState,
    "reducing": TtlReducingState,
    "aggregating": TtlAggregatingState,
}
NAMESPACED_TTL_STATES: dict[str, type[Any]] = {
    "value": NamespacedTtlValueState,
    "list": NamespacedTtlListState,
    "map": NamespacedTtlMapState,
    "reducing": NamespacedTtlReducingState,
    "aggregating": NamespacedTtlAggregatingState,
}
