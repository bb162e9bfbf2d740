"""Deletes logs of jobs: directories of old attempts, and the whole directory of a job that has no row any more.

Nothing outside of a job's own directory is deleted, whatever links and names lie there. A job's directory has a mark
with the id of the cluster, because several clusters may use one storage. Waits for the storage: the
leader's loop must not call it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_JOB = re.compile(r"[0-9a-f]{32}")
ATTEMPT = re.compile(r"attempt-(0|[1-9][0-9]{0,8})")
"""Name of the directory of an attempt's logs."""


def delete_attempts(
    root: Path, job_id: str, cluster_id: str, oldest: int, in_use: Collection[int], check: Callable[[], None]
) -> None:
    """Delete the logs of a job's old attempts, and mark its directory as this cluster's.

    Args:
        root: the directory of all jobs' logs.
        job_id: the job.
        cluster_id: of this cluster.
        oldest: number of the oldest attempt that is kept.
        in_use: older attempts that are kept, too.
        check: called before each deletion; what it raises ends the work.

    Raises:
        OSError: something could not be deleted; what can be has been.
    """
    problems: list[OSError] = []
    with suppress(FileNotFoundError), opened(root / checked(job_id)) as directory:
        _mark(directory, cluster_id)
        for name in _names(directory):
            match = ATTEMPT.fullmatch(name)
            if match is None or int(match[1]) >= oldest or int(match[1]) in in_use:
                continue
            check()
            try:
                _delete(name, directory)
            except OSError as error:
                problems.append(error)
    if problems:
        raise problems[0]


def marked_jobs(root: Path, cluster_id: str) -> list[str]:
    """Return the jobs whose directories are marked as this cluster's.

    Raises:
        OSError: the directory cannot be read.
    """
    with suppress(FileNotFoundError):
        names = [path.name for path in root.iterdir()]
        return [name for name in names if _JOB.fullmatch(name) and _is_marked(root / name, cluster_id)]
    return []


def delete_job(root: Path, job_id: str, cluster_id: str, check: Callable[[], None]) -> None:
    """Delete all logs of a job of this cluster.

    Args:
        root: the directory of all jobs' logs.
        job_id: the job; nothing happens if its directory is not there, or not marked as this cluster's.
        cluster_id: of this cluster.
        check: called before the deletion; what it raises ends the work.

    Raises:
        OSError: something could not be deleted.
    """
    if _is_marked(root / checked(job_id), cluster_id):
        check()
        with suppress(FileNotFoundError), opened(root, follows=True) as directory:
            _delete(job_id, directory)


def checked(job_id: str) -> str:
    """Return the id of a job.

    Raises:
        OSError: it is none.
    """
    if _JOB.fullmatch(job_id) is None:
        raise OSError(f"{job_id!r} is no id of a job: nothing is deleted")
    return job_id


@contextmanager
def opened(directory: Path | str, *, follows: bool = False, within: int | None = None) -> Iterator[int]:
    """Open a directory, so that whoever puts a link in its place later changes nothing.

    Args:
        directory: its path, or its name in another one.
        follows: whether it may be a link.
        within: the other one, if it is open.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if follows else os.O_NOFOLLOW)
    descriptor = os.open(directory, flags, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _mark(directory: int, cluster_id: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    os.close(os.open(_mark_name(cluster_id), flags, 0o644, dir_fd=directory))


def _is_marked(directory: Path, cluster_id: str) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return not directory.is_symlink() and stat.S_ISREG((directory / _mark_name(cluster_id)).lstat().st_mode)
    return False


def _mark_name(cluster_id: str) -> str:
    return f".cluster-{cluster_id}"


def _delete(name: str, directory: int) -> None:
    """Delete a directory with everything in it; links are deleted, and not followed."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=directory)
