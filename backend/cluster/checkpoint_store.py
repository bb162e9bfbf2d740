"""SqlCompletedStore: the completed checkpoints of one job as rows, written under the leader's epoch.

A checkpoint is complete if and only if its row exists: a JobMaster of an older leader that still tries to complete one
finds another epoch in SQL and is refused. Used by the job's storage thread; only the creator of the store reads the
rows. Nobody but this leader writes them, so the rows read stay valid.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from django.db import transaction

from backend.cluster.checkpoint_counts import write_statistics
from backend.cluster.connections import brief_connection
from backend.cluster.leadership import Leadership, LeadershipLostError
from backend.cluster.models import Checkpoint, Placement
from backend.cluster.open_stops import give_up_stop
from runtime.checkpoint.completed_store import CheckpointPointer, CompletedCheckpoint
from runtime.checkpoint.errors import FencedError
from runtime.checkpoint.layout import writer_of_directory
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId


class JobGivenUpError(Exception):
    """The job belongs to another leader from now on: nothing of it may be removed or deleted here."""


class SqlCompletedStore:
    """Implements CompletedCheckpointStore.

    Args:
        leadership: the leadership that fences all writes.
        job_id: the job.
        retained: its completed checkpoints, oldest first, as read by `completed_checkpoints`.
        clock: for the completion times shown to users.
    """

    def __init__(
        self, leadership: Leadership, job_id: str, retained: Sequence[CheckpointPointer], clock: Clock
    ) -> None:
        self._leadership = leadership
        self._job_id = job_id
        self._retained = {pointer.checkpoint_id: pointer for pointer in retained}
        self._clock = clock
        #: those that were recorded last; replaced as a whole, by the loop and the thread of the storage
        self.statistics: StatisticsRecord | None = None
        self._is_over = False
        self._end_is_saved = threading.Event()
        self._is_given_up = False

    # --- the jobmanager's loop ----------------------------------------------------------------------------------------

    def end_is_saved(self) -> None:
        """Note that the job's row records its end: its last checkpoint is no longer needed."""
        self._end_is_saved.set()

    def give_up(self) -> None:
        """Leave the job to another leader."""
        self._is_given_up = True
        self._end_is_saved.set()

    # --- the thread of the storage ------------------------------------------------------------------------------------

    def may_write(self) -> bool:
        """Return whether a checkpoint's metadata may be written: without a lease a later leader may have looked for it
        and deleted its directory.

        Raises:
            FencedError: another jobmanager leads.
        """
        try:
            return self._leadership.may_act()
        except LeadershipLostError as lost:
            raise FencedError(f"job {self._job_id}", lost.epoch, lost.now) from lost

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Make a checkpoint, whose metadata is written, the newest completed one.

        Returns:
            Whether it was recorded. False: another jobmanager leads, and nothing was changed.

        Raises:
            django.db.DatabaseError: it is unknown whether it was recorded; call again.
        """
        metadata = checkpoint.metadata
        writer = writer_of_directory(checkpoint.location)
        values = {
            "location": checkpoint.location,
            "is_owned": checkpoint.is_owned,
            "is_savepoint": metadata.options.is_savepoint,
            "leader_epoch": self._leadership.epoch,
            "attempt": None if writer is None else writer.attempt,
            "triggered_at": metadata.timestamp_ms,
            "completed_at": self._clock.now_ms(),
            "size": sum(file.size for file in dict.fromkeys(metadata.files())),
        }
        try:
            with brief_connection(), self._leadership.fenced():
                Checkpoint.objects.update_or_create(
                    job_id=self._job_id, checkpoint_id=checkpoint.checkpoint_id, defaults=values
                )
                if checkpoint.statistics is not None:
                    write_statistics(self._job_id, checkpoint.statistics)
        except LeadershipLostError:
            return False
        self.statistics = checkpoint.statistics or self.statistics
        pointer = CheckpointPointer(checkpoint.checkpoint_id, checkpoint.location, checkpoint.is_owned)
        self._retained[pointer.checkpoint_id] = pointer
        return True

    def retained(self) -> list[CheckpointPointer]:
        """Return the completed checkpoints that have not been removed, oldest first."""
        return [self._retained[checkpoint_id] for checkpoint_id in sorted(self._retained)]

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Remove checkpoints from the store.

        If the job has ended, removing its last checkpoint waits until SQL records that end: a leader that took over in
        between would start the job without state. A savepoint to stop with that is removed before is given up. If the
        newest checkpoint goes, no later leader adopts the slots that have gone on behind it.

        Raises:
            JobGivenUpError: another leader continues the job.
            LeadershipLostError: another jobmanager leads already.
            django.db.DatabaseError: it is unknown whether they were removed.
        """
        gone = set(checkpoint_ids)
        if self._is_over and not self._retained.keys() - gone:
            self._end_is_saved.wait()
        if self._is_given_up:
            raise JobGivenUpError(self._job_id)
        savepoints = {p.location for p in self._retained.values() if p.checkpoint_id in gone and not p.is_owned}
        is_newest_gone = max(self._retained, default=None) in gone
        with brief_connection(), self._leadership.fenced():
            Checkpoint.objects.filter(job_id=self._job_id, checkpoint_id__in=gone).delete()
            if savepoints and not self._is_over:
                give_up_stop(self._job_id, savepoints)
            if is_newest_gone and not self._is_over:
                Placement.objects.filter(job_id=self._job_id).delete()
        for checkpoint_id in gone:
            self._retained.pop(checkpoint_id, None)

    def end(self, outcome: JobOutcome) -> None:
        """Note that the job has ended: `remove` waits for its row from now on."""
        self._is_over = True


def completed_checkpoints(job_id: str) -> list[CheckpointPointer]:
    """Read a job's completed checkpoints, oldest first; only for the leader that owns the job."""
    with transaction.atomic():
        rows = Checkpoint.objects.filter(job_id=job_id).order_by("checkpoint_id")
        return [CheckpointPointer(CheckpointId(row.checkpoint_id), row.location, row.is_owned) for row in rows]
