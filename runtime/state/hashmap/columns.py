"""Entries that a snapshot captures, column by column, and the columns as bytes.

Encoding a million values one by one takes seconds of the interpreter. So numbers are packed into bytes by slices of a
state's slots; of other values that cannot be changed in place references are captured, and strings among them are
encoded in bulk later, for which other threads wait some 0.1 ms. All other values are encoded when they are captured.
Keys never change and stay encoded from one snapshot to the next. Task's thread, except for `KeyColumn` and captured
columns.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.common.typeinfo import BasicType, BasicTypeInfo, TupleTypeInfo, TypeInformation, Types
from runtime.core.column_keys import ColumnKeys
from runtime.core.keys import encode_key
from runtime.state.errors import StateError
from runtime.state.hashmap.entries import DROPPED, Entry
from runtime.state.key_groups import assign_key_groups
from runtime.state.snapshot import StateMeta

_BULK: Final = 8_192
"""Number of values that are encoded in one call, which holds the interpreter (some 0.2 ms)."""
_LONG, _DOUBLE, _STRING = (BasicTypeInfo(basic) for basic in (BasicType.LONG, BasicType.DOUBLE, BasicType.STRING))
_NUMBER_BYTES: Final = 8
_TEXTS: Final = frozenset((str, type(None)))
_NUMBER_KEYS: Final = ColumnKeys(("f0",), Types.TUPLE([Types.LONG()]))
_NUMBER_TAG: Final = encode_key(0)[0]
_get_key = attrgetter("key")
_get_encoded_key = attrgetter("encoded_key")
_get_key_group = attrgetter("key_group")


@dataclass(frozen=True, slots=True)
class SavedState:
    """Describes how a snapshot captures one state of an entry."""

    meta: StateMeta
    encode: Callable[[Any], bytes]
    keep: Callable[[Any], Any] | None
    """Returns the part of a value that a snapshot keeps, None if nothing; None = all of it."""
    value_type: TypeInformation | None
    """Type of the slot, if it holds one value of a declared type, or a pair of value and time."""
    slots: list[Any]
    """The state's slots, by position of the entry; the backend's own list."""

    def slot_of(self, entry: Entry) -> Any:
        """Return the slot of an entry, which may have been removed meanwhile."""
        return None if entry.index == DROPPED else self.slots[entry.index]

    @property
    def is_shareable(self) -> bool:
        """Return whether the content of a slot is only replaced, never changed: then a reference is as good as a copy.

        Not tuples: their serializer takes lists as well.
        """
        value_type = self.value_type
        return (
            value_type is not None
            and value_type.is_immutable
            and not isinstance(value_type, TupleTypeInfo)
            and not self.meta.namespaced
        )

    @property
    def packs(self) -> bool:
        """Return whether values are encoded in bulk."""
        return (
            self.is_shareable
            and not self.meta.has_ttl
            and self.keep is None
            and self.value_type in (_LONG, _DOUBLE, _STRING)
        )

    @property
    def number_code(self) -> str:
        """Return the `struct` code of the numbers that it packs to; empty if it packs to none."""
        return "" if not self.packs else "q" if self.value_type == _LONG else "d" if self.value_type == _DOUBLE else ""

    def encoded(self, slot: Any) -> bytes | None:
        """Return a slot of a state without namespaces as bytes; None if nothing of it is kept."""
        if slot is None:
            return None
        left = slot if self.keep is None else self.keep(slot)
        return None if left is None else self.encode(left)


Packed: TypeAlias = pa.LargeBinaryArray | pa.FixedSizeBinaryArray
"""Bytes by row; null where there are none."""


def pack_bytes(values: Sequence[bytes | None]) -> Packed:
    """Return encoded values as a column."""
    return _joined([pa.array(values[i : i + _BULK], pa.large_binary()) for i in range(0, len(values), _BULK)])


def pack_keys(keys: Sequence[bytes]) -> Packed:
    """Return encoded keys as a column, like `pack_bytes`, at half the cost; keys of equal length can be reordered far
    faster.
    """
    count, data = len(keys), pa.py_buffer(b"".join(keys))
    lengths = np.fromiter(map(len, keys), np.int64, count)
    if count and (lengths == lengths[0]).all():
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(int(lengths[0])), count, [None, data])
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), data])


def pack_entry_keys(entries: Sequence[Entry], max_parallelism: int) -> tuple[Packed, npt.NDArray[np.int16]]:
    """Return the encoded keys of entries, and their key groups; numbers are processed in bulk."""
    keys = list(map(_get_key, entries))
    if keys and keys[0].__class__ is int and set(map(type, keys)) == {int}:
        try:
            numbers = np.frombuffer(struct.pack(f"={len(keys)}q", *keys), np.int64)
        except struct.error:
            pass
        else:
            encoded = np.empty((len(keys), 9), np.uint8)
            encoded[:, 0] = _NUMBER_TAG
            encoded[:, 1:] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
            columns = pa.RecordBatch.from_arrays([pa.array(numbers)], ["f0"])
            packed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(9), len(keys), [None, pa.py_buffer(encoded)])
            return packed, assign_key_groups(_NUMBER_KEYS.hashes(columns), max_parallelism)
    key_groups = np.fromiter(map(_get_key_group, entries), np.int16, len(entries))
    return pack_keys(list(map(_get_encoded_key, entries))), key_groups


def pack_texts(values: Sequence[Any]) -> Packed | None:
    """Return strings and None as the serializer of strings writes them; None if the serializer has to do it."""
    try:
        if _TEXTS.issuperset(map(type, values)):
            return pa.array(values, pa.large_string()).cast(pa.large_binary())
    except (pa.ArrowException, ValueError):
        pass
    return None


def _joined(parts: list[Packed]) -> Packed:
    if not parts:
        return pa.array([], pa.large_binary())
    if any(part.type != parts[0].type for part in parts):
        parts = [part.cast(pa.large_binary()) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Entries in the order of their key groups."""

    order: pa.Int64Array
    """Position of each among the entries."""
    keys: Packed
    """In that order."""
    groups: Sequence[tuple[int, int, int]]
    """Key group, and where it begins and ends."""

    @classmethod
    def of(cls, keys: Packed, key_groups: npt.NDArray[np.int16]) -> KeyOrder:
        """Return the order of encoded keys and their key groups."""
        order = np.argsort(key_groups, kind="stable")
        in_order = key_groups[order]
        starts = [0, *(np.flatnonzero(np.diff(in_order)) + 1).tolist()] if len(order) else []
        ends = [*starts, len(order)][1:]
        positions = pa.array(order)
        return cls(positions, keys.take(positions), list(zip(in_order[starts].tolist(), starts, ends, strict=True)))

    @classmethod
    def of_entries(cls, entries: Sequence[Entry], max_parallelism: int) -> KeyOrder:
        """Return the order of some entries, each once."""
        return cls.of(*pack_entry_keys(entries, max_parallelism))


class KeyColumn:
    """The encoded keys of a list of entries that only grows. Any thread.

    Args:
        entries: the list, which changes only at its end.
        max_parallelism: number of key groups.
    """

    def __init__(self, entries: list[Entry], max_parallelism: int) -> None:
        self._entries = entries
        self._max_parallelism = max_parallelism
        self._lock = threading.Lock()
        self._keys: list[Packed] = []
        self._groups: list[npt.NDArray[np.int16]] = []
        self._count = 0
        self._order: KeyOrder | None = None

    def order(self, count: int) -> KeyOrder:
        """Return the order of the first `count` entries."""
        with self._lock:
            if count < self._count:
                # an older snapshot is written after a newer one
                return KeyOrder.of_entries(self._entries[:count], self._max_parallelism)
            while self._count < count:
                some = self._entries[self._count : min(self._count + _BULK, count)]
                keys, key_groups = pack_entry_keys(some, self._max_parallelism)
                self._keys.append(keys)
                self._groups.append(key_groups)
                self._count += len(some)
                self._order = None
            if self._order is None:
                self._keys, self._groups = [_joined(self._keys)], [np.concatenate(self._groups or [_NO_GROUPS])]
                self._order = KeyOrder.of(self._keys[0], self._groups[0])
            return self._order


_NO_GROUPS: Final = np.empty(0, np.int16)


class SlotColumn:
    """Captured slots of a state by row: references, or encoded values if these may be changed in place."""

    def __init__(self, state: SavedState) -> None:
        self.state = state
        self.values: list[Any] = []

    def make_room(self, count: int) -> None:
        """Allocate the first rows, which `take` may fill in any order."""
        self.values = [None] * count

    def take(self, start: int, slots: list[Any], entries: Sequence[Entry]) -> None:
        """Capture the slots of entries as the rows from `start` on.

        Raises:
            StateError: a value does not fit its serializer.
        """
        self.values[start : start + len(slots)] = (
            slots if self.state.is_shareable else _encoded(self.state, slots, entries)
        )

    def packed(self, entries: Sequence[Entry]) -> Packed:
        """Return the rows as bytes and empty the column; call once. Any thread.

        Raises:
            StateError: a value does not fit its serializer.
        """
        values, self.values = self.values, []
        if not self.state.packs:
            return pack_bytes(values)
        parts = []
        for start in range(0, len(values), _BULK):
            some = values[start : start + _BULK]
            packed = pack_texts(some)
            if packed is None:
                # something unusual: the serializer decides
                packed = pa.array(_encoded(self.state, some, entries[start : start + _BULK]), pa.large_binary())
            parts.append(packed)
        return _joined(parts)


class NumberColumn:
    """Captured numbers of a state by row, packed into bytes at once.

    This costs little more than keeping references, and replaced values need not be kept alive.
    """

    def __init__(self, state: SavedState) -> None:
        self._state = state
        self._code = state.number_code
        self._data = bytearray()
        self._absent: list[int] = []

    def make_room(self, count: int) -> None:
        """Allocate rows, like SlotColumn."""
        self._data = bytearray(_NUMBER_BYTES * count)

    def take(self, start: int, slots: list[Any], entries: Sequence[Entry]) -> None:
        """Capture slots, like SlotColumn."""
        missing = _NUMBER_BYTES * (start + len(slots)) - len(self._data)
        if missing > 0:
            self._data += bytes(missing)
        for at in range(0, len(slots), _BULK):
            some = slots[at : at + _BULK] if len(slots) > _BULK else slots
            if not self._pack(start + at, some):
                absent = [start + at + i for i, slot in enumerate(some) if slot is None]
                self._absent += absent
                if not (absent and self._pack(start + at, [0 if slot is None else slot for slot in some])):
                    # something unusual: the serializer decides
                    encoded = _encoded(self._state, some, entries[at : at + _BULK])
                    whole = b"".join(bytes(_NUMBER_BYTES) if value is None else value for value in encoded)
                    self._data[_NUMBER_BYTES * (start + at) : _NUMBER_BYTES * (start + at + len(some))] = whole

    def _pack(self, start: int, numbers: Sequence[Any]) -> bool:
        """Pack numbers as their serializer writes them; returns whether they are such numbers."""
        try:
            struct.pack_into(f"<{len(numbers)}{self._code}", self._data, _NUMBER_BYTES * start, *numbers)
        except Exception:
            # an object may claim to be a number, and then raise anything
            return False
        return True

    def packed(self, entries: Sequence[Entry]) -> Packed:
        """Return the rows as bytes, like SlotColumn."""
        data, self._data = self._data, bytearray()
        count, valid = len(data) // _NUMBER_BYTES, None
        if self._absent:
            is_valid = np.ones(count, np.bool_)
            is_valid[self._absent] = False
            valid = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(_NUMBER_BYTES), count, [valid, pa.py_buffer(data)])


class TakenEntries:
    """Values of entries at the time of their capture.

    Args:
        states: in the order of their numbers; the caller handles namespaced ones.
        entries: the entries to capture; the list may grow meanwhile.
        are_all: whether they are all entries of the backend, in their order.
    """

    def __init__(self, states: Sequence[SavedState], entries: list[Entry], are_all: bool) -> None:
        #: number and state of each column
        self.states = [(index, state) for index, state in enumerate(states) if not state.meta.namespaced]
        self.entries = entries
        self._are_all = are_all
        self._columns = [NumberColumn(s) if s.number_code else SlotColumn(s) for _, s in self.states]
        #: columns of references that have to be encoded one by one
        self._unencoded = [
            column
            for column in self._columns
            if isinstance(column, SlotColumn) and column.state.is_shareable and not column.state.packs
        ]
        self._position = 0

    @property
    def is_cheap(self) -> bool:
        """Return whether capturing an entry is cheaper than recording that it was captured."""
        return all(state.is_shareable for _, state in self.states)

    def make_room(self, count: int) -> None:
        """Allocate room for the first entries, which `take` may fill in any order."""
        for column in self._columns:
            column.make_room(count)

    def take(self, start: int, end: int) -> None:
        """Capture the values of the entries from `start` to `end`.

        Raises:
            StateError: a value does not fit its serializer.
        """
        entries = self.entries[start:end]
        for column, (_, state) in zip(self._columns, self.states, strict=True):
            slots = state.slots[start:end] if self._are_all else [state.slot_of(entry) for entry in entries]
            column.take(start, slots, entries)

    def encode_some(self, count: int) -> bool:
        """Encode the next values that are not encoded in bulk; returns False if there are none.

        Raises:
            StateError: a value does not fit its serializer.
        """
        if not self._unencoded:
            return False
        column, start = self._unencoded[-1], self._position
        values = column.values
        self._position = end = min(start + count, len(values))
        values[start:end] = _encoded(column.state, values[start:end], self.entries[start:end])
        if end == len(values):
            self._unencoded.pop()
            self._position = 0
        return True

    def packed(self, order: KeyOrder) -> PackedColumns:
        """Return the columns as bytes, in an order. Any thread; once.

        Raises:
            StateError: a value does not fit its serializer.
        """
        packed = {}
        for (index, _), column in zip(self.states, self._columns, strict=True):
            values = column.packed(self.entries)
            if values.null_count < len(values):
                packed[index] = values.take(order.order)
        return PackedColumns(order, packed)


def _encoded(state: SavedState, slots: Sequence[Any], entries: Sequence[Entry]) -> list[bytes | None]:
    try:
        return list(map(state.encoded, slots))
    except Exception:
        for entry, slot in zip(entries, slots, strict=False):
            try:
                state.encoded(slot)
            except Exception as error:
                message = f"state {state.meta.name!r} of key {entry.key!r} cannot be saved: {error}"
                raise StateError(message) from error
        raise


@dataclass(frozen=True, slots=True)
class PackedColumns:
    """The values of entries by state, in the order of their key groups."""

    order: KeyOrder
    values: dict[int, Packed]
    """By state number."""

    def rows(self, start: int, end: int) -> Iterator[tuple[int, Packed, Packed]]:
        """Yield state number, keys and values of the entries from `start` to `end`, without those that have no
        value."""
        keys = self.order.keys.slice(start, end - start)
        for index, column in self.values.items():
            values = column.slice(start, end - start)
            if values.null_count == 0:
                yield index, keys, values
            elif values.null_count < len(values):
                yield index, keys.filter(values.is_valid()), values.drop_null()


def packed_bytes(column: Packed) -> tuple[int | npt.NDArray[np.int64], bytes]:
    """Return the lengths, or the one that all have, and the joined bytes of a column without nulls."""
    count, first = len(column), column.offset
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = column.buffers()[1].slice(width * first, width * count)
        return width, data.to_pybytes()
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, 8 * first)
    start, end = int(offsets[0]), int(offsets[-1])
    return np.diff(offsets), b"" if data is None else data.slice(start, end - start).to_pybytes()
