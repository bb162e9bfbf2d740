"""Snapshots of the rocksdb backend: writing and reading them.

The synchronous part writes the cached changes and tells RocksDB to flush. The upload thread makes the checkpoint (hard
links of files that never change) when the flush is complete; until then the backend keeps further changes in its cache,
or makes the checkpoint itself if it cannot wait. Files of completed checkpoints are not uploaded again.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import KeyGroup
from runtime.state.canonical import CANONICAL_FILE, CANONICAL_FORMAT, encode_canonical
from runtime.state.errors import RedistributionError
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle, PendingKeyedState, StateFileWriter
from runtime.state.key_groups import KeyGroupRange
from runtime.state.rocksdb.instance import RocksDBInstance, RocksDBReadError
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.rocksdb.rows import NOTHING, Keep, StoredState, read_group, states_to_json
from runtime.state.snapshot import KeyedSnapshot, KeyGroupSnapshot, SnapshotRequest, StateMeta

ROCKSDB_FORMAT: Final = "rocksdb"
"""`KeyedStateHandle.format` of this backend's own form."""
_SHARED_SUFFIXES = (".sst", ".blob")
"""Suffixes of files that RocksDB never changes: tables and separate values."""
_POLL_S = 0.002
_FLUSH_TIMEOUT_S = 30.0
"""Time after which a checkpoint is made before the flush is complete; the call then flushes."""


class PendingRocksDBState(PendingKeyedState):
    """A snapshot of the rocksdb backend that is being written.

    Args:
        request: describes it.
        db: the database; all changes are written, and no more will be until `is_taken`.
        path: directory of the checkpoint; does not exist yet.
        states: the states of the database.
        settings: the database's.
        key_groups: of the backend.
        max_parallelism: number of key groups of the operator.
        shared: files of the last completed checkpoint, by their names in the database.
        keep: by state, the filter of values in a canonical snapshot.
    """

    def __init__(
        self,
        request: SnapshotRequest,
        db: RocksDBInstance,
        path: Path,
        states: Sequence[StoredState],
        settings: RocksDBSettings,
        key_groups: KeyGroupRange,
        max_parallelism: int,
        shared: Mapping[str, FileHandle],
        keep: Mapping[str, Keep],
    ) -> None:
        self.kind = request.kind
        #: files that later snapshots may refer to after this one is written
        self.shared_files: Mapping[str, FileHandle] | None = None
        self.is_taken = False
        self._db: RocksDBInstance | None = db
        self._path = path
        self._states = states
        self._settings = settings
        self._key_groups = key_groups
        self._max_parallelism = max_parallelism
        self._shared = shared
        self._keep = keep
        self._error: OSError | None = None
        self._lock = threading.Lock()

    def advance(self, budget_ms: float) -> bool:
        return True

    def take(self) -> None:
        """Make the checkpoint now, unless it was made, or the snapshot was discarded; any thread.

        If the disk refuses, `write` raises the error, not another caller that needs the checkpoint to be made.
        """
        with self._lock:
            if not self.is_taken and self._db is not None:
                try:
                    self._db.checkpoint(self._path)
                except OSError as error:
                    self._error = error
            self.is_taken = True
            self._db = None

    def write(self, files: StateFileWriter) -> KeyedStateHandle:
        self._wait_for_flush()
        self.take()
        if self._error is not None:
            raise self._error
        if not self._path.is_dir():
            raise OSError("the snapshot was discarded")
        try:
            if self.kind is SnapshotKind.CANONICAL:
                return self._write_canonical(files)
            return self._upload(files)
        finally:
            shutil.rmtree(self._path, ignore_errors=True)

    def discard(self) -> None:
        with self._lock:
            self.is_taken = True
            self._db = None
            shutil.rmtree(self._path, ignore_errors=True)

    def _wait_for_flush(self) -> None:
        deadline = time.monotonic() + _FLUSH_TIMEOUT_S
        while time.monotonic() < deadline:
            with self._lock:
                if self._db is None or self._db.is_flushed():
                    return
            time.sleep(_POLL_S)

    def _upload(self, files: StateFileWriter) -> KeyedStateHandle:
        is_incremental = self.kind is SnapshotKind.INCREMENTAL

        def upload(path: Path) -> FileHandle:
            may_share = is_incremental and path.suffix in _SHARED_SUFFIXES
            known = self._shared.get(path.name) if may_share else None
            if known is not None and known.size == path.stat().st_size:
                return known
            return files.upload("keyed-state", path, shared=may_share)

        # the write-ahead log is off, and its file empty
        paths = [path for path in sorted(self._path.iterdir()) if path.stat().st_size]
        if self._settings.transfer_threads == 1:
            handles = list(map(upload, paths))
        else:
            with ThreadPoolExecutor(self._settings.transfer_threads, "state-upload") as pool:
                handles = list(pool.map(upload, paths))
        uploaded = {path.name: handle for path, handle in zip(paths, handles, strict=True)}
        if is_incremental:
            self.shared_files = {name: file for name, file in uploaded.items() if file.is_shared}
        return KeyedStateHandle(
            ROCKSDB_FORMAT,
            self._key_groups,
            self._max_parallelism,
            uploaded,
            states_to_json(self._states),
            self._metas(),
        )

    def _write_canonical(self, files: StateFileWriter) -> KeyedStateHandle:
        with RocksDBInstance(self._path, self._settings, is_new=False, is_read_only=True) as db:
            groups = StoredGroups([(db, self._states, self._key_groups)], self._keep)
            metas = {state.meta.name: state.meta for state in self._states}
            snapshot = KeyedSnapshot(self._max_parallelism, metas, groups)
            file = files.write("keyed-state", encode_canonical(snapshot, self.compression))
        return KeyedStateHandle(
            CANONICAL_FORMAT, self._key_groups, self._max_parallelism, {CANONICAL_FILE: file}, states=self._metas()
        )

    def _metas(self) -> tuple[StateMeta, ...]:
        return tuple(state.meta for state in self._states)


class StoredGroups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups of open databases, each read on request."""

    def __init__(
        self,
        sources: Sequence[tuple[RocksDBInstance, Sequence[StoredState], KeyGroupRange]],
        keep: Mapping[str, Keep] = NOTHING,
    ) -> None:
        self._keep = keep
        self._source_of = {
            KeyGroup(key_group): (db, states)
            for db, states, key_groups in sources
            for key_group in range(key_groups.start, key_groups.end + 1)
        }

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        db, states = self._source_of[key_group]
        return read_group(db, states, key_group, self._keep)

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._source_of

    def __iter__(self) -> Iterator[KeyGroup]:
        return iter(self._source_of)

    def __len__(self) -> int:
        return len(self._source_of)


@dataclass(frozen=True, slots=True)
class RocksDBSource:
    """A downloaded and verified database that has not been opened."""

    path: Path
    states: Mapping[str, StoredState]
    key_groups: KeyGroupRange
    """The key groups with state in it."""
    shared_files: Mapping[str, FileHandle]
    """Files that later checkpoints may refer to."""


@dataclass(frozen=True, slots=True)
class RocksDBSnapshot(KeyedSnapshot):
    """Databases with the state of some key groups; a rocksdb backend takes them over, others read the groups."""

    sources: Sequence[RocksDBSource] = ()
    key_groups: KeyGroupRange | None = None
    """The requested ones; the databases may have more."""

    @property
    def are_alike(self) -> bool:
        """Return whether the databases have the same row layout for each state, so that one can take over the others'
        rows.

        A restored map that a subtask has not requested is one row, where the others have one for each entry.
        """
        layouts: dict[str, StoredState] = {}
        return all(
            layouts.setdefault(name, state) == state for source in self.sources for name, state in source.states.items()
        )

    @classmethod
    def of(cls, sources: Sequence[RocksDBSource], key_groups: KeyGroupRange, max_parallelism: int) -> RocksDBSnapshot:
        """Return the content of some databases for `key_groups`.

        Raises:
            RedistributionError: they saved a state differently.
        """
        metas: dict[str, StateMeta] = {}
        for source in sources:
            for name, state in source.states.items():
                if metas.setdefault(name, state.meta) != state.meta:
                    raise RedistributionError(
                        f"subtasks saved state {name!r} differently: {metas[name].describe()}, {state.meta.describe()}"
                    )
        return cls(max_parallelism, metas, _DownloadedGroups(sources, key_groups), sources, key_groups)


class _DownloadedGroups(Mapping[KeyGroup, KeyGroupSnapshot]):
    """Key groups of downloaded databases, which are opened on the first request."""

    def __init__(self, sources: Sequence[RocksDBSource], key_groups: KeyGroupRange) -> None:
        self._sources = sources
        self._key_groups = key_groups
        self._opened: StoredGroups | None = None

    def __getitem__(self, key_group: KeyGroup) -> KeyGroupSnapshot:
        if key_group not in self._key_groups:
            raise KeyError(key_group)
        if self._opened is None:
            # read-only: the directories are not changed, and no lock is held
            self._opened = StoredGroups(
                [
                    (
                        RocksDBInstance(source.path, RocksDBSettings(), is_new=False, is_read_only=True),
                        list(source.states.values()),
                        source.key_groups,
                    )
                    for source in self._sources
                ]
            )
        try:
            return self._opened[key_group]
        except RocksDBReadError as error:
            raise DamagedSnapshotError("of rocksdb state", str(error)) from error

    def __contains__(self, key_group: object) -> bool:
        return key_group in self._key_groups and any(key_group in source.key_groups for source in self._sources)

    def __iter__(self) -> Iterator[KeyGroup]:
        numbers = range(self._key_groups.start, self._key_groups.end + 1)
        return (KeyGroup(number) for number in numbers if number in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
