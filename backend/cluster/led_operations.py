"""LedOperations: observes the operations whose result is not recorded, and carries out what the machine decides.

Used by the jobmanager's loop. Whatever an earlier leader began is begun again, unless its result is recorded.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from backend.cluster.ages import Ages
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
    TargetSeen,
    disposal_refused,
)
from backend.cluster.leadership import LeadershipLostError
from backend.cluster.led_jobs import LedJobs
from backend.cluster.left_savepoints import LeftSavepoints
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import Operation
from backend.cluster.snapshot_disposal import SnapshotDisposal
from backend.cluster.snapshot_users import SnapshotUses
from runtime.checkpoint.errors import CheckpointStorageError
from runtime.checkpoint.snapshot_files import snapshot_directory
from runtime.core.clock import Clock
from runtime.core.ids import CheckpointId

logger = logging.getLogger(__name__)

Document = dict[str, Any]

MAX_LOOKS = 16
"""Disposals that may begin in a poll; more wait for the next one. More: whoever disposes of very many savepoints at
once has all else wait; fewer: they take longer than the storage needs."""


class LedOperations:
    """The operations of one leader.

    Args:
        machine: decides.
        store: reads and writes rows.
        jobs: the jobs that run here.
        disposal: deletes snapshots.
        left: looks at savepoints that earlier leaders have begun.
        check: checks locations that users name; raises StorageSilentError while there is no answer.
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
        check: CheckLocation,
        clock: Clock,
        containment: Containment,
    ) -> None:
        self._machine = machine
        self._store = store
        self._jobs = jobs
        self._disposal = disposal
        self._left = left
        self._check = check
        self._clock = clock
        self._containment = containment
        #: of the operations without a recorded result, by trigger id
        self._ages: Ages[str] = Ages(clock)
        #: of those that wait for a storage: trigger id → which one
        self._silent: dict[str, str] = {}
        #: of the disposals that have not begun: trigger id → how many polls have looked at it
        self._looks: dict[str, int] = {}
        #: what jobs were started from, of the present poll; None: nobody has asked
        self._uses: SnapshotUses | None = None

    def poll(self) -> None:
        """Begin or answer what is due."""
        rows: dict[str, Operation] = {row.trigger_id: row for row in self._store.due_operations()}
        self._ages.keep(rows)
        self._disposal.keep(rows)
        self._left.keep(rows)
        self._silent = {name: why for name, why in self._silent.items() if name in rows}
        self._uses = None
        later = self._later(rows)
        runners = self._jobs.seen_runners()
        actions: list[OperationAction] = []
        for row in rows.values():
            if row.trigger_id in later:
                continue
            with self._contained(row):
                seen = self._observe(row)
                name = row.trigger_id
                disposals = {name: self._disposal.answer(name)} if name in self._disposal else {}
                actions += self._machine.operations([seen], runners, disposals)
        for action in actions:
            with self._contained(rows[action.trigger_id]):
                self._act(action, rows[action.trigger_id])
        self._tell(rows.values())

    def _tell(self, rows: Iterable[Operation]) -> None:
        """Give each runner the operations on its job, for its document."""
        open_ones: defaultdict[str, list[Document]] = defaultdict(list)
        for row in rows:
            # one that follows another is the same, asked for again
            if row.job_id is not None and row.follows_id is None:
                open_ones[row.job_id].append(open_operation(row))
        for job_id, runner in self._jobs.runners.items():
            runner.open_operations = open_ones.get(job_id, [])

    def _later(self, rows: Mapping[str, Operation]) -> set[str]:
        """Return the disposals that this poll leaves alone: those that were looked at most often, as their storage does
        not answer, and then the newest ones.
        """
        new = [row for row in rows.values() if row.kind == Operation.Kind.DISPOSE]
        names = [row.trigger_id for row in new if row.trigger_id not in self._disposal]
        looks = {name: self._looks.get(name, 0) for name in names}
        names.sort(key=looks.__getitem__)
        self._looks = looks | {name: looks[name] + 1 for name in names[:MAX_LOOKS]}
        return set(names[MAX_LOOKS:])

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
        snapshot = self._snapshot(str(row.parameters.get("path", ""))) if is_new_disposal else None
        target = None if self._is_carried_out(row) else self._target(row)
        self._note_silence(row, snapshot or target)
        return OperationRow(
            row.trigger_id,
            row.kind,
            row.job_id,
            self._ages.of(row.trigger_id),
            is_begun=row.state != Operation.State.PENDING,
            job_state="" if row.job is None else row.job.state,
            held_up=self._jobs.held_up.get(row.job_id or "", ""),
            target=target,
            snapshot=snapshot,
            left=self._left_of(row),
            ends_job=row.kind == Operation.Kind.STOP or bool(row.parameters.get("cancel_job")),
            is_given_up="is_given_up" in (row.progress or {}),
            follows=row.follows_id,
            followed_result=None if row.follows is None else row.follows.result,
        )

    def _left_of(self, row: Operation) -> LeftSavepoint | None:
        """Return what is left of the savepoint of an operation that nobody here carries out."""
        directory = (row.progress or {}).get("directory")
        if directory is None or row.kind == Operation.Kind.DISPOSE:
            return None
        return None if self._is_carried_out(row) else self._left.seen(row.trigger_id, directory)

    def _is_carried_out(self, row: Operation) -> bool:
        """Return whether the runner of the operation's job has it, and not in vain."""
        runner = self._jobs.runners.get(row.job_id or "")
        return runner is not None and row.trigger_id in runner.requests.trigger_ids - runner.requests.premature.keys()

    def _target(self, row: Operation) -> TargetSeen | None:
        given = row.parameters.get("target_directory")
        if row.kind not in (Operation.Kind.SAVEPOINT, Operation.Kind.STOP) or not given:
            return None
        try:
            return TargetSeen(self._check(str(given)))
        except CheckpointStorageError as error:
            return TargetSeen(error=str(error))
        except StorageSilentError as silent:
            return TargetSeen(silent=str(silent))

    def _snapshot(self, path: str) -> SnapshotSeen:
        try:
            directory = snapshot_directory(self._check(path))
            need = self._read_uses().hindering_deletion(directory)
            return SnapshotSeen(directory, needed_by="" if need is None else need.who)
        except CheckpointStorageError as error:
            return SnapshotSeen(error=str(error))
        except StorageSilentError as silent:
            return SnapshotSeen(silent=str(silent))

    def _read_uses(self) -> SnapshotUses:
        if self._uses is None:
            self._uses = SnapshotUses.read(self._check)
        return self._uses

    def _note_silence(self, row: Operation, seen: SnapshotSeen | TargetSeen | None) -> None:
        silent = "" if seen is None else seen.silent
        if silent and self._silent.get(row.trigger_id) != silent:
            logger.warning("operation %s (%s) waits: %s", row.trigger_id, row.kind, silent)
        self._silent[row.trigger_id] = silent

    def _act(self, action: OperationAction, row: Operation) -> None:
        match action:
            case Answer(trigger_id, result):
                logger.info("operation %s (%s): %s", trigger_id, row.kind, result)
                self._answer(trigger_id, result)
            case CancelJob(_, job_id, is_begun):
                self._begin(row, is_begun)
                self._jobs.runners[job_id].cancel()
            case CarryOut(trigger_id, job_id, is_begun, target):
                runner = self._jobs.runners[job_id]
                row.progress = runner.progress_of(row, target)
                if not self._begin(row, is_begun and row.progress is None):
                    # answered meanwhile, with the end of its job
                    return
                self._left.forget(trigger_id)
                logger.info("job %s: %s %s", job_id, row.kind, row.parameters)
                runner.carry_out(row)
                # the bounds of a job that waits are changed at once
                self._jobs.unsaved.add(job_id)
            case Conclude(_, job_id, directory, checkpoint_id):
                logger.info("job %s: %s goes on from %s", job_id, row.kind, directory)
                self._jobs.runners[job_id].requests.conclude(row, directory, CheckpointId(checkpoint_id))
            case Discard(trigger_id, directory):
                self._left.discard(trigger_id, directory)
            case Dispose(trigger_id, directory, is_begun):
                may_begin, need = self._store.begin_disposal(row, directory, self._read_uses())
                if need is not None:
                    # it was submitted meanwhile
                    self._answer(trigger_id, disposal_refused(need.who))
                elif may_begin:
                    self._disposal.dispose(trigger_id, directory, is_begun=is_begun)

    def _answer(self, trigger_id: str, result: Document) -> None:
        self._store.complete(trigger_id, result, self._clock.now_ms())
        self._disposal.forget(trigger_id)
        self._left.forget(trigger_id)

    def _begin(self, row: Operation, is_begun: bool) -> bool:
        """Record that an operation begins, unless that is recorded; return False if it has a result."""
        return is_begun or self._store.begin(row)


def open_operation(row: Operation) -> Document:
    """Return the `OpenOperation` of a row."""
    return {
        "trigger_id": row.trigger_id,
        "kind": row.kind,
        "is_begun": row.state != Operation.State.PENDING,
        "since": row.created_at,
        "requested_by": "" if row.requested_by is None else row.requested_by.get_username(),
    }
