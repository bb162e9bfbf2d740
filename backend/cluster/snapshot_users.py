"""What a job was started from, and which job needs a snapshot, so that it is neither deleted nor claimed by another."""

from __future__ import annotations

from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import METADATA
from runtime.checkpoint.locations import join
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration


def job_that_needs(directory: str) -> str | None:
    """The job that has not ended and may go on from the snapshot in that directory, if there is one.

    Args:
        directory: URI, as `SnapshotFiles.directory_of` gives it.
    """
    own = Checkpoint.objects.filter(location=directory).exclude(job__state__in=TERMINAL_STATES)
    owner: str | None = own.values_list("job_id", flat=True).first()
    if owner is not None:
        return owner
    live = Job.objects.exclude(state__in=TERMINAL_STATES).defer("document", "plan")
    return next((job.id for job in live.iterator() if _goes_back_to(job, directory)), None)


def checkpoint_settings(job: Job) -> CheckpointSettings:
    """What a job was submitted with.

    Raises:
        ConfigurationError: an option cannot be read, by this release.
    """
    return CheckpointSettings.from_configuration(Configuration.from_dict(dict(job.graph["configuration"])))


def left_of_start(job: Job) -> RestoreSettings | None:
    """The snapshot that a job was started from, if it was and has not replaced or deleted it since."""
    try:
        settings = checkpoint_settings(job)
    except ConfigurationError:
        return None
    restore = settings.restore
    if restore is None or restore.claim_mode is ClaimMode.NO_CLAIM:
        return restore
    # what was claimed is deleted when so many of the job's own have taken its place, and then only
    is_replaced = job.checkpoints.count() >= settings.num_retained
    # of a job that has ended they may be gone too: only the storage knows
    return None if is_replaced or (job.is_terminal and not _is_there(restore.path)) else restore


def _is_there(path: str) -> bool:
    files = cluster_storage().files()
    try:
        return files.file_system.exists(join(files.directory_of(path), METADATA))
    except CheckpointStorageError:
        return False
    except OSError:
        # its storage is away
        return True


def _goes_back_to(job: Job, directory: str) -> bool:
    """Whether a job goes back to the snapshot that it was started from, or to files of it."""
    try:
        restore = checkpoint_settings(job).restore
        if restore is None or cluster_storage().files().directory_of(restore.path) != directory:
            return False
    except (CheckpointStorageError, ConfigurationError):
        # not allowed or not understood any more: the job cannot go on from it either
        return False
    # what was claimed may be built on for as long as it is there; else the first checkpoint is complete in itself
    return restore.claim_mode is ClaimMode.CLAIM or not job.checkpoints.exists()
