"""Files of the hashmap backend: a base and the changes since, each a block file with a block per key group.

A block lists the touched keys with their present values (none, if their state is gone), and the timers added and
removed; a base is the same with everything in it. Reading overlays the files in order: a touched key replaces earlier
values of the states that its file names. Any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from runtime.core.ids import KeyGroup
from runtime.state.block_file import BlockFile, BlockStream, pack_columns, unpack_columns
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, StateFileReader
from runtime.state.hashmap.columns import Packed, PackedColumns, packed_bytes
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, TimerEntry
from runtime.state.state_meta import StateMeta, meta_from_json, meta_to_json

HASHMAP_FORMAT: Final = "hashmap"
"""`KeyedStateHandle.format` of this backend's own form."""

TOUCHED, STATE, EVENT_TIMER, PROCESSING_TIMER, GONE_EVENT_TIMER, GONE_PROCESSING_TIMER = range(6)
_PACKED_TOUCHED, _PACKED_STATE = 6, 7
"""Like TOUCHED and STATE, with a number in front of each column: the length of all its values, or a marker that each
has its own."""
_SECTIONS = struct.Struct("<H")
_SECTION = struct.Struct("<BH")
_COUNT = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<I")
_MAX_LENGTH: Final = (1 << 32) - 2
"""Maximum length; the largest number of four bytes marks a missing value, or values with a length each."""
_VARIES: Final = (1 << 32) - 1

Rows = tuple[list[bytes], list[bytes], list[bytes]]
"""Keys, namespaces and values, by row."""
TimerRows = tuple[list[int], list[bytes], list[bytes]]
"""Timestamps, keys and namespaces, by row."""


class GroupDraft:
    """Builds the block of one key group row by row."""

    __slots__ = ("rows", "timers")

    def __init__(self) -> None:
        #: by state number
        self.rows: dict[int, Rows] = {}
        #: by kind of section and number of the timer service
        self.timers: dict[tuple[int, int], TimerRows] = {}

    def rows_of(self, index: int) -> Rows:
        """Return the rows of a state, for appending."""
        rows = self.rows.get(index)
        if rows is None:
            rows = self.rows[index] = ([], [], [])
        return rows

    def timers_of(self, kind: int, index: int) -> TimerRows:
        """Return the timers of one kind of a service, for appending."""
        return self.timers.setdefault((kind, index), ([], [], []))

    def encode(self) -> bytes:
        """Return the block's bytes."""
        parts = [_SECTIONS.pack(len(self.rows) + len(self.timers))]
        for index, rows in self.rows.items():
            parts += [_SECTION.pack(STATE, index), pack_columns(rows)]
        for (kind, index), (times, keys, namespaces) in self.timers.items():
            parts += [_SECTION.pack(kind, index), _COUNT.pack(len(times)), np.array(times, "<i8").tobytes()]
            parts.append(pack_columns([keys, namespaces]))
        return b"".join(parts)


def encode_columns(columns: PackedColumns, start: int, end: int, is_base: bool) -> bytes:
    """Return the block of the entries from `start` to `end`, which belong to one key group.

    Args:
        columns: of all entries.
        start, end: positions in the order of the columns.
        is_base: whether the file builds on no other.
    """
    parts, count = [], 0
    if not is_base:
        parts += [_SECTION.pack(_PACKED_TOUCHED, 0), _COUNT.pack(end - start)]
        parts += _column_parts(columns.order.keys.slice(start, end - start))
        count = 1
    for index, keys, values in columns.rows(start, end):
        # after the keys: namespaces, of which there are none
        parts += [_SECTION.pack(_PACKED_STATE, index), _COUNT.pack(len(keys)), *_column_parts(keys)]
        parts += [_LENGTH.pack(0), *_column_parts(values)]
        count += 1
    return b"".join([_SECTIONS.pack(count), *parts])


def _column_parts(column: Packed) -> list[bytes]:
    """Return a column without nulls as parts: the length of all values, or each its own; then the values."""
    lengths, data = packed_bytes(column)
    if isinstance(lengths, int):
        return [_LENGTH.pack(lengths), data]
    if len(lengths) and int(lengths.max()) > _MAX_LENGTH:
        raise OverflowError("a value of 4 GiB or more does not fit a snapshot")
    return [_LENGTH.pack(_VARIES), lengths.astype("<u4").tobytes(), data]


def _unpacked(block: bytes, offset: int, num_columns: int) -> tuple[list[Any], int]:
    """Return the columns of a packed section, and where it ends."""
    (count,) = _COUNT.unpack_from(block, offset)
    offset += _COUNT.size
    columns = []
    for _ in range(num_columns):
        (length,) = _LENGTH.unpack_from(block, offset)
        offset += _LENGTH.size
        if length == _VARIES:
            lengths = np.frombuffer(block, "<u4", count, offset).astype(np.int64)
            offset += 4 * count
            ends = offset + np.cumsum(lengths)
            columns.append([block[at:to] for at, to in zip((ends - lengths).tolist(), ends.tolist(), strict=True)])
            offset = int(ends[-1]) if count else offset
        else:
            end = offset + length * count
            columns.append([block[at : at + length] for at in range(offset, end, length)] if length else [b""] * count)
            offset = end
        if offset > len(block):
            raise ValueError(f"values end at {offset} of {len(block)} bytes")
    return columns, offset


def encode_file(
    metas: Iterable[StateMeta],
    services: Iterable[str],
    columns: PackedColumns,
    groups: Mapping[int, GroupDraft],
    is_base: bool,
    compression: str,
) -> BlockStream:
    """Return the bytes of a file, produced during iteration, one key group at a time.

    Args:
        metas: of the states, in the order of their numbers.
        services: names of the timer services, likewise.
        columns: entries and their values, except of namespaced states.
        groups: the rest, by key group.
        is_base: whether the file builds on no other.
        compression: of each block: none | zstd | lz4.
    """
    header = {
        "format": HASHMAP_FORMAT,
        "states": [meta_to_json(meta) for meta in metas],
        "services": list(services),
        "is_base": is_base,
    }
    return BlockStream(header, _Blocks(columns, groups, is_base), compression)


class GroupDrafts(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Content of a future file in the canonical form; each key group is built on request."""

    def __init__(
        self,
        columns: PackedColumns,
        groups: Mapping[int, GroupDraft],
        metas: Sequence[StateMeta],
        services: Sequence[str],
    ) -> None:
        self._columns = columns
        self._bounds = {key_group: (start, end) for key_group, start, end in columns.order.groups}
        self._groups = groups
        self._numbers = self._bounds.keys() | groups.keys()
        self._metas = metas
        self._services = services

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        if key_group not in self._numbers:
            raise KeyError(key_group)
        group = self._groups.get(key_group) or GroupDraft()
        timers: dict[int, dict[str, list[TimerEntry]]] = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        for (kind, index), rows in group.timers.items():
            # in firing order, as in every canonical snapshot
            in_order = sorted(map(TimerEntry, *rows), key=lambda timer: timer.timestamp)
            timers[kind][self._services[index]] = in_order
        states = {}
        for index, keys, values in self._columns.rows(*self._bounds.get(key_group, (0, 0))):
            pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
            states[self._metas[index].name] = [StateEntry(key, b"", value) for key, value in pairs]
        for index, state_rows in group.rows.items():
            if state_rows[0]:
                states[self._metas[index].name] = list(map(StateEntry, *state_rows))
        return KeyGroupSnapshot(states, timers[EVENT_TIMER], timers[PROCESSING_TIMER])

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._numbers

    def __iter__(self) -> Iterator[KeyGroup]:
        return (KeyGroup(key_group) for key_group in sorted(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


class _Blocks:
    """A block of columns and one of the rest for each key group; may be iterated again."""

    def __init__(self, columns: PackedColumns, groups: Mapping[int, GroupDraft], is_base: bool) -> None:
        self._columns = columns
        self._bounds = {key_group: (start, end) for key_group, start, end in columns.order.groups}
        self._groups = groups
        self._is_base = is_base

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for key_group in sorted(self._bounds.keys() | self._groups.keys()):
            if key_group in self._bounds:
                yield key_group, encode_columns(self._columns, *self._bounds[key_group], self._is_base)
            if key_group in self._groups:
                yield key_group, self._groups[key_group].encode()


def read_hashmap_state(handle: KeyedStateHandle, key_groups: range, files: StateFileReader) -> KeyedSnapshot:
    """Return the content of a handle of the hashmap format for some key groups, in memory.

    Raises:
        DamagedSnapshotError: a file is missing or is corrupt.
    """
    opened = (BlockFile.of_bytes(files.read(file), file.uri) for _, file in sorted(handle.files.items()))
    return _overlaid(handle, opened, key_groups)


class HashmapParts:
    """Reads key groups of a handle of the hashmap format one by one, each with its parts of the files only.

    Raises:
        DamagedSnapshotError: a file is missing or is corrupt; each method may raise it.
    """

    def __init__(self, handle: KeyedStateHandle, files: StateFileReader) -> None:
        self._handle = handle
        self._files = [
            BlockFile(partial(files.read_range, file), file.size, file.uri) for _, file in sorted(handle.files.items())
        ]

    @property
    def key_groups(self) -> list[int]:
        """Return the key groups that may have state, ascending."""
        return sorted({number for file in self._files for number in file.numbers})

    @property
    def metas(self) -> Mapping[str, StateMeta]:
        """Return the states by name."""
        return _overlaid(self._handle, self._files, range(0)).metas

    def snapshot(self, key_group: int) -> KeyedSnapshot:
        """Return the content of a key group."""
        return _overlaid(self._handle, self._files, range(key_group, key_group + 1))


def _overlaid(handle: KeyedStateHandle, files: Iterable[BlockFile], key_groups: range) -> KeyedSnapshot:
    """Return the content of some key groups.

    Args:
        files: of the handle, in the order of their names.
    """
    groups: dict[int, _Group] = {}
    metas: dict[str, StateMeta] = {}
    for position, (name, file) in enumerate(zip(sorted(handle.files), files, strict=True)):
        is_expected = file.header.get("format") == HASHMAP_FORMAT and file.header["is_base"] is (position == 0)
        if not is_expected or not name.startswith(f"{position:04d}-"):
            raise DamagedSnapshotError(file.name, "it is not the file that its handle describes")
        states = [meta_from_json(saved) for saved in file.header["states"]]
        metas.update({meta.name: meta for meta in states})
        for key_group in file.numbers:
            if key_group in key_groups:
                group = groups.setdefault(key_group, _Group())
                for block in file.blocks(key_group):
                    _lay_over(group, block, [meta.name for meta in states], file.header["services"], file.name)
    found = {KeyGroup(key_group): groups[key_group].snapshot() for key_group in sorted(groups)}
    return KeyedSnapshot(handle.max_parallelism, metas, found)


class _Group:
    """A key group while files are overlaid."""

    __slots__ = ("states", "timers")

    def __init__(self) -> None:
        #: state → key → its rows
        self.states: dict[str, dict[bytes, list[StateEntry]]] = {}
        #: (kind, service) → timers, in order
        self.timers: dict[tuple[int, str], dict[tuple[int, bytes, bytes], None]] = {}

    def snapshot(self) -> KeyGroupSnapshot:
        states = {
            name: [entry for rows in by_key.values() for entry in rows]
            for name, by_key in self.states.items()
            if by_key
        }
        timers: dict[int, dict[str, list[TimerEntry]]] = {EVENT_TIMER: {}, PROCESSING_TIMER: {}}
        for (kind, service), found in self.timers.items():
            if found:
                timers[kind][service] = [TimerEntry(*timer) for timer in found]
        return KeyGroupSnapshot(states, timers[EVENT_TIMER], timers[PROCESSING_TIMER])


def _lay_over(group: _Group, block: bytes, states: list[str], services: list[str], file: str) -> None:
    try:
        sections = list(_sections(block))
        for kind, index, columns in sections:
            if kind == TOUCHED:
                for name in states:
                    by_key = group.states.get(name)
                    if by_key:
                        for key in columns[0]:
                            by_key.pop(key, None)
            elif kind in (GONE_EVENT_TIMER, GONE_PROCESSING_TIMER):
                timers = group.timers.get((kind - GONE_EVENT_TIMER + EVENT_TIMER, services[index]), {})
                for timer in zip(*columns, strict=True):
                    timers.pop(timer, None)
        for kind, index, columns in sections:
            if kind == STATE:
                by_key = group.states.setdefault(states[index], {})
                for entry in map(StateEntry, *columns):
                    by_key.setdefault(entry.key, []).append(entry)
            elif kind in (EVENT_TIMER, PROCESSING_TIMER):
                timers = group.timers.setdefault((kind, services[index]), {})
                timers.update(dict.fromkeys(zip(*columns, strict=True)))
    except (ValueError, IndexError, struct.error) as error:
        raise DamagedSnapshotError(file, f"a key group cannot be decoded: {error}") from error


def _sections(block: bytes) -> Iterator[tuple[int, int, list[Any]]]:
    (num_sections,) = _SECTIONS.unpack_from(block)
    offset = _SECTIONS.size
    for _ in range(num_sections):
        kind, index = _SECTION.unpack_from(block, offset)
        offset += _SECTION.size
        columns: list[Any]
        if kind in (TOUCHED, STATE):
            columns, offset = unpack_columns(block, offset, 1 if kind == TOUCHED else 3)
        elif kind in (_PACKED_TOUCHED, _PACKED_STATE):
            columns, offset = _unpacked(block, offset, 1 if kind == _PACKED_TOUCHED else 3)
            kind = TOUCHED if kind == _PACKED_TOUCHED else STATE
        elif kind in (EVENT_TIMER, PROCESSING_TIMER, GONE_EVENT_TIMER, GONE_PROCESSING_TIMER):
            (count,) = _COUNT.unpack_from(block, offset)
            offset += _COUNT.size
            times = np.frombuffer(block, "<i8", count, offset).tolist()
            columns, offset = unpack_columns(block, offset + 8 * count, 2)
            columns.insert(0, times)
        else:
            raise ValueError(f"there are no sections of kind {kind}")
        yield kind, index, columns
    if offset != len(block):
        raise ValueError(f"{len(block) - offset} bytes are left over")
