"""The directory of a job's checkpoints, once the job is over: what of it goes, and whose it may have become."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.layout import (
    COMPLETED,
    SHARED,
    job_directory,
    shared_directory,
    writer_of_directory,
    writer_of_file,
)
from runtime.checkpoint.locations import join
from runtime.core.ids import JobId
from runtime.jobmaster.checkpoint_home import CheckpointHome


def remove_job_directory(home: CheckpointHome, job_id: JobId) -> bool:
    """Remove the directory of a job of which nothing is kept, unless there is something of somebody else in it.

    Args:
        home: of the JobMaster with which the job has ended.
        job_id: the job.

    Returns:
        Whether it was there and is removed. False also if its storage is not mounted.

    Raises:
        OSError: the storage cannot be reached.
    """
    if home.root is None:
        return False
    directory, files = job_directory(home.root, job_id), home.files.file_system
    names = [entry.name for entry in files.list(directory)]
    is_ours = all(name in (SHARED, COMPLETED) or writer_of_directory(name) for name in names)
    if not is_ours or not (names or files.exists(directory)) or _has_successor(home, home.root, job_id, names):
        return False
    if home.leader_epoch > 0 and COMPLETED in names:
        # the log says that the job is over, to those who come late
        for name in names:
            if name != COMPLETED:
                files.delete_directory(join(directory, name))
    else:
        files.delete_directory(directory)
    return True


def _has_successor(home: CheckpointHome, root: str, job_id: JobId, names: Sequence[str]) -> bool:
    """Return whether a JobMaster of a newer epoch has left a trace in the job's directory, given its content."""
    files, epoch = home.files.file_system, home.leader_epoch
    shared = files.list(shared_directory(root, job_id)) if SHARED in names else ()
    writers = [*map(writer_of_directory, names), *(writer_of_file(entry.name) for entry in shared)]
    if any(writer is not None and writer.leader_epoch > epoch for writer in writers):
        return True
    if COMPLETED not in names:
        return False
    log = FileCompletedStore(root, job_id, epoch, files, "")
    return log.last_entry().leader_epoch > epoch
