"""Damaged snapshots: every flipped, cut, swapped, missing or outdated file is found before anything of it is used.

In every form that keyed state is stored in: the canonical one, that of hashmap (a base, and a base with changes) and
that of RocksDB (a whole database, and one of which files are shared with the checkpoint before).
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.layout import METADATA
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter
from runtime.common.typeinfo import Types
from runtime.core.checkpoint_options import SnapshotKind
from runtime.core.ids import CheckpointId
from runtime.core.keys import encode_key
from runtime.state.backend import KeyedStateBackend
from runtime.state.canonical import CANONICAL_FORMAT
from runtime.state.descriptors import ValueStateDescriptor
from runtime.state.handles import DamagedSnapshotError, KeyedStateHandle, PendingKeyedState
from runtime.state.hashmap.files import HASHMAP_FORMAT
from runtime.state.key_groups import key_group_of, key_group_range
from runtime.state.readers import load_keyed_state
from runtime.state.rocksdb.snapshot import ROCKSDB_FORMAT
from runtime.state.snapshot import SnapshotRequest
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.checkpoint.faulty import NO_PAUSES
from tests.checkpoint.snapshots import MAX_PARALLELISM, options_of, stored
from tests.state.backends import BACKENDS, TEMPORARY, SettableClock, dispose_of_all, ignore

NUM_KEYS = 400
NUMBER = 2
"""Of the checkpoint that is damaged."""


def write_state(backend: KeyedStateBackend, subtask: int, step: int) -> None:
    """Give the subtask's keys, or every tenth of them, a count, a text that RocksDB keeps apart, and a timer."""
    own = key_group_range(MAX_PARALLELISM, 2, subtask)
    count = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
    text = backend.get_state(ValueStateDescriptor("text", Types.STRING()))
    timers = backend.get_timer_service("timers", ignore, ignore) if step == 1 else None
    for number in range(0, NUM_KEYS, step):
        key = f"key-{number}"
        if key_group_of(encode_key(key), MAX_PARALLELISM) in own:
            backend.set_current_key(key)
            count.update(10 * number + step)
            text.update(random.Random(number + step).randbytes(150).hex())
            if timers is not None:
                timers.register_event_time_timer(number)


def snapshot_of(backend: KeyedStateBackend, kind: SnapshotKind, writer: TaskStateWriter) -> KeyedStateHandle:
    pending = backend.snapshot(SnapshotRequest(kind, writer.checkpoint_id))
    assert isinstance(pending, PendingKeyedState)
    while not pending.advance(1):
        pass
    return pending.write(writer)


def written_by(
    backend_name: str, kind: SnapshotKind, files: CheckpointFileSystem, root: Path
) -> Callable[[TaskStateWriter, int], KeyedStateHandle]:
    """Return the writer of a subtask's keyed state, after a completed checkpoint if it may build on one."""

    def write(writer: TaskStateWriter, subtask: int) -> KeyedStateHandle:
        own = key_group_range(MAX_PARALLELISM, 2, subtask)
        backend = BACKENDS[backend_name](own, MAX_PARALLELISM, SettableClock())
        write_state(backend, subtask, step=1)
        if kind is SnapshotKind.INCREMENTAL:
            first = CheckpointId(NUMBER - 1)
            snapshot_of(
                backend, kind, TaskStateWriter(files, options_of(root, NUMBER - 1), first, "counter", NO_PAUSES)
            )
            backend.notify_checkpoint_complete(first)
            write_state(backend, subtask, step=10)
        return snapshot_of(backend, kind, writer)

    return write


FORMS: dict[str, tuple[str, SnapshotKind] | None] = {
    "canonical": None,
    "hashmap base": ("hashmap", SnapshotKind.FULL),
    "hashmap base and changes": ("hashmap", SnapshotKind.INCREMENTAL),
    "rocksdb native": ("rocksdb", SnapshotKind.FULL),
    "rocksdb incremental": ("rocksdb", SnapshotKind.INCREMENTAL),
}
"""Form of the keyed state → backend and kind of the snapshot; the canonical one is written without a backend."""


class StoredCheckpoint:
    """A checkpoint that is damaged and restored again and again."""

    def __init__(self, root: Path, form: str = "canonical") -> None:
        self.files = MemoryFileSystem()
        self.snapshots = SnapshotFiles(self.files, retries=NO_PAUSES)
        written = FORMS[form]
        keyed_state = None if written is None else written_by(*written, self.files, root)
        self.metadata = stored(
            self.files, options_of(root, NUMBER), NUMBER, NUM_KEYS, shared=True, keyed_state=keyed_state
        )
        self.snapshots.write_metadata(self.metadata)
        self.work = root / "work"
        self.handles = [subtask.keyed for subtask in self.metadata.operators[1].subtasks if subtask.keyed is not None]
        # without what only the checkpoint before needs
        directory = self.metadata.options.directory
        self.uris = sorted({f"{directory}/{METADATA}", *(file.uri for file in self.metadata.files())})

    def restore(self) -> int:
        """Do what JobMaster and tasks do before the first record, at parallelism 3; the number of restored keys."""
        metadata = self.snapshots.read_metadata(self.metadata.options.directory)
        reader = TaskStateReader(self.files, NO_PAUSES)
        subtasks = metadata.operators[1].subtasks
        handles = [subtask.keyed for subtask in subtasks if subtask.keyed is not None]
        snapshots = [
            load_keyed_state(
                handles, key_group_range(MAX_PARALLELISM, 3, index), MAX_PARALLELISM, reader, self.work / str(index)
            )
            for index in range(3)
        ]
        for channel in metadata.channels:
            assert channel.file is not None
            reader.read(channel.file)
        # from here on tasks would run
        keys = sum(len(group.states["count"]) for snapshot in snapshots for group in snapshot.groups.values())
        shutil.rmtree(self.work, ignore_errors=True)
        return keys

    def assert_damage_is_found(self, why: str) -> None:
        try:
            keys = self.restore()
        except (DamagedSnapshotError, CheckpointStorageError):
            return
        pytest.fail(f"{why}: restored {keys} keys")


@pytest.fixture
def root() -> Iterator[Path]:
    """Return a directory for downloaded snapshots, in memory if possible."""
    path = TEMPORARY / "corruption"
    yield path
    dispose_of_all()
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=FORMS)
def checkpoint(root: Path, request: pytest.FixtureRequest) -> StoredCheckpoint:
    made = StoredCheckpoint(root, request.param)
    assert made.restore() == NUM_KEYS
    return made


def test_the_forms_are_what_they_are_called(root: Path) -> None:
    formats, names, shared = {}, {}, {}
    for form in FORMS:
        handles = StoredCheckpoint(root, form).handles
        formats[form] = {handle.format for handle in handles}
        names[form] = [sorted({Path(name).suffix for name in handle.files}) for handle in handles]
        shared[form] = [sum(file.is_shared for file in handle.files.values()) for handle in handles]
        # files of the checkpoint before are among those that are damaged
        assert all(len(handle.files) > 1 for handle in handles) == (form not in ("canonical", "hashmap base"))
    assert formats == {
        "canonical": {CANONICAL_FORMAT},
        "hashmap base": {HASHMAP_FORMAT},
        "hashmap base and changes": {HASHMAP_FORMAT},
        "rocksdb native": {ROCKSDB_FORMAT},
        "rocksdb incremental": {ROCKSDB_FORMAT},
    }
    assert shared["hashmap base and changes"] == [2, 2]
    for form in ("rocksdb native", "rocksdb incremental"):
        assert all({".sst", ".blob"} < set(suffixes) for suffixes in names[form])
    assert shared["rocksdb native"] == [0, 0]
    # of both checkpoints, tables and large values
    assert min(shared["rocksdb incremental"]) >= 4


def flip_bytes(checkpoint: StoredCheckpoint, flips: int, seed: int) -> None:
    """Flip one random byte of one random file at a time."""
    numbers = random.Random(seed)
    files = checkpoint.files.files
    contents = dict(files)
    for _ in range(flips):
        uri = numbers.choice(checkpoint.uris)
        position = numbers.randrange(len(contents[uri]))
        damaged = bytearray(contents[uri])
        damaged[position] ^= numbers.randrange(1, 256)
        files[uri] = bytes(damaged)
        checkpoint.assert_damage_is_found(f"byte {position} of {uri}")
        files[uri] = contents[uri]
    assert checkpoint.restore() == NUM_KEYS


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_five_hundred_flipped_bytes_are_found(checkpoint: StoredCheckpoint, seed: int) -> None:
    flip_bytes(checkpoint, flips=500, seed=seed)


def test_files_that_are_cut_or_have_grown_are_found(checkpoint: StoredCheckpoint) -> None:
    files = checkpoint.files.files
    for uri in checkpoint.uris:
        content = files[uri]
        for damaged in (b"", content[:-1], content[: len(content) // 2], content + b"\0"):
            files[uri] = damaged
            checkpoint.assert_damage_is_found(f"{uri} with {len(damaged)} bytes")
        files[uri] = content


def test_files_that_are_missing_are_found(checkpoint: StoredCheckpoint) -> None:
    for uri in checkpoint.uris:
        content = checkpoint.files.files.pop(uri)
        checkpoint.assert_damage_is_found(f"{uri} missing")
        checkpoint.files.files[uri] = content


def test_files_that_were_swapped_are_found(checkpoint: StoredCheckpoint) -> None:
    files = checkpoint.files.files
    keyed = [uri for uri in checkpoint.uris if "keyed-state" in uri]
    first, second = sorted(keyed, key=lambda uri: len(files[uri]))[-2:]
    files[first], files[second] = files[second], files[first]
    checkpoint.assert_damage_is_found("swapped")


def test_metadata_of_another_checkpoint_are_found(root: Path) -> None:
    checkpoint = StoredCheckpoint(root)
    older = options_of(root, number=0)
    checkpoint.snapshots.write_metadata(stored(checkpoint.files, older, number=0, num_keys=3, shared=True))
    directory = checkpoint.metadata.options.directory
    checkpoint.files.files[f"{directory}/{METADATA}"] = checkpoint.files.files[f"{older.directory}/{METADATA}"]
    with pytest.raises(DamagedSnapshotError, match="it belongs to checkpoint 0"):
        checkpoint.snapshots.read_metadata(directory)
