"""The file system of checkpoints: the same promises on local files and on pyarrow's other file systems."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from runtime.checkpoint import file_system
from runtime.checkpoint.errors import UnknownFileSystemError
from runtime.checkpoint.file_system import ArrowFileSystem, CheckpointFileSystem
from runtime.checkpoint.locations import join, to_uri
from runtime.checkpoint.state_files import Retries, default_file_system, write_once
from runtime.testing.memory_file_system import MemoryFileSystem

Place = tuple[CheckpointFileSystem, str]


@pytest.fixture(params=["local", "local with spaces", "mock", "file as arrow sees it", "memory", "memory as local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param.startswith("memory"):
        return MemoryFileSystem(), "file:///a" if "local" in request.param else "s3://bucket/x"
    if request.param == "mock":
        return ArrowFileSystem(), "mock:///root"
    if request.param == "file as arrow sees it":
        # what is not `file` goes through pyarrow, here to local files
        subtree = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        return ArrowFileSystem(lambda uri: (subtree, "")), "s3://bucket/x"
    return ArrowFileSystem(), to_uri(tmp_path / ("a b%20" if request.param == "local with spaces" else "x"))


def test_what_is_written_is_read(place: Place) -> None:
    files, root = place
    directory = join(root, "one", "two")
    files.make_directory(directory)
    files.make_directory(directory)
    files.write_new(join(directory, "b"), iter([b"hel", b"", b"lo"]))
    files.write_new(join(directory, "a"), b"")
    assert files.read(join(directory, "b")) == b"hello"
    assert files.read(join(directory, "a")) == b""
    assert list(files.pieces(join(directory, "a"))) == []
    assert b"".join(files.pieces(join(directory, "b"))) == b"hello"
    assert files.read_range(join(directory, "b"), 1, 3) == b"ell"
    assert files.read_range(join(directory, "b"), 4, 9) == b"o"
    assert [(e.name, e.is_directory, e.size) for e in files.list(directory)] == [("a", False, 0), ("b", False, 5)]
    assert [(e.name, e.is_directory) for e in files.list(join(root, "one"))] == [("two", True)]


def test_a_file_is_never_replaced(place: Place) -> None:
    files, root = place
    files.make_directory(root)
    files.write_new(join(root, "a"), b"first")
    with pytest.raises(FileExistsError):
        files.write_new(join(root, "a"), b"second")
    assert files.read(join(root, "a")) == b"first"
    assert len(files.list(root)) == 1


def test_nothing_is_left_of_a_write_that_fails(place: Place) -> None:
    files, root = place
    files.make_directory(root)

    def pieces() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("the state cannot be encoded")

    with pytest.raises(RuntimeError):
        files.write_new(join(root, "a"), pieces())
    assert files.list(root) == []


def test_what_is_missing_says_so_and_may_be_deleted(place: Place) -> None:
    files, root = place
    for read in (files.read, lambda uri: list(files.pieces(uri)), lambda uri: files.read_range(uri, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read(join(root, "nowhere"))
    assert files.list(join(root, "nowhere")) == []
    assert not files.exists(join(root, "nowhere"))
    files.delete_file(join(root, "nowhere"))
    files.delete_directory(join(root, "nowhere"))


def test_directories_are_deleted_with_all_that_is_in_them(place: Place) -> None:
    files, root = place
    files.make_directory(join(root, "one", "two"))
    files.write_new(join(root, "one", "two", "a"), b"x")
    files.write_new(join(root, "one", "b"), b"x")
    assert files.exists(join(root, "one", "b"))
    files.delete_file(join(root, "one", "b"))
    assert not files.exists(join(root, "one", "b"))
    files.delete_directory(join(root, "one"))
    assert not files.exists(join(root, "one"))


def test_a_file_without_links_is_still_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    files, uri = ArrowFileSystem(), to_uri(tmp_path / "a")
    files.write_new(uri, b"first")
    with pytest.raises(FileExistsError):
        files.write_new(uri, b"second")
    assert files.read(uri) == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_linked_directory_is_not_followed_when_deleted(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    ArrowFileSystem().delete_directory(to_uri(tmp_path / "link"))
    assert (tmp_path / "precious" / "file").exists()


def test_what_can_be_no_file_system_is_refused() -> None:
    for uri in ("http://host/x", "s3://bucket/x?region=y", "file://other-host/x"):
        with pytest.raises(UnknownFileSystemError):
            ArrowFileSystem().read(uri)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(UnknownFileSystemError, match="credentials do not belong") as refused:
        ArrowFileSystem().read("s3://key:hunter2@bucket/x")
    assert "hunter2" not in str(refused.value)
    assert to_uri("hdfs://user@name:8020/x") == "hdfs://user@name:8020/x"


def test_a_bucket_is_a_directory_too(tmp_path: Path) -> None:
    subtree = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "a").write_bytes(b"x")
    files = ArrowFileSystem(lambda uri: (subtree, "bucket"))
    assert [entry.name for entry in files.list("s3://bucket")] == ["a"]
    assert files.read("s3://bucket/a") == b"x"


def test_local_paths_are_told() -> None:
    assert ArrowFileSystem().local_path("file:///a%20b/c") == Path("/a b/c")
    assert ArrowFileSystem().local_path("s3://bucket/c") is None


def test_names_of_directories_are_synced_once_whoever_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(file_system, "_sync_directory", synced.append)
    made = tmp_path / "checkpoints" / "job"
    made.mkdir(parents=True)  # by a process that was killed then
    files = ArrowFileSystem()
    files.make_directory(to_uri(made / "completed"))
    assert synced == [*reversed(tmp_path.parents), tmp_path, tmp_path / "checkpoints", made]
    synced.clear()
    files.make_directory(to_uri(made / "completed"))
    files.make_directory(to_uri(made / "shared"))
    assert synced == [made]
    files.delete_directory(to_uri(made))
    (made / "shared").mkdir(parents=True)
    files.make_directory(to_uri(made / "shared"))
    assert synced == [made, made.parent, made]


def test_names_of_directories_are_synced_once_in_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default_file_system().make_directory(to_uri(tmp_path / "job" / "chk-1"))
    synced: list[Path] = []
    monkeypatch.setattr(file_system, "_sync_directory", synced.append)
    default_file_system().make_directory(to_uri(tmp_path / "job" / "chk-1"))
    default_file_system().make_directory(to_uri(tmp_path / "job" / "chk-2"))
    assert synced == [tmp_path / "job"]


def test_a_directory_made_while_the_same_one_is_deleted_is_synced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, uri = ArrowFileSystem(), to_uri(tmp_path / "a")
    files.make_directory(uri)
    delete = shutil.rmtree

    def slowly(directory: Path) -> None:
        files.make_directory(uri)  # by another thread
        delete(directory)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    files.delete_directory(uri)
    synced: list[Path] = []
    monkeypatch.setattr(file_system, "_sync_directory", synced.append)
    (tmp_path / "a").mkdir()
    files.make_directory(uri)
    assert synced == [tmp_path]


def test_a_file_whose_name_could_not_be_synced_is_synced_by_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, uri = ArrowFileSystem(), to_uri(tmp_path / "a" / "_metadata")
    files.make_directory(to_uri(tmp_path / "a"))
    tries: list[Path] = []

    def fail_once(directory: Path) -> None:
        tries.append(directory)
        if len(tries) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(file_system, "_sync_directory", fail_once)
    write_once(files, uri, b"content", Retries(pause=lambda seconds: None))
    assert tries == [tmp_path / "a"] * 2


def test_a_directory_above_that_nobody_may_sync_is_left_and_a_broken_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: Path) -> None:
        if directory == tmp_path.parent:
            raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(file_system, "_sync_directory", refuse)
    refusal = errno.EACCES
    ArrowFileSystem().make_directory(to_uri(tmp_path / "a"))
    refusal = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        ArrowFileSystem().make_directory(to_uri(tmp_path / "b"))
