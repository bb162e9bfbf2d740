"""Checks of uploaded zips and wheels, made on the archive's directory before anything is unpacked or imported.

Slots put the archive itself on `sys.path`; Tidemark unpacks nothing. The checks protect anyone who does unpack it.
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

MAX_FILES = 20_000
MAX_UNPACKED_BYTES = 2 << 30
"""Enough for a wheel with a large model, too little for a zip bomb."""
SUFFIXES = (".zip", ".whl")
MAIN = "__main__.py"


class ArchiveError(Exception):
    """The archive is refused; the message says in one line what is wrong with it."""


def check_archive(path: Path) -> str | None:
    """Check a zip or wheel.

    Returns:
        The module that starts the program: the only top-level package with a `__main__.py`; None if the archive itself
        has a `__main__.py`, or the package is not unique.

    Raises:
        ArchiveError: the file is not an archive, or has members that a legitimate one never has.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ArchiveError(f"The file is not a zip archive: {error}") from error
    if len(members) > MAX_FILES:
        raise ArchiveError(f"The archive has {len(members)} files; at most {MAX_FILES} are allowed.")
    unpacked = sum(member.file_size for member in members)
    if unpacked > MAX_UNPACKED_BYTES:
        raise ArchiveError(f"The archive is {unpacked} bytes unpacked; at most {MAX_UNPACKED_BYTES} are allowed.")
    seen: set[str] = set()
    for member in members:
        _check_member(member)
        # some file systems ignore case in names
        name = member.filename.rstrip("/").casefold()
        if name in seen:
            raise ArchiveError(f"The archive has {_shown(member.filename)} twice.")
        seen.add(name)
    return _entry({member.filename for member in members})


def _check_member(member: zipfile.ZipInfo) -> None:
    # check the stored name: zipfile truncates names at a NUL and turns the system's separator into "/"
    name = member.orig_filename
    shown = _shown(name)
    if not name or "\0" in name or any(ord(c) < 32 for c in name):
        raise ArchiveError(f"The archive has a file with an unusable name, {shown}.")
    if name.startswith("/") or "\\" in name or name[1:2] == ":":
        raise ArchiveError(f"The archive has a file with an absolute or foreign path, {shown}.")
    if any(part in ("..", ".") for part in name.split("/")) or "//" in name:
        raise ArchiveError(f"The archive has a file whose path leads outside of it, {shown}.")
    if member.flag_bits & 0x1:
        raise ArchiveError(f"The archive has an encrypted file, {shown}.")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ArchiveError(f"The archive has a link or a device, {shown}.")


def _entry(names: set[str]) -> str | None:
    if MAIN in names:
        return None
    packages = [name.split("/")[0] for name in names if name.count("/") == 1 and name.endswith(f"/{MAIN}")]
    return packages[0] if len(packages) == 1 and packages[0].isidentifier() else None


def _shown(name: str) -> str:
    return repr(name[:100])
