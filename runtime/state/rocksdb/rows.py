"""Layout of keyed state in rows, and its conversion to the canonical form.

    state:  key group (2, big-endian) | key | namespace [| map key]   →  the value, by its codec
    timer:  key group (2) | timestamp (8, sign flipped) | key | namespace   →  length of the key (4), number (8)

Keys, namespaces and map keys are in the canonical encoding, which is prefix-free: the rows of a key are contiguous, and
so are those of a key group, so that rescaling moves ranges. A map has one row per entry. State of any kind that was
restored from another format and not requested yet has one row per value. Pure.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from runtime.core.ids import KeyGroup
from runtime.core.keys import decode_key, key_end
from runtime.core.serializers import serializer_by_name
from runtime.state.codecs import MapCodec, ValueCodec
from runtime.state.map_keys import dict_key
from runtime.state.rocksdb.instance import RocksDBInstance
from runtime.state.snapshot import KeyGroupSnapshot, StateEntry, TimerEntry
from runtime.state.state_meta import StateMeta, meta_from_json, meta_to_json

KEY_GROUP: Final = struct.Struct(">H")
TIMER: Final = struct.Struct(">HQ")
TIMER_VALUE: Final = struct.Struct(">IQ")
SIGN: Final = 1 << 63
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
STATE_COLUMN: Final = "state:"
EVENT_COLUMN: Final = "event timers:"
PROCESSING_COLUMN: Final = "processing timers:"


MayDecode = Callable[[str], bool]
"""Returns whether values of a serializer, given by its name, may be decoded: unpickling runs their writer's code."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """Description of a state's rows, for reading them without its descriptor."""

    meta: StateMeta
    map_serializers: tuple[str, str] | None = None
    """Names of the key's and the value's serializers, of a map with one row per entry."""
    is_hidden: bool = False
    """Whether the entries of a map are left out, because nothing may decode them: its value is b"" then."""

    def hidden_unless(self, may_decode: MayDecode) -> StoredState:
        """Return the state, hidden if the rows of a map would be decoded and must not be."""
        return self if all(map(may_decode, self.map_serializers or ())) else replace(self, is_hidden=True)

    @property
    def column(self) -> str:
        """Return the name of the column family."""
        return STATE_COLUMN + self.meta.name


def states_to_json(states: Iterable[StoredState]) -> bytes:
    """Return states as JSON, for the metadata of a handle."""
    saved = [{**meta_to_json(state.meta), "map": state.map_serializers} for state in states]
    return json.dumps({"states": saved}, separators=(",", ":")).encode()


def states_from_json(data: bytes) -> dict[str, StoredState]:
    """Return the states passed to `states_to_json`, by name.

    Raises:
        ValueError, KeyError: `data` is not of that form.
    """
    found = {}
    for saved in json.loads(data)["states"]:
        serializers = saved.get("map")
        found[saved["name"]] = StoredState(meta_from_json(saved), None if serializers is None else tuple(serializers))
    return found


def group_end(key_group: int) -> bytes:
    """Return the end of a key group's rows."""
    return KEY_GROUP.pack(key_group + 1)


def prefix_end(prefix: bytes) -> bytes:
    """Return the end of the rows that start with `prefix`, which starts with a key group."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


def timer_row(key_group: int, timestamp: int, key: bytes, namespace: bytes) -> bytes:
    """Return the row of a timer."""
    return TIMER.pack(key_group, timestamp + SIGN) + key + namespace


def timer_of(row: bytes, key_size: int) -> TimerEntry:
    """Return the timer of a row made by `timer_row`."""
    end = TIMER.size + key_size
    return TimerEntry(TIMER.unpack_from(row)[1] - SIGN, row[TIMER.size : end], row[end:])


def read_entries(db: RocksDBInstance, state: StoredState, key_group: int) -> Iterator[StateEntry]:
    """Yield the content of a state in a key group, in the canonical form."""
    return entries_of(db.scan(state.column, KEY_GROUP.pack(key_group), group_end(key_group)), state)


def entries_of(rows: Iterator[tuple[bytes, bytes]], state: StoredState) -> Iterator[StateEntry]:
    """Yield the content of a state's rows, in the canonical form."""
    if state.map_serializers is not None:
        yield from _map_entries(rows, state)
    elif state.meta.namespaced:
        for row, value in rows:
            end = key_end(row, KEY_GROUP.size)
            yield StateEntry(row[KEY_GROUP.size : end], row[end:], value)
    else:
        for row, value in rows:
            yield StateEntry(row[KEY_GROUP.size :], b"", value)


Keep = Callable[[bytes], bytes | None]
"""Returns the part of a canonical value that a snapshot keeps, None if nothing."""


def read_group(
    db: RocksDBInstance, states: Iterable[StoredState], key_group: KeyGroup, keep: Mapping[str, Keep] = NOTHING
) -> KeyGroupSnapshot:
    """Return a key group in the canonical form.

    Args:
        db: the database.
        states: the states to read.
        key_group: the key group to read.
        keep: by name of the state, filters of values.
    """
    found = {}
    for state in states:
        entries = list(read_entries(db, state, key_group))
        if state.meta.name in keep:
            left = ((entry, keep[state.meta.name](entry.value)) for entry in entries)
            entries = [replace(entry, value=value) for entry, value in left if value is not None]
        if entries:
            found[state.meta.name] = entries
    timers: tuple[dict[str, list[TimerEntry]], dict[str, list[TimerEntry]]] = ({}, {})
    for column in db.columns:
        for prefix, target in zip((EVENT_COLUMN, PROCESSING_COLUMN), timers, strict=True):
            if column.startswith(prefix):
                timers_found = timers_of(db.scan(column, KEY_GROUP.pack(key_group), group_end(key_group)))
                if timers_found:
                    target[column.removeprefix(prefix)] = timers_found
    return KeyGroupSnapshot(found, *timers)


def timers_of(rows: Iterable[tuple[bytes, bytes]], key: bytes | None = None) -> list[TimerEntry]:
    """Return the timers of rows in firing order, as in every canonical snapshot; of one key, or of all."""
    found: list[tuple[TimerEntry, int]] = []
    for row, value in rows:
        size, sequence = TIMER_VALUE.unpack(value)
        timer = timer_of(row, size)
        if key is None or timer.key == key:
            found.append((timer, sequence))
    found.sort(key=lambda pair: (pair[0].timestamp, pair[1]))
    return [timer for timer, _ in found]


def _map_entries(rows: Iterator[tuple[bytes, bytes]], state: StoredState) -> Iterator[StateEntry]:
    assert state.map_serializers is not None
    keys, values = map(serializer_by_name, state.map_serializers)
    whole, single = MapCodec(keys, values), ValueCodec("map", values)
    decode = single.decode_timed if state.meta.has_ttl else single.decode
    encode = whole.encode_timed if state.meta.has_ttl else whole.encode
    current: tuple[bytes, bytes] | None = None
    mapping: dict[Any, Any] = {}
    for row, value in rows:
        end = key_end(row, KEY_GROUP.size)
        namespace_end = key_end(row, end) if state.meta.namespaced else end
        where = row[KEY_GROUP.size : end], row[end:namespace_end]
        if where != current:
            if current is not None:
                yield StateEntry(*current, b"" if state.is_hidden else encode(mapping))
            current, mapping = where, {}
        if not state.is_hidden:
            mapping[dict_key(decode_key(row[namespace_end:]))] = decode(value)
    if current is not None:
        yield StateEntry(*current, b"" if state.is_hidden else encode(mapping))
