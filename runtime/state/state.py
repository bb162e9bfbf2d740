"""The state objects that user functions and operators work with, as abstract classes.

Keyed state is scoped to the key of the record or timer that is being processed, and is used by that task's thread only.
Re-exported by `runtime.datastream.state`. Source: Flink, org.apache.flink.api.common.state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base of all state."""

    __slots__ = ()

    @abstractmethod
    def clear(self) -> None:
        """Remove the state of the current key."""


class ValueState(State, Generic[T]):
    """State of one value."""

    __slots__ = ()

    @abstractmethod
    def value(self) -> T | None:
        """Return the value, or None if there is none. Change it by `update`, not in place."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Set the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that accumulates values and returns a result of them."""

    __slots__ = ()

    @abstractmethod
    def get(self) -> OUT:
        """Return the result of the values so far."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged."""

    __slots__ = ()


class ReducingState(MergingState[T, T | None], Generic[T]):
    """State of values reduced to one. `get` is None if there is none; `add(None)` clears."""

    __slots__ = ()


class AggregatingState(MergingState[IN, OUT | None], Generic[IN, OUT]):
    """State of values aggregated by an AggregateFunction. `get` is None if there is none; `add(None)` clears."""

    __slots__ = ()


class ListState(MergingState[T, Iterable[T]], Generic[T]):
    """A list of values. `get` gives a copy of the list, empty if there is none."""

    __slots__ = ()

    @abstractmethod
    def update(self, values: Sequence[T]) -> None:
        """Replace the list; an empty one clears."""

    @abstractmethod
    def add_all(self, values: Sequence[T]) -> None:
        """Append the values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _ReadableMap(State, Generic[K, V]):
    """The common part of map state and broadcast state."""

    __slots__ = ()

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Return the value of `key`, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Return whether `key` has a value that is not None, as in PyFlink."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return a copy of all pairs: the map may be changed while they are iterated over."""

    @abstractmethod
    def keys(self) -> Iterable[K]: ...

    @abstractmethod
    def values(self) -> Iterable[V]: ...

    @abstractmethod
    def is_empty(self) -> bool: ...

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _WritableMap(_ReadableMap[K, V], Generic[K, V]):
    __slots__ = ()

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`; it may be None."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set the values of many keys, given as a mapping or as pairs like those of `dict.items()`."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove `key` if it is there."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_WritableMap[K, V], Generic[K, V]):
    """A map from keys to values."""

    __slots__ = ()


class ReadOnlyBroadcastState(_ReadableMap[K, V], Generic[K, V]):
    """Broadcast state as seen by the side that does not receive the broadcast. Do not modify the values."""

    __slots__ = ()


class BroadcastState(ReadOnlyBroadcastState[K, V], _WritableMap[K, V], Generic[K, V]):
    """A map that is the same in every subtask: each must make the same changes in the same order."""

    __slots__ = ()


class OperatorStateStore(ABC):
    """Store of operator state that belongs to no key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[K, V]:
        """Return the broadcast state of this name; created by the first call."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[T]:
        """Return list state whose items are distributed among the subtasks when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[T]:
        """Return list state of which every subtask gets all items when the job is restored."""
