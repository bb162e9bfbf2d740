"""Turns what the user names (a file, a directory, files beside it) into the one file that is uploaded.

Several modules become a zip, which slots put on `sys.path` as it is. Reads files only; any thread.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from runtime.client.errors import ClientError

ARCHIVE_SUFFIXES = (".zip", ".whl")
MAIN = "__main__"
#: directories that no module is imported from
_SKIPPED_DIRECTORIES = ("__pycache__", "node_modules")
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
#: a zip cannot tell of a time before 1980; a time of its own in each file would make every upload another program
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Program:
    """An uploadable program."""

    name: str
    content: bytes
    entry: str | None
    """Module of an archive that starts the job; None: its `__main__.py`, or the file is not an archive."""


def read_program(path: Path, py_files: Sequence[str], entry: str | None) -> Program:
    """Read a program with its modules.

    Args:
        path: a .py, .zip or .whl file, or a directory of modules.
        py_files: files and directories to import from; each text may name several, with commas between them.
        entry: module that starts the job; None: `__main__.py` of an archive or a directory, else the module of a
            directory that is called as it is, or `main`.

    Raises:
        ClientError: something cannot be read, or it is not clear which module starts the job.
    """
    beside = [Path(name) for text in py_files for name in text.split(",") if name.strip()]
    try:
        if not path.is_dir() and not beside:
            return Program(path.name, path.read_bytes(), entry)
        members, entry = _own_members(path, entry)
        for source in beside:
            for name, content in _members(source):
                if members.setdefault(name, content) != content:
                    raise ClientError(f"--py-files {source}: the program already has another {name}")
    except OSError as error:
        raise ClientError(f"{error.filename or path}: {error.strerror or error}") from None
    except zipfile.BadZipFile:
        raise ClientError(f"{path} or a file of --py-files is not a zip archive") from None
    name = path.absolute().name if path.is_dir() else path.stem
    return Program(f"{name}.zip", _archive(members), None if entry == MAIN else entry)


def _own_members(path: Path, entry: str | None) -> tuple[dict[str, bytes], str | None]:
    """Return the program's own files, and the module that starts the job."""
    if path.is_dir():
        members = dict(_directory_members(path))
        return members, entry or _entry_of(path, members)
    if path.suffix in ARCHIVE_SUFFIXES:
        return dict(_archive_members(path)), entry
    if entry is not None:
        raise ClientError(f"{path} is one module: --entry is for archives and directories")
    # under its own name, which errors show; one that cannot be a module's name can still be run
    module = path.stem if path.stem.isidentifier() else MAIN
    return {f"{module}.py": path.read_bytes()}, module


def _entry_of(directory: Path, members: dict[str, bytes]) -> str:
    name = directory.absolute().name.replace("-", "_")
    for candidate in (MAIN, "main", name):
        if f"{candidate}.py" in members:
            return candidate
    modules = sorted(member.removesuffix(".py") for member in members if member.endswith(".py") and "/" not in member)
    if not modules:
        raise ClientError(f"{directory} has no module in it")
    raise ClientError(
        f"{directory} has no __main__.py: say which module starts the job, --entry {' or '.join(modules[:8])}"
    )


def _members(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what becomes importable: a package under its name; of other directories and of archives their content."""
    if source.is_dir():
        is_package = (source / "__init__.py").is_file()
        prefix = f"{source.absolute().name}/" if is_package else ""
        for name, content in _directory_members(source):
            yield prefix + name, content
    elif source.suffix in ARCHIVE_SUFFIXES:
        yield from _archive_members(source)
    else:
        yield source.name, source.read_bytes()


def _directory_members(directory: Path) -> Iterator[tuple[str, bytes]]:
    for folder, folders, files in os.walk(directory):
        here = Path(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED_DIRECTORIES
            and not (here / name / _VIRTUAL_ENVIRONMENT).exists()
        )
        for name in sorted(files):
            file = here / name
            if not name.startswith(".") and file.is_file():
                yield file.relative_to(directory).as_posix(), file.read_bytes()


def _archive_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, archive.read(member)


def _archive(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    # a package without __init__.py is found in a zip only if its directory has an entry
    folders = {f"{folder}/" for name in members for folder in PurePosixPath(name).parents if folder.name}
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(folders):
            archive.writestr(zipfile.ZipInfo(name, _TIMESTAMP), b"")
        for name, data in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIMESTAMP), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()
