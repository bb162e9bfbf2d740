"""CheckpointHome: where the checkpoints of one job are, and what its JobMaster may do there."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runtime.checkpoint.completed_store import CompletedCheckpointStore, MemoryCompletedStore
from runtime.checkpoint.file_completed_store import FileCompletedStore
from runtime.checkpoint.locations import EVERYWHERE, AllowedRoots, to_uri
from runtime.checkpoint.settings import CheckpointSettings
from runtime.checkpoint.snapshot_files import SnapshotFiles
from runtime.checkpoint.state_files import default_file_system
from runtime.common import options
from runtime.common.config_options import ConfigurationError
from runtime.core.ids import JobId


def _open_nothing() -> CompletedCheckpointStore:
    return MemoryCompletedStore()


@dataclass(frozen=True)
class CheckpointHome:
    """Location of one job's checkpoints."""

    root: str | None
    """URI of the directory of all jobs' checkpoints; None: there is none, only savepoints can be taken."""
    files: SnapshotFiles
    open_store: Callable[[], CompletedCheckpointStore] = _open_nothing
    """Takes over from an earlier JobMaster of the job; called once, on a thread that may wait."""
    leader_epoch: int = 0
    is_asked_always: bool = False
    """Whether the store is free to ask: it is then asked also for a job that takes no checkpoints by itself, and may
    have stopped with a savepoint.
    """
    waits_for_storage: bool = True
    """Whether a job of which nothing is found at the start waits until its storage is there; else it is refused, and
    whatever watches its program starts it again.
    """
    allowed: AllowedRoots = EVERYWHERE
    """Directories that may hold savepoints."""
    new_name: Callable[[], str] = field(default=lambda: secrets.token_hex(6))
    private_directory: Path | None = None
    """Deleted with the JobMaster."""
    left_stop: str | None = None
    """URI of the savepoint with which the job was to stop under an earlier JobMaster; None: it was not to stop."""
    give_up_stop: Callable[[], None] = lambda: None
    """Records for all later JobMasters that the job goes on without `left_stop`, which a frozen predecessor may yet
    complete. Called before the job begins, on a thread that may wait; called again if it raises.
    """
    may_write: Callable[[], bool] = lambda: True
    """Returns whether a checkpoint may be completed now; asked right before its metadata is written, and again later if
    not. Raises FencedError once another JobMaster has taken over: it may have deleted the checkpoint's directory.
    """

    @classmethod
    def of(
        cls,
        settings: CheckpointSettings,
        job_id: JobId,
        *,
        slots_are_local: bool,
        leader_epoch: int = 0,
        files: SnapshotFiles | None = None,
    ) -> CheckpointHome:
        """Return the home that the settings ask for: a log of files in their directory, or a private directory.

        Args:
            settings: the job's.
            job_id: the job.
            slots_are_local: whether all slots see this machine's files.
            leader_epoch: of the JobMaster.
            files: None = the real ones.

        Raises:
            ConfigurationError: the job takes checkpoints, its slots may be anywhere, and no directory is named.
            UnknownFileSystemError: the directory can never be one.
        """
        files = files if files is not None else SnapshotFiles(default_file_system())
        if settings.directory is not None:
            root = to_uri(settings.directory)

            def open_store() -> CompletedCheckpointStore:
                return FileCompletedStore.open(root, job_id, leader_epoch, files.file_system)

            return cls(root, files, open_store, leader_epoch)
        if slots_are_local:
            # made by the first write to it: most jobs without checkpoints never need it
            directory = Path(tempfile.gettempdir()) / f"tidemark-checkpoints-{job_id}"
            if settings.is_enabled:
                directory.mkdir(mode=0o700, exist_ok=True)
            return cls(directory.as_uri(), files, leader_epoch=leader_epoch, private_directory=directory)
        if settings.is_enabled:
            raise ConfigurationError(
                options.CHECKPOINT_DIRECTORY.key,
                "",
                "the URI of a directory that the slots of the cluster and this process share, for a job that takes "
                "checkpoints",
            )
        return cls(None, files, leader_epoch=leader_epoch)
