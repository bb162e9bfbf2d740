"""Lifelines: one locked file per TaskManager of a home; the lock is released with the process, however that ends.

A killed TaskManager cannot sign off, and the leader would grant its slots for ten more seconds. The next TaskManager on
the same machine finds the lock free and reports the death before it starts its own JVM. Any thread.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def hold_lifeline(home: Path, host: str, taskmanager: str) -> TextIO:
    """Mark a TaskManager as alive until the returned file is closed, or the process ends.

    Args:
        home: TIDEMARK_HOME.
        host: the machine's name.
        taskmanager: its id.
    """
    directory = _directory(home, host)
    directory.mkdir(parents=True, exist_ok=True)
    # locked under another name first: a concurrent search for dead TaskManagers must not find it unlocked
    made = directory / f".{taskmanager}"
    file = made.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    made.rename(directory / taskmanager)
    return file


@contextmanager
def dead_taskmanagers(home: Path, host: str) -> Iterator[list[str]]:
    """Yield the ids of the TaskManagers on that machine that have ended; the next caller does not get them again.

    If the block raises, the next caller does get them.
    """
    directory, dead = _directory(home, host), dict[str, TextIO]()
    try:
        for path in sorted(directory.glob("[!.]*")):
            file = path.open()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                # it is alive
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
