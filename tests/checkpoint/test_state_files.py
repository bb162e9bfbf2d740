"""Files of checkpoints: unique, measured, verified, tried again when that may help."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.checkpoint import state_files
from runtime.checkpoint.errors import StorageAwayError
from runtime.checkpoint.file_system import PIECE_BYTES, ArrowFileSystem
from runtime.checkpoint.layout import METADATA, writer_of_file
from runtime.checkpoint.locations import local_path, name_of, parent_of, to_uri
from runtime.checkpoint.state_files import TaskStateReader, TaskStateWriter, write_once
from runtime.core.ids import CheckpointId
from runtime.state.handles import DamagedSnapshotError, FileHandle
from tests.checkpoint.faulty import NO_PAUSES, FaultyFileSystem, failing
from tests.checkpoint.snapshots import options_of, savepoint_options


@pytest.fixture
def files() -> FaultyFileSystem:
    return FaultyFileSystem()


@pytest.fixture
def writer(files: FaultyFileSystem, tmp_path: Path) -> TaskStateWriter:
    return TaskStateWriter(files, options_of(tmp_path, 4, 2, 1), CheckpointId(4), "map (1/2)", NO_PAUSES)


@pytest.fixture
def reader(files: FaultyFileSystem) -> TaskStateReader:
    return TaskStateReader(files, NO_PAUSES)


def test_a_file_is_measured_while_it_is_written(writer: TaskStateWriter, tmp_path: Path) -> None:
    handle = writer.write("state", [b"ab", b"", b"c"])
    assert handle == FileHandle(handle.uri, 3, hashlib.sha256(b"abc").hexdigest(), is_shared=False)
    assert parent_of(handle.uri) == options_of(tmp_path, 4, 2, 1).directory
    written_by = writer_of_file(name_of(handle.uri))
    assert written_by is not None
    assert (written_by.checkpoint_id, written_by.fence) == (4, (2, 1))
    assert local_path(handle.uri).read_bytes() == b"abc"
    assert writer.written_bytes == 3


def test_a_reader_tells_what_it_has_read_of_large_files_piece_by_piece(
    files: FaultyFileSystem, writer: TaskStateWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    reader = TaskStateReader(files, NO_PAUSES, on_read=told.append)
    small, large = writer.write("state", [b"abc"]), writer.write("state", [bytes(3 * PIECE_BYTES)])
    assert reader.read(small) == b"abc"
    reader.read_range(large, 1, 5)
    reader.download(large, tmp_path / "copy")
    assert told == [3, 5, *[PIECE_BYTES] * 3]
    told.clear()
    monkeypatch.setattr(state_files, "LARGE_BYTES", PIECE_BYTES)
    assert reader.read(large) == bytes(3 * PIECE_BYTES)
    assert told == [PIECE_BYTES] * 3


def test_files_have_names_of_their_own(writer: TaskStateWriter) -> None:
    assert len({writer.write("state", b"same").uri for _ in range(20)}) == 20


def test_shared_files_go_to_the_shared_directory(writer: TaskStateWriter, tmp_path: Path) -> None:
    (tmp_path / "sst").write_bytes(b"table")
    handle = writer.upload("sst", tmp_path / "sst", shared=True)
    assert handle.is_shared
    assert parent_of(handle.uri) == options_of(tmp_path).shared_directory
    assert local_path(handle.uri).read_bytes() == b"table"


def test_savepoints_share_nothing(files: FaultyFileSystem, tmp_path: Path) -> None:
    writer = TaskStateWriter(files, savepoint_options(tmp_path / "sp"), CheckpointId(1), "map", NO_PAUSES)
    handle = writer.write("sst", b"x", shared=True)
    assert not handle.is_shared
    assert parent_of(handle.uri) == to_uri(tmp_path / "sp")


@pytest.mark.parametrize("times", [1, 2])
def test_a_write_is_tried_again_under_another_name(
    files: FaultyFileSystem, writer: TaskStateWriter, reader: TaskStateReader, times: int
) -> None:
    files.fail = failing("write_new", times=times)
    handle = writer.write("state", [b"a", b"b"])
    tried = [uri for operation, uri in files.calls if operation == "write_new"]
    assert len(set(tried)) == times + 1
    assert reader.read(handle) == b"ab"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_what_does_not_pass_is_not_tried_again(files: FaultyFileSystem, writer: TaskStateWriter, code: int) -> None:
    files.fail = failing("write_new", code=code)
    with pytest.raises(OSError, match="refused"):
        writer.write("state", b"x")
    assert [operation for operation, _ in files.calls].count("write_new") == 1


def test_a_write_is_given_up_in_the_end(files: FaultyFileSystem, writer: TaskStateWriter) -> None:
    files.fail = failing("write_new")
    with pytest.raises(OSError, match="refused"):
        writer.write("state", b"x")
    assert [operation for operation, _ in files.calls].count("write_new") == 3


def test_content_that_can_be_iterated_once_is_tried_once(files: FaultyFileSystem, writer: TaskStateWriter) -> None:
    files.fail = failing("write_new", times=1)
    with pytest.raises(OSError, match="refused"):
        writer.write("state", iter([b"x"]))


def test_what_was_written_in_vain_is_deleted(writer: TaskStateWriter, files: FaultyFileSystem, tmp_path: Path) -> None:
    writer.write("state", b"x")
    writer.write("state", b"y", shared=True)
    files.fail = failing("delete_file", times=1)
    writer.discard()
    assert writer.written_bytes == 0
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1, "but for what could not be"


class LostAnswers(FaultyFileSystem):
    """Does what it is told, and says of some writes that it has not."""

    def __init__(self, num_lost: int) -> None:
        super().__init__()
        self.num_lost = num_lost

    def write_new(self, uri: str, data: bytes | Iterable[bytes]) -> None:
        super().write_new(uri, data)
        if self.num_lost:
            self.num_lost -= 1
            raise OSError(errno.ETIMEDOUT, "no answer")


def test_what_a_write_has_left_whose_answer_was_lost_is_deleted(tmp_path: Path) -> None:
    files = LostAnswers(num_lost=2)
    writer = TaskStateWriter(files, options_of(tmp_path), CheckpointId(1), "map (1/2)", NO_PAUSES)
    handle = writer.write("state", b"kept", shared=True)
    assert [local_path(handle.uri)] == list(local_path(options_of(tmp_path).shared_directory).iterdir())
    files.num_lost = 9
    with pytest.raises(OSError, match="no answer"):
        writer.write("state", b"in vain")
    assert len(list(local_path(options_of(tmp_path).directory).iterdir())) == 3
    writer.discard()
    assert not list(local_path(options_of(tmp_path).directory).iterdir())
    assert not local_path(handle.uri).exists()


def test_damage_is_found_when_reading(writer: TaskStateWriter, reader: TaskStateReader, tmp_path: Path) -> None:
    handle = writer.write("state", b"content")
    other = writer.write("state", b"CONTENT")
    reads: list[Callable[[FileHandle], object]] = [
        reader.read,
        reader.verify,
        lambda file: reader.download(file, tmp_path / "copy"),
    ]
    for read in reads:
        read(handle)
        for damaged in (replace(handle, uri=other.uri), replace(handle, size=8), replace(handle, uri=handle.uri + "x")):
            with pytest.raises(DamagedSnapshotError, match="damaged"):
                read(damaged)
    assert not (tmp_path / "copy").exists(), "nothing is left of a download that was damaged"
    with pytest.raises(DamagedSnapshotError, match="5 bytes at 4 are missing"):
        reader.read_range(handle, 4, 5)
    assert reader.read_range(handle, 4, 3) == b"ent"


def test_a_file_is_downloaded(writer: TaskStateWriter, reader: TaskStateReader, tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    reader.download(writer.write("state", content), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content


def test_a_storage_that_cannot_be_reached_is_no_damage(
    writer: TaskStateWriter, reader: TaskStateReader, files: FaultyFileSystem, tmp_path: Path
) -> None:
    handle = writer.write("state", b"content")
    files.fail = failing("read", times=2)
    assert reader.read(handle) == b"content"
    files.fail = failing("pieces")
    with pytest.raises(OSError, match="refused"):
        reader.download(handle, tmp_path / "copy")
    files.fail = failing("nothing")
    with pytest.raises(FileNotFoundError):
        reader.download(handle, tmp_path / "no such directory" / "copy")


def comes_back(files: FaultyFileSystem, operation: str, aside: Path, directory: Path) -> None:
    """Have a directory that was moved aside be back before the next such operation."""

    def come_back(called: str, uri: str) -> None:
        if called == operation and aside.exists():
            aside.rename(directory)

    files.fail = come_back


def test_a_file_is_missing_only_if_the_metadata_of_its_snapshot_are_there(
    writer: TaskStateWriter, files: FaultyFileSystem, tmp_path: Path
) -> None:
    handle, shared = writer.write("state", b"content"), writer.write("table", b"rows", shared=True)
    location = options_of(tmp_path, 4, 2, 1).directory
    directory, job = local_path(location), local_path(location).parent
    (directory / METADATA).touch()
    reader = TaskStateReader(files, NO_PAUSES, location)
    assert (reader.read(handle), reader.read(shared)) == (b"content", b"rows")
    reads: list[Callable[[FileHandle], object]] = [
        reader.read,
        reader.verify,
        lambda file: reader.read_range(file, 0, 2),
        lambda file: reader.download(file, tmp_path / "copy"),
    ]
    aside = tmp_path / "aside"
    for file in (handle, shared):
        local_path(file.uri).rename(aside)
        for read in reads:
            with pytest.raises(DamagedSnapshotError, match="it is missing"):
                read(file)
        aside.rename(local_path(file.uri))
    job.rename(aside)
    for file in (handle, shared):
        for read in reads:
            with pytest.raises(StorageAwayError, match=r"chk-4-2\.1: its storage is unavailable"):
                read(file)
    assert not (tmp_path / "copy").exists()
    # what is written meanwhile into the place that is mounted on makes no difference
    (job / "shared").mkdir(parents=True)
    with pytest.raises(StorageAwayError):
        reader.read(shared)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_storage_that_comes_back_while_it_is_looked_for_has_lost_nothing(
    is_shared: bool, writer: TaskStateWriter, files: FaultyFileSystem, tmp_path: Path
) -> None:
    handle = writer.write("state", b"content", shared=is_shared)
    location = options_of(tmp_path, 4, 2, 1).directory
    directory, aside = local_path(location).parent, tmp_path / "aside"
    local_path(location).mkdir(exist_ok=True)
    (local_path(location) / METADATA).touch()
    directory.rename(aside)
    comes_back(files, "exists", aside, directory)
    assert TaskStateReader(files, NO_PAUSES, location).read(handle) == b"content"


def test_a_write_that_succeeded_without_saying_so_is_recognised(files: FaultyFileSystem, tmp_path: Path) -> None:
    real = ArrowFileSystem()
    uri = to_uri(tmp_path / "d" / "entry")

    def applied_but_refused(uri: str) -> None:
        if not real.exists(uri):
            real.write_new(uri, b"mine")
            raise OSError(errno.ETIMEDOUT, "timed out")

    files.before_landing = applied_but_refused
    write_once(files, uri, b"mine", NO_PAUSES)
    with pytest.raises(FileExistsError):
        write_once(files, uri, b"yours", NO_PAUSES)
    assert real.read(uri) == b"mine"
