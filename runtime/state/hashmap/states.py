"""State objects of the hashmap backend without time to live.

A state has a list of slots, one for each entry; None in a slot means no value. It reads and writes the slot of the
backend's current entry. The logic of each kind is written once with `_read` and `_write`; the classes for state without
namespaces repeat the code that runs per record without these calls (0.04 µs each; benchmark:
tests/state/bench_hashmap.py). Task thread only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from runtime.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor
from runtime.state.map_keys import UnhashableKey, dict_key, user_key
from runtime.state.state import AggregatingState, ListState, MapState, ReducingState, State, ValueState


class EntryHolder(Protocol):
    """The part of the backend that states need."""

    current_entry: Any


class SlotState(State):
    """A state and its slots."""

    __slots__ = ("_backend", "_index", "_namespace", "slots")

    def __init__(self, backend: EntryHolder, index: int, descriptor: StateDescriptor) -> None:
        self._backend = backend
        self._index = index
        self._namespace: Hashable = None
        #: values by position of the entry; owned and extended by the hashmap backend
        self.slots: list[Any] = []

    @abstractmethod
    def _read(self) -> Any:
        """Return the slot's value, or None."""

    @abstractmethod
    def _write(self, value: Any) -> None:
        """Set the slot; None empties it."""

    def _read_to_change(self) -> Any:
        """Return the slot's value for a change in place, or None."""
        return self._read()

    def clear(self) -> None:
        self._write(None)


class PlainSlot(SlotState):
    """The slot of a state without namespaces."""

    __slots__ = ()

    def _read(self) -> Any:
        return self.slots[self._backend.current_entry.index]

    def _write(self, value: Any) -> None:
        self.slots[self._backend.current_entry.index] = value


class NamespacedSlot(SlotState):
    """The slot of a namespaced state: a dict by namespace, which is never empty."""

    __slots__ = ()

    def set_current_namespace(self, namespace: Hashable) -> None:
        self._namespace = namespace

    def _read(self) -> Any:
        by_namespace = self.slots[self._backend.current_entry.index]
        return None if by_namespace is None else by_namespace.get(self._namespace)

    def _write(self, value: Any) -> None:
        slots, index = self.slots, self._backend.current_entry.index
        by_namespace = slots[index]
        if value is not None:
            if by_namespace is None:
                slots[index] = {self._namespace: value}
            else:
                by_namespace[self._namespace] = value
        elif by_namespace is not None:
            by_namespace.pop(self._namespace, None)
            if not by_namespace:
                slots[index] = None


class MergingSlot(NamespacedSlot):
    """The slot of a namespaced state whose namespaces can be merged."""

    __slots__ = ()

    def merge_namespaces(self, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the contents of the namespaces `sources` into `target`, in that order."""
        current = self._namespace
        try:
            merged = None
            for namespace in (target, *(source for source in sources if source != target)):
                self._namespace = namespace
                value = self._read()
                if value is not None:
                    self._write(None)
                    merged = value if merged is None else self._merge(merged, value)
            self._namespace = target
            self._write(merged)
        finally:
            self._namespace = current

    @abstractmethod
    def _merge(self, value: Any, other: Any) -> Any:
        """Merge two slot values; may change `value`."""


class ValueLogic(SlotState, ValueState[Any]):
    __slots__ = ()

    def value(self) -> Any:
        return self._read()

    def update(self, value: Any) -> None:
        self._write(value)


class ListLogic(SlotState, ListState[Any]):
    __slots__ = ()

    def get(self) -> list[Any]:
        values = self._read()
        return [] if values is None else values.copy()

    def add(self, value: Any) -> None:
        values = self._read_to_change()
        if values is None:
            self._write([value])
        else:
            values.append(value)

    def add_all(self, values: Sequence[Any]) -> None:
        existing = self._read_to_change()
        if existing is None:
            self._write(list(values) or None)
        else:
            existing.extend(values)

    def update(self, values: Sequence[Any]) -> None:
        self._write(list(values) or None)

    def _merge(self, value: Any, other: Any) -> Any:
        value.extend(other)
        return value


class MapLogic(SlotState, MapState[Any, Any]):
    __slots__ = ()

    def get(self, key: Any) -> Any:
        mapping = self._read()
        if mapping is None:
            return None
        try:
            return mapping.get(key)
        except TypeError:
            return mapping.get(dict_key(key))

    def put(self, key: Any, value: Any) -> None:
        mapping = self._read()
        if mapping is None:
            self._write({dict_key(key): value})
            return
        try:
            mapping[key] = value
        except TypeError:
            mapping[UnhashableKey(key)] = value

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        mapping = self._read()
        if mapping is None:
            self._write(dict(dict_value) or None)
        else:
            mapping.update(dict_value)

    def remove(self, key: Any) -> None:
        mapping = self._read()
        if mapping is not None:
            mapping.pop(dict_key(key), None)
            if not mapping:
                self._write(None)

    def contains(self, key: Any) -> bool:
        mapping = self._read()
        return mapping is not None and mapping.get(dict_key(key)) is not None

    def items(self) -> list[tuple[Any, Any]]:
        mapping = self._read()
        return [] if mapping is None else [(user_key(key), value) for key, value in mapping.items()]

    def keys(self) -> list[Any]:
        mapping = self._read()
        return [] if mapping is None else [user_key(key) for key in mapping]

    def values(self) -> list[Any]:
        mapping = self._read()
        return [] if mapping is None else list(mapping.values())

    def is_empty(self) -> bool:
        return self._read() is None


class ReducingLogic(SlotState, ReducingState[Any]):
    __slots__ = ("_reduce",)

    def __init__(self, backend: EntryHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        assert isinstance(descriptor, ReducingStateDescriptor)
        self._reduce: Callable[[Any, Any], Any] = descriptor.get_reduce_function().reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        if value is None:
            self._write(None)
            return
        reduced = self._read()
        self._write(value if reduced is None else self._reduce(reduced, value))

    def _merge(self, value: Any, other: Any) -> Any:
        return self._reduce(value, other)


class AggregatingLogic(SlotState, AggregatingState[Any, Any]):
    __slots__ = ("_function",)

    def __init__(self, backend: EntryHolder, index: int, descriptor: StateDescriptor) -> None:
        super().__init__(backend, index, descriptor)
        assert isinstance(descriptor, AggregatingStateDescriptor)
        self._function = descriptor.get_agg_function()

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._write(None)
            return
        accumulator = self._read()
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write(self._function.add(value, accumulator))

    def _merge(self, value: Any, other: Any) -> Any:
        return self._function.merge(value, other)


class PlainValueState(PlainSlot, ValueLogic):
    __slots__ = ()

    def value(self) -> Any:
        return self.slots[self._backend.current_entry.index]

    def update(self, value: Any) -> None:
        self.slots[self._backend.current_entry.index] = value


class PlainListState(PlainSlot, ListLogic):
    __slots__ = ()

    def add(self, value: Any) -> None:
        slots, index = self.slots, self._backend.current_entry.index
        values = slots[index]
        if values is None:
            slots[index] = [value]
        else:
            values.append(value)


class PlainMapState(PlainSlot, MapLogic):
    __slots__ = ()

    def get(self, key: Any) -> Any:
        mapping = self.slots[self._backend.current_entry.index]
        if mapping is None:
            return None
        try:
            return mapping.get(key)
        except TypeError:
            return mapping.get(dict_key(key))

    def put(self, key: Any, value: Any) -> None:
        mapping = self.slots[self._backend.current_entry.index]
        if mapping is None:
            self._write({dict_key(key): value})
            return
        try:
            mapping[key] = value
        except TypeError:
            mapping[UnhashableKey(key)] = value


class PlainReducingState(PlainSlot, ReducingLogic):
    __slots__ = ()

    def add(self, value: Any) -> None:
        slots, index = self.slots, self._backend.current_entry.index
        reduced = slots[index]
        slots[index] = value if reduced is None or value is None else self._reduce(reduced, value)


class PlainAggregatingState(PlainSlot, AggregatingLogic):
    __slots__ = ()


class NamespacedValueState(NamespacedSlot, ValueLogic):
    __slots__ = ()


class NamespacedListState(ListLogic, MergingSlot):
    __slots__ = ()


class NamespacedMapState(NamespacedSlot, MapLogic):
    __slots__ = ()


class NamespacedReducingState(ReducingLogic, MergingSlot):
    __slots__ = ()


class NamespacedAggregatingState(AggregatingLogic, MergingSlot):
    __slots__ = ()


PLAIN_STATES: dict[str, type[SlotState]] = {
    "value": PlainValueState,
    "list": PlainListState,
    "map": PlainMapState,
    "reducing": PlainReducingState,
    "aggregating": PlainAggregatingState,
}
NAMESPACED_STATES: dict[str, type[SlotState]] = {
    "value": NamespacedValueState,
    "list": NamespacedListState,
    "map": NamespacedMapState,
    "reducing": NamespacedReducingState,
    "aggregating": NamespacedAggregatingState,
}
