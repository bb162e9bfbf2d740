"""LedOperations: observes the operations whose result is not recorded, and carries out what the machine decides.

Used by the jobmanager's loop. Whatever an earlier leader began is begun again, unless its result is recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backend.cluster.ages import Ages
from backend.cluster.checkpoint_home import cluster_storage
from backend.cluster.containment import DATABASE_AWAY, Containment
from backend.cluster.job_store import JobStore
from backend.cluster.leader_machine import (
    Answer,
    CancelJob,
    CarryOut,
    Conclude,
    Discard,
    Dispose,
    LeaderMachine,
    LeftSavepoint,
    OperationAction,
    OperationRow,
    SnapshotSeen,
)
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.led_jobs import LedJobs
from backend.cluster.left_savepoints import LeftSavepoints
from backend.cluster.models import Operation
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.snapshot_users import job_that_needs
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId

logger = logging.getLogger(__name__)

Document = dict[str, Any]


class LedOperations:
    """The operations of one leader.

    Args:
        machine: decides.
        store: reads and writes rows.
        jobs: the jobs that run here.
        disposal: deletes snapshots.
        left: looks at savepoints that earlier leaders have begun.
        clock: for the times in rows, and their ages.
        containment: contains failures.
    """

    def __init__(
        self,
        machine: LeaderMachine,
        store: JobStore,
        jobs: LedJobs,
        disposal: SnapshotDisposal,
        left: LeftSavepoints,
        clock: Clock,
        containment: Containment,
    ) -> None:
        self._machine = machine
        self._store = store
        self._jobs = jobs
        self._disposal = disposal
        self._left = left
        self._clock = clock
        self._containment = containment
        #: of the operations without a recorded result, by trigger id
        self._ages: Ages[str] = Ages(clock)

    def poll(self) -> None:
        """Begin or answer what is due."""
        rows: dict[str, Operation] = {row.trigger_id: row for row in self._store.due_operations()}
        self._ages.keep(rows)
        runners = self._jobs.seen_runners()
        actions: list[OperationAction] = []
        for row in rows.values():
            with self._contained(row):
                seen = self._observe(row)
                name = row.trigger_id
                disposals = {name: self._disposal.answer(name)} if name in self._disposal else {}
                actions += self._machine.operations([seen], runners, disposals)
        for action in actions:
            with self._contained(rows[action.trigger_id]):
                self._act(action, rows[action.trigger_id])

    @contextmanager
    def _contained(self, row: Operation) -> Iterator[None]:
        """Contain failures of the block; any but a database that is away answers the operation."""
        with self._containment.of(f"operation {row.trigger_id}"):
            try:
                yield
            except (*DATABASE_AWAY, LeadershipLostError):
                raise
            except Exception as error:
                # repeated, it would fail for ever
                logger.exception("operation %s (%s) cannot be carried out", row.trigger_id, row.kind)
                self._answer(row.trigger_id, {"error": f"the JobManager cannot carry it out: {error!r}"})

    def _observe(self, row: Operation) -> OperationRow:
        is_new_disposal = row.kind == Operation.Kind.DISPOSE and row.trigger_id not in self._disposal
        return OperationRow(
            row.trigger_id,
            row.kind,
            row.job_id,
            self._ages.of(row.trigger_id),
            is_begun=row.state != Operation.State.PENDING,
            job_state="" if row.job is None else row.job.state,
            snapshot=_snapshot(str(row.parameters.get("path", ""))) if is_new_disposal else None,
            left=self._left_of(row),
            ends_job=row.kind == Operation.Kind.STOP or bool(row.parameters.get("cancel_job")),
            follows=row.follows_id,
            followed_result=None if row.follows is None else row.follows.result,
        )

    def _left_of(self, row: Operation) -> LeftSavepoint | None:
        """Return what is left of the savepoint of an operation that nobody here carries out."""
        runner = self._jobs.runners.get(row.job_id or "")
        directory = (row.progress or {}).get("directory")
        if directory is None:
            return None
        if runner is not None and row.trigger_id in runner.requests.trigger_ids - runner.requests.premature.keys():
            return None
        return self._left.seen(row.trigger_id, directory)

    def _act(self, action: OperationAction, row: Operation) -> None:
        match action:
            case Answer(trigger_id, result):
                logger.info("operation %s (%s): %s", trigger_id, row.kind, result)
                self._answer(trigger_id, result)
            case CancelJob(_, job_id, is_begun):
                self._begin(row, is_begun)
                self._jobs.runners[job_id].cancel()
            case CarryOut(trigger_id, job_id, is_begun):
                runner = self._jobs.runners[job_id]
                row.progress = runner.progress_of(row)
                if row.progress is not None:
                    self._store.begin(row)
                else:
                    self._begin(row, is_begun)
                self._left.forget(trigger_id)
                logger.info("job %s: %s %s", job_id, row.kind, row.parameters)
                runner.carry_out(row)
            case Conclude(_, job_id, directory, checkpoint_id):
                logger.info("job %s: %s goes on from %s", job_id, row.kind, directory)
                self._jobs.runners[job_id].requests.conclude(row, directory, CheckpointId(checkpoint_id))
            case Discard(trigger_id, directory):
                self._left.discard(trigger_id, directory)
            case Dispose(trigger_id, directory, is_begun):
                self._begin(row, is_begun)
                self._disposal.dispose(trigger_id, directory, is_begun=is_begun)

    def _answer(self, trigger_id: str, result: Document) -> None:
        self._store.complete(trigger_id, result, self._clock.now_ms())
        self._disposal.forget(trigger_id)
        self._left.forget(trigger_id)

    def _begin(self, row: Operation, is_begun: bool) -> None:
        if not is_begun:
            self._store.begin(row)


def _snapshot(path: str) -> SnapshotSeen:
    try:
        directory = cluster_storage().files().directory_of(path)
    except CheckpointStorageError as error:
        return SnapshotSeen(error=str(error))
    return SnapshotSeen(directory, needed_by=job_that_needs(directory))
