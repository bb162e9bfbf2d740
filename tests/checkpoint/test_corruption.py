"""Damaged snapshots: every flipped, cut, swapped, missing or outdated file is found before anything of it is used."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import METADATA
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.storage import TaskStateReader
from runtime.state.handles import DamagedSnapshotError
from runtime.state.key_groups import key_group_range
from runtime.state.readers import load_keyed_state
from runtime.testing.memory_file_system import MemoryFileSystem
from tests.checkpoint.faulty import NO_PAUSES
from tests.checkpoint.snapshots import MAX_PARALLELISM, options_of, stored


class StoredCheckpoint:
    """A checkpoint on disk that is damaged and restored again and again."""

    def __init__(self, root: Path) -> None:
        self.files = MemoryFileSystem()
        self.snapshots = SnapshotFiles(self.files, retries=NO_PAUSES)
        self.metadata = stored(self.files, options_of(root), num_keys=400, shared=True)
        self.snapshots.write_metadata(self.metadata)
        self.work = root / "work"
        self.uris = sorted(self.files.files)

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
        keys = sum(len(g.states["count"]) for snapshot in snapshots for g in snapshot.groups.values())
        shutil.rmtree(self.work)
        return keys

    def assert_damage_is_found(self, why: str) -> None:
        try:
            keys = self.restore()
        except (DamagedSnapshotError, CheckpointStorageError):
            return
        pytest.fail(f"{why}: restored {keys} keys")


@pytest.fixture
def checkpoint(tmp_path: Path) -> StoredCheckpoint:
    made = StoredCheckpoint(tmp_path)
    assert made.restore() == 400
    return made


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
    assert checkpoint.restore() == 400


def test_flipped_bytes_are_found(checkpoint: StoredCheckpoint) -> None:
    flip_bytes(checkpoint, flips=100, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
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
    first, second = [uri for uri in checkpoint.uris if "keyed-state" in uri]
    files[first], files[second] = files[second], files[first]
    checkpoint.assert_damage_is_found("swapped")


def test_metadata_of_another_checkpoint_are_found(checkpoint: StoredCheckpoint, tmp_path: Path) -> None:
    older = options_of(tmp_path, number=0)
    checkpoint.snapshots.write_metadata(stored(checkpoint.files, older, number=0, num_keys=3, shared=True))
    directory = checkpoint.metadata.options.directory
    checkpoint.files.files[f"{directory}/{METADATA}"] = checkpoint.files.files[f"{older.directory}/{METADATA}"]
    with pytest.raises(DamagedSnapshotError, match="it is of checkpoint 0"):
        checkpoint.snapshots.read_metadata(directory)
