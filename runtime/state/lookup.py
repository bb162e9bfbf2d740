"""Looks for single keys in stored keyed state, reading only what they are in: a key group, or a few rows of a database.

What is read is verified by the checksums of its parts, not of whole files. Keys and values stay encoded. Whoever looks
sets the limits, with `MeteredReader`. Any thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from runtime.core.ids import KeyGroup
from runtime.core.keys import key_end
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, CanonicalFile
from runtime.state.errors import LookupTooLargeError, StateError
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle, StateFileReader
from runtime.state.hashmap.files import HASHMAP_FORMAT, HashmapParts
from runtime.state.key_groups import key_group_of
from runtime.state.rocksdb.partial import PartialDatabase
from runtime.state.rocksdb.restore import states_of
from runtime.state.rocksdb.rows import (
    EVENT_COLUMN,
    KEY_GROUP,
    PROCESSING_COLUMN,
    STATE_COLUMN,
    MayDecode,
    entries_of,
    group_end,
    prefix_end,
    timers_of,
)
from runtime.state.rocksdb.snapshot import ROCKSDB_FORMAT
from runtime.state.segments.snapshot import SEGMENTS_FORMAT, read_segments
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateEntry, TimerEntry
from runtime.state.state_meta import COLUMNAR, StateMeta

MAX_TIMERS: Final = 1_000
"""Maximum number of a key's timers that are told, of each service and kind of time; those that fire first."""


_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class LookupTimeError(StateError):
    """A look has taken the time that it may; what it has found until then stands."""


@contextmanager
def looking_until(deadline: float) -> Iterator[None]:
    """Have looks in this context raise LookupTimeError from a time of `time.monotonic` on.

    They see it at each read of a `MeteredReader`, and at each key group.
    """
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def _check_time() -> None:
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() >= deadline:
        raise LookupTimeError("the look was given up: its time is over")


class MeteredReader:
    """Reads files for a look into a snapshot, up to a number of bytes and to the deadline of `looking_until`.

    Args:
        files: reads them.
        max_bytes: maximum number of bytes to read; None: any.
    """

    def __init__(self, files: StateFileReader, max_bytes: int | None = None) -> None:
        self._files = files
        self._max_bytes = max_bytes
        self.read_bytes = 0

    def read(self, file: FileHandle) -> bytes:
        self._spend(file.size)
        return self._files.read(file)

    def read_range(self, file: FileHandle, offset: int, length: int) -> bytes:
        self._spend(length)
        return self._files.read_range(file, offset, length)

    def download(self, file: FileHandle, path: Path) -> None:
        self._spend(file.size)
        self._files.download(file, path)

    def _spend(self, length: int) -> None:
        _check_time()
        if self._max_bytes is not None and self.read_bytes + length > self._max_bytes:
            raise LookupTooLargeError(
                f"the look was given up: more than {self._max_bytes >> 20} MiB of the state would have to be read"
            )
        self.read_bytes += length


@dataclass(frozen=True, slots=True)
class FoundKey:
    """Entries and timers of one key in stored keyed state."""

    meta: StateMeta | None
    """Of the state; None: there is none of that name here."""
    entries: Sequence[StateEntry] = ()
    """By namespace; of columnar state, the rows of the whole key group."""
    event_timers: Mapping[str, Sequence[TimerEntry]] = field(default_factory=dict)
    """By name of the timer service."""
    processing_timers: Mapping[str, Sequence[TimerEntry]] = field(default_factory=dict)
    num_timers: int = 0
    """Of the key, also those beyond `MAX_TIMERS`."""


def stored_states(handle: KeyedStateHandle, files: StateFileReader) -> Mapping[str, StateMeta]:
    """Return the states in a handle by name; reads nothing but what earlier versions have recorded in files only.

    Raises:
        DamagedSnapshotError, StateError, OSError: see `find_key`.
    """
    if handle.states is not None:
        return {meta.name: meta for meta in handle.states}
    if handle.format == ROCKSDB_FORMAT:
        return {name: state.meta for name, state in states_of(handle).items()}
    return HashmapParts(handle, files).metas if handle.format == HASHMAP_FORMAT else _canonical(handle, files).metas


def find_key(
    handle: KeyedStateHandle,
    state: str,
    key: bytes,
    files: StateFileReader,
    directory: Path,
    may_decode: MayDecode = lambda _: True,
) -> FoundKey:
    """Return what is stored of a key: its value in a state, and its timers.

    Args:
        handle: has the key's group.
        state: name of the state.
        key: in the canonical encoding.
        files: reads the handle's files.
        directory: exists; local copies go there.
        may_decode: asked about a serializer before it decodes the rows of a map; refused ones are left out.

    Raises:
        DamagedSnapshotError: a part is missing or is corrupt.
        StateError: a format that this program does not read, or more than the reader may read.
        OSError: the storage cannot be reached.
    """
    key_group = key_group_of(key, handle.max_parallelism)
    if handle.format == ROCKSDB_FORMAT:
        return _find_in_rows(handle, state, key_group, key, files, directory / f"find-{key_group}", may_decode)
    snapshot = next(_groups(handle, files, [key_group]), None)
    if snapshot is None:
        return FoundKey(stored_states(handle, files).get(state))
    meta, group = snapshot.metas.get(state), snapshot.groups.get(key_group, KeyGroupSnapshot())
    whole = meta is not None and meta.kind == COLUMNAR
    entries = [entry for entry in group.states.get(state, ()) if whole or entry.key == key]
    timers = [_of_key(services, key) for services in (group.event_timers, group.processing_timers)]
    return _found(meta, entries, timers)


def first_keys(handle: KeyedStateHandle, state: str, files: StateFileReader, directory: Path) -> Iterator[bytes]:
    """Yield the encoded keys that have a state, each once, by key group and otherwise in no order; not those of
    columnar state.

    Args:
        handle, state, files, directory: see `find_key`.

    Raises:
        DamagedSnapshotError, StateError, OSError: see `find_key`.
    """
    if handle.format == ROCKSDB_FORMAT:
        yield from _first_rows(handle, state, files, directory / f"first-{handle.key_groups.start}")
        return
    for snapshot in _groups(handle, files):
        if state not in snapshot.metas or snapshot.metas[state].kind == COLUMNAR:
            return
        for group in snapshot.groups.values():
            yield from dict.fromkeys(entry.key for entry in group.states.get(state, ()))


def columnar_entries(
    handle: KeyedStateHandle, state: str, files: StateFileReader
) -> Iterator[tuple[KeyGroup, Sequence[StateEntry]]]:
    """Yield the entries of columnar state by key group."""
    if handle.format != ROCKSDB_FORMAT:
        for snapshot in _groups(handle, files):
            for key_group, group in snapshot.groups.items():
                yield key_group, group.states.get(state, ())


def _groups(
    handle: KeyedStateHandle, files: StateFileReader, wanted: Iterable[int] | None = None
) -> Iterator[KeyedSnapshot]:
    """Yield key groups of files of blocks or of segments, each as a snapshot of its own; those without state are left
    out."""
    if handle.format == CANONICAL_FORMAT:
        opened = _canonical(handle, files)
        present = set(opened.key_groups)
        for number in opened.key_groups if wanted is None else wanted:
            if number in present:
                _check_time()
                key_group = KeyGroup(number)
                yield KeyedSnapshot(handle.max_parallelism, opened.metas, {key_group: opened.group(key_group)})
    elif handle.format == HASHMAP_FORMAT:
        parts = HashmapParts(handle, files)
        for number in parts.key_groups if wanted is None else wanted:
            _check_time()
            yield parts.snapshot(number)
    elif handle.format == SEGMENTS_FORMAT:
        whole = read_segments(handle, handle.key_groups, files)
        for number in whole.groups if wanted is None else wanted:
            _check_time()
            if number in whole.groups:
                key_group = KeyGroup(number)
                yield KeyedSnapshot(handle.max_parallelism, whole.metas, {key_group: whole.groups[key_group]})
    else:
        raise StateError(f"keyed state was saved in the format {handle.format!r}, which this program does not read")


def _canonical(handle: KeyedStateHandle, files: StateFileReader) -> CanonicalFile:
    if CANONICAL_FILE not in handle.files:
        raise DamagedSnapshotError("of canonical state", "its handle names no file")
    file = handle.files[CANONICAL_FILE]
    return CanonicalFile(partial(files.read_range, file), file.size, file.uri)


def _of_key(timers: Mapping[str, Sequence[TimerEntry]], key: bytes) -> dict[str, Sequence[TimerEntry]]:
    """Return the timers of a key in firing order, by service."""
    found = {name: [timer for timer in of_service if timer.key == key] for name, of_service in timers.items()}
    return {name: sorted(own, key=lambda timer: timer.timestamp) for name, own in found.items() if own}


def _found(
    meta: StateMeta | None, entries: Sequence[StateEntry], timers: Sequence[Mapping[str, Sequence[TimerEntry]]]
) -> FoundKey:
    """Return what was found, given the timers of event time and those of processing time in firing order."""
    num_timers = sum(len(own) for services in timers for own in services.values())
    event, processing = ({name: own[:MAX_TIMERS] for name, own in services.items()} for services in timers)
    return FoundKey(meta, entries, event, processing, num_timers)


# --- databases --------------------------------------------------------------------------------------------------------


def _find_in_rows(
    handle: KeyedStateHandle,
    state: str,
    key_group: int,
    key: bytes,
    files: StateFileReader,
    path: Path,
    may_decode: MayDecode,
) -> FoundKey:
    with PartialDatabase(handle, files, path) as db:
        stored = db.states.get(state)
        entries: list[StateEntry] = []
        if stored is not None:
            prefix = KEY_GROUP.pack(key_group) + key
            rows = db.rows(stored.column, prefix, prefix_end(prefix))
            entries = list(entries_of(rows, stored.hidden_unless(may_decode)))
        timers: tuple[dict[str, Sequence[TimerEntry]], dict[str, Sequence[TimerEntry]]] = ({}, {})
        for column in db.columns:
            for start, target in zip((EVENT_COLUMN, PROCESSING_COLUMN), timers, strict=True):
                if column.startswith(start):
                    within = db.rows(column, KEY_GROUP.pack(key_group), group_end(key_group), ahead=True)
                    if found := timers_of(within, key):
                        target[column.removeprefix(start)] = found
    return _found(None if stored is None else stored.meta, entries, timers)


def _first_rows(handle: KeyedStateHandle, state: str, files: StateFileReader, path: Path) -> Iterator[bytes]:
    with PartialDatabase(handle, files, path) as db:
        begin, end = KEY_GROUP.pack(handle.key_groups.start), group_end(handle.key_groups.end)
        while (row := next(db.rows(STATE_COLUMN + state, begin, end), None)) is not None:
            stop = key_end(row[0], KEY_GROUP.size)
            yield row[0][KEY_GROUP.size : stop]
            begin = prefix_end(row[0][:stop])
