"""`_metadata`: an exact image of what it describes, movable with its directory, and never believed when damaged."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.checkpoint.errors import (
    LocationNotAllowedError,
    NewerSnapshotError,
    NotASnapshotError,
    StorageAwayError,
)
from runtime.checkpoint.handles import (
    ChannelState,
    CheckpointMetadata,
    EdgeIdentity,
    OperatorState,
    OperatorSubtaskState,
)
from runtime.checkpoint.locations import AllowedRoots, to_uri
from runtime.checkpoint.metadata import KIND, decode_metadata, encode_metadata
from runtime.checkpoint.sealed import seal
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.core.checkpoint_options import AfterSnapshot, Alignment, CheckpointOptions, SnapshotKind
from runtime.core.ids import CheckpointId, JobId, OperatorId
from runtime.state.handles import DamagedSnapshotError, FileHandle, KeyedStateHandle
from runtime.state.key_groups import KeyGroupRange
from runtime.state.snapshot import OperatorStateSnapshot, Redistribution
from runtime.state.state_meta import StateMeta
from tests.checkpoint.faulty import NO_PAUSES, FaultyFileSystem, failing
from tests.checkpoint.snapshots import options_of, savepoint_options, stored, with_checksum

DIRECTORY = "s3://bucket/job/chk-3-1.0"
TEXT = st.text(max_size=6)
COUNT = st.integers(0, 2**40)
FILES = st.builds(
    FileHandle,
    st.sampled_from([f"{DIRECTORY}/a", f"{DIRECTORY}/b/c", f"{DIRECTORY}/..", "s3://bucket/job/shared/x", "file:///y"]),
    COUNT,
    TEXT,
    st.booleans(),
)
STATES = st.builds(
    OperatorStateSnapshot,
    st.sampled_from(Redistribution),
    st.lists(st.binary(max_size=5), max_size=3).map(tuple),
    TEXT,
)
RANGES = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda ends: KeyGroupRange(min(ends), max(ends)))
METAS = st.builds(StateMeta, TEXT, TEXT, TEXT, st.booleans(), st.booleans())
KEYED = st.builds(
    KeyedStateHandle,
    TEXT,
    RANGES,
    st.integers(1, 32768),
    st.dictionaries(TEXT, FILES, max_size=3),
    st.binary(max_size=5),
    st.none() | st.lists(METAS, max_size=2).map(tuple),
)
SUBTASKS = st.builds(
    OperatorSubtaskState,
    st.none() | KEYED,
    st.dictionaries(TEXT, STATES, max_size=2),
    st.integers(-(2**63), 2**63 - 1),
)
OPERATORS = st.builds(
    OperatorState,
    TEXT.map(OperatorId),
    TEXT,
    TEXT,
    st.integers(1, 9),
    st.integers(1, 32768),
    st.lists(SUBTASKS, max_size=3).map(tuple),
    st.none() | STATES,
    st.frozensets(st.integers(0, 9), max_size=3),
    TEXT,
    TEXT,
    TEXT,
)
CHANNELS = st.builds(ChannelState, COUNT, COUNT, COUNT, st.none() | FILES, COUNT, COUNT, st.booleans())
EDGES = st.builds(EdgeIdentity, TEXT.map(OperatorId), TEXT.map(OperatorId), COUNT, st.none() | TEXT)
OPTIONS = st.builds(
    CheckpointOptions,
    st.just(DIRECTORY),
    st.sampled_from([DIRECTORY, "s3://bucket/job/shared"]),
    st.sampled_from(SnapshotKind),
    st.sampled_from(Alignment),
    st.none() | COUNT,
    st.booleans(),
    st.sampled_from(AfterSnapshot),
)
METADATA = st.builds(
    CheckpointMetadata,
    TEXT.map(JobId),
    st.integers(1, 2**40).map(CheckpointId),
    COUNT,
    OPTIONS,
    st.lists(OPERATORS, max_size=3).map(tuple),
    st.lists(CHANNELS, max_size=3).map(tuple),
    st.dictionaries(COUNT, EDGES, max_size=3),
    TEXT,
)


@settings(max_examples=150)
@given(METADATA)
def test_what_is_written_is_read(metadata: CheckpointMetadata) -> None:
    assert decode_metadata(encode_metadata(metadata), DIRECTORY) == metadata


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def snapshots(files: FaultyFileSystem) -> SnapshotFiles:
    return SnapshotFiles(files, retries=NO_PAUSES)


def a_savepoint(snapshots: SnapshotFiles, directory: Path) -> CheckpointMetadata:
    metadata = stored(snapshots.file_system, savepoint_options(directory))
    snapshots.write_metadata(metadata)
    return metadata


def test_metadata_are_found_by_directory_and_by_file(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    metadata = a_savepoint(snapshots, tmp_path / "sp")
    for path in ("sp", "sp/", "sp/_metadata", "x/../sp"):
        assert snapshots.load(f"{tmp_path}/{path}") == metadata
    assert snapshots.load((tmp_path / "sp").as_uri()) == metadata
    assert snapshots.verify(metadata) == sum(file.size for file in metadata.files())


def test_a_savepoint_can_be_moved(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    a_savepoint(snapshots, tmp_path / "sp")
    shutil.move(tmp_path / "sp", tmp_path / "elsewhere")
    moved = snapshots.load(str(tmp_path / "elsewhere"))
    assert moved.options.directory == to_uri(tmp_path / "elsewhere")
    assert all(file.uri.startswith(to_uri(tmp_path / "elsewhere")) for file in moved.files())
    snapshots.verify(moved)


def test_metadata_are_written_once(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    metadata = a_savepoint(snapshots, tmp_path / "sp")
    snapshots.write_metadata(metadata)  # the same again: a try that is repeated
    other = stored(snapshots.file_system, savepoint_options(tmp_path / "sp"), number=2)
    with pytest.raises(FileExistsError):
        snapshots.write_metadata(other)
    assert snapshots.load(str(tmp_path / "sp")) == metadata


def test_a_path_that_is_no_savepoint_says_what_it_lacks(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    with pytest.raises(NotASnapshotError, match="nothing exists at this location"):
        snapshots.load(str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotASnapshotError, match="it has no _metadata file"):
        snapshots.load(str(tmp_path / "empty"))
    with pytest.raises(DamagedSnapshotError, match="no _metadata"):
        snapshots.read_metadata(to_uri(tmp_path / "empty"))
    (tmp_path / "flink").mkdir()
    (tmp_path / "flink" / "_metadata").write_bytes(b"\x49\x60\x67\x2d\x00\x00\x00\x05")
    with pytest.raises(NotASnapshotError, match="it does not begin with 'tidemark-snapshot'"):
        snapshots.load(str(tmp_path / "flink"))


def test_metadata_that_are_gone_with_their_directory_may_be_away(
    snapshots: SnapshotFiles, files: FaultyFileSystem, tmp_path: Path
) -> None:
    metadata = a_savepoint(snapshots, tmp_path / "sp")
    directory, aside = tmp_path / "sp", tmp_path / "aside"
    directory.rename(aside)
    with pytest.raises(StorageAwayError, match="its storage is unavailable"):
        snapshots.read_metadata(to_uri(directory))

    def come_back(operation: str, uri: str) -> None:
        if operation == "exists" and aside.exists():
            aside.rename(directory)

    files.fail = come_back
    assert snapshots.read_metadata(to_uri(directory)) == metadata


def test_a_newer_version_is_refused_with_what_to_do(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(seal(KIND, 9, {}))
    with pytest.raises(NewerSnapshotError, match=r"version 9; this program reads up to version 1: use a newer one"):
        snapshots.load(str(tmp_path))


def test_a_document_that_says_nonsense_is_damaged(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(seal(KIND, 1, {"job_id": "x"}))
    with pytest.raises(DamagedSnapshotError, match="content is invalid"):
        snapshots.load(str(tmp_path))


@pytest.mark.parametrize(
    ("version", "body"),
    [(b"1", b"{"), (b"1", b"[]"), (b"1", b"7"), (b"1", b"\xff"), (b"1", b"[" * 100_000), (b"one", b"{}")],
    ids=["cut", "list", "number", "no UTF-8", "deep", "version"],
)
def test_content_that_is_no_document_is_damaged_though_its_checksum_is_right(version: bytes, body: bytes) -> None:
    with pytest.raises(DamagedSnapshotError):
        decode_metadata(with_checksum(version, body), DIRECTORY)


def test_names_of_files_cannot_lead_out_of_the_directory(tmp_path: Path) -> None:
    document = json.loads(encode_metadata(stored(FaultyFileSystem(), savepoint_options(tmp_path))).partition(b"\n")[2])
    document["files"][0][:2] = ["name", "../../secret"]
    with pytest.raises(DamagedSnapshotError, match="is not a file name"):
        decode_metadata(seal(KIND, 1, document), to_uri(tmp_path))


def test_snapshots_outside_of_the_allowed_roots_are_not_read(files: FaultyFileSystem, tmp_path: Path) -> None:
    a_savepoint(SnapshotFiles(files), tmp_path / "out" / "sp")
    limited = SnapshotFiles(files, AllowedRoots.of([tmp_path / "in"]), NO_PAUSES)
    with pytest.raises(LocationNotAllowedError):
        limited.load(str(tmp_path / "out" / "sp"))
    with pytest.raises(LocationNotAllowedError):
        limited.dispose(str(tmp_path / "in" / ".." / "out" / "sp"))
    # one that is inside, but refers to files that are not
    metadata = stored(files, options_of(tmp_path / "out"), shared=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_metadata").write_bytes(encode_metadata(metadata))
    with pytest.raises(LocationNotAllowedError):
        limited.load(str(tmp_path / "in"))


def test_every_flipped_byte_is_found() -> None:
    data = encode_metadata(stored_in_memory())
    numbers = random.Random(11)
    for position in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[position] ^= numbers.randrange(1, 256)
        with pytest.raises((DamagedSnapshotError, NotASnapshotError)):
            decode_metadata(bytes(damaged), DIRECTORY)
    for size in range(0, len(data), 7):
        with pytest.raises((DamagedSnapshotError, NotASnapshotError)):
            decode_metadata(data[:size], DIRECTORY)


def stored_in_memory() -> CheckpointMetadata:
    options = CheckpointOptions(DIRECTORY, DIRECTORY)
    state = OperatorStateSnapshot(Redistribution.UNION, (b"item",), "LONG")
    operator = OperatorState(OperatorId("o"), "uid", "name", 1, 8, (OperatorSubtaskState(None, {"s": state}),))
    return CheckpointMetadata(JobId("j"), CheckpointId(3), 5, options, (operator,))


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_disposed_of(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    a_savepoint(snapshots, tmp_path / "sp")
    assert snapshots.dispose(f"{tmp_path}/sp/_metadata") == to_uri(tmp_path / "sp")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotASnapshotError):
        snapshots.dispose(str(tmp_path / "sp"))


def test_what_is_interrupted_while_deleting_cannot_be_restored(
    snapshots: SnapshotFiles, files: FaultyFileSystem, tmp_path: Path
) -> None:
    a_savepoint(snapshots, tmp_path / "sp")
    files.fail = failing("delete_directory")
    with pytest.raises(OSError, match="refused"):
        snapshots.dispose(str(tmp_path / "sp"))
    with pytest.raises(NotASnapshotError):
        snapshots.load(str(tmp_path / "sp"))


def test_other_directories_are_never_disposed_of(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(NotASnapshotError):
        snapshots.dispose(str(tmp_path / "photos"))
    a_savepoint(snapshots, tmp_path)
    with pytest.raises(NotASnapshotError, match="it contains directories"):
        snapshots.dispose(str(tmp_path))
    assert (tmp_path / "photos").exists()
    assert (tmp_path / "_metadata").exists()


def test_a_damaged_savepoint_can_be_disposed_of(snapshots: SnapshotFiles, tmp_path: Path) -> None:
    a_savepoint(snapshots, tmp_path / "sp")
    content = (tmp_path / "sp" / "_metadata").read_bytes()
    (tmp_path / "sp" / "_metadata").write_bytes(content[:-1])
    snapshots.dispose(str(tmp_path / "sp"))
    assert not (tmp_path / "sp").exists()


def test_one_failure_does_not_keep_the_rest_from_being_deleted(
    snapshots: SnapshotFiles, files: FaultyFileSystem, tmp_path: Path
) -> None:
    metadata = a_savepoint(snapshots, tmp_path / "sp")
    uris = [file.uri for file in metadata.files()]
    files.fail = failing("delete_file", uris[0])
    with pytest.raises(OSError, match="refused"):
        snapshots.delete(uris, [])
    assert [files.exists(uri) for uri in uris] == [True, False, False, False]
