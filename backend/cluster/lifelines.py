"""Lifelines: a locked file for each TaskManager of a home, whose lock falls with the process, however that ends.

A TaskManager that was killed tells nobody, and the leader would give its slots away for ten seconds more. The next one
on the same machine finds the lock free and tells in its place, before it starts its own JVM. Any thread.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def hold_lifeline(home: Path, host: str, taskmanager: str) -> TextIO:
    """Say that a TaskManager lives, for as long as the file is open, at the longest as the process lives.

    Args:
        home: TIDEMARK_HOME.
        host: the machine's name.
        taskmanager: its id.
    """
    directory = _directory(home, host)
    directory.mkdir(parents=True, exist_ok=True)
    # locked under another name: whoever looks for the dead in between must not find it
    made = directory / f".{taskmanager}"
    file = made.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    made.rename(directory / taskmanager)
    return file


@contextmanager
def dead_taskmanagers(home: Path, host: str) -> Iterator[list[str]]:
    """Ids of the TaskManagers of that machine that have ended; the next caller is not told of them again.

    If the block raises, the next caller is.
    """
    directory, dead = _directory(home, host), dict[str, TextIO]()
    try:
        for path in sorted(directory.glob("[!.]*")):
            file = path.open()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                # it lives
                file.close()
            else:
                dead[path.name] = file
        yield list(dead)
        for name in dead:
            (directory / name).unlink(missing_ok=True)
    finally:
        for lock in dead.values():
            lock.close()


def _directory(home: Path, host: str) -> Path:
    return home / "taskmanagers" / host
