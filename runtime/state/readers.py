"""Reads keyed state back from a checkpoint or savepoint, whatever backend wrote it.

Files are downloaded, and verified during the download, into the working directory of the requesting attempt before any
of them is used; after that nothing is read over the network. The result is a KeyedSnapshot, which every backend and
every columnar operator can restore; the rocksdb backend opens its own in place. Task's thread, before the first record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from runtime.core.clock import SYSTEM_CLOCK, Clock
from runtime.core.ids import KeyGroup
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, CanonicalFile
from runtime.state.codecs import bytes_with_times
from runtime.state.errors import RedistributionError, StateError
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, StateFileReader
from runtime.state.hashmap.files import HASHMAP_FORMAT, read_hashmap_state
from runtime.state.key_groups import KeyGroupRange
from runtime.state.rocksdb.restore import download_rocksdb_state
from runtime.state.rocksdb.rows import MayDecode
from runtime.state.rocksdb.snapshot import ROCKSDB_FORMAT, RocksDBSnapshot, RocksDBSource
from runtime.state.segments.snapshot import SEGMENTS_FORMAT, read_segments
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, StateMeta


def load_keyed_state(
    handles: Sequence[KeyedStateHandle],
    key_groups: KeyGroupRange,
    max_parallelism: int,
    files: StateFileReader,
    working_directory: Path,
    clock: Clock = SYSTEM_CLOCK,
    may_decode: MayDecode = lambda _: True,
) -> KeyedSnapshot:
    """Return the keyed state of some key groups.

    Args:
        handles: of the operator's subtasks when the checkpoint was taken; those that do not overlap `key_groups` are
            ignored. Several after the parallelism has changed.
        key_groups: the requested ones.
        max_parallelism: number of key groups of the operator.
        files: reads the handles' files.
        working_directory: the result may read files below it until the backend that restores it is disposed of.
        clock: see `merge_snapshots`.
        may_decode: asked about the serializers of maps that are stored by entry, which have to be decoded to be read; a
            map that must not be is there, with b"" for its value.

    Returns:
        One without metas and groups if there are no handles. Its groups may load on request.

    Raises:
        DamagedSnapshotError: a file is missing or is corrupt.
        RedistributionError: the handles contradict each other, or have another max parallelism.
        StateError: a format that this program does not read.
    """
    wanted = [handle for handle in handles if _meet(handle.key_groups, key_groups)]
    for handle in handles:
        if handle.max_parallelism != max_parallelism:
            raise RedistributionError(
                f"state was saved with max parallelism {handle.max_parallelism} and cannot be restored with "
                f"{max_parallelism}: set the max parallelism that it was saved with"
            )
    if len(wanted) == 1 and wanted[0].format == SEGMENTS_FORMAT and wanted[0].key_groups == key_groups:
        # as it is, so that its operator goes on from its segments
        return read_segments(wanted[0], key_groups, files)
    if wanted and all(handle.format == ROCKSDB_FORMAT for handle in wanted):
        sources = [download_rocksdb_state(handle, files, _fresh(working_directory), may_decode) for handle in wanted]
        if len(set(_times_of(sources))) == len(dict(_times_of(sources))):
            return RocksDBSnapshot.of(sources, key_groups, max_parallelism)
        loaded: list[KeyedSnapshot] = [RocksDBSnapshot.of([s], key_groups, max_parallelism) for s in sources]
    else:
        loaded = [_load(handle, key_groups, max_parallelism, files, working_directory, may_decode) for handle in wanted]
    return merge_snapshots(loaded, max_parallelism, clock)


def _times_of(sources: Sequence[RocksDBSource]) -> list[tuple[str, bool]]:
    """Return the name of each state in each of some databases, and whether its values have times there."""
    return [(name, state.meta.has_ttl) for source in sources for name, state in source.states.items()]


def merge_snapshots(
    snapshots: Sequence[KeyedSnapshot], max_parallelism: int, clock: Clock = SYSTEM_CLOCK
) -> KeyedSnapshot:
    """Merge several snapshots with different key groups into one.

    A state that a program has given a time to live, or taken it from, is in both forms until all subtasks have asked
    for it, which some functions do late. The result has times then.

    Args:
        snapshots: of the subtasks.
        max_parallelism: number of key groups of the operator.
        clock: gives the time for values of a state without time to live that another subtask has saved with it.

    Raises:
        RedistributionError: two have the same key group, or saved a state differently.
    """
    metas: dict[str, StateMeta] = {}
    sources: dict[KeyGroup, Mapping[KeyGroup, KeyGroupSnapshot]] = {}
    for snapshot in snapshots:
        for name, meta in snapshot.metas.items():
            known = metas.setdefault(name, meta)
            if replace(known, has_ttl=meta.has_ttl) != meta:
                raise RedistributionError(
                    f"subtasks saved state {name!r} differently: {known.describe()}, {meta.describe()}"
                )
            if meta.has_ttl:
                metas[name] = meta
    for snapshot in snapshots:
        timeless = {name: meta.kind for name, meta in snapshot.metas.items() if meta.has_ttl != metas[name].has_ttl}
        groups = _TimedGroups(snapshot.groups, timeless, clock.now_ms()) if timeless else snapshot.groups
        for key_group in groups:
            if key_group in sources:
                raise RedistributionError(f"two subtasks saved key group {key_group}")
            sources[key_group] = groups
    return KeyedSnapshot(max_parallelism, metas, _MergedGroups(dict(sorted(sources.items()))))


class _TimedGroups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups in which the values of some states get a time.

    Args:
        groups: the key groups.
        timeless: kinds of the states whose values have none, by name.
        now_ms: the time.
    """

    def __init__(self, groups: Mapping[KeyGroup, KeyGroupSnapshot], timeless: Mapping[str, str], now_ms: int) -> None:
        self._groups = groups
        self._timeless = timeless
        self._now_ms = now_ms

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        group, timeless = self._groups[key_group], self._timeless
        timed = {
            name: [replace(e, value=bytes_with_times(timeless[name], e.value, self._now_ms)) for e in entries]
            for name, entries in group.states.items()
            if name in timeless
        }
        return replace(group, states={**group.states, **timed})

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._groups

    def __iter__(self) -> Iterator[KeyGroup]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


class _MergedGroups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups, each found in one of several mappings."""

    def __init__(self, sources: Mapping[KeyGroup, Mapping[KeyGroup, KeyGroupSnapshot]]) -> None:
        self._sources = sources

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        return self._sources[key_group][key_group]

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._sources

    def __iter__(self) -> Iterator[KeyGroup]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)


def _load(
    handle: KeyedStateHandle,
    key_groups: KeyGroupRange,
    max_parallelism: int,
    files: StateFileReader,
    working_directory: Path,
    may_decode: MayDecode,
) -> KeyedSnapshot:
    wanted = range(key_groups.start, key_groups.end + 1)
    if handle.format == CANONICAL_FORMAT:
        if CANONICAL_FILE not in handle.files:
            raise DamagedSnapshotError("of canonical state", "its handle names no file")
        path = _fresh(working_directory)
        files.download(handle.files[CANONICAL_FILE], path)
        return CanonicalFile.of_path(path).snapshot(wanted)
    if handle.format == HASHMAP_FORMAT:
        return read_hashmap_state(handle, wanted, files)
    if handle.format == SEGMENTS_FORMAT:
        return read_segments(handle, key_groups, files)
    if handle.format == ROCKSDB_FORMAT:
        source = download_rocksdb_state(handle, files, _fresh(working_directory), may_decode)
        return RocksDBSnapshot.of([source], key_groups, max_parallelism)
    raise StateError(f"keyed state was saved in the format {handle.format!r}, which this program does not read")


def _fresh(working_directory: Path) -> Path:
    """Return a path that does not exist yet, in a directory that does."""
    directory = working_directory / "restore"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / uuid.uuid4().hex


def _meet(one: KeyGroupRange, other: KeyGroupRange) -> bool:
    return one.start <= other.end and other.start <= one.end
