"""Archives with refused members."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from backend.dispatcher import archives
from backend.dispatcher.archives import ArchiveError, check_archive

Write = Callable[..., Path]


@pytest.fixture
def archive(tmp_path: Path) -> Write:
    """Writes an archive of names, or ZipInfos, with content "x"."""

    def write(*members: str | zipfile.ZipInfo) -> Path:
        path = tmp_path / "program.zip"
        with zipfile.ZipFile(path, "w") as target:
            for member in members:
                target.writestr(member, "x")
        return path

    return write


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "//host/share",
        "../main.py",
        "a/../../main.py",
        "a/..",
        "..",
        ".",
        "./main.py",
        "a//b.py",
        "C:/main.py",
        "C:main.py",
        "..\\main.py",
        "a\\..\\..\\main.py",
        "\\\\host\\share",
        "a/./b.py",
        "main\x01.py",
        "line\nbreak.py",
    ],
)
def test_members_outside_of_the_archive_are_refused(archive: Write, name: str) -> None:
    with pytest.raises(ArchiveError):
        check_archive(archive(name))


def test_a_name_that_hides_behind_a_nul_is_refused(archive: Write) -> None:
    path = archive("main.py", "abcX..X..Xpasswd")
    path.write_bytes(path.read_bytes().replace(b"abcX..X..Xpasswd", b"abc\0../../passwd"))
    with pytest.raises(ArchiveError):
        check_archive(path)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_are_refused(archive: Write, kind: int) -> None:
    member = zipfile.ZipInfo("link.py")
    member.external_attr = (kind | 0o777) << 16
    with pytest.raises(ArchiveError, match="link or a device"):
        check_archive(archive(member))


def test_the_same_name_twice_is_refused(archive: Write) -> None:
    with pytest.raises(ArchiveError, match="twice"):
        check_archive(archive("main.py", "MAIN.py"))


def test_too_many_files_and_too_many_bytes_are_refused(archive: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive("a.py", "b.py", "c.py")
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 2)
    with pytest.raises(ArchiveError, match="3 bytes unpacked"):
        check_archive(path)
    monkeypatch.setattr(archives, "MAX_FILES", 2)
    with pytest.raises(ArchiveError, match="3 files"):
        check_archive(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"print(1)", b"PK\x05\x06" + b"\xff" * 18, b"\x00" * 4096])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program.zip"
    path.write_bytes(content)
    with pytest.raises(ArchiveError):
        check_archive(path)


@pytest.mark.parametrize(
    ("members", "entry"),
    [
        (["__main__.py", "job/__main__.py"], None),
        (["job/__init__.py", "job/__main__.py"], "job"),
        (["a/__main__.py", "b/__main__.py"], None),
        (["job/deeper/__main__.py"], None),
        (["job.py"], None),
        (["not-a-module/__main__.py"], None),
    ],
)
def test_the_module_that_starts_the_program_is_found(archive: Write, members: list[str], entry: str | None) -> None:
    assert check_archive(archive(*members)) == entry
