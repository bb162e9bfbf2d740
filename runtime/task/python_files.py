"""Makes a job's own Python files and packages importable in a slot. Files in an object store are copied to this machine
first, packages unpacked.

Slots of one machine and account share the copies, which are named as in the store and stay: modules of an archive are
read from it when they are first imported. Packages are looked for last, so that they replace nothing of the engine's.
Blocks while it copies.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.locations import is_local, local_path, name_of, parent_of, to_uri
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.configuration import Configuration

_DIGEST = re.compile(r"([0-9a-f]{64})(?:\.(?:[0-9a-f]{8}-)?[0-9a-f]{8})?")


class DamagedProgramError(OSError):
    """A program is not what was uploaded."""


class EnvironmentUnusableError(OSError):
    """The packages of a job cannot be unpacked here."""

    is_self_explanatory = True


def import_files(configuration: Configuration) -> None:
    """Make the files and packages importable that a job's options name.

    Raises:
        OSError: they cannot be copied.
    """
    add_to_python_path((configuration.get(options.PYTHON_FILES) or "").split(","))
    environment = configuration.get(options.PYTHON_ENVIRONMENT)
    if environment:
        entry = str(unpacked_here(environment))
        if entry not in sys.path:
            sys.path.append(entry)


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
            path = local_copy(file, default_file_system(), _copies("artifacts"))
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


def unpacked_here(location: str) -> Path:
    """Return the directory with the packages of an environment, among the copies that slots of this machine share.

    Raises:
        EnvironmentUnusableError: see `unpacked`.
    """
    return unpacked(location, default_file_system(), _copies("environments"))


def unpacked(location: str, files: CheckpointFileSystem, directory: Path) -> Path:
    """Return the directory with the packages of an environment, which is unpacked unless that was done before. It
    appears as a whole: of two that unpack it at once, one has its work thrown away.

    Args:
        location: <...>/<sha256 of the archive>.zip, a URI or a path.
        files: where it is.
        directory: where environments are unpacked.

    Raises:
        EnvironmentUnusableError: it cannot be read, is not what was stored, or does not fit on this machine's disk.
    """
    digest = name_of(location).removesuffix(".zip")
    target = directory / digest
    if target.is_dir():
        return target
    draft = None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{digest[:8]}-", dir=directory))
        archive = draft / "environment.zip"
        found = hashlib.sha256()
        with archive.open("wb") as file:
            for piece in files.pieces(to_uri(location)):
                found.update(piece)
                file.write(piece)
        if found.hexdigest() != digest:
            raise EnvironmentUnusableError(f"the job's Python packages are damaged: {location} is {found.hexdigest()}")
        site = draft / "site"
        with zipfile.ZipFile(archive) as packages:
            packages.extractall(site)
        with suppress(OSError):
            # another slot's is there
            site.rename(target)
        if not target.is_dir():
            raise EnvironmentUnusableError(f"the job's Python packages cannot be unpacked to {target}")
    except EnvironmentUnusableError:
        raise
    except (OSError, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise EnvironmentUnusableError(f"the job's Python packages cannot be unpacked to {directory}: {why}") from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def _copies(kind: str) -> Path:
    """Return the directory of copies; another one if somebody else has taken the name."""
    directory = Path(tempfile.gettempdir()) / f"tidemark-{os.getuid()}" / kind
    for each in (directory.parent, directory):
        # one by one: `parents` makes those above it with the umask's permissions, perhaps the group's to write
        each.mkdir(mode=0o700, exist_ok=True)
    for each in (directory.parent, directory):
        status = each.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return Path(tempfile.mkdtemp(prefix="tidemark-")) / kind
    return directory
