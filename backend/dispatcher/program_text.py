"""The text of uploaded programs, to be shown beside what they define. Blocking; any thread."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from backend.cluster.models import Artifact
from backend.cluster.program_files import program_files
from backend.dispatcher.archives import SUFFIXES as ARCHIVE_SUFFIXES

MAX_FILE_BYTES = 256 << 10
MAX_FILES = 50


def texts_of(artifact: Artifact, files: Iterable[str]) -> dict[str, str]:
    """Return the text of files of a program.

    Args:
        artifact: the program.
        files: names as places of operators have them: the program's own, or "program.zip/package/module.py".

    Returns:
        Text by name. Files that are not the program's, are larger than `MAX_FILE_BYTES` or are no text are left out,
        as are those beyond `MAX_FILES`.

    Raises:
        StorageProblem: the program cannot be read.
    """
    wanted = sorted(files)[:MAX_FILES]
    found: dict[str, str] = {}
    with program_files().opened(artifact.path) as path:
        for name, data in _contents(path, artifact.file_name, wanted):
            try:
                found[name] = data.decode()
            except UnicodeDecodeError:
                continue
    return found


def _contents(path: Path, shown: str, wanted: list[str]) -> Iterable[tuple[str, bytes]]:
    if not shown.endswith(ARCHIVE_SUFFIXES):
        if shown in wanted and path.stat().st_size <= MAX_FILE_BYTES:
            yield shown, path.read_bytes()
        return
    with zipfile.ZipFile(path) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        for name in wanted:
            member = name.removeprefix(f"{shown}/")
            if sizes.get(member, MAX_FILE_BYTES + 1) <= MAX_FILE_BYTES:
                yield name, archive.read(member)
