"""State of an operator that belongs to no key: lists that are split or united on rescaling, and broadcast maps.

One instance belongs to one operator of one subtask and is used by its task's thread only. In snapshots each list item,
and each entry of a broadcast map, is one item of serializer-encoded bytes.
Source: Flink, DefaultOperatorStateBackend.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.core.serializers import serializer_for
from runtime.state.descriptors import ListStateDescriptor, MapStateDescriptor
from runtime.state.errors import StateMigrationError, StateTypeError
from runtime.state.fitting import Fit
from runtime.state.map_keys import dict_key, user_key
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution
from runtime.state.state import BroadcastState, ListState, OperatorStateStore

_KEY_SIZE = struct.Struct("<I")


class OperatorListState(ListState[Any]):
    """List state that is kept as a Python list."""

    __slots__ = ("_fit", "_items", "_serializer", "mode")

    def __init__(self, descriptor: ListStateDescriptor, mode: Redistribution) -> None:
        self.mode = mode
        self._serializer = serializer_for(descriptor.elem_type_info)
        self._fit = Fit(descriptor, descriptor.elem_type_info)
        self._items: list[Any] = []

    @property
    def serializer_name(self) -> str:
        return self._serializer.name

    def get(self) -> list[Any]:
        return self._items.copy()

    def add(self, value: Any) -> None:
        self._items.append(self._fit(value))

    def add_all(self, values: Sequence[Any]) -> None:
        self._items.extend(list(map(self._fit, values)))

    def update(self, values: Sequence[Any]) -> None:
        self._items = list(map(self._fit, values))

    def clear(self) -> None:
        self._items = []

    def encode(self) -> list[bytes]:
        return [self._serializer.serialize(item) for item in self._items]

    def decode(self, items: Sequence[bytes]) -> None:
        self._items = [self._serializer.deserialize(item) for item in items]


class OperatorBroadcastState(BroadcastState[Any, Any]):
    """Broadcast state that is kept as a Python dict."""

    __slots__ = ("_fit", "_fit_key", "_key_serializer", "_mapping", "_value_serializer")

    mode = Redistribution.BROADCAST

    def __init__(self, descriptor: MapStateDescriptor) -> None:
        self._key_serializer = serializer_for(descriptor.key_type_info)
        self._value_serializer = serializer_for(descriptor.value_type_info)
        self._fit_key = Fit(descriptor, descriptor.key_type_info)
        self._fit = Fit(descriptor, descriptor.value_type_info)
        self._mapping: dict[Any, Any] = {}

    @property
    def serializer_name(self) -> str:
        return f"map<{self._key_serializer.name}, {self._value_serializer.name}>"

    def get(self, key: Any) -> Any:
        return self._mapping.get(dict_key(key))

    def put(self, key: Any, value: Any) -> None:
        self._mapping[dict_key(self._fit_key(key))] = self._fit(value)

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        for key, value in dict(dict_value).items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._mapping.pop(dict_key(key), None)

    def contains(self, key: Any) -> bool:
        return self._mapping.get(dict_key(key)) is not None

    def items(self) -> list[tuple[Any, Any]]:
        return [(user_key(key), value) for key, value in self._mapping.items()]

    def keys(self) -> list[Any]:
        return [user_key(key) for key in self._mapping]

    def values(self) -> list[Any]:
        return list(self._mapping.values())

    def is_empty(self) -> bool:
        return not self._mapping

    def clear(self) -> None:
        self._mapping.clear()

    def encode(self) -> list[bytes]:
        items = []
        for key, value in self.items():
            encoded_key = self._key_serializer.serialize(key)
            items.append(_KEY_SIZE.pack(len(encoded_key)) + encoded_key + self._value_serializer.serialize(value))
        return items

    def decode(self, items: Sequence[bytes]) -> None:
        self._mapping = {}
        for item in items:
            end = _KEY_SIZE.size + _KEY_SIZE.unpack_from(item)[0]
            key = self._key_serializer.deserialize(item[_KEY_SIZE.size : end])
            self._mapping[dict_key(key)] = self._value_serializer.deserialize(item[end:])


class OperatorStateBackend(OperatorStateStore):
    """All operator state of one operator subtask."""

    def __init__(self) -> None:
        self._states: dict[str, OperatorListState | OperatorBroadcastState] = {}
        #: restored state that has not been requested yet; goes into the next snapshot unchanged
        self._restored: dict[str, OperatorStateSnapshot] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return list state in SPLIT mode.

        Raises:
            StateTypeError: the name is taken by a state of another mode or serializer.
            StateMigrationError: the snapshot has something else under that name.
        """
        return self._list_state(state_descriptor, Redistribution.SPLIT)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return list state in UNION mode; raises as get_list_state."""
        return self._list_state(state_descriptor, Redistribution.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast map; raises as get_list_state."""
        state = self._register(state_descriptor.name, OperatorBroadcastState(state_descriptor))
        assert isinstance(state, OperatorBroadcastState)
        return state

    def snapshot(self) -> dict[str, OperatorStateSnapshot]:
        """Return all operator state by name, for `OperatorSnapshot.operator_states`."""
        taken = {
            name: OperatorStateSnapshot(state.mode, state.encode(), state.serializer_name)
            for name, state in self._states.items()
        }
        return {**self._restored, **taken}

    def restore(self, states: Mapping[str, OperatorStateSnapshot]) -> None:
        """Load a snapshot's operator state. Call before any state is requested."""
        self._restored.update(states)

    def _list_state(self, descriptor: ListStateDescriptor, mode: Redistribution) -> ListState[Any]:
        state = self._register(descriptor.name, OperatorListState(descriptor, mode))
        assert isinstance(state, OperatorListState)
        return state

    def _register(
        self, name: str, made: OperatorListState | OperatorBroadcastState
    ) -> OperatorListState | OperatorBroadcastState:
        existing = self._states.get(name)
        if existing is not None:
            if (existing.mode, existing.serializer_name) != (made.mode, made.serializer_name):
                raise StateTypeError(
                    name, _describe(existing.mode, existing.serializer_name), _describe(made.mode, made.serializer_name)
                )
            return existing
        restored = self._restored.get(name)
        if restored is not None:
            if restored.mode is not made.mode or restored.serializer not in ("", made.serializer_name):
                raise StateMigrationError(
                    name, _describe(restored.mode, restored.serializer), _describe(made.mode, made.serializer_name)
                )
            made.decode(restored.items)
            del self._restored[name]
        self._states[name] = made
        return made


def _describe(mode: Redistribution, serializer: str) -> str:
    return f"{mode.value} operator state of {serializer or 'unnamed serializer'}"
