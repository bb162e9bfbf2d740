"""Finds orphans: files that crashed attempts and abandoned checkpoints have left in a job's directory.

While a job runs, only files of *older* writers than the cleaner (each name contains leader epoch and attempt) to which
no retained checkpoint refers are deleted. Files of the cleaner's own attempt may belong to checkpoints in progress, and
the coordinator deletes them; files of newer writers and foreign names are never touched. So an outdated cleaner does no
harm. Any thread but the job machine's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.layout import SHARED, job_directory, writer_of_directory, writer_of_file
from runtime.checkpoint.locations import join
from runtime.core.ids import Attempt, JobId


@dataclass(frozen=True, slots=True)
class Orphans:
    """URIs that may be deleted."""

    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def find_remains(files: CheckpointFileSystem, root: str, job_id: JobId) -> Orphans:
    """Return what is in the directory of a job that has ended and keeps nothing; what others put there stays.

    Args:
        files: the file system.
        root: the checkpoint directory.
        job_id: the job.

    Raises:
        OSError: the storage cannot be reached.
    """
    job = job_directory(root, job_id)
    names = [entry.name for entry in files.list(job)]
    ours = [name for name in names if name == SHARED or writer_of_directory(name) is not None]
    if len(ours) == len(names):
        return Orphans(directories=(job,))
    return Orphans(directories=tuple(join(job, name) for name in ours))


def find_orphans(
    files: CheckpointFileSystem,
    root: str,
    job_id: JobId,
    leader_epoch: int,
    attempt: Attempt,
    retained: Iterable[CheckpointMetadata],
) -> Orphans:
    """Return the files that older attempts have left behind.

    Args:
        files: the file system.
        root: the checkpoint directory.
        job_id: the job.
        leader_epoch: of the cleaner.
        attempt: the current one.
        retained: every completed checkpoint that has not been removed, as returned by its store *after* this leader has
            taken over; also the snapshot that the job was restored from.

    Raises:
        OSError: the storage cannot be reached.
    """
    mine = (leader_epoch, attempt)
    needed_files: set[str] = set()
    needed_directories: set[str] = set()
    for metadata in retained:
        needed_directories.add(metadata.options.directory)
        needed_files.update(file.uri for file in metadata.files())
    job = job_directory(root, job_id)
    directories = []
    for entry in files.list(job):
        writer, uri = writer_of_directory(entry.name), join(job, entry.name)
        is_needed = uri in needed_directories or any(file.startswith(uri + "/") for file in needed_files)
        if entry.is_directory and writer is not None and writer.fence < mine and not is_needed:
            directories.append(uri)
    shared = join(job, SHARED)
    left = []
    for entry in files.list(shared):
        writer, uri = writer_of_file(entry.name), join(shared, entry.name)
        if not entry.is_directory and writer is not None and writer.fence < mine and uri not in needed_files:
            left.append(uri)
    return Orphans(tuple(left), tuple(directories))
