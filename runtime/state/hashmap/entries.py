"""Tables in which the backends find a key's entry: one dict lookup for the usual kinds of keys.

Keys of exact type str, int, bool, bytes and None, and tuples of these, are looked up directly, in a dict per exact
type, so that 1, 1.0 and True stay distinct. Every other key is looked up by its canonical encoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from runtime.core.keys import encode_key, key_hash
from runtime.state.errors import NoCurrentKeyError

_DIRECT_TYPES = (str, int, bool, bytes, type(None))
"""Types whose equal values (within one exact type) have equal encodings, so that a plain dict can distinguish them; not
float, because NaN differs from itself."""
_FIRST_TIDY = 64
"""Number of tuple shapes at which those without entries are first removed, and again whenever it has doubled."""
_DIRECT_TYPE_SET = frozenset(_DIRECT_TYPES)


DROPPED: Final = -1
"""Position of an entry that the backend has removed because no state had a value for it."""


class Entry:
    """A key of the backend.

    Args:
        encoded_key: None = encoded on request: a snapshot encodes those of numbers in bulk.
        key_group: if negative, minus the number of key groups: computed on request.
    """

    __slots__ = ("_encoded_key", "_key_group", "index", "key", "touched")

    def __init__(self, key: Any, encoded_key: bytes | None, key_group: int, index: int, epoch: int) -> None:
        self.key = key
        self._encoded_key = encoded_key
        self._key_group = key_group
        #: position among all entries, of which each state has a list of slots; or DROPPED
        self.index = index
        #: number of the last watched epoch in which it was the current entry; see runtime.state.hashmap.changes
        self.touched = epoch

    @property
    def encoded_key(self) -> bytes:
        """Return the key's canonical encoding. Any thread."""
        encoded = self._encoded_key
        if encoded is None:
            # two threads may both compute it, with equal results
            self._encoded_key = encoded = encode_key(self.key)
        return encoded

    @property
    def key_group(self) -> int:
        """Return the key group that the key belongs to. Any thread."""
        key_group = self._key_group
        if key_group < 0:
            self._key_group = key_group = key_hash(self.encoded_key) % -key_group
        return key_group


class _NoEntry:
    """Placeholder for the current entry while there is no current key; every use of it is an error."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        raise NoCurrentKeyError

    def __getitem__(self, index: int) -> Any:
        raise NoCurrentKeyError

    def __setitem__(self, index: int, value: Any) -> None:
        raise NoCurrentKeyError


NO_ENTRY: Any = _NoEntry()

EntryFactory = Callable[[Any, bytes], Entry]
"""Creates the entry of (key, encoded key), or raises if the key does not belong here."""
UnencodedEntryFactory = Callable[[Any], Entry]
"""Creates the entry of a key that always has an encoding and always belongs here."""


class KeyTable(Protocol):
    """Finds or creates the entry of a key."""

    def __getitem__(self, key: Any, /) -> Entry: ...


class DirectTable(dict[Any, Entry]):
    """Entries by the key itself; for keys of one exact type."""

    __slots__ = ("_make",)

    def __init__(self, make: EntryFactory) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Entry:
        self[key] = entry = self._make(key, encode_key(key))
        return entry


class UnencodedTable(dict[Any, Entry]):
    """A direct table of keys whose encoding is not needed before a snapshot is taken."""

    __slots__ = ("_make",)

    def __init__(self, make: UnencodedEntryFactory) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Any) -> Entry:
        self[key] = entry = self._make(key)
        return entry


class TupleTable:
    """Entries of tuples: by the tuple itself if its items are of direct types, otherwise by encoding."""

    __slots__ = ("_by_types", "_encoded", "_make", "_tidy_at")

    def __init__(self, make: EntryFactory, encoded: EncodedTable) -> None:
        self._make = make
        self._encoded = encoded
        self._by_types: dict[tuple[type, ...], DirectTable] = {}
        self._tidy_at = _FIRST_TIDY

    def __getitem__(self, key: Any) -> Entry:
        types = tuple(map(type, key))
        table = self._by_types.get(types)
        if table is not None:
            return table[key]
        if not _DIRECT_TYPE_SET.issuperset(types):
            return self._encoded[key]
        if len(self._by_types) >= self._tidy_at:
            self._drop_empty_tables()
        self._by_types[types] = table = DirectTable(self._make)
        return table[key]

    def direct_tables(self) -> Iterator[DirectTable]:
        return iter(self._by_types.values())

    def _drop_empty_tables(self) -> None:
        """Remove the shapes of tuples without entries: the number of shapes is unlimited.

        This does not happen when entries are removed, because an entry of such a table may be under construction.
        """
        self._by_types = {types: table for types, table in self._by_types.items() if table}
        self._tidy_at = max(_FIRST_TIDY, 2 * len(self._by_types))


class EncodedTable:
    """Entries by the canonical encoding of the key.

    `encode_key` refuses subclasses and the encoding names the type, so no key is both in this table and in a direct
    one.
    """

    __slots__ = ("_make", "entries")

    def __init__(self, make: EntryFactory) -> None:
        self._make = make
        self.entries: dict[bytes, Entry] = {}

    def __getitem__(self, key: Any) -> Entry:
        encoded = encode_key(key)
        entry = self.entries.get(encoded)
        if entry is None:
            self.entries[encoded] = entry = self._make(key, encoded)
        return entry


class KeyTables(dict[type, KeyTable]):
    """Holds the table of each exact type of key: `tables[key.__class__][key]` is the key's entry.

    Args:
        make_unencoded: for keys of type int; None = `make` is called for them too.
    """

    def __init__(self, make: EntryFactory, make_unencoded: UnencodedEntryFactory | None = None) -> None:
        super().__init__()
        self._encoded = EncodedTable(make)
        self._tuples = TupleTable(make, self._encoded)
        direct: dict[type, dict[Any, Entry]] = {key_type: DirectTable(make) for key_type in _DIRECT_TYPES}
        if make_unencoded is not None:
            direct[int] = UnencodedTable(make_unencoded)
        self._direct = list(direct.values())
        self.update(direct)
        self[tuple] = self._tuples

    def __missing__(self, key_type: type) -> KeyTable:
        self[key_type] = self._encoded
        return self._encoded

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, in no order; the tables must not change meanwhile."""
        for table in self._dicts():
            yield from table.values()

    def drop(self, is_dead: Callable[[Entry], bool]) -> int:
        """Remove the entries for which `is_dead`; returns how many are left."""
        left = 0
        for table in self._dicts():
            for key in [key for key, entry in table.items() if is_dead(entry)]:
                del table[key]
            left += len(table)
        return left

    def drop_run(self, share: float, where: float, is_kept: Callable[[Entry], bool]) -> int:
        """Evict a run of entries in order of creation, up to that share of all, except those to keep.

        Args:
            share: of the entries, from 0 to 1.
            where: from 0, the oldest, to 1, the newest.
            is_kept: whether an entry has to stay.

        Returns:
            How many are left.
        """
        left = 0
        for table in self._dicts():
            count = math.ceil(len(table) * share)
            start = int((len(table) - count) * where)
            for key in [key for key, entry in islice(table.items(), start, start + count) if not is_kept(entry)]:
                del table[key]
            left += len(table)
        return left

    def _dicts(self) -> Iterator[dict[Any, Entry]]:
        yield from self._direct
        yield from self._tuples.direct_tables()
        yield self._encoded.entries
