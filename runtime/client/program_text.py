"""The text of a program's files, to be shown beside what they define.

Runs in the child that runs the program, within its limits: an archive may hold more than it says.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

MAX_FILE_BYTES = 256 << 10
MAX_FILES = 50


def texts_of(program: Path, name: str, files: Iterable[str]) -> dict[str, str]:
    """Return the text of files of a program.

    Args:
        program: a .py, or an archive.
        name: of that file, as its user knows it.
        files: names as places of operators have them: `name`, or "name/package/module.py".

    Returns:
        Text by name. Files that are not the program's, are larger than `MAX_FILE_BYTES`, are not text or cannot be read
        are left out, as are those beyond `MAX_FILES`: what they define can be shown without them.
    """
    found: dict[str, str] = {}
    # zipfile raises errors of the codecs, too
    with suppress(Exception):
        for file, data in _contents(program, name, sorted(set(files))[:MAX_FILES]):
            with suppress(UnicodeDecodeError):
                if len(data) <= MAX_FILE_BYTES:
                    found[file] = data.decode()
    return found


def _contents(program: Path, name: str, files: list[str]) -> Iterator[tuple[str, bytes]]:
    if program.suffix == ".py":
        if name in files:
            with program.open("rb") as opened:
                yield name, opened.read(MAX_FILE_BYTES + 1)
        return
    with zipfile.ZipFile(program) as archive:
        for file in files:
            # the rest is not what Python imports from
            with suppress(KeyError):
                member = archive.getinfo(file.removeprefix(f"{name}/"))
                if file.startswith(f"{name}/") and member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    with archive.open(member) as opened:
                        yield file, opened.read(MAX_FILE_BYTES + 1)
