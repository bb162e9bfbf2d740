"""The leader's SQL: every take-over and save is a transaction that holds the leader's epoch.

Called by the jobmanager's loop only, except `record_attempt`, `record_placements` and `give_up_stop`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Greatest

from backend.cluster.checkpoint_counts import read_statistics, write_statistics
from backend.cluster.checkpoint_home import cluster_storage, with_cluster_options
from backend.cluster.leader_machine import stop_in_vain
from backend.cluster.leadership import Leadership
from backend.cluster.location_checks import CheckLocation, StorageSilentError
from backend.cluster.models import (
    TERMINAL_STATES,
    Checkpoint,
    ClusterIdentity,
    Job,
    JobException,
    Operation,
    Placement,
    TaskManager,
)
from backend.cluster.open_stops import give_up_stop
from backend.cluster.placements import ClusterPlacement, write_placements
from backend.cluster.snapshot_users import Need, SnapshotUses, checkpoint_settings, lock_snapshots
from backend.cluster.storable import storable
from runtime.checkpoint.outcome import JobOutcome
from runtime.checkpoint.statistics import StatisticsRecord
from runtime.common.config_options import ConfigurationError
from runtime.common.configuration import Configuration
from runtime.core.ids import Attempt

logger = logging.getLogger(__name__)

#: fields of a job that the leader changes; the rest was written at submission
LEADER_FIELDS = (
    "state",
    "state_times",
    "ended_at",
    "attempt",
    "restarts",
    "waiting_for",
    "failure",
    "document",
    "requirements",
)
#: further fields that the leader changes if the job was rescaled
RESCALED_FIELDS = ("parallelism", "vertex_parallelism", "slots_required", "plan")
#: rows of a job's failures, with a stack trace each; fewer: users miss what came before; more: a job that fails every
#: second fills the database
KEPT_EXCEPTIONS = 100
#: rows of TaskManagers that have ended; every start of one has another row
KEPT_TASKMANAGERS = 100


class JobStore:
    """Reads and writes rows for the leader.

    Args:
        leadership: the leadership that fences all writes.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._epoch = leadership.epoch

    @property
    def epoch(self) -> int:
        """The leader's epoch."""
        return self._epoch

    def may_act(self) -> bool:
        """Return whether the leader's lease is valid.

        Raises:
            LeadershipLostError: another jobmanager leads.
        """
        return self._leadership.may_act()

    def without_runner(self, running: Iterable[str]) -> list[Job]:
        """Return jobs that have not ended and have no runner, oldest first: new ones, and ones of earlier leaders.

        Args:
            running: ids of the jobs that this leader runs.
        """
        rows = Job.objects.filter(leader_epoch__lte=self._epoch).exclude(state__in=TERMINAL_STATES)
        return list(rows.exclude(id__in=list(running)).order_by("created_at"))

    def row(self, job_id: str) -> Job:
        """Return the row of a job as it is now."""
        return Job.objects.get(id=job_id)

    def ended(self, jobs: Collection[str]) -> list[Job]:
        """Return those of some jobs that have ended; does not ask the database about no jobs."""
        return list(Job.objects.filter(id__in=list(jobs), state__in=TERMINAL_STATES)) if jobs else []

    def take(self, job: Job, exceptions: Sequence[dict[str, Any]] = (), *, adopts: bool = False) -> bool:
        """Take a job for this leader, about to begin the attempt in its row; no later leader will use that number.

        It is one write: if the response is lost, the row tells whether it was done.

        Args:
            job: its row, with the attempt that begins.
            exceptions: failures of earlier attempts.
            adopts: whether the attempt in the row goes on where it is placed; else it is placed nowhere yet.

        Returns:
            Whether the job was taken; False: a later leader has it.
        """
        with self._leadership.fenced():
            if not adopts:
                Placement.objects.filter(job_id=job.id).delete()
            if not self.save(job, exceptions):
                return False
        job.leader_epoch = self._epoch
        return True

    def record_attempt(self, job_id: str, attempt: Attempt, regions: Collection[int] = ()) -> bool:
        """Record that an attempt is about to begin, so that no later leader uses its number, or adopts an older one.

        Args:
            job_id: the job.
            attempt: its number.
            regions: those that begin.

        Returns:
            False if the job is not this leader's. Any thread.
        """
        with self._leadership.fenced():
            # another thread may have saved the job with a later attempt, of other regions
            mine = Job.objects.filter(id=job_id, leader_epoch=self._epoch)
            if mine.update(attempt=Greatest(F("attempt"), Value(attempt))) != 1:
                return False
            Placement.objects.filter(job_id=job_id, region__in=regions).delete()
        return True

    def record_placements(self, job_id: str, placements: Callable[[], Sequence[ClusterPlacement]]) -> None:
        """Record where regions run, for the next leader. Any thread.

        Args:
            job_id: the job; nothing is recorded of one that has ended, or is not this leader's.
            placements: returns them; called while no other write of this leader is in progress.
        """
        with self._leadership.fenced():
            mine = Job.objects.filter(id=job_id, leader_epoch=self._epoch)
            if mine.exclude(state__in=TERMINAL_STATES).exists():
                write_placements(job_id, placements())

    def record_statistics(self, job_id: str, record: StatisticsRecord) -> None:
        """Record the counts of a job's checkpoints: of those that have failed, too, which have no rows."""
        with self._leadership.fenced():
            if Job.objects.filter(id=job_id, leader_epoch=self._epoch).exists():
                write_statistics(job_id, record)

    def save(
        self,
        job: Job,
        exceptions: Sequence[dict[str, Any]],
        answers: Mapping[str, dict[str, Any]] | None = None,
        *,
        disowns: bool = False,
    ) -> bool:
        """Save the state of a job. An end is recorded once: whatever is saved after it changes nothing.

        Users' texts and numbers enter the row only here; all of them are made `storable`.

        Args:
            job: its row.
            exceptions: failures of attempts that this leader ran.
            answers: trigger id → result of operations that are recorded together with the job's state.
            disowns: whether the job has ended in a way that keeps its checkpoints: their files are left to users,
                whatever its retention.

        Returns:
            Whether the row has the job's state; False: a later leader has the job, or it has ended otherwise.
        """
        with self._leadership.fenced():
            fields = LEADER_FIELDS + (RESCALED_FIELDS if job.vertex_parallelism else ())
            values = {name: storable(getattr(job, name)) for name in fields}
            # the driver may have recorded a later attempt in the meantime
            values["attempt"] = Greatest(F("attempt"), Value(job.attempt))
            values["may_have_leftovers"] = job.is_terminal and not disowns
            mine = Job.objects.filter(id=job.id, leader_epoch__lte=self._epoch)
            if mine.exclude(state__in=TERMINAL_STATES).update(leader_epoch=self._epoch, **values) != 1:
                # if it ended like this, nobody heard that it was recorded, or something failed after that
                return mine.filter(state=job.state).exists()
            for trigger_id, result in (answers or {}).items():
                now = job.ended_at or job.state_times[job.state]
                self._finish(Operation.objects.filter(trigger_id=trigger_id), result, now)
            _write_failures(job.id, [storable(entry) for entry in exceptions])
            if job.is_terminal:
                self._complete(job)
        return True

    def known_exceptions(self, job: Job) -> list[dict[str, Any]]:
        """Return failures of earlier attempts, newest first."""
        names = (
            "timestamp",
            "name",
            "message",
            "stacktrace",
            "task_name",
            "vertex",
            "location",
            "taskmanager",
            "attempt",
            "suppressed",
        )
        rows = job.exceptions.order_by("-attempt").values(*names)[:KEPT_EXCEPTIONS]
        return [dict(row) for row in rows]

    def num_failures(self, job_id: str) -> int:
        """Return the number of all failures of a job, of which `known_exceptions` has the newest."""
        return int(Job.objects.values_list("num_failures", flat=True).get(id=job_id))

    def due_operations(self) -> list[Operation]:
        """Return all operations that are not completed, oldest first, whichever leader began them."""
        rows = Operation.objects.exclude(state=Operation.State.COMPLETED).order_by("created_at")
        return list(rows.select_related("job", "follows", "requested_by").defer("job__graph"))

    def request_stop(self, job_id: str, now: int) -> None:
        """Request the stop of a job of its own, with a savepoint, unless that is requested already.

        Args:
            job_id: the job.
            now: epoch ms.

        Raises:
            LeadershipLostError: another leader has taken over; nothing was changed.
        """
        kind = Operation.Kind.STOP
        with self._leadership.fenced():
            mine = Job.objects.filter(id=job_id, leader_epoch=self._epoch).exclude(state__in=TERMINAL_STATES)
            requested = Operation.objects.filter(job_id=job_id, kind=kind).exclude(state=Operation.State.COMPLETED)
            if mine.exists() and not requested.exists():
                parameters = {"target_directory": None, "drain": False, "format": "CANONICAL"}
                Operation.objects.create(job_id=job_id, kind=kind, parameters=parameters, created_at=now)

    def give_up_stop(self, job_id: str) -> None:
        """Record that a job goes on without the savepoint that it was to stop with, even if that is completed later.

        Raises:
            LeadershipLostError: another leader has taken over; nothing was changed.
        """
        with self._leadership.fenced():
            give_up_stop(job_id)

    def cluster_id(self) -> str:
        """Return the id that this cluster has on storages."""
        with self._leadership.fenced():
            return ClusterIdentity.get_id()

    def attempts(self) -> dict[str, int]:
        """Return the newest attempt of each job."""
        return dict(Job.objects.values_list("id", "attempt"))

    def attempts_in_use(self) -> dict[str, set[int]]:
        """Return job → the attempts in which regions of it run, of all jobs with any."""
        found: dict[str, set[int]] = {}
        for job_id, attempt in Placement.objects.values_list("job_id", "attempt"):
            found.setdefault(job_id, set()).add(attempt)
        return found

    def without_row(self, job_ids: Collection[str]) -> set[str]:
        """Return those of the jobs that have no row."""
        return set(job_ids) - set(Job.objects.values_list("id", flat=True))

    def leftovers(self, known: Iterable[str], check: CheckLocation) -> list[tuple[str, str]]:
        """Return ended jobs of which checkpoints may be left that they do not keep, with the root of their directories.

        The rows of checkpoints do not tell: they are deleted before their files, and what was never complete has none.

        Args:
            known: ids of the jobs that have a runner, which deletes them, or of which they are being deleted.
            check: checks the directories of jobs; jobs for which it has no answer yet are left out.
        """
        jobs = Job.objects.filter(may_have_leftovers=True, state__in=TERMINAL_STATES).exclude(id__in=list(known))
        found, kept = [], []
        for job in jobs.defer("document", "plan"):
            try:
                root = None if _keeps_checkpoints(job) else _checkpoint_root(job, check)
            except StorageSilentError:
                continue
            if root is None:
                kept.append(job.id)
            else:
                found.append((job.id, root))
        if kept:
            with self._leadership.fenced():
                Job.objects.filter(id__in=kept).update(may_have_leftovers=False)
        return found

    def took_checkpoints(self, job_id: str) -> bool:
        """Return whether a job may have written into a directory of its own.

        One that failed may have, and its files may be left; savepoints are elsewhere.
        """
        record = read_statistics(job_id)
        is_counted = record is not None and record.own > 0
        return is_counted or Checkpoint.objects.filter(job_id=job_id, is_savepoint=False).exists()

    def leftovers_are_deleted(self, job_id: str) -> None:
        """Record that nothing is left of the checkpoints of an ended job."""
        with self._leadership.fenced():
            Checkpoint.objects.filter(job_id=job_id).delete()
            Job.objects.filter(id=job_id).update(may_have_leftovers=False)

    def begin(self, operation: Operation) -> bool:
        """Mark an operation as in progress, and record its progress; return False if it is completed."""
        with self._leadership.fenced():
            open_ones = Operation.objects.filter(trigger_id=operation.trigger_id)
            open_ones = open_ones.exclude(state=Operation.State.COMPLETED)
            return open_ones.update(state=Operation.State.IN_PROGRESS, progress=operation.progress) == 1

    def begin_disposal(self, operation: Operation, directory: str, uses: SnapshotUses) -> tuple[bool, Need | None]:
        """Mark a disposal as in progress unless somebody needs the snapshot by now; nobody begins to use it after that.

        Args:
            operation: the disposal.
            directory: URI of the snapshot's directory.
            uses: what jobs were started from, as it was when the disposal was decided.

        Returns:
            Whether it may begin, and who is in its way.
        """
        with self._leadership.fenced():
            lock_snapshots()
            need = uses.renewed().hindering_deletion(directory)
            if need is not None:
                return False, need
            operation.progress = {"directory": directory}
            return self.begin(operation), None

    def complete(self, trigger_id: str, result: dict[str, Any], now: int) -> None:
        """Save the result of an operation, unless it has one."""
        with self._leadership.fenced():
            self._finish(Operation.objects.filter(trigger_id=trigger_id), result, now)

    def save_taskmanager(self, row: TaskManager) -> None:
        """Save a new or changed TaskManager."""
        row.epoch = self._epoch
        with self._leadership.fenced():
            row.save()

    def taskmanager_gone(self, name: str, state: TaskManager.State, now: int) -> list[str]:
        """Save that a TaskManager has ended or was lost; forget those that ended long before.

        Returns:
            The workers of those that are forgotten.
        """
        with self._leadership.fenced():
            TaskManager.objects.filter(id=name).update(state=state, last_heartbeat=now, epoch=self._epoch)
            ended = TaskManager.objects.exclude(state=TaskManager.State.REGISTERED).order_by("-last_heartbeat", "id")
            old = dict(ended.values_list("id", "worker_name")[KEPT_TASKMANAGERS:])
            if old:
                TaskManager.objects.filter(id__in=old).delete()
        return list(old.values())

    def registered_taskmanagers(self) -> set[str]:
        """Return the ids of the TaskManagers whose rows say that they are there."""
        rows = TaskManager.objects.filter(state=TaskManager.State.REGISTERED)
        return set(rows.values_list("id", flat=True))

    def _complete(self, job: Job) -> None:
        """Answer what the end of a job answers, but for savepoints that may be complete: they are looked at first."""
        now = job.ended_at or 0
        Placement.objects.filter(job_id=job.id).delete()
        newest = job.checkpoints.order_by("checkpoint_id").last() if job.state == "FINISHED" else None
        if newest is not None and newest.is_savepoint:
            # its leader is gone, or has not said so yet; whoever has asked again was given another directory
            stops = job.operations.filter(kind=Operation.Kind.STOP, progress__directory__isnull=False)
            self._finish(stops, {"location": newest.location, "checkpoint_id": newest.checkpoint_id}, now)
        # a cancellation that came too late gets a result, too
        self._finish(job.operations.filter(kind=Operation.Kind.CANCEL), {"state": job.state}, now)
        begun = Q(progress__isnull=False) | Q(follows__progress__isnull=False)
        rest = job.operations.exclude(begun)
        if job.state == "FINISHED":
            self._finish(rest.filter(kind=Operation.Kind.STOP), stop_in_vain(job.state), now)
        self._finish(rest, {"error": f"the job is {job.state}"}, now)

    def _finish(self, operations: QuerySet[Operation], result: dict[str, Any], now: int) -> None:
        """Record the result of operations, and of those that follow them."""
        answered = [*operations.exclude(state=Operation.State.COMPLETED).values_list("trigger_id", flat=True)]
        if answered:
            same = Operation.objects.filter(Q(trigger_id__in=answered) | Q(follows__in=answered))
            same.exclude(state=Operation.State.COMPLETED).update(
                state=Operation.State.COMPLETED, result=storable(result), finished_at=now
            )


def _write_failures(job_id: str, entries: Sequence[dict[str, Any]]) -> None:
    """Write failures of a job, count those that are new, and keep the newest ones only."""
    if not entries:
        return
    rows = JobException.objects.filter(job_id=job_id)
    newest = list(rows.order_by("-attempt").values_list("attempt", flat=True)[:KEPT_EXCEPTIONS])
    # attempts rise: an earlier failure than all that are kept was counted when it was written, and dropped since
    oldest = newest[-1] if len(newest) == KEPT_EXCEPTIONS else 0
    num_new = 0
    for entry in entries:
        if entry["attempt"] >= oldest:
            values = {name: value for name, value in entry.items() if name != "attempt"}
            _, is_new = rows.update_or_create(job_id=job_id, attempt=entry["attempt"], defaults=values)
            num_new += is_new
    if num_new:
        Job.objects.filter(id=job_id).update(num_failures=F("num_failures") + num_new)
        kept = rows.order_by("-attempt").values_list("attempt", flat=True)[:KEPT_EXCEPTIONS]
        rows.filter(attempt__lt=min(kept)).delete()


def _keeps_checkpoints(job: Job) -> bool:
    """Return whether the checkpoints of an ended job are retained."""
    try:
        return checkpoint_settings(job).retention.keeps(JobOutcome(job.state))
    except (ConfigurationError, KeyError, TypeError, ValueError):
        # its retention is unknown
        return True


def _checkpoint_root(job: Job, check: CheckLocation) -> str | None:
    """Return the directory of all jobs' checkpoints that a job used; None if it is no longer allowed."""
    storage = cluster_storage()
    try:
        given = with_cluster_options(job.graph["configuration"], storage, check)
    except ConfigurationError as error:
        logger.warning("checkpoints that job %s may have left are not deleted: %s", job.id, error)
        return None
    return storage.checkpoints_of(Configuration.from_dict(given))
