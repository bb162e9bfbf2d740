"""Lists the files that a source reads, from paths, directories, patterns and examples; and spells paths."""

from __future__ import annotations

import contextlib
import glob
import stat
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

from runtime.operators.source import SourceError

EXAMPLE = "example:"
"""Begins the path of a file that comes with Tidemark, such as "example:orders.csv"."""


def local_path(path: str | Path) -> str:
    """Return the file system path of a path or `file:` URI.

    Raises:
        ValueError: it is empty or belongs to another file system.
    """
    text = str(path)
    if not text:
        raise ValueError("a path must not be empty")
    if "://" not in text and not text.startswith("file:"):
        return text
    uri = urlsplit(text)
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        raise ValueError(f"{text}: only local paths and file: URIs are supported")
    return unquote(uri.path)


def list_files(paths: Sequence[str], may_be_empty: bool = False) -> list[str]:
    """Return all files of files, directories (with what is below them), glob patterns and examples, sorted, each once.

    Files and directories whose name begins with `.` or `_` are passed over, as Flink does, unless named themselves:
    they belong to whoever is still writing.

    Args:
        paths: as said.
        may_be_empty: whether a path may lead to no file yet.

    Raises:
        SourceError: a path does not exist, or there is no file in it.
    """
    found: set[str] = set()
    for path in paths:
        try:
            listed = _files_of(path)
            if not listed:
                raise SourceError(f"{path}: it has no files to read")
        except SourceError:
            if not may_be_empty:
                raise
            continue
        found.update(listed)
    return sorted(found)


def _files_of(path: str) -> list[str]:
    if path.startswith(EXAMPLE):
        return [_example(path)]
    entry = Path(path)
    mode = None
    # looked at once: it may be made at this moment
    with contextlib.suppress(OSError, ValueError):
        mode = entry.stat().st_mode
    if mode is not None and stat.S_ISDIR(mode):
        return [str(file) for file in entry.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(entry))]
    if mode is not None:
        return [path]
    if not glob.has_magic(path):
        raise SourceError(f"{path}: no such file or directory")
    listed = []
    # Path.glob takes no absolute patterns
    for match in glob.glob(path, recursive=True):  # noqa: PTH207
        listed += _files_of(match)
    if not listed:
        raise SourceError(f"{path}: no file matches the pattern")
    return listed


def _example(path: str) -> str:
    directory = files("runtime.connectors") / "data"
    # in an executor that does not have this package it is a zip
    names = sorted(file.name for file in directory.iterdir()) if isinstance(directory, Path) else []
    name = path.removeprefix(EXAMPLE)
    if name not in names:
        raise SourceError(f"{path}: no such example; there are: {', '.join(names) or 'none here'}")
    return str(directory / name)


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)
