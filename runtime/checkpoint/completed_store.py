"""Interfaces behind the coordinator's storage actions, which store completed checkpoints and find them again.

A checkpoint is complete when its store says so, not when its metadata file exists. A store belongs to one JobMaster of
one job, and refuses to complete anything once a newer JobMaster has taken over. Not called on the machine's thread; one
call at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runtime.checkpoint.handles import CheckpointMetadata
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.core.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class CompletedCheckpoint:
    """A checkpoint from which recovery may start."""

    metadata: CheckpointMetadata
    is_owned: bool = True
    """Whether the job owns its files and deletes them."""
    is_claimed: bool = False
    """Whether the job has claimed it instead of writing it: it is owned, but deleted only when newer checkpoints of the
    job have replaced it, never because the job ends."""

    statistics: StatisticsRecord | None = field(default=None, compare=False)
    """Those of the job as of its completion, for a store that keeps them."""

    @property
    def checkpoint_id(self) -> CheckpointId:
        return self.metadata.checkpoint_id

    @property
    def location(self) -> str:
        """Return the URI of its directory."""
        return self.metadata.options.directory


@dataclass(frozen=True, slots=True)
class CheckpointPointer:
    """A store's record of a completed checkpoint."""

    checkpoint_id: CheckpointId
    location: str
    """URI of the directory with its metadata."""
    is_owned: bool = True


class CompletedCheckpointStore(Protocol):
    """Pointers to the completed checkpoints of one job: files in application mode, SQL rows on a session cluster."""

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Make a checkpoint whose metadata has been written the latest completed one.

        Returns:
            Whether it succeeded. False: another JobMaster has taken over, and nothing was changed.

        Raises:
            NotASnapshotError: its metadata is not where it was written; nothing was changed.
            OSError: the outcome is unknown; call again.
        """

    def retained(self) -> list[CheckpointPointer]:
        """Return the completed checkpoints that have not been removed, oldest first.

        Raises:
            OSError: the storage cannot be reached.
        """

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Drop these from `retained`; missing ones are no error. Their files may be deleted only after this has
        returned.

        Raises:
            FencedError: another JobMaster has taken over, and nothing was changed.
            Exception: the outcome is unknown; call again.
        """

    def end(self, outcome: JobOutcome) -> None:
        """Record how the job ended, for JobMasters that take over later; may be repeated. Checkpoints of an ended job
        may be removed only after this has returned.

        Raises:
            FencedError: another JobMaster has taken over, and nothing was changed.
            OSError: the outcome is unknown; call again.
        """


class CheckpointFiles(Protocol):
    """Writes and reads metadata files, and deletes."""

    def write_metadata(self, metadata: CheckpointMetadata) -> int:
        """Write `_metadata` into the checkpoint's directory, atomically; returns the size in bytes.

        Raises:
            OSError: it could not be written, or exists already.
        """

    def read_metadata(self, location: str) -> CheckpointMetadata:
        """Read and verify the metadata in a directory.

        Raises:
            DamagedSnapshotError: it is missing from its directory, or corrupt.
            StorageAwayError: the directory is missing, too.
            OSError: the storage cannot be reached.
        """

    def delete(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Delete files, and directories with their contents; missing ones are no error.

        Raises:
            OSError: something is left; call again, or leave it to the cleanup of orphans.
        """


class MemoryCompletedStore:
    """CompletedCheckpointStore of a JobMaster whose checkpoints are deleted with it."""

    def __init__(self) -> None:
        self._retained: dict[CheckpointId, CheckpointPointer] = {}

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Record the checkpoint; always True."""
        pointer = CheckpointPointer(checkpoint.checkpoint_id, checkpoint.location, checkpoint.is_owned)
        self._retained[checkpoint.checkpoint_id] = pointer
        return True

    def retained(self) -> list[CheckpointPointer]:
        """Return the completed checkpoints that have not been removed, oldest first."""
        return [self._retained[checkpoint_id] for checkpoint_id in sorted(self._retained)]

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Drop these from `retained`."""
        for checkpoint_id in checkpoint_ids:
            self._retained.pop(checkpoint_id, None)

    def end(self, outcome: JobOutcome) -> None:
        """Do nothing: nobody can take over."""
