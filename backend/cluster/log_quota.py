"""Keeps the logs of one job, all attempts and slots together, within a quota: the oldest files are deleted first.

A file is as old as its last write. The newest of each log stays in attempts that may still write, so a slot always has
its current file, whose size its own rotation bounds (`job_logs`), and by these files the quota can be exceeded. Links
are neither followed nor deleted. Waits for the storage: the leader's loop must not call it.
"""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backend.cluster.log_files import ATTEMPT, checked, opened
from backend.cluster.log_segments import segments
from backend.cluster.log_times import times_path

_LOG = re.compile(r"(slot-\d{1,9}\.(?:out|log))(?:\.e\d{1,18}\.(?:\d{1,18}(?:\.times)?|mark))?")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a log."""

    attempt: int
    log: str
    """Name of the log without numbers."""
    name: str
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """Tells what was deleted for a quota."""

    files: int
    size: int
    """Bytes."""
    attempts: tuple[int, ...]
    """Those of the files, ascending."""
    left: int
    """Bytes that the job's logs have now."""


def trim(
    root: Path, job_id: str, quota: int, writing: Callable[[int], bool], check: Callable[[], None]
) -> Trimmed | None:
    """Delete the oldest files of a job's logs, until they have no more bytes than the quota.

    Args:
        root: the directory of all jobs' logs.
        job_id: the job.
        quota: bytes, at least 1.
        writing: tells whether an attempt may still write.
        check: called before each deletion; what it raises ends the work.

    Returns:
        What was deleted; None: nothing.

    Raises:
        OSError: the directory cannot be read, or a file not be deleted.
    """
    with suppress(FileNotFoundError), opened(root / checked(job_id)) as directory:
        files = list(_files(directory))
        doomed = to_delete(files, quota, writing)
        for file in doomed:
            check()
            with suppress(FileNotFoundError), opened(f"attempt-{file.attempt}", within=directory) as inside:
                os.unlink(file.name, dir_fd=inside)
        if doomed:
            size = sum(file.size for file in doomed)
            attempts = tuple(sorted({file.attempt for file in doomed}))
            return Trimmed(len(doomed), size, attempts, sum(file.size for file in files) - size)
    return None


def to_delete(files: Collection[LogFile], quota: int, writing: Callable[[int], bool]) -> list[LogFile]:
    """Return the files that are to be deleted, first the one that was written longest ago."""
    excess = sum(file.size for file in files) - quota
    newest = _newest_segments(files)
    of_name = {(file.attempt, file.name): file for file in files}
    chosen: list[LogFile] = []
    for file in sorted(files, key=lambda file: (file.changed_ns, file.attempt, file.name)):
        if excess <= 0:
            break
        is_current = newest.get((file.attempt, file.log)) == file.name
        if file.name.endswith((".mark", ".times")) or (is_current and writing(file.attempt)):
            continue
        times = of_name.get((file.attempt, times_path(Path(file.name)).name))
        gone = [file] if times is None else [file, times]
        chosen += gone
        excess -= sum(each.size for each in gone)
    return chosen


def _newest_segments(files: Iterable[LogFile]) -> dict[tuple[int, str], str]:
    """Return attempt and log → the name of the file to which the log is appended."""
    of_logs: dict[tuple[int, str], list[tuple[Path, int]]] = defaultdict(list)
    for file in files:
        of_logs[file.attempt, file.log].append((Path(file.name), file.size))
    found = {key: segments(Path(key[1]), sizes) for key, sizes in of_logs.items()}
    return {key: parts[-1].path.name for key, parts in found.items() if parts}


def _files(directory: int) -> Iterator[LogFile]:
    with os.scandir(directory) as entries:
        attempts = [match for entry in entries if (match := ATTEMPT.fullmatch(entry.name)) is not None]
    for attempt in attempts:
        # another leader may delete an old one; a link or a file of that name is none
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            opened(attempt[0], within=directory) as inside,
            os.scandir(inside) as found,
        ):
            for entry in found:
                match = _LOG.fullmatch(entry.name)
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if match is not None and stat.S_ISREG(status.st_mode):
                        yield LogFile(int(attempt[1]), match[1], entry.name, status.st_size, status.st_mtime_ns)
