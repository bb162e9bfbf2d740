"""Downloads a checkpoint's databases to this machine, and merges databases into one.

Every file is verified during the download, before anything is opened. A database whose key groups are all requested is
used directly; in others, ranges are deleted or rows are copied. Task's thread.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, StateFileReader
from runtime.state.key_groups import KeyGroupRange
from runtime.state.rocksdb.instance import RocksDBInstance, RocksDBReadError
from runtime.state.rocksdb.options import RocksDBSettings
from runtime.state.rocksdb.rows import KEY_GROUP, MayDecode, StoredState, group_end, states_from_json
from runtime.state.rocksdb.snapshot import RocksDBSource

_BATCH_ROWS = 10_000
_LAST_GROUP_END = b"\xff\xff"


def states_of(handle: KeyedStateHandle) -> Mapping[str, StoredState]:
    """Return how the states of a handle of the rocksdb format are stored, by name.

    Raises:
        DamagedSnapshotError: the handle does not say.
    """
    try:
        return states_from_json(handle.metadata)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedSnapshotError("of rocksdb state", f"its handle does not say what is in it: {error}") from error


def download_rocksdb_state(
    handle: KeyedStateHandle, files: StateFileReader, path: Path, may_decode: MayDecode = lambda _: True
) -> RocksDBSource:
    """Download the database of a handle into a new directory. Maps whose rows must not be decoded are hidden.

    Raises:
        DamagedSnapshotError: a file is missing or is corrupt.
        OSError: the directory cannot be written.
    """
    path.mkdir()
    for name, file in handle.files.items():
        if Path(name).name != name:
            raise DamagedSnapshotError(file.uri, f"its handle names it {name!r}")
        files.download(file, path / name)
    states = {name: state.hidden_unless(may_decode) for name, state in states_of(handle).items()}
    shared = {name: file for name, file in handle.files.items() if file.is_shared}
    return RocksDBSource(path, states, handle.key_groups, shared)


def take_over(
    sources: Iterable[RocksDBSource], key_groups: KeyGroupRange, settings: RocksDBSettings, path: Path
) -> tuple[RocksDBInstance, RocksDBSource]:
    """Create one database in `path` with the requested key groups of `sources`, and delete the sources' directories.

    Returns:
        The open database, and the source whose files it started from.

    Raises:
        DamagedSnapshotError: a source cannot be opened, or a block of it is damaged.
    """
    by_overlap = sorted(sources, key=lambda source: _overlap(source.key_groups, key_groups), reverse=True)
    first, *others = by_overlap
    first.path.rename(path)
    db = RocksDBInstance(path, settings, is_new=False)
    try:
        for name in db.columns:
            if first.key_groups.start < key_groups.start:
                db.delete_range(name, b"", KEY_GROUP.pack(key_groups.start))
            if first.key_groups.end > key_groups.end:
                db.delete_range(name, group_end(key_groups.end), _LAST_GROUP_END)
        for source in others:
            with RocksDBInstance(source.path, settings, is_new=False, is_read_only=True) as other:
                for name in other.columns:
                    _copy(other, db, name, key_groups)
            shutil.rmtree(source.path, ignore_errors=True)
    except BaseException:
        db.close()
        raise
    return db, first


def _copy(source: RocksDBInstance, target: RocksDBInstance, name: str, key_groups: KeyGroupRange) -> None:
    handle = target.handle(name)
    batch = target.batch()
    rows = _rows(source, name, key_groups)
    for count, (row, value) in enumerate(rows, 1):
        batch.put(row, value, handle)
        if count % _BATCH_ROWS == 0:
            target.write(batch)
            batch = target.batch()
    target.write(batch)


def _rows(source: RocksDBInstance, name: str, key_groups: KeyGroupRange) -> Iterator[tuple[bytes, bytes]]:
    try:
        yield from source.scan(name, KEY_GROUP.pack(key_groups.start), group_end(key_groups.end))
    except RocksDBReadError as error:
        raise DamagedSnapshotError(str(source.path), str(error)) from error


def _overlap(one: KeyGroupRange, other: KeyGroupRange) -> int:
    return min(one.end, other.end) - max(one.start, other.start) + 1
