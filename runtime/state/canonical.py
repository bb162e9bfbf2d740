"""The canonical file: a KeyedSnapshot as one block file with a block per key group.

Savepoints contain it, whichever backend wrote them. Encoding handles one key group at a time; decoding is lazy: a key
group is read on request, and never kept. Backends' formats that build on it use the same parts (`encode_group`,
`pack_columns`). It contains no pickles except those of users' serializers. Any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from runtime.core.ids import KeyGroup
from runtime.state.block_file import BlockFile, BlockStream, ReadRange, local_reads, pack_columns, unpack_columns
from runtime.state.handles import DamagedSnapshotError
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, TimerEntry
from runtime.state.state_meta import StateMeta, meta_from_json, meta_to_json

CANONICAL_FORMAT: Final = "canonical"
"""`KeyedStateHandle.format` of state in one such file."""
CANONICAL_FILE: Final = "state"
"""Its name among the handle's files."""

_SECTIONS: Final = struct.Struct("<H")
_SECTION: Final = struct.Struct("<BH")
_COUNT: Final = struct.Struct("<I")
_STATE, _EVENT_TIMERS, _PROCESSING_TIMERS = range(3)


def encode_canonical(snapshot: KeyedSnapshot, compression: str = "none") -> BlockStream:
    """Return a snapshot as the bytes of a canonical file, produced during iteration, one key group at a time.

    Args:
        snapshot: its groups may be a mapping that loads them on request.
        compression: of each block: none | zstd | lz4.

    Raises:
        ValueError: there is no such compression.
    """
    header = {
        "format": CANONICAL_FORMAT,
        "max_parallelism": snapshot.max_parallelism,
        "states": [meta_to_json(meta) for meta in snapshot.metas.values()],
    }
    return BlockStream(header, _Blocks(snapshot.groups), compression)


class _Blocks:
    """The blocks of key groups; may be iterated again, so that a failed write can be retried."""

    def __init__(self, groups: Mapping[KeyGroup, KeyGroupSnapshot]) -> None:
        self._groups = groups

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for key_group in sorted(self._groups):
            yield key_group, encode_group(self._groups[key_group])


class CanonicalFile:
    """Reads a canonical file.

    Args:
        read: returns ranges of the file.
        size: of the file, bytes.
        name: for error messages.

    Raises:
        DamagedSnapshotError: it is not a canonical file, or its index is corrupt.
    """

    def __init__(self, read: ReadRange, size: int, name: str = "of canonical state") -> None:
        self._file = BlockFile(read, size, name)
        header = self._file.header
        if header.get("format") != CANONICAL_FORMAT:
            raise DamagedSnapshotError(name, f"it is a {header.get('format')} file, not a canonical one")
        self.max_parallelism: int = header["max_parallelism"]
        metas = [meta_from_json(saved) for saved in header["states"]]
        self.metas: Mapping[str, StateMeta] = {meta.name: meta for meta in metas}

    @classmethod
    def of_bytes(cls, data: bytes, name: str = "of canonical state") -> CanonicalFile:
        """Return a reader of a file in memory."""
        return cls(lambda offset, length: data[offset : offset + length], len(data), name)

    @classmethod
    def of_path(cls, path: Path) -> CanonicalFile:
        """Return a reader of a local file; it is opened for each read, so nothing has to be closed.

        Raises:
            OSError: it cannot be read.
            DamagedSnapshotError: see the class.
        """
        return cls(local_reads(path), path.stat().st_size, str(path))

    @property
    def key_groups(self) -> list[KeyGroup]:
        """Return the key groups that have state, ascending."""
        return [KeyGroup(number) for number in self._file.numbers]

    def size_of(self, key_group: KeyGroup) -> int:
        """Return the stored bytes of a key group; 0 if it has no state."""
        return self._file.size_of(key_group)

    def group(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        """Return the state of a key group.

        Raises:
            KeyError: it has none.
            DamagedSnapshotError: it is corrupt.
        """
        parts = [self._decoded(block) for block in self._file.blocks(key_group)]
        if not parts:
            raise KeyError(key_group)
        return parts[0]

    def snapshot(self, key_groups: Iterable[int] | None = None) -> KeyedSnapshot:
        """Return the content of some key groups (any iterable or range; None = all); groups load on demand."""
        present = self.key_groups
        if key_groups is not None:
            wanted = key_groups if isinstance(key_groups, range) else set(key_groups)
            present = [key_group for key_group in present if key_group in wanted]
        return KeyedSnapshot(self.max_parallelism, self.metas, LazyGroups(self, present))

    def verify(self) -> None:
        """Read everything once.

        Raises:
            DamagedSnapshotError: something is corrupt.
        """
        for _, block in self._file.all_blocks():
            self._decoded(block)

    def _decoded(self, block: bytes) -> KeyGroupSnapshot:
        try:
            return decode_group(block)
        except (ValueError, struct.error) as error:
            raise DamagedSnapshotError(self._file.name, f"a key group cannot be decoded: {error}") from error


class LazyGroups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups of a canonical file; each is read on every request and not kept."""

    def __init__(self, file: CanonicalFile, key_groups: Sequence[KeyGroup]) -> None:
        self._file = file
        self._key_groups = dict.fromkeys(key_groups)

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        if key_group not in self._key_groups:
            raise KeyError(key_group)
        return self._file.group(key_group)

    def __contains__(self, key_group: object) -> bool:
        # the inherited one would read the group
        return key_group in self._key_groups

    def __iter__(self) -> Iterator[KeyGroup]:
        return iter(self._key_groups)

    def __len__(self) -> int:
        return len(self._key_groups)


# --- one key group ----------------------------------------------------------------------------------------------------


def encode_group(group: KeyGroupSnapshot) -> bytes:
    """Return the state of one key group as bytes: sections of columns, one for each state and timer service."""
    parts = [_SECTIONS.pack(len(group.states) + len(group.event_timers) + len(group.processing_timers))]
    for name, entries in group.states.items():
        columns = [[e.key for e in entries], [e.namespace for e in entries], [e.value for e in entries]]
        parts += [_section(_STATE, name), pack_columns(columns)]
    for kind, services in ((_EVENT_TIMERS, group.event_timers), (_PROCESSING_TIMERS, group.processing_timers)):
        for name, timers in services.items():
            parts += [_section(kind, name), encode_timers(timers)]
    return b"".join(parts)


def decode_group(data: bytes) -> KeyGroupSnapshot:
    """Return the state passed to `encode_group`.

    Raises:
        ValueError, struct.error: `data` is not of that form.
    """
    states: dict[str, list[StateEntry]] = {}
    timers: tuple[dict[str, list[TimerEntry]], ...] = ({}, {}, {})
    (num_sections,) = _SECTIONS.unpack_from(data)
    offset = _SECTIONS.size
    for _ in range(num_sections):
        kind, length = _SECTION.unpack_from(data, offset)
        offset += _SECTION.size
        name = data[offset : offset + length].decode()
        offset += length
        if kind == _STATE:
            columns, offset = unpack_columns(data, offset, 3)
            states[name] = list(map(StateEntry, *columns))
        elif kind in (_EVENT_TIMERS, _PROCESSING_TIMERS):
            timers[kind][name], offset = decode_timers(data, offset)
        else:
            raise ValueError(f"there are no sections of kind {kind}")
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes are left over")
    return KeyGroupSnapshot(states, timers[_EVENT_TIMERS], timers[_PROCESSING_TIMERS])


def encode_timers(timers: Sequence[TimerEntry]) -> bytes:
    """Return timers as bytes, in their order."""
    times = np.fromiter((timer.timestamp for timer in timers), "<i8", len(timers))
    columns = pack_columns([[timer.key for timer in timers], [timer.namespace for timer in timers]])
    return _COUNT.pack(len(timers)) + times.tobytes() + columns


def decode_timers(data: bytes, offset: int) -> tuple[list[TimerEntry], int]:
    """Return the timers passed to `encode_timers`, and where they end in `data`.

    Raises:
        ValueError, struct.error: `data` is not of that form.
    """
    (count,) = _COUNT.unpack_from(data, offset)
    offset += _COUNT.size
    times = np.frombuffer(data, "<i8", count, offset).tolist()
    (keys, namespaces), offset = unpack_columns(data, offset + 8 * count, 2)
    if len(keys) != count:
        raise ValueError(f"{count} timers have {len(keys)} keys")
    return list(map(TimerEntry, times, keys, namespaces)), offset  # type: ignore[arg-type]


def _section(kind: int, name: str) -> bytes:
    encoded = name.encode()
    return _SECTION.pack(kind, len(encoded)) + encoded
