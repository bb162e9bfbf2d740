"""SqlCompletedStore: the completed checkpoints of one job as rows, written under the leader's epoch.

A checkpoint is complete because its row is there: what a JobMaster of an older leader still tries to complete finds
another epoch in SQL and is refused. Used by the job's storage thread, except that the rows are read by who makes the
store. Nobody but this leader writes them, so what was read stays true.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from django.db import transaction

from backend.cluster.connections import brief_connection
from backend.cluster.leadership import Leadership, LeadershipLostError
from backend.cluster.models import Checkpoint
from runtime.checkpoint.completed_store import CheckpointPointer, CompletedCheckpoint
from runtime.checkpoint.layout import writer_of_directory
from runtime.checkpoint.outcome import JobOutcome
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId


class JobGivenUpError(Exception):
    """The job belongs to another leader from now on: nothing of it may be forgotten or deleted here."""


class SqlCompletedStore:
    """Implements CompletedCheckpointStore.

    Args:
        leadership: whose writes these are.
        job_id: the job.
        retained: its completed checkpoints, oldest first, as `completed_checkpoints` has read them.
        clock: for people.
    """

    def __init__(
        self, leadership: Leadership, job_id: str, retained: Sequence[CheckpointPointer], clock: Clock
    ) -> None:
        self._leadership = leadership
        self._job_id = job_id
        self._retained = {pointer.checkpoint_id: pointer for pointer in retained}
        self._clock = clock
        self._is_over = False
        self._end_is_saved = threading.Event()
        self._is_given_up = False

    # --- the jobmanager's loop ----------------------------------------------------------------------------------------

    def end_is_saved(self) -> None:
        """The job's row says that it has ended: its last checkpoint is needed no more."""
        self._end_is_saved.set()

    def give_up(self) -> None:
        """Another leader will go on with the job."""
        self._is_given_up = True
        self._end_is_saved.set()

    # --- the thread of the storage ------------------------------------------------------------------------------------

    def complete(self, checkpoint: CompletedCheckpoint) -> bool:
        """Make a checkpoint, whose metadata has been written, the newest completed one.

        Returns:
            Whether it is. False: another jobmanager leads, and nothing was changed.

        Raises:
            django.db.DatabaseError: it is not known whether it is; call again.
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
        except LeadershipLostError:
            return False
        pointer = CheckpointPointer(checkpoint.checkpoint_id, checkpoint.location, checkpoint.is_owned)
        self._retained[pointer.checkpoint_id] = pointer
        return True

    def retained(self) -> list[CheckpointPointer]:
        """The completed checkpoints that have not been removed, oldest first."""
        return [self._retained[checkpoint_id] for checkpoint_id in sorted(self._retained)]

    def remove(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Let `retained` give these no more.

        Waits with the last one of a job that is over until SQL knows that it is: a leader that took over between the
        two would start the job from nothing.

        Raises:
            JobGivenUpError: another leader goes on with the job.
            LeadershipLostError: another leads already.
            django.db.DatabaseError: it is not known whether they are removed.
        """
        gone = set(checkpoint_ids)
        if self._is_over and not self._retained.keys() - gone:
            self._end_is_saved.wait()
        if self._is_given_up:
            raise JobGivenUpError(self._job_id)
        with brief_connection(), self._leadership.fenced():
            Checkpoint.objects.filter(job_id=self._job_id, checkpoint_id__in=gone).delete()
        for checkpoint_id in gone:
            self._retained.pop(checkpoint_id, None)

    def end(self, outcome: JobOutcome) -> None:
        """Have `remove` wait for the job's row, which says how it ended."""
        self._is_over = True


def completed_checkpoints(job_id: str) -> list[CheckpointPointer]:
    """A job's completed checkpoints, oldest first. By the leader that has the job."""
    with transaction.atomic():
        rows = Checkpoint.objects.filter(job_id=job_id).order_by("checkpoint_id")
        return [CheckpointPointer(CheckpointId(row.checkpoint_id), row.location, row.is_owned) for row in rows]
