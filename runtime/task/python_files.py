"""Makes a job's own Python files importable in a slot. Files in an object store are copied to this machine first.

Slots of one machine and account share the copies, which are named as in the store and stay: modules of an archive are
read from it when they are first imported. Blocks while it copies.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.locations import is_local, local_path, name_of, parent_of
from runtime.checkpoint.state_files import default_file_system

_DIGEST = re.compile(r"([0-9a-f]{64})(?:\.(?:[0-9a-f]{8}-)?[0-9a-f]{8})?")


class DamagedProgramError(OSError):
    """A program is not what was uploaded."""


def add_to_python_path(files: Sequence[str]) -> None:
    """Make files importable: archives and directories themselves, modules by their directory.

    Args:
        files: paths, or URIs of archives.

    Raises:
        OSError: an archive cannot be copied.
    """
    for file in filter(None, files):
        path = local_path(file) if "://" in file and is_local(file) else Path(file)
        if not is_local(file):
            path = local_copy(file, default_file_system(), _copies())
        entry = str(path.parent if path.suffix == ".py" else path)
        if entry not in sys.path:
            sys.path.insert(0, entry)


def local_copy(uri: str, files: CheckpointFileSystem, directory: Path) -> Path:
    """Copy a program, unless that was done before; it appears as a whole.

    Args:
        uri: <...>/<sha256, perhaps with a suffix>/<file name>.
        files: where it is.
        directory: where copies go.

    Raises:
        DamagedProgramError: the content does not have the digest.
        OSError: it cannot be read or written.
    """
    upload, name = name_of(parent_of(uri)), name_of(uri)
    copy = directory / upload / name
    if copy.is_file():
        return copy
    copy.parent.mkdir(parents=True, exist_ok=True)
    draft = copy.with_name(f".{name}-{secrets.token_hex(4)}")
    digest = hashlib.sha256()
    try:
        with draft.open("wb") as file:
            for piece in files.pieces(uri):
                digest.update(piece)
                file.write(piece)
        match = _DIGEST.fullmatch(upload)
        if match is not None and match[1] != digest.hexdigest():
            raise DamagedProgramError(f"{uri} is damaged: its sha256 is {digest.hexdigest()}")
        draft.replace(copy)
    finally:
        draft.unlink(missing_ok=True)
    return copy


def _copies() -> Path:
    """Return the directory of copies; another one if somebody else has taken the name."""
    directory = Path(tempfile.gettempdir()) / f"tidemark-{os.getuid()}" / "artifacts"
    for each in (directory.parent, directory):
        # one by one: `parents` makes those above it with the umask's permissions, perhaps the group's to write
        each.mkdir(mode=0o700, exist_ok=True)
    for each in (directory.parent, directory):
        status = each.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return Path(tempfile.mkdtemp(prefix="tidemark-")) / "artifacts"
    return directory
