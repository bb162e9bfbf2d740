"""Places in the user's code, "file:line": where an operator is defined, and where a function has failed.

What is neither the engine's nor a library's is the user's.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_ENGINE_DIR = f"{Path(__file__).absolute().parent.parent}{os.sep}"
_LIBRARY_DIRS = tuple(
    f"{path}{os.sep}"
    for path in {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), site.getusersitepackages()}
)


def is_engine(file: str) -> bool:
    """Return whether a file is one of the engine's own."""
    return file.startswith(_ENGINE_DIR)


def users_place(places: Iterable[tuple[str, int]]) -> tuple[str, int] | None:
    """Return the innermost place outside of the engine, and outside of libraries if there is one.

    Args:
        places: file and line of each call, innermost first.
    """
    library: tuple[str, int] | None = None
    for file, line in places:
        if is_engine(file):
            continue
        if not file.startswith((*_LIBRARY_DIRS, "<frozen")):
            return file, line
        library = library or (file, line)
    return library


def calling_place() -> str:
    """Return where the user's code is at this moment, as "file:line"; "" if only the engine and libraries are there."""
    place = users_place(_callers())
    return "" if place is None else f"{place[0]}:{place[1]}"


def _callers() -> Iterable[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
