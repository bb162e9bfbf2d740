"""FileCompletedStore: the log of completed checkpoints of application mode, where there is no database.

Each entry of the log (see `entry_log`) in the directory `completed` has the complete state: the current JobMaster and
the retained checkpoints. Of two JobMasters that saw the same last entry only one can append the next. A JobMaster
appends an entry when it takes over; from then on its predecessors can complete nothing, however late their writes are.
The last entry of an elected JobMaster says how the job ended, and is kept: a JobMaster that was elected meanwhile would
otherwise find an empty directory and begin the job anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from runtime.checkpoint.completed_store import CheckpointPointer, CompletedCheckpoint
from runtime.checkpoint.entry_log import EntryLog
from runtime.checkpoint.errors import FencedError, JobOverError, NotASnapshotError, StorageAwayError
from runtime.checkpoint.file_system import CheckpointFileSystem
from runtime.checkpoint.layout import METADATA, completed_directory
from runtime.checkpoint.locations import join
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.state_files import DEFAULT_RETRIES, Retries
from runtime.core.ids import CheckpointId, JobId

_KIND: Final = "tidemark-completed"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Content of one entry."""

    number: int
    """0-based; it only grows. -1: there is no entry yet."""
    owner: str
    """Random name of the JobMaster that wrote it."""
    leader_epoch: int
    retained: tuple[CheckpointPointer, ...] = ()
    """Completed checkpoints, oldest first."""
    outcome: JobOutcome | None = None
    """Outcome of the job; None: it has not ended."""


class FileCompletedStore:
    """CompletedCheckpointStore on a file system. `open` creates one and takes over; one call at a time.

    Args:
        root: URI of the checkpoint directory.
        job_id: the job.
        leader_epoch: of the JobMaster that takes over.
        files: the file system.
        owner: globally unique name of this JobMaster.
        retries: of failed operations.
    """

    def __init__(
        self,
        root: str,
        job_id: JobId,
        leader_epoch: int,
        files: CheckpointFileSystem,
        owner: str,
        retries: Retries = DEFAULT_RETRIES,
    ) -> None:
        self._directory = completed_directory(root, job_id)
        self._log = EntryLog(self._directory, _KIND, _VERSION, files, retries)
        self._leader_epoch = leader_epoch
        self._files = files
        self._owner = owner
        self._retries = retries

    @classmethod
    def open(
        cls,
        root: str,
        job_id: JobId,
        leader_epoch: int,
        files: CheckpointFileSystem,
        owner: str = "",
        retries: Retries = DEFAULT_RETRIES,
    ) -> FileCompletedStore:
        """Open a store whose JobMaster has taken over from its predecessors.

        Raises:
            FencedError: a JobMaster of a newer epoch has taken over already.
            JobOverError: the job has ended.
            DamagedSnapshotError: the log's last entry is corrupt.
            OSError: the storage cannot be reached.
        """
        store = cls(root, job_id, leader_epoch, files, owner or uuid.uuid4().hex, retries)
        store.take_over()
        return store

    def take_over(self) -> None:
        """Append the entry that fences all earlier JobMasters.

        Raises:
            FencedError, JobOverError, DamagedSnapshotError, OSError: as `open`.
        """
        while True:
            last = self.last_entry()
            if last.leader_epoch > self._leader_epoch:
                raise FencedError(self._directory, self._leader_epoch, last.leader_epoch)
            if last.owner == self._owner:
                return
            if last.outcome is not None:
                raise JobOverError(self._directory, last.outcome)
            # and read it again: while the storage was unavailable, the log may have seemed empty
            self._append(last, last.retained)

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Make a checkpoint whose metadata has been written the latest completed one.

        Returns:
            Whether it succeeded. False: another JobMaster has taken over, and nothing was changed.

        Raises:
            NotASnapshotError: its metadata is not where it was written; nothing was changed.
            OSError: the outcome is unknown; call again.
        """
        pointer = CheckpointPointer(checkpoint.checkpoint_id, checkpoint.location, checkpoint.is_owned)
        last = self._last_of_some()
        if last.owner != self._owner:
            return False
        if pointer in last.retained:
            return True
        if not self._retries.call(lambda: self._files.exists(join(checkpoint.location, METADATA))):
            # for example written into a mount point while its storage was not mounted
            raise NotASnapshotError(checkpoint.location, f"its {METADATA} file is gone")
        others = (kept for kept in last.retained if kept.checkpoint_id != pointer.checkpoint_id)
        retained = tuple(sorted((*others, pointer), key=lambda kept: kept.checkpoint_id))
        if not self._append(last, retained):
            return False
        # a used number can be free again: then newer entries exist that do not take this one into account
        newest = self.last_entry()
        return newest.number == last.number + 1 or pointer in newest.retained

    def retained(self) -> list[CheckpointPointer]:
        """Return the completed checkpoints that have not been removed, oldest first.

        Raises:
            DamagedSnapshotError: the log's last entry is corrupt.
            OSError: the storage cannot be reached.
        """
        return list(self._last_of_some().retained)

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Drop these from `retained`; missing ones are no error.

        Raises:
            FencedError: another JobMaster has taken over, and nothing was changed.
            OSError: the outcome is unknown; call again (the checkpoints may or may not be dropped).
        """
        gone = set(checkpoint_ids)
        last = self._last_of_some()
        kept = tuple(pointer for pointer in last.retained if pointer.checkpoint_id not in gone)
        if last.owner != self._owner:
            raise FencedError(self._directory, self._leader_epoch, last.leader_epoch)
        if kept != last.retained and not self._append(last, kept):
            raise FencedError(self._directory, self._leader_epoch, self.last_entry().leader_epoch)

    def end(self, outcome: JobOutcome) -> None:
        """Append the entry with the job's outcome.

        A JobMaster of epoch 0 was not elected, has no successor, and leaves nothing behind.

        Raises:
            FencedError: another JobMaster has taken over, and nothing was changed.
            OSError: the outcome of the call is unknown; call again.
        """
        if self._leader_epoch == 0:
            return
        last = self._last_of_some()
        if last.owner != self._owner:
            raise FencedError(self._directory, self._leader_epoch, last.leader_epoch)
        if last.outcome is None and not self._append(replace(last, outcome=outcome), last.retained):
            raise FencedError(self._directory, self._leader_epoch, self.last_entry().leader_epoch)

    def last_entry(self) -> LogEntry:
        """Return the newest entry of the log; one with the number -1 if there is none.

        Raises:
            DamagedSnapshotError: it is corrupt. A person must then choose what to restore.
            OSError: the storage cannot be reached.
        """
        last = self._log.last()
        if last is None:
            return LogEntry(-1, "", -1)
        number, saved = last
        outcome = JobOutcome(saved["outcome"]) if "outcome" in saved else None
        return LogEntry(number, saved["owner"], saved["leader_epoch"], _pointers(saved["retained"]), outcome)

    def _last_of_some(self) -> LogEntry:
        """Return the newest entry; there is one since this JobMaster has taken over."""
        last = self.last_entry()
        if last.number < 0:
            raise StorageAwayError(self._directory)
        return last

    def _append(self, last: LogEntry, retained: tuple[CheckpointPointer, ...]) -> bool:
        """Create the entry that follows `last`; returns False if another JobMaster has."""
        document: dict[str, Any] = {
            "owner": self._owner,
            "leader_epoch": self._leader_epoch,
            "retained": [[pointer.checkpoint_id, pointer.location, pointer.is_owned] for pointer in retained],
        }
        if last.outcome is not None:
            document["outcome"] = last.outcome.value
        return self._log.append(last.number + 1, document)


def _pointers(saved: Sequence[Sequence[Any]]) -> tuple[CheckpointPointer, ...]:
    return tuple(CheckpointPointer(CheckpointId(number), location, owned) for number, location, owned in saved)
