"""Names of the directories and files of checkpoints. Pure text; any thread.

    <root>/<job id>/chk-<n>-<epoch>.<attempt>/   one checkpoint: its own files and _metadata
    <root>/<job id>/shared/                      files that later checkpoints refer to too
    <root>/<job id>/completed/                   the log of completed checkpoints (application mode)
    <target>/savepoint-<job>-<random>/           one savepoint, complete in itself

Every name contains the leader epoch and the attempt of its writer, so that leftovers of older ones can be recognised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from runtime.checkpoint.locations import join, name_of
from runtime.core.ids import Attempt, CheckpointId, JobId

METADATA: Final = "_metadata"
DISPOSED: Final = "_disposed"
"""Says that the directory was a snapshot's, whose files are being deleted on request."""
SHARED: Final = "shared"
COMPLETED: Final = "completed"
_CHECKPOINT: Final = re.compile(r"chk-([0-9]+)-([0-9]+)\.([0-9]+)")
_FILE: Final = re.compile(r"\.?([0-9]+)-([0-9]+)\.([0-9]+)-.*")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_HINT: Final = 60
"""Maximum length of a task's and a file's name in a file's name; the whole name stays below 255 characters."""


@dataclass(frozen=True, slots=True)
class WrittenBy:
    """Checkpoint, epoch and attempt that a file or directory belongs to."""

    checkpoint_id: CheckpointId
    leader_epoch: int
    attempt: Attempt

    @property
    def fence(self) -> tuple[int, int]:
        """Return the sort key of writers: epoch, then attempt."""
        return self.leader_epoch, self.attempt


def job_directory(root: str, job_id: JobId) -> str:
    """Return the directory of a job's checkpoints."""
    return join(root, job_id)


def shared_directory(root: str, job_id: JobId) -> str:
    """Return the directory of a job's shared files."""
    return join(root, job_id, SHARED)


def completed_directory(root: str, job_id: JobId) -> str:
    """Return the directory of a job's log of completed checkpoints."""
    return join(root, job_id, COMPLETED)


def checkpoint_directory(
    root: str, job_id: JobId, checkpoint_id: CheckpointId, leader_epoch: int, attempt: Attempt
) -> str:
    """Return the directory of one checkpoint."""
    return join(root, job_id, f"chk-{checkpoint_id}-{leader_epoch}.{attempt}")


def savepoint_directory(target: str, job_id: JobId, token: str) -> str:
    """Return the directory of one savepoint; `token` is 12 random hex digits."""
    return join(target, f"savepoint-{job_id[:6]}-{token}")


def writer_of_directory(name_or_uri: str) -> WrittenBy | None:
    """Return the writer of a checkpoint's directory; None if it is not one."""
    return _written_by(_CHECKPOINT.fullmatch(name_of(name_or_uri)))


def writer_of_file(name: str) -> WrittenBy | None:
    """Return the writer of a file, or of its draft, from a name made by `file_name`; None for other names."""
    return _written_by(_FILE.fullmatch(name))


def file_name(directory: str, task: str, hint: str, token: str) -> str:
    """Return the name of a new file of the checkpoint in `directory`.

    Args:
        directory: of the checkpoint or savepoint.
        task: its writer, for readers of the name.
        hint: its content, for readers of the name.
        token: makes it unique.
    """
    writer = writer_of_directory(directory)
    prefix = f"{writer.checkpoint_id}-{writer.leader_epoch}.{writer.attempt}-" if writer else ""
    return f"{prefix}{_safe(task)}-{_safe(hint)}-{token}"


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:_MAX_HINT].strip(".") or "_"


def _written_by(match: re.Match[str] | None) -> WrittenBy | None:
    if match is None:
        return None
    checkpoint_id, epoch, attempt = (int(group) for group in match.groups())
    return WrittenBy(CheckpointId(checkpoint_id), epoch, Attempt(attempt))
