"""Entries that a snapshot takes, column by column, and the columns as bytes.

To encode a million values one by one takes seconds of the interpreter, so values that cannot be changed in place are
taken as they are, a slice of a state's slots at a time, and become bytes in bulk, for which other threads wait some 0.1
ms. All else is encoded when it is taken. Keys, which never change, are kept in that form from one snapshot to the next.
Task's thread, but for `KeyColumn` and what becomes of taken columns.
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
"""Values that are made bytes in one call, during which the interpreter is held (some 0.2 ms)."""
_LONG, _DOUBLE, _STRING = (BasicTypeInfo(basic) for basic in (BasicType.LONG, BasicType.DOUBLE, BasicType.STRING))
_TEXTS: Final = frozenset((str, type(None)))
_NUMBER_KEYS: Final = ColumnKeys(("f0",), Types.TUPLE([Types.LONG()]))
_NUMBER_TAG: Final = encode_key(0)[0]
_get_key = attrgetter("key")
_get_encoded_key = attrgetter("encoded_key")
_get_key_group = attrgetter("key_group")


@dataclass(frozen=True, slots=True)
class SavedState:
    """How a snapshot takes one state out of an entry."""

    meta: StateMeta
    encode: Callable[[Any], bytes]
    keep: Callable[[Any], Any] | None
    """What it leaves of a value, None if nothing; None = all of it."""
    value_type: TypeInformation | None
    """Of the slot, where it holds one value of a declared type, or a pair of one and a time."""
    slots: list[Any]
    """What it holds, by position of the entry; the backend's own."""

    def slot_of(self, entry: Entry) -> Any:
        """What it holds for an entry, which may have been dropped meanwhile."""
        return None if entry.index == DROPPED else self.slots[entry.index]

    @property
    def is_shareable(self) -> bool:
        """Whether what a slot holds is never changed, only replaced: to keep it is to have a copy.

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
        """Whether values become bytes in bulk."""
        return (
            self.is_shareable
            and not self.meta.has_ttl
            and self.keep is None
            and self.value_type in (_LONG, _DOUBLE, _STRING)
        )

    def encoded(self, slot: Any) -> bytes | None:
        """A slot of a state without namespaces as bytes; None if nothing is left of it."""
        if slot is None:
            return None
        left = slot if self.keep is None else self.keep(slot)
        return None if left is None else self.encode(left)


Packed: TypeAlias = pa.LargeBinaryArray | pa.FixedSizeBinaryArray
"""Bytes by row; null where there are none."""


def pack_bytes(values: Sequence[bytes | None]) -> Packed:
    """Encoded values."""
    return _joined([pa.array(values[i : i + _BULK], pa.large_binary()) for i in range(0, len(values), _BULK)])


def pack_keys(keys: Sequence[bytes]) -> Packed:
    """Encoded keys: as `pack_bytes`, at half the cost; keys of one length can be put in another order far faster."""
    count, data = len(keys), pa.py_buffer(b"".join(keys))
    lengths = np.fromiter(map(len, keys), np.int64, count)
    if count and (lengths == lengths[0]).all():
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(int(lengths[0])), count, [None, data])
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), data])


def pack_entry_keys(entries: Sequence[Entry], max_parallelism: int) -> tuple[Packed, npt.NDArray[np.int16]]:
    """The encoded keys of entries, and their key groups; numbers without a look at each."""
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


def pack_values(values: Sequence[Any], state: SavedState) -> Packed | None:
    """Values of a state that packs, as its serializer writes them; None if it has to be asked."""
    try:
        if state.value_type == _STRING:
            if _TEXTS.issuperset(map(type, values)):
                return pa.array(values, pa.large_string()).cast(pa.large_binary())
            return None
        return _pack_numbers(values, "d" if state.value_type == _DOUBLE else "q")
    except (pa.ArrowException, struct.error, ValueError, OverflowError):
        return None


def _pack_numbers(values: Sequence[Any], code: str) -> Packed:
    """Numbers and None; a tenth of what numpy takes for a list."""
    valid = None
    if None in values:
        is_valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        valid = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        values = [0 if value is None else value for value in values]
    data = pa.py_buffer(struct.pack(f"<{len(values)}{code}", *values))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(values), [valid, data])


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
        """That of encoded keys and their key groups."""
        order = np.argsort(key_groups, kind="stable")
        in_order = key_groups[order]
        starts = [0, *(np.flatnonzero(np.diff(in_order)) + 1).tolist()] if len(order) else []
        ends = [*starts, len(order)][1:]
        positions = pa.array(order)
        return cls(positions, keys.take(positions), list(zip(in_order[starts].tolist(), starts, ends, strict=True)))

    @classmethod
    def of_entries(cls, entries: Sequence[Entry], max_parallelism: int) -> KeyOrder:
        """That of some entries, each once."""
        return cls.of(*pack_entry_keys(entries, max_parallelism))


class KeyColumn:
    """The keys of a list of entries that only grows, kept encoded. Any thread.

    Args:
        entries: the list, which is never changed but at its end.
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
        """That of the first `count` entries."""
        with self._lock:
            if count < self._count:
                # an older snapshot is written after a younger one
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


class TakenEntries:
    """What entries held when they were taken.

    Args:
        states: in the order of their numbers; the namespaced ones are left to the caller.
        entries: those that are taken; the list may grow meanwhile.
        are_all: whether they are all entries of the backend, in their order.
    """

    def __init__(self, states: Sequence[SavedState], entries: list[Entry], are_all: bool) -> None:
        #: number and state of each column
        self.states = [(index, state) for index, state in enumerate(states) if not state.meta.namespaced]
        self.entries = entries
        self._are_all = are_all
        self.columns: list[list[Any]] = [[] for _ in self.states]
        #: columns that hold values as they were, and have to be encoded one by one: column number
        self._unencoded = [i for i, (_, state) in enumerate(self.states) if state.is_shareable and not state.packs]
        self._position = 0

    @property
    def is_cheap(self) -> bool:
        """Whether to take an entry costs less than to write down that it was taken."""
        return all(state.is_shareable for _, state in self.states)

    def make_room(self, count: int) -> None:
        """Let `take` put the first entries where they belong, in whatever order they are taken."""
        self.columns = [[None] * count for _ in self.states]

    def take(self, start: int, end: int) -> None:
        """Take the values of the entries from `start` to `end`.

        Raises:
            StateError: a value does not fit its serializer.
        """
        entries = self.entries[start:end]
        for column, (_, state) in zip(self.columns, self.states, strict=True):
            slots = state.slots[start:end] if self._are_all else [state.slot_of(entry) for entry in entries]
            column[start:end] = slots if state.is_shareable else _encoded(state, slots, entries)

    def encode_some(self, count: int) -> bool:
        """Encode the next values that are not encoded in bulk; False if there are none.

        Raises:
            StateError: a value does not fit its serializer.
        """
        if not self._unencoded:
            return False
        number = self._unencoded[-1]
        column, (_, state), start = self.columns[number], self.states[number], self._position
        self._position = end = min(start + count, len(column))
        column[start:end] = _encoded(state, column[start:end], self.entries[start:end])
        if end == len(column):
            self._unencoded.pop()
            self._position = 0
        return True

    def packed(self, order: KeyOrder) -> PackedColumns:
        """The columns as bytes, in an order. Any thread; once.

        Raises:
            StateError: a value does not fit its serializer.
        """
        packed = {}
        for number, (index, state) in enumerate(self.states):
            values, self.columns[number] = self.columns[number], []
            if state.packs:
                parts = [self._pack(values, start, state) for start in range(0, len(values), _BULK)]
                column = _joined(parts)
            else:
                column = pack_bytes(values)
            if column.null_count < len(column):
                packed[index] = column.take(order.order)
        return PackedColumns(order, packed)

    def _pack(self, values: Sequence[Any], start: int, state: SavedState) -> Packed:
        some = values[start : start + _BULK]
        packed = pack_values(some, state)
        if packed is None:
            # something unusual: the serializer says what it thinks of it
            packed = pa.array(_encoded(state, some, self.entries[start : start + _BULK]), pa.large_binary())
        return packed


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
        """State number, keys and values of the entries from `start` to `end`, without those that have none."""
        keys = self.order.keys.slice(start, end - start)
        for index, column in self.values.items():
            values = column.slice(start, end - start)
            if values.null_count == 0:
                yield index, keys, values
            elif values.null_count < len(values):
                yield index, keys.filter(values.is_valid()), values.drop_null()


def packed_bytes(column: Packed) -> tuple[npt.NDArray[np.int64], bytes]:
    """Lengths and joined bytes of a column without nulls."""
    count, first = len(column), column.offset
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        data = column.buffers()[1].slice(width * first, width * count)
        return np.full(count, width, np.int64), data.to_pybytes()
    _, offsets_buffer, data = column.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, 8 * first)
    start, end = int(offsets[0]), int(offsets[-1])
    return np.diff(offsets), b"" if data is None else data.slice(start, end - start).to_pybytes()
