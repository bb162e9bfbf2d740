"""The write-back cache in front of RocksDB: an entry for each recently used key, with decoded values.

A value is read from RocksDB on first access, and written with a batch of changes; in between it is an ordinary Python
object. An entry records which of its states have changed. Columns read their state from rows and write it to rows.
Task's thread only.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from rocksdict import ColumnFamily, Rdict, WriteBatch

from runtime.core.keys import decode_key, encode_key
from runtime.state.codecs import StateCodec, ValueCodec
from runtime.state.errors import StateError
from runtime.state.map_keys import UnhashableKey
from runtime.state.namespaces import encode_namespace
from runtime.state.rocksdb.instance import RocksDBInstance
from runtime.state.rocksdb.rows import KEY_GROUP, StoredState, prefix_end


class _Unknown:
    """Placeholder for a value that has not been read yet."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final[Any] = _Unknown()
ABSENT: Final[Any] = _Unknown()
"""Placeholder in a map for a key that it does not have."""


MAX_KNOWN: Final = 16_384
"""Maximum number of cached entries of one map: a single key's map may be larger than memory. With fewer, maps of that
size are read from RocksDB repeatedly."""


_SAVED_TOGETHER: Final = 1_024
"""Rows between two checks of a batch's size."""
_ORDERED_BY: Final = "S24"
"""Bytes of a row by which a batch is sorted. Neighbours in a batch should be neighbours in RocksDB's memtable; nothing
else depends on the order."""
_get_row: Final = attrgetter("row")


class CachedEntry(list[Any]):
    """Cached values of one key, by state number.

    UNKNOWN, None = nothing, the value, a NamespaceSlot or a MapSlot. It is a list itself instead of an object that has
    one: there are many entries, and each saves a memory access and a fifth of the bytes.
    """

    # set one by one by the backend: a million calls of __init__ take a third of a second
    __slots__ = ("changed", "key", "row")

    #: the key itself
    key: Any
    #: prefix of the key's rows
    row: bytes
    #: one bit for each state number whose value has to be written
    changed: int

    @property
    def encoded_key(self) -> bytes:
        """Return the key's canonical encoding."""
        return self.row[KEY_GROUP.size :]

    @property
    def key_group(self) -> int:
        """Return the key group that the key belongs to."""
        return KEY_GROUP.unpack_from(self.row)[0]  # type: ignore[no-any-return]


class NamespaceSlot(dict[Hashable, Any]):
    """Cached values of a namespaced state for a key: a value, None or a MapSlot by namespace; others are unknown."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[Hashable] = set()


class MapSlot:
    """Cached entries of a map state for a key and namespace."""

    __slots__ = ("changed", "is_complete", "known")

    def __init__(self) -> None:
        #: by `map_key` of the key: the value, or ABSENT
        self.known: dict[Any, Any] = {}
        self.changed: set[Any] = set()
        #: whether unknown keys are absent
        self.is_complete = False


def map_key(key: Any) -> Any:
    """Return the key under which a map keeps `key`: encodings distinguish 1, 1.0 and True, a dict does not.

    Raises:
        KeyEncodingError: the key has no canonical encoding.
    """
    return key if key.__class__ is str or key.__class__ is int else UnhashableKey(key)


def _encoded_map_key(known_by: Any) -> bytes:
    return known_by.encoded if known_by.__class__ is UnhashableKey else encode_key(known_by)


class Batches:
    """Unwritten changes, in batches of limited size.

    Args:
        db: the database.
        limit: bytes after which another batch begins, and that may be added between two checks; 0 = all in one.
    """

    def __init__(self, db: RocksDBInstance, limit: int) -> None:
        self._db = db
        #: see above
        self.limit = limit or sys.maxsize
        self.all = [db.batch()]

    def fitting(self) -> WriteBatch:
        """Return the batch for the next changes."""
        if self.all[-1].size_in_bytes() >= self.limit:
            self.all.append(self._db.batch())
        return self.all[-1]


class Column(ABC):
    """Rows of one state.

    Args:
        index: number of the state.
        stored: description of its rows, for reading them without this object.
        db: the database.
        timed: whether values have times.
    """

    def __init__(self, index: int, stored: StoredState, db: RocksDBInstance) -> None:
        self.index = index
        self.bit = 1 << index
        self.stored = stored
        self._is_empty = db.is_empty(stored.column)
        #: whether everything in the database is cached: then misses need not be looked up
        self.is_known = self._is_empty
        #: bytes and number of values read or written, from which the size of a cached value is estimated
        self.num_bytes = 0
        self.num_values = 0
        self._db = db
        self._rows: Rdict = db.column(stored.column)
        self._handle: ColumnFamily = db.handle(stored.column)

    def save(self, entries: Sequence[CachedEntry], batches: Batches) -> None:
        """Add the changes of these entries to batches, and clear their marks.

        Raises:
            StateError: a value does not fit its serializer; the message names state and key. Some entries may keep
                their marks.
        """
        for entry in sorted(entries, key=_get_row):
            batch = batches.fitting()
            slot = entry[self.index]
            try:
                if not self.stored.meta.namespaced:
                    self._save_slot(entry.row, slot, batch)
                else:
                    for namespace in slot.changed:
                        self._save_slot(entry.row + encode_namespace(namespace), slot[namespace], batch)
            except Exception as error:
                raise self._unsaved(entry, error) from error
            entry.changed &= ~self.bit

    def saved(self, entries: Sequence[CachedEntry]) -> None:
        """Note that the batches were written: the saved parts of these entries are unchanged."""
        self._is_empty = False
        for entry in entries:
            slot = entry[self.index]
            if not self.stored.meta.namespaced:
                self._slot_saved(slot)
                continue
            for namespace in slot.changed:
                if self._slot_saved(slot[namespace]):
                    # fired windows must not accumulate
                    del slot[namespace]
            slot.changed.clear()

    def forgot(self) -> None:
        """Note that entries were dropped from the cache."""
        self.is_known = self._is_empty

    def _unsaved(self, entry: CachedEntry, error: Exception) -> StateError:
        return StateError(f"state {self.stored.meta.name!r} of key {entry.key!r} cannot be saved: {error}")

    @abstractmethod
    def _save_slot(self, row: bytes, slot: Any, batch: WriteBatch) -> None: ...

    def _slot_saved(self, slot: Any) -> bool:
        """Mark one key and namespace as written; returns whether it is empty."""
        return slot is None


class ValueColumn(Column):
    """Column with one row for each key and namespace."""

    def __init__(self, index: int, stored: StoredState, db: RocksDBInstance, codec: StateCodec) -> None:
        super().__init__(index, stored, db)
        has_ttl = stored.meta.has_ttl
        self._encode = codec.encode_timed if has_ttl else codec.encode
        self._decode = codec.decode_timed if has_ttl else codec.decode

    def load(self, row: bytes) -> Any:
        """Return the value of a row, or None."""
        if self.is_known:
            return None
        data = self._rows.get(row)
        if data is None:
            return None
        self.num_bytes += len(data)
        self.num_values += 1
        return self._decode(data)

    def save(self, entries: Sequence[CachedEntry], batches: Batches) -> None:
        if self.stored.meta.namespaced:
            super().save(entries, batches)
            return
        # as there, but everything is fetched from main memory only once, which is most of the cost: numpy sorts
        # contiguous copies
        index, bit = self.index, self.bit
        rows: list[bytes] = []
        slots: list[Any] = []
        for entry in entries:
            rows.append(entry.row)
            slots.append(entry[index])
            entry.changed &= ~bit
        order = np.argsort(np.array(rows, _ORDERED_BY)).tolist()
        for start in range(0, len(order), _SAVED_TOGETHER):
            some = order[start : start + _SAVED_TOGETHER]
            values = self._encoded([slots[i] for i in some], [entries[i] for i in some])
            sizes = [len(value) for value in values if value is not None]
            num_bytes = sum(sizes)
            self.num_bytes += num_bytes
            self.num_values += len(sizes)
            # small values are added without checking each
            fits = num_bytes <= batches.limit
            batch = self._next(batches)
            for i, value in zip(some, values, strict=True):
                if not fits:
                    batch = self._next(batches)
                if value is None:
                    batch.delete(rows[i])
                else:
                    batch.put(rows[i], value)

    def _next(self, batches: Batches) -> WriteBatch:
        """Return the batch for the next changes; rows without a column family belong to this column."""
        batch = batches.fitting()
        batch.set_default_column_family(self._handle)
        return batch

    def _encoded(self, slots: Sequence[Any], entries: Sequence[CachedEntry]) -> list[bytes | None]:
        encode = self._encode
        try:
            return [None if slot is None else encode(slot) for slot in slots]
        except Exception:
            for entry, slot in zip(entries, slots, strict=True):
                try:
                    if slot is not None:
                        encode(slot)
                except Exception as error:
                    raise self._unsaved(entry, error) from error
            raise

    def saved(self, entries: Sequence[CachedEntry]) -> None:
        if self.stored.meta.namespaced:
            super().saved(entries)
        self._is_empty = False

    def _save_slot(self, row: bytes, slot: Any, batch: WriteBatch) -> None:
        if slot is None:
            batch.delete(row, self._handle)
            return
        data = self._encode(slot)
        self.num_bytes += len(data)
        self.num_values += 1
        batch.put(row, data, self._handle)


class MapColumn(Column):
    """Column with one row for each entry of a map."""

    def __init__(self, index: int, stored: StoredState, db: RocksDBInstance, codec: ValueCodec) -> None:
        super().__init__(index, stored, db)
        has_ttl = stored.meta.has_ttl
        self._encode = codec.encode_timed if has_ttl else codec.encode
        self._decode = codec.decode_timed if has_ttl else codec.decode

    def new_slot(self) -> MapSlot:
        """Make the slot of a key and namespace that has not been read."""
        slot = MapSlot()
        slot.is_complete = self.is_known
        return slot

    def find(self, row: bytes, slot: MapSlot, known_by: Any) -> Any:
        """Return the value of one key, or ABSENT."""
        value = slot.known.get(known_by, UNKNOWN)
        if value is not UNKNOWN:
            return value
        if slot.is_complete:
            return ABSENT
        data = self._rows.get(row + _encoded_map_key(known_by))
        if data is None:
            value = ABSENT
        else:
            self.num_bytes += len(data)
            self.num_values += 1
            value = self._decode(data)
        if len(slot.known) >= MAX_KNOWN:
            self.trim(slot)
        slot.known[known_by] = value
        return value

    def trim(self, slot: MapSlot) -> None:
        """Drop entries that need not be written."""
        slot.known = {known_by: slot.known[known_by] for known_by in slot.changed}
        slot.is_complete = False
        self.is_known = False

    def complete(self, row: bytes, slot: MapSlot) -> None:
        """Load the whole map."""
        if slot.is_complete:
            return
        size, known = len(row), slot.known
        for found, data in self._db.scan(self.stored.column, row, prefix_end(row)):
            known_by = map_key(decode_key(found[size:]))
            if known_by not in known:
                known[known_by] = self._decode(data)
                self.num_bytes += len(data)
                self.num_values += 1
        slot.is_complete = True

    def has_any(self, row: bytes, slot: MapSlot) -> bool:
        """Return whether the map has an entry."""
        if any(value is not ABSENT for value in slot.known.values()):
            return True
        if slot.is_complete:
            return False
        rows = self._db.scan(self.stored.column, row, prefix_end(row))
        return any(map_key(decode_key(found[len(row) :])) not in slot.known for found, _ in rows)

    def _save_slot(self, row: bytes, slot: Any, batch: WriteBatch) -> None:
        for known_by in slot.changed:
            value = slot.known[known_by]
            if value is ABSENT:
                batch.delete(row + _encoded_map_key(known_by), self._handle)
            else:
                data = self._encode(value)
                self.num_bytes += len(data)
                self.num_values += 1
                batch.put(row + _encoded_map_key(known_by), data, self._handle)

    def _slot_saved(self, slot: Any) -> bool:
        if slot.is_complete:
            for known_by in slot.changed:
                if slot.known[known_by] is ABSENT:
                    del slot.known[known_by]
        slot.changed.clear()
        if len(slot.known) >= MAX_KNOWN // 2:
            self.trim(slot)
        return not slot.known


__all__ = [
    "ABSENT",
    "MAX_KNOWN",
    "UNKNOWN",
    "Batches",
    "CachedEntry",
    "Column",
    "MapColumn",
    "MapSlot",
    "NamespaceSlot",
    "ValueColumn",
    "map_key",
]
