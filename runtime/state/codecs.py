"""Codecs for the values of each kind of keyed state in the canonical snapshot form; shared by all backends.

Decoded forms: the value, reduced value or accumulator itself; a list's, a list; a map's, a dict (keys as
`map_keys.dict_key` gives them); neither is ever empty. With time to live each value, item or dict value is a pair
(value, last-touched time in ms). Integers in the encoding are little-endian; items are written by the serializers of
the descriptor, which the codec's name lists for the compatibility check.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import Any

from runtime.common.typeinfo import TypeInformation
from runtime.core.serializers import Serializer, TypedSerializer, serializer_for
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from runtime.state.map_keys import dict_key, user_key

_TIME = struct.Struct("<q")
_COUNT = struct.Struct("<I")
_COUNT_AND_SIZE = struct.Struct("<IQ")


class StateCodec(ABC):
    """Encodes and decodes the whole value of a keyed state for one key and namespace."""

    __slots__ = ("name",)

    kind: str

    def __init__(self, name: str) -> None:
        #: names of the serializers used; two codecs of one kind read each other's bytes if the names are equal
        self.name = name

    @property
    def value_type(self) -> TypeInformation | None:
        """Return the type of the whole value, if it is one value of a declared type."""
        return None

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value without time to live."""

    @abstractmethod
    def decode(self, data: bytes) -> Any: ...

    @abstractmethod
    def encode_timed(self, value: Any) -> bytes:
        """Return the bytes of a value with time to live."""

    @abstractmethod
    def decode_timed(self, data: bytes) -> Any: ...

    @abstractmethod
    def add_times(self, value: Any, now_ms: int) -> Any:
        """Add times to a value without time to live, as if everything was touched at `now_ms`."""

    @abstractmethod
    def drop_times(self, value: Any) -> Any:
        """Drop the times of a value with time to live."""


class ValueCodec(StateCodec):
    """A single value: its serializer's bytes, after the time if there is one."""

    __slots__ = ("_serializer", "kind")

    def __init__(self, kind: str, serializer: Serializer) -> None:
        super().__init__(serializer.name)
        self.kind = kind
        self._serializer = serializer

    @property
    def value_type(self) -> TypeInformation | None:
        return self._serializer.type_info if isinstance(self._serializer, TypedSerializer) else None

    def encode(self, value: Any) -> bytes:
        return self._serializer.serialize(value)

    def decode(self, data: bytes) -> Any:
        return self._serializer.deserialize(data)

    def encode_timed(self, value: Any) -> bytes:
        return _TIME.pack(value[1]) + self._serializer.serialize(value[0])

    def decode_timed(self, data: bytes) -> Any:
        return self._serializer.deserialize(data[_TIME.size :]), _TIME.unpack_from(data)[0]

    def add_times(self, value: Any, now_ms: int) -> Any:
        return value, now_ms

    def drop_times(self, value: Any) -> Any:
        return value[0]


class ListCodec(StateCodec):
    """A list: count, times if any, items."""

    __slots__ = ("_serializer",)

    kind = "list"

    def __init__(self, serializer: Serializer) -> None:
        super().__init__(f"list<{serializer.name}>")
        self._serializer = serializer

    def encode(self, value: Any) -> bytes:
        return _COUNT.pack(len(value)) + self._serializer.serialize_many(value)

    def decode(self, data: bytes) -> Any:
        (count,) = _COUNT.unpack_from(data)
        return self._serializer.deserialize_many(data[_COUNT.size :], count)

    def encode_timed(self, value: Any) -> bytes:
        times = struct.pack(f"<{len(value)}q", *(time for _, time in value))
        return _COUNT.pack(len(value)) + times + self._serializer.serialize_many([item for item, _ in value])

    def decode_timed(self, data: bytes) -> Any:
        (count,) = _COUNT.unpack_from(data)
        times = struct.unpack_from(f"<{count}q", data, _COUNT.size)
        items = self._serializer.deserialize_many(data[_COUNT.size + 8 * count :], count)
        return list(zip(items, times, strict=True))

    def add_times(self, value: Any, now_ms: int) -> Any:
        return [(item, now_ms) for item in value]

    def drop_times(self, value: Any) -> Any:
        return [item for item, _ in value]


class MapCodec(StateCodec):
    """A map: count, size of the keys, keys, times if any, values."""

    __slots__ = ("_keys", "_values")

    kind = "map"

    def __init__(self, keys: Serializer, values: Serializer) -> None:
        super().__init__(f"map<{keys.name}, {values.name}>")
        self._keys = keys
        self._values = values

    def encode(self, value: Any) -> bytes:
        return self._encode_keys(value) + self._values.serialize_many(list(value.values()))

    def decode(self, data: bytes) -> Any:
        keys, offset = self._decode_keys(data)
        return dict(zip(keys, self._values.deserialize_many(data[offset:], len(keys)), strict=True))

    def encode_timed(self, value: Any) -> bytes:
        pairs = value.values()
        times = struct.pack(f"<{len(value)}q", *(time for _, time in pairs))
        return self._encode_keys(value) + times + self._values.serialize_many([item for item, _ in pairs])

    def decode_timed(self, data: bytes) -> Any:
        keys, offset = self._decode_keys(data)
        count = len(keys)
        times = struct.unpack_from(f"<{count}q", data, offset)
        values = self._values.deserialize_many(data[offset + 8 * count :], count)
        return dict(zip(keys, zip(values, times, strict=True), strict=True))

    def add_times(self, value: Any, now_ms: int) -> Any:
        return {key: (item, now_ms) for key, item in value.items()}

    def drop_times(self, value: Any) -> Any:
        return {key: item for key, (item, _) in value.items()}

    def _encode_keys(self, value: Any) -> bytes:
        keys = self._keys.serialize_many([user_key(key) for key in value])
        return _COUNT_AND_SIZE.pack(len(value), len(keys)) + keys

    def _decode_keys(self, data: bytes) -> tuple[list[Any], int]:
        count, size = _COUNT_AND_SIZE.unpack_from(data)
        end = _COUNT_AND_SIZE.size + size
        keys = self._keys.deserialize_many(data[_COUNT_AND_SIZE.size : end], count)
        return [dict_key(key) for key in keys], end


def bytes_with_times(kind: str, data: bytes, now_ms: int) -> bytes:
    """Return the bytes of a value with time to live, given those of one without: all of it was touched at `now_ms`.

    Args:
        kind: of the state.
        data: from `StateCodec.encode`; nothing in it is decoded.
        now_ms: wall-clock time.
    """
    if kind == ListCodec.kind:
        count, where = _COUNT.unpack_from(data)[0], _COUNT.size
    elif kind == MapCodec.kind:
        count, size = _COUNT_AND_SIZE.unpack_from(data)
        where = _COUNT_AND_SIZE.size + size
    else:
        count, where = 1, 0
    times: bytes = _TIME.pack(now_ms) * count
    return data[:where] + times + data[where:]


def codec_of(descriptor: StateDescriptor) -> StateCodec:
    """Return the codec of the state that `descriptor` describes.

    Raises:
        TypeError: not one of the five kinds of keyed state.
    """
    if isinstance(descriptor, ListStateDescriptor):
        return ListCodec(serializer_for(descriptor.elem_type_info))
    if isinstance(descriptor, MapStateDescriptor):
        return MapCodec(serializer_for(descriptor.key_type_info), serializer_for(descriptor.value_type_info))
    for kind, descriptor_class in _SINGLE_VALUE_KINDS.items():
        if isinstance(descriptor, descriptor_class):
            return ValueCodec(kind, serializer_for(descriptor.type_info))
    raise TypeError(f"{descriptor!r} does not describe keyed state")


_SINGLE_VALUE_KINDS: dict[str, type[StateDescriptor]] = {
    "value": ValueStateDescriptor,
    "reducing": ReducingStateDescriptor,
    "aggregating": AggregatingStateDescriptor,
}
