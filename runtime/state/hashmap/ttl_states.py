"""State objects of the hashmap backend with time to live.

A slot holds pairs (value, time of last touch in ms): one for a value, reduced value or accumulator, one per item of a
list, one per entry of a map. Expired parts are removed when they are read, and by visiting a few keys on each access.
Task thread only. Source: Flink, TtlStateFactory and the Ttl*State classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from runtime.core.clock import Clock
from runtime.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from runtime.state.hashmap.entries import Entry
from runtime.state.hashmap.states import MergingSlot, NamespacedSlot, PlainSlot, SlotState
from runtime.state.map_keys import dict_key, user_key
from runtime.state.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from runtime.state.ttl import TtlStateVisibility, TtlUpdateType


class TtlEntryHolder(Protocol):
    """The part of the backend that states with time to live need."""

    current_entry: Any
    clock: Clock

    def entries(self) -> list[Entry]: ...

    def touch(self, entry: Entry) -> None:
        """Prepare for a change of an entry other than the current one."""


class TtlLogic(SlotState):
    """The common part of all kinds: the clock, expiry and the cleanup of other keys."""

    __slots__ = ("_cleanup_size", "_clock", "_cursor", "_holder", "_return_expired", "_ttl_ms", "_update_on_read")

    def __init__(self, backend: TtlEntryHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        config = descriptor.ttl_config
        assert config is not None
        self._holder = backend
        self._clock = backend.clock
        self._ttl_ms = config.ttl_ms
        self._update_on_read = config.get_update_type() is TtlUpdateType.OnReadAndWrite
        self._return_expired = config.get_state_visibility() is TtlStateVisibility.ReturnExpiredIfNotCleanedUp
        incremental = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
        self._cleanup_size = 0 if incremental is None else incremental.get_cleanup_size()
        #: position of the entry that is visited next
        self._cursor = 0

    @abstractmethod
    def unexpired(self, value: Any, now_ms: int) -> Any:
        """Return the unexpired part of a slot value at that time; None if nothing."""

    def _is_alive(self, touched_ms: int, now_ms: int) -> bool:
        return touched_ms + self._ttl_ms > now_ms

    def _read_unexpired(self) -> Any:
        """Remove the expired parts of the slot's value, and return the rest."""
        value = self._read()
        if value is None:
            return None
        left = self.unexpired(value, self._clock.now_ms())
        if left is not value:
            self._write(left)
        return left

    def _visit_others(self) -> None:
        """Remove expired parts from the next few keys, in an endless cycle over all keys."""
        if not self._cleanup_size:
            return
        now_ms, entries = self._clock.now_ms(), self._holder.entries()
        visited = entries[self._cursor : self._cursor + self._cleanup_size]
        self._cursor = self._cursor + len(visited) if visited else 0
        for entry in visited:
            self._clean(entry, now_ms)

    def _clean(self, entry: Entry, now_ms: int) -> None:
        slot = self.slots[entry.index]
        if slot is None:
            return
        left: Any
        if isinstance(self, NamespacedSlot):
            left = {ns: rest for ns, value in slot.items() if (rest := self.unexpired(value, now_ms)) is not None}
            if len(left) == len(slot) and all(left[ns] is value for ns, value in slot.items()):
                return
        else:
            left = self.unexpired(slot, now_ms)
            if left is slot:
                return
        self._holder.touch(entry)
        self.slots[entry.index] = left or None


class TtlSingleLogic(TtlLogic):
    """State with a pair (value, time) in the slot."""

    __slots__ = ()

    def unexpired(self, value: Any, now_ms: int) -> Any:
        return value if self._is_alive(value[1], now_ms) else None

    def _get(self) -> Any:
        """Return the value as a read sees it, or None; a read may prolong its life or remove it."""
        pair = self._read()
        if pair is None:
            return None
        value, touched_ms = pair
        now_ms = self._clock.now_ms()
        if not self._is_alive(touched_ms, now_ms):
            self._write(None)
            return value if self._return_expired else None
        if self._update_on_read:
            self._write((value, now_ms))
        return value

    def _set(self, value: Any) -> None:
        self._write(None if value is None else (value, self._clock.now_ms()))


class TtlValueLogic(TtlSingleLogic, ValueState[Any]):
    __slots__ = ()

    def value(self) -> Any:
        value = self._get()
        self._visit_others()
        return value

    def update(self, value: Any) -> None:
        self._set(value)
        self._visit_others()


class TtlReducingLogic(TtlSingleLogic, ReducingState[Any]):
    __slots__ = ("_reduce",)

    def __init__(self, backend: TtlEntryHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        assert isinstance(descriptor, ReducingStateDescriptor)
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        value = self._get()
        self._visit_others()
        return value

    def add(self, value: Any) -> None:
        pair = None if value is None else self._read_unexpired()
        self._set(value if pair is None else self._reduce(pair[0], value))
        self._visit_others()

    def _merge(self, value: Any, other: Any) -> Any:
        now_ms = self._clock.now_ms()
        if not self._is_alive(value[1], now_ms):
            return other
        return (self._reduce(value[0], other[0]), now_ms) if self._is_alive(other[1], now_ms) else value


class TtlAggregatingLogic(TtlSingleLogic, AggregatingState[Any, Any]):
    __slots__ = ("_function",)

    def __init__(self, backend: TtlEntryHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        assert isinstance(descriptor, AggregatingStateDescriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._get()
        self._visit_others()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._write(None)
        else:
            pair = self._read_unexpired()
            accumulator = self._function.create_accumulator() if pair is None else pair[0]
            self._set(self._function.add(value, accumulator))
        self._visit_others()

    def _merge(self, value: Any, other: Any) -> Any:
        now_ms = self._clock.now_ms()
        if not self._is_alive(value[1], now_ms):
            return other
        return (self._function.merge(value[0], other[0]), now_ms) if self._is_alive(other[1], now_ms) else value


class TtlListLogic(TtlLogic, ListState[Any]):
    """A list of pairs in the slot."""

    __slots__ = ()

    def unexpired(self, value: Any, now_ms: int) -> Any:
        left = [pair for pair in value if self._is_alive(pair[1], now_ms)]
        return value if len(left) == len(value) else left or None

    def get(self) -> list[Any]:
        before = self._read()
        left = self._read_unexpired()
        if self._update_on_read and left is not None:
            now_ms = self._clock.now_ms()
            self._write([(item, now_ms) for item, _ in left])
        seen = before if self._return_expired else left
        self._visit_others()
        return [] if seen is None else [item for item, _ in seen]

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Sequence[Any]) -> None:
        now_ms = self._clock.now_ms()
        pairs = [(value, now_ms) for value in values]
        existing = self._read_to_change()
        if existing is None:
            self._write(pairs or None)
        else:
            existing.extend(pairs)
        self._visit_others()

    def update(self, values: Sequence[Any]) -> None:
        now_ms = self._clock.now_ms()
        self._write([(value, now_ms) for value in values] or None)
        self._visit_others()

    def _merge(self, value: Any, other: Any) -> Any:
        value.extend(other)
        return value


class TtlMapLogic(TtlLogic, MapState[Any, Any]):
    """A dict from keys to pairs in the slot."""

    __slots__ = ()

    def unexpired(self, value: Any, now_ms: int) -> Any:
        left = {key: pair for key, pair in value.items() if self._is_alive(pair[1], now_ms)}
        return value if len(left) == len(value) else left or None

    def get(self, key: Any) -> Any:
        pair = self._find(key)
        self._visit_others()
        return None if pair is None else pair[0]

    def contains(self, key: Any) -> bool:
        pair = self._find(key)
        self._visit_others()
        return pair is not None and pair[0] is not None

    def put(self, key: Any, value: Any) -> None:
        self.put_all_pairs({dict_key(key): value})

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        self.put_all_pairs(dict(dict_value))

    def put_all_pairs(self, dict_value: Mapping[Any, Any]) -> None:
        """Put pairs, like put_all; the keys are as `map_keys.dict_key` gives them."""
        now_ms = self._clock.now_ms()
        pairs = {key: (value, now_ms) for key, value in dict_value.items()}
        mapping = self._read()
        if mapping is None:
            self._write(pairs or None)
        else:
            mapping.update(pairs)
        self._visit_others()

    def remove(self, key: Any) -> None:
        mapping = self._read()
        if mapping is not None:
            mapping.pop(dict_key(key), None)
            if not mapping:
                self._write(None)
        self._visit_others()

    def items(self) -> list[tuple[Any, Any]]:
        before = self._read()
        left = self._read_unexpired()
        if self._update_on_read and left is not None:
            now_ms = self._clock.now_ms()
            self._write({key: (value, now_ms) for key, (value, _) in left.items()})
        seen = before if self._return_expired else left
        self._visit_others()
        return [] if seen is None else [(user_key(key), value) for key, (value, _) in seen.items()]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self.items()

    def _find(self, key: Any) -> Any:
        """Return the pair of `key` as a read sees it, or None."""
        mapping = self._read()
        key = dict_key(key)
        pair = None if mapping is None else mapping.get(key)
        if pair is None:
            return None
        now_ms = self._clock.now_ms()
        if self._is_alive(pair[1], now_ms):
            if self._update_on_read:
                mapping[key] = (pair[0], now_ms)
            return pair
        del mapping[key]
        if not mapping:
            self._write(None)
        return pair if self._return_expired else None


class PlainTtlValueState(TtlValueLogic, PlainSlot):
    __slots__ = ()


class PlainTtlListState(TtlListLogic, PlainSlot):
    __slots__ = ()


class PlainTtlMapState(TtlMapLogic, PlainSlot):
    __slots__ = ()


class PlainTtlReducingState(TtlReducingLogic, PlainSlot):
    __slots__ = ()


class PlainTtlAggregatingState(TtlAggregatingLogic, PlainSlot):
    __slots__ = ()


class NamespacedTtlValueState(TtlValueLogic, NamespacedSlot):
    __slots__ = ()


class NamespacedTtlListState(TtlListLogic, MergingSlot):
    __slots__ = ()


class NamespacedTtlMapState(TtlMapLogic, NamespacedSlot):
    __slots__ = ()


class NamespacedTtlReducingState(TtlReducingLogic, MergingSlot):
    __slots__ = ()


class NamespacedTtlAggregatingState(TtlAggregatingLogic, MergingSlot):
    __slots__ = ()


PLAIN_TTL_STATES: dict[str, type[TtlLogic]] = {
    "value": PlainTtlValueState,
    "list": PlainTtlListState,
    "map": PlainTtlMapState,
    "reducing": PlainTtlReducingState,
    "aggregating": PlainTtlAggregatingState,
}
NAMESPACED_TTL_STATES: dict[str, type[TtlLogic]] = {
    "value": NamespacedTtlValueState,
    "list": NamespacedTtlListState,
    "map": NamespacedTtlMapState,
    "reducing": NamespacedTtlReducingState,
    "aggregating": NamespacedTtlAggregatingState,
}
