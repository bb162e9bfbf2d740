"""Users of snapshots: which job needs a snapshot (so that nobody deletes or claims it), and what a job started from."""

from __future__ import annotations

from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import TERMINAL_STATES, Checkpoint, Job
from backend.cluster.storage_calls import ask_location, check_in_time
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.layout import METADATA
from runtime.checkpoint.locations import join
from runtime.checkpoint.settings import CheckpointSettings, ClaimMode, RestoreSettings
from runtime.checkpoint.snapshot_files import snapshot_directory
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration


def job_that_needs(directory: str, check: CheckLocation = check_in_time) -> str | None:
    """Return the id of a job that has not ended and may restore from the snapshot in a directory, if there is one.

    Args:
        directory: URI returned by `SnapshotFiles.directory_of`.
        check: checks the locations that jobs were started from.

    Raises:
        StorageSilentError: `check` has no answer yet.
    """
    own = Checkpoint.objects.filter(location=directory).exclude(job__state__in=TERMINAL_STATES)
    owner: str | None = own.values_list("job_id", flat=True).first()
    if owner is not None:
        return owner
    live = Job.objects.exclude(state__in=TERMINAL_STATES).defer("document", "plan")
    return next((job.id for job in live.iterator() if _goes_back_to(job, directory, check)), None)


def checkpoint_settings(job: Job) -> CheckpointSettings:
    """Return the checkpoint settings that a job was submitted with.

    Raises:
        ConfigurationError: this release cannot read an option.
    """
    return CheckpointSettings.from_configuration(Configuration.from_dict(dict(job.graph["configuration"])))


def left_of_start(job: Job) -> RestoreSettings | None:
    """Return the snapshot that a job was started from; None if there is none or it was since replaced or deleted."""
    try:
        settings = checkpoint_settings(job)
    except ConfigurationError:
        return None
    restore = settings.restore
    if restore is None or restore.claim_mode is ClaimMode.NO_CLAIM:
        return restore
    # a claimed snapshot is deleted only when as many of the job's own have taken its place
    is_replaced = job.checkpoints.count() >= settings.num_retained
    # an ended job may have deleted it, too: only the storage knows
    return None if is_replaced or (job.is_terminal and not _is_there(restore.path)) else restore


def _is_there(path: str) -> bool:
    files = cluster_storage().files()
    try:
        return ask_location(path, lambda: files.file_system.exists(join(files.directory_of(path), METADATA)))
    except CheckpointStorageError:
        return False
    except (OSError, StorageSilentError):
        # the storage is unavailable
        return True


def _goes_back_to(job: Job, directory: str, check: CheckLocation) -> bool:
    """Return whether a job may restore from the snapshot that it was started from, or from files of it."""
    try:
        restore = checkpoint_settings(job).restore
        if restore is None:
            return False
        # later checkpoints may refer to a claimed snapshot's files; otherwise the first checkpoint is self-contained
        if restore.claim_mode is not ClaimMode.CLAIM and job.checkpoints.exists():
            return False
        return snapshot_directory(check(restore.path)) == directory
    except (CheckpointStorageError, ConfigurationError):
        # no longer allowed or readable: the job cannot restore from it either
        return False
